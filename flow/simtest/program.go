package simtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// step is one thing that a program asks of its Context.
type step struct {
	do       string // call, gate, sleep, nap, now, emit, group
	as       string // added to its key by who has renamed it
	gone     bool
	first    string // what was put before it: call or gate
	class    flow.Class
	b        Behaviour
	retries  int
	reserve  int64
	bound    string // that it reserves
	ask      bool
	timeout  time.Duration
	fatal    bool // a failure ends the sequence; else the program takes it for an answer
	keep     bool
	limit    int
	expires  bool
	branches [][]step
}

// program is a generated flow: segments, each a sequence of steps.
type program struct {
	segments [][]step
	limit    int64
	bound    string // that limit bounds
	wall     int64  // milliseconds
	linger   bool
	revises  bool
	cancels  bool
	settled  bool
}

// Generate makes a program of its own out of choices. Zeros make the smallest one.
func Generate(pick *Choices) *Case {
	p := &program{settled: pick.Of(2) == 1, bound: "tool_calls"}
	g := generator{pick: pick, p: p}
	p.linger = pick.One(3)
	if !p.settled {
		p.revises = pick.One(4)
		p.cancels = pick.One(4)
		if pick.One(3) {
			if p.limit = int64(1 + pick.Of(5)); pick.One(2) {
				p.bound = flow.Tokens // which the run holds when an attempt is lost
			}
		}
		if pick.One(6) {
			p.wall = int64(5 * (1 + pick.Of(5)))
		}
	}
	// Most are small: what goes wrong goes wrong between few.
	for range 1 + pick.Of(8)/7 {
		depth, most := 1, 2
		if pick.One(4) {
			depth, most = 2, 3
		}
		p.segments = append(p.segments, g.sequence(depth, most))
	}
	return p.asCase()
}

type generator struct {
	pick *Choices
	p    *program
}

func (g *generator) sequence(depth, most int) (out []step) {
	for range 1 + g.pick.Of(most) {
		out = append(out, g.step(depth))
	}
	return out
}

func (g *generator) step(depth int) step {
	pick := g.pick
	kinds := []string{"call", "call", "call", "group", "group", "group", "gate", "emit", "now", "nap", "sleep"}
	if depth == 0 {
		kinds = []string{"call", "call", "call", "call", "call", "gate", "emit", "now", "nap", "sleep"}
	}
	st := step{do: kinds[pick.Of(len(kinds))]}
	switch st.do {
	case "call":
		g.call(&st)
	case "gate":
		st.fatal = pick.Of(2) == 1
		st.expires = !g.p.settled && pick.One(6)
	case "group":
		st.keep = pick.One(3)
		st.limit = []int{0, 0, 1, 2}[pick.Of(4)]
		for range 2 + pick.Of(2) {
			st.branches = append(st.branches, g.sequence(depth-1, 2))
		}
		st.fatal = pick.Of(2) == 1
	}
	return st
}

func (g *generator) call(st *step) {
	pick := g.pick
	st.class = []flow.Class{flow.Read, flow.Once, flow.Idempotent}[pick.Of(3)]
	once := st.class == flow.Once
	st.b.End = []int{Answers, Answers, Answers, Bad, Bad, Lost, Suspends, Refused, Hangs, Panics}[pick.Of(10)]
	st.fatal = !g.p.settled && pick.Of(2) == 1
	switch {
	case st.b.End == Suspends && once:
		st.b.End = Answers
	case st.b.End == Hangs && once && g.p.settled:
		st.b.End = Answers // its time may be over before it began
	case st.b.End == Hangs:
		st.timeout = time.Second
	case st.b.End == Panics && !once:
		st.b.End = Answers // a panic of deterministic reads interrupts: tried by flowtest
	case st.b.End == Bad && once && g.p.settled:
		st.b.End = Answers // in doubt it may be given a result instead
	}
	if !once && st.b.End != Suspends {
		st.b.Fails = pick.Of(3)
		st.retries = st.b.Fails
		if pick.One(4) {
			st.retries = pick.Of(3)
		}
	}
	st.b.Stops = once && pick.One(3)
	st.b.Mute = st.b.Stops && pick.One(2)
	st.b.Waits = st.b.Stops && pick.One(2)
	st.b.Prompt = pick.One(3) && st.b.End != Hangs
	st.b.Notes = pick.One(6)
	if pick.One(5) {
		st.b.Uses = 1 + pick.Of(3)
	}
	st.reserve, st.bound = int64(pick.Of(2)), g.p.bound
	if pick.One(5) {
		st.b.More = 1
	}
	st.ask = pick.One(4)
	if g.p.settled && st.b.Fails > st.retries { // else it depends on whether a failure was heard of
		st.b.Fails = st.retries
	}
}

// asCase joins the program with a world that behaves as it says.
func (p *program) asCase() *Case {
	behave := map[string]Behaviour{}
	for i, seq := range p.segments {
		each(seq, fmt.Sprint("s", i), func(path string, st *step) { behave[path] = st.b })
	}
	c := &Case{Text: p.String(), Flow: p.flow, Root: "root", Input: flow.JSON(state{}), Acts: []string{"work"},
		Behave:  func(path string) Behaviour { return behave[path[strings.IndexByte(path, '/')+1:]] },
		Settled: p.settled, Cancels: p.cancels, Edit: p.edit}
	c.Limits = flow.Use{}
	if p.limit > 0 {
		c.Limits[p.bound], c.Holds = p.limit, p.bound == flow.Tokens
	}
	if p.wall > 0 {
		c.Limits[flow.WallTime] = p.wall
	}
	if p.linger {
		c.Linger = time.Minute
	}
	if p.revises {
		c.Revise = func(flow.History, string) json.RawMessage { return flow.JSON(state{}) }
	}
	return c
}

func each(seq []step, path string, visit func(string, *step)) {
	for i := range seq {
		st := &seq[i]
		switch st.do {
		case "call":
			visit(fmt.Sprintf("%s/%d", path, i), st)
		case "group":
			for k, b := range st.branches {
				each(b, fmt.Sprintf("%s/g%d/%d", path, i, k), visit)
			}
		}
	}
}

type state struct {
	I   int
	Got []string
}

func (p *program) flow(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
	var st state
	if err := json.Unmarshal(in, &st); err != nil {
		return nil, err
	}
	got, err := run(fc.At(fmt.Sprint("s", st.I)), p.segments[st.I])
	if err != nil {
		return nil, err
	}
	st.Got = append(st.Got, got)
	if st.I++; st.I < len(p.segments) {
		return nil, flow.Continue(flow.JSON(st))
	}
	return flow.JSON(st.Got), nil
}

// run is a sequence. Like the walkers of real programs it says what became of each
// step, also of those that were cancelled.
func run(fc flow.Context, seq []step) (string, error) {
	var out strings.Builder
	for i := range seq {
		if seq[i].gone {
			continue
		}
		if seq[i].first != "" {
			added := seq[i].addition()
			if _, err := added.run(fc, i); err != nil {
				return "", err
			}
		}
		said, err := seq[i].run(fc, i)
		if flow.Parked(err) {
			return "", err
		}
		fc.Emit(flow.Event{Kind: "plan.step", Body: said})
		if err != nil {
			return "", err
		}
		out.WriteString(said + ";")
	}
	return out.String(), nil
}

func (st *step) run(fc flow.Context, i int) (string, error) {
	at := fc
	if st.as != "" {
		at = fc.At(st.as)
	}
	switch st.do {
	case "call":
		return st.call(fc, i)
	case "group":
		return st.group(fc.At(fmt.Sprint("g", i) + st.as))
	case "gate":
		q := flow.Gate{Key: fmt.Sprint("q", i) + st.as, Kind: "question", Question: "Go on?", Actions: []string{"yes", "no"}, Deny: "no"}
		if st.expires {
			q.Expires = time.Minute
		}
		d, err := fc.Wait(q)
		if err == nil && d.Action == "no" && st.fatal {
			err = &flow.Error{Code: "denied"}
		}
		return told(d.Action, err)
	case "sleep":
		return told("slept", at.Sleep(time.Hour))
	case "nap":
		return told("slept", at.Sleep(10*time.Millisecond))
	case "now":
		at.Now()
		return "now", nil
	}
	at.Emit(flow.Event{Kind: "agent.said", Body: i})
	return "said", nil
}

// told is what a step says of its outcome.
func told(value string, err error) (string, error) {
	var e *flow.Error
	switch {
	case err == nil:
		return value, nil
	case errors.As(err, &e):
		return "!" + e.Code, err
	case errors.Is(err, flow.ErrCancelled):
		return "cancelled", err
	}
	return "", err
}

func (st *step) call(fc flow.Context, i int) (string, error) {
	c := flow.Call{Key: fmt.Sprint(i) + st.as, Name: "work", Class: st.class, Input: flow.JSON(i), Timeout: st.timeout, Ask: st.ask}
	if st.retries > 0 {
		c.Retry = flow.Retry{Max: st.retries, Backoff: 10 * time.Millisecond}
	}
	if st.reserve > 0 {
		c.Reserve = flow.Use{st.bound: st.reserve}
	}
	r, err := fc.Do(c)
	said, err := told(string(r.Value), err)
	if e := (*flow.Error)(nil); errors.As(err, &e) && !st.fatal {
		err = nil
	}
	return said, err
}

func (st *step) group(fc flow.Context) (string, error) {
	values := make([]string, len(st.branches))
	list := make([]flow.Branch, len(st.branches))
	for k, b := range st.branches {
		list[k].Run = func(fc flow.Context) (err error) {
			growStack()
			values[k], err = run(fc, b)
			return err
		}
	}
	err := fc.Go(flow.Group{Limit: st.limit, KeepGoing: st.keep}, list...)
	said, err := told("", err)
	if e := (*flow.Error)(nil); errors.As(err, &e) && !st.fatal {
		return said, nil
	}
	return said + "[" + strings.Join(values, "|") + "]", err
}

// String shows a program as people would write it down.
func (p *program) String() string {
	var b strings.Builder
	for _, f := range []struct {
		set  bool
		what string
	}{{p.settled, "settled "}, {p.linger, "lingers "}, {p.revises, "corrected "}, {p.cancels, "cancelled "}, {p.limit > 0, fmt.Sprint("limit ", p.limit, " ", p.bound, " ")}, {p.wall > 0, fmt.Sprint("wall time ", p.wall, " ms")}} {
		if f.set {
			b.WriteString(f.what)
		}
	}
	b.WriteByte('\n')
	for _, seq := range p.segments {
		show(&b, seq, "\t")
	}
	return b.String()
}

func show(b *strings.Builder, seq []step, in string) {
	ends := []string{"answers", "bad", "lost", "hangs", "suspends", "panics", "refused"}
	for i, st := range seq {
		fmt.Fprintf(b, "%s%d %s", in, i, st.do)
		if st.do == "call" {
			fmt.Fprintf(b, " %s %s", st.class, ends[st.b.End])
		}
		for _, f := range []struct {
			set  bool
			what string
		}{{st.fatal, "fatal"}, {st.keep, "keeps going"}, {st.limit > 0, fmt.Sprint("limit ", st.limit)}, {st.expires, "expires"}, {st.b.Fails > 0, fmt.Sprint("fails ", st.b.Fails)},
			{st.retries > 0, fmt.Sprint("retries ", st.retries)}, {st.reserve > 0, "reserves"}, {st.b.More > 0, "more"}, {st.b.Uses > 0, fmt.Sprint("uses ", st.b.Uses-1)}, {st.ask, "asks"}, {st.b.Stops, "stops"}, {st.b.Mute, "says nothing"}, {st.b.Waits, "is awaited"}, {st.b.Prompt, "prompt"}} {
			if f.set {
				b.WriteString(", " + f.what)
			}
		}
		b.WriteByte('\n')
		for k, branch := range st.branches {
			fmt.Fprintf(b, "%s  branch %d\n", in, k)
			show(b, branch, in+"\t")
		}
	}
}

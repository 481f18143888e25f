package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"pgregory.net/rapid"
)

// tree is a random program: steps one after the other, some of them groups of
// further sequences.
type tree []node

// node is one step. Exactly one of its parts is set.
type node struct {
	Call  *work
	Group *group
	Gate  bool
	Sleep time.Duration
	Now   bool
	Emit  bool
}

// work is a call; it travels as its own input, so the world knows what to do.
type work struct {
	Class   flow.Class
	Fails   int  // attempts that fail and are tried again
	Bad     bool // it has a definite failure, which the program takes for an answer
	Fatal   bool // it has a definite failure, which the program returns
	Lost    bool // of once: nobody hears of its outcome
	Reserve bool
	More    int // it asks for so many more while it runs
}

type group struct {
	Limit    int
	Keep     bool
	Branches []tree
}

// shape says what random programs may contain.
type shape struct{ fatal bool }

func (s shape) segments(t *rapid.T) segments {
	var out segments
	for range rapid.IntRange(1, 2).Draw(t, "segments") {
		out = append(out, s.draw(t, 2))
	}
	return out
}

func (s shape) draw(t *rapid.T, depth int) tree {
	n := rapid.IntRange(1, 4).Draw(t, "steps")
	var out tree
	for range n {
		out = append(out, s.step(t, depth))
	}
	return out
}

func (s shape) step(t *rapid.T, depth int) node {
	kinds := []string{"call", "call", "call", "gate", "sleep", "nap", "now", "emit"}
	if depth > 0 {
		kinds = append(kinds, "group", "group")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "gate":
		return node{Gate: true}
	case "sleep":
		return node{Sleep: time.Hour}
	case "nap":
		return node{Sleep: time.Millisecond}
	case "now":
		return node{Now: true}
	case "emit":
		return node{Emit: true}
	case "group":
		return node{Group: s.group(t, depth-1)}
	}
	return node{Call: s.call(t)}
}

func (s shape) group(t *rapid.T, depth int) *group {
	g := &group{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Keep: rapid.Bool().Draw(t, "keep")}
	for range rapid.IntRange(1, 4).Draw(t, "branches") {
		g.Branches = append(g.Branches, s.draw(t, depth))
	}
	return g
}

func (s shape) call(t *rapid.T) *work {
	w := &work{
		Class:   rapid.SampledFrom([]flow.Class{flow.Read, flow.Idempotent, flow.Once}).Draw(t, "class"),
		Reserve: rapid.Bool().Draw(t, "reserve"),
		More:    rapid.IntRange(0, 2).Draw(t, "more"),
	}
	end := rapid.IntRange(0, 9).Draw(t, "end")
	switch {
	case end == 0 && (s.fatal || w.Class != flow.Once):
		w.Bad = true // a once call in doubt may be given a result instead
	case end == 1 && s.fatal:
		w.Fatal = true
	case end == 2 && w.Class == flow.Once:
		w.Lost = true
	}
	if w.Class != flow.Once {
		w.Fails = rapid.IntRange(0, 2).Draw(t, "fails")
	}
	return w
}

// answer is how the world answers a call of a random program.
func (w *work) answer(a flow.Attempt) (flow.Done, error) {
	for range w.More {
		_ = a.Reserve(flow.Use{"tool_calls": 1}) // refused or not, it goes on
	}
	switch {
	case a.N <= w.Fails:
		return flow.Done{}, &flow.Error{Code: "flaky", Retry: true}
	case w.Bad:
		return flow.Done{}, &flow.Error{Code: "bad", Answered: true}
	case w.Fatal:
		return flow.Done{}, &flow.Error{Code: "fatal", Answered: true}
	case w.Lost:
		return flow.Done{}, errors.New("connection lost")
	}
	return flow.Done{Value: a.Input}, nil
}

func answerWork(_ context.Context, a flow.Attempt) (flow.Done, error) {
	var w work
	if err := json.Unmarshal(a.Input, &w); err != nil {
		return flow.Done{}, &flow.Error{Code: "malformed", Answered: true}
	}
	return w.answer(a)
}

// segments are programs one after the other, each in a history of its own.
type segments []tree

// at is where a segment runs. It is part of the path so that the world can tell
// the calls of two segments apart.
func (s segments) at(i int) string { return fmt.Sprint("s", i) }

// flow runs the programs. Its value says what every step answered.
func (s segments) flow(r *rig) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		var state struct {
			I   int
			Got []string
		}
		if err := json.Unmarshal(in, &state); err != nil {
			return nil, err
		}
		r.forget()
		v, err := s[state.I].run(r, fc.At(s.at(state.I)))
		if err != nil {
			return nil, err
		}
		state.Got = append(state.Got, v)
		if state.I++; state.I < len(s) {
			return nil, flow.Continue(flow.JSON(state))
		}
		return flow.JSON(state.Got), nil
	}
}

// value is what programs without fatal failures must return, worked out without
// an engine.
func (s segments) value() string {
	var values []string
	for _, p := range s {
		values = append(values, p.value())
	}
	return string(flow.JSON(values))
}

// each visits all steps with their paths.
func (s segments) each(visit func(path string, n node)) {
	for i, p := range s {
		p.each("root/"+s.at(i), visit)
	}
}

// String shows the programs in failure messages.
func (s segments) String() string { return string(flow.JSON(s)) }

func (p tree) run(r *rig, fc flow.Context) (string, error) {
	var out strings.Builder
	for i, n := range p {
		v, err := n.run(r, fc, i)
		r.see(fmt.Sprint(fc.Path(), " ", i), v, coded(err))
		if err != nil {
			return "", err
		}
		out.WriteString(v + ";")
	}
	return out.String(), nil
}

func (n node) run(r *rig, fc flow.Context, i int) (string, error) {
	switch {
	case n.Call != nil:
		return n.Call.run(fc, i)
	case n.Group != nil:
		return n.Group.run(r, fc.At(fmt.Sprint("n", i)))
	case n.Gate:
		d, err := fc.Wait(question(fmt.Sprint("g", i)))
		return d.Action, err
	case n.Sleep > 0:
		return "slept", fc.Sleep(n.Sleep)
	case n.Now:
		fc.Now()
		return "now", nil
	}
	fc.Emit(flow.Event{Kind: "agent.said", Body: i})
	return "said", nil
}

func (w *work) run(fc flow.Context, i int) (string, error) {
	c := call(w.Class, fmt.Sprint("c", i), w)
	if w.Fails > 0 {
		c.Retry = flow.Retry{Max: w.Fails, Backoff: time.Millisecond, Factor: 1}
	}
	if w.Reserve {
		c.Reserve = flow.Use{"tool_calls": 1}
	}
	_, err := fc.Do(c)
	if code := coded(err); code == "bad" || code == flow.CodeBoundExceeded {
		return code, nil
	}
	return "ok", err
}

func (g *group) run(r *rig, fc flow.Context) (string, error) {
	values := make([]string, len(g.Branches))
	var list []flow.Branch
	for k, b := range g.Branches {
		list = append(list, flow.Branch{Run: func(fc flow.Context) (err error) {
			values[k], err = b.run(r, fc)
			return err
		}})
	}
	err := fc.Go(flow.Group{Limit: g.Limit, KeepGoing: g.Keep}, list...)
	return "[" + strings.Join(values, "|") + "]", err
}

func (p tree) value() string {
	var out strings.Builder
	for _, n := range p {
		out.WriteString(n.value() + ";")
	}
	return out.String()
}

func (n node) value() string {
	switch {
	case n.Call != nil && n.Call.Bad:
		return "bad"
	case n.Call != nil:
		return "ok"
	case n.Group != nil:
		var values []string
		for _, b := range n.Group.Branches {
			values = append(values, b.value())
		}
		return "[" + strings.Join(values, "|") + "]"
	case n.Gate:
		return "yes"
	case n.Sleep > 0:
		return "slept"
	case n.Now:
		return "now"
	}
	return "said"
}

func (p tree) each(path string, visit func(path string, n node)) {
	for i, n := range p {
		switch {
		case n.Call != nil:
			visit(fmt.Sprint(path, "/c", i), n)
		case n.Group != nil:
			for k, b := range n.Group.Branches {
				b.each(fmt.Sprint(path, "/n", i, "/", k), visit)
			}
		default:
			visit(path, n)
		}
	}
}

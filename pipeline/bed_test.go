package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const theRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

// bed is a pipeline with everything around it: who performs its stages, and a log
// that outlives drives.
type bed struct {
	p     *Pipeline
	log   *flow.Mem
	base  []flow.Record // of a run that was rolled back
	run   string
	in    Input
	rolls []Rollback
	forks int
	uncut bool
	lower flow.Use // limits of the ledger alone
	world *world
	jobs  func(*flow.Job) // changes each job; nil: as it is
	wrap  func(flow.Log) flow.Log

	env   *Envelope // of the last drive
	err   error
	conts int // how often it continued, in all drives
}

func newBed(t testing.TB, doc string) *bed {
	t.Helper()
	p, problems := Check("p.yaml", []byte(doc), Resolver{})
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return bedOf(p)
}

func bedOf(p *Pipeline) *bed {
	return &bed{p: p, log: flow.NewMem(), run: theRun, world: &world{},
		in: Input{EnvelopeID: "env_1", RunID: theRun, RawInput: "the input", CreatedAt: time.Unix(1_800_000_000, 0)}}
}

func (b *bed) job() flow.Job {
	job := flow.Job{Run: b.run, Limits: b.limits(), Acts: Activities(),
		Flow: func(fc flow.Context, state json.RawMessage) (_ json.RawMessage, err error) {
			s := State{Envelope: NewEnvelope(b.p, b.in)}
			if string(state) != "null" {
				if s, err = Restore(state); err != nil {
					return nil, err
				}
				b.conts++
			}
			s.Rollbacks, s.Uncut = slices.Clone(b.rolls), b.uncut
			b.env, b.err = s.Envelope, Execute(fc, b.p, &s, b.world.perform)
			if b.err != nil {
				return nil, b.err
			}
			return json.RawMessage(`"done"`), nil
		}}
	job.Input = json.RawMessage("null")
	job.Acts["act"] = flow.Activity{Run: b.world.act}
	if b.jobs != nil {
		b.jobs(&job)
	}
	return job
}

// limits are those of the ledger: the executor alone limits iterations.
func (b *bed) limits() flow.Use {
	limits := tipstaff.EffectiveBounds(nil, b.p.Limits(), b.in.Bounds)
	delete(limits, tipstaff.BoundIterations)
	maps.Copy(limits, tipstaff.Bounds(b.lower))
	return flow.Use(limits)
}

// forked is a log of a run that inherits records.
type forked struct {
	flow.Log
	base []flow.Record
}

func (f forked) Load(ctx context.Context, run string) (flow.History, error) {
	h, err := f.Log.Load(ctx, run)
	h.Base = f.base
	return h, err
}

func (b *bed) engine() flow.Engine {
	var log flow.Log = b.log
	if b.base != nil {
		log = forked{log, b.base}
	}
	if b.wrap != nil {
		log = b.wrap(log)
	}
	return flow.New(log, nil)
}

// drive takes the run as far as it goes.
func (b *bed) drive(t testing.TB) flow.Outcome {
	t.Helper()
	out, err := b.engine().Drive(t.Context(), b.job())
	if err != nil {
		t.Fatal(err)
	}
	if out.Status == flow.Interrupted {
		t.Fatalf("interrupted: %v", out.Err)
	}
	return out
}

// take drives the run, and checks that its records alone give the same again.
func (b *bed) take(t testing.TB) flow.Outcome {
	t.Helper()
	out := b.drive(t)
	b.replays(t, out)
	return out
}

// replays checks that a replay ends as the last drive did, with the same Envelope,
// and that the ledger's rules were kept.
func (b *bed) replays(t testing.TB, out flow.Outcome) {
	t.Helper()
	h, err := forked{b.log, b.base}.Load(t.Context(), b.run)
	if err != nil {
		t.Fatal(err)
	}
	env, ended, conts := b.env, b.err, b.conts
	defer func() { b.env, b.err, b.conts = env, ended, conts }()
	job := b.job()
	job.Acts = nil
	again, err := flow.Replay(h).Drive(t.Context(), job)
	switch {
	case err != nil:
		t.Fatal(err)
	case again.Status != out.Status:
		t.Fatalf("replay ended %s (%v), the run %s (%v)\n%s", again.Status, again.Err, out.Status, out.Err, b.story(0))
	case fmt.Sprint(b.err) != fmt.Sprint(ended):
		t.Fatalf("replay ended with %v, the run with %v", b.err, ended)
	}
	if got, want := string(EncodeEnvelope(b.env)), string(EncodeEnvelope(env)); got != want {
		t.Fatalf("replay gave another Envelope:\n%s\nnot\n%s", got, want)
	}
	if faults := flow.Conform(h, b.limits()); len(faults) > 0 {
		t.Fatalf("the records do not conform: %v", faults)
	}
}

// decide answers the open gate with a key.
func (b *bed) decide(t testing.TB, key string, d flow.Decision) {
	t.Helper()
	for _, r := range slices.Backward(b.log.Records(b.run)) {
		if r.Kind != "policy.gate" || r.Path != key {
			continue
		}
		if err := b.log.Decide(b.run, idOf(r), d); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no gate %s\n%s", key, b.story(0))
}

func idOf(r flow.Record) string {
	var body struct{ Gate string }
	_ = json.Unmarshal(r.Body, &body)
	return body.Gate
}

func (b *bed) cancel(t testing.TB) {
	t.Helper()
	if err := b.requestCancel(); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) requestCancel() error {
	return b.log.Write(b.run, flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{"mode":"graceful"}`)})
}

// all are the records of the run that it has itself written.
func (b *bed) all() []flow.Record { return b.log.Records(b.run) }

// bodies are those of one kind, in their order.
func bodies[T any](b *bed, kind tipstaff.Kind) (list []T) {
	for _, r := range b.all() {
		if r.Kind == string(kind) {
			var body T
			if err := json.Unmarshal(r.Body, &body); err != nil {
				panic(err)
			}
			list = append(list, body)
		}
	}
	return list
}

// ways are the transitions in few words.
func (b *bed) ways() (list []string) {
	for _, t := range bodies[tipstaff.Transitioned](b, tipstaff.KindTransition) {
		list = append(list, fmt.Sprintf("%s→%s %s", t.From, t.To, t.Reason))
	}
	return list
}

// story is what the records tell, from a number on: a line each.
func (b *bed) story(from int) string {
	var s strings.Builder
	var together []string // what branches say comes in no order
	flush := func() {
		slices.Sort(together)
		for _, line := range together {
			s.WriteString(line + "\n")
		}
		together = nil
	}
	for _, r := range b.all()[from:] {
		line := tell(r)
		switch {
		case line == "":
		case r.Kind == string(tipstaff.KindStageFinished), r.Kind == string(tipstaff.KindStageRetrying), r.Kind == "policy.gate":
			together = append(together, line)
		default:
			flush()
			s.WriteString(line + "\n")
		}
	}
	flush()
	return s.String()
}

func tell(r flow.Record) string {
	line := func(format string, args ...any) string { return strings.TrimRight(fmt.Sprintf(format, args...), " ") }
	switch tipstaff.Kind(r.Kind) {
	case tipstaff.KindStageStarted:
		b := read[tipstaff.StageStarted](r)
		by := ""
		if b.ReleasedBy != nil {
			by = "after " + strings.Join(b.ReleasedBy, ", ")
		}
		return line("%s starts %s", r.Path, by)
	case tipstaff.KindStageFinished:
		b := read[tipstaff.StageFinished](r)
		switch b.Outcome {
		case statusSuccess:
			return line("%s gives %s as %s", r.Path, b.Output, b.OutputKey)
		case statusError:
			return line("%s fails with %s: %s %s", r.Path, b.Code, b.Error, after("→", b.Next))
		}
		return line("%s is %s", r.Path, b.Outcome)
	case tipstaff.KindStageRetrying:
		b := read[tipstaff.StageRetrying](r)
		return line("%s will be tried again after %s: attempt %d in %d ms", r.Path, b.Code, b.NextAttempt, b.DelayMs)
	case tipstaff.KindStageSkipped:
		b := read[tipstaff.StageSkipped](r)
		return line("%s is skipped for want of %s", b.Stage, strings.Join(b.Unmet, ", "))
	case tipstaff.KindTransition:
		b := read[tipstaff.Transitioned](r)
		extra := ""
		if b.Rule > 0 {
			extra += fmt.Sprintf(", rule %d", b.Rule)
		}
		if b.EdgeCount > 0 {
			extra += fmt.Sprintf(", taken %d times", b.EdgeCount)
		}
		return line("(%d) %s → %s: %s%s, iteration %d, epoch %d", b.N, b.From, b.To, b.Reason, extra, b.Iteration, b.Epoch)
	case tipstaff.KindTurnMerged:
		b := read[tipstaff.TurnMerged](r)
		lost := ""
		for _, o := range b.Overwritten {
			lost += fmt.Sprintf(", %s of %s was %s", o.Key, o.Stage, o.Value)
		}
		return line("-- turn %d%s", b.Turn, lost)
	case tipstaff.KindCheckpointCreated:
		b := read[tipstaff.CheckpointCreated](r)
		return line("checkpoint %s of %s, parent %s, iteration %d", short(b.ID), b.Stage, short(b.ParentID), b.Iteration)
	case tipstaff.KindBoundRefused:
		b := read[tipstaff.BoundRefused](r)
		return line("refused at %s: %s, %d of %d %s", r.Path, b.Refused, b.Used, b.Limit, b.Bound)
	case tipstaff.KindBoundExtended:
		b := read[struct {
			Bound string
			By    int64
		}](r)
		return line("%s is extended by %d", b.Bound, b.By)
	case tipstaff.KindFindingRecorded:
		b := read[tipstaff.FindingRecorded](r)
		return line("finding %s: %s %s", b.ID, b.Severity, b.Title)
	case tipstaff.KindWaiverRecorded:
		b := read[tipstaff.WaiverRecorded](r)
		return line("%s waives %s: %s", b.Actor, strings.Join(b.FindingIDs, ", "), b.Reason)
	case tipstaff.KindHandoffOverridden:
		b := read[tipstaff.HandoffOverridden](r)
		return line("%s overrides %s", b.Actor, b.Stage)
	case tipstaff.KindPolicyGate:
		b := read[struct {
			Kind     string `json:"gate_kind"`
			Question string
			Subject  json.RawMessage
			Actions  []string
			Deny     string
		}](r)
		return line("gate %s (%s): %s %s\n  %s", r.Path, b.Kind, b.Question, b.Actions, b.Subject)
	case "run.parked", "run.continued":
		return r.Kind
	}
	return ""
}

func after(word, s string) string {
	if s == "" {
		return ""
	}
	return word + " " + s
}

func short(id string) string { return strings.ReplaceAll(id, theRun, "RUN") }

func read[T any](r flow.Record) T {
	var body T
	if err := json.Unmarshal(r.Body, &body); err != nil {
		panic(fmt.Sprintf("%s: %v", r.Kind, err))
	}
	return body
}

// end is how the last drive ended, in a line.
func (b *bed) end(out flow.Outcome) string {
	var e *Ending
	switch {
	case errors.As(b.err, &e):
		return strings.TrimSpace(fmt.Sprintf("%s: %s: %s %s", e.Outcome, e.Reason, e.Text, after("at", e.Stage)))
	case out.Status == flow.Completed:
		return "completed: " + string(b.env.TerminalReason)
	}
	return string(out.Status)
}

// state is what the Envelope says, without times.
func (b *bed) state() string {
	e := b.env
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	slots := func(name string, m map[string]map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			line("%s.%s %s", name, key, EncodeValue(m[key]))
		}
	}
	line("at %s, epoch %d, iteration %d, hops %d, model calls %d, tool calls %d, tokens %d+%d, cost %s", e.CurrentStage, e.Epoch,
		e.Iteration, e.AgentHopCount, e.LLMCallCount, e.ToolCallCount, e.TokensIn, e.TokensOut, e.CostUSD)
	line("frontier %v, active %v, completed %v, failed %v, skipped %v", e.Frontier, e.ActiveStages, e.CompletedStages, e.FailedStages, e.SkippedStages)
	slots("outputs", e.Outputs)
	slots("prior", e.Prior)
	if len(e.Metadata) > 0 {
		line("metadata %s", EncodeValue(e.Metadata))
	}
	for _, g := range e.Goals {
		line("goal %s %s", g.Name, g.Status)
	}
	for _, r := range e.Rounds {
		line("round %d satisfied %v %s", r.Number, r.Satisfied, r.Summary)
	}
	for _, f := range e.Feedback {
		line("feedback %s → %s: %s", f.From, f.To, f.Text)
	}
	for _, w := range e.Waivers {
		line("waiver of %v by %s: %s", w.FindingIDs, w.Actor, w.Reason)
	}
	for _, i := range e.Interrupts {
		answer := "open"
		if i.Response != nil {
			answer = i.Response.Action
		}
		line("interrupt %s %s", i.Key, answer)
	}
	for _, r := range e.ProcessingHistory {
		line("history %s#%d %s, attempts %d %s", r.Agent, r.Visit, r.Status, r.Attempts, r.Error)
	}
	return strings.ReplaceAll(s.String(), " \n", "\n")
}

// world performs the stages that do not perform themselves.
type world struct {
	// by is how an attempt goes, named by its path; "": the stage's name.
	by map[string]deed
	// before is called in each activity. nil: nothing is to be done.
	before func(ctx context.Context, path string)

	mu    sync.Mutex
	calls map[string]int // activities, by path
	saw   map[string]Stage
}

// deed is what an attempt of a stage does.
type deed struct {
	output  map[string]any
	control *Control
	err     *StageError
	calls   int  // model calls, of a model stage; else tool calls
	once    bool // they are of that class
	hang    bool // until the attempt's time is over
}

func (w *world) perform(fc flow.Context, st Stage) (Result, error) {
	path := fc.Path()
	w.mu.Lock()
	if w.saw == nil {
		w.saw = map[string]Stage{}
	}
	w.saw[path] = st
	d, ok := w.by[path]
	if !ok {
		d, ok = w.by[st.Agent.Name]
	}
	w.mu.Unlock()
	if !ok {
		d = deed{output: map[string]any{"from": path}}
	}
	var u tipstaff.StageUsage
	for i := range max(d.calls, 1) {
		call := flow.Call{Key: fmt.Sprintf("act#%d", i+1), Name: "act", Class: flow.Read, Timeout: st.Timeout, Ask: st.AskBounds,
			Input: flow.JSON(map[string]any{"hang": d.hang})}
		if d.once {
			call.Class = flow.Once
		}
		model := st.Agent.Way == WayModel
		switch {
		case model && i > 0:
			call.Reserve = flow.Use{tipstaff.BoundModelCalls: 1}
		case !model:
			call.Reserve = flow.Use{tipstaff.BoundToolCalls: 1}
		}
		_, err := fc.Do(call)
		var failed *flow.Error
		if errors.As(err, &failed) && !isBound(failed) {
			err = &StageError{Code: failed.Code, Message: failed.Message, Retryable: failed.Retry, Usage: u}
		}
		if err != nil {
			return Result{Usage: u}, err
		}
		if model {
			u.LLMCalls++
		} else {
			u.ToolCalls++
		}
	}
	if d.err != nil {
		e := *d.err
		e.Usage, e.Once = u, d.once
		return Result{}, &e
	}
	return Result{Output: d.output, Control: d.control, Usage: u, Once: d.once}, nil
}

func (w *world) act(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	w.mu.Lock()
	if w.calls == nil {
		w.calls = map[string]int{}
	}
	w.calls[a.Path]++
	before := w.before
	w.mu.Unlock()
	if before != nil {
		before(ctx, a.Path)
	}
	var in struct{ Hang bool }
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, err
	}
	if in.Hang {
		<-ctx.Done()
		return flow.Done{}, context.Cause(ctx)
	}
	return flow.Done{Value: json.RawMessage(`"ok"`)}, nil
}

package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// TestWalk runs the stories under testdata/walk over the memory engine. The
// commands of a story:
//
//	plan                    the document
//	modes                   what is done about failures: per line reason, action, note
//	drive [sorted]          one drive; prints what it recorded. sorted: by path,
//	                        where branches interleave. Input: the inputs, as JSON
//	decide KEY ACTION       answers a gate. Input: the answer, as JSON
//	calls                   how often each tool was really called
//	replay                  the outcome of the same plan over the records alone
func TestWalk(t *testing.T) {
	datadriven.Walk(t, "testdata/walk", func(t *testing.T, file string) {
		s := &story{t: t, log: flow.NewMem()}
		s.world = newWorld(s.log)
		datadriven.RunTest(t, file, s.command)
	})
}

const storyRun = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

type story struct {
	t      *testing.T
	log    *flow.Mem
	world  *world
	doc    *Document
	inputs json.RawMessage
	limits flow.Use
	shown  int
	err    error // of the last walk
}

func (s *story) command(t *testing.T, c *datadriven.TestData) string {
	s.t = t
	switch c.Cmd {
	case "plan":
		return s.plan(c)
	case "modes":
		return s.world.setModes(c.Input)
	case "drive":
		return s.drive(c)
	case "decide":
		return s.decide(c)
	case "calls":
		return s.world.counters()
	case "replay":
		return s.replay()
	}
	t.Fatalf("unknown command %s", c.Cmd)
	return ""
}

func (s *story) say(err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return "ok\n"
}

func (s *story) plan(c *datadriven.TestData) string {
	d, problems := Check("p.yaml", []byte(c.Input), workspace{})
	if len(problems) > 0 {
		return fmt.Sprintf("%+v\n", problems)
	}
	s.doc, s.limits = d, d.Limits()
	return "ok\n"
}

func (s *story) drive(c *datadriven.TestData) string {
	if s.inputs == nil {
		given := map[string]json.RawMessage{}
		if strings.TrimSpace(c.Input) != "" {
			if err := json.Unmarshal([]byte(c.Input), &given); err != nil {
				s.t.Fatal(err)
			}
		}
		inputs, problems := s.doc.CheckInputs(given)
		if len(problems) > 0 {
			return fmt.Sprintf("%+v\n", problems)
		}
		s.inputs = inputs
	}
	out, err := flow.New(s.log, nil).Drive(s.t.Context(), s.job())
	if err != nil {
		return s.say(err)
	}
	return s.records(c.HasArg("sorted")) + s.outcome(out)
}

func (s *story) job() flow.Job {
	return flow.Job{
		Run: storyRun, Root: "root", Input: s.inputs, Limits: s.limits,
		Flow: func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
			value, err := Walk(fc, s.doc, in, s.world.handlers())
			s.err = err
			return value, err
		},
		Acts: map[string]flow.Activity{"tool.call": {Run: s.world.call, Stops: func(flow.Attempt) bool { return true }}},
	}
}

func (s *story) replay() string {
	h, err := s.log.Load(s.t.Context(), storyRun)
	if err != nil {
		return s.say(err)
	}
	before := s.world.counters()
	out, err := flow.Replay(h).Drive(s.t.Context(), s.job())
	if err != nil {
		return s.say(err)
	}
	if s.world.counters() != before {
		return "the replay called a tool\n"
	}
	return s.outcome(out)
}

func (s *story) decide(c *datadriven.TestData) string {
	key, action := c.CmdArgs[0].Key, c.CmdArgs[1].Key
	id := ""
	for _, r := range s.log.Records(storyRun) {
		if r.Kind == "policy.gate" && r.Path == key {
			var body struct{ Gate string }
			if err := json.Unmarshal(r.Body, &body); err != nil {
				s.t.Fatal(err)
			}
			id = body.Gate
		}
	}
	return s.say(s.log.Decide(storyRun, id, flow.Decision{Action: action, Answer: json.RawMessage(strings.TrimSpace(c.Input))}))
}

// records prints what was written since the last time: kind, path and the part
// of the body that is the same in every run.
func (s *story) records(sorted bool) string {
	var lines []string
	all := s.log.Records(storyRun)
	for _, r := range all[s.shown:] {
		if essence, ok := essence(r); ok {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %s", r.Path, r.Kind, essence), " ")+"\n")
		}
	}
	s.shown = len(all)
	if sorted {
		slices.Sort(lines)
	}
	return strings.Join(lines, "")
}

func essence(r flow.Record) (string, bool) {
	var body map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err.Error(), true
	}
	var keep []string
	switch {
	case r.Note, strings.HasPrefix(r.Kind, "run."), strings.HasPrefix(r.Kind, "intent."), r.Kind == "effect.intended", r.Kind == "gate.taken":
		return "", false
	case r.Kind == "effect.finished":
		keep = []string{"input", "value", "error"}
	case r.Kind == "effect.failed":
		keep = []string{"attempt", "error"}
	case r.Kind == "policy.gate":
		keep = []string{"question", "subject", "actions", "deny"}
		if string(body["gate_kind"]) != `"question"` {
			keep = []string{"gate_kind"}
		}
	case r.Kind == "policy.gate.resolve":
		keep = []string{"action"}
	case r.Kind == string(tipstaff.KindPlanStep):
		keep = []string{"node", "status", "error"}
	default:
		keep = []string{"skipped"}
	}
	var parts []string
	for _, k := range keep {
		if v, ok := body[k]; ok && k == "error" {
			parts = append(parts, "error="+faultOf(v))
		} else if ok {
			parts = append(parts, k+"="+string(v))
		}
	}
	return strings.Join(parts, " "), true
}

// faultOf is an error without its message, which is for people.
func faultOf(raw json.RawMessage) string {
	var e tipstaff.StepError
	if err := json.Unmarshal(raw, &e); err != nil {
		return err.Error()
	}
	fault := e.Code
	if e.Reason != "" {
		fault = e.Reason + "/" + e.Code
	}
	if e.Rule != "" {
		fault += " by " + e.Rule
	}
	return fault
}

func (s *story) outcome(out flow.Outcome) string {
	var f *Failure
	var c *Cancelled
	switch {
	case out.Status == flow.Cancelled && errors.As(s.err, &c):
		return fmt.Sprintf("= cancelled skipped=%v continued=%v counts=%s\n", c.Skipped, c.Continued, flow.JSON(c.Counts))
	case errors.As(out.Err, &f):
		bound := ""
		if f.Bound != "" {
			bound = " bound=" + f.Bound
		}
		return fmt.Sprintf("= failed at %s: reason=%s code=%s%s skipped=%v continued=%v counts=%s\n",
			f.Path, f.Reason, f.Code, bound, f.Skipped, f.Continued, flow.JSON(f.Counts))
	case out.Err != nil:
		return fmt.Sprintf("= %s: %v\n", out.Status, out.Err)
	case out.Value != nil:
		return fmt.Sprintf("= %s %s\n", out.Status, out.Value)
	}
	return fmt.Sprintf("= %s\n", out.Status)
}

// world is what the tools of these tests do, counted outside the engine.
type world struct {
	mu    sync.Mutex
	calls map[string]int
	log   *flow.Mem
	modes map[string]Mode // nil: there are none
	// hanging is closed when a tool that hangs was called.
	hanging chan struct{}
}

func newWorld(log *flow.Mem) *world {
	return &world{calls: map[string]int{}, log: log, hanging: make(chan struct{})}
}

func (w *world) count(tool string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[tool]++
	return w.calls[tool]
}

func (w *world) counters() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for tool, n := range w.calls {
		lines = append(lines, fmt.Sprintf("%s %d\n", tool, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (w *world) setModes(lines string) string {
	w.modes = map[string]Mode{}
	for line := range strings.Lines(lines) {
		reason, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		action, note, _ := strings.Cut(rest, " ")
		w.modes[reason] = Mode{Action: action, Note: note}
	}
	return "ok\n"
}

func (w *world) handlers() Handlers {
	h := Handlers{Perform: w.perform}
	if w.modes != nil {
		h.Mode = func(reason string) Mode { return w.modes[reason] }
	}
	return h
}

func (w *world) perform(fc flow.Context, r Task) (flow.Result, error) {
	switch r.Node.Kind {
	case Step:
		return flow.Result{}, nil
	case SubDispatch:
		return flow.Result{}, errNotPerformed
	}
	info := workspace{}.Tool(r.Node.Tool)
	if info.Class == flow.Once {
		r.Retry = flow.Retry{}
	}
	return fc.Do(flow.Call{
		Name: "tool.call", Class: info.Class,
		Input:   flow.JSON(map[string]any{"uri": r.Node.Tool, "args": r.Args}),
		Timeout: r.Node.EffectiveTimeout(info), Retry: r.Retry,
		Reserve: flow.Use{"tool_calls": 1},
	})
}

// call behaves as the tool's name says.
func (w *world) call(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	var in struct {
		URI  string
		Args json.RawMessage
	}
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, err
	}
	tool := toolOf(in.URI)
	n := w.count(tool)
	switch strings.TrimPrefix(strings.TrimPrefix(tool, "once_"), "put_") {
	case "fail":
		return flow.Done{}, &flow.Error{Code: "tool_error", Message: "it said no", Answered: true}
	case "recover": // says no twice, then yes
		if n < 3 {
			return flow.Done{}, &flow.Error{Code: "tool_error", Message: "it said no", Answered: true}
		}
	case "down":
		return flow.Done{}, &flow.Error{Code: "tool_unavailable", Message: "no answer"}
	case "flaky":
		if n < 3 {
			return flow.Done{}, &flow.Error{Code: "tool_unavailable", Message: "not yet"}
		}
	case "denied":
		return flow.Done{}, &flow.Error{Code: "policy_denied", Message: "a rule forbids it", NotSent: true, Detail: json.RawMessage(`{"rule":"no-delete"}`)}
	case "lost":
		return flow.Done{}, errors.New("connection lost")
	case "cancel": // as a person would in the middle of the call
		err := w.log.Write(storyRun, flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{"actor":"local:cli"}`)})
		<-ctx.Done() // the engine has heard of it; the call still ends in good order
		return flow.Done{Value: json.RawMessage(`"done"`)}, err
	case "after_hang": // fails once a hang has begun
		<-w.hanging
		return flow.Done{}, &flow.Error{Code: "tool_error", Message: "it said no", Answered: true}
	case "hang":
		close(w.hanging)
		<-ctx.Done()
		return flow.Done{}, ctx.Err()
	case "big":
		return flow.Done{Value: json.RawMessage(`{"n":9007199254740993,"s":"small"}`)}, nil
	case "some":
		return flow.Done{Value: json.RawMessage(`{"text":"hi","list":[1,{"b":true}],"empty":"","nothing":null}`)}, nil
	}
	return flow.Done{Value: in.Args}, nil
}

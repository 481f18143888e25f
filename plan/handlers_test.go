package plan

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

// desk is a Context that keeps what is emitted and can do nothing else: these
// tests are about what the walker hands out and makes of what comes back.
type desk struct {
	path    string
	emitted *[]string
	waited  func(flow.Gate) (flow.Decision, error)
}

func newDesk() *desk { return &desk{path: "root", emitted: &[]string{}} }

func (d *desk) Path() string { return d.path }
func (d *desk) At(segment string) flow.Context {
	return &desk{d.path + "/" + segment, d.emitted, d.waited}
}
func (d *desk) Do(flow.Call) (flow.Result, error) { panic("the walker itself calls nothing") }
func (d *desk) Wait(g flow.Gate) (flow.Decision, error) {
	return d.waited(g)
}

// Go runs branches one after the other and goes on after a failure: enough to
// see what the walker makes of each.
func (d *desk) Go(_ flow.Group, branches ...flow.Branch) (first error) {
	for _, b := range branches {
		if err := b.Run(d.At(b.Name)); err != nil && first == nil {
			first = err
		}
	}
	return first
}
func (d *desk) Now() time.Time            { panic("the walker reads no clock") }
func (d *desk) Sleep(time.Duration) error { panic("the walker does not sleep") }
func (d *desk) Emit(e flow.Event) {
	*d.emitted = append(*d.emitted, d.path+" "+e.Kind+" "+string(flow.JSON(e.Body)))
}

func one(t *testing.T, node string) *Document {
	t.Helper()
	return mustCheck(t, "kind: plan\nversion: 1\ninputs: {who: {default: you}}\nroot: "+strings.ReplaceAll(node, "\t", "  "))
}

func answer(value string, err error) func(flow.Context, Task) (flow.Result, error) {
	return func(flow.Context, Task) (flow.Result, error) {
		return flow.Result{Value: json.RawMessage(value), Ms: 12}, err
	}
}

const aCall = `{id: a, kind: tool_call, tool: "mcp://t/read@1.0.0"}`

func TestStepRecordsHowALeafEnded(t *testing.T) {
	internal := errors.New("a bug")
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"completed", nil, `"status":"completed","result_digest":"sha256:5041bf1f713df204784353e82f6a4a535931cb64f1f4b4a5aeaffcb720918b22","latency_ms":12`},
		{"in-band error", &flow.Error{Code: "tool_error", Message: "no", Answered: true}, `"status":"failed","error":{"reason":"tool_error","code":"tool_error","message":"no"},"latency_ms":12`},
		{"no reply", &flow.Error{Code: "timeout", Message: "late"}, `"status":"failed","error":{"reason":"timeout","code":"timeout","message":"late"},"latency_ms":12`},
		{"refusal", &flow.Error{Code: "pin_mismatch", Message: "other", NotSent: true}, `"status":"refused","error":{"reason":"policy_denied","code":"pin_mismatch","message":"other"},"latency_ms":12`},
		{"approval denied", &flow.Error{Code: "approval_denied", Message: "no", NotSent: true}, `"status":"refused","error":{"reason":"gate_denied","code":"approval_denied","message":"no"},"latency_ms":12`},
		{"in doubt", &flow.Error{Code: "in_doubt"}, `"status":"uncertain","error":{"reason":"in_doubt","code":"in_doubt","message":""},"latency_ms":12`},
		{"too large", &flow.Error{Code: "result_too_large", Answered: true}, `"status":"failed","error":{"reason":"output_invalid","code":"result_too_large","message":""},"latency_ms":12`},
		{"a code of the tool's own", &flow.Error{Code: "input_required", Answered: true}, `"status":"failed","error":{"reason":"tool_error","code":"input_required","message":""},"latency_ms":12`},
		{"untyped", internal, `"status":"failed","error":{"reason":"internal","code":"internal","message":"a bug"},"latency_ms":12`},
		{"cancelled", flow.ErrCancelled, `"status":"cancelled","latency_ms":12`},
	} {
		t.Run(test.name, func(t *testing.T) {
			fc := newDesk()
			_, err := Walk(fc, one(t, aCall), nil, Handlers{Perform: answer(`{"x":1}`, test.err)})
			if diff := cmp.Diff([]string{`root plan.step {"node":"a",` + test.want + `}`}, *fc.emitted); diff != "" {
				t.Errorf("emitted (-want +got):\n%s", diff)
			}
			if !errors.Is(err, test.err) {
				t.Errorf("the error %v does not hold its cause", err)
			}
		})
	}
}

// A branch that parks, and a program that does not fit, have not ended: nothing
// is said, and the error comes back as it was.
func TestWhatIsNoEndLeavesNoTrace(t *testing.T) {
	for _, want := range []error{flow.ErrParked, &flow.NonDeterminism{Path: "root"}, &flow.Misuse{Path: "root"}} {
		fc := newDesk()
		src := `{kind: sequential, children: [` + strings.Replace(aCall, "}", ", on_error: continue}", 1) + `]}`
		if _, err := Walk(fc, one(t, src), nil, Handlers{Perform: answer("", want)}); err != want {
			t.Errorf("%v came back as %v", want, err)
		}
		if len(*fc.emitted) > 0 {
			t.Errorf("%v: emitted %v", want, *fc.emitted)
		}
	}
}

func TestContinueKnowsWhatItMayNotPassOver(t *testing.T) {
	for code, want := range map[string]bool{
		"tool_error": true, "tool_unavailable": true, "timeout": true, "output_invalid": true, "internal": true,
		"policy_denied": false, "undeclared_tool": false, "approval_denied": false, "invalid_arguments": false, "number_unsafe": false,
		"bound_exceeded": false, "deadline_exceeded": false, "in_doubt": false,
	} {
		d := one(t, strings.Replace(aCall, "}", ", on_error: continue}", 1))
		_, err := Walk(newDesk(), d, nil, Handlers{Perform: answer("", &flow.Error{Code: code, NotSent: true})})
		if (err == nil) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestRequestsAreResolved(t *testing.T) {
	var tool, step Task
	d := one(t, `{kind: sequential, children: [
		{id: lit, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {b: "$${x}", a: ""}, timeout: 3s, retry: {max: 2}},
		{id: ref, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {a: "${input.who}"}},
		{id: ask, kind: step, prompt: "${ref.output}", inputs: {n: "${ref.output.x}"}, output_schema: {type: number}}]}`)
	h := Handlers{Perform: func(_ flow.Context, r Task) (flow.Result, error) {
		switch r.Node.ID {
		case "lit":
			tool = r
		case "ref":
			if r.Literal || string(r.Args) != `{"a":"me"}` {
				t.Errorf("ref got %s, literal %v", r.Args, r.Literal)
			}
		case "ask":
			step = r
			return flow.Result{Value: json.RawMessage(`"no number"`)}, nil
		}
		return flow.Result{Value: json.RawMessage(`{"x":1}`)}, nil
	}}
	_, err := Walk(newDesk(), d, json.RawMessage(`{"who":"me"}`), h)
	if string(tool.Args) != `{"a":"","b":"${x}"}` || !tool.Literal || tool.Timeout != 3*time.Second {
		t.Errorf("lit got %s, literal %v, %v", tool.Args, tool.Literal, tool.Timeout)
	}
	want := flow.Retry{Max: 2, Backoff: time.Second, Factor: 2, MaxBackoff: 30 * time.Second, On: []string{"timeout", "tool_unavailable"}}
	if diff := cmp.Diff(want, tool.Retry); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	if step.Prompt != `{"x":1}` || string(step.Args) != `{"n":1}` {
		t.Errorf("the step got %q and %s", step.Prompt, step.Args)
	}
	if Reason(err) != ReasonOutputInvalid {
		t.Errorf("a reply that misses its schema: %v", err)
	}
}

func TestNilHandlers(t *testing.T) {
	for _, node := range []string{aCall, `{id: a, kind: step, prompt: Do.}`, `{id: a, kind: sub_dispatch, skill: skill://x@1.0.0}`} {
		if _, err := Walk(newDesk(), one(t, node), nil, Handlers{}); !errors.Is(err, errNotPerformed) {
			t.Errorf("%s: %v", node, err)
		}
	}
	fc := newDesk()
	var opened flow.Gate
	fc.waited = func(g flow.Gate) (flow.Decision, error) { opened = g; return flow.Decision{}, flow.ErrParked }
	if _, err := Walk(fc, one(t, `{id: a, kind: gate, question: "Go?", show: "${input.who}"}`), nil, Handlers{}); !flow.Parked(err) {
		t.Errorf("a gate: %v", err)
	}
	want := flow.Gate{Kind: "question", Question: "Go?", Subject: json.RawMessage(`{"show":null}`),
		Actions: []string{"approve", "deny"}, Deny: "deny", Expires: 24 * time.Hour}
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
}

// Only an action that the node offers, and that continues, lets a plan go on.
func TestNothingElseApproves(t *testing.T) {
	node := `{id: a, kind: gate, question: Go?, actions: [{name: go}, {name: halt, outcome: fail, fail_reason: "x:stopped"}]}`
	for _, test := range []struct {
		decision flow.Decision
		reason   string
	}{
		{flow.Decision{Action: "go"}, ""},
		{flow.Decision{Action: "go", FailReason: "wrong_assumption"}, ""},
		{flow.Decision{Action: "halt"}, "x:stopped"},
		{flow.Decision{Action: "halt", FailReason: "wrong_assumption"}, "wrong_assumption"},
		{flow.Decision{Action: "halt", FailReason: "because"}, "gate_denied"},
		{flow.Decision{Action: "approve"}, "gate_denied"},
		{flow.Decision{}, "gate_denied"},
	} {
		gate := func(flow.Context, *Node, json.RawMessage) (flow.Decision, error) { return test.decision, nil }
		_, err := Walk(newDesk(), one(t, node), nil, Handlers{Gate: gate})
		if got := reasonOrNone(err); got != test.reason {
			t.Errorf("%+v: %q, want %q", test.decision, got, test.reason)
		}
	}
}

func reasonOrNone(err error) string {
	if err == nil {
		return ""
	}
	return Reason(err)
}

// Of four calls as many are in flight together as max_parallel says: each waits
// until that many have begun, and no more ever have.
func TestParallelRunsTogether(t *testing.T) {
	for limit, want := range map[int]int{8: 4, 2: 2, 1: 1} {
		d := one(t, `{kind: parallel, max_parallel: `+strconv.Itoa(limit)+`, children: [
			{id: a, kind: tool_call, tool: "mcp://t/read@1.0.0"}, {id: b, kind: tool_call, tool: "mcp://t/read@1.0.0"},
			{id: c, kind: tool_call, tool: "mcp://t/read@1.0.0"}, {id: d, kind: tool_call, tool: "mcp://t/read@1.0.0"}]}`)
		call := func(fc flow.Context, r Task) (flow.Result, error) {
			return fc.Do(flow.Call{Name: "tool.call", Class: flow.Read, Input: r.Args})
		}
		var mu sync.Mutex
		inFlight, most := 0, 0
		full := make(chan struct{}, 16)
		meet := func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
			mu.Lock()
			inFlight++
			most = max(most, inFlight)
			if inFlight == want {
				for range want {
					full <- struct{}{}
				}
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				inFlight--
				mu.Unlock()
			}()
			select {
			case <-full:
				return flow.Done{}, nil
			case <-ctx.Done():
				return flow.Done{}, ctx.Err()
			}
		}
		out, err := flow.New(flow.NewMem(), nil).Drive(t.Context(), flow.Job{
			Run: "r", Root: "root",
			Flow: func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
				return Walk(fc, d, in, Handlers{Perform: call})
			},
			Acts: map[string]flow.Activity{"tool.call": {Run: meet}},
		})
		if err != nil || out.Status != flow.Completed {
			t.Fatalf("%+v, %v", out, err)
		}
		if most != want {
			t.Errorf("max_parallel %d: %d in flight, want %d", limit, most, want)
		}
	}
}

func TestTwoThousandLeaves(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{kind: sequential, children: [{id: n0, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {n: 0}}`)
	for i := 1; i < MaxNodes-1; i++ {
		n, before := strconv.Itoa(i), strconv.Itoa(i-1)
		b.WriteString("\n, {id: n" + n + `, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {n: "${n` + before + `.output}"}}`)
	}
	b.WriteString("]}")
	sum := func(_ flow.Context, r Task) (flow.Result, error) {
		var args struct{ N int }
		err := json.Unmarshal(r.Args, &args)
		return flow.Result{Value: flow.JSON(args.N + 1)}, err
	}
	d := mustCheck(t, "kind: plan\nversion: 1\noutputs: {n: \"${n1998.output}\"}\nroot: "+b.String())
	value, err := Walk(newDesk(), d, nil, Handlers{Perform: sum})
	if err != nil {
		t.Fatal(err)
	}
	var result Result
	if err := json.Unmarshal(value, &result); err != nil || string(result.Outputs) != `{"n":1999}` || result.Counts["completed"] != 1999 {
		t.Errorf("%s", value)
	}
}

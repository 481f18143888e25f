package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func walked(t *testing.T, src string, h Handlers) (Result, error) {
	t.Helper()
	value, err := Walk(newDesk(), mustCheck(t, src), nil, h)
	var r Result
	if err == nil {
		err = json.Unmarshal(value, &r)
	}
	return r, err
}

// What an agent fails of is the step's failure, unless its code says more.
func TestHowAStepFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&flow.Error{Code: "refused_to_think"}, ReasonStepError},
		{&flow.Error{Code: "refused_to_think", Answered: true}, ReasonStepError},
		{&flow.Error{Code: "tool_error", Answered: true}, ReasonToolError},
		{&flow.Error{Code: "internal"}, ReasonInternal},
		{&flow.Error{Code: "timeout"}, ReasonTimeout},
		{errors.New("a bug"), ReasonInternal},
	} {
		step := func(flow.Context, Task) (flow.Result, error) { return flow.Result{}, c.err }
		_, err := walked(t, "kind: plan\nversion: 1\nroot: {id: a, kind: step, prompt: Do., output_schema: {type: number}}", Handlers{Perform: step})
		if got := Reason(err); got != c.want {
			t.Errorf("%#v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestAResultOfNothingIsNull(t *testing.T) {
	r, err := walked(t, "kind: plan\nversion: 1\noutputs: {o: '${a.output}'}\nroot: "+aCall, Handlers{Perform: answer("", nil)})
	if err != nil || string(r.Outputs) != `{"o":null}` {
		t.Errorf("%s, %v", r.Outputs, err)
	}
}

func TestACallWithoutArgumentsIsLiteral(t *testing.T) {
	literal := false
	call := func(_ flow.Context, r Task) (flow.Result, error) {
		literal = r.Literal
		return flow.Result{}, nil
	}
	if _, err := walked(t, "kind: plan\nversion: 1\nroot: "+aCall, Handlers{Perform: call}); err != nil || !literal {
		t.Errorf("literal %v, %v", literal, err)
	}
}

// Values inside lists are resolved, and those that refer to nothing stay.
func TestListsAreResolved(t *testing.T) {
	var got string
	call := func(_ flow.Context, r Task) (flow.Result, error) {
		got = string(r.Args)
		return flow.Result{}, nil
	}
	d := one(t, `{id: a, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {list: ["${input.who}", 2, true, null, ["x ${input.who}"], []]}}`)
	if _, err := Walk(newDesk(), d, json.RawMessage(`{"who":"me"}`), Handlers{Perform: call}); err != nil || got != `{"list":["me",2,true,null,["x me"],[]]}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A plan whose outputs name what is not there has failed, and says of what.
func TestOutputsThatAreNotThere(t *testing.T) {
	_, err := walked(t, "kind: plan\nversion: 1\noutputs: {o: '${a.output.gone}'}\nroot: "+aCall, Handlers{Perform: answer("{}", nil)})
	var f *Failure
	if !errors.As(err, &f) || f.Reason != ReasonOutputInvalid || f.Code != codeRefUnresolved || f.Counts[tipstaff.StepCompleted] != 1 {
		t.Fatalf("%#v", err)
	}
	if want := "outputs: ${a.output.gone}: names nothing that is there"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestFailuresNameTheirLeaf(t *testing.T) {
	_, err := walked(t, "kind: plan\nversion: 1\nroot: "+aCall, Handlers{Perform: answer("", &flow.Error{Code: "timeout", Message: "late"})})
	if err == nil || err.Error() != "a: late" {
		t.Errorf("%v", err)
	}
	if got := Reason(&Failure{Reason: "x:own", cause: &flow.Error{Code: "timeout"}}); got != "x:own" {
		t.Errorf("the reason of a failure is %s", got)
	}
}

// A leaf whose failure was passed over has no output for others.
func TestWhatWasPassedOverHasNoOutput(t *testing.T) {
	src := "kind: plan\nversion: 1\nroot: {kind: sequential, children: [" + strings.Replace(aCall, "}", ", on_error: continue}", 1) + ", {id: b, kind: step, prompt: '${a.output}'}]}"
	_, err := walked(t, src, Handlers{Perform: answer("", &flow.Error{Code: "timeout"})})
	if err == nil || err.Error() != "b: ${a.output}: a has no output" {
		t.Errorf("%v", err)
	}
}

func TestWhatBranchesPassOverIsPartial(t *testing.T) {
	src := "kind: plan\nversion: 1\nroot: {kind: parallel, children: [" + strings.Replace(aCall, "}", ", on_error: continue}", 1) + ", {id: b, kind: step, prompt: Do.}]}"
	r, err := walked(t, src, Handlers{Perform: func(fc flow.Context, r Task) (flow.Result, error) {
		if r.Node.Kind == Step {
			return flow.Result{}, nil
		}
		return flow.Result{}, &flow.Error{Code: "timeout"}
	}})
	if err != nil || r.Outcome != Partial || len(r.Continued) != 1 || r.Continued[0] != "a" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheResultOfATurnIsItsAnswer(t *testing.T) {
	step := func(flow.Context, Task) (flow.Result, error) {
		return flow.Result{Value: json.RawMessage(`{"text":"Hello."}`)}, nil
	}
	r, err := walked(t, "kind: turn\nmessage: Hi.", Handlers{Perform: step})
	if err != nil || string(r.Outputs) != `{"text":"Hello."}` {
		t.Errorf("%s, %v", r.Outputs, err)
	}
}

func TestADenialSaysWhatWasDecided(t *testing.T) {
	gate := func(flow.Context, *Node, json.RawMessage) (flow.Decision, error) {
		return flow.Decision{Action: "halt", Note: "not today"}, nil
	}
	src := `kind: plan
version: 1
root: {id: a, kind: gate, question: Go?, actions: [{name: halt, outcome: fail, fail_reason: "x:stopped"}, {name: go}]}`
	_, err := walked(t, src, Handlers{Gate: gate})
	if err == nil || err.Error() != "a: the decision was halt: not today" || Reason(err) != "x:stopped" {
		t.Errorf("%v, %s", err, reasonOrNone(err))
	}
}

func TestValuesWithSpaceAroundThem(t *testing.T) {
	if got, err := asText(json.RawMessage(" \n\"x\" ")); got != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := descend(nil, []string{"a"}); !errors.Is(err, errUnresolved) {
		t.Errorf("inside nothing: %v", err)
	}
}

// carrying walks aCall with what an earlier revision left.
func carrying(t *testing.T, carry Carry, keep Keeper, decide func(flow.Gate) (flow.Decision, error)) (calls int, err error) {
	t.Helper()
	fc := newDesk()
	fc.waited = decide
	_, err = Walk(fc, one(t, aCall), nil, Handlers{Carry: carry, Keep: keep, Perform: func(flow.Context, Task) (flow.Result, error) {
		calls++
		return flow.Result{Value: json.RawMessage(`1`)}, nil
	}})
	return calls, err
}

func TestOnlyTheSameLeafIsCarried(t *testing.T) {
	first := &keeper{done: map[string]Done{}, settled: map[string]bool{}}
	if calls, err := carrying(t, Carry{}, first, nil); calls != 1 || err != nil {
		t.Fatal(calls, err)
	}
	for name, c := range map[string]struct {
		change func(*Done)
		calls  int
	}{
		"the same":      {func(*Done) {}, 0},
		"another kind":  {func(d *Done) { d.Kind = Step }, 1},
		"another tool":  {func(d *Done) { d.By = "mcp://t/list@1.0.0" }, 1},
		"another input": {func(d *Done) { d.Input = "sha256:" }, 1},
	} {
		done := first.done["a"]
		c.change(&done)
		if calls, err := carrying(t, Carry{Done: map[string]Done{"a": done}}, nil, nil); calls != c.calls || err != nil {
			t.Errorf("%s: %d calls, want %d; %v", name, calls, c.calls, err)
		}
	}
}

func TestDoubtsOfAnEarlierRevision(t *testing.T) {
	doubt := Doubt{Kind: ToolCall, By: "mcp://t/read@1.0.0", Path: "root/a", Name: "tool.call", Attempt: 1}
	first := &keeper{done: map[string]Done{}, settled: map[string]bool{}}
	if _, err := carrying(t, Carry{}, first, nil); err != nil {
		t.Fatal(err)
	}
	decided := func(action string) func(flow.Gate) (flow.Decision, error) {
		return func(flow.Gate) (flow.Decision, error) {
			return flow.Decision{Action: action, Answer: json.RawMessage(`1`)}, nil
		}
	}
	for _, c := range []struct {
		action string
		calls  int
		fails  bool
	}{{"retry", 1, false}, {"use_result", 0, false}, {"fail", 0, true}} {
		kept := &keeper{done: map[string]Done{}, settled: map[string]bool{}}
		calls, err := carrying(t, Carry{Doubts: map[string]Doubt{"a": doubt}}, kept, decided(c.action))
		if calls != c.calls || (err != nil) != c.fails || !kept.settled["a"] {
			t.Errorf("%s: %d calls, %v, settled %v", c.action, calls, err, kept.settled)
		}
		if diff := cmp.Diff(first.done, kept.done); !c.fails && diff != "" {
			t.Errorf("%s leaves something else to the next revision than a call does:\n%s", c.action, diff)
		}
	}
	if calls, err := carrying(t, Carry{Doubts: map[string]Doubt{"a": doubt}}, nil, decided("retry")); calls != 1 || err != nil {
		t.Errorf("without a keeper: %d calls, %v", calls, err)
	}
	parked := func(flow.Gate) (flow.Decision, error) { return flow.Decision{}, flow.ErrParked }
	if calls, err := carrying(t, Carry{Doubts: map[string]Doubt{"a": doubt}}, nil, parked); calls != 0 || !flow.Parked(err) {
		t.Errorf("while nobody has decided: %d calls, %v", calls, err)
	}
	doubt.Kind = Step
	if calls, err := carrying(t, Carry{Doubts: map[string]Doubt{"a": doubt}}, nil, parked); calls != 1 || err != nil {
		t.Errorf("of another kind: %d calls, %v", calls, err)
	}
}

// What a person had tried again was asked about before.
func TestTriedAgainIsNotTheFirstTry(t *testing.T) {
	for path, want := range map[string]bool{"root/a": true, "root": true, "root/a/" + againKey + "2": false, againKey + "2": false} {
		if got := firstTry(&desk{path: path}); got != want {
			t.Errorf("%s is the first try: %v", path, got)
		}
	}
}

// A question may hold references. What is too long for a question belongs into show.
func TestAQuestionHoldsReferences(t *testing.T) {
	ask := func(src string, verbatim bool) (asked string, err error) {
		gate := func(_ flow.Context, n *Node, _ json.RawMessage) (flow.Decision, error) {
			asked = n.Question
			return flow.Decision{Action: "approve"}, nil
		}
		d := mustCheck(t, src)
		inputs, problems := d.CheckInputs(nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		_, err = Walk(newDesk(), d, inputs, Handlers{Gate: gate, Verbatim: verbatim})
		return asked, err
	}
	src := func(who string) string {
		return `kind: plan
version: 1
inputs: {who: {default: ` + who + `}}
root: {id: a, kind: gate, question: "Pay ${input.who} $${10}?"}`
	}
	if got, err := ask(src("Alice"), false); got != "Pay Alice ${10}?" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := ask(src("Alice"), true); got != "Pay ${input.who} $${10}?" || err != nil {
		t.Errorf("verbatim: %q, %v", got, err)
	}
	if _, err := ask(src(strings.Repeat("x", 5000)), false); err == nil || !strings.Contains(err.Error(), "put what is long into show") {
		t.Errorf("a long one: %v", err)
	}
	for _, question := range []string{"${nonsense", "${input.nobody}", "${b.output}"} {
		_, problems := Check("p.yaml", []byte(`{"kind":"plan","version":1,"root":{"id":"a","kind":"gate","question":"`+question+`"}}`), workspace{})
		if len(problems) == 0 {
			t.Errorf("%s is valid", question)
		}
	}
}

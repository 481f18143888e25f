package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

// pipelineBench has a file that is taken for a pipeline with one stage, which hosts do
// or not, and notes what is started.
func pipelineBench(t *testing.T, hosted bool) (b *bench, file string, got *tipstaff.StartRequest) {
	t.Helper()
	b = newBench(t)
	b.env.IsPipeline = func([]byte) bool { return true }
	file = filepath.Join(t.TempDir(), "loop.yaml")
	if err := os.WriteFile(file, []byte("name: loop"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = &tipstaff.StartRequest{}
	validated := tipstaff.Validated{Warnings: []tipstaff.Problem{{Code: "odd", Message: "that is odd"}},
		Outline: &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, Children: []*tipstaff.Outline{{Path: "a", ID: "a", Kind: "stage", Label: "remote a", Hosted: hosted}}}}
	b.svc.runs = []tipstaff.Run{{ID: runA, State: tipstaff.Completed}}
	b.svc.start = func(_ context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		*got = req
		b.svc.ends()
		b.svc.ended <- tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
		return tipstaff.Started{Run: runA, Validated: validated}, nil
	}
	b.svc.check = func(tipstaff.ValidateRequest) (tipstaff.Validated, error) { return validated, nil }
	return b, file, got
}

func TestRunGivesAPipelineWhatItWorksOn(t *testing.T) {
	b, file, got := pipelineBench(t, false)
	b.run(t, 0, "run", file, "--text", "Do it.", "--goal", "a", "--goal", "b", "--thread", "T", "--input", "n=1", "--input", "who=Ada",
		"--max-iterations", "2", "--max-cost-usd", "0.50", "--max-wall-seconds", "90", "--max-llm-calls", "7", "--max-stages", "4")
	inputs := map[string]json.RawMessage{"raw_input": json.RawMessage(`"Do it."`), "goals": json.RawMessage(`["a","b"]`), "thread_id": json.RawMessage(`"T"`),
		"metadata": json.RawMessage(`{"n":1,"who":"Ada"}`)}
	if diff := cmp.Diff(inputs, got.Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	bounds := tipstaff.Bounds{tipstaff.BoundIterations: 2, tipstaff.BoundCostUSD: 500_000_000, tipstaff.BoundWallTime: 90_000, tipstaff.BoundModelCalls: 7, tipstaff.BoundStages: 4}
	if diff := cmp.Diff(bounds, got.Bounds); diff != "" {
		t.Errorf("bounds (-want +got):\n%s", diff)
	}
	contains(t, "stderr", b.err.String(), "warning: odd: that is odd\n")
}

func TestInputsOfAPipelineComeFromAFile(t *testing.T) {
	b, file, got := pipelineBench(t, false)
	in := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(in, []byte(`{"raw_input": "from the file", "metadata": {"a": 1, "b": 1}, "more": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.env.Stdin = strings.NewReader("from the pipe")
	b.run(t, 0, "run", file, "--inputs", in, "--input", "b=2", "--text", "-")
	inputs := map[string]json.RawMessage{"raw_input": json.RawMessage(`"from the pipe"`), "metadata": json.RawMessage(`{"a":1,"b":2,"more":true}`)}
	if diff := cmp.Diff(inputs, got.Inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	b, file, _ := pipelineBench(t, false)
	b.env.Stdin = strings.NewReader("a\xff")
	for _, text := range []string{"a\xff", "-"} {
		b.run(t, 2, "run", file, "--text", text)
	}
	contains(t, "stderr", b.err.String(), "--text - is not UTF-8 text")
}

func TestAmountsThatAreNone(t *testing.T) {
	for flag, amount := range map[string]string{"--max-iterations": "0", "--max-tokens": "-1", "--max-stages": "0", "--max-llm-calls": "x", "--max-cost-usd": "much", "--max-wall-seconds": "1m"} {
		b, file, _ := pipelineBench(t, false)
		b.run(t, 2, "run", file, flag, amount)
		contains(t, "stderr", b.err.String(), flag+" \""+amount+"\" is not an amount above 0")
	}
}

func TestHostsServeWhileARunIsDriven(t *testing.T) {
	b, file, _ := pipelineBench(t, true)
	var told []string
	b.attach = func(run tipstaff.ID, commands []string, tell func(string)) (Attached, error) {
		if run != runA || !slices.Equal(commands, []string{"one", "two"}) {
			t.Errorf("run %s, commands %q", run, commands)
		}
		tell("one: up")
		return Attached{Environ: []string{"WHERE=here"}, Close: func() { told = append(told, "closed") }}, nil
	}
	b.run(t, 0, "run", file, "--host", "one", "--host", "two")
	contains(t, "stderr", b.err.String(), "one: up\n")
	if strings.Contains(b.err.String(), "WHERE=here") {
		t.Error("the address is told although hosts were started")
	}
	if len(told) != 1 {
		t.Errorf("closed %d times", len(told))
	}
}

func TestWhoeverStartsNoHostIsToldWhereToAttachOne(t *testing.T) {
	b, file, _ := pipelineBench(t, true)
	b.attach = func(tipstaff.ID, []string, func(string)) (Attached, error) {
		return Attached{Environ: []string{"WHERE=here", "TOKEN=x"}, Close: func() {}}, nil
	}
	b.run(t, 0, "run", file)
	contains(t, "stderr", b.err.String(), "remote stages wait for hosts with WHERE=here TOKEN=x\n")
}

func TestHostsWithNothingToServeAreRefused(t *testing.T) {
	b, file, got := pipelineBench(t, false)
	b.run(t, 2, "run", file, "--host", "one")
	contains(t, "stderr", b.err.String(), "--host serves remote stages, and there are none")
	if got.Program != nil {
		t.Error("it was started")
	}
}

func TestForkOfAPipeline(t *testing.T) {
	for text, c := range map[string]struct {
		args []string
		want tipstaff.ForkRequest
	}{
		"a checkpoint": {[]string{"--at", "cp_X_3"}, tipstaff.ForkRequest{Place: tipstaff.Place{Checkpoint: "cp_X_3"}}},
		"a stage":      {[]string{"--at", "stage:critic"}, tipstaff.ForkRequest{Place: tipstaff.Place{Stage: "critic"}}},
		"a record":     {[]string{"--at", "12", "--thread", "T"}, tipstaff.ForkRequest{Place: tipstaff.Place{At: 12}, Thread: "T"}},
		"edits": {[]string{"--set-output", `a={"b":"c=d"}`, "--set-metadata", "n=1", "--raise", "max_iterations=5", "--raise", "max_cost_usd=1.5"},
			tipstaff.ForkRequest{Changes: tipstaff.Changes{Outputs: map[string]json.RawMessage{"a": json.RawMessage(`{"b":"c=d"}`)},
				Metadata: map[string]json.RawMessage{"n": json.RawMessage("1")}, Raise: map[string]int64{"max_iterations": 5, "max_cost_usd": 1_500_000_000}}}},
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t)
			b.svc.runs = []tipstaff.Run{{ID: runA}}
			var got tipstaff.ForkRequest
			b.svc.fork = func(req tipstaff.ForkRequest) (tipstaff.Run, error) {
				got = req
				return tipstaff.Run{ID: runB}, nil
			}
			b.run(t, 0, append([]string{"fork", runA.String()}, c.args...)...)
			c.want.Run = runA
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
			if c.want.Thread != "" {
				return
			}
			b.svc.roll = func(req tipstaff.RollbackRequest) (tipstaff.Run, error) {
				got = tipstaff.ForkRequest{Run: req.Run, Place: req.Place, Changes: req.Changes}
				return tipstaff.Run{ID: runB}, nil
			}
			got = tipstaff.ForkRequest{}
			b.run(t, 0, append([]string{"fork", runA.String(), "--rollback"}, c.args...)...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("a rollback asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func stageGate(kind tipstaff.GateKind, subject string, actions ...string) tipstaff.Gate {
	return tipstaff.Gate{ID: gateA, Key: "critic#2/" + string(kind), Path: "critic#2", Kind: kind, Question: "What now?", Subject: json.RawMessage(subject), Actions: actions}
}

func TestAnswersAtGatesOfStages(t *testing.T) {
	const stage = `{"stage":"critic","visit":2}`
	for text, c := range map[string]struct {
		gate  tipstaff.Gate
		typed string
		want  tipstaff.Choice
	}{
		"words":    {stageGate(tipstaff.Question, stage, "answer", "deny"), "answer\nthe red one\n", tipstaff.Choice{Action: "answer", Answer: json.RawMessage(`"the red one"`)}},
		"at once":  {stageGate(tipstaff.Question, stage, "answer", "deny"), "the red one because I say so\n", tipstaff.Choice{Action: "answer", Answer: json.RawMessage(`"the red one because I say so"`)}},
		"declined": {stageGate(tipstaff.Question, stage, "answer", "deny"), "deny because it is late\n", tipstaff.Choice{Action: "deny", Note: "it is late"}},
		"amount":   {stageGate(tipstaff.Bound, `{"bound":"steps"}`, "extend", "stop"), "3\n", tipstaff.Choice{Action: "extend", Answer: json.RawMessage(`3`)}},
		"in words": {stageGate(tipstaff.Bound, `{"bound":"steps"}`, "extend", "stop"), "some\nextend 3\n", tipstaff.Choice{Action: "extend", Answer: json.RawMessage(`3`)}},
		"in two":   {stageGate(tipstaff.Bound, `{"bound":"wall_time"}`, "extend", "stop"), "extend\n10\n10m\n", tipstaff.Choice{Action: "extend", Answer: json.RawMessage(`"10m"`)}},
		"dollars":  {stageGate(tipstaff.Bound, `{"bound":"cost_usd"}`, "extend", "stop"), "$0.50\n", tipstaff.Choice{Action: "extend", Answer: json.RawMessage(`"$0.50"`)}},
		"data":     {stageGate(tipstaff.Clarification, stage, "answer", "deny"), "answer\n{\"n\": 2}\n", tipstaff.Choice{Action: "answer", Answer: json.RawMessage(`{"n": 2}`)}},
		"modified": {stageGate(tipstaff.Confirmation, stage, "approve", "modify", "reject"), "m\n3\n{\"n\":3}\n", tipstaff.Choice{Action: "modify", Answer: json.RawMessage(`{"n":3}`)}},
		"no":       {stageGate(tipstaff.Confirmation, stage, "approve", "modify", "reject"), "no\nr\n", tipstaff.Choice{Action: "reject"}},
		"feedback": {stageGate(tipstaff.Handoff, stage, "retry_feedback", "halt"), "retry\n\nMend it.\n", tipstaff.Choice{Action: "retry_feedback", Feedback: "Mend it."}},
		"extended": {stageGate(tipstaff.Bound, stage, "extend", "stop"), "extend\n{\"iterations\":1}\n", tipstaff.Choice{Action: "extend", Answer: json.RawMessage(`{"iterations":1}`)}},
	} {
		t.Run(text, func(t *testing.T) {
			b := newBench(t).terminal()
			b.env.Stdin = strings.NewReader(c.typed)
			p := (&app{env: b.env, err: &output{w: b.err}}).newPrompter(false)
			got, ok := p.ask(context.Background(), c.gate)
			got.Refused = nil // a func cannot be compared
			if diff := cmp.Diff(c.want, got); diff != "" || !ok {
				t.Errorf("answered %t (-want +got):\n%s\n%s", ok, diff, b.err)
			}
		})
	}
}

func TestFormsOfAnswersAtGatesOfStages(t *testing.T) {
	for _, c := range []struct {
		gate         tipstaff.Gate
		action, want string
	}{
		{stageGate(tipstaff.Question, `{"stage":"a"}`, "answer", "deny"), "answer", "TEXT"},
		{stageGate(tipstaff.Confirmation, `{"stage":"a"}`), "modify", `{"KEY":"VALUE"}`},
		{stageGate(tipstaff.Bound, `{"stage":"a","bound":"iterations"}`), "extend", "5"},
		{stageGate(tipstaff.Bound, `{"stage":"a","bound":"cost_usd"}`), "extend", "0.50"},
		{stageGate(tipstaff.Bound, `{"bound":"wall_time"}`), "extend", "10m"},
		{stageGate(tipstaff.Bound, `{"bound":"cost_usd","wanted":{"agent_hops":1,"cost_usd":2000000000}}`), "extend", "2.00"}, // less would not do
	} {
		equal(t, c.action, tipstaff.AnswerForm(c.gate, c.action), c.want)
	}
}

package runner_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/workspace"
)

// clerk is a performer that only this test knows: it has one agent, which says in
// capitals what it is told.
type clerk struct{ asked, sessions []string }

func (c *clerk) Agent(_ *workspace.Manifest, name string) plan.AgentInfo {
	if name == "clerk" {
		return plan.AgentInfo{Once: true}
	}
	return plan.AgentInfo{Trouble: plan.Trouble{Code: "worker_unknown", Message: "there is no clerk " + name}}
}

func (c *clerk) Settle(s *runner.Settlement) error {
	s.Freeze(flow.JSON("politely"))
	return nil
}

type errand struct{ Manner, Prompt, Session string }

func (c *clerk) Activities(*runner.Environment) map[string]flow.Activity {
	return map[string]flow.Activity{"clerk.work": {Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		var in errand
		if err := json.Unmarshal(a.Input, &in); err != nil {
			return flow.Done{}, err
		}
		c.asked, c.sessions = append(c.asked, a.Path), append(c.sessions, in.Session)
		if in.Prompt == "fail" {
			return flow.Done{}, &flow.Error{Code: "refused", Message: "not today", Answered: true}
		}
		return flow.Done{Value: flow.JSON(in.Manner + ": " + strings.ToUpper(in.Prompt))}, nil
	}}}
}

func (c *clerk) Perform(fc flow.Context, t *runner.Task) (runner.Result, error) {
	in := errand{Prompt: t.Prompt, Session: t.Session}
	if err := json.Unmarshal(t.Config, &in.Manner); err != nil {
		return runner.Result{}, err
	}
	r, err := fc.Do(flow.Call{Name: "clerk.work", Class: cmp.Or(t.Effect, flow.Once), Timeout: t.Timeout, Input: flow.JSON(in), Reserve: t.Reserve})
	used := tipstaff.StageUsage{LLMCalls: 1, TokensIn: 7}
	if err != nil {
		return runner.Result{Usage: used}, err
	}
	var said string
	if err := json.Unmarshal(r.Value, &said); err != nil {
		return runner.Result{}, err
	}
	res := runner.Spoken(said, nil)
	res.Usage = used
	return res, nil
}

// withClerk gives the bed's runner one more performer: one line, as in cmd.
func (b *bed) withClerk() *clerk {
	c := &clerk{}
	config := b.Config
	config.Store, config.Performers = b.store, map[pipeline.Way]runner.Performer{pipeline.WayWorker: c}
	b.Runner = runner.New(config)
	return c
}

func TestAPerformerDoesAStage(t *testing.T) {
	b := newBed(t)
	c := b.withClerk()
	run, driven := b.pipe(`
name: office
agents:
  - {name: copy, stage_order: 1, worker: {name: clerk, prompt: "copy ${input}"}, effect: read, default_next: file}
  - {name: file, stage_order: 2, tool: {uri: "mcp://builtin/write_file@1.0.0", args: {path: copy.txt, content: "${outputs.copy.text}"}}}
`)
	if driven.Err != nil || driven.State != tipstaff.Completed || b.read("copy.txt") != "politely: COPY DO IT" {
		t.Fatalf("%+v wrote %q", driven, b.read("copy.txt"))
	}
	if len(c.asked) != 1 || c.asked[0] != "copy#1" {
		t.Errorf("the clerk was asked at %q", c.asked)
	}
	for _, e := range b.events(run) {
		var f tipstaff.StageFinished
		if e.Kind != tipstaff.KindStageFinished || json.Unmarshal(e.Body, &f) != nil || f.Stage != "copy" {
			continue
		}
		if f.Usage != (tipstaff.StageUsage{LLMCalls: 1, TokensIn: 7}) {
			t.Errorf("the stage has used %+v", f.Usage)
		}
	}
	b.verified(run)
	export := filepath.Join(b.dir, "export")
	if err := runner.Export(cli(), b.Runner, run, export); err != nil {
		t.Fatal(err)
	}
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: export})
	if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
		t.Errorf("the export: %+v, %v", rep, err)
	}
	if len(c.asked) != 1 {
		t.Errorf("verify has asked the clerk: %q", c.asked)
	}
}

func TestAPerformerDoesAStep(t *testing.T) {
	b := newBed(t)
	c := b.withClerk()
	run, driven := b.run(`
root:
  kind: sequential
  children:
    - {id: copy, kind: step, agent: clerk, prompt: hello}
    - {id: file, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: copy.txt, content: "${copy.output}"}}
`)
	if driven.Err != nil || driven.State != tipstaff.Completed || b.read("copy.txt") != "politely: HELLO" {
		t.Fatalf("%+v wrote %q", driven, b.read("copy.txt"))
	}
	if len(c.asked) != 1 || c.asked[0] != "root/copy" {
		t.Errorf("the clerk was asked at %q", c.asked)
	}
	if used := b.get(run).Bounds[tipstaff.BoundAgentHops].Used; used != 1 {
		t.Errorf("the step has cost %v hops", used)
	}
	b.verified(run)
}

func TestAPerformerIsToldOfTheSessionAndTheFeedback(t *testing.T) {
	b := newBed(t)
	c := b.withClerk()
	run, driven := b.pipe(`
name: office
agents:
  - {name: copy, stage_order: 1, worker: {name: clerk, prompt: copy, session: keep}, default_next: critic}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {ok: false}, control: {feedback: louder}}, {output: {ok: true}}]}
    routing_rules: [{condition: ok, value: false, target: copy}]
`)
	if driven.Err != nil || driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	if !slices.Equal(c.asked, []string{"copy#1", "copy#2"}) || !slices.Equal(c.sessions, []string{"copy", "copy"}) {
		t.Errorf("the clerk was asked at %q in sessions %q", c.asked, c.sessions)
	}
	if got := output(b.state(run), "copy").(map[string]any)["text"]; got != "politely: COPY\n\nLOUDER" {
		t.Errorf("it said %q", got)
	}
}

// What the performer goes by is frozen: a run is replayed and resumed without asking it
// anew, and without the performer nothing of it can be verified.
func TestWithoutItsPerformerARunDoesNotConform(t *testing.T) {
	b := newBed(t)
	config := b.Config
	b.withClerk()
	run, driven := b.run("root: {id: copy, kind: step, agent: clerk, prompt: hello}\n")
	if driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	config.Store = b.store
	rep, err := runner.New(config).Verify(cli(), tipstaff.VerifyRequest{Run: run})
	if err != nil || !rep.Integrity.OK || rep.Conformance.OK {
		t.Errorf("%+v, %v", rep, err)
	}
	b.verified(run)
}

func TestTheFailureOfAPerformerIsTheStages(t *testing.T) {
	b := newBed(t)
	b.withClerk()
	run, driven := b.pipe("name: office\nagents: [{name: copy, worker: {name: clerk, prompt: fail}}]\n")
	if driven.State != tipstaff.Failed {
		t.Fatalf("%+v", driven)
	}
	if got := b.get(run).Error; got == nil || got.Code != "refused" {
		t.Errorf("it failed with %+v", got)
	}
}

func TestOnlyWhomAPerformerHasIsAccepted(t *testing.T) {
	stage := "name: office\nagents: [{name: copy, worker: {name: NAME, prompt: hi}}]\n"
	step := "kind: plan\nversion: 1\nroot: {id: copy, kind: step, agent: NAME, prompt: hi}\n"
	chat := "kind: turn\nversion: 1\nagent: clerk\nmessage: hi\n"
	for _, c := range []struct {
		name, program string
		clerk         bool
		code          string
	}{
		{"a stage of somebody unknown", strings.ReplaceAll(stage, "NAME", "nobody"), true, "worker_unknown"},
		{"a stage where nobody performs it", strings.ReplaceAll(stage, "NAME", "clerk"), false, "no_way_to_run"},
		{"a step of somebody unknown", strings.ReplaceAll(step, "NAME", "nobody"), true, "agent_unknown"},
		{"a step where nobody performs it", strings.ReplaceAll(step, "NAME", "clerk"), false, "agent_unknown"},
		{"a turn, which needs a model", chat, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			if c.clerk {
				b.withClerk()
			}
			_, err := b.Start(cli(), tipstaff.StartRequest{Name: "program.yaml", Program: []byte(c.program)})
			var e *tipstaff.Error
			if !errors.As(err, &e) || e.Code != tipstaff.InvalidProgram {
				t.Fatalf("%v", err)
			}
			if c.code != "" && (len(e.Problems) != 1 || e.Problems[0].Code != c.code) {
				t.Errorf("%+v", e.Problems)
			}
		})
	}
}

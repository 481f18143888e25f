package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/worker"
	"github.com/tipstaff/tipstaff/workspace"
)

// allowing is a manifest whose policy lets every tool be called.
const allowing = manifest + "policy: {sub_dispatch: true, rules: [{id: all, tool: builtin/*, do: allow}]}\n" +
	"models:\n  toy: {provider: scripted, script: script.yaml}\ndefault_skill: skill://payer@1.0.0\nagents: {default: {model: toy, tools: [\"mcp://builtin/exec@1.0.0\"]}}\nserve: {programs: [served]}\n"

// scribe is a worker that may write: what it does is paid, like what exec does.
type scribe struct {
	*bed
	posture worker.Posture
}

func (s scribe) Agent(_ *workspace.Manifest, name string) plan.AgentInfo {
	if name == "scribe" {
		return plan.AgentInfo{Once: true}
	}
	return plan.AgentInfo{Trouble: plan.Trouble{Code: "worker_unknown", Message: "there is no scribe " + name}}
}

func (s scribe) Settle(set *runner.Settlement) error {
	set.Freeze(flow.JSON(worker.Settled{Worker: "scribe", Type: "scripted", Posture: s.posture, Review: tipstaff.ReviewNone}))
	return nil
}

func (s scribe) Activities(*runner.Environment) map[string]flow.Activity {
	return map[string]flow.Activity{
		worker.TaskActivity: {Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			var of tipstaff.Task
			if err := json.Unmarshal(a.Input, &of); err != nil {
				return flow.Done{}, err
			}
			task, err := s.store.OpenTask(ctx, a.Run, a.Path, of)
			return flow.Done{Value: flow.JSON(task.ID)}, err
		}},
		worker.SpawnActivity: {Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			a.Note(flow.Event{Kind: string(tipstaff.KindTaskStatus), Body: tipstaff.TaskMoved{Task: a.Local.(*worker.Local).TaskID, From: tipstaff.TaskInProgress,
				To: tipstaff.TaskNeedsReview, By: string(tipstaff.ByWorker), Iteration: 1}})
			f, err := os.OpenFile(filepath.Join(s.dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.WriteString("paid\n")
				f.Close()
			}
			res := worker.Result{Outcome: worker.Reported, SessionID: "s", Steps: 1, Text: "done", Report: worker.Report{Status: tipstaff.TaskNeedsReview}}
			return flow.Done{Value: flow.JSON(res)}, err
		}},
	}
}

func (s scribe) Perform(fc flow.Context, t *runner.Task) (runner.Result, error) {
	a := worker.Assignment{Task: t.Assigned, Effect: t.Effect, Timeout: t.Timeout, Reserve: t.Reserve, Asks: t.Asks}
	if err := json.Unmarshal(t.Config, &a.Settled); err != nil {
		return runner.Result{}, err
	}
	a.Name, a.Description = t.Title(), t.Prompt
	out, err := worker.Drive(fc, a)
	if err != nil {
		return runner.Result{}, err
	}
	return runner.Spoken(out.Text, out.Data), nil
}

// payBed is a bed in which everything is allowed, with a scribe.
func payBed(t *testing.T, posture worker.Posture) *bed {
	b := newBed(t)
	b.write("tipstaff.yaml", allowing)
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	for _, dir := range []string{"served", "skills/payer"} {
		b.check(os.MkdirAll(filepath.Join(b.dir, dir), 0o755))
	}
	b.write("skills/payer/SKILL.md", "---\nname: payer\ndescription: Pays.\n---\nPay.\n")
	b.write("skills/payer/skill.yaml", "id: payer\nversion: 1.0.0\nverbs: [deliver]\ntools: [mcp://builtin/exec@1.0.0, mcp://builtin/json_query@1.0.0]\nsub_skills: none\n")
	b.write("skills/payer/plan.yaml", "kind: plan\nversion: 1\nskill: skill://payer@1.0.0\nroot: "+payCall+"\n")
	config := b.Config
	config.Store, config.Performers = b.store, map[pipeline.Way]runner.Performer{pipeline.WayWorker: scribe{b, posture}}
	config.Origin = tipstaff.OriginSupervisor // MCP may have its runs go on
	b.Runner = runner.New(config)
	return b
}

const payCall = `{id: pay, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "` + paid + `"]}}`

// payer is a plan and a pipeline that do the same: look at something, and then pay.
type payer struct{ name, plan, pipe, agent string }

const lookFirst = `{id: look, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}`

func payers() []payer {
	stages := func(pay string) string {
		return "kind: pipeline\nname: p\nagents:\n  - {name: look, stage_order: 1, tool: {uri: \"mcp://builtin/json_query@1.0.0\", args: {value: 1, expr: value}}, default_next: pay}\n  - " + pay + "\n"
	}
	inOrder := func(pay string) string {
		return "kind: plan\nversion: 1\nroot: {kind: sequential, children: [" + lookFirst + ", " + pay + "]}\n"
	}
	return []payer{
		{"exec", inOrder(payCall), stages(`{name: pay, stage_order: 2, tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "` + paid + `"]}}}`),
			`{"name": "pay", "tool": {"uri": "mcp://builtin/exec@1.0.0", "args": {"argv": ["sh", "-c", "` + paid + `"]}}}`},
		{"a writing worker", inOrder("{id: pay, kind: step, agent: scribe, prompt: pay}"), stages(`{name: pay, stage_order: 2, worker: {name: scribe, prompt: pay}}`),
			`{"name": "pay", "worker": {"name": "scribe", "prompt": "pay"}}`},
	}
}

// someone is a caller, and what they may do.
type someone struct {
	name         string
	scopes       []string
	on           string
	submits, may bool
}

func (s someone) ctx() context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: s.on, User: "local", Principal: "token:local", Scopes: s.scopes})
}

var someones = []someone{
	{"read", []string{"read"}, "http", false, false},
	{"run", []string{"read", "run"}, "http", false, false},
	{"submit", []string{"read", "run", "submit"}, "grpc", true, false},
	{"decide", []string{"read", "run", "submit", "decide"}, "http", true, true},
	{"admin", []string{"admin"}, "grpc", true, true},
	{"stdio", []string{"read", "run", "submit"}, "stdio", true, false},
	{"stdio with decide", []string{"read", "run", "submit", "decide"}, "stdio", true, true},
	{"cli", nil, "cli", true, true},
}

func (s someone) runs() bool {
	return s.on == "cli" || slices.Contains(s.scopes, "run") || s.name == "admin"
}

// way is a way to bring a document.
type way struct {
	brings string // the field or fields of the interface by which it comes
	own    bool   // the document is the caller's: it needs submit
	served bool   // it is the operator's word
	bring  func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error)
}

func started(s tipstaff.Started, err error) (tipstaff.ID, error) { return s.Run, err }

func served(p payer, b *bed) string {
	b.write("served/p.yaml", p.plan)
	b.write("served/pipe.yaml", p.pipe)
	return "served/p.yaml"
}

// drafted is a draft of the served pipeline by the local user, who may decide.
func drafted(b *bed, p payer) tipstaff.ID {
	served(p, b)
	s, err := b.CreateEnvelope(cli(), tipstaff.EnvelopeRequest{File: "served/pipe.yaml"})
	b.check(err)
	return s.Run
}

// execute starts a draft.
func execute(b *bed, ctx context.Context, made tipstaff.Started, err error) (tipstaff.ID, error) {
	if err != nil {
		return tipstaff.ID{}, err
	}
	return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: made.Run}))
}

// done is a run by the local user that has paid.
func (b *bed) done(doc string) tipstaff.ID {
	b.t.Helper()
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "done", Program: []byte(doc)})
	b.check(err)
	if out := b.wait(s.Run); out.State != tipstaff.Completed || b.effects() != "paid\n" {
		b.t.Fatalf("it ended %+v", out)
	}
	return s.Run
}

// looked is the record after which a run has looked, and not paid.
func (b *bed) looked(run tipstaff.ID) int64 {
	for _, e := range b.events(run) {
		if e.Kind == tipstaff.KindPlanStep && strings.HasSuffix(e.Path, "look") && tipstaff.BodyOf[tipstaff.PlanStep](&e).Status == tipstaff.StepCompleted {
			return e.Seq
		}
	}
	b.t.Fatal("it never looked")
	return 0
}

func ordered(names ...string) map[string]json.RawMessage {
	return map[string]json.RawMessage{"stage_order": flow.JSON(names)}
}

var ways = map[string]way{
	"a text": {brings: "Start.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.Start(ctx, tipstaff.StartRequest{Name: "p", Program: []byte(p.plan)}))
	}},
	"a text that may name no files": {brings: "Start.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.Start(ctx, tipstaff.StartRequest{Name: "p", Program: []byte(p.pipe), NoFiles: true}))
	}},
	"a text like the operator's": {brings: "Start.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.Start(ctx, tipstaff.StartRequest{Name: served(p, b), Program: []byte(p.plan)}))
	}},
	"a file of the workspace": {brings: "Start.File", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.write("x.yaml", p.plan)
		return started(b.Start(ctx, tipstaff.StartRequest{File: "x.yaml"}))
	}},
	"a file that is served": {brings: "Start.File", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.Start(ctx, tipstaff.StartRequest{File: served(p, b)}))
	}},
	"a link to a file that is served": {brings: "Start.File", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.link(served(p, b), "in.yaml")
		return started(b.Start(ctx, tipstaff.StartRequest{File: "in.yaml"}))
	}},
	"a link out of what is served": {brings: "Start.File", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.write("x.yaml", p.plan)
		b.link("../x.yaml", "served/out.yaml")
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/out.yaml"}))
	}},
	"a file that is served, beside what is not": {brings: "Start.File", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.write("x.yaml", p.plan)
		b.write("served/names.yaml", "kind: pipeline\nname: p\nagents: [{name: pay, plan: {file: ../x.yaml}}]\n")
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/names.yaml"}))
	}},
	"a file that is served, beside what is": {brings: "Start.File", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.write("served/names.yaml", "kind: pipeline\nname: p\nagents: [{name: pay, plan: {file: p.yaml}}]\n")
		served(p, b)
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/names.yaml"}))
	}},
	"a file that is served, in another order": {brings: "Start.Inputs", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/pipe.yaml", Inputs: ordered("pay", "look")}))
	}},
	"a file that is served, in its own order": {brings: "Start.Inputs", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/pipe.yaml", Inputs: ordered("look", "pay")}))
	}},
	"a file that is served, with outputs": {brings: "Start.Inputs", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		return started(b.Start(ctx, tipstaff.StartRequest{File: "served/pipe.yaml", Inputs: map[string]json.RawMessage{"outputs": json.RawMessage(`{"look": {"text": "x"}}`)}}))
	}},
	"a message": {brings: "Start.Program", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		if p.name != "exec" {
			return tipstaff.ID{}, errNotThis
		}
		b.says = func(r agent.Request) agent.Response {
			if last := r.Messages[len(r.Messages)-1]; last.Role == agent.User {
				return agent.Response{Reason: agent.ReasonToolCalls, Calls: []agent.Call{{ID: "c", Name: "builtin__exec", Arguments: `{"argv": ["sh", "-c", "` + paid + `"]}`}}}
			}
			return agent.Response{Text: "done"}
		}
		return started(b.Start(ctx, tipstaff.StartRequest{Name: "m", Program: []byte(`{"kind": "turn", "message": "pay"}`)}))
	}},
	"a task": {brings: "Start.Task", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		if p.name == "exec" {
			return tipstaff.ID{}, errNotThis
		}
		task, err := b.Tasks().New(cli(), tipstaff.Task{Name: "t", Description: "pay", Role: "scribe", Review: tipstaff.ReviewNone})
		b.check(err)
		return started(b.Start(ctx, tipstaff.StartRequest{Name: "t", Task: &tipstaff.TaskStart{ID: task.ID}}))
	}},
	"a draft of a text": {brings: "CreateEnvelope.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		made, err := b.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{Name: "p", Program: []byte(p.pipe)})
		return execute(b, ctx, made, err)
	}},
	"a draft of a file of the workspace": {brings: "CreateEnvelope.File", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		b.write("x.yaml", p.pipe)
		made, err := b.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{File: "x.yaml"})
		return execute(b, ctx, made, err)
	}},
	"a draft of what is served": {brings: "CreateEnvelope.File", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		made, err := b.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{File: "served/pipe.yaml"})
		return execute(b, ctx, made, err)
	}},
	"a draft of what is served, in another order": {brings: "CreateEnvelope.Inputs", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		made, err := b.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{File: "served/pipe.yaml", Inputs: ordered("pay", "look")})
		return execute(b, ctx, made, err)
	}},
	"an order now, and what is served later": {brings: "CreateEnvelope.Inputs", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		served(p, b)
		made, err := b.CreateEnvelope(ctx, tipstaff.EnvelopeRequest{Inputs: ordered("pay", "look")})
		if err != nil {
			return made.Run, err
		}
		return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: made.Run, File: "served/pipe.yaml"}))
	}},
	"a text for a draft": {brings: "ExecuteEnvelope.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: drafted(b, p), Name: "p", Program: []byte(p.pipe)}))
	}},
	"what is served for a draft": {brings: "ExecuteEnvelope.File", served: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: drafted(b, p), File: "served/pipe.yaml"}))
	}},
	"an edit of a draft": {brings: "UpdateEnvelope.Outputs UpdateEnvelope.Metadata", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		draft := drafted(b, p)
		if err := b.UpdateEnvelope(ctx, tipstaff.EnvelopeUpdate{Run: draft, Outputs: map[string]json.RawMessage{"look": json.RawMessage(`{"text": "x"}`)}}); err != nil {
			return draft, err
		}
		return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: draft}))
	}},
	"an edit of a draft, and what is served after it": {brings: "UpdateEnvelope.Outputs", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		draft := drafted(b, p)
		if err := b.UpdateEnvelope(ctx, tipstaff.EnvelopeUpdate{Run: draft, Metadata: map[string]json.RawMessage{"m": json.RawMessage(`1`)}}); err != nil {
			return draft, err
		}
		return started(b.ExecuteEnvelope(ctx, tipstaff.ExecuteRequest{Run: draft, File: "served/pipe.yaml"}))
	}},
	"an agent of a draft, alone": {brings: "ExecuteAgent.Name", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: drafted(b, p), Name: "pay"}))
	}},
	"an agent of one's own": {brings: "ExecuteAgent.Document", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		return started(b.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: drafted(b, p), Name: "pay", Document: json.RawMessage(p.agent)}))
	}},
	"a correction": {brings: "Correct.Program", own: true, bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		gated := strings.Replace(p.plan, "children: [", "children: [{id: ok, kind: gate, question: Go?}, ", 1)
		run, err := started(b.Start(cli(), tipstaff.StartRequest{Name: "p", Program: []byte(gated)}))
		b.check(err)
		b.wait(run)
		if _, err := b.Correct(ctx, tipstaff.CorrectRequest{Run: run, Name: "p", Program: []byte(strings.Replace(gated, "expr: value", "expr: value == 1", 1)), Reason: "better"}); err != nil {
			return run, err
		}
		b.resume(run)
		_, err = b.decide(run, b.get(run).OpenGates[0].ID.String(), "approve")
		b.check(err)
		return started(b.Resume(ctx, tipstaff.ResumeRequest{Run: run}))
	}},
	"a fork of a plan": {brings: "Fork.Run", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		run := b.done(p.plan)
		made, err := b.Runner.Fork(ctx, tipstaff.ForkRequest{Run: run, Place: tipstaff.Place{At: b.looked(run)}})
		if err != nil {
			return run, err
		}
		return started(b.Resume(ctx, tipstaff.ResumeRequest{Run: made.ID}))
	}},
	"a fork of a pipeline": {brings: "Fork.Run", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		made, err := b.Runner.Fork(ctx, tipstaff.ForkRequest{Run: b.done(p.pipe), Place: tipstaff.Place{Stage: "look"}})
		if err != nil {
			return made.ID, err
		}
		return started(b.Resume(ctx, tipstaff.ResumeRequest{Run: made.ID}))
	}},
	"a rollback": {brings: "Rollback.Run", bring: func(b *bed, ctx context.Context, p payer) (tipstaff.ID, error) {
		made, err := b.Runner.Rollback(ctx, tipstaff.RollbackRequest{Run: b.done(p.pipe), Place: tipstaff.Place{Stage: "look"}})
		if err != nil {
			return made.ID, err
		}
		return started(b.Resume(ctx, tipstaff.ResumeRequest{Run: made.ID}))
	}},
}

func (b *bed) link(to, name string) {
	path := filepath.Join(b.dir, name)
	_ = os.Remove(path)
	b.check(os.Symlink(to, path))
}

// errNotThis: the way cannot bring such a document.
var errNotThis = errors.New("a document of this kind does not come in this way")

// Whoever may not decide can bring a document in no way that would have it do something for
// which a person is not asked, whatever the policy allows. Whoever may is not asked, nor is
// whoever starts what the operator serves.
func TestNothingRunsUnaskedForWhomMayNotDecide(t *testing.T) {
	t.Parallel()
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range payers() {
				b := payBed(t, worker.Write)
				for _, who := range someones {
					if who.on == "stdio" && tipstaff.CallerFrom(who.ctx()).Trusted() {
						continue // it has no scopes of its own
					}
					b.bringing(t, name+" with "+p.name+" by "+who.name, w, p, who)
				}
			}
		})
	}
}

func (b *bed) bringing(t *testing.T, what string, w way, p payer, who someone) {
	t.Helper()
	run, err := w.bring(b, who.ctx(), p)
	missing := ""
	switch {
	case !who.runs():
		missing = tipstaff.ScopeRun
	case w.own && !who.submits:
		missing = tipstaff.ScopeSubmit
	}
	switch {
	case err == errNotThis:
		return
	case missing != "":
		if tipstaff.CodeOf(err) != tipstaff.Forbidden || !strings.Contains(hintOf(err), missing) {
			t.Errorf("%s: %v, %s", what, err, hintOf(err))
		}
		return
	case err != nil:
		t.Errorf("%s: %v", what, err)
		return
	}
	out := b.wait(run)
	if who.may || w.served {
		if got := b.effects(); out.State != tipstaff.Completed || got != "paid\n" {
			t.Errorf("%s: it may run, and ended %+v with %q", what, out, got)
		}
		return
	}
	if out.State.Terminal() {
		t.Errorf("%s: it ended %+v with %q", what, out, b.effects())
		return
	}
	out = b.resume(run) // by somebody who may decide: it asks all the same
	gates := b.get(run).OpenGates
	if got := b.effects(); got != "" || out.Outcome != "parked" || len(gates) != 1 || gates[0].Kind != tipstaff.Approval {
		t.Errorf("%s: unasked it has done %q, and ended %+v asking %+v", what, got, out, gates)
		return
	}
	if shown := strings.Join(tipstaff.Subject(gates[0]).Lines, "\n"); !strings.Contains(shown, "may not decide") || !strings.Contains(shown, tipstaff.RuleBrought) {
		t.Errorf("%s: the gate does not say why it asks: %s", what, shown)
	}
	_, err = b.decide(run, gates[0].ID.String(), "allow")
	b.check(err)
	_, err = b.Resume(who.ctx(), tipstaff.ResumeRequest{Run: run})
	b.check(err)
	if out, got := b.wait(run), b.effects(); out.State != tipstaff.Completed || got != "paid\n" {
		t.Errorf("%s: allowed, it ended %+v with %q", what, out, got)
	}
}

func hintOf(err error) string {
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// bringsNothing are methods that bring no document, and fields that hold none, with what
// they do instead.
var bringsNothing = map[string]string{
	"Validate": "makes no run", "Get": "looks", "List": "looks", "Events": "looks", "Wait": "looks", "Checkpoints": "looks", "Artifact": "looks", "Inbox": "looks",
	"Threads": "looks", "Envelope": "looks", "Gate": "looks", "Graph": "looks", "Verify": "looks", "Label": "names a checkpoint", "Cancel": "ends a run", "Defer": "answers nothing",
	"Decide": "needs decide", "Resume": "goes on with what the run has frozen",
	"Draft":     "is confirmed by somebody who may decide: TestADraftIsConfirmed",
	"Tasks.New": "a task is handed over by whoever starts it", "Tasks.Set": "likewise", "Tasks.Get": "looks", "Tasks.List": "looks", "Tasks.Log": "looks", "Tasks.Feedback": "needs decide",
	"Hosts.Register": "serves agents",
	"Fork.Outputs":   "needs decide", "Fork.Metadata": "needs decide", "Rollback.Outputs": "needs decide", "Rollback.Metadata": "needs decide",
}

// A way to bring a document that is new has to have a row.
func TestEveryWayToBringADocumentHasARow(t *testing.T) {
	rows := map[string]bool{}
	for _, w := range ways {
		for _, field := range strings.Fields(w.brings) {
			rows[field] = true
		}
	}
	document := func(f reflect.StructField) bool {
		switch f.Type {
		case reflect.TypeFor[[]byte](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[map[string]json.RawMessage](), reflect.TypeFor[*tipstaff.TaskStart]():
			return true
		}
		return f.Name == "File"
	}
	for prefix, of := range map[string]reflect.Type{"": reflect.TypeFor[tipstaff.Service](), "Tasks.": reflect.TypeFor[tipstaff.Tasks](), "Hosts.": reflect.TypeFor[tipstaff.Hosts]()} {
		for i := range of.NumMethod() {
			m := of.Method(i)
			method := prefix + m.Name
			if bringsNothing[method] != "" {
				continue
			}
			found := false
			for row := range rows {
				found = found || strings.HasPrefix(row, method+".")
			}
			if !found {
				t.Errorf("nobody has said what becomes of a document that comes by %s", method)
			}
			for i := range m.Type.NumIn() {
				if m.Type.In(i).Kind() != reflect.Struct {
					continue
				}
				for _, f := range reflect.VisibleFields(m.Type.In(i)) {
					if row := method + "." + f.Name; document(f) && !rows[row] && bringsNothing[row] == "" {
						t.Errorf("nobody has said what becomes of a document that comes by %s", row)
					}
				}
			}
		}
	}
}

// bySubmitter is who may send documents, and not decide.
var bySubmitter = someones[2]

// wantPaidOnlyWhenAllowed has the gates of a run decided, and sees that it pays after the last
// alone.
func (b *bed) wantPaidOnlyWhenAllowed(run tipstaff.ID, gates ...tipstaff.GateKind) {
	b.t.Helper()
	for _, kind := range gates {
		b.wait(run)
		open := b.get(run).OpenGates
		if got := b.effects(); got != "" || len(open) != 1 || open[0].Kind != kind {
			b.t.Fatalf("before anybody allowed it, it has done %q, and asks %+v, not a gate of kind %s", got, open, kind)
		}
		b.check(decideAny(b, run, open[0]))
		b.resume(run)
	}
	if out := b.get(run); out.State != tipstaff.Completed || b.effects() != "paid\n" {
		b.t.Errorf("allowed, it is %s, and asks %+v", out.State, out.OpenGates)
	}
}

func decideAny(b *bed, run tipstaff.ID, g tipstaff.Gate) error {
	_, err := b.decide(run, g.ID.String(), g.Actions[0])
	return err
}

// A child run is what its parent is, also where the parent accepts its plan.
func TestChildrenAskAsTheirParentDoes(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	const parent = "kind: plan\nversion: 1\nroot: {id: sub, kind: sub_dispatch, skill: \"skill://payer@1.0.0\", accept: auto}\n"
	for _, c := range []struct {
		who  someone
		asks bool
	}{{bySubmitter, true}, {someones[3], false}} {
		s, err := b.Start(c.who.ctx(), tipstaff.StartRequest{Name: "p", Program: []byte(parent)})
		b.check(err)
		out := b.wait(s.Run)
		if !c.asks {
			if got := b.effects(); out.State != tipstaff.Completed || got != "paid\n" {
				t.Errorf("of somebody who may decide, it ended %+v with %q", out, got)
			}
			continue
		}
		children := b.get(s.Run).Lineage.Children
		if len(children) != 1 || b.effects() != "" {
			t.Fatalf("unasked, it ended %+v with children %v", out, children)
		}
		open := b.get(children[0]).OpenGates
		if len(open) != 1 || open[0].Kind != tipstaff.Approval {
			t.Fatalf("the child asks %+v", open)
		}
		b.check(decideAny(b, children[0], open[0]))
		if out := b.resume(s.Run); out.State != tipstaff.Completed || b.effects() != "paid\n" {
			t.Errorf("allowed, it ended %+v", out)
		}
	}
}

// What a model drafts is confirmed by a person, who may decide: that is its acceptance.
func TestADraftIsConfirmed(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	b.says = func(agent.Request) agent.Response {
		return agent.Response{Text: `{"kind": "plan", "version": 1, "skill": "skill://payer@1.0.0", "intent": {"verb": "deliver", "objects": [{"name": "it", "value": "paid"}]},
 "root": {"id": "pay", "kind": "tool_call", "tool": "mcp://builtin/exec@1.0.0", "args": {"argv": ["sh", "-c", "` + paid + `"]}}}`}
	}
	s, err := b.Draft(someones[1].ctx(), tipstaff.DraftRequest{Prose: "pay"})
	b.check(err)
	b.wantPaidOnlyWhenAllowed(s.Run, tipstaff.Confirmation)
}

// Who accepts a correction has been shown what changes, and not the calls that stay.
func TestACorrectionThatIsAcceptedAsksAsBefore(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	gated := strings.Replace(payers()[0].plan, "children: [", "children: [{id: ok, kind: gate, question: Go?}, ", 1)
	more := strings.Replace(strings.Replace(payCall, "id: pay", "id: more", 1), paid, "true", 1)
	s, err := b.Start(bySubmitter.ctx(), tipstaff.StartRequest{Name: "p", Program: []byte(gated)})
	b.check(err)
	b.wait(s.Run)
	_, err = b.Correct(bySubmitter.ctx(), tipstaff.CorrectRequest{Run: s.Run, Name: "p", Reason: "one more", Program: []byte(strings.Replace(gated, payCall, payCall+", "+more, 1))})
	b.check(err)
	b.resume(s.Run)
	for _, kind := range []tipstaff.GateKind{tipstaff.Confirmation, tipstaff.Question, tipstaff.Approval} {
		open := b.get(s.Run).OpenGates
		if got := b.effects(); got != "" || len(open) != 1 || open[0].Kind != kind {
			t.Fatalf("unasked it has done %q, and asks %+v, not a gate of kind %s", got, open, kind)
		}
		b.check(decideAny(b, s.Run, open[0]))
		b.resume(s.Run)
	}
}

// One agent that somebody runs alone goes around the gates before it: whoever may not decide
// is asked about everything that it changes.
func TestAnAgentAloneGoesAroundNoGate(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	b.write("served/pipe.yaml", `kind: pipeline
name: p
agents:
  - {name: look, stage_order: 1, tool: {uri: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}, handoff: always, default_next: note}
  - {name: note, stage_order: 2, tool: {uri: "mcp://builtin/write_file@1.0.0", args: {path: note.txt, content: x}}}
`)
	for _, who := range someones[1:4] {
		s, err := b.CreateEnvelope(who.ctx(), tipstaff.EnvelopeRequest{File: "served/pipe.yaml"})
		b.check(err)
		one, err := b.ExecuteAgent(who.ctx(), tipstaff.AgentRequest{Run: s.Run, Name: "note"})
		b.check(err)
		out := b.wait(one.Run)
		if wrote := b.read("note.txt") != ""; wrote != who.may || (out.Outcome == "parked") == who.may {
			t.Errorf("for %s it ended %+v, and has written: %t", who.name, out, wrote)
		}
		_ = os.Remove(filepath.Join(b.dir, "note.txt"))
	}
}

// A worker that changes nothing is no call that somebody has to allow.
func TestAReadingWorkerIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.ReadOnly)
	s, err := b.Start(bySubmitter.ctx(), tipstaff.StartRequest{Name: "p", Program: []byte(payers()[1].plan)})
	b.check(err)
	if out := b.wait(s.Run); out.State != tipstaff.Completed {
		t.Errorf("it ended %+v", out)
	}
}

// A fork by somebody who may not decide does what it has inherited as it was done, and asks
// about what comes after. A fork of that by somebody who may asks, too.
func TestAForkAsksAboutWhatItHasNotInherited(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	twice := strings.Replace(payers()[0].plan, "children: [", "children: ["+strings.Replace(payCall, "id: pay", "id: first", 1)+", ", 1)
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "p", Program: []byte(twice)})
	b.check(err)
	if b.wait(s.Run); b.effects() != "paid\npaid\n" {
		t.Fatal("it has not paid twice")
	}
	fork, err := b.Runner.Fork(bySubmitter.ctx(), tipstaff.ForkRequest{Run: s.Run, Place: tipstaff.Place{At: b.looked(s.Run)}})
	b.check(err)
	b.resume(fork.ID)
	again, err := b.Runner.Fork(cli(), tipstaff.ForkRequest{Run: fork.ID})
	b.check(err)
	b.resume(again.ID)
	for _, run := range []tipstaff.ID{fork.ID, again.ID} {
		b.wantPaidOnlyWhenAllowed(run, tipstaff.Approval)
		b.verified(run)
	}
}

// A run has frozen the file that it was made of: what the operator changes is for the next.
func TestAServedFileThatChangesIsForTheNextRun(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	gated := strings.Replace(payers()[0].plan, "children: [", "children: [{id: ok, kind: gate, question: Go?}, ", 1)
	b.write("served/p.yaml", gated)
	s, err := b.Start(someones[1].ctx(), tipstaff.StartRequest{File: "served/p.yaml"})
	b.check(err)
	b.wait(s.Run)
	b.write("served/p.yaml", strings.Replace(gated, paid, "echo another >> effects", 1))
	b.wantPaidOnlyWhenAllowed(s.Run, tipstaff.Question)
}

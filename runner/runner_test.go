package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

const gated = `
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: ok, kind: gate, question: "Go on?"}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
outputs: {by: "${ok.output.by}"}
`

func TestARunParksIsDecidedAndEnds(t *testing.T) {
	b := newBed(t)
	run, out := b.run(gated)
	if out.Outcome != "parked" || b.read("effects") != "one\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	got := b.get(run)
	if got.Status != tipstaff.StatusAwaitingDecision || len(got.OpenGates) != 1 || got.OpenGates[0].Path != "root/ok" {
		t.Fatalf("%+v", got)
	}
	if d, err := b.decide(run, "root/ok", "approve"); err != nil || d.Run.Status != tipstaff.StatusAwaitingResume {
		t.Fatalf("%+v %v", d, err)
	}
	if b.read("effects") != "one\n" {
		t.Error("a decision started something")
	}
	if out := b.resume(run); out.State != tipstaff.Completed || out.Outcome != "success" {
		t.Fatalf("%+v", out)
	}
	if got := b.get(run); string(got.Outputs) != `{"by":"local:cli"}` {
		t.Errorf("outputs %s", got.Outputs)
	}
	if b.read("effects") != "one\ntwo\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	rep := b.verified(run)
	if want := "drafting --[intent.compiled]--> proposed --[intent.accept]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed"; rep.Lifecycle != want {
		t.Errorf("lifecycle %s", rep.Lifecycle)
	}
}

func TestResumeOfAnUndecidedRunWritesNothing(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	before := b.get(run).Head
	if out := b.resume(run); out.Outcome != "parked" {
		t.Errorf("%+v", out)
	}
	if after := b.get(run).Head; after != before {
		t.Error("something was written")
	}
}

func TestDecisionsThatDoNotFitWriteNothing(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	head := b.get(run).Head
	other := tipstaff.NewID(time.Now())
	for _, c := range []struct {
		name string
		req  tipstaff.DecideRequest
		code tipstaff.Code
	}{
		{"no run", tipstaff.DecideRequest{Gate: "root/ok", Action: "approve"}, tipstaff.InvalidArgument},
		{"another run", tipstaff.DecideRequest{Run: other, Gate: "root/ok", Action: "approve"}, tipstaff.RunNotFound},
		{"no gate", tipstaff.DecideRequest{Run: run, Action: "approve"}, tipstaff.InvalidArgument},
		{"another gate", tipstaff.DecideRequest{Run: run, Gate: "root/two", Action: "approve"}, tipstaff.GateNotFound},
		{"another action", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "allow"}, tipstaff.ActionNotOffered},
		{"another subject", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", SubjectDigest: "sha256:00"}, tipstaff.SubjectChanged},
		{"feedback", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Feedback: "because"}, tipstaff.FeedbackNotAllowed},
		{"a long note", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Note: strings.Repeat("x", 5000)}, tipstaff.InvalidArgument},
		{"an answer that is no JSON", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Answer: json.RawMessage("{")}, tipstaff.InvalidArgument},
		{"the way of a gate that expired", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Via: "expiry"}, tipstaff.InvalidArgument},
		{"that of one whose run ended", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Via: "run_ended"}, tipstaff.InvalidArgument},
		{"that of one that was replaced", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Via: "superseded"}, tipstaff.InvalidArgument},
		{"an unsafe number", tipstaff.DecideRequest{Run: run, Gate: "root/ok", Action: "approve", Answer: json.RawMessage("9007199254740993")}, tipstaff.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Decide(cli(), c.req)
			wantCode(t, err, c.code)
			if b.get(run).Head != head {
				t.Error("something was written")
			}
		})
	}
}

func TestTheSameDecisionAgainHasTheSameBytes(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	first, err := b.decide(run, "root/ok", "approve", answer(`{"n": 1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	gate := first.Decision.GateID.String()
	for range 2 {
		again, err := b.decide(run, gate, "approve", answer(`{"n":1}`))
		if err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) {
			t.Fatalf("%v\n%s\n%s", err, first.Raw, again.Raw)
		}
		b.resume2(run)
	}
	for name, with := range map[string]func(*tipstaff.DecideRequest){
		"action": func(r *tipstaff.DecideRequest) { r.Action = "deny" },
		"answer": answer(`{"n":2}`),
		"note":   func(r *tipstaff.DecideRequest) { r.Note = "x" },
		"by":     func(r *tipstaff.DecideRequest) { r.DecidedBy = "somebody" },
	} {
		_, err := b.decide(run, gate, "approve", answer(`{"n":1}`), with)
		if tipstaff.CodeOf(err) != tipstaff.DecisionConflict {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

// resume2 resumes if it can: the second time the run has ended.
func (b *bed) resume2(run tipstaff.ID) {
	if s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run}); err == nil {
		b.wait(s.Run)
	}
}

func TestOfFiftyDecisionsOneIsStored(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			action := []string{"approve", "deny"}[i%2]
			d, err := b.decide(run, "root/ok", action)
			if tipstaff.CodeOf(err) == tipstaff.GateNotFound { // the key no longer names an open gate
				err = &tipstaff.Error{Code: tipstaff.DecisionConflict}
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				seen[string(tipstaff.CodeOf(err))]++
			} else {
				seen[string(d.Raw)]++
			}
		})
	}
	wg.Wait()
	if len(seen) > 2 || len(seen) == 2 && seen[string(tipstaff.DecisionConflict)] == 0 {
		t.Errorf("%v", seen)
	}
	resolved := 0
	for _, k := range b.kinds(run) {
		if k == string(tipstaff.KindPolicyGateResolve) {
			resolved++
		}
	}
	if resolved != 1 {
		t.Errorf("%d decisions were stored", resolved)
	}
}

func TestADeniedGateFailsTheRun(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	if _, err := b.decide(run, "root/ok", "deny", func(r *tipstaff.DecideRequest) { r.Note = "not today" }); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Failed || out.Reason != "gate_denied" {
		t.Errorf("%+v", out)
	}
	if b.read("effects") != "one\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	b.verified(run)
}

func TestAnExpiredGateIsDeniedOnce(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(`root: {id: ok, kind: gate, question: "Now?", expires: 1h}`)
	b.ahead.Store(int64(time.Hour))
	_, err := b.decide(run, b.gateID(run), "approve")
	wantCode(t, err, tipstaff.GateExpired)
	if n := count(b.kinds(run), string(tipstaff.KindPolicyGateResolve)); n != 1 {
		t.Errorf("whoever came too late was refused, and %d records say so", n)
	}
	_, err = b.decide(run, b.gateID(run), "approve")
	wantCode(t, err, tipstaff.GateExpired)
	if out := b.resume(run); out.Reason != "gate_denied" {
		t.Errorf("%+v", out)
	}
	if n := count(b.kinds(run), string(tipstaff.KindPolicyGateResolve)); n != 1 {
		t.Errorf("it was closed %d times", n)
	}
	b.verified(run)
}

func (b *bed) gateID(run tipstaff.ID) string {
	for _, e := range b.events(run) {
		if e.Kind == tipstaff.KindPolicyGate {
			var body struct{ Gate string }
			_ = json.Unmarshal(e.Body, &body)
			return body.Gate
		}
	}
	b.t.Fatal("no gate was opened")
	return ""
}

func count(list []string, s string) (n int) {
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

func TestYesApprovesGateNodesAndNothingElse(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"policy: {rules: [{id: careful, tool: \"builtin/exec\", do: ask}]}\n")
	run, out := b.run(gated, func(r *tipstaff.StartRequest) { r.Yes = true })
	if out.Outcome != "parked" || b.read("effects") != "" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	g := b.get(run).OpenGates
	if len(g) != 1 || g[0].Kind != tipstaff.Approval || g[0].Key != "root/one/approval" || g[0].Path != "root/one" {
		t.Fatalf("%+v", g)
	}
	if _, err := b.decide(run, "root/one/approval", "allow"); err != nil {
		t.Fatal(err)
	}
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run, Presence: tipstaff.Presence{Yes: true}})
	if err != nil {
		t.Fatal(err)
	}
	if out := b.wait(s.Run); out.Outcome != "parked" {
		t.Fatalf("%+v", out) // two asks too
	}
	if b.read("effects") != "one\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	for _, e := range b.events(run) {
		if e.Kind == tipstaff.KindPolicyGateResolve && e.Path == "root/ok" && !strings.Contains(string(e.Body), `"via":"--yes"`) {
			t.Errorf("%s", e.Body)
		}
	}
	b.verified(run)
}

func TestADeniedApprovalSendsNothing(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"policy: {rules: [{id: careful, tool: \"builtin/exec\", do: ask}]}\n")
	run, _ := b.run(gated)
	if _, err := b.decide(run, "root/one/approval", "deny"); err != nil {
		t.Fatal(err)
	}
	out := b.resume(run)
	if out.Reason != "gate_denied" || out.Code != "approval_denied" || b.read("effects") != "" {
		t.Errorf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(run)
}

// The policy of now can only tighten what the run froze.
func TestAPolicyThatTightensStopsAParkedRun(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	b.write("tipstaff.yaml", manifest+"policy: {rules: [{id: stop, tool: \"builtin/exec\", do: deny}]}\n")
	if _, err := b.decide(run, "root/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	out := b.resume(run)
	if out.Reason != "policy_denied" || b.read("effects") != "one\n" {
		t.Errorf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(run)
}

func TestAPolicyThatLoosensDoesNotReachAFrozenRun(t *testing.T) {
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"policy: {rules: [{id: stop, tool: \"builtin/exec\", when: \"size(args.argv) == 3\", do: deny}]}\n")
	run, out := b.run(`
root:
  kind: sequential
  children:
    - {id: ok, kind: gate, question: "Go on?"}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}`)
	if out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	b.write("tipstaff.yaml", manifest)
	if _, err := b.decide(run, "root/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.Reason != "policy_denied" || b.read("effects") != "" {
		t.Errorf("%+v, effects %q", out, b.read("effects"))
	}
}

// An owner that was asked to cancel may do so, and be gone, between two looks of whoever asked.
func TestAnOwnerThatCancelsAndIsGoneHasCancelled(t *testing.T) {
	b := newBed(t)
	run := b.hanging("alice")
	b.recorded(run, tipstaff.KindStageStarted)
	asked := false
	other := runner.New(runner.Config{Store: b.store, Workspace: b.dir, Self: b.Self, Alive: func(flow.Owner, time.Time, time.Time) bool {
		row, err := b.store.Run(cli(), run.String())
		b.check(err)
		if asked = asked || row.Cancel; !asked {
			return true
		}
		b.recorded(run, tipstaff.KindIntentCancel)
		return false
	}})
	got, err := other.Cancel(cli(), tipstaff.CancelRequest{Run: run})
	if err != nil || got.How != tipstaff.CancelStopped || got.State != tipstaff.Cancelled {
		t.Errorf("%s, %s: %v", got.How, got.State, err)
	}
}

// An owner that ends its run and is gone, after the row was read and before anybody looks whether
// it lives, has not left the run to others.
func TestAnOwnerThatEndsAndIsGoneHasLeftNothing(t *testing.T) {
	b := newBed(t)
	run := b.hanging("alice")
	b.recorded(run, tipstaff.KindStageStarted)
	once := sync.OnceFunc(func() {
		_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
		b.check(err)
		b.recorded(run, tipstaff.KindIntentCancel)
	})
	other := runner.New(runner.Config{Store: b.store, Workspace: b.dir, Self: b.Self, Alive: func(flow.Owner, time.Time, time.Time) bool { once(); return false }})
	got, err := other.Get(cli(), run)
	if err != nil || got.State != tipstaff.Cancelled || got.Status != string(tipstaff.Cancelled) {
		t.Errorf("%s, %s: %v", got.State, got.Status, err)
	}
}

func TestCancelOfAWaitingRunSettlesIt(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Reason: "changed my mind"})
	if err != nil || got.State != tipstaff.Cancelled || len(got.OpenGates) != 0 {
		t.Fatalf("%+v %v", got, err)
	}
	tail := b.kinds(run)
	if want := []string{"run.cancel_requested", "policy.gate.resolve", "intent.cancel"}; !slices.Equal(tail[len(tail)-3:], want) {
		t.Errorf("%v", tail)
	}
	b.verified(run)
	if again, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil || got.How != tipstaff.CancelDead || again.How != tipstaff.CancelDone || again.HeadSeq != got.HeadSeq {
		t.Errorf("%s, then %s at record %d: %v", got.How, again.How, again.HeadSeq, err)
	}
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	wantCode(t, err, tipstaff.RunEnded)
	_, err = b.decide(run, "root/ok", "approve")
	if err == nil {
		t.Error("a closed gate was decided")
	}
}

func TestCancelOfALivingRunIsSettledByItsOwner(t *testing.T) {
	b := newBed(t)
	s := b.start(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5m}, timeout: 6m}`)
	b.until(s.Run, tipstaff.KindRunStarted)
	got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run, Reason: "enough"})
	if err != nil || got.State != tipstaff.Cancelled {
		t.Fatalf("%+v %v", got, err)
	}
	if out := b.wait(s.Run); out.State != tipstaff.Cancelled {
		t.Errorf("%+v", out)
	}
	b.verified(s.Run)
}

// until waits for a record of a kind.
func (b *bed) until(run tipstaff.ID, kind tipstaff.Kind) {
	b.t.Helper()
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run, Follow: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Kind == kind {
			return
		}
	}
	b.t.Fatalf("there was no %s", kind)
}

func TestAStopInterruptsAndResumeGoesOn(t *testing.T) {
	b := newBed(t)
	s := b.start(`
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: "${input.d}"}, timeout: 6m}
inputs: {d: {type: string, default: 1m}}`)
	b.until(s.Run, tipstaff.KindPlanStep)
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	if out := b.wait(s.Run); out.Outcome != "interrupted" || out.Reason != "signal:TERM" {
		t.Fatalf("%+v", out)
	}
	got := b.get(s.Run)
	if got.Status != tipstaff.StatusInterrupted || got.Owner != nil {
		t.Errorf("%+v", got)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	r, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	if err != nil {
		t.Fatal(err)
	}
	b.until(s.Run, tipstaff.KindRunResumed)
	b.stop(&flow.Stop{Reason: "signal:INT"})
	b.wait(r.Run)
	if b.read("effects") != "one\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	b.verified(s.Run)
}

func TestRecoveryMarksTheRunsOfDeadOwnersOnce(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	lease, err := b.store.Acquire(context.Background(), run.String(), flow.Owner{Kind: "foreground", Launch: "gone", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.swept = nil
	if err := b.Recover(cli(), "test"); err != nil || len(b.swept) != 0 {
		t.Fatalf("a living run was touched: %v %v", err, b.swept)
	}
	b.dead["gone"] = true
	if got := b.get(run); got.Status != tipstaff.StatusAwaitingDecision {
		t.Errorf("%s", got.Status) // reads say so even before
	}
	for range 2 {
		if err := b.Recover(cli(), "test"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(b.kinds(run), string(tipstaff.KindRunInterrupted)); n != 1 {
		t.Errorf("%d times", n)
	}
	if !slices.Equal(b.swept, []string{run.String()}) {
		t.Errorf("swept %v", b.swept)
	}
	failed := make(chan error, 1)
	b.store.Append(lease, []flow.Draft{{Kind: "clock.read", Path: "x", Body: json.RawMessage(`{}`)}}, func(err error) { failed <- err })
	if err := <-failed; err == nil {
		t.Error("the dead owner could still write")
	}
	b.verified(run)
}

func TestRecoveryCompletesACancelThatItsOwnerDidNot(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	if _, err := b.store.Acquire(context.Background(), run.String(), flow.Owner{Kind: "foreground", Launch: "gone", Pid: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Reason: "stop it", Wait: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	b.dead["gone"] = true
	if err := b.Recover(cli(), "test"); err != nil {
		t.Fatal(err)
	}
	got := b.get(run)
	if got.State != tipstaff.Cancelled || got.Error == nil || got.Error.Message != "stop it" {
		t.Errorf("%+v", got)
	}
	b.verified(run)
}

func TestAForkServesWhatWasDoneAndGoesLiveAfterIt(t *testing.T) {
	b := newBed(t)
	run, out := b.run(`
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: later.txt}}
outputs: {text: "${two.output.text}"}`)
	if out.State != tipstaff.Failed || out.Reason != "tool_error" {
		t.Fatalf("%+v", out)
	}
	fork, err := b.Fork(cli(), forking{Run: run})
	if err != nil || fork.Status != tipstaff.StatusAwaitingResume || fork.Lineage == nil || fork.Lineage.Parent != run {
		t.Fatalf("%+v %v", fork, err)
	}
	b.write("later.txt", "here")
	if out := b.resume(fork.ID); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	if got := b.get(fork.ID); string(got.Outputs) != `{"text":"here"}` || b.read("effects") != "one\n" {
		t.Errorf("%s, effects %q", got.Outputs, b.read("effects"))
	}
	b.verified(fork.ID)
	dir := filepath.Join(t.TempDir(), "x")
	if err := runner.Export(cli(), b.Runner, fork.ID, dir); err != nil {
		t.Fatal(err)
	}
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir})
	if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
		t.Fatalf("%+v %v", rep, err)
	}
	base := filepath.Join(dir, "base", run.String()+".ndjson")
	text, _ := os.ReadFile(base)
	if err := os.WriteFile(base, []byte(strings.Replace(string(text), "echo one", "echo two", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Dir: dir}); err != nil || rep.Integrity.OK {
		t.Errorf("a changed base was not found: %+v %v", rep, err)
	}
	_, err = b.Fork(cli(), forking{Run: run, At: 10_000})
	wantCode(t, err, tipstaff.CursorBeyondHead)
}

func TestNothingIsCreatedForAProgramThatCannotRun(t *testing.T) {
	b := newBed(t)
	for name, c := range map[string]struct {
		plan string
		code tipstaff.Code
	}{
		"a fault":       {`root: {kind: gate}`, tipstaff.InvalidProgram},
		"a step":        {`root: {id: a, kind: step, prompt: hi}`, tipstaff.InvalidProgram},
		"a child run":   {`root: {id: a, kind: sub_dispatch, skill: "skill://x@1.0.0"}`, tipstaff.InvalidProgram},
		"delivery":      {"workspace: worktree\nroot: {id: a, kind: gate, question: ok}", tipstaff.InvalidProgram},
		"a wrong pin":   {`root: {id: a, kind: tool_call, tool: "mcp://builtin/sleep@9.9.9", args: {duration: 1s}}`, tipstaff.Refused},
		"no such tool":  {`root: {id: a, kind: tool_call, tool: "mcp://builtin/http_get@1.0.0", args: {url: "https://x"}}`, tipstaff.Refused},
		"a wrong input": {"inputs: {n: {type: integer}}\nroot: {id: a, kind: gate, question: ok}", tipstaff.InvalidProgram},
	} {
		_, err := b.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + c.plan)})
		if tipstaff.CodeOf(err) != c.code {
			t.Errorf("%s: %v (%v), want %s", name, tipstaff.CodeOf(err), err, c.code)
		}
	}
	page, err := b.List(cli(), tipstaff.ListRequest{})
	if err != nil || len(page.Runs) != 0 {
		t.Errorf("%d runs, %v", len(page.Runs), err)
	}
}

func TestBoundsEndARunAsSuch(t *testing.T) {
	b := newBed(t)
	run, out := b.run(`
bounds: {tool_calls: 2}
root:
  kind: sequential
  children:
    - {id: a, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}
    - {id: b, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}
    - {id: c, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
	if out.State != tipstaff.Failed || out.Reason != "bound_exceeded" || out.Bound != "tool_calls" {
		t.Errorf("%+v", out)
	}
	if got := b.get(run).Bounds["tool_calls"]; got.Used != 2 || got.Limit != 2 {
		t.Errorf("%+v", got)
	}
	b.verified(run)
}

func TestEventsFromAnyCursorGiveTheRest(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(gated)
	all := b.events(run)
	for after := range int64(len(all)) + 1 {
		var got []int64
		for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run, After: after, Follow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Seq)
		}
		if len(got) != len(all)-int(after) || len(got) > 0 && got[0] != after+1 {
			t.Errorf("after %d: %v", after, got)
		}
	}
	for _, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run, After: int64(len(all)) + 1}) {
		wantCode(t, err, tipstaff.CursorBeyondHead)
	}
}

func TestAListPagesThroughAllRuns(t *testing.T) {
	b := newBed(t)
	var want []tipstaff.ID
	for range 7 {
		run, _ := b.run(`root: {id: ok, kind: gate, question: "Go on?"}`)
		want = append([]tipstaff.ID{run}, want...)
	}
	var got []tipstaff.ID
	var before tipstaff.ID
	for {
		page, err := b.List(cli(), tipstaff.ListRequest{Limit: 3, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		if before = page.Next; before.IsZero() {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAPersonAtTheTerminalAnswersOrDeclines(t *testing.T) {
	b := newBed(t)
	asked := 0
	ask := func(_ context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		asked++
		return tipstaff.Choice{Action: "approve"}, g.Question == "First?"
	}
	run, out := b.run(`
root:
  kind: sequential
  children:
    - {id: a, kind: gate, question: "First?"}
    - {id: b, kind: gate, question: "Second?"}`, b.attended(ask))
	if out.Outcome != "parked" || asked != 2 {
		t.Errorf("%+v after %d questions", out, asked)
	}
	if got := b.get(run).OpenGates; len(got) != 1 || got[0].Path != "root/b" {
		t.Errorf("%+v", got)
	}
	b.verified(run)
}

func TestADecisionElsewhereEndsTheQuestionAtTheTerminal(t *testing.T) {
	b := newBed(t)
	asking := make(chan tipstaff.Gate, 1)
	ask := func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		asking <- g
		<-ctx.Done()
		return tipstaff.Choice{}, false
	}
	s := b.start(`root: {id: a, kind: gate, question: "Go?"}`, b.attended(ask))
	g := <-asking
	if _, err := b.decide(s.Run, g.ID.String(), "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.wait(s.Run); out.State != tipstaff.Completed {
		t.Errorf("%+v", out)
	}
}

// What manifest and policy refuse whatever comes is refused before anything is done, with
// the place where it stands.
func TestCertainRefusalsComeFirst(t *testing.T) {
	call := func(tool, args string) string {
		return `
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/` + tool + `@1.0.0", args: ` + args + `}`
	}
	for _, c := range []struct{ manifest, program, code string }{
		{manifest, call("read_file", "{pfad: a}"), "invalid_arguments"},
		{manifest, call("read_file", "{path: 7}"), "invalid_arguments"},
		{strings.Replace(manifest, ", once", "", 1), call("read_file", "{path: a}"), "effect_denied"},
		{manifest + "policy: {rules: [{id: stop, tool: \"builtin/read_file\", do: deny}]}\n", call("read_file", `{path: "${one.output.stdout}"}`), "policy_denied"},
	} {
		b := newBed(t)
		b.write("tipstaff.yaml", c.manifest)
		for _, dry := range []bool{true, false} {
			req := tipstaff.StartRequest{Program: []byte("kind: plan\nversion: 1\n" + strings.TrimPrefix(c.program, "\n")), Name: "plan.yaml"}
			_, err := b.Start(cli(), req)
			if dry {
				_, err = b.Validate(cli(), tipstaff.ValidateRequest{Start: &req})
			}
			var refused *tipstaff.Error
			if !errors.As(err, &refused) || refused.Code != tipstaff.Refused || len(refused.Problems) == 0 || refused.Problems[0].Code != c.code || refused.Problems[0].Line == 0 {
				t.Errorf("%s: %+v", c.code, err)
			}
		}
		if runs, err := b.List(cli(), tipstaff.ListRequest{}); err != nil || len(runs.Runs) > 0 || b.read("effects") != "" {
			t.Errorf("%s: %d runs, effects %q, %v", c.code, len(runs.Runs), b.read("effects"), err)
		}
	}
}

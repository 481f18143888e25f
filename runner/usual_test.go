package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// usual is a runner with no more than is required.
func usual(t *testing.T) (*runner.Runner, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(filepath.Join(dir, ".tipstaff"), &sqlite.Options{UserKey: true})
	if err != nil {
		t.Fatal(err)
	}
	r := runner.New(runner.Config{Store: store, Keys: store.Keys(), Workspace: dir})
	t.Cleanup(func() {
		r.Drain()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, dir
}

// What is not said of a runner is as usual: plans and pipelines run, call programs, and are
// verified.
func TestARunnerWithNoMoreThanIsRequired(t *testing.T) {
	for name, program := range map[string]string{
		"a plan": `kind: plan
version: 1
root: {kind: tool_call, id: put, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo done > out.txt"]}}
`,
		"a pipeline": `kind: pipeline
version: 1
name: p
agents:
  - {name: put, stage_order: 1, tool: {uri: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo done > out.txt"]}}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := usual(t)
			started, err := r.Start(cli(), tipstaff.StartRequest{Program: []byte(program), Name: "p.yaml"})
			if err != nil {
				t.Fatal(err)
			}
			if d, err := r.Wait(cli(), started.Run); err != nil || d.State != tipstaff.Completed {
				t.Fatalf("%+v: %v", d, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "out.txt")); err != nil || string(text) != "done\n" {
				t.Errorf("%q, %v", text, err)
			}
			if report, err := r.Verify(cli(), tipstaff.VerifyRequest{Run: started.Run}); err != nil || !report.Integrity.OK || !report.Conformance.OK {
				t.Errorf("%+v, %v", report, err)
			}
			if err := r.Recover(cli(), "test"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A runner without a store is that of a folder in which nothing was ever run: all that looks
// finds nothing, and what would write is refused.
func TestARunnerWithoutAStore(t *testing.T) {
	r := runner.New(runner.Config{Workspace: t.TempDir()})
	ctx, nobody := cli(), tipstaff.FollowupID(tipstaff.ID{1})
	if runs, err := r.List(ctx, tipstaff.ListRequest{Limit: 10, Count: true}); err != nil || len(runs.Runs) > 0 {
		t.Errorf("runs: %+v, %v", runs, err)
	}
	if got, err := (tipstaff.Control{Runs: r, Now: r.Now}).Pending(ctx, tipstaff.PendingRequest{Limit: 10}); err != nil || got.Total > 0 {
		t.Errorf("gates: %+v, %v", got, err)
	}
	for what, do := range map[string]func() error{
		"get":    func() error { _, err := r.Get(ctx, nobody); return err },
		"resume": func() error { _, err := r.Resume(ctx, tipstaff.ResumeRequest{Run: nobody}); return err },
		"cancel": func() error { _, err := r.Cancel(ctx, tipstaff.CancelRequest{Run: nobody}); return err },
		"decide": func() error {
			_, err := r.Decide(ctx, tipstaff.DecideRequest{Run: nobody, Gate: "g", Action: "approve"})
			return err
		},
		"verify": func() error { _, err := r.Verify(ctx, tipstaff.VerifyRequest{Run: nobody}); return err },
	} {
		if err := do(); tipstaff.CodeOf(err) != tipstaff.RunNotFound && tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range r.Events(ctx, tipstaff.EventsRequest{Run: nobody, Follow: true}) {
		break
	}
	_, err := r.Start(ctx, tipstaff.StartRequest{Program: []byte("kind: plan\nversion: 1\nroot: {kind: gate, id: ask, question: Well?}\n"), Name: "p.yaml"})
	if code := tipstaff.CodeOf(err); code != tipstaff.StoreUnavailable || !strings.Contains(err.Error(), "no store") {
		t.Errorf("start: %v %+v", err, err)
	}
}

// The follow-up that a decision makes is what goes on, where the decider asks for that.
func TestADecisionToFixHasTheFollowUpGoOn(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	b.changed(run, filepath.Join(b.Worktrees, run.String()))
	gate := b.get(run).OpenGates[0]
	ask := tipstaff.Answer{Resume: true, DecideRequest: tipstaff.DecideRequest{Run: run, Gate: gate.ID.String(), Action: tipstaff.DeliverFix, Feedback: "more"}}
	for range 2 { // the same again has nothing more to do
		decided, err := b.control().Answer(cli(), ask)
		b.check(err)
		child := decided.Decision.FollowupRunID
		b.wait(child)
		if got := b.get(child); len(got.OpenGates) != 1 {
			t.Errorf("the follow-up is %s", got.Status)
		}
	}
}

package runner_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// A decision that changes what runs obey says so, or is refused and named what it would
// change; then it is done.
func TestADecisionNamesWhatIsObeyed(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	worktree := filepath.Join(b.Worktrees, run.String())
	b.check(os.WriteFile(filepath.Join(worktree, "tipstaff.yaml"), []byte(manifest+"\n# changed\n"), 0o644))
	b.changed(run, worktree)
	gate, err := b.Gate(cli(), run, "delivery#1")
	b.check(err)
	if first := gate.Shown.Lines[0]; !strings.Contains(first, "tipstaff.yaml") || !strings.Contains(first, "asks once more") {
		t.Errorf("the first line is %q", first)
	}
	before := b.read("tipstaff.yaml")
	for _, answer := range []string{"", `{}`, `{"obeyed":false}`, `true`, `["tipstaff.yaml"]`} {
		_, err := b.decide(run, "delivery#1", tipstaff.DeliverApply, func(r *tipstaff.DecideRequest) { r.Answer = json.RawMessage(answer) })
		if tipstaff.CodeOf(err) != tipstaff.ObeyedFilesChanged || !strings.Contains(err.Error(), "tipstaff.yaml") {
			t.Errorf("answered %q: %v", answer, err)
		}
	}
	_, err = b.decide(run, "delivery#1", tipstaff.DeliverApply, func(r *tipstaff.DecideRequest) { r.Answer = tipstaff.AcceptObeyed() })
	b.check(err)
	if b.read("tipstaff.yaml") != before {
		t.Error("a decision has changed the manifest by itself")
	}
	if d := b.resume(run); d.Waits() || !strings.Contains(b.read("tipstaff.yaml"), "# changed") {
		t.Errorf("it was not applied: %+v", d)
	}
}

// What the manifest says may change between the gate and the decision, and again before that
// takes effect. Whoever decides is asked about the files as they are obeyed now.
func TestADecisionNamesWhatHasComeToBeObeyed(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	worktree := filepath.Join(b.Worktrees, run.String())
	b.check(os.MkdirAll(filepath.Join(worktree, "wiki"), 0o755))
	b.check(os.WriteFile(filepath.Join(worktree, "wiki/server.sh"), []byte("exit\n"), 0o644))
	b.changed(run, worktree)
	_, err := b.decide(run, "delivery#1", tipstaff.DeliverApply)
	b.check(err)
	b.write("tipstaff.yaml", strings.Replace(manifest, "servers:\n", "servers:\n  wiki: {command: [sh, wiki/server.sh]}\n", 1))
	if d := b.resume(run); !d.Waits() {
		t.Fatalf("it was applied: %+v", d)
	}
	gate, err := b.Gate(cli(), run, "delivery#2")
	b.check(err)
	if !strings.Contains(strings.Join(gate.Shown.Lines, "\n"), "obeyed_files_changed (wiki/server.sh)") {
		t.Errorf("it does not say why it opens again: %q", gate.Shown.Lines)
	}
	if files := tipstaff.AsksAgain(gate, tipstaff.DeliverApply); strings.Join(files, " ") != "wiki/server.sh" {
		t.Errorf("asked about %v", files)
	}
	_, err = b.decide(run, "delivery#2", tipstaff.DeliverApply)
	if tipstaff.CodeOf(err) != tipstaff.ObeyedFilesChanged || !strings.Contains(err.Error(), "wiki/server.sh") {
		t.Errorf("decided as if nothing had changed: %v", err)
	}
	_, err = b.decide(run, "delivery#2", tipstaff.DeliverApply, func(r *tipstaff.DecideRequest) { r.Answer = tipstaff.AcceptObeyed() })
	b.check(err)
	if d := b.resume(run); d.Waits() || b.read("wiki/server.sh") != "exit\n" {
		t.Errorf("it was not applied: %+v", d)
	}
}

// Files none of which is obeyed may be a repository together: they are named first, and never
// applied.
func TestAChangeThatMakesARepository(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	worktree := filepath.Join(b.Worktrees, run.String())
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/.keep": "", "refs/.keep": "", "config": "[core]\n\tfsmonitor = touch PWNED\n"} {
		at := filepath.Join(worktree, "foo", name)
		b.check(os.MkdirAll(filepath.Dir(at), 0o755))
		b.check(os.WriteFile(at, []byte(text), 0o644))
	}
	b.changed(run, worktree)
	gate, err := b.Gate(cli(), run, "delivery#1")
	b.check(err)
	for i, name := range []string{"foo/HEAD", "foo/config", "foo/objects/.keep", "foo/refs/.keep"} {
		if line := gate.Shown.Lines[i]; !strings.HasPrefix(line, "decides  "+name+"  ") || !strings.Contains(line, "apply never changes it") {
			t.Errorf("line %d is %q", i+1, line)
		}
	}
	if got := blockers(gate); got != "apply:protected_path" {
		t.Errorf("blocked: %q", got)
	}
	_, err = b.decide(run, "delivery#1", tipstaff.DeliverApply, func(r *tipstaff.DecideRequest) { r.Answer = tipstaff.AcceptObeyed() })
	if tipstaff.CodeOf(err) != tipstaff.ActionBlocked {
		t.Errorf("decided: %v", err)
	}
}

// A branch changes nothing that is obeyed here: nobody is asked about it once more.
func TestABranchIsNotAskedAboutTwice(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	worktree := filepath.Join(b.Worktrees, run.String())
	b.check(os.WriteFile(filepath.Join(worktree, "tipstaff.yaml"), []byte(manifest+"\n# changed\n"), 0o644))
	b.changed(run, worktree)
	_, err := b.decide(run, "delivery#1", tipstaff.DeliverApprove)
	b.check(err)
	if d := b.resume(run); d.Waits() {
		t.Errorf("%+v", d)
	}
}

// The credentials of a run's manifest are found in what it has changed.
func TestACredentialOfTheManifestIsNotDelivered(t *testing.T) {
	const secret = "a-token-of-the-service-0123456789"
	t.Setenv("SERVICE_TOKEN", secret)
	b := newBed(t)
	b.write("tipstaff.yaml", manifest+"models:\n  m: {provider: anthropic, model: m, api_key: $env:SERVICE_TOKEN}\n")
	b.withGit()
	run, _ := b.run(deliverable)
	worktree := filepath.Join(b.Worktrees, run.String())
	b.check(os.WriteFile(filepath.Join(worktree, "config.ini"), []byte("token = "+secret+"\n"), 0o644))
	b.changed(run, worktree)
	gate, err := b.Gate(cli(), run, "delivery#1")
	b.check(err)
	if got := blockers(gate); got != "approve:secret_in_diff apply:secret_in_diff" {
		t.Errorf("blocked: %q", got)
	}
	diff, err := tipstaff.Diff(cli(), b.Runner, tipstaff.DiffRequest{Run: run, Mode: tipstaff.DiffFull})
	b.check(err)
	if strings.Contains(diff.Text, secret) || !strings.Contains(diff.Text, "left out") {
		t.Errorf("the recorded difference is %s", diff.Text)
	}
	for _, line := range gate.Shown.Lines {
		if strings.Contains(line, secret) {
			t.Errorf("the gate shows it: %s", line)
		}
	}
	_, err = b.decide(run, "delivery#1", tipstaff.DeliverSkip)
	b.check(err)
	b.resume(run)
}

package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// What a worktree is given of ignored files is for those to say who may decide, or the manifest.
func TestWhoMayNotDecideNamesNoIgnoredFiles(t *testing.T) {
	b := newBed(t)
	b.withGit()
	const open = "\nworktree: {copy: [.env.open]}\n"
	b.write("tipstaff.yaml", manifest+open)
	document := func(files string) []byte {
		return []byte("kind: plan\nversion: 1\nfiles: {" + files + "}\ndeliver: {}\n" + waits)
	}
	submits := by("alice", tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit)
	for _, c := range []struct {
		name, files string
		ctx         context.Context
		sent        bool
		refused     bool
	}{
		{"whoever decides", "copy: [.env]", cli(), false, false},
		{"whoever decides, sent", "copy: [.env]", cli(), true, true},
		{"whoever submits", "copy: [.env]", submits, false, true},
		{"whoever submits, by a link", "link: [secrets]", submits, true, true},
		{"what the manifest names", "copy: [.env.open]", submits, true, false},
		{"nothing of the checkout", "ports: 1", submits, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Start(c.ctx, tipstaff.StartRequest{Name: "p", Program: document(c.files), NoFiles: c.sent})
			refused := err != nil && strings.Contains(err.Error(), "cannot have ignored files of the checkout")
			if refused != c.refused || err != nil && !c.refused {
				t.Errorf("%v", err)
			}
		})
	}
}

// A worktree that goes long after its run takes with it what its set-up has started, as it was
// recorded when somebody could be asked.
func TestTeardownOfWorktreesThatAreTidied(t *testing.T) {
	b := newBed(t)
	b.withGit()
	ended := filepath.Join(t.TempDir(), "ended")
	doc := "files: {ports: 1, teardown: [[sh, -c, 'echo $TIPSTAFF_PORT_1 $TIPSTAFF_RUN_ID ${TIPSTAFF_LAUNCH:+launched} > " + ended + "']]}\ndeliver: {}\n" + waits
	run, _ := b.run(doc)
	worktree := filepath.Join(b.Worktrees, run.String())
	ports, err := os.ReadFile(worktree + ".ports")
	b.check(err)
	var given []int
	b.check(json.Unmarshal(ports, &given))
	b.changed(run, worktree)
	b.ended(run)
	b.ahead.Add(int64(30 * 24 * time.Hour))
	b.swept = nil
	b.check(b.TidyWorktrees(cli()))
	if said, err := os.ReadFile(ended); err != nil || string(said) != strings.Trim(string(ports), "[]")+" "+run.String()+" launched\n" || len(given) != 1 {
		t.Errorf("%q %v; the port is %s", said, err, ports)
	}
	if !slices.Contains(b.swept, run.String()) {
		t.Error("what it may have left running goes on")
	}
	if left, _ := filepath.Glob(worktree + "*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A run that ends in the middle of a check leaves no clean checkout, and nothing running that a
// set-up has started there.
func TestTeardownOfCleanCheckoutsThatAreLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		ends func(b *bed, run tipstaff.ID)
	}{
		{"cancelled in a check", func(b *bed, run tipstaff.ID) {
			_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Wait: time.Minute})
			b.check(err)
			b.wait(run)
		}},
		{"stopped in a check, and cancelled later", func(b *bed, run tipstaff.ID) {
			b.stop(&flow.Stop{Reason: "signal:INT"})
			b.wait(run)
			b.Drain()
			b.check(b.store.Close())
			git, worktrees := b.Git, b.Worktrees
			b.open()
			b.Git, b.Worktrees = git, worktrees
			_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
			b.check(err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t)
			b.withGit()
			dir := t.TempDir()
			began, ended := filepath.Join(dir, "began"), filepath.Join(dir, "ended")
			doc := "files: {ports: 1, setup: [[sh, -c, 'pwd > set-up']], teardown: [[sh, -c, 'echo $TIPSTAFF_PORT_1 $(cat set-up) >> " + ended + "']]}\n" +
				"deliver: {checks: [{name: long, run: [sh, -c, 'echo $TIPSTAFF_PORT_1 $PWD > " + began + ".new; mv " + began + ".new " + began + "; exec sleep 600']}]}\n" + waits
			run, _ := b.run(doc)
			b.check(os.WriteFile(filepath.Join(b.Worktrees, run.String(), "new"), []byte("x\n"), 0o644))
			_, err := b.decide(run, "root", "approve")
			b.check(err)
			_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
			b.check(err)
			for !t.Failed() {
				if _, err := os.Stat(began); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			c.ends(b, run)
			if got := b.get(run); got.State != tipstaff.Cancelled {
				t.Fatalf("%+v", got.Status)
			}
			in, err := os.ReadFile(began)
			b.check(err)
			if said, err := os.ReadFile(ended); string(said) != string(in) {
				t.Errorf("the teardown said %q (%v), where the check said %q", said, err, in)
			}
			if left, _ := filepath.Glob(filepath.Join(b.Worktrees, "*.clean*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// What whoever ended a run has not taken away goes later, and nothing before the run has ended.
func TestCleanCheckoutsAreTidied(t *testing.T) {
	b := newBed(t)
	b.withGit()
	ended := filepath.Join(t.TempDir(), "ended")
	run, _ := b.run("files: {teardown: [[sh, -c, 'pwd >> " + ended + "']]}\ndeliver: {}\n" + waits)
	worktree := filepath.Join(b.Worktrees, run.String())
	clean, stranger := worktree+"."+run.String()+".clean", worktree+"."+tipstaff.NewID(time.Now()).String()+".clean"
	b.check(os.Mkdir(stranger, 0o700))
	makes := func() {
		b.check(os.Mkdir(clean, 0o700))
		b.check(os.WriteFile(clean+".ports", []byte("[20001]"), 0o600))
	}
	there := func(after time.Duration, want bool) {
		t.Helper()
		b.ahead.Add(int64(after))
		b.check(b.TidyWorktrees(cli()))
		left, _ := filepath.Glob(clean + "*")
		said, _ := os.ReadFile(ended)
		if want && (len(left) != 2 || len(said) > 0) || !want && (len(left) != 0 || string(said) != clean+"\n") {
			t.Errorf("after %v %v is left, and the teardown has said %q", after, left, said)
		}
		if _, err := os.Stat(stranger); err != nil {
			t.Error(err)
		}
	}
	makes()
	there(2*time.Hour, true) // it waits
	b.check(os.RemoveAll(clean))
	b.check(os.Remove(clean + ".ports"))
	_, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
	b.check(err)
	makes()
	there(0, true) // somebody may be about to
	there(2*time.Hour, false)
}

// A set-up that fails says why at the end of what it prints, however much that is.
func TestTheEndOfANoisySetupIsTold(t *testing.T) {
	b := newBed(t)
	b.withGit()
	_, d := b.run("files: {setup: [[sh, -c, 'head -c 3000000 /dev/zero | tr \\\\0 x; echo; echo why it failed; exit 1']]}\ndeliver: {}\n" + waits)
	if d.Code != "setup_failed" || !strings.HasSuffix(d.Message, "why it failed") {
		t.Errorf("%+v", d)
	}
}

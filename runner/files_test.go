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

// A set-up that fails says why at the end of what it prints, however much that is.
func TestTheEndOfANoisySetupIsTold(t *testing.T) {
	b := newBed(t)
	b.withGit()
	_, d := b.run("files: {setup: [[sh, -c, 'head -c 3000000 /dev/zero | tr \\\\0 x; echo; echo why it failed; exit 1']]}\ndeliver: {}\n" + waits)
	if d.Code != "setup_failed" || !strings.HasSuffix(d.Message, "why it failed") {
		t.Errorf("%+v", d)
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// gitTrap stands before git on the PATH of Tipstaff. It counts the commands, and kills
// Tipstaff at the one that the test names: before it, after it, or when a patch is half
// applied.
const gitTrap = `#!/bin/sh
n=1
while ! mkdir DIR/$n 2> /dev/null; do n=$((n+1)); done
read at when < DIR/at
case "$when$*" in
halfapply*--check*) ;;
halfapply*) GIT apply --whitespace=nowarn --include=a.txt; kill -9 $PPID; exit 1 ;;
esac
[ $n$when = ${at}before ] && { kill -9 $PPID; exit 1; }
GIT "$@"
code=$?
[ $n$when = ${at}after ] && kill -9 $PPID
exit $code
`

// trapGit gives the workspace one. What it returns sets where Tipstaff is killed, and
// unset takes the trap away.
func (w *workspace) trapGit() (set func(at int, when string)) {
	w.Helper()
	git, err := exec.LookPath("git")
	w.Check(err)
	dir := w.TempDir()
	w.Check(os.WriteFile(filepath.Join(dir, "git"), []byte(strings.NewReplacer("DIR", filepath.Join(dir, "count"), "GIT", git).Replace(gitTrap)), 0o755))
	w.Env = append(w.Env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	set = func(at int, when string) {
		w.Helper()
		w.Check(os.RemoveAll(filepath.Join(dir, "count")))
		w.Check(os.Mkdir(filepath.Join(dir, "count"), 0o755))
		w.Check(os.WriteFile(filepath.Join(dir, "count", "at"), []byte(strconv.Itoa(at)+" "+when+"\n"), 0o644))
	}
	set(0, "never")
	return set
}

func init() {
	parts["changes files"] = func(f *fake) {
		f.begin()
		f.shell("echo a > a.txt; echo b > b.txt; rm plan.yaml")
		f.report()
		f.end()
	}
}

// A delivery that is killed again and again, before and after each command of git, comes
// to the end that it would have come to, and has delivered once.
func TestKillInADelivery(t *testing.T) {
	t.Parallel()
	for action, c := range map[string]struct{ status, refs, event string }{
		"approve": {"", "refs/heads/main refs/heads/tipstaff/deliver/RUN-change refs/tipstaff/RUN/1", "delivery.committed"},
		"apply":   {" D plan.yaml\n?? a.txt\n?? b.txt\n", "refs/heads/main refs/heads/tipstaff/run/RUN refs/tipstaff/RUN/1", "delivery.applied"},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "changes files")
			w.Write("plan.yaml", w.Read("plan.yaml")+"deliver: {}\n")
			w.git()
			set := w.trapGit()
			w.Must(4, "run", "plan.yaml", "--unattended")
			run := w.runs()[0]
			shown := w.gitSays("rev-parse", "refs/tipstaff/"+run+"/1")
			w.Must(0, "decide", run, "delivery#1", action)
			kills := 0
			for at, done := 1, false; !done; at++ {
				for _, when := range []string{"before", "after"} {
					set(at, when)
					r := w.Run("resume", run, "--unattended")
					if done = r.Code == 0; done {
						break
					}
					if kills++; r.Code != -1 || kills > 60 {
						t.Fatal(r)
					}
				}
			}
			if kills < 12 {
				t.Errorf("it was killed %d times", kills)
			}
			set(0, "never")
			if got := w.gitSays("status", "--porcelain"); got != c.status {
				t.Errorf("the checkout has %q", got)
			}
			if got := strings.Fields(strings.ReplaceAll(w.gitSays("for-each-ref", "--format=%(refname)"), run, "RUN")); strings.Join(got, " ") != c.refs {
				t.Errorf("the refs are %q", got)
			}
			if action == "approve" && w.gitSays("rev-parse", "refs/heads/tipstaff/deliver/"+run+"-change") != shown {
				t.Error("another commit was published")
			}
			if n := len(w.bodies(run, c.event)); n != 1 || w.starts() != 1 {
				t.Errorf("%d records of %s, %d starts", n, c.event, w.starts())
			}
			if gone := !fileExists(w.Path("state/tipstaff/worktrees", run)); gone != (action == "approve") {
				t.Errorf("the worktree is gone: %t", gone)
			}
			w.Must(0, "verify", run)
			w.Must(0, "replay", run)
			w.nothingRuns()
		})
	}
}

// A patch of which only a part was applied is for a person to look at. It is not applied a
// second time over that.
func TestKillInAPatch(t *testing.T) {
	t.Parallel()
	w := newFake(t, "changes files")
	w.Write("plan.yaml", w.Read("plan.yaml")+"deliver: {}\n")
	w.git()
	set := w.trapGit()
	w.Must(4, "run", "plan.yaml", "--unattended")
	w.Must(0, "decide", "@", "delivery#1", "apply")
	set(0, "half")
	w.Must(-1, "resume", "@", "--unattended")
	set(0, "never")
	half := w.gitSays("status", "--porcelain")
	if half != "?? a.txt\n" {
		t.Fatalf("the checkout has %q", half)
	}
	w.Must(4, "resume", "@", "--unattended").Says(t, "deliver/apply#1/in_doubt")
	w.Must(0, "decide", "@", "deliver/apply#1/in_doubt", "retry")
	r := w.Must(4, "resume", "@", "--unattended")
	r.Says(t, "apply is blocked, target_dirty")
	if strings.Contains(r.Err, "delivery#2 apply") {
		t.Errorf("what is blocked is offered: %v", r)
	}
	if got := w.gitSays("status", "--porcelain"); got != half {
		t.Errorf("the checkout has %q", got)
	}
	w.Must(0, "decide", "@", "delivery#2", "skip")
	w.Must(0, "resume", "@", "--unattended")
	w.Must(0, "verify", "@")
	w.nothingRuns()
}

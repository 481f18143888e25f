package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// gitTrap stands before git on the PATH of Tipstaff. It counts the commands, and kills
// Tipstaff at the one that the test names: before it, after it, or when a change is half
// in its place. Commands outlive the Tipstaff that was killed beside them: they find another
// parent, which they let live.
const gitTrap = `#!/bin/sh
read dir at when < DIR/at
n=1
while ! mkdir $dir/$n 2> /dev/null; do n=$((n+1)); done
kills() { [ "$(readlink /proc/$PPID/exe)" = TIPSTAFF ] && kill -9 $PPID; }
case "$when$*" in
halfcheckout-index*)
	GIT "$@"
	for a; do case $a in --prefix=*) mv "${a#--prefix=}a.txt" . ;; esac; done
	kills; exit 1 ;;
esac
[ $n$when = ${at}before ] && { kills; exit 1; }
GIT "$@"
code=$?
[ $n$when = ${at}after ] && kills
exit $code
`

// trapGit gives the workspace one. What it returns sets where Tipstaff is killed.
func (w *workspace) trapGit() (set func(at int, when string)) {
	w.Helper()
	git, err := exec.LookPath("git")
	w.Check(err)
	dir := w.TempDir()
	w.Check(os.WriteFile(filepath.Join(dir, "git"), []byte(strings.NewReplacer("DIR", dir, "GIT", git, "TIPSTAFF", w.Prepare().Cmd.Path).Replace(gitTrap)), 0o755))
	w.Env = append(w.Env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	set = func(at int, when string) {
		w.Helper()
		count, err := os.MkdirTemp(dir, "count-")
		w.Check(err)
		w.Check(os.WriteFile(filepath.Join(dir, "at.new"), fmt.Appendln(nil, count, at, when), 0o644))
		w.Check(os.Rename(filepath.Join(dir, "at.new"), filepath.Join(dir, "at")))
	}
	set(0, "never")
	return set
}

func init() {
	parts["changes files"] = func(f *fake) {
		f.begin()
		f.shell("echo a > a.txt; echo b > b.txt; rm -f plan.yaml")
		f.report()
		f.end()
	}
}

// A delivery that is killed again and again, before and after each command of git, comes
// to the end that it would have come to, and has delivered once.
func TestKillInADelivery(t *testing.T) {
	t.Parallel()
	for action, c := range map[string]struct{ status, refs, event string }{
		"approve": {"", "refs/heads/main refs/heads/tipstaff/deliver/RUN-change", "delivery.committed"},
		"apply":   {" D plan.yaml\n?? a.txt\n?? b.txt\n", "refs/heads/main refs/tipstaff/base/RUN", "delivery.applied"},
	} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			w := newFake(t, "changes files")
			w.Write("plan.yaml", w.Read("plan.yaml")+"deliver: {}\n")
			w.git()
			set := w.trapGit()
			w.Must(4, "run", "plan.yaml", "--unattended")
			run := w.runs()[0]
			shown := w.shownCommit(run)
			w.Must(0, "decide", run, "delivery#1", action)
			kills := 0
			for place, step := places(t, 3); ; place += step {
				set(place/2+1, []string{"before", "after"}[place%2])
				r := w.Run("resume", run, "--unattended")
				if r.Code == 0 {
					break
				}
				if kills++; r.Code != -1 || kills > 60 {
					t.Fatal(r)
				}
			}
			if kills < 3 {
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

// A run that is killed again and again on its way to the gate, at each command of git, comes
// to the gate that it would have come to.
func TestKillOnTheWayToADelivery(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	w := newFake(t, "changes files")
	w.Write("plan.yaml", w.Read("plan.yaml")+"bounds: {cost_usd: \"500.00\"}\ndeliver: {checks: [{name: fine, run: [\"true\"]}]}\n") // an invocation of which nobody knows the end is charged as it was reserved
	w.configure("workers:", "servers: {builtin: {programs: [\"true\"], tools: {exec: {effect: once}}}}\nworkers:")
	w.configure("{id: edits,", "{id: checks, tool: builtin/exec, do: allow}, {id: edits,")
	w.git()
	set := w.trapGit()
	kills, doubts := 0, 0
	for place, step := places(t, 3); ; place += step {
		set(place/2+1, []string{"before", "after"}[place%2])
		args := []string{"run", "plan.yaml", "--unattended"}
		if runs := w.runs(); len(runs) > 0 {
			args = []string{"resume", runs[0], "--unattended"}
		}
		r := w.Run(args...)
		if kills++; r.Code == 4 {
			gates := w.show("@").OpenGates
			if gates[0].Kind == "delivery" {
				break
			}
			doubts++
			w.Must(0, "decide", "@", gates[0].ID, "retry")
		} else if r.Code != -1 || kills > 100 {
			t.Fatal(r)
		}
	}
	set(0, "never")
	run := w.runs()[0]
	if len(w.runs()) != 1 || w.starts() > 1+doubts || kills < 5 {
		t.Errorf("%d runs, %d starts, %d doubts, %d kills", len(w.runs()), w.starts(), doubts, kills)
	}
	w.Must(0, "decide", run, "delivery#1", "approve")
	w.Must(0, "resume", run, "--unattended")
	if got := w.gitSays("diff", "--name-status", "main", "tipstaff/deliver/"+run+"-change"); got != "A\ta.txt\nA\tb.txt\nD\tplan.yaml\n" {
		t.Errorf("delivered was %q", got)
	}
	if got := w.gitSays("for-each-ref", "--format=%(refname)"); got != "refs/heads/main\nrefs/heads/tipstaff/deliver/"+run+"-change\n" {
		t.Errorf("the refs are %q", got)
	}
	if left, _ := os.ReadDir(w.Path("state/tipstaff/worktrees")); len(left) > 0 || w.gitSays("status", "--porcelain") != "" {
		t.Errorf("left are %v, %s", left, w.gitSays("status", "--porcelain"))
	}
	w.Must(0, "verify", run)
	w.Must(0, "replay", run)
	w.nothingRuns()
}

// A change of which only a part was applied is for a person to look at. It is not applied a
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

package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// newCleanPlay is a play by the rules of now, whose checks and set-ups are texts for a shell.
func newCleanPlay(t *testing.T, prepare document.Preparation, checks ...document.DeliverCheck) *play {
	p := newPlay(t, &document.Deliver{Checks: checks})
	p.spec.Prepare = prepare
	p.programs = map[string]func(Command) (int, []byte, error){"sh": runShell}
	p.write(".gitignore", "*.ignored\nignored/\n.env\n")
	p.user("add", "-A")
	p.user("commit", "-q", "-m", "ignore files")
	base, err := p.open().Resolve(context.Background(), "HEAD")
	must(p.bed, err)
	p.spec.Base = base
	return p
}

func runShell(c Command) (int, []byte, error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}, c.Env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out, nil
	}
	return 0, out, err
}

func shellCheck(name, text string) document.DeliverCheck {
	return document.DeliverCheck{Name: name, Run: []string{"sh", "-c", text}, Timeout: time.Minute, Required: true}
}

func shellCommand(text string) document.Command {
	return document.Command{Run: []string{"sh", "-c", text}}
}

// outcomes are the checks at the gate, with how each ended.
func outcomes(s tipstaff.DeliverySubject) string {
	var all []string
	for _, c := range s.Checks {
		how := "passed"
		if !c.Passed(s.Tree) {
			how = "failed"
		}
		all = append(all, c.Name+" "+how)
	}
	return strings.Join(all, ", ")
}

func TestChecksRunOnWhatIsDelivered(t *testing.T) {
	in := func(c document.DeliverCheck) document.DeliverCheck { c.In = tipstaff.InWorktree; return c }
	for _, c := range []struct {
		name   string
		checks []document.DeliverCheck
		want   string
	}{
		{"ignored files of the worktree are not there", []document.DeliverCheck{shellCheck("needs", "test -e left.ignored"), in(shellCheck("there", "test -e left.ignored"))}, "needs failed, there passed"},
		{"the changes are", []document.DeliverCheck{shellCheck("new", "test -e src/new.txt && test ! -e src/b.txt && grep -q last README")}, "new passed"},
		{"what a check leaves", []document.DeliverCheck{
			shellCheck("leaves", "mkdir -p __pycache__ ignored deep/er && touch __pycache__/a ignored/b deep/er/c src/d && ln -s /etc src/e && chmod 0 deep"),
			shellCheck("next", "test ! -e __pycache__ && test ! -e ignored && test ! -e deep && test ! -e src/d && test ! -L src/e")}, "leaves passed, next passed"},
		{"what a check changes", []document.DeliverCheck{shellCheck("changes", "printf X > src/a.txt"), shellCheck("next", `test "$(cat src/a.txt)" = a`)}, "changes passed, next passed"},
		{"what it changes without a trace", []document.DeliverCheck{shellCheck("changes", "touch -r src/a.txt t; printf 'b\n' > src/a.txt; touch -r t src/a.txt"), shellCheck("next", `test "$(cat src/a.txt)" = a`)},
			"changes passed, next passed"},
		{"what it removes", []document.DeliverCheck{shellCheck("removes", "rm -r src"), shellCheck("next", "test -e src/a.txt")}, "removes passed, next passed"},
		{"what it makes executable", []document.DeliverCheck{shellCheck("makes", "chmod +x src/a.txt"), shellCheck("next", "test ! -x src/a.txt")}, "makes passed, next passed"},
		{"what it does to git", []document.DeliverCheck{
			shellCheck("plants", "touch .git/hooks && git update-index --assume-unchanged README && git config user.name Eve && rm -f .git/index"),
			shellCheck("next", `test ! -e .git/hooks && test -z "$(git status --porcelain)" && test -z "$(git config user.name)"`)}, "plants passed, next passed"},
		{"git knows what it is", []document.DeliverCheck{shellCheck("git", `test -z "$(git status --porcelain)" && test "$(git log --format=%s | tail -1)" = first && git diff --quiet HEAD~1 -- .gitignore`)}, "git passed"},
		{"in the worktree each sees what the last one left", []document.DeliverCheck{in(shellCheck("first", "touch left.txt")), in(shellCheck("second", "test -e left.txt")), shellCheck("clean", "test ! -e left.txt")},
			"first passed, second failed, clean passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newCleanPlay(t, document.Preparation{}, c.checks...)
			p.work = func(dir string) { edit(p.bed, dir); writeFile(t, dir+"/left.ignored", "x") }
			if out := p.drive(); out.Status != flow.ParkedRun {
				t.Fatalf("%+v", out)
			}
			s := p.subject("delivery#1")
			if got := outcomes(s); got != c.want {
				t.Errorf("%s; want %s\n%+v", got, c.want, s.Checks)
			}
			if left, _ := filepath.Glob(s.Worktree + ".*.clean*"); len(left) > 0 {
				t.Errorf("%v is still there", left)
			}
			p.decide("delivery#1", "skip")
			p.drive()
		})
	}
}

// A check that leaves files does not hinder a delivery, and what it leaves is not delivered.
func TestACheckThatLeavesFilesHindersNothing(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{}, shellCheck("test", "mkdir __pycache__ && touch __pycache__/x.pyc"))
	p.drive()
	s := p.subject("delivery#1")
	if blocked(s) != "" || s.Files != 3 || s.Checks[0].In != tipstaff.InClean || len(s.Notices) != 0 {
		t.Errorf("%s %+v", blocked(s), s)
	}
	if got := p.kinds(); got != "worktree.created diff.recorded check.finished" {
		t.Error(got)
	}
}

// Runs that were made earlier check in the worktree, before its tree is recorded.
func TestEarlierRunsCheckAsTheyDid(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("exit 1")}}, shellCheck("test", "test -e left.ignored && touch left.txt"))
	p.spec.Earlier = true
	p.spec.Prepare = document.Preparation{}
	p.work = func(dir string) { edit(p.bed, dir); writeFile(t, dir+"/left.ignored", "x") }
	p.drive()
	s := p.subject("delivery#1")
	if s.Checks[0].In != "" || s.Checks[0].ExitCode != 0 || blocked(s) != "approve:verification_failed apply:verification_failed" || p.kinds() != "worktree.created check.finished diff.recorded" {
		t.Errorf("%s %s %+v", blocked(s), p.kinds(), s.Checks)
	}
	for _, input := range []any{worktreeInput{}, checkInput{}, commitInput{}, publishInput{}} { // of which a replay compares the digest
		for _, name := range []string{`"give"`, `"prepare"`, `"teardown"`, `"placed"`, `"in"`} {
			if text := flow.JSON(input); bytes.Contains(text, []byte(name)) {
				t.Errorf("%s has %s, which inputs of such runs have not", text, name)
			}
		}
	}
}

// A clean checkout that another process has begun is made anew.
func TestACleanCheckoutIsMadeAnewAfterACrash(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{}, shellCheck("test", "test ! -e left && test -e README"))
	p.work = func(dir string) {
		edit(p.bed, dir)
		writeFile(t, dir+"."+runID+".clean/left", "of somebody who was killed")
	}
	p.drive()
	if s := p.subject("delivery#1"); outcomes(s) != "test passed" {
		t.Errorf("%+v", s.Checks)
	}
}

// The commands of a set-up run once for all checks, and again only if a check has changed what
// they have made.
func TestTheCleanCheckoutIsMadeReady(t *testing.T) {
	setup := document.Preparation{Setup: []document.Command{shellCommand("mkdir ignored && echo made > ignored/tool")}}
	for _, c := range []struct {
		name, first string
		times       int
	}{
		{"what it made is left", "touch ignored/cache", 2}, // the worktree's, and that for the checks
		{"what it made is changed", "echo bad >> ignored/tool", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newCleanPlay(t, setup, shellCheck("first", c.first), shellCheck("second", `test "$(cat ignored/tool)" = made && test ! -e ignored/cache`))
			p.drive()
			s := p.subject("delivery#1")
			if outcomes(s) != "first passed, second passed" {
				t.Errorf("%+v", s.Checks)
			}
			if n := strings.Count(p.kinds(), "setup.finished"); n != c.times {
				t.Errorf("the set-up ran %d times, not %d: %s", n, c.times, p.kinds())
			}
		})
	}
	t.Run("it fails there", func(t *testing.T) {
		p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("echo no way; test ! -e src/new.txt")}}, shellCheck("first", "true"), shellCheck("second", "true"))
		p.drive()
		s := p.subject("delivery#1")
		if blocked(s) != "approve:verification_failed apply:verification_failed" || s.Checks[0].Code != CodeSetup || !strings.Contains(s.Checks[1].Message, "no way") || strings.Count(p.kinds(), "setup.finished") != 2 {
			t.Errorf("%s %+v %s", blocked(s), s.Checks, p.kinds())
		}
	})
}

// What a check adds goes without being read: it may have no end.
func TestWhatIsAddedIsNotRead(t *testing.T) {
	b := newBed(t)
	c := &cleanCheckout{dir: filepath.Join(b.home, "clean")}
	must(b, b.open().CheckOut(context.Background(), c.dir, b.user("rev-parse", "HEAD^{tree}"), b.user("rev-parse", "HEAD")))
	must(b, c.look(context.Background()))
	for name, f := range c.files { // as they are once their times tell whether they have changed
		c.files[name] = cleanFile{stamp: f.stamp}
	}
	writeFile(t, c.dir+"/deep/er/new", "new")
	ended, end := context.WithCancel(context.Background())
	end()
	if !c.restore(ended) || isDir(c.dir+"/deep") {
		t.Error("it was not as before")
	}
}

// A check has no limit beside that of its command: what makes its checkout ready has limits of
// its own.
func TestTheLimitOfACheckIsThatOfItsCommand(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("true")}}, shellCheck("test", "true"))
	for _, name := range []string{ActSetup, ActCheck} {
		act := p.acts[name]
		run := act.Run
		act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			if at, limited := ctx.Deadline(); limited {
				t.Errorf("%s ends in %s", name, time.Until(at))
			}
			return run(ctx, a)
		}
		p.acts[name] = act
	}
	p.drive()
	if s := p.subject("delivery#1"); outcomes(s) != "test passed" {
		t.Errorf("%+v", s.Checks)
	}
}

// codes are the codes of notices, each once.
func codes(notices []tipstaff.Notice) string {
	var all []string
	for _, n := range notices {
		if !slices.Contains(all, n.Code) {
			all = append(all, n.Code)
		}
	}
	return strings.Join(all, " ")
}

// The commands that make a clean checkout ready are watched as those of the checks, also if one
// of them fails; and what ends a checkout that is made anew is told.
func TestCommandsOfTheCleanCheckoutAreWatched(t *testing.T) {
	for _, end := range []string{"true", "false"} {
		p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("true")}}, shellCheck("test", "true"))
		p.spec.Prepare.Setup[0] = shellCommand("test ! -e src/new.txt || { touch " + p.dir + "/.git/hooks/planted; " + end + "; }")
		p.drive()
		if s := p.subject("delivery#1"); codes(s.Notices) != RepositoryChanged {
			t.Errorf("%s: %+v", end, s.Notices)
		}
	}
	p := newCleanPlay(t, document.Preparation{Teardown: []document.Command{shellCommand("true")}}, shellCheck("changes", "echo x >> README"), shellCheck("next", "true"))
	p.drive()
	if got := p.kinds(); got != "worktree.created worktree.prepared diff.recorded check.finished setup.finished check.finished setup.finished" {
		t.Error(got)
	}
}

// What was found changed in the run's own repository is told whatever keeps a check from
// running, and where nothing may be handed over.
func TestMeddlingIsToldWhateverElse(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Link: []string{"ignored"}}, shellCheck("test", "true"))
	p.write("ignored/x", "x")
	p.drive()
	s := p.subject("delivery#1")
	w := Worktree{Path: s.Worktree, Base: s.Base, Linked: []tipstaff.LinkedFile{{Path: "ignored", Source: p.dir + "/ignored", Digest: "another"}}}
	for name, act := range map[string]struct {
		input any
		want  string
	}{
		ActCheck:  {checkInput{Place: p.spec.Place, Worktree: w, Tree: s.Tree, Check: shellCheck("test", "true")}, tipstaff.LinkedChanged + " " + RunRepositoryChanged},
		ActCommit: {commitInput{Place: p.spec.Place, Worktree: w, Run: runID, N: 2, Withheld: true}, RunRepositoryChanged},
	} {
		writeFile(t, w.gitDir()+"/hooks/planted", "")
		done, err := p.acts[name].Run(context.Background(), flow.Attempt{Run: runID, Input: flow.JSON(act.input)})
		must(p.bed, err)
		var got struct{ Notices []tipstaff.Notice }
		must(p.bed, json.Unmarshal(done.Value, &got))
		if codes(got.Notices) != act.want {
			t.Errorf("%s: %+v", name, got.Notices)
		}
	}
}

func TestSetupRunsBeforeAnybodyWorks(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("mkdir ignored"), shellCommand("echo one; echo two >&2; exit 3")}})
	p.work = func(string) { t.Error("somebody worked") }
	out := p.drive()
	var failed *flow.Error
	if out.Status != flow.Failed || !errors.As(out.Err, &failed) || failed.Code != CodeSetup || !strings.Contains(failed.Message, "status 3\none\ntwo") {
		t.Errorf("%+v", out)
	}
	if got := p.kinds(); got != "worktree.created worktree.prepared setup.finished setup.finished" {
		t.Error(got)
	}
	p = newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("mkdir ignored")}})
	worked := false
	p.work = func(dir string) { worked = isDir(filepath.Join(dir, "ignored")); edit(p.bed, dir) }
	if p.drive(); !worked {
		t.Error("the set-up had not run")
	}
}

// What may not be run is asked before anything is, what runs at the end too.
func TestSetupAsks(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("true")}, Teardown: []document.Command{shellCommand("true")}})
	var asked []string
	p.spec.May = func(fc flow.Context, c document.DeliverCheck) error {
		if asked = append(asked, c.Name+" "+fc.Path()); strings.HasPrefix(c.Name, "teardown") {
			return &flow.Error{Code: "policy_denied"}
		}
		return nil
	}
	p.work = func(string) { t.Error("somebody worked") }
	out := p.drive()
	var failed *flow.Error
	if !errors.As(out.Err, &failed) || failed.Code != CodeSetup || !strings.Contains(failed.Message, "teardown#1 (sh -c true) may not be run: policy_denied") || len(p.ran) != 0 || strings.Join(asked, ", ") != "setup#1 deliver/setup#1, teardown#1 deliver/teardown#1" {
		t.Errorf("%+v %v %v", out, p.ran, asked)
	}
}

// A set-up that was broken off runs again.
func TestSetupIsRepeatedAfterACrash(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("rm -rf ignored && mkdir ignored && touch ignored/whole")}})
	whole := p.acts[ActSetup]
	broken := whole
	ctx, kill := context.WithCancelCause(context.Background())
	killed, forget := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(forget) })
	broken.Run = func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		in, err := decoded[stepInput](a.Input)
		must(p.bed, err)
		writeFile(t, in.Worktree.Path+"/ignored/half", "")
		kill(&flow.Stop{Reason: "signal:KILL"})
		close(killed)
		<-forget // nobody hears of it
		return flow.Done{}, errors.New("killed")
	}
	p.acts[ActSetup] = broken
	_, err := flow.New(p.log, nil).Drive(ctx, flow.Job{Run: runID, Flow: p.flow, Acts: p.acts, Owner: flow.Owner{Kind: "foreground"}, Abandon: killed})
	must(p.bed, err)
	p.acts[ActSetup] = whole
	worked := false
	p.work = func(dir string) {
		worked = true
		if _, err := os.Stat(dir + "/ignored/whole"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir + "/ignored/half"); err == nil {
			t.Error("what was begun is still there")
		}
		edit(p.bed, dir)
	}
	if out := p.drive(); out.Status != flow.ParkedRun || !worked {
		t.Fatalf("%+v", out)
	}
}

// What was started for the worktree is ended when it goes, and what was for the checks when
// they are done.
func TestTeardown(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Setup: []document.Command{shellCommand("mkdir ignored && echo $TIPSTAFF_PORT_1 > ignored/port")}, Ports: 1}, shellCheck("test", "test -s ignored/port"))
	log := filepath.Join(filepath.Dir(p.dir), "ended")
	p.spec.Prepare.Teardown = []document.Command{shellCommand("test $TIPSTAFF_PORT_1 = $(cat ignored/port) && echo $TIPSTAFF_PORT_1 >> " + log)}
	p.drive()
	ended := strings.Fields(readFile(t, log))
	p.decide("delivery#1", "approve")
	p.drive()
	if all := strings.Fields(readFile(t, log)); len(ended) != 1 || len(all) != 2 || all[0] == all[1] || all[0] != ended[0] {
		t.Errorf("ended at first %v, in all %v", ended, all)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(p.dir), "state", "*.ports")); len(left) > 0 {
		t.Errorf("ports are still given: %v", left)
	}
	if got := p.kinds(); got != "worktree.created worktree.prepared setup.finished diff.recorded setup.finished check.finished setup.finished setup.finished delivery.committed" {
		t.Error(got)
	}
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Nothing is kept in memory of a worktree that is gone.
func TestNothingIsKeptOfAWorktreeThatIsGone(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{}, shellCheck("test", "true"))
	kept := func() (all int) {
		for _, m := range []*sync.Map{&p.git.cleans, &p.git.indexes} {
			m.Range(func(any, any) bool { all++; return true })
		}
		return all
	}
	check := p.acts[ActCheck].Run
	p.acts[ActCheck] = flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		done, err := check(ctx, a)
		in, errIn := decoded[checkInput](a.Input)
		must(p.bed, errors.Join(err, errIn))
		if n := kept(); n != 2 {
			t.Errorf("%d are kept before", n)
		}
		must(p.bed, p.open().RemoveWorktree(ctx, in.Worktree))
		if n := kept(); n > 0 {
			t.Errorf("%d are kept", n)
		}
		return done, nil
	}}
	p.drive()
	if len(p.ran) != 1 {
		t.Errorf("%v", p.ran)
	}
}

// A check that had git overlook a file does not have it overlooked for the next one.
func TestAnIndexIsNotHandedOn(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{}, shellCheck("hides", "git update-index --assume-unchanged README"),
		shellCheck("next", "echo x >> README && git status --porcelain | grep -q README"))
	p.drive()
	if s := p.subject("delivery#1"); outcomes(s) != "hides passed, next passed" {
		t.Errorf("%+v", s.Checks)
	}
}

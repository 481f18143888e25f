package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// launcher starts no processes: the test is what becomes of them.
type launcher struct {
	mu       sync.Mutex
	launched []tipstaff.LaunchRequest
	refusal  error
	stops    []time.Duration // graces of the processes that were to end
	onStop   func(p flow.Owner, grace time.Duration) (tipstaff.Stopped, error)
}

func (l *launcher) Launch(_ context.Context, req tipstaff.LaunchRequest) (tipstaff.LaunchedProcess, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusal != nil {
		return tipstaff.LaunchedProcess{}, l.refusal
	}
	l.launched = append(l.launched, req)
	return tipstaff.LaunchedProcess{Owner: flow.Owner{Kind: "supervisor", Host: "here", Pid: os.Getpid(), Launch: req.Token}, Containment: "subreaper"}, nil
}

func (l *launcher) Stop(_ context.Context, p flow.Owner, _ string, grace time.Duration) (tipstaff.Stopped, error) {
	l.mu.Lock()
	l.stops = append(l.stops, grace)
	l.mu.Unlock()
	return l.onStop(p, grace)
}

func (l *launcher) Probe(ctx context.Context, _ flow.Owner) (flow.LaunchExit, bool) {
	<-ctx.Done() // nobody tells
	return flow.LaunchExit{}, false
}

func (l *launcher) last() tipstaff.LaunchRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.launched[len(l.launched)-1]
}

// launching gives a bed a launcher.
func launching(b *bed) *launcher {
	l := &launcher{onStop: func(flow.Owner, time.Duration) (tipstaff.Stopped, error) { return tipstaff.Stopped{}, nil }}
	b.Launcher, b.Launches = l, b.store
	b.Exec = func(run string) []string { return []string{"/bin/tipstaff", "exec", run, "--workspace", b.dir} }
	return l
}

const head = "kind: plan\nversion: 1\n"

// process is the process that was launched with a token.
func (b *bed) process(token string) *runner.Runner {
	c := b.Runner.Config
	c.Store, c.Origin, c.Launch = b.store, "supervisor", token
	return runner.New(c)
}

// execute has it drive its run to where that rests.
func (b *bed) execute(run tipstaff.ID, token string) (tipstaff.Driven, error) {
	r := b.process(token)
	if _, err := r.Resume(cli(), tipstaff.ResumeRequest{Run: run}); err != nil {
		return tipstaff.Driven{}, err
	}
	r.Drain()
	return r.Wait(cli(), run)
}

func (b *bed) detach(req tipstaff.StartRequest) (tipstaff.Started, error) {
	req.Detach = true
	if req.File == "" && req.Program == nil {
		req.Program, req.Name = []byte(head+gated), "plan.yaml"
	}
	return b.Start(cli(), req)
}

func (b *bed) row(run tipstaff.ID) flow.Row {
	b.t.Helper()
	row, err := b.store.Run(cli(), run.String())
	b.check(err)
	return row
}

func TestLaunchedProcessTakesTheLeaseOnce(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	s, err := b.detach(tipstaff.StartRequest{Title: "secret words"})
	b.check(err)
	req := l.last()
	if s.Launched == nil || s.Launched.Pid != os.Getpid() || s.Launched.Dir != filepath.Join(".tipstaff", "runs", s.Run.String()) || !slices.Equal(s.Launched.Argv, req.Argv) || s.Launched.At.IsZero() {
		t.Errorf("%+v", s.Launched)
	}
	if strings.Contains(strings.Join(req.Argv, " "), "secret") || req.Log != filepath.Join(b.dir, ".tipstaff", "runs", s.Run.String(), "runner.log") {
		t.Errorf("%+v", req)
	}
	if got := b.kinds(s.Run); got[len(got)-1] != "run.launched" {
		t.Errorf("%v", got)
	}
	run, err := b.Get(cli(), s.Run)
	b.check(err)
	if run.Status != "running" || run.Control != tipstaff.Controllable || run.Origin != "supervisor" || run.Dir != s.Launched.Dir {
		t.Errorf("it is %s, %s, from %s in %s", run.Status, run.Control, run.Origin, run.Dir)
	}
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	wantCode(t, err, tipstaff.Busy)
	_, err = b.execute(s.Run, "another")
	wantCode(t, err, tipstaff.LeaseLost)
	d, err := b.execute(s.Run, req.Token)
	if err != nil || d.Outcome != "parked" {
		t.Fatalf("%+v, %v", d, err)
	}
	_, err = b.execute(s.Run, req.Token)
	wantCode(t, err, tipstaff.LeaseLost)
	b.check(b.process(req.Token).Executed(cli(), s.Run, 4, nil))
	if row := b.row(s.Run); row.Launch.Epoch != 1 || row.Launch.Exit == nil || row.Launch.Exit.Code != 4 || row.Launch.Containment != "subreaper" {
		t.Errorf("%+v", row.Launch)
	}

	// Nothing was decided: nothing is launched.
	again, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true})
	if err != nil || again.Launched != nil || len(l.launched) != 1 {
		t.Errorf("%+v, %v", again.Launched, err)
	}
	_, err = b.decide(s.Run, "root/ok", "approve")
	b.check(err)
	var launched, busy int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				launched++
			} else if tipstaff.CodeOf(err) == tipstaff.Busy {
				busy++
			}
		})
	}
	all.Wait()
	if launched != 1 || busy != 7 {
		t.Errorf("%d were launched, %d refused", launched, busy)
	}
	if d, err := b.execute(s.Run, l.last().Token); err != nil || d.State != tipstaff.Completed {
		t.Errorf("%+v, %v", d, err)
	}
	b.verified(s.Run)
	b.check(b.store.Flush(cli()))
	var file tipstaff.SupervisorFile
	b.check(json.Unmarshal([]byte(b.read(".tipstaff/runs/"+s.Run.String()+"/supervisor.json")), &file))
	if file.Run != s.Run.String() || file.Launch != l.last().Token || file.Epoch != 2 || file.Pid != os.Getpid() || file.Workspace != b.Keys.Executor || file.Schema == "" {
		t.Errorf("%+v", file)
	}

	copied := filepath.Join(t.TempDir(), "copy") // whose processes are others
	_, err = b.store.Backup(cli(), copied)
	b.check(err)
	other, err := sqlite.Open(filepath.Join(copied, ".tipstaff"), nil)
	b.check(err)
	defer other.Close()
	if row, err := other.Run(cli(), s.Run.String()); err != nil || row.Launch != nil {
		t.Errorf("a copy knows of %+v, %v", row.Launch, err)
	}

	b.Keys.Executor = journal.PublicKey{1} // as another workspace sees it
	if run, err := b.Get(cli(), s.Run); err != nil || run.Control != tipstaff.InspectAlone || run.ControlReason != tipstaff.OtherWorkspace {
		t.Errorf("elsewhere it is %s, %s, %v", run.Control, run.ControlReason, err)
	}
	b.Keys.Executor = b.store.Keys().Executor
}

func TestCapacity(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	other := b.process("") // of another server
	other.Launch = ""
	parked, err := b.detach(tipstaff.StartRequest{})
	b.check(err)
	_, err = b.execute(parked.Run, l.last().Token)
	b.check(err)
	b.check(b.process(l.last().Token).Executed(cli(), parked.Run, 4, nil))
	_, err = b.decide(parked.Run, "root/ok", "approve")
	b.check(err)
	for range 4 {
		_, err := b.detach(tipstaff.StartRequest{})
		b.check(err)
	}
	rows, err := b.store.Runs(cli(), flow.Query{})
	b.check(err)
	_, err = other.Start(cli(), tipstaff.StartRequest{Program: []byte(head + gated), Name: "plan.yaml", Hosting: tipstaff.Hosting{Detach: true}})
	wantCode(t, err, tipstaff.CapacityReached)
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: parked.Run, Detach: true})
	wantCode(t, err, tipstaff.CapacityReached)
	if now, err := b.store.Runs(cli(), flow.Query{}); err != nil || len(now) != len(rows) || len(l.launched) != 5 {
		t.Errorf("%d runs, %d were there; %d launched: %v", len(now), len(rows), len(l.launched), err)
	}
	b.gone.Store(l.last().Token, true) // one has ended
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: parked.Run, Detach: true})
	b.check(err)
}

const inCheckout = `
kind: plan
version: 1
files: checkout
root: {id: ok, kind: gate, question: Go?}
`

func TestCheckoutIsExclusive(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	b.check(os.Mkdir(filepath.Join(b.dir, "part"), 0o755))
	checkout := tipstaff.StartRequest{Program: []byte(inCheckout), Name: "plan.yaml"}
	first, err := b.detach(checkout)
	b.check(err)
	_, err = b.detach(checkout)
	wantCode(t, err, tipstaff.ProjectBusy)
	if !strings.Contains(err.Error(), first.Run.String()) {
		t.Errorf("%v does not name %s", err, first.Run)
	}
	_, err = b.detach(tipstaff.StartRequest{}) // it works in none
	b.check(err)
	checkout.Project = "part"
	_, err = b.detach(checkout)
	b.check(err)
	checkout.Project = ""
	b.gone.Store(l.launched[0].Token, true)
	_, err = b.detach(checkout)
	b.check(err)
}

func TestOneKeyMakesOneRun(t *testing.T) {
	b := newBed(t)
	launching(b)
	req := tipstaff.StartRequest{Program: []byte(head + gated), Name: "plan.yaml", Hosting: tipstaff.Hosting{Key: "k", Labels: map[string]string{"team": "a"}}}
	var made atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := b.detach(req)
			if err != nil {
				t.Error(err)
			}
			if !s.Existed {
				made.Add(1)
			}
			if s.Launched == nil {
				t.Errorf("%+v", s)
			}
		})
	}
	all.Wait()
	rows, err := b.store.Runs(cli(), flow.Query{})
	b.check(err)
	if len(rows) != 1 || made.Load() != 1 {
		t.Fatalf("there are %d runs, %d starts made one", len(rows), made.Load())
	}
	for name, change := range map[string]func(*tipstaff.StartRequest){
		"title":  func(r *tipstaff.StartRequest) { r.Title = "other" },
		"labels": func(r *tipstaff.StartRequest) { r.Labels = map[string]string{"team": "b"} },
		"inputs": func(r *tipstaff.StartRequest) { r.Inputs = map[string]json.RawMessage{"a": json.RawMessage("1")} },
	} {
		changed := req
		change(&changed)
		_, err := b.detach(changed)
		if tipstaff.CodeOf(err) != tipstaff.RequestConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = b.Draft(cli(), tipstaff.DraftRequest{Prose: "x", Hosting: req.Hosting})
	wantCode(t, err, tipstaff.RequestConflict)
	ada := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "ada", Principal: "token:ada", Scopes: tipstaff.DefaultScopes()})
	if s, err := b.Start(ada, req); err != nil || s.Existed || s.Launched != nil {
		t.Errorf("another user's: %+v, %v", s, err)
	}
	b.Drain()
	run, err := b.Get(cli(), idOfRow(t, rows[0]))
	if err != nil || run.Labels["team"] != "a" {
		t.Errorf("%v, %v", run.Labels, err)
	}
}

// untilWritten waits for a file that a program writes.
func (b *bed) untilWritten(name string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); b.read(name) == ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s is not there", name)
		}
	}
}

func idOfRow(t *testing.T, row flow.Row) tipstaff.ID {
	id, err := tipstaff.ParseID(row.ID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSpawnFails(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	l.refusal = errors.New("no such file or directory")
	s, err := b.detach(tipstaff.StartRequest{})
	wantCode(t, err, tipstaff.SpawnFailed)
	var told *tipstaff.Error
	if !errors.As(err, &told) || told.Run.IsZero() || !strings.Contains(told.Message, s.Run.String()) {
		t.Fatalf("%v does not name the run", err)
	}
	run, err := b.Get(cli(), told.Run)
	if err != nil || run.State != tipstaff.Failed || run.Error.Code != string(tipstaff.SpawnFailed) {
		t.Errorf("it is %s, %+v, %v", run.State, run.Error, err)
	}
	b.verified(told.Run)

	// One that rests stays as it is.
	l.refusal = nil
	s, err = b.detach(tipstaff.StartRequest{})
	b.check(err)
	_, err = b.execute(s.Run, l.last().Token)
	b.check(err)
	b.check(b.process(l.last().Token).Executed(cli(), s.Run, 4, nil))
	_, err = b.decide(s.Run, "root/ok", "approve")
	b.check(err)
	l.refusal = errors.New("no such file or directory")
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true})
	wantCode(t, err, tipstaff.SpawnFailed)
	if run, err := b.Get(cli(), s.Run); err != nil || run.Status != "interrupted" {
		t.Errorf("it is %s, %v", run.Status, err)
	}
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	b.check(err)
	b.Drain()
	b.verified(s.Run)
}

// A launched process that never came to drive anything is found, once.
func TestLaunchThatDies(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	s, err := b.detach(tipstaff.StartRequest{})
	b.check(err)
	waiting, err := b.detach(tipstaff.StartRequest{})
	b.check(err)
	_, err = b.execute(waiting.Run, l.last().Token)
	b.check(err)
	before := b.row(waiting.Run).Head
	b.check(b.Recover(cli(), "test"))
	if got := b.kinds(s.Run); got[len(got)-1] != "run.launched" {
		t.Fatalf("a pending launch was recovered: %v", got)
	}
	b.gone.Store(l.launched[0].Token, true)
	if run, err := b.Get(cli(), s.Run); err != nil || run.Status != "interrupted" {
		t.Errorf("before it is recovered it is %s, %v", run.Status, err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := b.Recover(cli(), "test"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.check(b.Recover(cli(), "test"))
	if n := count(b.kinds(s.Run), "run.interrupted"); n != 1 || !slices.Contains(b.swept, s.Run.String()) {
		t.Errorf("it was interrupted %d times, swept were %v", n, b.swept)
	}
	if b.row(waiting.Run).Head != before {
		t.Error("a run that waits was touched")
	}
	if _, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true}); err != nil {
		t.Error(err)
	}
	_, err = b.execute(s.Run, l.launched[0].Token) // it comes late
	wantCode(t, err, tipstaff.LeaseLost)
	if d, err := b.execute(s.Run, l.last().Token); err != nil || d.Outcome != "parked" {
		t.Errorf("%+v, %v", d, err)
	}
}

const blocked = `
kind: plan
version: 1
root: {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", timeout: 1m,
  args: {argv: [sh, -c, "echo up >> up; while ! test -e enough; do sleep 0.01; done"]}}
`

// A process that was taken for dead, and is not, writes nothing beside its successor.
func TestSupersededProcess(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	s, err := b.detach(tipstaff.StartRequest{Program: []byte(blocked), Name: "plan.yaml"})
	b.check(err)
	token := l.last().Token
	old := b.process(token)
	_, err = old.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	b.check(err)
	b.untilWritten("up")
	b.gone.Store(token, true)
	b.check(b.Recover(cli(), "test"))
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true})
	b.check(err)
	d, err := b.execute(s.Run, l.last().Token) // what was under way is in doubt
	if err != nil || d.Outcome != "parked" {
		t.Fatalf("%+v, %v", d, err)
	}
	head := b.row(s.Run).Head
	b.write("enough", "")
	old.Drain()
	d, err = old.Wait(cli(), s.Run)
	if err != nil || d.Err == nil || d.Err.Code != tipstaff.LeaseLost {
		t.Errorf("%+v, %v", d, err)
	}
	if now := b.row(s.Run).Head; now != head {
		t.Errorf("%d records follow", now-head)
	}
}

func TestFilesAndProjectsLieInside(t *testing.T) {
	b := newBed(t)
	launching(b)
	elsewhere, allowed := t.TempDir(), t.TempDir()
	b.AllowDirs = []string{allowed}
	for _, dir := range []string{elsewhere, allowed} {
		b.check(os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(head+gated), 0o644))
	}
	b.check(os.MkdirAll(filepath.Join(b.dir, "a", "b"), 0o755))
	b.write("a/plan.yaml", head+gated)
	b.check(os.Symlink(filepath.Join(elsewhere, "plan.yaml"), filepath.Join(b.dir, "link.yaml")))
	b.check(os.Symlink(elsewhere, filepath.Join(b.dir, "out")))
	b.check(os.Symlink("a", filepath.Join(b.dir, "in")))
	for _, c := range []struct {
		file, project string
		code          tipstaff.Code
		stored        string
	}{
		{"a/plan.yaml", "a/b", "", "a/b"},
		{"in/plan.yaml", "in/b", "", "a/b"},
		{"a/plan.yaml", ".", "", ""},
		{filepath.Join(allowed, "plan.yaml"), allowed, "", allowed},
		{filepath.Join(elsewhere, "plan.yaml"), "", tipstaff.PathOutside, ""},
		{"link.yaml", "", tipstaff.PathOutside, ""},
		{"../plan.yaml", "", tipstaff.PathOutside, ""},
		{"/etc/shadow-none", "", tipstaff.PathOutside, ""},
		{"none.yaml", "", tipstaff.InvalidArgument, ""},
		{"a", "", tipstaff.InvalidArgument, ""},
		{"a/plan.yaml", "out", tipstaff.PathOutside, ""},
		{"a/plan.yaml", "a/plan.yaml", tipstaff.InvalidArgument, ""},
	} {
		before, err := b.store.Runs(cli(), flow.Query{})
		b.check(err)
		req := tipstaff.StartRequest{File: c.file, Hosting: tipstaff.Hosting{Project: c.project}}
		_, err = b.Validate(cli(), tipstaff.ValidateRequest{Start: &req})
		if tipstaff.CodeOf(err) != c.code {
			t.Errorf("%s in %s is validated: %v", c.file, c.project, err)
		}
		s, err := b.Start(cli(), req)
		if tipstaff.CodeOf(err) != c.code {
			t.Errorf("%s in %s: %v", c.file, c.project, err)
		}
		if after, _ := b.store.Runs(cli(), flow.Query{}); (len(after) > len(before)) != (c.code == "") {
			t.Errorf("%s in %s: %d runs, then %d", c.file, c.project, len(before), len(after))
		}
		if c.code != "" {
			continue
		}
		run, err := b.Get(cli(), s.Run)
		if err != nil || run.Project != c.stored || run.Labels["project"] != c.stored {
			t.Errorf("%s: the project is %q, %v, %v", c.project, run.Project, run.Labels, err)
		}
	}
	for project, want := range map[string]int{"": 4, "in/b": 2, ".": 1, allowed: 1, "a": 0} {
		page, err := b.List(cli(), tipstaff.ListRequest{Project: project, Count: true})
		if err != nil || len(page.Runs) != want || page.Total != want {
			t.Errorf("%d runs of %d are about %q, %v", len(page.Runs), page.Total, project, err)
		}
	}
	_, err := b.List(cli(), tipstaff.ListRequest{Project: "out"})
	wantCode(t, err, tipstaff.PathOutside)
	for _, h := range []tipstaff.Hosting{
		{Labels: map[string]string{"task": "010"}}, {Labels: map[string]string{"": "x"}}, {Labels: map[string]string{"a": strings.Repeat("x", 300)}}, {Key: strings.Repeat("k", 300)},
	} {
		_, err := b.detach(tipstaff.StartRequest{Hosting: h})
		wantCode(t, err, tipstaff.InvalidArgument)
	}
}

const deaf = `
kind: plan
version: 1
root: {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", timeout: 1m,
  args: {argv: [sh, -c, "trap '' TERM; echo up >> up; while ! test -e enough; do sleep 0.01; done"]}}
`

// cancelling is a run whose program does not listen.
func cancelling(t *testing.T) (*bed, *launcher, tipstaff.ID, *runner.Runner) {
	b := newBed(t)
	l := launching(b)
	s, err := b.detach(tipstaff.StartRequest{Program: []byte(deaf), Name: "plan.yaml"})
	b.check(err)
	r := b.process(l.last().Token)
	_, err = r.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	b.check(err)
	b.untilWritten("up")
	t.Cleanup(r.Drain)
	return b, l, s.Run, r
}

func TestCancelOfALaunchedRun(t *testing.T) {
	t.Run("it settles by itself", func(t *testing.T) {
		t.Parallel()
		b, l, run, r := cancelling(t)
		l.onStop = func(flow.Owner, time.Duration) (tipstaff.Stopped, error) {
			r.Drain()
			return tipstaff.Stopped{Swept: 2}, nil
		}
		c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Grace: time.Minute})
		if err != nil || c.How != tipstaff.CancelStopped || c.Forced || c.Swept != 2 || c.State != tipstaff.Cancelled || l.stops[0] < 50*time.Second {
			t.Errorf("%s, forced %v, swept %d, %s after %v: %v", c.How, c.Forced, c.Swept, c.State, l.stops, err)
		}
	})
	t.Run("it is killed", func(t *testing.T) {
		t.Parallel()
		b, l, run, _ := cancelling(t)
		token := l.last().Token
		l.onStop = func(p flow.Owner, _ time.Duration) (tipstaff.Stopped, error) {
			b.gone.Store(token, true)
			return tipstaff.Stopped{Forced: true}, nil
		}
		c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Hard: true})
		if err != nil || c.How != tipstaff.CancelStopped || !c.Forced || c.State != tipstaff.Cancelled || l.stops[0] != 0 {
			t.Errorf("%s, forced %v, %s after %v: %v", c.How, c.Forced, c.State, l.stops, err)
		}
		if exit := b.row(run).Launch.Exit; exit == nil || exit.Code != 137 || exit.Signal != "SIGKILL" {
			t.Errorf("%+v", exit)
		}
	})
	t.Run("a second joins, a hard one ends the grace", func(t *testing.T) {
		t.Parallel()
		b, l, run, _ := cancelling(t)
		token := l.last().Token
		killed := make(chan struct{})
		l.onStop = func(p flow.Owner, grace time.Duration) (tipstaff.Stopped, error) {
			if grace > 0 {
				<-killed
				return tipstaff.Stopped{}, nil
			}
			defer close(killed)
			b.gone.Store(token, true)
			return tipstaff.Stopped{Forced: true}, nil
		}
		for range 2 {
			c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Grace: time.Minute, Wait: time.Millisecond})
			if err != nil || c.How != tipstaff.CancelSent || c.State != tipstaff.Executing {
				t.Errorf("%s, %s, %v", c.How, c.State, err)
			}
		}
		if n := count(b.kinds(run), "run.cancel_requested"); n != 1 {
			t.Errorf("it was asked for %d times", n)
		}
		c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Hard: true})
		if err != nil || c.State != tipstaff.Cancelled || !c.Forced {
			t.Errorf("%s, %s, %v", c.How, c.State, err)
		}
	})
	t.Run("whoever asked has died", func(t *testing.T) {
		t.Parallel()
		b, l, run, _ := cancelling(t)
		token := l.last().Token
		gone := errors.New("killed")
		l.onStop = func(flow.Owner, time.Duration) (tipstaff.Stopped, error) { return tipstaff.Stopped{}, gone }
		if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Grace: time.Minute, Reason: "enough"}); !errors.Is(err, gone) {
			t.Fatal(err)
		}
		l.onStop = func(flow.Owner, time.Duration) (tipstaff.Stopped, error) {
			b.gone.Store(token, true)
			return tipstaff.Stopped{Forced: true}, nil
		}
		b.check(b.Recover(cli(), "test"))
		if row := b.row(run); row.State != "executing" || len(l.stops) != 1 {
			t.Errorf("it is %s before its time, after %v", row.State, l.stops)
		}
		b.ahead.Store(int64(63 * time.Second))
		b.check(b.Recover(cli(), "test"))
		if row := b.row(run); row.State != "cancelled" || l.stops[len(l.stops)-1] != 0 {
			t.Errorf("it is %s, after %v", row.State, l.stops)
		}
	})
	t.Run("it was not driven yet", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		l := launching(b)
		s, err := b.detach(tipstaff.StartRequest{})
		b.check(err)
		token := l.last().Token
		l.onStop = func(flow.Owner, time.Duration) (tipstaff.Stopped, error) {
			d, err := b.execute(s.Run, token)
			if d.State != tipstaff.Cancelled {
				err = fmt.Errorf("its process ends %+v, %w", d, err)
			}
			return tipstaff.Stopped{}, err
		}
		c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run})
		if err != nil || c.How != tipstaff.CancelStopped || c.State != tipstaff.Cancelled {
			t.Errorf("%s, %s, %v", c.How, c.State, err)
		}
	})
}

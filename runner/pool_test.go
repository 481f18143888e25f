package runner_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// server is one of several on machines of their own that share the store of a bed.
type server struct {
	*bed
	kill  func()                  // ends the process: it is gone, and nothing that it does counts
	halt  context.CancelCauseFunc // tells it to stop
	store *sqlite.Store
}

// pool is a bed whose runs several servers drive. A server's process lives as long as its
// host is not among the dead.
type pool struct {
	*bed
	dead    sync.Map // hosts
	servers []*server
}

func newPool(t *testing.T) *pool { return &pool{bed: newBed(t)} }

// draftPool is a pool whose model drafts plans.
func draftPool(t *testing.T) *pool {
	b, _ := draftBed(t)
	return &pool{bed: b}
}

// server starts one with so many places. Without one it takes nothing from the queue.
func (p *pool) server(host string, places int) *server {
	p.t.Helper()
	return p.serverIn(host, places, func(*runner.Config) {})
}

// serverIn is server with a configuration that is otherwise.
func (p *pool) serverIn(host string, places int, otherwise func(*runner.Config)) *server {
	p.t.Helper()
	alive := func(o flow.Owner, _ time.Time) bool { _, gone := p.dead.Load(o.Host); return !gone }
	o := &sqlite.Options{UserKey: true}
	o.Alive = alive
	store, err := sqlite.Open(filepath.Join(p.dir, ".tipstaff"), o)
	p.check(err)
	stop, halt := context.WithCancelCause(context.Background())
	config := p.Config
	config.Store, config.Workers, config.Pool, config.Serves, config.Origin, config.MaxDriving, config.Stop = store, store, store, true, tipstaff.OriginDaemon, places, stop
	config.Self = func(kind, launch string) flow.Owner {
		return flow.Owner{Kind: kind, Host: host, Pid: 1, Launch: launch}
	}
	config.Alive = func(o flow.Owner, h, _ time.Time) bool { return alive(o, h) }
	otherwise(&config)
	s := &server{bed: &bed{Runner: runner.New(config), t: p.t, dir: p.dir, store: store, checked: map[string]int64{}}, halt: halt, store: store}
	p.servers = append(p.servers, s)
	sharing, leave := context.WithCancel(context.Background())
	shared := make(chan struct{})
	go func() {
		defer close(shared)
		s.Share(sharing, func(err error) { p.t.Errorf("%s: %v", host, err) })
	}()
	s.kill = func() { leave(); <-shared; p.dead.Store(host, true) }
	p.t.Cleanup(func() {
		leave()
		<-shared
		halt(&flow.Stop{Reason: "the test is over"})
		s.Drain()
		if err := store.Close(); err != nil {
			p.t.Error(err)
		}
	})
	return s
}

// drivenBy waits until a run is driven on a machine.
func (p *pool) drivenBy(run tipstaff.ID, host string) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		row, err := p.store.Run(cli(), run.String())
		p.check(err)
		if row.Owner != nil && row.Owner.Host == host {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("run %s is not driven by %s: owner %+v, %v", run, host, row.Owner, p.kinds(run))
		}
	}
}

func (p *pool) cancel(runs ...tipstaff.ID) {
	p.t.Helper()
	for _, run := range runs {
		if _, err := p.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// What one server has no place for is driven by another that has; among those who wait, the
// user of whom the fewest are driven is next.
func TestServersShareOneQueue(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	first := a.hanging("alice")
	p.drivenBy(first, "a")
	var alices []tipstaff.ID
	for range 3 {
		alices = append(alices, a.hanging("alice"))
	}
	bob := a.hanging("bob")
	for _, run := range append(alices, bob) {
		if got := a.get(run); got.Status != tipstaff.StatusQueued || got.Queued == nil {
			t.Errorf("it is %s, %+v", got.Status, got.Queued)
		}
	}
	p.server("b", 1)
	p.drivenBy(bob, "b") // he has nothing, and came last
	p.cancel(bob)
	p.drivenBy(alices[0], "b")
	if kinds := p.kinds(alices[0]); slices.Index(kinds, string(tipstaff.KindRunQueued)) > slices.Index(kinds, string(tipstaff.KindRunStarted)) {
		t.Errorf("it recorded %v", kinds)
	}
	p.cancel(first)
	p.drivenBy(alices[1], "a")
	p.cancel(alices...)
}

// Twenty servers race for the runs of one queue: each is driven once.
func TestServersTakeEachRunOnce(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	hangs := a.hanging("alice")
	p.drivenBy(hangs, "a")
	var runs []tipstaff.ID
	for range 20 {
		s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" +
			`root: {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo x >> did"]}}`)})
		p.check(err)
		runs = append(runs, s.Run)
	}
	for _, host := range []string{"b", "c", "d"} {
		p.server(host, 4)
	}
	for _, run := range runs {
		driven, err := a.Wait(cli(), run)
		p.check(err)
		if driven.State != tipstaff.Completed {
			t.Errorf("run %s ended %+v", run, driven)
		}
		if kinds := p.kinds(run); slices.Contains(kinds, string(tipstaff.KindRunResumed)) {
			t.Errorf("it was driven twice: %v", kinds)
		}
	}
	if did := strings.Count(p.read("did"), "x"); did != len(runs) {
		t.Errorf("%d calls were made for %d runs", did, len(runs))
	}
	p.cancel(hangs)
}

// The runs of a server that dies are driven by another; those of one that is told to stop
// at once.
func TestRunsOutliveTheirServer(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 4)
	run := a.hanging("alice")
	p.drivenBy(run, "a")
	b := p.server("b", 4)
	a.kill()
	p.drivenBy(run, "b")
	wantTail(t, p.kinds(run), tipstaff.KindRunInterrupted, tipstaff.KindRunQueued, tipstaff.KindRunResumed)
	a.halt(&flow.Stop{Reason: "it wakes, and is fenced"})
	a.Drain()

	p.server("c", 4)
	b.halt(&flow.Stop{Reason: "signal:TERM"})
	p.drivenBy(run, "c")
	wantTail(t, p.kinds(run), tipstaff.KindRunInterrupted, tipstaff.KindRunQueued, tipstaff.KindRunResumed)
	p.cancel(run)
}

// wantTail looks for kinds that follow each other, after which there is no more of the last.
func wantTail(t *testing.T, kinds []string, want ...tipstaff.Kind) {
	t.Helper()
	at := len(kinds) - 1
	for at > 0 && kinds[at] != string(want[len(want)-1]) {
		at--
	}
	for i := range want {
		if j := at - len(want) + 1 + i; j < 0 || kinds[j] != string(want[i]) {
			t.Errorf("the records are %v, want %v before what follows", kinds, want)
			return
		}
	}
}

// A run whose timer comes when the server that drove it is gone is woken by another. It
// holds no place meanwhile.
func TestTimersWakeSharedRuns(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte(
		"name: p\nagents: [{name: slow, max_retries: 1, retry_delay_ms: 3000, scripted: {answers: [{error: {code: busy, message: later, retryable: true}}]}}]")})
	p.check(err)
	if driven, err := a.Wait(cli(), s.Run); err != nil || driven.WakeAt.IsZero() {
		t.Fatalf("it rests as %+v, %v", driven, err)
	}
	hangs := a.hanging("alice") // in the one place that there is
	p.drivenBy(hangs, "a")
	a.kill()
	b := p.server("b", 2)
	for end := time.Now().Add(30 * time.Second); !b.get(s.Run).State.Terminal(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nobody wakes it: %v", p.kinds(s.Run))
		}
	}
	wantTail(t, p.kinds(s.Run), tipstaff.KindRunParked, tipstaff.KindRunQueued, tipstaff.KindRunResumed)
	p.drivenBy(hangs, "b")
	p.cancel(hangs)
}

// A run that is tied to a machine says so, and is driven there alone.
func TestTiedRunsStayOnTheirMachine(t *testing.T) {
	p := newPool(t)
	p.write("tipstaff.yaml", strings.Replace(manifest, "    roots:", "    local: true\n    roots:", 1))
	a := p.server("a", 1)
	run := a.hanging("alice")
	p.drivenBy(run, "a")
	if got := a.get(run); got.Host != "a" {
		t.Errorf("it is tied to %q", got.Host)
	}
	b := p.server("b", 1)
	a.kill()
	p.recorded(run, tipstaff.KindRunQueued)
	if _, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // longer than b leaves anything that it may take
	if got := b.get(run); got.Status != tipstaff.StatusQueued {
		t.Errorf("it is %s elsewhere", got.Status)
	}
	config := b.Config
	config.Serves, config.Origin = false, "foreground"
	_, err := runner.New(config).Resume(cli(), tipstaff.ResumeRequest{Run: run})
	wantCode(t, err, tipstaff.WrongState)
	if err == nil || !strings.Contains(err.Error(), "machine a") {
		t.Errorf("a terminal elsewhere is told %v", err)
	}
	p.dead.Delete("a")
	p.server("a", 1) // again
	p.drivenBy(run, "a")
	p.cancel(run)
}

// What was accepted in advance is accepted by whoever drives the run.
func TestAdvanceAnswersWaitInTheQueue(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	hangs := a.hanging("alice")
	p.drivenBy(hangs, "a")
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + gated), Presence: tipstaff.Presence{Yes: true}})
	p.check(err)
	b := p.server("b", 1)
	if driven, err := b.Wait(cli(), s.Run); err != nil || driven.State != tipstaff.Completed {
		t.Errorf("it ended %+v, %v: %v", driven, err, p.kinds(s.Run))
	}
	p.cancel(hangs)
}

// After the database was away for long all heartbeats are old, and nobody is dead for it: a
// server goes by what it has seen of the others, a command by processes that it can look at.
func TestOldHeartbeatsAreNoDeath(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	run := a.hanging("alice")
	p.drivenBy(run, "a")
	config := a.Config
	config.Self = func(kind, launch string) flow.Owner { return flow.Owner{Kind: kind, Host: "b", Pid: 2, Launch: launch} }
	config.Now = func() time.Time { return time.Now().Add(time.Hour) }
	config.Alive = func(_ flow.Owner, heartbeat, now time.Time) bool { return now.Sub(heartbeat) < 30*time.Second } // as of one that nobody here can look at
	config.Pool = another{p.store}
	b := runner.New(config)
	p.check(b.Recover(cli(), "serve"))
	if got, err := b.Get(cli(), run); err != nil || got.Status != tipstaff.StatusRunning {
		t.Errorf("it is %s, %v", got.Status, err)
	}
	wantTail(t, p.kinds(run), tipstaff.KindRunStarted)
	config.Serves = false
	p.check(runner.New(config).Recover(cli(), "ls"))
	wantTail(t, p.kinds(run), tipstaff.KindRunStarted)
	config.Alive = func(flow.Owner, time.Time, time.Time) bool { return false } // its process was looked for, and is gone
	p.check(runner.New(config).Recover(cli(), "ls"))
	if kinds := p.kinds(run); !slices.Contains(kinds, string(tipstaff.KindRunInterrupted)) {
		t.Errorf("of a process that is gone there stands %v", kinds)
	}
	p.cancel(run)
}

// A run that is taken from the queue just as somebody cancels it is cancelled by who took it.
func TestCancelOfARunThatIsTakenMeanwhile(t *testing.T) {
	for name, late := range map[string]int32{"before the request": 1, "after it": 2} {
		p := newPool(t)
		a := p.server("a", 1)
		run := a.hanging("alice")
		p.drivenBy(run, "a")
		config := p.Config
		config.Store = &unaware{p.store, late, atomic.Int32{}}
		c, err := runner.New(config).Cancel(cli(), tipstaff.CancelRequest{Run: run})
		if err != nil || c.Run.State != tipstaff.Cancelled {
			t.Errorf("taken %s: it is %s, %v: %v", name, c.Run.State, err, p.kinds(run))
		}
	}
}

// unaware is a store that does not know, when it is asked for the nth time, that a run was taken.
type unaware struct {
	*sqlite.Store
	n     int32
	asked atomic.Int32
}

func (u *unaware) Run(ctx context.Context, run string) (flow.Row, error) {
	row, err := u.Store.Run(ctx, run)
	if u.asked.Add(1) == u.n {
		row.Owner = nil
	}
	return row, err
}

// another is a store that holds none of these leases.
type another struct{ *sqlite.Store }

func (another) Holder() string { return "another" }

// A scheduler is asked for every run, and has it driven by the server that it chooses.
func TestAScheduler(t *testing.T) {
	p := newPool(t)
	var asked []string
	r := p.serverIn("a", 1, func(c *runner.Config) { // which takes nothing that it has not chosen
		c.Scheduler, c.Origin = scheduling(func(run, host string) { asked = append(asked, run+host) }), tipstaff.OriginEngine
	})
	s, err := r.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + gated)})
	p.check(err)
	if got := p.get(s.Run); got.Status == tipstaff.StatusRunning || !slices.Equal(asked, []string{s.Run.String()}) {
		t.Errorf("it is %s, and %v was asked for", got.Status, asked)
	}
	driven, err := r.Drive(context.Background(), s.Run.String())
	if err != nil || driven.Outcome != string(flow.ParkedRun) || len(driven.Gates) != 1 {
		t.Fatalf("it was driven %+v, %v", driven, err)
	}
	if _, err := r.Decide(cli(), tipstaff.DecideRequest{Run: s.Run, Gate: driven.Gates[0], Action: "approve"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run}); err != nil || len(asked) != 2 {
		t.Fatalf("resuming asks for %v, %v", asked, err)
	}
	for range 2 { // the second time it has ended
		if driven, err = r.Drive(context.Background(), s.Run.String()); err != nil || driven.State != tipstaff.Completed {
			t.Errorf("it was driven %+v, %v", driven, err)
		}
	}
}

type scheduling func(run, host string)

func (f scheduling) Schedule(_ context.Context, run, host string) error {
	f(run, host)
	return nil
}

// Who comes to a server that has a place does not pass those who wait in the queue already.
func TestALaterRunPassesNoEarlierOne(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	hangs := a.hanging("alice")
	p.drivenBy(hangs, "a")
	earlier := a.hanging("alice")
	config := a.Config // of a server that has a place, and has not looked at the queue yet
	config.MaxDriving = 1
	config.Self = func(kind, launch string) flow.Owner { return flow.Owner{Kind: kind, Host: "b", Pid: 1, Launch: launch} }
	b := a.beside(config)
	later := b.hanging("alice")
	for run, place := range map[tipstaff.ID]int{earlier: 1, later: 2} {
		if got := a.get(run); got.Status != tipstaff.StatusQueued || got.Queued == nil || got.Queued.Place != place {
			t.Errorf("run %s is %s, %+v, want place %d", run, got.Status, got.Queued, place)
		}
	}
	bobs := b.hanging("bob")
	p.drivenBy(bobs, "b")
	p.cancel(hangs)
	p.drivenBy(earlier, "a")
	p.cancel(earlier, later, bobs)
	b.Drain()
}

package runner_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// family has a server make a run whose child asks, and has the child go on by itself, by
// somebody: its parent rests meanwhile. What the child does then is in the steps.
func (p *pool) family(a *server, steps string, by *runner.Runner) (parent, child tipstaff.ID) {
	p.t.Helper()
	return p.familyOf(a, `root: {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}`, steps, by)
}

// familyOf is family with a parent that does something else, too.
func (p *pool) familyOf(a *server, root, steps string, by *runner.Runner) (parent, child tipstaff.ID) {
	p.t.Helper()
	p.write("tipstaff.yaml", manifest+"policy: {rules: [{id: all, tool: builtin/*, do: allow}]}\n")
	p.skill("child", "tools: [mcp://builtin/exec@1.0.0]\nsub_skills: none")
	p.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot:\n  kind: sequential\n  children:\n"+
		"    - {id: ok, kind: gate, question: Go?}\n"+steps)
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", AllowSubDispatch: true, Program: []byte("kind: plan\nversion: 1\n" + root)})
	p.check(err)
	driven, err := a.Wait(cli(), s.Run)
	p.check(err)
	if driven.Outcome != string(flow.ParkedRun) || len(a.get(s.Run).Lineage.Children) != 1 {
		p.t.Fatalf("the parent rests %+v", driven)
	}
	child = a.get(s.Run).Lineage.Children[0]
	p.decides(child, "root/ok", "approve")
	p.goesOn(by, child)
	return s.Run, child
}

// decides decides a gate of a run once it is asked.
func (p *pool) decides(run tipstaff.ID, gate, action string) {
	p.t.Helper()
	p.awaits(run, "asks "+gate, func(r tipstaff.Run) bool {
		return slices.ContainsFunc(r.OpenGates, func(g tipstaff.Gate) bool { return g.Key == gate })
	})
	if _, err := p.decide(run, gate, action); err != nil {
		p.t.Fatal(err)
	}
}

// goesOn has a run go on, unless it does. Who has just parked it may still be busy with it.
func (p *pool) goesOn(by tipstaff.Service, run tipstaff.ID) {
	p.t.Helper()
	p.awaits(run, "goes on", func(r tipstaff.Run) bool {
		_, err := by.Resume(cli(), tipstaff.ResumeRequest{Run: run})
		if code := tipstaff.CodeOf(err); err != nil && code != tipstaff.Busy && code != tipstaff.RunEnded {
			p.t.Fatal(err)
		}
		return err == nil || p.get(run).Status != tipstaff.StatusAwaitingResume
	})
}

// awaits waits for a run to stand somewhere.
func (p *pool) awaits(run tipstaff.ID, what string, stands func(tipstaff.Run) bool) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); !stands(p.get(run)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("run %s never %s: it is %s, %v", run, what, p.get(run).Status, p.kinds(run))
		}
	}
}

func ended(r tipstaff.Run) bool { return r.State.Terminal() }

const (
	// hangsOnce is a step of a child that hangs the first time, and leaves a call in doubt.
	hangsOnce = `    - {id: hang, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "test -e hung || { echo x > hung; sleep 100; }"]}}` + "\n"
	quick     = `    - {id: made, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo x >> did"]}}` + "\n"
)

// A child that is driven by itself goes on when its server dies, or is told to stop, as every
// run does; a call that was under way is asked about; and its parent goes on with it.
func TestAChildDrivenByItselfOutlivesItsServer(t *testing.T) {
	for name, lose := range map[string]func(*server){
		"its server dies":  func(a *server) { a.kill() },
		"its server stops": func(a *server) { a.halt(&flow.Stop{Reason: "signal:TERM"}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t)
			a := p.server("a", 4)
			parent, child := p.family(a, hangsOnce+quick, a.Runner)
			p.drivenBy(child, "a")
			p.untilWritten("hung")
			p.server("b", 4)
			lose(a)
			p.decides(child, "root/hang/in_doubt", "retry")
			p.goesOn(p.servers[1].Runner, child)
			p.awaits(child, "ends", ended)
			p.awaits(parent, "ends", ended)
			if got := p.get(parent); got.State != tipstaff.Completed {
				t.Errorf("the parent is %s: %v", got.State, p.kinds(parent))
			}
			a.halt(&flow.Stop{Reason: "it wakes, and is fenced"})
		})
	}
}

// The parent of a child that was driven by itself goes on when that has ended, be it that a
// server has driven the child, or a command, which drives nothing else.
func TestAParentGoesOnWhenItsChildHasEnded(t *testing.T) {
	for _, by := range []string{"a server", "a command", "the daemon of a folder"} {
		t.Run(by+" has driven it", func(t *testing.T) {
			p := newPool(t)
			config := p.Config
			var a *server
			if by == "the daemon of a folder" {
				config.Origin = tipstaff.OriginDaemon
				a = &server{bed: p.beside(config)}
			} else {
				a = p.server("a", 4)
			}
			driver := a.Runner
			if by == "a command" {
				driver = p.Runner
			}
			parent, _ := p.family(a, quick, driver)
			p.awaits(parent, "ends", ended)
			if got := p.get(parent); got.State != tipstaff.Completed {
				t.Errorf("it is %s: %v", got.State, p.kinds(parent))
			}
			a.Drain()
		})
	}
}

// A child that ends by itself while its parent is still busy elsewhere is seen by that when it
// comes to rest.
func TestAChildThatEndsBeforeItsParentRests(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 4)
	parent := p.parksLate(a.Runner)
	p.write("go", "now")
	p.awaits(parent, "ends", ended)
}

// parksLate has a server make a run that waits for a child, which then is driven by itself and
// ends, while the run is busy with something else until the file go is written.
func (p *pool) parksLate(by *runner.Runner) (parent tipstaff.ID) {
	p.t.Helper()
	p.write("tipstaff.yaml", manifest+"policy: {rules: [{id: all, tool: builtin/*, do: allow}]}\n")
	p.skill("child", "tools: none\nsub_skills: none")
	p.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot: {id: ok, kind: gate, question: Go?}\n")
	s, err := by.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", AllowSubDispatch: true, Program: []byte("kind: plan\nversion: 1\nroot:\n  kind: parallel\n  children:\n" +
		`    - {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}` + "\n" +
		`    - {id: busy, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "until test -e go; do sleep 0.01; done"]}}`)})
	p.check(err)
	p.awaits(s.Run, "waits for its child", func(tipstaff.Run) bool { return slices.Contains(p.kinds(s.Run), "effect.suspended") })
	child := p.get(s.Run).Lineage.Children[0]
	p.decides(child, "root", "approve")
	p.goesOn(by, child)
	p.awaits(child, "ends", ended)
	return s.Run
}

// away is the store of a process that dies at some point: from then on nothing that it asks
// for is answered.
type away struct {
	*sqlite.Store
	gone   atomic.Bool
	parked func(run string) bool // reports whether the process dies when this run has parked
}

func (a *away) Run(ctx context.Context, run string) (flow.Row, error) {
	if a.gone.Load() {
		return flow.Row{}, flow.ErrStoreDown
	}
	return a.Store.Run(ctx, run)
}

func (a *away) Records(ctx context.Context, run string, after int64, limit int) ([]flow.Stored, error) {
	if a.gone.Load() {
		return nil, flow.ErrStoreDown
	}
	return a.Store.Records(ctx, run, after, limit)
}

func (a *away) Park(l flow.Lease, p flow.Parking) (bool, error) {
	parked, err := a.Store.Park(l, p)
	if parked && a.parked != nil && a.parked(l.Run) {
		a.gone.Store(true)
	}
	return parked, err
}

func (a *away) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	a.Store.Append(l, drafts, func(err error) {
		if a.parked == nil && err == nil && slices.ContainsFunc(drafts, func(d flow.Draft) bool { return tipstaff.Kind(d.Kind).Terminal() }) {
			a.gone.Store(true)
		}
		done(err)
	})
}

// looks counts how often a server has looked for what an earlier version has left.
type looks struct {
	runner.Pool
	n atomic.Int64
}

func (l *looks) Unwoken(ctx context.Context, kind string) ([]string, error) {
	defer l.n.Add(1)
	return l.Pool.Unwoken(ctx, kind)
}

// looking is a server that has begun to look for strays long before anything happens.
func (p *pool) looking(host string) *server {
	p.t.Helper()
	l := &looks{}
	s := p.serverIn(host, 4, func(c *runner.Config) {
		l.Pool, c.Pool = c.Pool, l
		c.Now = func() time.Time { return time.Now().Add(2 * time.Minute) } // what happens now was long ago when it looks
	})
	for end := time.Now().Add(30 * time.Second); l.n.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("it never looks for strays")
		}
	}
	return s
}

// A parent whose child has ended goes on whatever becomes of who drove either of them, and
// whenever somebody looks.
func TestAParentIsNeverLeftBehind(t *testing.T) {
	const asks = "root:\n  kind: parallel\n  children:\n" + `    - {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}` + "\n" +
		"    - {id: other, kind: gate, question: And?}\n"
	var p *pool
	dies := func(config runner.Config, parked func(string) bool) (*runner.Runner, *away) {
		left := &away{Store: p.store, parked: parked}
		config.Store, config.Pool, config.Serves, config.Origin = left, nil, false, tipstaff.OriginDaemon
		return runner.New(config), left
	}
	whole := func(t *testing.T, parent tipstaff.ID) {
		p.awaits(parent, "ends", ended)
		if got := p.get(parent); got.State != tipstaff.Completed {
			t.Errorf("the parent is %s: %v", got.State, p.kinds(parent))
		}
	}
	t.Run("something is written to it after the child has ended", func(t *testing.T) {
		p = newPool(t)
		a := p.server("a", 4)
		a.kill()
		parent, child := p.familyOf(a, asks, quick, p.Runner)
		p.awaits(child, "ends", ended)
		if _, err := p.decide(parent, "root/other", "approve"); err != nil {
			t.Fatal(err)
		}
		p.server("b", 4)
		whole(t, parent)
	})
	t.Run("the database is away for long after the child has ended", func(t *testing.T) {
		p = newPool(t)
		p.looking("c")
		driver, left := dies(p.Config, nil)
		a := p.server("d", 4)
		a.kill()
		parent, child := p.family(a, quick, driver)
		p.awaits(child, "ends", ended)
		driver.Drain()
		if !left.gone.Load() {
			t.Error("the driver of the child has lived on")
		}
		whole(t, parent)
	})
	t.Run("the child ends while the parent parks, and its server dies then", func(t *testing.T) {
		p = newPool(t)
		p.looking("c")
		driver, left := dies(p.Config, func(string) bool { return p.read("go") != "" }) // the child has ended by then
		parent := p.parksLate(driver)
		p.write("go", "now")
		driver.Drain()
		if !left.gone.Load() {
			t.Error("the driver of the parent has lived on")
		}
		whole(t, parent)
	})
	for _, when := range []string{"a daemon that is there", "the next daemon"} {
		t.Run("in a folder a command drives the child, and "+when+" goes on", func(t *testing.T) {
			p = newPool(t)
			config := p.Config
			config.Origin = tipstaff.OriginDaemon
			daemon := &server{bed: p.beside(config)}
			if when == "a daemon that is there" {
				p.expires(daemon.Runner)
			}
			parent, child := p.family(daemon, quick, p.Runner)
			p.awaits(child, "ends", ended)
			if when == "the next daemon" {
				next := p.beside(config)
				_, err := next.TakeUp(cli(), tipstaff.OriginDaemon)
				p.check(err)
				p.expires(next.Runner)
			}
			whole(t, parent)
		})
	}
}

// expires has a daemon look after what waits.
func (p *pool) expires(daemon *runner.Runner) {
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		daemon.Expire(ctx, tipstaff.OriginDaemon, func(err error) { p.t.Error(err) })
	}()
	p.t.Cleanup(func() { stop(); <-over; daemon.Drain() })
}

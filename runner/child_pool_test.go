package runner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

// family has a server make a run whose child asks, and has the child go on by itself, by
// somebody: its parent rests meanwhile. What the child does then is in the steps.
func (p *pool) family(a *server, steps string, by *runner.Runner) (parent, child tipstaff.ID) {
	p.t.Helper()
	p.write("tipstaff.yaml", manifest+"policy: {rules: [{id: all, tool: builtin/*, do: allow}]}\n")
	p.skill("child", "tools: [mcp://builtin/exec@1.0.0]\nsub_skills: none")
	p.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot:\n  kind: sequential\n  children:\n"+
		"    - {id: ok, kind: gate, question: Go?}\n"+steps)
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", AllowSubDispatch: true, Program: []byte("kind: plan\nversion: 1\n" +
		`root: {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}`)})
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
	p.write("tipstaff.yaml", manifest+"policy: {rules: [{id: all, tool: builtin/*, do: allow}]}\n")
	p.skill("child", "tools: none\nsub_skills: none")
	p.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot: {id: ok, kind: gate, question: Go?}\n")
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", AllowSubDispatch: true, Program: []byte("kind: plan\nversion: 1\nroot:\n  kind: parallel\n  children:\n" +
		`    - {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}` + "\n" +
		`    - {id: busy, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "until test -e go; do sleep 0.01; done"]}}`)})
	p.check(err)
	p.awaits(s.Run, "waits for its child", func(tipstaff.Run) bool { return slices.Contains(p.kinds(s.Run), "effect.suspended") })
	child := a.get(s.Run).Lineage.Children[0]
	p.decides(child, "root", "approve")
	p.goesOn(a.Runner, child)
	p.awaits(child, "ends", ended)
	p.write("go", "")
	p.awaits(s.Run, "ends", ended)
}

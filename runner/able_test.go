package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// elsewhere is a server with a workspace of its own, which has these files.
func (p *pool) elsewhere(host string, places int, files map[string]string, otherwise ...func(*runner.Config)) *server {
	p.t.Helper()
	dir := p.t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.serverIn(host, places, func(c *runner.Config) {
		c.Workspace = dir
		for _, f := range otherwise {
			f(c)
		}
	})
}

// scripted is a manifest with a script that runs may start.
const scripted = `
allowed_effects: [read, idempotent, once]
models: {main: {provider: openai, model: m1, api_key: "$env:PATH"}}
agents: {helper: {model: main}}
servers:
  builtin:
    roots: ["."]
    programs: [./do.sh, ./other.sh, sh]
    tools: {exec: {effect: once}, read_file: {effect: read}}
policy: {rules: [{id: all, tool: builtin/*, do: allow}]}
`

const (
	does   = "#!/bin/sh\necho as it was\n"
	others = "#!/bin/sh\necho another\n"
	calls  = `root: {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [./do.sh]}}`
)

// A server leaves the runs of a queue that it cannot do as they were made, and says what it
// lacks; one that can does them.
func TestAServerLeavesWhatItCannotDoAsItWasMade(t *testing.T) {
	without := func(old, with string) map[string]string {
		return map[string]string{"tipstaff.yaml": strings.Replace(scripted, old, with, 1), "do.sh": does, "other.sh": others}
	}
	for name, c := range map[string]struct {
		files map[string]string
		keys  bool
		plan  string
		why   string
	}{
		"another script":          {files: map[string]string{"tipstaff.yaml": scripted, "do.sh": others, "other.sh": others}, plan: calls, why: "the program ./do.sh has the digest sha256:"},
		"no script":               {files: map[string]string{"tipstaff.yaml": scripted, "other.sh": others}, plan: calls, why: "the program ./do.sh has the digest none here"},
		"no manifest":             {files: map[string]string{}, plan: calls, why: "there is no tipstaff.yaml on this machine"},
		"a manifest with a fault": {files: map[string]string{"tipstaff.yaml": "servers: 3\n"}, plan: calls, why: "tipstaff.yaml"},
		"another tool":            {files: without("exec: {effect: once}, ", ""), plan: calls, why: `the manifest declares no tool "exec"`},
		"no such effects":         {files: without(", once]", "]"), plan: calls, why: "exec has effect once, which allowed_effects of the manifest does not list"},
		"a policy that denies":    {files: without("do: allow", "do: deny"), plan: calls, why: `rule "all" denies mcp://builtin/exec@1.0.0`},
		"other roots":             {files: without(`roots: ["."]`, `roots: ["sub"]`), plan: calls, why: "roots of builtin had ., and does not here"},
		"other programs, for a plan that names none": {files: without("./other.sh, ", ""), plan: "inputs: {what: {type: string, default: ./do.sh}}\n" + strings.Replace(calls, "./do.sh", `"${input.what}"`, 1),
			why: "programs of builtin had ./other.sh, and does not here"},
		"no such program": {files: without("./do.sh, ", ""), plan: calls, why: "programs of builtin had ./do.sh, and does not here"},
		"other models": {files: without("model: m1", "model: m2"), plan: "root: {id: one, kind: step, agent: helper, prompt: Say yes., tools: []}",
			why: "the model main is openai m2 here, and was openai m1"},
		"other keys": {files: without("", ""), keys: true, plan: calls, why: "it was begun with the key"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t)
			p.write("tipstaff.yaml", scripted)
			p.script("do.sh", does)
			p.script("other.sh", others)
			p.says = func(agent.Request) agent.Response { return agent.Response{Text: "yes"} }
			a := p.server("a", 1)
			hangs := a.hanging("alice")
			p.drivenBy(hangs, "a")
			s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + c.plan)})
			p.check(err)
			b := p.elsewhere("b", 4, c.files, func(config *runner.Config) {
				if c.keys {
					config.Keys.Executor = config.Keys.User
				}
			})
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				if runs, why := b.Lacks(); runs == 1 {
					if len(why) != 1 || !strings.Contains(why[0], c.why) {
						t.Errorf("it says that it lacks %q, want %q", why, c.why)
					}
					break
				}
				if time.Now().After(end) {
					t.Fatalf("it does not say what it lacks: the run is %s", p.get(s.Run).Status)
				}
			}
			if got := b.get(s.Run); got.Status != tipstaff.StatusQueued || got.Queued == nil || !strings.Contains(got.Queued.Lacks, c.why) {
				t.Errorf("of the run it says %s, %+v", got.Status, got.Queued)
			}
			if _, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run}); err != nil { // it stays in the queue
				t.Error(err)
			}
			found, err := b.Unable(cli())
			if err != nil || len(found) != 1 || found[0].Code != "run_left" || found[0].Where != "run "+s.Run.String() || !strings.Contains(found[0].Message, c.why) {
				t.Errorf("doctor finds %+v, %v there", found, err)
			}
			if found, err = a.Unable(cli()); err != nil || len(found) > 0 {
				t.Errorf("doctor finds %+v, %v where the run can be driven", found, err)
			}
			config := b.Config
			if c.keys { // which the database knows beside those of the others
				config.Trusted = func() ([]journal.PublicKey, error) {
					return append([]journal.PublicKey{config.Keys.Executor}, a.Keys.User, a.Keys.Executor), nil
				}
				if n, err := runner.New(config).OtherKeys(cli()); n != 2 || err != nil {
					t.Errorf("%d runs were begun with other keys, it says, and %v; there are 2", n, err)
				}
			}
			config.Serves, config.Origin = false, "foreground"
			_, err = runner.New(config).Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
			if wantCode(t, err, tipstaff.WrongState); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("a terminal there is told %v", err)
			}
			p.cancel(hangs) // now a has a place
			p.awaits(s.Run, "ends", ended)
			if got := p.get(s.Run); got.State != tipstaff.Completed {
				t.Errorf("it is %s: %v", got.State, p.kinds(s.Run))
			}
		})
	}
}

// What a run does not use may be otherwise.
func TestAServerTakesWhatItCanDo(t *testing.T) {
	const all = "hosts: [example.com, example.org]\n    "
	for name, c := range map[string]struct{ old, with, plan string }{
		"another rule":                  {"do: allow", "do: allow, why: said otherwise", calls},
		"a program that it never calls": {"./other.sh, sh", "", calls},
		"a host that it never asks":     {", example.org", "", calls},
		"no places for what calls none": {all + `roots: ["."]` + "\n    programs: [./do.sh, ./other.sh, sh]", `roots: []`,
			`root: {id: one, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: {a: 1}, expr: value.a}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t)
			manifest := strings.Replace(strings.Replace(scripted, "roots:", all+"roots:", 1), "read_file: {effect: read}", "read_file: {effect: read}, json_query: {effect: read}", 1)
			p.write("tipstaff.yaml", manifest)
			p.script("do.sh", does)
			p.script("other.sh", others)
			a := p.server("a", 1)
			hangs := a.hanging("alice")
			p.drivenBy(hangs, "a")
			s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + c.plan)})
			p.check(err)
			other := strings.Replace(manifest, c.old, c.with, 1)
			if other == manifest {
				t.Fatal("its manifest is the same")
			}
			p.elsewhere("b", 4, map[string]string{"tipstaff.yaml": other, "do.sh": does, "other.sh": does})
			p.awaits(s.Run, "ends", ended)
			if got := p.get(s.Run); got.State != tipstaff.Completed {
				t.Errorf("it is %s: %v", got.State, p.kinds(s.Run))
			}
			p.cancel(hangs)
		})
	}
}

// A script that is replaced while runs go on loses none: what has begun with the old one waits
// for a server that has it, and a call that depends on its arguments is not refused for good.
func TestAnUpgradeLosesNoRun(t *testing.T) {
	p := newPool(t)
	p.write("tipstaff.yaml", scripted)
	p.script("do.sh", does)
	p.script("other.sh", others)
	a := p.server("a", 4)
	start := func(plan string) tipstaff.ID {
		s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + plan)})
		p.check(err)
		return s.Run
	}
	gated := func(call string) string {
		return "root: {kind: sequential, children: [{id: ok, kind: gate, question: Go?}, {id: one, kind: tool_call, tool: \"mcp://builtin/exec@1.0.0\", args: " + call + "}]}"
	}
	plain := start(gated("{argv: [./do.sh]}"))
	late := start("inputs: {what: {type: string, default: ./do.sh}}\n" + gated(`{argv: ["${input.what}"]}`))
	for _, run := range []tipstaff.ID{plain, late} {
		p.awaits(run, "parks", func(tipstaff.Run) bool { // else it goes on at once, with the script that is there
			return slices.Contains(p.kinds(run), string(tipstaff.KindRunParked))
		})
		p.decides(run, "root/ok", "approve")
	}
	p.script("do.sh", "#!/bin/sh\necho upgraded\n")
	for _, run := range []tipstaff.ID{plain, late} {
		p.goesOn(a.Runner, run)
		p.awaits(run, "waits for a server that has the old script", func(tipstaff.Run) bool {
			r := a.get(run)
			return r.Status == tipstaff.StatusQueued && r.Queued != nil && strings.Contains(r.Queued.Lacks, "./do.sh has the digest")
		})
	}
	p.elsewhere("b", 4, map[string]string{"tipstaff.yaml": scripted, "do.sh": does, "other.sh": others})
	for _, run := range []tipstaff.ID{plain, late} {
		p.awaits(run, "ends", ended)
		if got := p.get(run); got.State != tipstaff.Completed {
			t.Errorf("it is %s: %v", got.State, p.kinds(run))
		}
	}
}

// A run whose document could not be read is tried again, where nobody else could take it.
func TestAServerTriesAgainWhatCouldNotBeRead(t *testing.T) {
	p := newPool(t)
	p.write("tipstaff.yaml", scripted)
	p.script("do.sh", does)
	p.script("other.sh", others)
	a := p.server("a", 1)
	hangs := a.hanging("alice")
	p.drivenBy(hangs, "a")
	s, err := a.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: []byte("kind: plan\nversion: 1\n" + calls)})
	p.check(err)
	a.halt(&flow.Stop{Reason: "it stops, and leaves both"})
	a.Drain()
	a.kill()
	flaky := &hiccups{Store: p.store}
	p.serverIn("b", 4, func(c *runner.Config) { c.Store = flaky })
	p.awaits(s.Run, "ends", ended)
	if got := p.get(s.Run); got.State != tipstaff.Completed || flaky.n.Load() < 3 {
		t.Errorf("it is %s after %d reads: %v", got.State, flaky.n.Load(), p.kinds(s.Run))
	}
	p.cancel(hangs)
}

// hiccups is a store whose bucket fails the first times that it is asked.
type hiccups struct {
	*sqlite.Store
	n atomic.Int64
}

func (h *hiccups) Blob(ctx context.Context, digest string) ([]byte, error) {
	if h.n.Add(1) < 3 {
		return nil, errors.New("the bucket has the hiccups")
	}
	return h.Store.Blob(ctx, digest)
}

// script writes a program.
func (p *pool) script(name, text string) {
	p.t.Helper()
	next := filepath.Join(p.dir, name+".next") // in one step, as an upgrade should
	err := os.WriteFile(next, []byte(text), 0o755)
	if err == nil {
		err = os.Rename(next, filepath.Join(p.dir, name))
	}
	p.check(err)
}

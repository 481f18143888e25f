package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

var (
	boundWorker = tipstaff.WorkerInfo{Name: "careful", Type: "claude", Set: "tipstaff.yaml", Command: "claude", Binary: "/usr/bin/claude", Version: "2.1.197", Posture: "auto",
		Roles: []tipstaff.WorkerRole{{Name: "architect", Set: "default", Posture: "auto"}, {Name: "implementer", Set: "bindings.implementer", Posture: "auto"}, {Name: "planner", Set: "default", Posture: "read_only"}}}
	lostWorker = tipstaff.WorkerInfo{Name: "codex", Type: "codex", Set: "built in", Command: "co\x1bdex", Posture: "write", Roles: []tipstaff.WorkerRole{}, Trouble: "it is not installed"}
)

func workersBench(t *testing.T) *bench {
	b := newBench(t)
	b.env.ListWorkers = func(_ context.Context, workspace string) ([]tipstaff.WorkerInfo, error) {
		if workspace != "w" {
			t.Errorf("asked about %s", workspace)
		}
		return []tipstaff.WorkerInfo{boundWorker, lostWorker}, nil
	}
	return b
}

func TestWorkersList(t *testing.T) {
	b := workersBench(t)
	b.run(t, exitDone, "workers", "list", "--workspace", "w")
	equal(t, "stdout", b.out.String(), `NAME     TYPE    BINARY                   VERSION  POSTURE  SET IN         ROLES
careful  claude  /usr/bin/claude          2.1.197  auto     tipstaff.yaml  architect, planner (default); implementer (bindings.implementer)
codex    codex   co\u001bdex (not found)  -        write    built in       -
`)
	b = workersBench(t)
	b.run(t, exitDone, "workers", "list", "--workspace", "w", "--json")
	lines := strings.Split(strings.TrimSpace(b.out.String()), "\n")
	equal(t, "json", lines[1], `{"name":"codex","type":"codex","set":"built in","command":"co\u001bdex","posture":"write","roles":[],"trouble":"it is not installed"}`)
}

func TestWorkersCheck(t *testing.T) {
	well := tipstaff.WorkerCheck{WorkerInfo: boundWorker, Family: "claude-2.1", Source: "tested", Resume: true, SessionFrom: "tipstaff", Permission: "hook", Containment: "cgroup",
		Missing: []string{}, Inexpressible: []string{}, Credentials: []string{"ANTHROPIC_API_KEY"}, EndLimits: []string{}, Warnings: []string{}}
	free := tipstaff.WorkerCheck{WorkerInfo: lostWorker, Code: "worker_unavailable", Source: "documented", Permission: "compiled", Missing: []string{"--json"}, Inexpressible: []string{"no-exec"},
		EndLimits: []string{"tokens", "cost_usd"}, Warnings: []string{"it is newer"}}
	bound := free
	bound.Roles = boundWorker.Roles[:1]
	for _, c := range []struct {
		name string
		all  []tipstaff.WorkerCheck
		code int
	}{
		{"all can run", []tipstaff.WorkerCheck{well}, exitDone},
		{"one that nobody is bound to cannot", []tipstaff.WorkerCheck{well, free}, exitDone},
		{"one that a role is bound to cannot", []tipstaff.WorkerCheck{bound, well}, exitRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := workersBench(t)
			b.env.CheckWorkers = func(_ context.Context, _ string, names []string) ([]tipstaff.WorkerCheck, error) {
				equal(t, "names", strings.Join(names, " "), "careful codex")
				return c.all, nil
			}
			b.run(t, c.code, "workers", "check", "careful", "codex")
			for _, w := range c.all {
				contains(t, "stdout", b.out.String(), "worker")
				contains(t, "stdout", b.out.String(), w.Name)
			}
		})
	}
	b := workersBench(t)
	b.env.CheckWorkers = func(context.Context, string, []string) ([]tipstaff.WorkerCheck, error) {
		return []tipstaff.WorkerCheck{free}, nil
	}
	b.run(t, exitDone, "workers", "check")
	equal(t, "stdout", b.out.String(), `worker                     codex
type                       codex
state                      cannot run: worker_unavailable: it is not installed
binary                     co\u001bdex (not found)
source                     documented: from the vendor's documentation, never tried with the CLI itself
posture                    write
roles                      -
resume                     no
permission                 compiled
credentials                none in the environment
missing flag               --json
not expressible            no-exec
at the end of a turn only  tokens, cost_usd
warning                    it is newer
`)
}

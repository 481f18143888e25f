package main

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// listWorkers is every worker of a workspace, with what is bound to it as things are now. In a
// workspace that is not trusted no CLI is started.
func listWorkers(ctx context.Context, workspace string) ([]tipstaff.WorkerInfo, error) {
	untrusted := requireTrust(workspace) != nil
	var list []tipstaff.WorkerInfo
	err := eachWorker(workspace, nil, func(_ *ws.Manifest, info tipstaff.WorkerInfo, w *worker.CLI) {
		var found worker.Info
		var err error
		if untrusted {
			found, err = w.Known()
			if err == nil && found.Version == "" {
				info.Trouble = cmp.Or(info.Trouble, tipstaff.WorkerNotLookedAt)
			}
		} else {
			found, err = w.Available(ctx)
		}
		info.Binary, info.Version = found.Path, found.Version
		if err != nil && info.Trouble == "" {
			info.Trouble = err.Error()
		}
		list = append(list, info)
	})
	return list, err
}

// versions is what CLIs have said of their version, of all workspaces.
var versions = sync.OnceValue(func() *worker.Versions {
	state, err := ws.StateDir(os.Getenv)
	if err != nil {
		return &worker.Versions{}
	}
	return &worker.Versions{File: filepath.Join(state, "versions")}
})

// checkWorkers looks closer at workers.
func checkWorkers(ctx context.Context, workspace string, names []string) ([]tipstaff.WorkerCheck, error) {
	if err := requireTrust(workspace); err != nil {
		return nil, err
	}
	var list []tipstaff.WorkerCheck
	err := eachWorker(workspace, names, func(m *ws.Manifest, info tipstaff.WorkerInfo, w *worker.CLI) {
		r := w.Check(ctx, worker.NewPolicy(worker.PolicyOptions{Frozen: workerRules{policy: m.Rules()}, Type: info.Type, Dir: workspace}))
		info.Binary, info.Version = r.Info.Path, r.Info.Version
		c := tipstaff.WorkerCheck{WorkerInfo: info, Family: r.Info.Family, Source: r.Source, Missing: r.Missing, Resume: r.Resumes, SessionFrom: r.MakesID, Permission: "compiled",
			Inexpressible: r.Inexpressible, Containment: r.Containment, Credentials: []string{}, EndLimits: r.NotInTurn, Warnings: r.Warnings}
		if r.Hook {
			c.Permission = "hook"
		}
		if env, err := m.WorkerEnviron(info.Name, os.Environ()); err == nil {
			c.Credentials = append(c.Credentials, slices.Sorted(maps.Keys(worker.Credentials(info.Type, env)))...)
		}
		switch {
		case c.Trouble != "":
			c.Code = tipstaff.Refused
		case r.Problem != nil:
			c.Trouble, c.Code = r.Problem.Message, r.Problem.Code
		case !r.Runs():
			c.Trouble, c.Code = "its help does not show all flags that it is called with", tipstaff.WorkerUnsupportedVersion
		}
		list = append(list, c)
	})
	return list, err
}

// eachWorker calls f for workers of a workspace, by name: for those named, or for all.
// What keeps one from running that can be told without its CLI is told.
func eachWorker(workspace string, names []string, f func(*ws.Manifest, tipstaff.WorkerInfo, *worker.CLI)) error {
	dir, err := folder(workspace)
	if err != nil {
		return err
	}
	m, err := ws.Read(dir)
	if err != nil {
		return err
	}
	bound, err := boundRoles(m)
	if err != nil {
		return err
	}
	workers, err := registered(dir, m)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = workers.List()
	}
	for _, name := range names {
		if _, err := workers.Get(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		c, _ := m.Worker(name)
		found, _ := workers.Get(name)
		w := found.(*worker.CLI) // as registered makes them
		info := tipstaff.WorkerInfo{Name: name, Type: c.Type, Set: "built in", Command: w.Command(), Model: c.Model,
			Posture: string(c.In(worker.Role{})), Roles: append([]tipstaff.WorkerRole{}, bound[name]...)}
		if m != nil {
			if _, ok := m.Workers[name]; ok {
				info.Set = ws.FileName
			}
		}
		if _, err := m.WorkerEnviron(name, os.Environ()); err != nil {
			info.Trouble = err.Error()
		}
		if c.Type == ws.TypeScripted && c.Script.Name == "" {
			info.Trouble = cmp.Or(info.Trouble, "it has no script")
		}
		f(m, info, w)
	}
	return nil
}

// registered are the workers of a manifest, in its folder.
func registered(dir string, m *ws.Manifest) (*worker.Registry, error) {
	all := &worker.Registry{}
	for _, name := range m.WorkerNames() {
		c, _ := m.Worker(name)
		w, err := newWorker(dir, name, c)
		if err == nil {
			err = all.Register(name, w)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// boundRoles are all roles, by the worker that each is bound to.
func boundRoles(m *ws.Manifest) (map[string][]tipstaff.WorkerRole, error) {
	bound := map[string][]tipstaff.WorkerRole{}
	for _, name := range m.RoleNames() {
		by, where, err := m.WorkerFor(ws.WorkerChoice{Role: name, Environ: os.Environ()})
		if err != nil {
			return nil, err
		}
		w, _ := m.Worker(by)
		r, _ := m.Role(name)
		bound[by] = append(bound[by], tipstaff.WorkerRole{Name: name, Set: where, Posture: string(w.In(r))})
	}
	return bound, nil
}

// newWorker is a worker as it is configured in a workspace, where a path of its command stands.
func newWorker(dir, name string, c ws.Worker) (*worker.CLI, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := c.Command
	if strings.ContainsRune(command, filepath.Separator) {
		if command, err = builtin.LookProgram(dir, command); err != nil {
			return nil, err
		}
	}
	return worker.New(worker.Config{Name: name, Type: c.Type, Command: command, Args: c.Args, Environ: codeIn(dir, nil).Environment(c.Starts(name)), Settings: c.Settings, Script: c.Script.Name,
		Self: self, Version: build.Version, Sandbox: os.Getenv("TIPSTAFF_SANDBOX"), Starter: process.Workers{}, Versions: versions(),
		Accepts: func() error { return acceptedCode(dir, name, c) }})
}

// acceptedCode refuses a worker whose code in the workspace is not what the lock holds, as it is
// now. A run has the worker as it was when it was made.
func acceptedCode(dir, name string, c ws.Worker) error {
	lock, err := tool.ReadLock(dir)
	if err != nil {
		return err
	}
	m, err := ws.Read(dir)
	if err != nil {
		return err
	}
	as := c.Starts(name)
	now, _ := m.Worker(name)
	as.Former = now.Command != c.Command || !slices.Equal(now.Args, c.Args) || !maps.Equal(now.Env, c.Env)
	as.Package, as.Ignore = now.Package, now.Ignore
	if refused := lock.Accepts(codeIn(dir, m), as); refused != nil {
		return refused
	}
	return nil
}

// codeIn makes digests of the code of a workspace.
func codeIn(dir string, m *ws.Manifest) *tool.Code {
	state, err := ws.StateDir(os.Getenv)
	if err != nil {
		state = "" // then they are not kept
	}
	return tool.NewCode(m, dir, state)
}

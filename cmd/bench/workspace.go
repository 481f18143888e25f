package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// manifest declares what the plans of this program use.
const manifest = `version: 1
allowed_effects: [read]
servers:
  builtin:
    roots: ["."]
    tools:
      read_file: {effect: read}
      sleep: {effect: read}
bounds: {tool_calls: 10000}
`

// note is the file that steps read: with what surrounds it in a result, about
// 190 bytes.
const note = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n"

// newWorkspace makes a folder in which plans can be run. What more the manifest
// has follows it.
func newWorkspace(dir string, more ...string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), []byte(manifest+strings.Join(more, "")), 0o644),
		os.WriteFile(filepath.Join(dir, "note.txt"), []byte(note), 0o644))
}

// freshWorkspace makes such a folder and opens it.
func freshWorkspace(ctx context.Context, dir string, more ...string) (*instance, error) {
	if err := newWorkspace(dir, more...); err != nil {
		return nil, err
	}
	return openWorkspace(ctx, dir, nil)
}

// instance is a folder opened with everything that the command joins together,
// in this process.
type instance struct {
	*runner.Runner
	store *sqlite.Store
}

// openWorkspace recovers runs of dead owners, as every command does. watch may
// put something between runner and store; nil: nothing.
func openWorkspace(ctx context.Context, dir string, watch func(flow.Store) flow.Store) (*instance, error) {
	folder := filepath.Join(dir, ".tipstaff")
	o := &sqlite.Options{UserKey: true}
	o.Alive = func(o flow.Owner, heartbeat time.Time) bool { return supervisor.Alive(o, heartbeat, time.Now()) }
	store, err := sqlite.Open(folder, o)
	if err != nil {
		return nil, err
	}
	keys := store.Keys()
	config := runner.Config{
		Store: store, Keys: keys,
		Trusted:   func() ([]journal.PublicKey, error) { return store.PublicKeys(ctx) },
		Workspace: dir, Files: filepath.Join(folder, "journal"), Servers: servers, Models: models,
		Self: supervisor.Self, Alive: supervisor.Alive, Markers: supervisor.Markers, Sweep: supervisor.Sweep, Stop: ctx,
	}
	if watch != nil {
		config.Store = watch(store)
	}
	w := &instance{runner.New(config), store}
	if err := w.Recover(ctx, "bench"); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return w, nil
}

func (w *instance) close() error {
	w.Drain()
	return w.store.Close()
}

// run starts a plan and returns when its drive has ended, as it should.
func (w *instance) run(ctx context.Context, plan []byte, want string) (tipstaff.ID, error) {
	started, err := w.Start(ctx, tipstaff.StartRequest{Program: plan, Name: "bench.json"})
	if err != nil {
		return tipstaff.ID{}, err
	}
	return started.Run, w.expect(ctx, started.Run, want)
}

// expect waits for the end of a drive.
func (w *instance) expect(ctx context.Context, run tipstaff.ID, want string) error {
	driven, err := w.Wait(ctx, run)
	if err == nil && driven.Outcome != want {
		err = fmt.Errorf("run %s: %s, not %s: %s: %s", run, driven.Outcome, want, driven.Reason, driven.Message)
	}
	return err
}

// succeeded is the outcome of a drive that did all it should.
const succeeded = "success"

// localUser is the person at the terminal, who signs with their own key.
func localUser(ctx context.Context) context.Context {
	return tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
}

// servers are those that live in this process.
func servers(m *workspace.Manifest, dir string, markers []string) map[string]tool.Server {
	return tool.Servers(m, tool.Launch{Workspace: dir, Markers: markers})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool"
)

// This file is the only place that names concrete choices: which store, which
// servers, how processes are identified.

// version is set when a release is built.
var version = "dev"

func versionInfo() cli.VersionInfo {
	v := cli.VersionInfo{Version: version, Go: runtime.Version()}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

// stop is how this process is told to stop: the first signal interrupts its
// drives in good order, the second ends the grace they are given.
type stop struct {
	ctx     context.Context // of the command; its cause is a *cli.SignalError
	drives  context.Context // of drives; its cause is a *flow.Stop
	abandon chan struct{}
}

func newStop() *stop {
	ctx, cancel := context.WithCancelCause(context.Background())
	drives, cancelDrives := context.WithCancelCause(context.Background())
	s := &stop{ctx: ctx, drives: drives, abandon: make(chan struct{})}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := <-signals
		cancelDrives(&flow.Stop{Reason: "signal:" + signalName(sig)})
		cancel(&cli.SignalError{Signal: sig})
		<-signals
		close(s.abandon)
	}()
	return s
}

func signalName(s os.Signal) string {
	if s == syscall.SIGINT {
		return "INT"
	}
	return "TERM"
}

// session is an open workspace.
type session struct {
	runner *runner.Runner
	store  *sqlite.Store // nil: the workspace has none yet
}

func (s *session) Service() tipstaff.Service { return s.runner }

// Close waits for drives that are still under way and for files that follow
// commits.
func (s *session) Close() error {
	s.runner.Wait()
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

func (s *stop) open(ctx context.Context, o cli.OpenOptions) (cli.Session, error) {
	workspace, err := filepath.Abs(o.Workspace)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(workspace); err != nil || !info.IsDir() {
		return nil, tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "the workspace %s is not a folder", workspace).
			WithHint("name an existing folder with --workspace or TIPSTAFF_WORKSPACE")
	}
	config := runner.Config{
		Workspace: workspace,
		Origin:    "foreground",
		Servers:   tool.Servers,
		Self:      supervisor.Self,
		Alive:     supervisor.Alive,
		Markers:   supervisor.Markers,
		Sweep:     supervisor.Sweep,
		Stop:      s.drives,
		Abandon:   s.abandon,
		OwnRun:    os.Getenv("TIPSTAFF_RUN_ID"),
	}
	dir := filepath.Join(workspace, ".tipstaff")
	if _, err := os.Stat(dir); o.ReadOnly && errors.Is(err, fs.ErrNotExist) {
		config.Store = noStore{}
		return &session{runner: runner.New(config)}, nil
	}
	store, err := openStore(dir, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	keys := store.Keys()
	config.Store, config.Files = store, filepath.Join(dir, "journal")
	config.Keys = runner.Keys{User: keys.User, Executor: keys.Executor}
	config.Trusted = func() ([]journal.PublicKey, error) { return store.PublicKeys(ctx) }
	r := runner.New(config)
	if err := r.Recover(ctx, fmt.Sprintf("tipstaff[%d]", os.Getpid())); err != nil && !errors.Is(err, flow.ErrReadOnly) {
		return nil, errors.Join(err, store.Close())
	}
	return &session{runner: r, store: store}, nil
}

// openStore opens for writing, because every command recovers the runs of dead
// owners. One that only looks makes do with reading where it may not write.
func openStore(dir string, mayRead bool) (*sqlite.Store, error) {
	o := &sqlite.Options{UserKey: true, Alive: func(owner flow.Owner, heartbeat time.Time) bool {
		return supervisor.Alive(owner, heartbeat, time.Now())
	}}
	store, err := sqlite.Open(dir, o)
	if err != nil && mayRead && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		o.ReadOnly, o.UserKey = true, false
		if readable, rerr := sqlite.Open(dir, o); rerr == nil {
			return readable, nil
		}
	}
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.StoreUnavailable, Message: err.Error(), Err: err}
	}
	return store, nil
}

func export(ctx context.Context, svc tipstaff.Service, run tipstaff.ID, dir string) error {
	return runner.Export(ctx, svc, run, dir)
}

// noStore is a workspace in which nothing was ever run: it can be looked at and
// stays as it is.
type noStore struct{ flow.Store }

func (noStore) Run(context.Context, string) (flow.Row, error)                 { return flow.Row{}, flow.ErrNoRun }
func (noStore) Runs(context.Context, flow.Query) ([]flow.Row, error)          { return nil, nil }
func (noStore) Gates(context.Context, flow.GateQuery) ([]flow.GateRow, error) { return nil, nil }
func (noStore) Blob(context.Context, string) ([]byte, error)                  { return nil, flow.ErrNoBlob }

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
	"sync"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/telemetry"
	"github.com/tipstaff/tipstaff/tool"
	ws "github.com/tipstaff/tipstaff/workspace"
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
	signals chan os.Signal

	mu    sync.Mutex
	taken func() bool // is asked whether it deals with an interrupt; nil: nobody does
	first func()      // is done before drives are stopped; nil: nothing is
}

func newStop() *stop {
	ctx, cancel := context.WithCancelCause(telemetry.WithCaller(context.Background()))
	drives, cancelDrives := context.WithCancelCause(context.Background())
	s := &stop{ctx: ctx, drives: drives, abandon: make(chan struct{}), signals: make(chan os.Signal, 2)}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := s.wait()
		s.onInterrupt(nil)
		s.prepare()
		cancelDrives(&flow.Stop{Reason: "signal:" + signalName(sig)})
		cancel(&cli.SignalError{Signal: sig})
		s.wait()
		close(s.abandon)
	}()
	return s
}

// beforeStop has f done when the process is told to stop, before its drives are.
func (s *stop) beforeStop(f func()) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.first = nil
	}
}

func (s *stop) prepare() {
	s.mu.Lock()
	first := s.first
	s.mu.Unlock()
	if first != nil {
		first()
	}
}

// patience ends with the grace that drives are given.
func (s *stop) patience() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.abandon
		cancel()
	}()
	return ctx
}

// wait is for a signal that nobody else deals with.
func (s *stop) wait() os.Signal {
	for sig := range s.signals {
		if sig != syscall.SIGINT || !s.dealtWith() {
			return sig
		}
	}
	return nil
}

func (s *stop) dealtWith() bool {
	s.mu.Lock()
	taken := s.taken
	s.mu.Unlock()
	return taken != nil && taken()
}

// onInterrupt has f asked first when the process is interrupted; nil: nobody.
func (s *stop) onInterrupt(f func() bool) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = nil
	}
}

// interrupt stops the process as an interrupt does that nobody deals with.
func (s *stop) interrupt() {
	s.mu.Lock()
	s.taken = nil
	s.mu.Unlock()
	s.signals <- syscall.SIGINT
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
	looks  bool          // its command changes nothing
	dir    string        // where that is
	first  *firstRun     // of such a workspace, if a run is about to be started in it

	telemetry *telemetry.Telemetry
}

func (s *session) Service() tipstaff.Service {
	if s.first != nil {
		return s.first
	}
	return s.runner.Guarded()
}

func (s *session) Memory() tipstaff.Memory { return runner.Memory{Runner: s.runner} }

// Close waits for drives that are still under way, for what is told of them and for
// files that follow commits.
func (s *session) Close() error {
	s.runner.Drain()
	err := s.telemetry.Close()
	if s.store == nil {
		return err
	}
	return errors.Join(err, s.storeError(s.store.Close()))
}

// storeError is what became of writing that no command asked for: marking the runs
// of dead owners, files that follow commits. A command that only looks makes do
// without where there is no place for it.
func (s *session) storeError(err error) error {
	if s.looks && errors.Is(err, flow.ErrStoreFull) {
		return nil
	}
	return unusable(err)
}

// folder is the workspace of that name.
func folder(name string) (string, error) {
	workspace, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(workspace); err != nil || !info.IsDir() {
		return "", tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "the workspace %s is not a folder", workspace).
			WithHint("name an existing folder with --workspace or TIPSTAFF_WORKSPACE")
	}
	return workspace, nil
}

// drivenBy is who drives the runs of a session.
type drivenBy struct {
	origin string
	grace  time.Duration // for once calls in flight when it stops; 0: that of commands
	most   int           // runs at once; 0: all
}

func (s *stop) open(ctx context.Context, o cli.OpenOptions) (cli.Session, error) {
	opened, err := s.openAs(ctx, o, drivenBy{origin: "foreground"})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (s *stop) openAs(ctx context.Context, o cli.OpenOptions, by drivenBy) (*session, error) {
	workspace, err := folder(o.Workspace)
	if err != nil {
		return nil, err
	}
	opened := &session{telemetry: telemetry.New(version, os.Stderr)}
	config := runner.Config{
		Workspace: workspace,
		Skills:    o.Skills,
		Watch:     opened.telemetry.Watch,
		Policy:    o.Policy,
		Origin:    by.origin,
		Grace:     by.grace,

		MaxDriving: by.most,
		Servers:    serversBeside(o.Skills, o.Policy),
		Models:     openModel,
		Self:       supervisor.Self,
		Alive:      supervisor.Alive,
		Markers:    supervisor.Markers,
		Sweep:      supervisor.Sweep,
		Stop:       s.drives,
		Abandon:    s.abandon,
		OwnRun:     os.Getenv("TIPSTAFF_RUN_ID"),
	}
	dir := filepath.Join(workspace, storeFolder)
	if _, err := os.Stat(dir); (o.ReadOnly || o.Starts) && errors.Is(err, fs.ErrNotExist) {
		untouched := config
		untouched.Store = noStore{}
		opened.runner = runner.New(untouched)
		if o.Starts {
			opened.first = &firstRun{Service: opened.runner.Guarded(), begin: func() (tipstaff.Service, error) {
				err := opened.fill(ctx, config, dir, o)
				return opened.runner.Guarded(), err
			}}
		}
		return opened, nil
	}
	return opened, opened.fill(ctx, config, dir, o)
}

// fill gives the session a store, which is made if need be, and a runner over it.
func (s *session) fill(ctx context.Context, config runner.Config, dir string, o cli.OpenOptions) error {
	store, err := openStore(dir, o.ReadOnly, sync.OnceValues(func() (string, error) { return runner.AnchorFile(config.Workspace) }))
	if err != nil {
		return err
	}
	keys := store.Keys()
	config.Store, config.Memory, config.Files = store, store, filepath.Join(dir, "journal")
	if !o.ReadOnly {
		if config.Store, err = s.telemetry.Observe(store, store.Secret("log of tool calls")); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	config.Keys = runner.Keys{User: keys.User, Executor: keys.Executor}
	config.Trusted = func() ([]journal.PublicKey, error) { return store.PublicKeys(ctx) }
	r := runner.New(config)
	s.looks = o.ReadOnly
	if err := s.storeError(r.Recover(ctx, fmt.Sprintf("tipstaff[%d]", os.Getpid()))); err != nil && !errors.Is(err, flow.ErrReadOnly) {
		return errors.Join(err, store.Close())
	}
	s.runner, s.store, s.dir = r, store, dir
	return nil
}

// servers are started as processes of the run, with our environment to take
// credentials from.
func servers(m *ws.Manifest, dir string, markers []string) map[string]tool.Server {
	return serversBeside()(m, dir, markers)
}

// serversBeside are servers in a workspace where no run writes these files and folders,
// besides what every workspace has.
func serversBeside(paths ...string) func(*ws.Manifest, string, []string) map[string]tool.Server {
	var protected []string
	for _, p := range paths {
		if path, err := filepath.Abs(p); p != "" && err == nil {
			protected = append(protected, path)
		}
	}
	return func(m *ws.Manifest, dir string, markers []string) map[string]tool.Server {
		return tool.Servers(m, tool.Launch{Workspace: dir, Markers: markers, Environ: os.Environ(), Spawn: supervisor.Spawn, Protected: protected})
	}
}

// openStore opens for writing, because every command recovers the runs of dead
// owners. One that only looks makes do with reading where it may not or cannot
// write, and does not wait for space.
func openStore(dir string, mayRead bool, anchor func() (string, error)) (*sqlite.Store, error) {
	o := &sqlite.Options{UserKey: true, Anchor: anchor, Alive: alive}
	if mayRead {
		o.FullLimit = time.Nanosecond
	}
	store, err := sqlite.Open(dir, o)
	if err != nil && mayRead && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, flow.ErrStoreFull)) {
		o.ReadOnly, o.UserKey = true, false
		if readable, rerr := sqlite.Open(dir, o); rerr == nil {
			return readable, nil
		}
	}
	return store, unusable(err)
}

func alive(owner flow.Owner, heartbeat time.Time) bool {
	return supervisor.Alive(owner, heartbeat, time.Now())
}

func export(ctx context.Context, svc tipstaff.Service, run tipstaff.ID, dir string) error {
	return runner.Export(ctx, svc, run, dir)
}

// classifier compares plans: it reads what the workspace has, and needs no store.
func classifier(name string) (tipstaff.Classifier, error) {
	workspace, err := folder(name)
	if err != nil {
		return nil, err
	}
	return runner.New(runner.Config{Workspace: workspace, Store: noStore{}}), nil
}

// tools looks after tools: it may start servers, and needs no store.
func tools(name string) (tipstaff.Tools, error) {
	workspace, err := folder(name)
	if err != nil {
		return nil, err
	}
	return runner.New(runner.Config{
		Workspace: workspace, Servers: servers, Markers: supervisor.Markers, Sweep: supervisor.Sweep, Store: noStore{},
	}).Tools(), nil
}

// skills looks after skills, by names as the person at the terminal knows them:
// a relative workspace gives relative ones.
func skills(o cli.OpenOptions) (tipstaff.Skills, error) {
	if _, err := folder(o.Workspace); err != nil {
		return nil, err
	}
	return runner.SkillKeeper{Runner: runner.New(runner.Config{Workspace: o.Workspace, Skills: o.Skills, Store: noStore{}})}, nil
}

// noStore is a workspace in which nothing was ever run: it can be looked at and
// stays as it is.
type noStore struct{ flow.Store }

func (noStore) Run(context.Context, string) (flow.Row, error)                 { return flow.Row{}, flow.ErrNoRun }
func (noStore) Runs(context.Context, flow.Query) ([]flow.Row, error)          { return nil, nil }
func (noStore) Gates(context.Context, flow.GateQuery) ([]flow.GateRow, error) { return nil, nil }
func (noStore) Blob(context.Context, string) ([]byte, error)                  { return nil, flow.ErrNoBlob }

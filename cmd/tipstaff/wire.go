package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/postgres"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/provider"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/bucket"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/telemetry"
	"github.com/tipstaff/tipstaff/temporal"
	"github.com/tipstaff/tipstaff/tool/builtin"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// This file is the only place that names concrete choices: which store, which
// servers, how processes are identified.

// stop is how this process is told to stop: the first signal interrupts its
// drives in good order, the second ends the grace they are given.
type stop struct {
	ctx      context.Context // of the command; its cause is a *cli.SignalError
	drives   context.Context // of drives; its cause is a *flow.Stop
	patience context.Context // ends with the grace that drives are given
	signals  chan os.Signal

	within        atomic.Pointer[func() []string] // of the workspace that is open: see cli.Env.Within; nil: none is
	interruptHook atomic.Pointer[func() bool]     // is asked whether it deals with an interrupt; nil: nobody does
	terminateHook atomic.Pointer[func() bool]     // likewise of a SIGTERM, the first
	stopHook      atomic.Pointer[func()]          // is done before drives are stopped; nil: nothing is
}

func newStop() *stop {
	ctx, cancel := context.WithCancelCause(telemetry.WithCaller(context.Background()))
	drives, cancelDrives := context.WithCancelCause(context.Background())
	patience, abandon := context.WithCancel(context.Background())
	s := &stop{ctx: ctx, drives: drives, patience: patience, signals: make(chan os.Signal, 2)}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		sig := s.wait()
		s.interruptHook.Store(nil)
		if hook := s.stopHook.Load(); hook != nil {
			(*hook)()
		}
		name := "TERM"
		if sig == syscall.SIGINT {
			name = "INT"
		}
		cancelDrives(&flow.Stop{Reason: "signal:" + name})
		cancel(&cli.SignalError{Signal: sig})
		s.wait()
		abandon()
	}()
	return s
}

// wait is for a signal that nobody else deals with.
func (s *stop) wait() os.Signal {
	for {
		sig := <-s.signals
		if hook := s.terminateHook.Swap(nil); sig == syscall.SIGTERM && hook != nil && (*hook)() {
			continue
		}
		if hook := s.interruptHook.Load(); sig != syscall.SIGINT || hook == nil || !(*hook)() {
			return sig
		}
	}
}

// beforeStop has f done when the process is told to stop, before its drives are.
func (s *stop) beforeStop(f func()) (release func()) {
	s.stopHook.Store(&f)
	return func() { s.stopHook.Store(nil) }
}

// onInterrupt has f asked first when the process is interrupted.
func (s *stop) onInterrupt(f func() bool) (release func()) {
	s.interruptHook.Store(&f)
	return func() { s.interruptHook.Store(nil) }
}

// onTerminate has f asked when the process is told to end for the first time.
func (s *stop) onTerminate(f func() bool) { s.terminateHook.Store(&f) }

// interrupt stops the process as an interrupt does that nobody deals with.
func (s *stop) interrupt() {
	s.interruptHook.Store(nil)
	s.signals <- syscall.SIGINT
}

// keeper is the store of a workspace, wherever it is.
type keeper interface {
	flow.Store
	runner.Recollection
	runner.Workers
	runner.Launches
	Keys() tipstaff.RunKeys
	PublicKeys(context.Context) ([]journal.PublicKey, error)
	Secret(purpose string) []byte
	Collect(ctx context.Context) (removed int, err error)
	Stats() store.WriterStats
	Fallen(context.Context) error
	Close() error
}

// session is an open workspace.
type session struct {
	runner   *runner.Runner
	store    keeper           // nil: the workspace has none yet
	engine   *temporal.Engine // nil: servers schedule drives themselves
	readOnly bool             // its command changes nothing
	dir      string           // where that is
	execute  tipstaff.ID      // the run that this process was launched to drive; zero: none
	first    *firstRun        // of such a workspace, if a run is about to be started in it
	repaired func()           // waits for the files of runs that are being written again; nil: none are
	member   supervisor.Member

	telemetry *telemetry.Telemetry
}

func (s *session) Service() tipstaff.Service {
	if s.first != nil {
		return s.first
	}
	return s.runner
}

func (s *session) Memory() tipstaff.Memory { return runner.Memory{Runner: s.runner} }

func (s *session) Sessions() tipstaff.Sessions { return s.runner.Sessions() }
func (s *session) Tasks() tipstaff.Tasks       { return s.runner.Tasks() }

func (s *session) Changed() (changed <-chan struct{}, stop func()) { return s.runner.Changed() }

func (s *session) Page() string { return s.page() }

// Exit keeps how the process ends that was launched to drive a run.
func (s *session) Exit(code int, problem error) error {
	if s.execute.IsZero() {
		return nil
	}
	s.runner.Drain()
	return s.runner.Executed(context.Background(), s.execute, code, problem)
}

// Close waits for drives that are still under way, for what is told of them and for
// files that follow commits.
func (s *session) Close() error {
	s.runner.Drain()
	if s.engine != nil {
		s.engine.Close()
	}
	err := s.telemetry.Close()
	if s.store == nil {
		return err
	}
	s.repaired()
	err = errors.Join(err, s.storeError(s.runner.Flush()))
	return errors.Join(err, s.storeError(s.store.Close()))
}

// storeError is what became of writing that no command asked for: marking the runs
// of dead owners, files that follow commits. A command that only looks makes do
// without where there is no place for it.
func (s *session) storeError(err error) error {
	if s.readOnly && errors.Is(err, flow.ErrStoreFull) {
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

func (s *stop) open(ctx context.Context, o cli.OpenOptions) (cli.Session, error) {
	config := runner.Config{Origin: "foreground"}
	if o.Launch != "" {
		config.Origin, config.Launch = tipstaff.OriginSupervisor, o.Launch
	}
	opened, err := s.openAs(ctx, o, config)
	if err != nil {
		return nil, err
	}
	if o.Launch != "" {
		return opened, s.launched(opened, o.Execute)
	}
	return opened, nil
}

// launched prepares this process to drive the run that it was launched for: it is known by
// its lease from now on, writes its log, and takes SIGTERM for the cancel that is recorded.
func (s *stop) launched(opened *session, run string) (err error) {
	supervisor.ConcealOwner()
	if opened.execute, err = tipstaff.ParseID(run); err != nil {
		return err
	}
	s.onTerminate(func() bool { return opened.runner.CancelRecorded(context.Background(), opened.execute) })
	return nil
}

// openAs opens a workspace for a runner whose config says who drives.
func (s *stop) openAs(ctx context.Context, o cli.OpenOptions, config runner.Config) (*session, error) {
	workspace, err := folder(o.Workspace)
	if err != nil {
		return nil, err
	}
	opened := &session{telemetry: telemetry.New(build.Version, os.Stderr)}
	config = trusting(config)
	config.Workspace, config.Skills, config.Policy = workspace, o.Skills, o.Policy
	opened.member = supervisor.Membership()
	opened.member.Runs = slices.DeleteFunc(opened.member.Runs, func(run string) bool { return run == o.Execute })
	within := func() []string { return opened.ownRuns(opened.member) }
	s.within.Store(&within)
	config.Launcher, config.MaxRuns, config.Exec = new(supervisor.Launcher), o.MaxRuns, executing(workspace, o.Skills)
	config.Watch = opened.telemetry.Watch
	if config.Models == nil {
		config.Models = openModel
	}
	config.Performers = map[pipeline.Way]runner.Performer{pipeline.WayWorker: &workerPerformer{}}
	config.Implicit = func() (*ws.Manifest, error) { return implicitManifest(workspace) }
	if config.State != "" { // else there is no place for worktrees
		config.Git, config.Worktrees = process.Git(), filepath.Join(config.State, builtin.WorktreesFolder)
	}
	config.Stop, config.Abandon = s.drives, s.patience.Done()
	if o.Engine != "" {
		if err := opened.schedule(ctx, &config, o); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(workspace, storeFolder)
	if o.Store != "" {
		// The processes of runs find it there, and those of tools do not.
		if err := errors.Join(os.Setenv("TIPSTAFF_STORE", o.Store), os.Setenv("TIPSTAFF_BLOBS", o.Blobs)); err != nil {
			return nil, err
		}
		return opened, opened.fill(ctx, config, dir, o)
	}
	if o.Blobs != "" {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "--blobs or TIPSTAFF_BLOBS is for a store in a database: a folder keeps its payloads in %s", filepath.Join(dir, "blobs")).
			WithHint("name the database with --store or TIPSTAFF_STORE, or leave out the address for blobs")
	}
	if _, err := os.Stat(dir); (o.ReadOnly || o.Starts) && errors.Is(err, fs.ErrNotExist) {
		opened.runner = runner.New(config)
		if o.Starts {
			opened.first = &firstRun{Service: opened.runner, trusted: opened.runner.RequireTrust, begin: func() (tipstaff.Service, error) {
				err := opened.fill(ctx, config, dir, o)
				return opened.runner, err
			}}
		}
		return opened, nil
	}
	return opened, opened.fill(ctx, config, dir, o)
}

// executing is the command line of the process that drives a run of its own.
func executing(workspace, skills string) func(run string) []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return func(run string) []string {
		argv := []string{self, "exec", run, "--workspace", workspace}
		if path, err := filepath.Abs(skills); skills != "" && err == nil {
			argv = append(argv, "--skills", path)
		}
		return argv
	}
}

// fill gives the session a store, which is made if need be, and a runner over it.
func (s *session) fill(ctx context.Context, config runner.Config, dir string, o cli.OpenOptions) error {
	anchor := sync.OnceValues(func() (string, error) { return runner.AnchorFile(config.Workspace) })
	var store keeper
	if o.Store != "" {
		blobs, err := openBucket(ctx, o.Blobs, o.Starts || config.Serves)
		if err != nil {
			return err
		}
		shared, err := openDatabase(ctx, o, dir, blobs, anchor)
		if err != nil {
			return err
		}
		store, config.Now, config.Pool = shared, shared.Now, shared
	} else {
		own, err := openStore(dir, o, anchor)
		if err != nil {
			return err
		}
		if err := own.Refusal(); err != nil && config.Serves { // whoever serves drives
			return errors.Join(unusable(err), own.Close())
		}
		store, config.Files, config.Folders = own, filepath.Join(dir, "journal"), own
	}
	keys := store.Keys()
	config.Store, config.Memory, config.Workers, config.Folder, config.Launches = store, store, store, dir, store
	var err error
	if !o.ReadOnly {
		if config.Store, err = s.telemetry.Observe(store, store.Secret("log of tool calls")); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	config.Performers = map[pipeline.Way]runner.Performer{pipeline.WayWorker: &workerPerformer{store: store, folder: dir,
		alive: func(o flow.Owner) bool { return supervisor.Alive(o, time.Now(), time.Now()) }}}
	config.Keys = keys
	config.Trusted = func() ([]journal.PublicKey, error) { return store.PublicKeys(ctx) }
	r := runner.New(config)
	s.readOnly = o.ReadOnly
	if err := s.storeError(r.Recover(ctx, fmt.Sprintf("tipstaff[%d]", os.Getpid()))); err != nil && !errors.Is(err, flow.ErrReadOnly) {
		return errors.Join(err, store.Close())
	}
	if !o.ReadOnly {
		if err := s.storeError(errors.Join(r.DenyExpired(ctx), r.TidyWorktrees(ctx))); err != nil {
			return errors.Join(err, store.Close())
		}
	}
	s.runner, s.store, s.dir = r, store, dir
	s.repair(ctx)
	return nil
}

// ownRuns are the runs of this store of which a process is one.
func (s *session) ownRuns(m supervisor.Member) []string {
	return s.runner.Within(context.Background(), m.Runs, m.Certain, m.Under)
}

// peers finds the runs of which who holds the other ends of connections is a process: see
// [tipstaff.Caller]. It begins to look when a connection comes, and is asked when it matters.
func (s *session) peers() func(net.Conn) func() []string {
	ours := s.ownRuns(s.member) // who is served by a process of a run decides nothing either
	owners := func() ([]flow.Owner, error) { return s.runner.Owners(context.Background()) }
	return func(conn net.Conn) func() []string {
		own, looked := ours, make(chan struct{})
		go func() {
			defer close(looked)
			p := supervisor.PeerOf(conn, owners)
			var theirs []string
			if p.Program || len(p.Runs) > 0 {
				theirs = s.ownRuns(p.Member)
			}
			if p.Doubt || p.Program && len(theirs) == 0 {
				theirs = []string{""}
			}
			own = append(slices.Clip(own), theirs...)
		}()
		return func() []string {
			<-looked
			return own
		}
	}
}

// repair has files of runs written again that are missing, for as long as the session
// lasts: what it does not come to is left for the next.
func (s *session) repair(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.runner.Repair(ctx) // nobody asked for it; whoever looks for a file sees that it is missing
	}()
	s.repaired = func() {
		cancel()
		<-done
	}
}

// openStore opens for writing, because every command recovers the runs of dead
// owners. One that only looks makes do with reading where it may not or cannot
// write, and does not wait for space.
func openStore(dir string, o cli.OpenOptions, anchor func() (string, error)) (*sqlite.Store, error) {
	opts := &sqlite.Options{UserKey: true}
	opts.Anchor, opts.Alive, opts.Version = anchor, alive, build.Version
	if o.ReadOnly {
		opts.FullLimit = time.Nanosecond
	}
	store, err := sqlite.Open(dir, opts)
	if doesToRead(o, err) {
		opts.ReadOnly, opts.UserKey = true, false
		if readable, rerr := sqlite.Open(dir, opts); rerr == nil {
			return readable, nil
		}
	}
	return store, unusable(err)
}

// doesToRead reports whether a store that cannot be opened for writing will do for a command
// that only looks, and says so if there is something to be done about it.
func doesToRead(o cli.OpenOptions, err error) bool {
	if !o.ReadOnly {
		return false
	}
	if errors.Is(err, files.ErrExposed) {
		if o.Warnings != nil {
			fmt.Fprintf(o.Warnings, "warning: %v\n", err)
		}
		return true
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, flow.ErrStoreFull)
}

// openBucket opens the place for large payloads; nil: the database has them. check finds out
// before runs begin whether it can be used; others may not need it, and see when they do.
func openBucket(ctx context.Context, address string, check bool) (bucket.Bucket, error) {
	if address == "" {
		return nil, nil
	}
	b, err := bucket.Open(address)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: err.Error(), Hint: "see --blobs or TIPSTAFF_BLOBS", Err: err}
	}
	if check {
		ctx, cancel := context.WithTimeout(ctx, bucketLimit)
		defer cancel()
		err = b.Check(ctx)
	}
	return b, unusable(err)
}

// bucketLimit is how long a bucket has to say that it can be used.
const bucketLimit = 10 * time.Second

// openDatabase opens a store that machines share. The folder has the keys.
func openDatabase(ctx context.Context, o cli.OpenOptions, dir string, blobs bucket.Bucket, anchor func() (string, error)) (*postgres.Store, error) {
	opts := &postgres.Options{Folder: dir, UserKey: true, Lives: supervisor.Alive, Bucket: blobs}
	opts.Anchor, opts.Version = anchor, build.Version
	store, err := postgres.Open(ctx, o.Store, opts)
	if errors.Is(err, files.ErrExposed) && doesToRead(o, err) {
		opts.ReadOnly, opts.UserKey = true, false
		store, err = postgres.Open(ctx, o.Store, opts)
	}
	return store, unusable(err)
}

func alive(owner flow.Owner, heartbeat time.Time) bool {
	return supervisor.Alive(owner, heartbeat, time.Now())
}

// classifier compares plans: it reads what the workspace has, and needs no store.
func classifier(name string) (tipstaff.Classifier, error) {
	workspace, err := folder(name)
	if err != nil {
		return nil, err
	}
	return runner.New(runner.Config{Workspace: workspace}), nil
}

// tools looks after tools: it may start servers, and needs no store.
func tools(name string) (tipstaff.Tools, error) {
	workspace, err := folder(name)
	if err != nil {
		return nil, err
	}
	return runner.New(trusting(runner.Config{Workspace: workspace})).Tools(), nil
}

// skills looks after skills, by names as the person at the terminal knows them:
// a relative workspace gives relative ones.
func skills(o cli.OpenOptions) (tipstaff.Skills, error) {
	if _, err := folder(o.Workspace); err != nil {
		return nil, err
	}
	return runner.SkillKeeper{Runner: runner.New(runner.Config{Workspace: o.Workspace, Skills: o.Skills})}, nil
}

// openModel makes the model that a manifest declares, with the prices of its
// models_file before those that come with Tipstaff.
func openModel(c ws.Model, prices ws.File) (agent.Model, error) {
	config := provider.Config{
		Provider: c.Provider, Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL, AllowHTTP: c.AllowHTTP,
		ContextWindow: c.ContextWindow, Thinking: string(c.Thinking), Cache: c.Cache, Script: []byte(c.Script.Text), ScriptName: c.Script.Name,
	}
	var err error
	if config.Prices, err = priceTable(prices); err != nil {
		return nil, err
	}
	return provider.Open(config)
}

// priceTable is the table that comes with Tipstaff, with the entries of a models_file
// before its own.
func priceTable(prices ws.File) (*provider.Table, error) {
	if prices.Name == "" {
		return provider.DefaultTable(), nil
	}
	own, err := provider.ParseTable(prices.Name, []byte(prices.Text))
	if err != nil {
		return nil, err
	}
	return provider.DefaultTable().Merge(own), nil
}

// implicitManifest is that of a workspace without tipstaff.yaml.
func implicitManifest(workspace string) (*ws.Manifest, error) {
	models := keyedModels()
	if len(models) > 0 {
		return ws.Implicit(models)
	}
	var keys []string
	for _, v := range provider.Vendors() {
		keys = append(keys, v.Keys[0])
	}
	return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no tipstaff.yaml in %s, and no key of a vendor of models in the environment", workspace).
		WithHint("set one of %s; `tipstaff init` writes a tipstaff.yaml to begin with", strings.Join(keys, ", "))
}

// firstRun is the Service of a workspace in which nothing was ever run. A program
// that is refused there leaves it so: the store, with its keys, is made for the
// first one that passes.
type firstRun struct {
	tipstaff.Service                                  // over no store, until it is there
	trusted          func() error                     // refuses a workspace that is not trusted
	begin            func() (tipstaff.Service, error) // makes it; nil: it was made
}

func (f *firstRun) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	if err := f.made(ctx, tipstaff.ValidateRequest{Start: &req}); err != nil {
		return tipstaff.Started{}, err
	}
	return f.Service.Start(ctx, req)
}

func (f *firstRun) Draft(ctx context.Context, req tipstaff.DraftRequest) (tipstaff.Started, error) {
	if err := f.made(ctx, tipstaff.ValidateRequest{Draft: &req}); err != nil {
		return tipstaff.Started{}, err
	}
	return f.Service.Draft(ctx, req)
}

// made makes the store, if there is none yet and the request would pass.
func (f *firstRun) made(ctx context.Context, req tipstaff.ValidateRequest) error {
	if f.begin == nil {
		return nil
	}
	if err := f.trusted(); err != nil {
		return err
	}
	if _, err := f.Service.Validate(ctx, req); err != nil {
		return err
	}
	svc, err := f.begin()
	if err != nil {
		return err
	}
	f.Service, f.begin = svc, nil
	return nil
}

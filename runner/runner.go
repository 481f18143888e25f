// Package runner implements tipstaff.Service: it turns programs into runs,
// drives them on the flow engine over a store, and answers for them afterwards.
//
// It is the one package that knows the whole, and it is kept thin: what a step
// means is in flow, what a plan means in plan, whether a call may be made in
// tool. The store, the identity of processes and the servers are handed in.
// Start at start.go, then drive.go.
package runner

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Config is what cmd joins together. Runs are made and driven by a runner that has a Store,
// Keys and a Workspace; whatever else is nil or zero means what its line says.
type Config struct {
	Store     flow.Store                          // nil: nothing was ever run; that can be looked at
	Memory    Recollection                        // what that store remembers; nil: nothing
	Workers   Workers                             // what it keeps of workers; nil: nothing
	Keys      tipstaff.RunKeys                    // that new runs publish
	Trusted   func() ([]journal.PublicKey, error) // keys that verify believes; nil: Keys
	Folders   Folders                             // that it keeps of runs; nil: none
	Workspace string                              // the folder that holds tipstaff.yaml
	Folder    string                              // of what this machine keeps of runs; "": nothing
	Files     string                              // the folder of envelope files by run; "": none
	Policy    string                              // a file whose policy takes the place of the manifest's; "": the manifest's
	Skills    string                              // the folder of skills; "": skills in the workspace, if it has one
	Origin    string                              // foreground, daemon …: how runs started here are driven
	// Servers makes the tool servers of one drive; env are the markers that their
	// processes carry. nil: as the manifest declares them, as processes of the run, with our
	// environment to take credentials from.
	Servers func(m *workspace.Manifest, dir string, env []string) map[string]tool.Server
	// Trust refuses to have what the workspace names started or sent, of which starts is the list:
	// its user has not agreed to it. nil: every workspace is trusted.
	Trust func(workspace string, starts []string) error
	State string // the folder of what is kept for a user, where built-in tools have nothing to do; "": there is none
	// Models opens a model; nothing is connected to. prices overrides the table of
	// models. nil: there are no models.
	Models func(c workspace.Model, prices workspace.File) (agent.Model, error)
	// Implicit is the manifest of turns in a workspace without tipstaff.yaml; its error
	// says what is missing. nil: there is none.
	Implicit func() (*workspace.Manifest, error)
	// Watch makes spans of a drive, as the manifest wants it, until end. caller is the
	// span of whoever asked for the run; turn tells of an agent's turns. nil: no spans.
	Watch func(job flow.Job, c workspace.Telemetry, caller string, turn func(agent string) agent.Invocation) (watched flow.Job, end func())
	// Performers do steps and stages in ways beside the built-in ones, by the word that
	// pipelines have for each.
	Performers map[pipeline.Way]Performer
	Git        *delivery.Git // nil: there are no worktrees
	Worktrees  string        // the folder of all of them
	// Self is who drives runs here, Alive whether an owner lives, Markers what its processes
	// carry in their environment, and Sweep ends left-over processes of launches, given by token
	// with their run. nil: as package supervisor has them.
	Self    func(kind, launch string) flow.Owner
	Alive   func(o flow.Owner, heartbeat, now time.Time) bool
	Markers func(run, launch string) []string
	Sweep   func(ctx context.Context, launches map[string]string) (ended int, err error)
	// SweepPrograms ends what is left of workers' programs whose end nobody saw, also
	// where their environment has no marker of a launch any more. nil: as package process does.
	SweepPrograms func(ctx context.Context, programs []tipstaff.ProcessIdentity) (ended int, err error)
	// Stop ends every drive when it is done, with its cause; nil: they run to
	// their end. Abandon ends the grace that once calls are given then.
	Stop    context.Context
	Abandon <-chan struct{}
	// MaxDriving is how many runs are driven at once; further ones wait for their turn.
	// 0: all are.
	MaxDriving int
	Users      int // who may start runs here, as far as that is known: each has a share of the places; 0: unknown
	// Pool is the part of the store by which servers share its runs, of which this process is
	// one if it Serves; nil: no other process drives what is started here. Scheduler decides
	// where and when they are driven; nil: the servers do.
	Pool      Pool
	Serves    bool
	Scheduler Scheduler
	Grace     time.Duration    // that once calls are given; 0: 10 s
	Now       func() time.Time // nil: time.Now
	// Launcher starts processes that drive a run of their own, by the command line that
	// Exec gives; Launches keeps what is known of them. nil: there are none. MaxRuns is how
	// many there may be; 0: DefaultMaxRuns.
	Launcher  tipstaff.Launcher
	Exec      func(run string) []string
	Launches  Launches
	MaxRuns   int
	Launch    string   // the token with which this process was launched, to drive one run; "": it was not
	AllowDirs []string // folders beside the workspace that requests may name
	Pipelines []string // folders of documents that are the operator's word, beside those of the manifest
}

// Runner is the Service of one store.
type Runner struct {
	Config

	mu     sync.Mutex
	drives map[string]*active
	silent map[string]bool // holders of leases that were not renewed for too long
	ended  endings
	hosts  *hostPool
	queue  *queue
	parked chan struct{} // one place: a drive of this process has ended

	queues    queueView
	looks     looks
	projector projector

	unable unable

	broken  []abandoned // runs to hand over when the store answers
	counted drives
	seen    atomic.Pointer[Standing]

	transient  transientHub
	performers performers
}

var _ tipstaff.Service = (*Runner)(nil)

// New returns a runner. It drives nothing by itself.
func New(c Config) *Runner {
	c.setDefaults()
	all := withBuiltin(c.Performers)
	c.Store = performingStore{c.Store, all}
	r := &Runner{Config: c, performers: all, drives: map[string]*active{}, queue: newQueue(c.MaxDriving, c.Users)}
	r.hosts, r.parked = newHostPool(c.Store, r.redactor), make(chan struct{}, 1)
	if c.Grace > 0 {
		r.hosts.grace = c.Grace
	}
	return r
}

// setDefaults puts in what is usual in the place of what is nil.
func (c *Config) setDefaults() {
	if c.Store == nil {
		c.Store = nothing{}
	}
	if c.Memory == nil {
		c.Memory = blank{}
	}
	if c.Workers == nil {
		c.Workers = noWorkers{}
	}
	if own := c.Keys; c.Trusted == nil && own != (tipstaff.RunKeys{}) {
		c.Trusted = func() ([]journal.PublicKey, error) { return []journal.PublicKey{own.User, own.Executor}, nil }
	}
	if c.Servers == nil {
		c.Servers = serversBeside(c.State, c.Skills, c.Policy)
	}
	if c.Self == nil {
		c.Self = supervisor.Self
	}
	if c.Alive == nil {
		c.Alive = supervisor.Alive
	}
	if c.Markers == nil {
		c.Markers = supervisor.Markers
	}
	if c.Sweep == nil {
		c.Sweep = supervisor.Sweep
	}
	if c.SweepPrograms == nil {
		c.SweepPrograms = process.Sweep
	}
	if c.Stop == nil {
		c.Stop = context.Background()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Origin == "" {
		c.Origin = "foreground"
	}
}

// serversBeside starts servers as processes of the run. No run writes these files and
// folders, besides what every workspace has.
func serversBeside(state string, paths ...string) func(*workspace.Manifest, string, []string) map[string]tool.Server {
	protected := absolutePaths(paths...)
	return func(m *workspace.Manifest, dir string, markers []string) map[string]tool.Server {
		return tool.Servers(m, tool.Launch{Workspace: dir, Markers: markers, Environ: os.Environ(), Spawn: supervisor.Spawn, Protected: protected, State: state})
	}
}

// absolutePaths are those of the paths that are given.
func absolutePaths(paths ...string) (list []string) {
	for _, p := range paths {
		if path, err := filepath.Abs(p); p != "" && err == nil {
			list = append(list, path)
		}
	}
	return list
}

// principal is who acts, as signed records name them; "" is the local user with
// their own key.
func principal(ctx context.Context) string {
	c := tipstaff.CallerFrom(ctx)
	if c.Surface == "cli" {
		return ""
	}
	return c.Principal
}

// client is what a caller uses, as records name it.
func client(ctx context.Context) string {
	name := []rune(tipstaff.Printable(tipstaff.CallerFrom(ctx).Client))
	return string(name[:min(len(name), maxClient)])
}

// signer is who signs a user's act: the user's own key on the command line,
// elsewhere the executor on their behalf.
func signer(ctx context.Context) string {
	if principal(ctx) == "" {
		return journal.User
	}
	return journal.Executor
}

func userOf(ctx context.Context) string { return cmp.Or(tipstaff.CallerFrom(ctx).User, "local") }

// actor is who asks, as records name them.
func actor(ctx context.Context) string {
	return cmp.Or(tipstaff.CallerFrom(ctx).Principal, "local:cli")
}

// localUser is the person at this terminal.
func localUser(ctx context.Context) context.Context {
	return tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
}

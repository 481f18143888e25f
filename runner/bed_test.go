package runner_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

const manifest = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools:
      read_file: {effect: read}
      write_file: {effect: idempotent}
      sleep: {effect: read}
      exec: {effect: once}
      json_query: {effect: read}
`

// bed is a workspace with a runner over a real store. Owners are dead or alive
// as the test says.
type bed struct {
	*runner.Runner
	t        *testing.T
	dir      string
	store    *sqlite.Store
	stop     context.CancelCauseFunc
	dead     map[string]bool // launches whose process is gone
	gone     sync.Map        // the same, of those that end while others look
	swept    []string
	sweeping sync.Mutex
	ahead    atomic.Int64 // how far the clock is ahead

	forged  map[string]bool  // runs that somebody has changed
	checked map[string]int64 // runs that were verified, and at which record

	says func(agent.Request) agent.Response // what models answer
	// implicit are the models of a workspace without a manifest; nil: there are none.
	implicit []workspace.StarterModel
	ask      tipstaff.Ask // who attends the run that is started next
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, dir: t.TempDir(), dead: map[string]bool{}, forged: map[string]bool{}, checked: map[string]int64{}}
	b.write("tipstaff.yaml", manifest)
	b.open()
	t.Cleanup(func() {
		b.Drain()
		b.t = t
		b.allConform()
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// beside is another runner over the same store, in the same workspace.
func (b *bed) beside(config runner.Config) *bed {
	return &bed{Runner: runner.New(config), t: b.t, dir: b.dir, store: b.store, dead: b.dead, forged: b.forged, checked: b.checked}
}

// allConform verifies every run that the test has made, whatever it was about.
func (b *bed) allConform() {
	rows, err := b.store.Runs(cli(), flow.Query{})
	b.check(err)
	for _, row := range rows {
		if run, err := tipstaff.ParseID(row.ID); err == nil && !b.forged[row.ID] && b.checked[row.ID] != row.Head {
			b.verified(run)
		}
	}
}

func (b *bed) open() {
	now := func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	alive := func(o flow.Owner, _ time.Time) bool {
		_, gone := b.gone.Load(o.Launch)
		return !gone && !b.dead[o.Launch]
	}
	o := &sqlite.Options{UserKey: true}
	o.Alive, o.Now = alive, now
	store, err := sqlite.Open(filepath.Join(b.dir, ".tipstaff"), o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	keys := store.Keys()
	b.store, b.stop = store, cancel
	b.Runner = runner.New(runner.Config{
		Store: store, Workers: store, Keys: keys, Workspace: b.dir,
		Trusted: func() ([]journal.PublicKey, error) { return store.PublicKeys(context.Background()) },
		Folder:  filepath.Join(b.dir, ".tipstaff"),
		Files:   filepath.Join(b.dir, ".tipstaff", "journal"),
		Servers: func(m *workspace.Manifest, dir string, env []string) map[string]tool.Server {
			c, ok := m.Server("builtin")
			if !ok {
				return nil
			}
			return map[string]tool.Server{"builtin": tool.Builtin(builtin.Options{Workspace: dir, Roots: c.Roots, Programs: c.Programs, Markers: env})}
		},
		Models: func(workspace.Model, workspace.File) (agent.Model, error) { return b, nil },
		Implicit: func() (*workspace.Manifest, error) {
			if b.implicit == nil {
				return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no key")
			}
			return workspace.Implicit(b.implicit)
		},
		Self: func(kind, launch string) flow.Owner {
			return flow.Owner{Kind: kind, Host: "here", Pid: os.Getpid(), Launch: launch}
		},
		Alive: func(o flow.Owner, h, _ time.Time) bool { return alive(o, h) },
		Markers: func(run, launch string) []string {
			return []string{"TIPSTAFF_RUN_ID=" + run, "TIPSTAFF_LAUNCH=" + launch}
		},
		Sweep: func(_ context.Context, launches map[string]string) (int, error) {
			b.sweeping.Lock()
			defer b.sweeping.Unlock()
			b.swept = slices.AppendSeq(b.swept, maps.Values(launches))
			return 0, nil
		},
		Stop: ctx,
		Now:  now,
	})
}

// The bed is the model of every agent in it.

func (b *bed) Name() string { return "model-of-the-bed" }

func (b *bed) Caps() agent.Caps {
	return agent.Caps{ContextWindow: 100_000, MaxOutput: 8_000, Price: &agent.Price{Input: 1_000_000_000, Output: 5_000_000_000}}
}

func (b *bed) Stream(_ context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	said := b.says(r)
	if said.Usage == nil {
		said.Usage = &agent.Usage{InputTokens: 100, OutputTokens: 10, TotalTokens: 110}
	}
	if said.Reason == "" {
		said.Reason = agent.ReasonStop
	}
	emit(agent.Delta{Channel: agent.ChannelAnswer, Text: said.Text})
	return said, nil
}

func (b *bed) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) read(name string) string {
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(text)
}

// cli is the local user.
func cli() context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
}

func (b *bed) start(plan string, with ...func(*tipstaff.StartRequest)) tipstaff.Started {
	b.t.Helper()
	req := tipstaff.StartRequest{Name: "plan.yaml", Program: []byte("kind: plan\nversion: 1\n" + plan)}
	for _, f := range with {
		f(&req)
	}
	s, err := b.Start(cli(), req)
	if err != nil {
		b.t.Fatalf("start: %v %+v", err, err)
	}
	b.attend(s.Run)
	return s
}

// attended has the gates of the run that is started put to ask.
func (b *bed) attended(ask tipstaff.Ask) func(*tipstaff.StartRequest) {
	b.ask = ask
	return func(r *tipstaff.StartRequest) { r.Attended = true }
}

// attend puts the gates of a run to whoever attends it, if somebody does.
func (b *bed) attend(run tipstaff.ID) {
	ask := b.ask
	b.ask = nil
	if ask == nil {
		return
	}
	ctx, cancel := context.WithCancel(cli())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tipstaff.Attend(ctx, b.Runner, run, ask)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// wait is for the end of a drive.
func (b *bed) wait(run tipstaff.ID) tipstaff.Driven {
	b.t.Helper()
	d, err := b.Wait(cli(), run)
	b.check(err)
	return d
}

// run drives a plan to where it rests.
func (b *bed) run(plan string, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	s := b.start(plan, with...)
	return s.Run, b.wait(s.Run)
}

func (b *bed) resume(run tipstaff.ID) tipstaff.Driven {
	b.t.Helper()
	s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	if err != nil {
		b.t.Fatalf("resume: %v", err)
	}
	return b.wait(s.Run)
}

func (b *bed) get(run tipstaff.ID) tipstaff.Run {
	b.t.Helper()
	r, err := b.Get(cli(), run)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bed) decide(run tipstaff.ID, gate, action string, with ...func(*tipstaff.DecideRequest)) (tipstaff.Decided, error) {
	req := tipstaff.DecideRequest{Run: run, Gate: gate, Action: action}
	for _, f := range with {
		f(&req)
	}
	return b.Decide(cli(), req)
}

func (b *bed) verified(run tipstaff.ID) tipstaff.Report {
	b.t.Helper()
	rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true})
	if err != nil {
		b.t.Fatal(err)
	}
	if !rep.Integrity.OK || !rep.Conformance.OK {
		b.t.Errorf("integrity %+v\nconformance %+v", rep.Integrity.Problems, rep.Conformance.Problems)
	}
	b.checked[run.String()] = rep.Seq
	return rep
}

func (b *bed) events(run tipstaff.ID) []tipstaff.Event {
	b.t.Helper()
	var all []tipstaff.Event
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (b *bed) kinds(run tipstaff.ID) (kinds []string) {
	for _, e := range b.events(run) {
		kinds = append(kinds, string(e.Kind))
	}
	return kinds
}

func wantCode(t *testing.T, err error, code tipstaff.Code) {
	t.Helper()
	if tipstaff.CodeOf(err) != code {
		t.Errorf("the error is %v (%v), want %s", tipstaff.CodeOf(err), err, code)
	}
}

func answer(v string) func(*tipstaff.DecideRequest) {
	return func(r *tipstaff.DecideRequest) { r.Answer = json.RawMessage(v) }
}

// choosing answers every gate with an action.
func choosing(action string) tipstaff.Ask {
	return func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) {
		return tipstaff.Choice{Action: action}, true
	}
}

// answering answers every gate that offers it.
func answering(answer string) tipstaff.Ask {
	return func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) {
		return tipstaff.Choice{Action: "answer", Answer: json.RawMessage(answer)}, true
	}
}

package runner

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"strconv"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// drive is one drive of a run. A correction may put another program in force while it
// goes on: then everything that was made for the former one is made anew.
type drive struct {
	r   *Runner
	run string
	a   *active
	who person

	mu  sync.Mutex
	env *Environment
}

// Environment is what is made for one program of a drive.
type Environment struct {
	Run      string
	User     string              // whose run it is
	Base     string              // the run that it was forked from; "": none
	Manifest *workspace.Manifest // as it stands; nil: there is none
	Frozen   *workspace.Manifest // as the run has frozen it
	Markers  []string            // that its processes carry in their environment
	Redact   func([]byte) []byte // takes credentials out

	r       *Runner
	who     person
	program program

	protection *workspace.Protection // of the manifest as it stands

	manager *tool.Manager
	acts    map[string]flow.Activity
}

// environ reads manifest and lock as they are now: a revised program was checked
// with them.
func (d *drive) environ(p program) (*Environment, error) {
	r, c := d.r, p.shared()
	manifest, err := r.manifest()
	if err == nil && manifest == nil && c.gate.Manifest != nil && c.gate.Manifest.Implicit && r.Implicit != nil {
		manifest, err = r.implicit()
	}
	if err != nil {
		return nil, err
	}
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	if err := r.trusts(manifest, lock); err != nil && !d.who.ending && !r.cancelAsked(d.run) {
		return nil, err
	}
	manifest = manifest.Linking(c.text.files().Prepare.Link)
	protection := r.protection(manifest)
	manifest = r.narrowed(manifest, c).ForRun(c.gate.Manifest)
	markers := r.Markers(d.run, d.a.launch)
	manager := tool.NewManager(manifest, r.Servers(manifest, r.Workspace, markers))
	manager.Hold(lock)
	manager.Keep = r.Store.PutBlob
	manager.Conceal(c.gate.Manifest.Secrets(os.Environ())) // of workers as they were configured
	manager.Conceal(manifest.Secrets(os.Environ()))
	env := &Environment{Run: d.run, User: c.draft.User, Manifest: manifest, Frozen: c.gate.Manifest, Markers: markers, Redact: manager.Redact,
		r: r, who: d.who, program: p, protection: protection, manager: manager, acts: pipeline.Activities()}
	if c.draft.ForkOf != nil {
		env.Base = c.draft.ForkOf.Run
	}
	r.draftActs(c, env.acts)
	maps.Copy(env.acts, env.deliveryActs())
	for _, by := range r.performers {
		maps.Copy(env.acts, by.Activities(env))
	}
	return env, nil
}

// Policy is the one in force now: a rule that was added since the run began counts, too.
func (e *Environment) Policy() (*policy.Policy, error) {
	m, err := e.r.manifest()
	if err != nil {
		return nil, err
	}
	return m.Rules(), nil
}

// ProtectedIn says what a worker in a directory does not change: the workspace, or a worktree
// in its place.
func (e *Environment) ProtectedIn(dir string) func(path string) (why string, protected bool) {
	if e.InWorktree() {
		return e.protection.Copy(dir).Protected
	}
	return e.protection.Protected
}

// protection is what no run of the workspace writes.
func (r *Runner) protection(m *workspace.Manifest) *workspace.Protection {
	return workspace.Protect(m, workspace.Around{Dir: r.Workspace, State: r.State, Named: absolutePaths(r.Skills, r.Config.Policy)})
}

// redactor takes the credentials of the manifest as it is now out of what is recorded
// beside a drive.
func (r *Runner) redactor() (func([]byte) []byte, error) {
	m, err := r.manifest()
	if err != nil {
		return nil, err
	}
	manager := tool.NewManager(m, r.Servers(m, r.Workspace, nil))
	defer manager.Close() // of connections there are none
	manager.Conceal(m.Secrets(os.Environ()))
	return manager.Redact, nil
}

// now is what the drive works with at present.
func (d *drive) now() *Environment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.env
}

func (d *drive) program() program { return d.now().program }

// close ends the servers of the present program. When the grace of a stop is over, what
// they still run is not waited for but killed.
func (d *drive) close() {
	manager, closed := d.now().manager, make(chan struct{})
	go func() {
		manager.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-d.r.Abandon:
	}
	// No process outlives its run, not even one that made its own session.
	if manager.Spawned() {
		_, _ = d.r.Sweep(context.Background(), map[string]string{d.a.launch: d.run}) // what is left then hangs in the kernel
	}
}

// job is the drive's job, whatever program is in force.
func (d *drive) job() flow.Job {
	p := d.program()
	c := p.shared()
	job := flow.Job{
		Run: d.run, Root: rootOf(p), Owner: d.r.Self(d.r.Origin, d.a.launch), Input: c.inputs, Limits: c.limits, Holds: c.draft.Holds(), Deadline: c.deadline(),
		Flow:   func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) { return flowOf(d.program())(fc, in) },
		Acts:   map[string]flow.Activity{},
		Redact: func(b []byte) []byte { return d.now().manager.Redact(b) },
		Keep:   func(text []byte) (string, error) { return d.r.Store.PutBlob(context.Background(), text) },
		Finish: func(out flow.Outcome) ([]flow.Draft, error) {
			d.close() // they end before the run does
			return d.r.finish(d.program(), out)
		},
		Next:     d.next,
		Tell:     func(told flow.Draft) { d.r.transient.publish(d.run, told, d.r.Now()) },
		Appended: func(done flow.Draft) { d.r.transient.appended(d.run, done) },
		Abandon:  d.r.Abandon,
	}
	if _, ok := p.(*pipelineProgram); ok {
		job.BoundName = tipstaff.BoundField
	}
	for name := range d.now().acts {
		job.Acts[name] = d.activity(name)
	}
	return job
}

// activity is that of the present program.
func (d *drive) activity(name string) flow.Activity {
	act := func() flow.Activity { return d.now().acts[name] }
	bound := flow.Activity{
		Check: func(ctx context.Context, a flow.Attempt) error {
			if check := act().Check; check != nil {
				return check(ctx, a)
			}
			return nil
		},
		Wants: func(a flow.Attempt, left func(string) (int64, bool)) flow.Use {
			if wants := act().Wants; wants != nil {
				return wants(a, left)
			}
			return nil
		},
		Run:     func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return act().Run(ctx, a) },
		Stops:   func(a flow.Attempt) bool { stops := act().Stops; return stops != nil && stops(a) },
		Awaited: func(a flow.Attempt) bool { awaited := act().Awaited; return awaited != nil && awaited(a) },
		Prompt:  func(a flow.Attempt) bool { prompt := act().Prompt; return prompt != nil && prompt(a) },
	}
	if act().Recall != nil { // as that of every program is
		bound.Recall = func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return act().Recall(ctx, a) }
	}
	return bound
}

// next is how the run goes on after a segment: what follows from the records so
// far, with what the next program needs.
func (d *drive) next(state json.RawMessage, cut bool) (flow.Segment, error) {
	ctx := context.Background()
	p := d.program()
	events, err := d.r.segmentEvents(ctx, d.run)
	if err != nil {
		return flow.Segment{}, err
	}
	t := &transition{src: d.r.Store, events: events, put: func(data []byte) (string, error) { return d.r.Store.PutBlob(ctx, data) }}
	if err := t.follow(ctx, p, state, cut); err != nil {
		return flow.Segment{}, err
	}
	next, err := openSegment(ctx, d.r.Store, d.run, p.shared().draft, &t.to)
	if err != nil {
		return flow.Segment{}, err
	}
	env, err := d.environ(next)
	if err != nil {
		return flow.Segment{}, err
	}
	d.close()
	d.mu.Lock()
	d.env = env
	d.mu.Unlock()
	return t.segment(next), nil
}

// watched has a drive told of in spans, in the trace of whoever asked for the run.
func (d *drive) watched(job flow.Job) (watched flow.Job, end func()) {
	if d.r.Watch == nil {
		return job, func() {}
	}
	config := workspace.Telemetry{}
	if m := d.now().Manifest; m != nil {
		config = m.Telemetry
	}
	return d.r.Watch(job, config, d.program().shared().draft.Trace, d.invocation)
}

// invocation is what spans tell of the turns of an agent.
func (d *drive) invocation(name string) (of agent.Invocation) {
	env := d.now()
	c := env.program.shared()
	if t := c.text.turn(); t != nil { // else each has a session of its own
		of.Conversation = t.Session
	}
	if m, ok := env.Manifest.Model(c.agents.settled[name].Model); ok {
		of.Provider = m.Vendor()
		if u, err := url.Parse(m.BaseURL); err == nil && u.Hostname() != "" { // else at the vendor's own address, or one that is not written down
			of.Host = u.Hostname()
			if of.Port, err = strconv.Atoi(u.Port()); err != nil {
				of.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
			}
		}
	}
	return of
}

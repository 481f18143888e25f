package runner

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"sync"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// course is what one drive of a run works with. A correction may put another
// program in force while the drive goes on: then everything that was made for the
// former one is made anew.
type course struct {
	r   *Runner
	run string
	a   *active
	who person

	mu  sync.Mutex
	kit *kit
}

// kit is what is made for one program.
type kit struct {
	program  *program
	manifest *workspace.Manifest // as it stands; nil: there is none
	manager  *tool.Manager
	acts     map[string]flow.Activity
}

func (r *Runner) newCourse(run string, p *program, a *active, who person) (*course, error) {
	c := &course{r: r, run: run, a: a, who: who}
	k, err := c.newKit(p)
	c.kit = k
	return c, err
}

// newKit reads manifest and lock as they are now: a revised program was checked
// with them.
func (c *course) newKit(p *program) (*kit, error) {
	r := c.r
	manifest, err := r.manifest()
	if err != nil {
		return nil, err
	}
	manifest = r.narrowed(manifest, p)
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	manager := tool.NewManager(manifest, r.Servers(manifest, r.Workspace, r.Markers(c.run, c.a.launch)))
	manager.Hold(lock)
	manager.Conceal(manifest.Secrets(os.Environ()))
	k := &kit{program: p, manifest: manifest, manager: manager,
		acts: map[string]flow.Activity{tool.ActivityName: p.activity(manager), dispatchName: r.dispatch(p, c.who)}}
	k.acts[remoteActivity] = r.hosts.activity(p.draft.owners(), &p.exhibits)
	r.draftActs(p, k.acts)
	r.agentActs(p, manifest, k.acts)
	if p.pipe != nil {
		maps.Copy(k.acts, pipeline.Activities())
	}
	return k, nil
}

// now is what the drive works with at present.
func (c *course) now() *kit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kit
}

func (c *course) program() *program { return c.now().program }

// close ends the servers of the present program.
func (c *course) close() { c.r.closeServers(c.run, c.a, c.now().manager) }

// job is the drive's job, whatever program is in force.
func (c *course) job() flow.Job {
	p := c.program()
	job := flow.Job{
		Run: c.run, Root: p.chapter.root(), Owner: c.r.Self(c.r.Origin, c.a.launch), Input: p.inputs, Limits: p.limits, Deadline: p.deadline(),
		Flow:   func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) { return c.program().flow(fc, in) },
		Acts:   map[string]flow.Activity{},
		Redact: func(b []byte) []byte { return c.now().manager.Redact(b) },
		Finish: func(out flow.Outcome) ([]flow.Draft, error) {
			c.close() // they end before the run does
			return c.r.finishBeside(c.program(), out)
		},
		Next:     c.next,
		Tell:     func(d flow.Draft) { c.r.talk.tell(c.run, d, c.r.Now()) },
		Appended: func(d flow.Draft) { c.r.talk.appended(c.run, d) },
		Abandon:  c.r.Abandon,
	}
	for name := range c.now().acts {
		job.Acts[name] = c.activity(name)
	}
	return job
}

// activity is that of the present program.
func (c *course) activity(name string) flow.Activity {
	act := func() flow.Activity { return c.now().acts[name] }
	return flow.Activity{
		Check: func(ctx context.Context, a flow.Attempt) error {
			if check := act().Check; check != nil {
				return check(ctx, a)
			}
			return nil
		},
		Run:    func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return act().Run(ctx, a) },
		Stops:  func(a flow.Attempt) bool { stops := act().Stops; return stops != nil && stops(a) },
		Prompt: func(a flow.Attempt) bool { prompt := act().Prompt; return prompt != nil && prompt(a) },
	}
}

// next is how the run goes on after a segment: what follows from the records so
// far, with what the next program needs.
func (c *course) next(state json.RawMessage, cut bool) (flow.Segment, error) {
	ctx := context.Background()
	p := c.program()
	events, err := c.r.segmentEvents(ctx, c.run)
	if err != nil {
		return flow.Segment{}, err
	}
	put := func(data []byte) (string, error) { return c.r.Store.PutBlob(ctx, data) }
	t, err := p.passage(ctx, c.r.Store, put, events, state, cut)
	if err != nil {
		return flow.Segment{}, err
	}
	next, err := openChapter(ctx, c.r.Store, p, &t.chapter)
	if err != nil {
		return flow.Segment{}, err
	}
	k, err := c.newKit(next)
	if err != nil {
		return flow.Segment{}, err
	}
	c.close()
	c.mu.Lock()
	c.kit = k
	c.mu.Unlock()
	return t.segment(next), nil
}

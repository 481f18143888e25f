package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// active is a run that this process drives.
type active struct {
	launch string
	done   chan struct{}
}

// linger is how long a run waits for a person at the terminal before it parks.
const linger = 10 * time.Minute

// begin drives a run in this process until it ends, parks or is stopped. The
// channel receives once.
func (r *Runner) begin(run string, p program, who person) (<-chan tipstaff.Driven, error) {
	a := &active{launch: tipstaff.NewID(r.Now()).String(), done: make(chan struct{})}
	r.mu.Lock()
	_, twice := r.drives[run]
	if !twice {
		r.drives[run] = a
	}
	r.mu.Unlock()
	if twice {
		return nil, flow.ErrBusy
	}
	result := make(chan tipstaff.Driven, 1)
	turn := r.turnFor(run, p)
	go func() {
		driven := r.driveInTurn(run, p, a, who, turn)
		r.mu.Lock()
		delete(r.drives, run)
		r.mu.Unlock()
		r.live.over(run)
		close(a.done)
		result <- driven
	}()
	return result, nil
}

func (r *Runner) driving(run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.drives[run]
	return ok
}

// MarkersOf is what to add to the environment of a process that works for a run, so
// that it is known and ended as one of the run's. nil: this process does not drive it.
func (r *Runner) MarkersOf(run tipstaff.ID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.drives[run.String()]
	if a == nil || r.Markers == nil {
		return nil
	}
	return r.Markers(run.String(), a.launch)
}

// Wait returns when no drive of this process is under way.
func (r *Runner) Wait() {
	for {
		r.mu.Lock()
		var a *active
		for _, a = range r.drives {
			break
		}
		r.mu.Unlock()
		if a == nil {
			return
		}
		<-a.done
	}
}

// drive takes the run as far as it goes. A run that waits for timers alone is
// driven on when they are due.
func (r *Runner) drive(run string, p program, a *active, who person) tipstaff.Driven {
	for {
		now, out, err := r.driveOnce(run, p, a, who)
		if err != nil {
			return undriven(run, err)
		}
		p = now
		if out.Terminal() && p.shared().hasChildren() {
			r.endChildren(run)
		}
		if out.Reason == string(tipstaff.ReplayMismatch) {
			if t, err := readTrace(context.WithoutCancel(r.Stop), r.Store, run, 0); err == nil {
				t.tellDifference(out.Err)
			}
		}
		if out.Status != flow.ParkedRun || len(out.Gates) > 0 || out.WakeAt.IsZero() {
			return p.shared().describe(out)
		}
		select {
		case <-r.Stop.Done():
			return p.shared().describe(out)
		case <-time.After(time.Until(out.WakeAt)):
		}
	}
}

// driveOnce drives the run in one go. Corrections may leave it with another
// program than it was begun with.
func (r *Runner) driveOnce(run string, p program, a *active, who person) (program, flow.Outcome, error) {
	d := &drive{r: r, run: run, a: a, who: who}
	var err error
	if d.env, err = d.environ(p); err != nil {
		return p, flow.Outcome{}, err
	}
	defer d.close()
	asker := r.newAsker(run, who)
	defer asker.stop()
	job := d.job()
	if who.present() {
		job.Linger, job.Hopeless = linger, asker.hopeless
	}
	job, end := d.watched(job)
	defer end()
	defer r.hosts.leaveRun(run)
	out, err := flow.New(&remembering{Log: heard{r.Store, r.hosts}, program: d.program}, &flow.Options{Now: r.Now, Grace: r.Grace}).Drive(r.Stop, job)
	return d.program(), ended(out), err
}

// closeServers ends the drive's servers. When the grace of a stop is over, what
// they still run is not waited for but killed.
func (r *Runner) closeServers(run string, a *active, manager *tool.Manager) {
	closed := make(chan struct{})
	go func() {
		manager.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-r.Abandon:
	}
	r.sweepOwn(run, a, manager)
}

// sweepOwn ends what calls of this drive have left behind: no process outlives
// its run, not even one that made its own session.
func (r *Runner) sweepOwn(run string, a *active, manager *tool.Manager) {
	if r.Sweep != nil && manager.Spawned() {
		_, _ = r.Sweep(context.Background(), map[string]string{a.launch: run}) // what is left then hangs in the kernel
	}
}

// toolActivity makes tool calls. What the run froze can only be tightened by what
// holds now: a call must pass both. One that the frozen gate refuses is asked for all
// the same, so that the refusal is recorded as its outcome.
func toolActivity(manager *tool.Manager, gate *tool.Gate) flow.Activity {
	act := manager.Activity(gate)
	live := act.Check
	act.Check = func(ctx context.Context, a flow.Attempt) error {
		if refusal, ok := a.Local.(*flow.Error); ok && refusal != nil {
			return refusal
		}
		return live(ctx, a)
	}
	return act
}

func undriven(run string, err error) tipstaff.Driven {
	id, _ := tipstaff.ParseID(run)
	err = explain(err, id)
	return tipstaff.Driven{Outcome: string(tipstaff.Interrupted), Reason: string(tipstaff.CodeOf(err)), Message: err.Error(), Err: err}
}

// describe tells how a drive ended in the words of surfaces.
func describe(out flow.Outcome) tipstaff.Driven {
	d := tipstaff.Driven{Outcome: string(out.Status), Reason: out.Reason, Gates: out.Gates, WakeAt: out.WakeAt, State: tipstaff.Executing}
	switch out.Status {
	case flow.Completed:
		d.State = tipstaff.Completed
		var res plan.Result
		if json.Unmarshal(out.Value, &res) == nil {
			d.Outcome = res.Outcome
		}
	case flow.Failed:
		d.State = tipstaff.Failed
		f := failureOf(out.Err)
		d.Reason, d.Code, d.Bound, d.Message = f.Reason, f.Code, f.Bound, f.Message
	case flow.Cancelled:
		d.State = tipstaff.Cancelled
	case flow.Interrupted:
		if out.Err != nil {
			d.Message = out.Err.Error()
			d.Err = explain(out.Err, tipstaff.ID{})
			if code := tipstaff.CodeOf(d.Err); code == tipstaff.StoreLost || code == tipstaff.Integrity {
				d.Reason = string(code)
			}
		}
	}
	return d
}

// describe also tells where a run that has not ended stands.
func (c *common) describe(out flow.Outcome) tipstaff.Driven {
	d := describe(out)
	if !out.Terminal() {
		d.State = c.segment.state()
	}
	return d
}

// failureOf is why a flow failed, in the closed terms of the lifecycle.
func failureOf(err error) *plan.Failure {
	var f *plan.Failure
	if errors.As(err, &f) {
		return f
	}
	var e *pipeline.Ending
	if errors.As(err, &e) {
		return endingFailure(e)
	}
	return &plan.Failure{Reason: plan.ReasonInternal, Message: fmt.Sprint(err)}
}

// person is who, if anybody, answers gates while a run is driven.
type person struct {
	yes    bool
	ask    tipstaff.Ask
	parent string // the run that accepts what is drafted for it; "": none
}

func (p person) present() bool { return p.yes || p.ask != nil || p.parent != "" }

// answers is how a gate is answered without asking. A parent accepts what is to be
// confirmed; --yes does too, approves a plan's own question that offers that, and
// does nothing else.
func (p person) answers(g tipstaff.Gate) (action, via string, ok bool) {
	confirms := g.Kind == tipstaff.Confirmation && slices.Contains(g.Actions, actionAccept)
	switch {
	case confirms && p.parent != "":
		return actionAccept, viaParent, true
	case confirms && p.yes:
		return actionAccept, viaYes, true
	case p.yes && g.Kind == tipstaff.Question && slices.Contains(g.Actions, "approve"):
		return "approve", viaYes, true
	}
	return "", "", false
}

// viaYes is how a decision is recorded that was made beforehand.
const viaYes = "--yes"

// acting is who a decision is by.
func (p person) acting(ctx context.Context, via string) context.Context {
	if via == viaParent {
		return tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "parent", User: "local", Principal: "run:" + p.parent})
	}
	return localUser(ctx)
}

// canAnswer reports whether driving a run that waits for these gates could come
// to anything.
func (p person) canAnswer(gates []tipstaff.Gate) bool {
	return p.ask != nil || slices.ContainsFunc(gates, func(g tipstaff.Gate) bool { _, _, ok := p.answers(g); return ok })
}

// asker gives open gates to a person, one at a time, and records the answers.
type asker struct {
	r      *Runner
	run    string
	who    person
	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	declined map[string]bool
}

func (r *Runner) newAsker(run string, who person) *asker {
	ctx, cancel := context.WithCancel(context.Background())
	a := &asker{r: r, run: run, who: who, cancel: cancel, ended: make(chan struct{}), declined: map[string]bool{}}
	if !who.present() {
		close(a.ended)
		return a
	}
	go a.loop(ctx)
	return a
}

func (a *asker) stop() {
	a.cancel()
	<-a.ended
}

// hopeless reports that nobody will answer any of these gates. Only a gate that
// was shown and declined counts: one that is new may still be answered.
func (a *asker) hopeless(gates []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range gates {
		if !a.declined[id] {
			return false
		}
	}
	return len(gates) > 0
}

func (a *asker) decline(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.declined[id] = true
}

func (a *asker) seen(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.declined[id]
}

func (a *asker) loop(ctx context.Context) {
	defer close(a.ended)
	changed, stop := a.r.Store.Follow(a.run)
	defer stop()
	for ctx.Err() == nil && a.r.Stop.Err() == nil {
		rows, err := a.r.Store.Gates(ctx, flow.GateQuery{Run: a.run, Open: true})
		if err == nil {
			for _, row := range rows {
				if !a.seen(row.ID) {
					a.answer(ctx, row)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// answer puts one gate to the person, unless --yes answers it.
func (a *asker) answer(ctx context.Context, row flow.GateRow) {
	g := gateOf(row)
	choice, via, ok := tipstaff.Choice{}, "terminal", false
	if action, how, yes := a.who.answers(g); yes {
		choice, via, ok = tipstaff.Choice{Action: action}, how, true
	} else if a.who.ask != nil {
		ask, cancel := a.whileOpen(ctx, g)
		choice, ok = a.who.ask(ask, g)
		cancel()
		via = cmp.Or(choice.Via, via)
	}
	if !ok {
		if a.r.Stop.Err() == nil { // else the question was withdrawn: the drive is being broken off
			a.decline(row.ID)
		}
		return
	}
	run, _ := tipstaff.ParseID(a.run)
	_, err := a.r.Decide(a.who.acting(ctx, via), tipstaff.DecideRequest{Run: run, Gate: row.ID, Action: choice.Action, Answer: choice.Answer,
		Feedback: choice.Feedback, Note: choice.Note, Via: via})
	if err != nil && tipstaff.CodeOf(err) != tipstaff.DecisionConflict {
		a.decline(row.ID)
	}
}

// whileOpen ends when somebody else closes the gate; its cause says who has.
func (a *asker) whileOpen(ctx context.Context, g tipstaff.Gate) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	changed, stop := a.r.Store.Follow(a.run)
	go func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			rows, err := a.r.Store.Gates(ctx, flow.GateQuery{Run: a.run, ID: g.ID.String()})
			if err == nil && len(rows) == 1 && rows[0].Decided > 0 {
				cancel(answeredBy(rows[0]))
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// answeredBy is who has closed a gate, and how.
func answeredBy(row flow.GateRow) error {
	b, err := readResolution(row.Decision)
	if err != nil {
		return err
	}
	return &agent.AnsweredElsewhere{By: cmp.Or(b.OnBehalfOf, "local:cli"), Action: b.Action}
}

// localUser is the person at this terminal.
func localUser(ctx context.Context) context.Context {
	return tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
}

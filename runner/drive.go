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
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
)

// active is a run that this process drives.
type active struct {
	launch string
	child  bool            // another run has dispatched it
	shared bool            // any server may drive it on, when it is time to
	leased bool            // its lease was seen to be this process's; guarded by the runner
	ctx    context.Context // of the drive; stop ends it
	stop   context.CancelCauseFunc
	done   chan struct{}   // closed when it is over
	driven tipstaff.Driven // how it ended, from then on

	mu       sync.Mutex
	deferred map[string]bool // gates that nobody is going to answer now
	lacks    string          // what this machine does not have of what the run needs: others are to drive it on
	waits    []string        // children that it was told to wait for, and does not look at any more
	again    bool            // somebody wants the run to go on, who may have come when it had parked
}

// linger is how long an attended run waits for answers before it parks.
const linger = 10 * time.Minute

// begin drives a run in this process until it ends, parks or is stopped.
func (r *Runner) begin(run string, p program, who person) (*active, error) {
	stop, child := r.Stop, p.shared().dispatched()
	if child { // it is broken off with its parent
		stop = r.stopOf(p.shared().draft.Parent.Run)
	}
	a, err := r.enter(stop, run, who)
	if err != nil {
		return nil, err
	}
	a.child = child
	var own *turn
	// A child has the turn of its parent, which waits for it: two places for one could
	// leave none for anybody. What only comes to its end needs none.
	if !who.ending && !child {
		own = r.queue.enter(run, p.shared().draft.User)
	}
	go func() {
		if held, waits := own.waits(); waits {
			r.noteQueued(run, own.line.user, held)
		}
		if own.await(a.ctx) && (who.ending || r.awaitTrust(a.ctx, run, p)) {
			a.driven = r.drive(run, p, a, who)
			own.leave()
		} else {
			a.driven = p.shared().describe(flow.Outcome{Status: flow.Interrupted, Reason: "stopped"})
		}
		r.left(run, a)
	}()
	return a, nil
}

// beginWith drives a run that servers share, in the place that it has here; nil: it needs
// none. One that is broken off because this process ends is for the others to drive on.
func (r *Runner) beginWith(own *turn, run string, p program, who person) (*active, error) {
	a, err := r.enter(r.Stop, run, who)
	if err != nil {
		own.leave()
		return nil, err
	}
	a.shared, a.child = true, p.shared().dispatched()
	go func() {
		a.driven = r.drive(run, p, a, who)
		a.mu.Lock()
		lacks := a.lacks
		a.mu.Unlock()
		if lacks != "" {
			r.decline(p.shared().draft.User, run, lacks, true)
		}
		if a.driven.Outcome == string(flow.Interrupted) && (r.Stop.Err() != nil || own != nil && (lacks != "" || storeFailed(a.driven.Err))) {
			r.handOver(abandoned{run, who})
		}
		own.leave()
		r.left(run, a)
	}()
	return a, nil
}

// enter is the drive of a run, unless this process drives it already.
func (r *Runner) enter(stop context.Context, run string, who person) (*active, error) {
	a := &active{launch: cmp.Or(who.launch, tipstaff.NewID(r.Now()).String()), done: make(chan struct{}), deferred: map[string]bool{}}
	a.ctx, a.stop = context.WithCancelCause(stop)
	r.mu.Lock()
	_, twice := r.drives[run]
	if !twice {
		r.drives[run] = a
	}
	r.mu.Unlock()
	if twice {
		return nil, flow.ErrBusy
	}
	r.counted.begun.Add(1)
	return a, nil
}

// stopOf is what breaks off the drive of a run here.
func (r *Runner) stopOf(run string) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.drives[run]; a != nil {
		return a.ctx
	}
	return r.Stop
}

// left tells everybody that a drive is over.
func (r *Runner) left(run string, a *active) {
	a.stop(nil)
	r.counted.end(a.driven)
	r.mu.Lock()
	delete(r.drives, run)
	r.ended.add(run, a.driven)
	r.mu.Unlock()
	r.transient.forget(run)
	r.project(run)
	close(a.done)
	r.hasParked() // or ended
	switch {
	case a.driven.State.Terminal() && a.child:
		r.wakeParent(run)
	case a.driven.Outcome == string(flow.ParkedRun) && a.wanted():
		ctx := context.WithoutCancel(r.Stop)
		if row, err := r.Store.Run(ctx, run); err == nil && r.Stop.Err() == nil {
			_, _ = r.resume(ctx, row, tipstaff.Presence{}, false) // as whoever was told that it is driven would have done
		}
	case a.driven.Outcome == string(flow.ParkedRun) && a.waiting() != nil:
		ctx := context.WithoutCancel(r.Stop)
		if row, err := r.Store.Run(ctx, run); err == nil {
			r.wake(ctx, row) // a child may have ended before it came to rest
		}
	}
}

// goesOnAgain has a run that this process drives go on after it has parked, if there is reason
// to then: what was decided meanwhile may have come too late for the drive.
func (r *Runner) goesOnAgain(run string) {
	r.mu.Lock()
	a := r.drives[run]
	r.mu.Unlock()
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.again = true
	}
}

// wanted reports whether somebody wants the run to go on.
func (a *active) wanted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.again
}

// waiting are the children that a drive was told to wait for, and does not look at any more.
func (a *active) waiting() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.waits)
}

// parking is the log of a drive. It tells the store which runs the run that parks waits for.
type parking struct {
	flow.Log
	a *active
}

// Park implements [flow.Log].
func (p *parking) Park(l flow.Lease, at flow.Parking) (bool, error) {
	at.Runs = p.a.waiting()
	return p.Log.Park(l, at)
}

// endings are how the latest drives of this process ended, by run. What a store that
// failed could not record is known from them alone.
type endings struct {
	of    map[string]tipstaff.Driven
	order []string // oldest first
}

// mostEndings is how many are kept: enough for whoever waits for a run that it has
// started.
const mostEndings = 1000

func (e *endings) add(run string, d tipstaff.Driven) {
	if e.of == nil {
		e.of = map[string]tipstaff.Driven{}
	}
	if _, had := e.of[run]; !had {
		e.order = append(e.order, run)
	}
	e.of[run] = d
	if len(e.order) > mostEndings {
		delete(e.of, e.order[0])
		e.order = e.order[1:]
	}
}

// takenUpWithin is how long a run that servers share may rest interrupted until another
// server takes it up, or says that it will.
const takenUpWithin = 30 * time.Second

// Wait returns when nobody drives a run, and tells how its last drive ended: as this
// process has seen it, unless something was recorded since.
func (r *Runner) Wait(ctx context.Context, id tipstaff.ID) (tipstaff.Driven, error) {
	if err := r.permit(ctx, id, tipstaff.ScopeRead); err != nil {
		return tipstaff.Driven{}, err
	}
	run := id.String()
	changed, stop := r.Store.Follow(run)
	defer stop()
	var left time.Time // by a server, perhaps for another
	for {
		r.mu.Lock()
		a, last := r.drives[run], r.ended.of[run]
		r.mu.Unlock()
		if a != nil {
			select {
			case <-a.done:
				return a.driven, nil
			case <-ctx.Done():
				return tipstaff.Driven{}, ctx.Err()
			}
		}
		row, err := r.Store.Run(ctx, run)
		switch {
		case err != nil && last.Err != nil:
			return last, nil
		case err != nil:
			return tipstaff.Driven{}, explain(err, id)
		}
		waits := r.held(row) || row.Queued && r.Pool != nil
		if waits {
			left = time.Time{}
		} else if r.serversGoOn(row) && last.Outcome == "" {
			if left.IsZero() {
				left = time.Now()
			}
			waits = time.Since(left) < takenUpWithin
		}
		if !waits || r.Stop.Err() != nil || tipstaff.State(row.State).Terminal() { // a process that ends waits for nobody else's drive
			return r.rest(ctx, row, last)
		}
		select {
		case <-ctx.Done():
			return tipstaff.Driven{}, ctx.Err()
		case <-r.Stop.Done():
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// serversGoOn reports whether a server has left a run that others can go on with.
func (r *Runner) serversGoOn(row flow.Row) bool {
	shared := r.Pool != nil && (row.Driver == tipstaff.OriginDaemon || row.Driver == tipstaff.OriginEngine)
	return shared && row.Owned != "" && row.Owned != string(tipstaff.KindRunParked)
}

// rest is how the last drive of a run that rests has ended, by its records; last is
// how one of this process did.
func (r *Runner) rest(ctx context.Context, row flow.Row, last tipstaff.Driven) (tipstaff.Driven, error) {
	run, err := r.status(ctx, row)
	if err != nil {
		return tipstaff.Driven{}, explain(err, idOf(row.ID))
	}
	d := run.Rest()
	if d.State == last.State && d.Outcome == last.Outcome || last.Err != nil && !d.State.Terminal() {
		return last, nil
	}
	if !d.State.Terminal() {
		d.WakeAt = row.WakeAt
	}
	return d, nil
}

// Defer says that nobody answers a gate now. A drive of another process is not told,
// and parks when it has waited long enough.
func (r *Runner) Defer(ctx context.Context, id, gate tipstaff.ID) error {
	row, err := r.openToChange(ctx, id, tipstaff.ScopeDecide)
	if err != nil {
		return err
	}
	r.mu.Lock()
	a := r.drives[row.ID]
	r.mu.Unlock()
	if a != nil && r.Stop.Err() == nil { // else the question was withdrawn: the drive is being broken off
		a.postpone(gate.String())
	}
	return nil
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
	if a == nil {
		return nil
	}
	return r.Markers(run.String(), a.launch)
}

// Drain returns when no drive of this process is under way.
func (r *Runner) Drain() {
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
			err = explain(err, idOf(run))
			return tipstaff.Driven{Outcome: string(tipstaff.Interrupted), Reason: string(tipstaff.CodeOf(err)), Message: err.Error(), Err: coded(err)}
		}
		p = now
		if out.Terminal() && p.shared().hasChildren() {
			r.endChildren(run)
		}
		if out.Terminal() && p.shared().wrapped(p) { // it may have ended in the middle of a check
			r.dropCleans(r.Stop, func(of string) bool { return of == run })
		}
		if out.Status != flow.ParkedRun || len(out.Gates) > 0 || out.WakeAt.IsZero() || a.shared {
			return p.shared().describe(out)
		}
		select {
		case <-a.ctx.Done():
			return p.shared().describe(out)
		case <-time.After(time.Until(out.WakeAt)):
		}
		if r.superseded(run, a) {
			err := tipstaff.Errorf(tipstaff.LeaseLost, "another process was started for run %s", run)
			return tipstaff.Driven{Outcome: string(tipstaff.Interrupted), Reason: string(tipstaff.LeaseLost), Message: err.Error(), Err: err}
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
	job := d.job()
	if who.present() {
		defer r.attend(run, a, who)()
		job.Linger, job.Hopeless = linger, a.hopeless
	}
	job, end := d.watched(job)
	defer end()
	defer r.hosts.leaveRun(run)
	out, err := flow.New(&remembering{Log: heard{&parking{r.Store, a}, r.hosts}, program: d.program}, &flow.Options{Now: r.Now, Grace: r.Grace}).Drive(a.ctx, job)
	return d.program(), ended(out), err
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

// describe tells how a drive ended, in the words of surfaces.
func (c *common) describe(out flow.Outcome) tipstaff.Driven {
	d := tipstaff.Driven{Outcome: string(out.Status), Reason: out.Reason, Gates: out.Gates, WakeAt: out.WakeAt, State: c.segment.state()}
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
			d.Err = coded(explain(out.Err, tipstaff.ID{}))
			if code := d.Err.Code; code == tipstaff.StoreLost || code == tipstaff.Integrity {
				d.Reason = string(code)
			}
		}
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
	tipstaff.Presence
	draftOnly bool            // what is drafted is accepted by nobody here
	parent    string          // the run that accepts what is drafted for it; "": none
	launch    string          // the token of the drive; "": a new one
	by        tipstaff.Caller // who accepts what is drafted in advance
	ending    bool            // it is driven to where a decision or a cancel has it rest, and waits for no turn
}

func (p person) present() bool { return p.Yes || p.Accept || p.Attended || p.parent != "" }

// answers is how a gate is answered without asking. A parent accepts what is to be
// confirmed; --yes does too, approves a plan's own question that offers that, and
// does nothing else.
func (p person) answers(g tipstaff.Gate) (action, via string, ok bool) {
	confirms := g.Kind == tipstaff.Confirmation && slices.Contains(g.Actions, actionAccept)
	switch {
	case confirms && p.parent != "":
		return actionAccept, viaParent, true
	case confirms && p.Yes:
		return actionAccept, viaYes, true
	case confirms && p.Accept:
		return actionAccept, viaAuto, true
	case p.Yes && g.Kind == tipstaff.Question && slices.Contains(g.Actions, "approve"):
		return "approve", viaYes, true
	}
	return "", "", false
}

// How a decision is recorded that was made beforehand.
const (
	viaYes  = "--yes"
	viaAuto = "accept: auto"
)

// acting is who a decision is by.
func (p person) acting(ctx context.Context, via string) context.Context {
	if via == viaParent {
		return tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "parent", User: "local", Principal: "run:" + p.parent})
	}
	if via == viaAuto {
		return tipstaff.WithCaller(ctx, p.by)
	}
	return localUser(ctx)
}

// leaves reports whether somebody who attends is to answer a gate.
func (p person) leaves(g tipstaff.Gate) bool {
	return p.Attended && !(p.draftOnly && g.Kind == tipstaff.Confirmation)
}

// canAnswer reports whether driving a run that waits for these gates could come
// to anything.
func (p person) canAnswer(gates []tipstaff.Gate) bool {
	return slices.ContainsFunc(gates, func(g tipstaff.Gate) bool { _, _, ok := p.answers(g); return ok || p.leaves(g) })
}

// hopeless reports that nobody will answer any of these gates. Only a gate that
// was looked at counts: one that is new may still be answered.
func (a *active) hopeless(gates []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(gates) > 0 && !slices.ContainsFunc(gates, func(id string) bool { return !a.deferred[id] })
}

func (a *active) postpone(gate string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deferred[gate] = true
}

// attend answers the gates of a run that are answered in advance, and defers those
// that nobody answers, until it is stopped.
func (r *Runner) attend(run string, a *active, who person) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		changed, leave := r.Store.Follow(run)
		defer leave()
		for ctx.Err() == nil && r.Stop.Err() == nil {
			if rows, err := r.Store.Gates(ctx, flow.GateQuery{Run: run, Open: true}); err == nil {
				for _, row := range rows {
					r.answerFor(ctx, run, a, who, gateOf(row))
				}
			}
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(time.Second):
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// answerFor deals with one open gate as somebody has said beforehand.
func (r *Runner) answerFor(ctx context.Context, run string, a *active, who person, g tipstaff.Gate) {
	action, via, ok := who.answers(g)
	if ok {
		_, err := r.Decide(who.acting(ctx, via), tipstaff.DecideRequest{Run: idOf(run), Gate: g.ID.String(), Action: action, Via: via})
		ok = err == nil || tipstaff.CodeOf(err) == tipstaff.DecisionConflict
	} else {
		ok = who.leaves(g)
	}
	if !ok {
		a.postpone(g.ID.String())
	}
}

package flow

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Limits that hold on every log.
const (
	MaxPayload  = 16 << 20 // bytes of a value, input or note
	MaxBranches = 10_000   // of a group
	MaxRecords  = 100_000  // of a segment, notes not counted
)

const (
	lazyDelay   = 5 * time.Millisecond  // until a lazy record is written by itself
	leaveDelay  = 50 * time.Millisecond // for an activity that was cut to come back
	parkRetry   = 20 * time.Millisecond // until parking is tried again if nothing was delivered
	hopeCheck   = 25 * time.Millisecond // between two questions whether anyone will answer
	shortSleep  = time.Second           // a sleep that ends sooner counts as running
	cancelGrace = 10 * time.Second      // for a cancel request that names no deadline
)

// Options of an engine. nil and zero fields mean the defaults.
type Options struct {
	Now   func() time.Time // time.Now
	NewID func() string    // a ULID
	Grace time.Duration    // how long a stop waits for once calls in flight; 10 s
	// NewLock makes the lock of a drive. Everything a drive decides it decides under
	// this lock, so whoever grants it chooses among all interleavings. nil: a mutex.
	NewLock func() sync.Locker
}

// New returns the engine over a log.
func New(log Log, o *Options) Engine {
	e := &engine{log: log, now: time.Now, newID: newULID, grace: 10 * time.Second, newLock: newMutex}
	if o != nil {
		if o.Now != nil {
			e.now = o.Now
		}
		if o.NewID != nil {
			e.newID = o.NewID
		}
		if o.Grace > 0 {
			e.grace = o.Grace
		}
		if o.NewLock != nil {
			e.newLock = o.NewLock
		}
	}
	return e
}

func newMutex() sync.Locker { return new(sync.Mutex) }

func newULID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

type engine struct {
	log     Log
	now     func() time.Time
	newID   func() string
	grace   time.Duration
	newLock func() sync.Locker
}

func (e *engine) Drive(ctx context.Context, job Job) (Outcome, error) {
	lease, err := e.log.Acquire(ctx, job.Run, job.Owner)
	if err != nil {
		return Outcome{}, err
	}
	d := newDrive(e, job, lease)
	if err := d.load(ctx); err != nil {
		// The lease is ours and nobody will drive: say so, or it looks owned.
		d.interrupt("load_failed")
		return Outcome{Status: Interrupted, Err: err, Reason: "load_failed"}, err
	}
	if err := d.checkEnd(); err != nil {
		d.interrupt(reasonOf(err))
		return Outcome{Status: Interrupted, Err: err, Reason: reasonOf(err)}, nil
	}
	defer d.unwatch()
	defer context.AfterFunc(ctx, func() { d.stop(context.Cause(ctx)) })()
	return d.run(), nil
}

// drive is one process's attempt to take a run further. Everything below mu is
// shared by the branches of the flow, each of which is a goroutine.
type drive struct {
	*engine
	job   Job
	lease Lease
	began time.Time // wall clock with its monotonic reading
	mode  mode
	given History // of a replay, which has no log

	unwatch func()
	inbox   inbox
	syncs   func() error // is sync, made once for all attempts

	mu      sync.Locker
	past    *past
	blob    func(string) ([]byte, error)
	segment int
	lacks   []string // as in [History]
	places  map[string]*place
	root    *scope
	// dry: there are records, and the flow has not yet asked for all of them. Until it has,
	// nothing is done that they do not answer.
	dry bool
	// inherited is what a fork has of its source. It may do something new before it asks for
	// that, as a follow-up does that makes a worktree of its own; until it completes it must.
	inherited map[emitKey]bool
	// running counts the branches that are neither blocked nor ended. The root is one of
	// them from before the first segment until after the last: between two of them nothing
	// can find the drive at rest, and park what is just beginning.
	running  int
	blocked  map[*waiter]struct{}
	line     int // how many were ever blocked
	live     map[*attempt]struct{}
	queue    []Draft // records for the next batch, in order
	waited   int     // how many of them somebody waits for, or precede such
	acks     []chan error
	shipping bool // a batch is with the log
	armed    bool // a lazy record will be shipped soon
	over     bool // the drive has ended: nothing is written any more
	parking  bool // the park transaction is under way
	parkTurn int  // counts idle periods: a linger of an earlier one is void
	ending   ending
	why      *Stop
	failure  error     // of ending fatal or down
	base     time.Time // the run's time at baseAt
	baseAt   time.Time // with its monotonic reading
	wakeAt   time.Time
	gates    []string // waited for when it parked
	// cancelled says that some method answered ErrCancelled for a cancel of the run.
	cancelled bool
	replayed  int
	lives     int
	lazyAt    time.Time // when the first lazy record of queue was put; zero: none was
}

type mode int

const (
	performing mode = iota
	replaying       // records alone; what is not recorded is the end
	auditing        // records alone; what is not recorded does not fit
)

// ending says why a drive takes nothing new any more.
type ending int

const (
	notEnding ending = iota
	cut              // a correction: activities in flight finish
	stopped          // the process is told to stop
	parked           // the park transaction went through
	down             // the log takes no more records
	fatal            // the program does not fit its history, or broke a rule
)

func newDrive(e *engine, job Job, lease Lease) *drive {
	d := &drive{engine: e, job: job, lease: lease, began: time.Now(), mu: e.newLock(), past: newPast(job.Limits, job.Holds), unwatch: func() {},
		places: map[string]*place{}, root: &scope{}, running: 1, blocked: map[*waiter]struct{}{}, live: map[*attempt]struct{}{}}
	d.syncs = d.sync
	return d
}

// load registers for foreign records before it reads, under the drive's lock, so
// that none falls between.
func (d *drive) load(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inbox.take = d.deliver
	d.unwatch = d.log.Watch(d.job.Run, d.inbox.put)
	h, err := d.log.Load(ctx, d.job.Run)
	if err != nil {
		return err
	}
	return d.begin(h)
}

func (d *drive) begin(h History) error {
	h.Holds = d.job.Holds
	p, err := foldHistory(h, d.job.Limits)
	if err != nil {
		return err
	}
	d.past, d.blob, d.segment, d.lacks = p, h.Blob, h.Segment, h.Lacks
	d.base, d.baseAt = d.now().Round(0).UTC(), time.Now()
	if p.latest.After(d.base) {
		d.base = p.latest.UTC()
	}
	// Of a run that completed or failed, a stored cancel came too late.
	if p.cancel != nil && d.mode != auditing {
		d.root.closed, d.root.cancelled = true, true
	}
	if p.cut && d.mode == performing {
		d.ending = cut
	}
	d.dry = d.mode == performing && !p.isEmpty()
	if len(h.Base) > 0 {
		d.inherited = map[emitKey]bool{}
	}
	for _, r := range h.Base {
		d.inherited[emitKey{r.Path, r.N}] = true
	}
	return nil
}

// checkEnd refuses to drive a run that could do all that it is to do and then not complete.
// One that was cancelled does nothing more, and ends.
func (d *drive) checkEnd() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lacks) == 0 || d.job.Next != nil || d.root.cancelled {
		return nil
	}
	return &Misuse{d.job.Root, fmt.Sprintf("the run cannot complete: it has no %s, and its job has no Next that could bring them; nothing was done. Create the run with them, or write them, and drive it again", strings.Join(d.lacks, ", no "))}
}

// run drives the flow, segment after segment, to the end of this drive.
func (d *drive) run() Outcome {
	out := d.segments()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	return out
}

func (d *drive) segments() Outcome {
	for {
		value, b, err := d.enterFlow()
		d.checkFit(b, err)
		var next *continued
		switch asked := errors.As(err, &next); {
		case (asked || b.parked) && d.isCut():
			if out, over := d.nextSegment(nil, true); over {
				return out
			}
		case !asked || d.isHalted() || b.parked:
			return d.conclude(value, err, b)
		case d.cancelKnown():
			return d.conclude(nil, ErrCancelled, b)
		default:
			if out, over := d.nextSegment(next.state, false); over {
				return out
			}
		}
	}
}

// checkFit is for a flow that has come to its end, or to that of its segment, without
// anything new to do: it must have asked for all that is recorded. A fork that failed may
// have done so before it came to what it inherits.
func (d *drive) checkFit(b *branch, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mode == performing && (d.dry || d.inherited != nil) && (d.ending == notEnding && !b.parked || d.ending == cut) {
		later := d.inherited
		if err == nil {
			later = nil
		}
		d.fit(later)
	}
}

// isCut reports whether a correction has ended the segment and the job knows how
// to go on. What was in flight is recorded by then: the flow has unwound.
func (d *drive) isCut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ending == cut && d.mode == performing && d.job.Next != nil
}

// cancelKnown reports whether a cancel of the run is known.
func (d *drive) cancelKnown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.root.cancelled
}

func (d *drive) enterFlow() (value json.RawMessage, b *branch, err error) {
	input := d.job.Input
	if d.past.state != nil {
		state, err := payload(d.past.state, d.blob)
		if err != nil {
			d.fail(down, err)
			return nil, &branch{}, err
		}
		input = state
	}
	b = &branch{d: d, scope: d.root}
	err = d.guard(b, d.job.Root, func(c Context) (err error) {
		value, err = d.job.Flow(c, input)
		return err
	})
	return value, b, err
}

// guard runs deterministic code of one branch. A panic there ends the drive,
// and so does a branch that was parked and says otherwise.
func (d *drive) guard(b *branch, path string, f func(Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = d.fail(fatal, &panicked{p, debug.Stack()})
		}
	}()
	err = f(&fctx{b: b, path: path})
	d.mu.Lock()
	defer d.mu.Unlock()
	b.ended = true
	if b.busy != "" && d.ending != fatal && d.ending != down {
		return d.failLocked(fatal, &Misuse{path, "it returned while a " + b.busy + " of its Context was under way: what runs at the same time is a branch of Go"})
	}
	if b.parked && b.silent {
		return ErrParked
	}
	if b.parked && !Parked(err) && d.ending != fatal && d.ending != down {
		return d.failLocked(fatal, &Misuse{path, fmt.Sprintf("the flow was parked and returned %v instead of ErrParked", err)})
	}
	return err
}

type panicked struct {
	value any
	stack []byte
}

// Error has the value, or as much of it as leaves room for the stack. All of it nobody keeps:
// a drive that panicked has recorded nothing that could name it.
func (p *panicked) Error() string {
	return CutText(fmt.Sprintf("panic: %s\n%s", cutText(MostMessage/4, fmt.Sprint(p.value), ""), p.stack), "")
}

// conclude turns the end of the flow into the end of the drive.
func (d *drive) conclude(value json.RawMessage, err error, b *branch) Outcome {
	d.mu.Lock()
	out := Outcome{Value: value, Err: err, Tally: d.past.ledger.tally(),
		Replayed: d.replayed, Live: d.lives, InDoubt: d.inDoubt()}
	gates := d.openGates()
	for _, g := range gates {
		out.Gates = append(out.Gates, g.id)
	}
	end, why, failure := d.ending, d.why, d.failure
	// A flow may also say so itself, of a call that the cancel has ended.
	cancelled := d.cancelled || d.root.cancelled && errors.Is(err, ErrCancelled)
	d.mu.Unlock()
	// A flow that asked to continue has not ended: the next drive asks again.
	unfinished := b.parked || errors.As(err, new(*continued))

	switch {
	case end == fatal:
		out.Status, out.Value, out.Err, out.Reason = Interrupted, nil, failure, reasonOf(failure)
		d.interrupt(out.Reason)
	case end == down:
		out.Status, out.Value, out.Err, out.Reason = Interrupted, nil, failure, reasonOf(failure)
	case end == parked:
		out.Status, out.Value, out.Err, out.Gates, out.WakeAt = ParkedRun, nil, nil, d.gates, d.wakeAt
	case d.mode != performing && b.parked:
		out.Status, out.Value, out.Err = ParkedRun, nil, nil
	case unfinished && end == cut:
		out.Status, out.Value, out.Err = Cut, nil, d.sync()
	case unfinished && end == stopped:
		out.Status, out.Value, out.Err, out.Reason = Interrupted, nil, nil, why.Reason
		d.interrupt(why.Reason)
	case cancelled:
		out.Status, out.Value = Cancelled, nil
		return d.finish(out, gates)
	case err == nil:
		out.Status = Completed
		return d.finish(out, gates)
	default:
		out.Status, out.Value, out.Err = Failed, nil, d.cutFailed(err)
		return d.finish(out, gates)
	}
	return out
}

// finish ends the run in one append: closings of open gates, then what the
// job's Finish says. A run that cannot be ended now stays open: the next drive
// replays it and ends it.
func (d *drive) finish(out Outcome, gates []*gate) Outcome {
	out.Tally = d.account()
	if d.mode != performing {
		return out
	}
	// Finish may look at the log: everything before it is there by then.
	err := d.sync()
	if err == nil {
		if err = d.end(out, gates); err == nil {
			return out
		}
	}
	out.Status, out.Value, out.Err, out.Reason = Interrupted, nil, err, reasonOf(err)
	d.interrupt(out.Reason)
	return out
}

// account closes the ledger of a run or segment that has ended, with what was cut off
// then.
func (d *drive) account() Tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.past.loseOpen()
	return d.past.ledger.tally()
}

func (d *drive) end(out Outcome, gates []*gate) error {
	var drafts []Draft
	for _, g := range gates {
		drafts = append(drafts, closeGate(g, "run_ended"))
	}
	finish := d.job.Finish
	if finish == nil {
		finish = plainFinish
	}
	last, err := finish(out)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.append(append(drafts, last...)...)
}

// plainFinish is for jobs that keep no account of themselves.
func plainFinish(out Outcome) ([]Draft, error) {
	end := Draft{Kind: KindIntentAttest, From: "executor"}
	body := map[string]any{"cited": []string{}, "evidence": struct{}{}}
	switch out.Status {
	case Completed:
		body["outcome"], body["outputs_digest"] = "success", Digest(out.Value)
		end.Outputs = &out.Value
	case Cancelled:
		end.Kind = KindIntentCancel
		body["reason"], body["via"], body["on_behalf_of"] = "", "command", "system:cancel"
	default:
		end.Kind = KindIntentFail
		body["reason"], body["message"] = CodeInternal, fmt.Sprint(out.Err)
		if cut := (*cutFailure)(nil); errors.As(out.Err, &cut) && cut.whole != "" {
			end.Keep = []string{cut.whole}
		}
	}
	end.Body = JSON(body)
	return []Draft{end}, nil
}

func (d *drive) inDoubt() (paths []string) {
	for path, c := range d.past.calls {
		if c.open && c.class == Once {
			paths = append(paths, path)
		}
	}
	return sorted(paths)
}

func (d *drive) openGates() (open []*gate) {
	for _, g := range d.past.gates {
		if g.decision == nil && !g.closed && !g.opening {
			open = append(open, g)
		}
	}
	return sortedBy(open, func(g *gate) string { return g.key })
}

// interrupt says that this drive ended without settling the run. It is the last
// thing a drive does; a log that does not take it leaves that to recovery.
func (d *drive) interrupt(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dry {
		d.queue = nil // what a program said that may not fit
	}
	d.append(Draft{Kind: KindRunInterrupted, Body: JSON(RunInterrupted{Reason: reason, Pid: d.job.Owner.Pid})})
}

func reasonOf(err error) string {
	var nd *NonDeterminism
	var mu *Misuse
	var p *panicked
	switch {
	case errors.As(err, &nd):
		return "replay_mismatch"
	case errors.As(err, &mu):
		return "misuse"
	case errors.As(err, &p):
		return "panic"
	case errors.Is(err, ErrLeaseLost):
		return "lease_lost"
	case errors.Is(err, ErrStoreFull):
		return "store_full"
	}
	return "store_unavailable"
}

// nextSegment closes the segment and opens the next one.
func (d *drive) nextSegment(state json.RawMessage, wasCut bool) (Outcome, bool) {
	if d.mode != performing {
		// A replay sees one segment: its end is that the flow asked to continue.
		return Outcome{Status: Completed, Value: state, Tally: d.account(), Replayed: d.replayed}, true
	}
	next, err := d.askNext(state, wasCut)
	if err == nil {
		err = d.openSegment(next, wasCut)
	}
	if err != nil {
		out := Outcome{Status: Interrupted, Err: err, Reason: reasonOf(err)}
		d.interrupt(out.Reason)
		return out, true
	}
	return Outcome{}, false
}

func (d *drive) askNext(state json.RawMessage, wasCut bool) (Segment, error) {
	next := Segment{State: state, Root: d.job.Root, Limits: d.past.ledger.limit, Deadline: d.job.Deadline}
	if d.job.Next == nil {
		return next, nil
	}
	if err := d.sync(); err != nil {
		return next, err
	}
	return d.job.Next(state, wasCut)
}

// openSegment writes, in one append: closings of open gates, what the job puts
// before the run.continued, and that.
func (d *drive) openSegment(next Segment, wasCut bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var drafts []Draft
	for _, g := range d.openGates() {
		drafts = append(drafts, closeGate(g, "superseded"))
	}
	if len(next.State) == 0 {
		next.State = json.RawMessage("null")
	}
	d.past.loseOpen()
	if next.Limits == nil {
		next.Limits = Use{}
	}
	wall := d.wall().Milliseconds()
	b := RunContinued{State: next.State, Used: d.past.ledger.used, Held: d.past.ledger.held, Limit: next.Limits, WallMs: &wall, T: Time{d.clock()}, Keep: next.Keep}
	drafts = append(append(drafts, next.Before...), Draft{Kind: KindRunContinued, Body: JSON(b)})
	if wasCut && d.ending == cut { // from here on a correction is another one, which cuts the next segment
		d.ending = notEnding
	}
	if err := d.append(drafts...); err != nil {
		return err
	}
	old := d.past
	p := newPast(next.Limits, d.job.Holds)
	p.ledger.used.add(old.ledger.used)
	p.ledger.held.add(old.ledger.held)
	p.state, p.last, p.warned, p.latest = next.State, old.last, old.warned, old.latest
	p.wall = old.wall
	d.past, d.places, d.inherited = p, map[string]*place{}, nil
	d.job.Root, d.job.Limits, d.job.Deadline = next.Root, next.Limits, next.Deadline
	d.segment++
	return nil
}

// wall is how long the run has been driven so far. Called with mu held.
func (d *drive) wall() time.Duration { return d.past.wall + time.Since(d.began) }

// clock is the run's time: it follows the wall clock, but neither falls nor
// stands still when that is set back. Called with mu held.
func (d *drive) clock() time.Time {
	t, at := d.now().Round(0).UTC(), time.Now()
	if steady := d.base.Add(at.Sub(d.baseAt)); steady.After(t) {
		t = steady
	}
	d.base, d.baseAt, d.past.latest = t, at, t
	return t
}

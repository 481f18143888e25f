package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// maxDrives is how often a run is taken up before it counts as one that no resume
// can finish.
const maxDrives = 40

// Case is a program with the world that it runs in.
type Case struct {
	Text   string          // the program, for people
	Flow   flow.Func       // one that asks nothing but its Context
	Input  json.RawMessage // of the first segment
	Root   string
	Limits flow.Use
	Holds  bool // as in flow.Job
	Linger time.Duration
	Acts   []string                    // names of the activities
	Behave func(path string) Behaviour // what the world does with a call
	// Revise gives the state with which the flow begins anew after a correction that has
	// cut this history of the root's. nil: there are none.
	Revise func(cut flow.History, root string) json.RawMessage
	// Leaf names what a call is about in all revisions; nil: in each it is about something else.
	Leaf func(path string) string
	// Value is what a call comes to; nil: its path.
	Value func(path string) json.RawMessage
	// Settled says that the program has one end, whatever the schedule.
	Settled bool
	Cancels bool                     // people may cancel it
	Own     map[string]flow.Activity // activities that are performed as they are
	// Answer is what people say beside an action of a gate of the program's own.
	Answer func(kind, action string) json.RawMessage
	// Edit changes the program between two drives; recorded are the places at which the
	// present segment has records that the program owns. nil: nobody changes it.
	Edit func(pick *Choices, recorded map[string]bool) *Edit

	forget string // a kind of record that the log acknowledges and does not keep, for a test
}

// counts is the bound that the activities of the world report, and reserve more of.
func (c *Case) counts() string {
	if c.Holds {
		return flow.Tokens
	}
	return "tool_calls"
}

// Failure is a schedule that broke a rule.
type Failure struct {
	Rule    string
	Case    *Case
	Trace   []string
	Records []flow.Record
}

func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nprogram:\n%s\nschedule:\n", f.Rule, f.Case.Text)
	for _, line := range f.Trace {
		b.WriteString("\t" + line + "\n")
	}
	b.WriteString("journal:\n")
	for _, r := range f.Records {
		fmt.Fprintf(&b, "\t%d e%d %s %s", r.Seq, r.Epoch, r.Kind, r.Path)
		if r.N > 0 {
			fmt.Fprintf(&b, " n%d", r.N)
		}
		fmt.Fprintf(&b, " %.200s\n", r.Body)
	}
	return b.String()
}

// Ending is what became of a run, for comparison with another schedule of it.
type Ending struct {
	Status flow.Status
	Value  string
	Said   map[string]string // outcomes of calls and events, by place
}

// sim is one schedule of one case. It must run in a synctest bubble, whose other
// goroutines are all its own.
type sim struct {
	c     *Case
	pick  *Choices
	log   Log
	run   string    // in the log
	flow  flow.Func // that of the case, or what it was changed to
	edits func(pick *Choices, recorded map[string]bool) *Edit
	calm  bool // nothing happens from outside
	world *world
	hands hands

	mu      sync.Mutex
	pending []*event // what waits to be let go, in order of arrival
	known   int      // how many of them have been seen before
	proc    *process
	zombies []*process
	procs   int
	ids     int
	tracing bool
	trace   []string
	failure *Failure

	gates     []*gate     // that are open
	status    flow.Status // of a run that has ended
	roots     []string    // of its segments
	flows     []flow.Func // that went through those that are over
	revision  int
	wakeAt    time.Time
	cancelled bool          // people asked for it
	disturbed bool          // an attempt may have been lost
	extended  bool          // the program was changed, and has another end now
	live      *flow.Outcome // how the drive ended that ended the run
}

// event is something that waits for the scheduler.
type event struct {
	p    *process
	what string
	turn chan struct{}
}

// process is one that drives the run.
type process struct {
	s       *sim
	n       int       // counts the processes
	dead    bool      // under s.mu: nothing it does reaches the world or the log
	stirred time.Time // under s.mu: since then at the earliest it can be at rest
	working int       // under s.mu: activities that nobody has told to end
	killed  bool
	stopped bool
	failed  bool // the disk was full
	cancel  context.CancelCauseFunc
	done    chan struct{}
	out     flow.Outcome
	err     error
}

// Run simulates one schedule. It is to be called in a synctest bubble. twin is how
// the undisturbed schedule of a settled case has ended; nil: not known.
func Run(ground Ground, c *Case, pick *Choices, twin *Ending, tracing bool) (Ending, *Failure) {
	s := simulate(ground, c, pick, twin, tracing)
	if !c.Settled {
		return Ending{}, s.failure
	}
	return s.ending(), s.failure
}

func simulate(ground Ground, c *Case, pick *Choices, twin *Ending, tracing bool) *sim {
	s := &sim{c: c, pick: pick, tracing: tracing, flow: c.Flow, edits: c.Edit, roots: []string{c.Root}, revision: 1}
	s.log, s.run = ground()
	s.world = newWorld(s)
	s.hands = newHands(s)
	for drives := 0; s.failure == nil && !s.ended(); drives++ {
		if drives == maxDrives {
			s.fail("the run was driven %d times and has not ended", drives)
			break
		}
		if drives == maxDrives/2 && c.Cancels { // it may ask for ever
			s.hands.cancel()
		}
		if drives > 0 {
			s.between()
			if s.edits != nil && s.pick.One(8) {
				s.edit()
			}
		}
		if s.failure == nil && !s.ended() {
			s.drive()
		}
	}
	if s.failure == nil {
		s.checkEnd()
	}
	if s.failure == nil && c.Settled && twin != nil && !s.extended {
		if diff := s.ending().differs(*twin); diff != "" {
			s.fail("%s", diff)
		}
	}
	if s.failure != nil {
		s.failure.Case, s.failure.Trace, s.failure.Records = c, s.trace, s.log.Records(s.run)
	}
	return s
}

func (s *sim) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(format, args...)
}

func (s *sim) failLocked(format string, args ...any) {
	if s.failure == nil {
		s.failure = &Failure{Rule: fmt.Sprintf(format, args...)}
	}
}

func (s *sim) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracing {
		s.trace = append(s.trace, what)
	}
}

func (s *sim) newID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return "G" + strconv.Itoa(s.ids)
}

// pause waits until the scheduler lets this goroutine go on.
func (p *process) pause(what string) { p.pauseUntil(context.Background(), what) }

// pauseUntil is pause, but for a context that ends first.
func (p *process) pauseUntil(ctx context.Context, what string) error {
	s := p.s
	s.mu.Lock()
	if p.dead {
		s.mu.Unlock()
		return errDead
	}
	e := &event{p: p, what: what, turn: make(chan struct{})}
	s.pending = append(s.pending, e)
	s.mu.Unlock()
	select {
	case <-e.turn:
		if !p.alive() { // it was not its turn: it is to unwind
			return errDead
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.pending {
			if other == e {
				s.pending = append(s.pending[:i], s.pending[i+1:]...)
				break
			}
		}
		return ctx.Err()
	}
}

func (p *process) alive() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return !p.dead
}

// lock is the lock of a drive. Whoever wants it waits for the scheduler, who gives it
// to one goroutine and looks again when all are at rest, so nobody else can hold it
// then. Of a dead process, which nobody schedules, it is a mutex.
type lock struct {
	p  *process
	mu sync.Mutex
}

func (l *lock) Lock() {
	growStack() // of timers and the inbox, which begin with it
	l.p.pause("lock")
	l.mu.Lock()
}

func (l *lock) Unlock() { l.mu.Unlock() }

// start begins a drive in a process of its own.
func (s *sim) start() *process {
	s.procs++
	p := &process{s: s, n: s.procs, done: make(chan struct{}), stirred: time.Now()}
	job := s.job(p)
	ctx, cancel := context.WithCancelCause(noContext)
	p.cancel = cancel
	engine := flow.New(&simLog{Log: s.log, p: p}, &flow.Options{NewID: s.newID, NewLock: func() sync.Locker { return &lock{p: p} }})
	s.note("start")
	go func() {
		defer close(p.done)
		growStack()
		p.out, p.err = engine.Drive(ctx, job)
	}()
	return p
}

// growStack gives a goroutine at once the stack that it will need: to grow it little by
// little took an eighth of the time.
//
//go:noinline
func growStack() {
	var room [6 << 10]byte
	touch(&room)
}

//go:noinline
func touch(room *[6 << 10]byte) { room[0] = 1 }

// job is what every drive is given: it follows from the case and the records alone.
func (s *sim) job(p *process) flow.Job {
	acts := maps.Clone(s.c.Own)
	if acts == nil {
		acts = map[string]flow.Activity{}
	}
	for _, name := range s.c.Acts {
		acts[name] = s.world.activity(p)
	}
	job := flow.Job{Run: s.run, Root: s.root(), Flow: s.flow, Input: s.c.Input, Acts: acts, Limits: s.c.Limits, Holds: s.c.Holds, Linger: s.c.Linger}
	if s.c.Revise != nil {
		job.Next = s.next
	}
	return job
}

func (s *sim) root() string { return s.roots[len(s.roots)-1] }

// next opens the segment after a Continue or a correction.
func (s *sim) next(state json.RawMessage, cut bool) (flow.Segment, error) {
	history, err := s.log.Load(noContext, s.run)
	if err != nil {
		return flow.Segment{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := flow.Segment{State: state, Root: s.root(), Limits: s.c.Limits}
	if cut {
		revision := s.revision + 1
		seg.State, seg.Root = s.c.Revise(history, seg.Root), s.c.Root+"@"+strconv.Itoa(revision)
		seg.Before = []flow.Draft{{Kind: revised, Note: true, Body: flow.JSON(revision)}}
	}
	return seg, nil
}

// revised notes that the segment that now begins is of another revision.
const revised = "plan.drafted"

func (p *process) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// drive takes the run up and judges how its process has ended.
func (s *sim) drive() {
	p := s.takeUp()
	if s.failure == nil && !p.killed {
		s.judge(p)
	}
	if s.failure == nil && !s.ended() && s.pick.Of(4) == 0 { // the next drive replays it, too
		s.checkOpen()
	}
}

// takeUp drives the run and schedules until its process has ended.
func (s *sim) takeUp() *process {
	s.proc = s.start()
	idle := 0
	for {
		// No two timers are due at once: whose turn it were then nobody could choose.
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if s.proc.isDone() {
			break
		}
		if s.failure != nil {
			break
		}
		if s.step() {
			idle = 0
			continue
		}
		if idle++; idle > len(waits)+3 {
			s.fail("the drive hangs")
			continue
		}
		s.wait(min(idle-1, len(waits)-1))
	}
	p := s.proc
	p.killed = p.dead
	for _, old := range append(s.zombies, p) {
		s.bury(old)
	}
	s.proc, s.zombies = nil, nil
	return p
}

// bury lets a process that has ended, or shall have, unwind to its last goroutine.
func (s *sim) bury(p *process) {
	s.silence(p)
	for range 100 {
		synctest.Wait()
		if p.isDone() {
			return
		}
		time.Sleep(time.Second)
	}
	s.fail("the process does not end")
}

// silence cuts a process off: nothing that it still does reaches the log or the
// world, and nobody schedules it any more.
func (s *sim) silence(p *process) {
	s.mu.Lock()
	p.dead = true
	var others []*event
	for _, e := range s.pending {
		if e.p == p {
			close(e.turn)
		} else {
			others = append(others, e)
		}
	}
	s.pending = others
	s.mu.Unlock()
	p.cancel(&flow.Stop{Reason: "dead"})
}

// kill ends the process at once. What it has not committed is lost.
func (s *sim) kill() {
	s.note("kill -9")
	s.disturbed = true
	s.silence(s.proc)
}

// takeOver starts another process while the first still lives: it is fenced, but
// what it has under way goes on.
func (s *sim) takeOver() {
	s.note("taken over")
	s.disturbed = true
	s.zombies = append(s.zombies, s.proc)
	s.proc = s.start()
}

// waits are how long the scheduler lets time pass when nothing else can happen, or
// because it pleases to.
var waits = []time.Duration{5 * time.Millisecond, 25 * time.Millisecond, time.Second, 15 * time.Second, time.Hour, 100 * time.Hour}

func (s *sim) wait(i int) {
	s.note("wait " + waits[i].String())
	time.Sleep(waits[i])
}

// step lets one thing happen; false: there is nothing but time.
func (s *sim) step() bool {
	switch s.pick.Of(24) {
	case 22:
		if !s.calm && s.hands.act(s.proc) {
			return true
		}
	case 23:
		s.wait(s.pick.Of(len(waits) - 1))
		return true
	}
	s.mu.Lock()
	n := len(s.pending)
	if len(s.zombies) > 0 { // two processes may have timers for the same moment
		slices.SortStableFunc(s.pending[min(s.known, n):], func(a, b *event) int { return a.p.n - b.p.n })
	}
	s.known = max(n-1, 0)
	if n == 0 {
		s.mu.Unlock()
		return s.hands.answer()
	}
	i := s.pick.Of(n)
	e := s.pending[i]
	s.pending = append(s.pending[:i], s.pending[i+1:]...)
	s.mu.Unlock()
	if s.tracing && e.what != "lock" {
		s.note(e.what)
	}
	close(e.turn)
	return true
}

// between is what happens while nobody drives: the run is given what it waits for.
func (s *sim) between() {
	for range 4 {
		if !s.hands.idle() {
			return
		}
	}
}

func (s *sim) ended() bool { return s.status != "" }

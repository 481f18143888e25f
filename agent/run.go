package agent

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
	"github.com/tipstaff/tipstaff/tool"
)

const (
	// lastEventWait is how long a reader whose context has ended may take to take an
	// event.
	lastEventWait = 100 * time.Millisecond
	// toolGrace is how long a tool may take to end itself when the turn is cancelled.
	toolGrace = 2 * time.Second
)

// Who decides at gates, where Config.Principal does not say.
const (
	byApprover = "local:approver"
	byNobody   = "system:unattended"
)

// Run takes one turn of a session on the engine in memory, and reports what happens
// in it. An invalid configuration or session is returned at once, before anything is
// done; all else arrives as events.
//
// The caller reads the channel until it is closed, or ends ctx, which cancels the
// turn. The turn does not run ahead of its reader: nothing is sent to a model or a
// tool before the events so far were taken. The last event is finish or error. By
// then the session has the turn's messages and is valid; until then it must be left
// alone. A nil session is one that nobody keeps.
//
// Approval gates go to the Approver, one at a time, in the order of the calls;
// others to Config.Gates. A panic of a tool or of middleware ends the turn; any
// other is not recovered.
func Run(ctx context.Context, cfg Config, sess *Session, userMessage string) (<-chan Event, error) {
	if err := cfg.Resolve(); err != nil {
		return nil, err
	}
	if sess == nil {
		sess = &Session{}
	}
	if err := sess.Valid(); err != nil {
		return nil, err
	}
	h := &host{ctx: ctx, cfg: cfg, session: sess, message: userMessage, run: tipstaff.NewID(time.Now()).String(),
		log: flow.NewMem(), calls: NewCallLog(cfg.Logger, cfg.LogKey), events: make(chan Event),
		gates: &gateQueue{calls: map[string]*ToolCallRequest{}, reached: map[string]bool{}}}
	h.some.L = &h.mu
	go h.drive()
	go h.serve()
	return h.events, nil
}

// host runs a turn in the library form. The drive queues what is to be done about
// its records, which never holds it up; one goroutine, serve, does that: it sends
// events to the caller and has gates answered.
type host struct {
	ctx     context.Context
	cfg     Config
	session *Session
	message string
	run     string
	log     *flow.Mem
	calls   *CallLog
	events  chan Event
	out     Output // of the drive, once it is over

	mu    sync.Mutex
	some  sync.Cond
	queue []func()

	// Of serve:
	view   View
	gates  *gateQueue
	asking *openGate // that somebody is asked about; nil: nobody is
	last   *Event    // the terminal one, which is sent when the session is complete
	gone   bool      // the reader has left
	over   bool
}

// do has f called by serve, after what was queued before it.
func (h *host) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, f)
	h.some.Signal()
}

func (h *host) serve() {
	defer close(h.events)
	for {
		h.mu.Lock()
		for len(h.queue) == 0 {
			h.some.Wait()
		}
		queue := h.queue
		h.queue = nil
		h.mu.Unlock()
		for _, f := range queue {
			if f(); h.over {
				return
			}
			h.ask()
		}
	}
}

// drive takes the turn, and reports its end.
func (h *host) drive() {
	defer context.AfterFunc(h.ctx, h.cancel)()
	defer h.log.Watch(h.run, func(r flow.Record) { h.do(func() { h.record(r.Draft) }) })()
	// The caller's context does not stop the drive: a turn that is cancelled comes to
	// its end in good order.
	out, err := flow.New(gateLog{h.log, h}, &flow.Options{Grace: toolGrace}).Drive(context.WithoutCancel(h.ctx), h.job())
	if out.Reason == "panic" {
		panic(fmt.Sprintf("agent: the turn panicked: %v", out.Err))
	}
	if err == nil && !out.Terminal() {
		err = cmp.Or(out.Err, fmt.Errorf("it is %s", out.Status))
	}
	h.do(func() { h.end(err) })
}

// cancel asks the drive to end the turn. If that comes too late it has ended.
func (h *host) cancel() {
	_ = h.log.Write(h.run, flow.Draft{Kind: string(tipstaff.KindRunCancelRequested),
		Body: flow.JSON(tipstaff.RunCancelRequested{Mode: "cancel", Deadline: time.Now().Add(toolGrace).UTC()})})
}

func (h *host) job() flow.Job {
	acts := map[string]flow.Activity{
		CatalogActivity: CatalogCall(h.cfg.catalog),
		ModelActivity:   ModelCall(h.cfg.Model),
		RouterActivity:  RouterCall(h.cfg.Router),
		// Tools end themselves when their context ends: what they then say of a call that
		// may be made once is an answer.
		tool.ActivityName: {Run: h.cfg.call, Stops: func(flow.Attempt) bool { return true }},
	}
	for name, act := range acts {
		acts[name] = h.activity(act)
	}
	return flow.Job{Run: h.run, Root: "turn", Acts: acts,
		Flow: func(fc flow.Context, _ json.RawMessage) (_ json.RawMessage, err error) {
			h.out, err = Turn(fc, h.cfg, Input{Session: h.session.ID, History: slices.Clone(h.session.Messages), Message: h.message})
			return nil, err
		},
		Tell: func(d flow.Draft) { h.do(func() { h.record(d) }) },
		Appended: func(d flow.Draft) {
			if tipstaff.Kind(d.Kind) != tipstaff.KindPolicyGateResolve { // the log knows which of two decisions was first
				h.do(func() { h.record(d) })
			}
		},
		Linger: -1,
		Hopeless: func([]string) bool { // asked when the turn does nothing but wait for gates
			h.do(h.gates.rest)
			return false
		},
	}
}

// gateLog is the log of a turn. It reports a gate when it is stored: before that it
// cannot be decided.
type gateLog struct {
	*flow.Mem
	host *host
}

func (l gateLog) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	l.Mem.Append(lease, drafts, func(err error) {
		for _, d := range drafts {
			if err == nil && tipstaff.Kind(d.Kind) == tipstaff.KindPolicyGate {
				r := flow.Record{Draft: d, At: time.Now().UTC()}
				l.host.do(func() { l.host.gates.open(r) })
			}
		}
		done(err)
	})
}

// activity adapts an activity to the library form. It starts when the caller has
// taken the events so far, and not at all when the caller has left. Its context has
// the values of the caller's. It runs on a goroutine of its own, where the engine
// does not recover its panics.
func (h *host) activity(act flow.Activity) flow.Activity {
	run := act.Run
	act.Check = func(ctx context.Context, _ flow.Attempt) error {
		h.caughtUp(ctx)
		return nil
	}
	act.Run = func(ctx context.Context, a flow.Attempt) (done flow.Done, err error) {
		if h.ctx.Err() != nil {
			<-ctx.Done() // the cancel is on its way
			return flow.Done{}, unsent(ctx)
		}
		err = fmt.Errorf("agent: %s has ended its goroutine", a.Name)
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			done, err = run(valued{ctx, h.ctx}, a)
		}()
		<-returned
		return done, err
	}
	return act
}

// valued is a context with the values of another beside its own.
type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any {
	if own := v.Context.Value(key); own != nil {
		return own
	}
	return v.values.Value(key)
}

// caughtUp waits until the caller has taken what was reported, or the turn is
// cancelled. A slow reader takes nothing from the time that a call has.
func (h *host) caughtUp(ctx context.Context) {
	taken := make(chan struct{})
	h.do(func() { close(taken) })
	for cut := ctx.Done(); ; cut = nil {
		select {
		case <-taken:
			return
		case <-h.ctx.Done():
			return
		case <-cut:
			if errors.Is(context.Cause(ctx), flow.ErrCancelled) {
				return
			}
		}
	}
}

// record sends the caller the event that a record stands for, if any, and does what
// follows from it.
func (h *host) record(d flow.Draft) {
	h.calls.Appended(h.run, d)
	if e, ok := h.view.Event(flow.Record{Draft: d}); ok {
		h.gates.see(e)
		if e.Terminal() {
			h.last = &e
		} else {
			h.send(e)
		}
	}
	var b tipstaff.GateResolved
	if tipstaff.Kind(d.Kind) != tipstaff.KindPolicyGateResolve || json.Unmarshal(d.Body, &b) != nil {
		return
	}
	h.gates.close(b.Gate)
	if q := h.asking; q != nil && q.ID.String() == b.Gate {
		q.withdraw(&tipstaff.AnsweredElsewhere{By: b.OnBehalfOf, Action: b.Action})
	}
}

// send waits for the reader. One whose context has ended is waited for no longer
// than it takes to be sure that it has left; it may still want the last event.
func (h *host) send(e Event) {
	select {
	case h.events <- e:
		return
	case <-h.ctx.Done():
	}
	if h.gone && !e.Terminal() {
		return
	}
	patience := time.NewTimer(lastEventWait)
	defer patience.Stop()
	select {
	case h.events <- e:
	case <-patience.C:
		h.gone = true
	}
}

// ask puts the next gate to whoever answers it, unless somebody is being asked. An
// answer that comes too late, or because the turn is cancelled, counts for nothing.
func (h *host) ask() {
	if h.asking != nil || h.ctx.Err() != nil {
		return
	}
	g := h.gates.next()
	if g == nil {
		return
	}
	var ctx context.Context
	ctx, g.withdraw = context.WithCancelCause(h.ctx)
	h.asking = g
	go func() {
		defer g.withdraw(nil)
		d, err := h.decision(ctx, g)
		h.do(func() {
			h.asking = nil
			if err == nil || h.ctx.Err() == nil {
				_ = h.log.Decide(h.run, g.ID.String(), d) // it was decided, or the turn is over
			}
		})
	}()
}

// decision is what the approver, or who else is there for it, says to a gate. With
// an error it denies, and says that it failed.
func (h *host) decision(ctx context.Context, g *openGate) (flow.Decision, error) {
	d := flow.Decision{Action: g.Deny, By: cmp.Or(h.cfg.Principal, byApprover), Via: "approver"}
	switch {
	case g.call != nil:
		said, err := h.cfg.Approver.Approve(ctx, *g.call)
		if err != nil {
			d.FailReason, d.Note = CodeApproverFailed, err.Error()
			return d, err
		}
		d.Action = said.Action()
		return d, nil
	case h.cfg.Gates == nil:
		d.By, d.Via, d.Note = byNobody, "unattended", "nobody is there to answer"
		return d, nil
	}
	said, err := h.cfg.Gates(ctx, g.Gate)
	if err == nil && !slices.Contains(g.Actions, said.Action) {
		err = fmt.Errorf("gate %s does not offer %q", g.Key, said.Action)
	}
	if err != nil {
		d.Note = err.Error()
		return d, err
	}
	d.Action, d.Answer, d.Feedback, d.Note, d.Via = said.Action, said.Answer, said.Feedback, said.Note, cmp.Or(said.Via, "gates")
	return d, nil
}

// end gives the session what was said, and the caller the last event.
func (h *host) end(err error) {
	if h.asking != nil {
		h.asking.withdraw(flow.ErrCancelled)
	}
	if s := h.session; len(h.out.Messages) >= len(s.Messages) && Valid(h.out.Messages) == nil {
		// Those of a turn that broke off in the middle are no conversation, and are left out.
		now := time.Now().UTC()
		if s.ID == "" {
			s.ID = tipstaff.NewID(now).String()
		}
		if s.Created.IsZero() {
			s.Created = now
		}
		s.Append(now, h.out.Messages[len(s.Messages):]...)
	}
	if h.last == nil {
		h.last = &Event{Path: "turn", Body: &Failed{Code: flow.CodeInternal, Usage: h.out.Usage, Steps: h.out.Steps,
			Msg: fmt.Sprintf("the turn did not come to its end: %v", err)}}
	}
	h.send(*h.last)
	h.over = true
}

// gateQueue holds the gates of a turn that wait for an answer, and what is known of
// the calls they are about.
type gateQueue struct {
	gates     []*openGate
	calls     map[string]*ToolCallRequest // of the turn, by path
	reached   map[string]bool             // paths of calls that are past the question whether to ask
	untrusted bool                        // a result of the turn came from an open world
}

// openGate is a gate that waits for an answer.
type openGate struct {
	tipstaff.Gate
	call  *ToolCallRequest // of an approval; nil: it is another gate
	index int              // of the call; 0: it is another gate
	due   bool             // no gate can open any more that comes before it

	withdraw context.CancelCauseFunc // of one that somebody is asked about
}

// see takes in an event of the turn.
func (q *gateQueue) see(e Event) {
	switch b := e.Body.(type) {
	case *ToolCallRequest:
		q.calls[e.Path] = b
	case *ApprovalDecided:
		q.reached[e.Path] = true
	case *ToolCallResult:
		q.reached[e.Path] = true
		q.untrusted = q.untrusted || b.Untrusted
	}
}

// open adds a gate. Those about calls stand in the order of the calls, behind the
// others: calls of two steps never wait at once.
func (q *gateQueue) open(r flow.Record) {
	opened, err := tipstaff.OpenedGate(tipstaff.Kind(r.Kind), r.Path, r.Seq, r.At, r.Body)
	if err != nil {
		panic("agent: a gate cannot be read: " + err.Error()) // the engine has just written it
	}
	g := &openGate{Gate: opened}
	if asked := q.calls[g.Path]; g.Kind == tipstaff.Approval && asked != nil {
		call := *asked
		call.Untrusted = q.untrusted
		if seen, err := RequestOf(g.Gate); err == nil { // what was decided by, which may have changed since the model asked
			call.Rule, call.Effect, call.Destructive, call.OpenWorld, call.Facts = seen.Rule, seen.Effect, seen.Destructive, seen.OpenWorld, seen.Facts
		}
		g.call, g.index = &call, call.Index
	}
	q.reached[g.Path] = true
	q.gates = append(q.gates, g)
	slices.SortStableFunc(q.gates, func(a, b *openGate) int { return a.index - b.index })
}

func (q *gateQueue) close(id string) {
	q.gates = slices.DeleteFunc(q.gates, func(g *openGate) bool { return g.ID.String() == id })
}

// rest: the turn does nothing but wait, so that every gate is there.
func (q *gateQueue) rest() {
	for _, g := range q.gates {
		g.due = true
	}
}

// next takes out the gate to be asked about; nil: there is none yet. Gates of calls
// that are made together open in any order, and are asked about in that of the
// calls: one waits while a call before it may still come to be asked about.
func (q *gateQueue) next() *openGate {
	if len(q.gates) == 0 {
		return nil
	}
	g := q.gates[0]
	if g.call != nil && !g.due {
		for path, c := range q.calls {
			if c.Step == g.call.Step && c.Index < g.index && !q.reached[path] {
				return nil
			}
		}
	}
	q.gates = q.gates[1:]
	return g
}

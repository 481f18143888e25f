package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

const (
	// farewell is how long a reader whose context has ended may take to take an
	// event.
	farewell = 100 * time.Millisecond
	// toolGrace is how long a tool may take to end itself when the turn is cancelled.
	toolGrace = 2 * time.Second
)

// Run takes one turn of a session on the engine in memory, and tells what happens
// in it. What is wrong with the configuration or the session is returned at once,
// before anything is done; all else arrives as events.
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
	h := newHost(ctx, cfg, sess, userMessage, tipstaff.NewID(time.Now()).String())
	go h.drive()
	go h.serve()
	return h.events, nil
}

// drive takes the turn, and reports its end.
func (h *host) drive() {
	defer context.AfterFunc(h.ctx, h.cancel)()
	defer h.log.Watch(h.run, func(r flow.Record) { h.inbox.put(flow.Record{Draft: r.Draft}) })()
	// The caller's context does not stop the drive: a turn that is cancelled comes to
	// its end in good order.
	out, err := flow.New(openings{h.log, h.inbox}, &flow.Options{Grace: toolGrace}).Drive(context.WithoutCancel(h.ctx), h.job())
	if out.Reason == "panic" {
		panic(fmt.Sprintf("agent: the turn panicked: %v", out.Err))
	}
	if err == nil && !out.Terminal() {
		err = cmp.Or(out.Err, fmt.Errorf("it is %s", out.Status))
	}
	h.inbox.put(over{err})
}

// cancel asks the drive to end the turn. If that comes too late it has ended.
func (h *host) cancel() {
	_ = h.log.Write(h.run, flow.Draft{Kind: string(tipstaff.KindRunCancelRequested),
		Body: flow.JSON(map[string]any{"mode": "cancel", "deadline": time.Now().Add(toolGrace).UTC()})})
}

func (h *host) job() flow.Job {
	acts := map[string]flow.Activity{
		CatalogActivity:   bare(CatalogCall(h.shelf.list)),
		ModelActivity:     h.inStep(bare(ModelCall(h.cfg.Model))),
		tool.ActivityName: h.inStep(h.toolCall()),
	}
	if h.cfg.Router != nil {
		acts[RouterActivity] = h.inStep(bare(RouterCall(h.cfg.Router, h.shelf.listed)))
	}
	for name, act := range acts {
		acts[name] = h.within(act)
	}
	return flow.Job{Run: h.run, Root: "turn", Acts: acts,
		Flow: func(fc flow.Context, _ json.RawMessage) (_ json.RawMessage, err error) {
			h.out, err = Turn(fc, h.cfg, Input{Session: h.session.ID, History: slices.Clone(h.session.Messages), Message: h.message})
			return nil, err
		},
		Tell:     func(d flow.Draft) { h.inbox.put(flow.Record{Draft: d}) },
		Appended: h.appended,
		Linger:   -1, Hopeless: h.waits,
	}
}

// openings is the log of a turn, which says when a gate is there to be decided: what
// is handed to a log may be on its way.
type openings struct {
	*flow.Mem
	inbox *inbox
}

func (o openings) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	o.Mem.Append(l, drafts, func(err error) {
		for _, d := range drafts {
			if err == nil && tipstaff.Kind(d.Kind) == tipstaff.KindPolicyGate {
				o.inbox.put(opened{Draft: d, At: time.Now().UTC()})
			}
		}
		done(err)
	})
}

// bare takes an activity out of the engine's care: a panic in it ends the program,
// on the stack where it happened.
func bare(act flow.Activity) flow.Activity {
	type returned struct {
		done flow.Done
		err  error
	}
	run := act.Run
	act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		back := make(chan returned, 1)
		go func() {
			defer close(back)
			done, err := run(ctx, a)
			back <- returned{done, err}
		}()
		r, ok := <-back
		if !ok {
			return flow.Done{}, fmt.Errorf("agent: %s has ended its goroutine", a.Name)
		}
		return r.done, r.err
	}
	return act
}

// within gives an activity what the caller's context carries. When it ends is the
// engine's to say.
func (h *host) within(act flow.Activity) flow.Activity {
	run := act.Run
	act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return run(valued{ctx, h.ctx}, a) }
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

// inStep keeps an activity from running ahead of the caller: it starts when the
// events so far were taken, and not at all when the caller has left.
func (h *host) inStep(act flow.Activity) flow.Activity {
	act.Check = func(ctx context.Context, _ flow.Attempt) error {
		h.caughtUp(ctx)
		return nil
	}
	run := act.Run
	act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		if h.ctx.Err() != nil {
			<-ctx.Done() // the cancel is on its way
			return flow.Done{}, unsent(ctx)
		}
		return run(ctx, a)
	}
	return act
}

// caughtUp waits until the caller has taken what was reported, or the turn is
// cancelled. A slow reader takes nothing from the time that a call has.
func (h *host) caughtUp(ctx context.Context) {
	told := make(barrier)
	h.inbox.put(told)
	for cut := ctx.Done(); ; cut = nil {
		select {
		case <-told:
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

// serve takes reports until the drive is over.
func (h *host) serve() {
	defer close(h.events)
	for {
		for _, report := range h.inbox.take() {
			switch r := report.(type) {
			case flow.Record:
				h.record(r)
			case barrier:
				close(r)
			case opened:
				h.waiting.open(flow.Record(r))
			case atRest:
				h.waiting.rest()
			case answered:
				h.answer(r)
			case over:
				h.end(r.err)
				return
			}
			h.ask()
		}
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
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	select {
	case h.events <- e:
	case <-patience.C:
		h.gone = true
	}
}

// ask puts the next gate to whoever answers it, unless somebody is being asked.
func (h *host) ask() {
	if h.asking != nil || h.ctx.Err() != nil {
		return
	}
	g := h.waiting.next()
	if g == nil {
		return
	}
	ctx, withdraw := context.WithCancelCause(h.ctx)
	q := &question{g, withdraw}
	h.asking = q
	go func() {
		defer withdraw(nil)
		d, err := h.decision(ctx, g)
		h.inbox.put(answered{q, d, err != nil})
	}()
}

// end gives the session what was said, and the caller the last event.
func (h *host) end(err error) {
	if h.asking != nil {
		h.asking.withdraw(flow.ErrCancelled)
	}
	h.keep()
	h.calls.Flush()
	if h.last == nil {
		h.last = &Event{Path: "turn", Body: &Failed{Code: flow.CodeInternal, Usage: h.out.Usage, Steps: h.out.Steps,
			Msg: fmt.Sprintf("the turn did not come to its end: %v", err)}}
	}
	h.send(*h.last)
}

// keep puts the turn's messages into the session. Those of a turn that broke off in
// the middle are no conversation, and are left out.
func (h *host) keep() {
	s := h.session
	if len(h.out.Messages) < len(s.Messages) || Valid(h.out.Messages) != nil {
		return
	}
	now := time.Now().UTC()
	if s.ID == "" {
		s.ID = tipstaff.NewID(now).String()
	}
	if s.Created.IsZero() {
		s.Created = now
	}
	s.Append(now, h.out.Messages[len(s.Messages):]...)
}

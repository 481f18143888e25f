package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Ask puts one gate to somebody. It returns false when there is no answer. ctx ends
// when the question is withdrawn; if somebody else has answered, its cause is
// [*AnsweredElsewhere].
type Ask func(ctx context.Context, g Gate) (Choice, bool)

// Choice is somebody's answer to a gate.
type Choice struct {
	Via      string // "": terminal
	Action   string
	Answer   json.RawMessage
	Feedback string
	Note     string

	// Refused is told why the answer was not accepted; if the gate is still open it is
	// then asked about again. nil: it is deferred, because whoever answers so would only
	// answer the same again.
	Refused func(error)
}

// AnsweredElsewhere is why a question is withdrawn that somebody else has answered.
type AnsweredElsewhere struct{ By, Action string }

func (a *AnsweredElsewhere) Error() string {
	return fmt.Sprintf("already answered by %s: %s", a.By, a.Action)
}

// Attendable is what [Attend] needs of a Service.
type Attendable interface {
	Reader
	Decider
}

// How often an attended run is looked at when nothing is heard of it. The records of a
// child do not stand in its parent's journal, so it is looked after more often.
const (
	attendEvery    = time.Second
	attendChildren = 200 * time.Millisecond
)

// Attend puts the open gates of a run, and of the runs that it has started, to ask,
// one at a time, and hands in the answers, until nobody drives the run or ctx ends. A
// gate without an answer is deferred, and not asked about again; one whose answer is
// refused is asked about again if [Choice.Refused] says so.
func Attend(ctx context.Context, svc Attendable, run ID, ask Ask) error {
	asking := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	begun, err := svc.Get(ctx, run)
	if err != nil {
		return err
	}
	a := &attendant{asking: asking, svc: svc, run: run, ask: ask, asked: map[ID]bool{}, changed: make(chan struct{}, 1)}
	followed := make(chan error, 1)
	go func() {
		defer stop()
		followed <- a.follow(ctx, begun.HeadSeq)
	}()
	for ctx.Err() == nil {
		gates, children, err := a.open(ctx, run)
		if err != nil && ctx.Err() == nil {
			stop()
			<-followed
			return err
		}
		again := false
		for _, g := range gates {
			if ctx.Err() == nil && !a.asked[g.ID] {
				again = true
				if a.asked[g.ID] = a.put(ctx, g); !a.asked[g.ID] {
					break // whoever was refused is asked about the same gate next
				}
			}
		}
		if !again { // else much may have changed meanwhile
			a.pause(ctx, children)
		}
	}
	return <-followed
}

// attendant is one that attends a run.
type attendant struct {
	asking  context.Context // outlasts the run's drive: whoever is asked is told why they are asked no longer
	svc     Attendable
	run     ID
	ask     Ask
	asked   map[ID]bool   // about which nobody is asked again
	changed chan struct{} // holds one while a gate was opened or closed, or a child made
}

// openGate is a gate with the run that asks.
type openGate struct {
	Gate
	run ID
}

// follow tells of changes after a record, until nobody drives the run. What is open by
// then is seen without it.
func (a *attendant) follow(ctx context.Context, after int64) error {
	for e, err := range a.svc.Events(ctx, EventsRequest{Run: a.run, After: after, Follow: true}) {
		if err != nil {
			return err
		}
		if flow.Opens(string(e.Kind)) || flow.Closes(string(e.Kind)) || e.Kind == KindIntentDispatch {
			select {
			case a.changed <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// pause is until something has changed.
func (a *attendant) pause(ctx context.Context, children bool) {
	every := attendEvery
	if children {
		every = attendChildren
	}
	select {
	case <-ctx.Done():
	case <-a.changed:
	case <-time.After(every):
	}
}

// open are the gates of a run, and of the unfinished runs that it has started.
func (a *attendant) open(ctx context.Context, id ID) (gates []openGate, children bool, err error) {
	run, err := a.svc.Get(ctx, id)
	if err != nil {
		return nil, false, err
	}
	for _, g := range run.OpenGates {
		gates = append(gates, openGate{g, id})
	}
	if run.Lineage == nil || run.State.Terminal() {
		return gates, false, nil
	}
	for _, child := range run.Lineage.Children {
		below, _, err := a.open(ctx, child)
		if CodeOf(err) == RunNotFound {
			err = nil // it was announced and not made yet
		}
		if err != nil {
			return gates, true, err
		}
		gates = append(gates, below...)
	}
	return gates, len(run.Lineage.Children) > 0, nil
}

// put puts one gate to whoever answers, and hands the answer in. It reports false if the
// gate is to be asked about again.
func (a *attendant) put(ctx context.Context, g openGate) (done bool) {
	asking, withdraw := context.WithCancelCause(a.asking)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(ctx, asking, g, withdraw)
	}()
	choice, ok := a.ask(asking, g.Gate)
	withdraw(nil)
	<-watched
	switch {
	case ctx.Err() != nil:
		return true
	case !ok:
		_ = a.svc.Defer(ctx, g.run, g.ID) // else it parks later
		return true
	}
	_, err := a.svc.Decide(ctx, DecideRequest{Run: g.run, Gate: g.ID.String(), Action: choice.Action, Answer: choice.Answer,
		Feedback: choice.Feedback, Note: choice.Note, Via: cmp.Or(choice.Via, "terminal")})
	switch elsewhere := CodeOf(err) == DecisionConflict; {
	case err == nil || ctx.Err() != nil:
		return true
	case choice.Refused != nil:
		choice.Refused(err)
		return elsewhere
	case !elsewhere:
		_ = a.svc.Defer(ctx, g.run, g.ID)
	}
	return true
}

// watch withdraws a question when its gate is closed by somebody else, or nobody drives the
// run any longer.
func (a *attendant) watch(driven, asking context.Context, g openGate, withdraw context.CancelCauseFunc) {
	waiting, stop := context.WithCancel(asking)
	defer stop()
	defer context.AfterFunc(driven, stop)()
	for over := false; !over && asking.Err() == nil; {
		a.pause(waiting, g.run != a.run)
		over = driven.Err() != nil
		run, err := a.svc.Get(asking, g.run)
		if err == nil && !slices.ContainsFunc(run.OpenGates, func(o Gate) bool { return o.ID == g.ID }) {
			withdraw(AnsweredBy(asking, a.svc, g.run, g.Gate))
			return
		}
	}
	withdraw(nil)
}

// AnsweredBy is who has closed a gate, and how, as an [*AnsweredElsewhere]; nil: it was
// closed by the end of its run.
func AnsweredBy(ctx context.Context, svc Reader, run ID, g Gate) error {
	for e, err := range svc.Events(ctx, EventsRequest{Run: run, After: g.OpenedSeq}) {
		if err != nil {
			return err
		}
		if !flow.Closes(string(e.Kind)) {
			continue
		}
		if b, err := flow.ReadResolved(string(e.Kind), e.Body); err == nil && b.Gate == g.ID.String() {
			return &AnsweredElsewhere{By: cmp.Or(b.OnBehalfOf, "local:cli"), Action: b.Action}
		}
	}
	return nil
}

package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Kinds of a [WatchTrigger] beside the modes that fire by themselves.
const (
	WatchEnd         = "end"
	WatchGate        = "gate"
	WatchInterrupted = "interrupted"
	WatchResume      = "resume_needed" // nothing happens by itself
	WatchTimeout     = "timeout"
)

// Limits of what a watch tells.
const (
	watchedEvents   = 5
	watchedText     = 256
	watchedGates    = 20
	watchedFindings = 5
	watchedValue    = 1 << 10 // bytes of a text in the subject of a gate of a summary
	watchedMessage  = 200
	// watchedEvery keeps progress, with the last message, at four a second.
	watchedEvery = 334 * time.Millisecond
	// watchedAgain is how often a run is looked at of which nothing is heard: an owner that
	// dies records nothing.
	watchedAgain = time.Second
)

// WatchModes are the modes of a [WatchRequest].
func WatchModes() []string {
	return []string{UntilEvent, UntilStage, UntilStep, UntilGateOrEnd, UntilEnd, UntilDecision}
}

// Watch waits until something happens in a run that its mode is about, or that needs
// somebody. tell is given, if it is not nil, how far the run has come: rising, at most four
// times a second, and once before Watch returns. It changes nothing: a watch that is lost
// says nothing about the run.
func (c Control) Watch(ctx context.Context, req WatchRequest, tell func(seq int64, message string)) (Watched, error) {
	timeout := cmp.Or(req.TimeoutS, 45)
	req.Until = cmp.Or(req.Until, UntilGateOrEnd)
	switch {
	case timeout < 1 || timeout > 3600:
		return Watched{}, Errorf(InvalidArgument, "timeout_s is %d: it is from 1 to 3600", timeout)
	case req.After < 0:
		return Watched{}, Errorf(InvalidArgument, "after_seq is %d: records are counted from 1", req.After)
	case !slices.Contains(WatchModes(), req.Until):
		return Watched{}, Errorf(InvalidArgument, "there is no mode %s: choose from %s", Quote(req.Until, 100), strings.Join(WatchModes(), ", "))
	}
	w := &watch{Control: c, ctx: ctx, req: req, tell: tell, seen: req.After, summary: WatchSummary{ByKind: map[string]int{}, Last: []WatchedEvent{}}}
	return w.until(time.Duration(timeout) * time.Second)
}

type watch struct {
	Control
	ctx  context.Context
	req  WatchRequest
	tell func(int64, string)

	run     Run    // as it was when it was looked at last
	before  string // the stage or step at the cursor
	waited  []ID   // with [UntilDecision]: gates that were undecided at the cursor, or when the watch began if it has none
	from    int64  // that place
	decided bool   // one of the run's own gates was, after it
	seen    int64  // the last record that the summary counts
	summary WatchSummary

	told   int64 // the last seq that was told
	toldAt time.Time
	text   string // what it did last
}

// until looks at the run, and again whenever there is news, until something fires.
func (w *watch) until(timeout time.Duration) (got Watched, err error) {
	// The records come from here on, so that none falls between a look and the wait.
	if w.run, err = w.Runs.Get(w.ctx, w.req.Run); err != nil {
		return got, err
	}
	if w.req.After > w.run.HeadSeq {
		return got, Errorf(CursorBeyondHead, "run %s has %d records: there is none after %d", w.run.ID, w.run.HeadSeq, w.req.After)
	}
	if w.before, err = w.placeAt(w.req.After); err != nil {
		return got, err
	}
	if err = w.noteGates(); err != nil {
		return got, err
	}
	if trigger, err := w.test(); err != nil || trigger != nil {
		return w.answer(trigger, err)
	}
	if !w.wantsSummary() {
		w.seen = w.run.HeadSeq
	}
	following, stop := context.WithTimeout(w.ctx, timeout)
	defer stop()
	events := w.follow(following)
	again := time.NewTicker(watchedAgain)
	defer again.Stop()
	for {
		look, over := false, false
		select {
		case e, ok := <-events:
			switch {
			case !ok: // the run has ended
				look, events = true, nil
			case e.err != nil:
				if following.Err() == nil {
					return got, e.err
				}
				events = nil
			default:
				look = w.take(e.Event)
			}
			for more := true; more && events != nil; { // what has come meanwhile is one wake-up
				select {
				case e, ok := <-events:
					if more = ok && e.err == nil; more {
						look = w.take(e.Event) || look
					} else {
						look, events = true, nil
					}
				default:
					more = false
				}
			}
		case <-again.C:
			look = true
		case <-following.Done():
			if w.ctx.Err() != nil {
				return got, context.Cause(w.ctx)
			}
			look, over = true, true
		}
		if !look {
			continue
		}
		if w.run, err = w.Runs.Get(w.ctx, w.req.Run); err != nil {
			return got, err
		}
		trigger, err := w.test()
		if over && trigger == nil && err == nil {
			trigger = &WatchTrigger{Kind: WatchTimeout, Reason: fmt.Sprintf("it did not happen within %s", timeout)}
		}
		if err != nil || trigger != nil {
			return w.answer(trigger, err)
		}
	}
}

type watchedRecord struct {
	Event
	err error
}

// follow reads the records after those that were seen.
func (w *watch) follow(ctx context.Context) <-chan watchedRecord {
	events := make(chan watchedRecord, 64)
	go func() {
		defer close(events)
		for e, err := range w.Runs.Events(ctx, EventsRequest{Run: w.req.Run, After: w.seen, Follow: true, Stay: true}) {
			if err == nil && e.Seq == 0 {
				continue // it counts for no cursor
			}
			select {
			case events <- watchedRecord{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

func (w *watch) wantsSummary() bool { return w.req.Summary == nil || *w.req.Summary }

// take counts a record, and reports whether the run has to be looked at because of it.
func (w *watch) take(e Event) bool {
	w.count(&e)
	w.decided = w.decided || e.Kind.ClosesGate() && e.Seq > w.from
	if w.Now().Sub(w.toldAt) >= watchedEvery {
		w.say(e.Seq)
	}
	switch w.req.Until {
	case UntilGateOrEnd, UntilEnd, UntilDecision:
		return e.Kind.Envelope() || aboutOwner(e.Kind)
	}
	return true
}

// aboutOwner reports whether a record says who drives a run.
func aboutOwner(k Kind) bool {
	switch k {
	case KindRunQueued, KindRunStarted, KindRunResumed, KindRunParked, KindRunInterrupted:
		return true
	}
	return false
}

func (w *watch) count(e *Event) {
	w.seen = e.Seq
	w.summary.ByKind[string(e.Kind)]++
	if len(w.summary.Last) == watchedEvents {
		w.summary.Last = slices.Delete(w.summary.Last, 0, 1)
	}
	w.summary.Last = append(w.summary.Last, WatchedEvent{Seq: e.Seq, Kind: e.Kind, Path: e.Path, Text: cutText(eventText(e), watchedText-1)})
	w.text = Joined(" ", string(e.Kind), e.Path)
}

// say tells how far the run has come, if it has come further.
func (w *watch) say(seq int64) {
	if w.tell == nil || seq <= w.told {
		return
	}
	w.told, w.toldAt = seq, w.Now()
	w.tell(seq, cutText(Printable(Joined(": ", w.run.Status, w.text)), watchedMessage-1))
}

// eventText is what a record says in words, if it does.
func eventText(e *Event) string {
	text := ""
	switch e.Kind {
	case KindAgentMessage:
		text = BodyOf[AgentMessage](e).Text
	case KindAgentToolCallRequest:
		text = BodyOf[AgentToolCallRequest](e).Name
	case KindAgentToolCallResult:
		text = BodyOf[AgentToolCallResult](e).Content
	case KindPlanStep:
		b := BodyOf[PlanStep](e)
		if text = b.Status; b.Error != nil {
			text = Joined(": ", text, cmp.Or(b.Error.Code, b.Error.Reason), b.Error.Message)
		}
	case KindStageFinished:
		b := BodyOf[StageFinished](e)
		text = Joined(": ", b.Outcome, b.Code, b.Error)
	case KindStageRetrying:
		b := BodyOf[StageRetrying](e)
		text = Joined(": ", b.Code, b.Error)
	case KindTransition:
		b := BodyOf[Transitioned](e)
		text = fmt.Sprintf("%s to %s: %s", b.From, b.To, b.Reason)
	case KindFindingRecorded:
		b := BodyOf[FindingRecorded](e)
		text = Joined(" ", b.Severity, b.Title)
	case KindPolicyGate:
		text = BodyOf[GateOpened](e).Question
	case KindPolicyGateResolve:
		b := BodyOf[GateResolved](e)
		text = Joined(": ", b.Action, b.Note)
	case KindRunInterrupted:
		text = BodyOf[RunInterrupted](e).Reason
	case KindIntentAttest:
		text = BodyOf[IntentAttest](e).Outcome
	case KindIntentFail:
		b := BodyOf[IntentFail](e)
		text = Joined(": ", cmp.Or(b.Code, b.Reason), b.Message)
	case KindIntentCancel:
		text = BodyOf[IntentCancel](e).Reason
	}
	return Printable(text)
}

// test is what fires, if anything does: the first in this order.
func (w *watch) test() (*WatchTrigger, error) {
	run, mode := w.run, w.req.Until
	if run.State.Terminal() {
		return &WatchTrigger{Kind: WatchEnd, Seq: run.HeadSeq, Reason: Joined(": ", "it is "+string(run.State), failureText(run.Error))}, nil
	}
	asked, err := w.asked(run)
	if err != nil {
		return nil, err
	}
	if mode != UntilEnd {
		owned := run.Condition == Running || run.Status == StatusQueued
		for _, g := range asked {
			own := g.Run == run.ID
			fires := mode == UntilGateOrEnd || !owned || own && g.OpenedSeq > w.req.After
			if mode == UntilDecision {
				fires = !slices.Contains(w.waited, g.ID)
			}
			if fires {
				seq := g.OpenedSeq
				if !own {
					seq = run.HeadSeq
				}
				return &WatchTrigger{Kind: WatchGate, Seq: seq, Reason: cutText("it asks: "+g.Question, watchedText)}, nil
			}
		}
	}
	switch {
	case run.Status == StatusInterrupted:
		return &WatchTrigger{Kind: WatchInterrupted, Seq: run.HeadSeq, Reason: "nobody drives it any more"}, nil
	case run.Status == StatusAwaitingResume && len(asked) == 0:
		return &WatchTrigger{Kind: WatchResume, Seq: run.HeadSeq, Reason: "it waits to be resumed: nothing more happens by itself"}, nil
	}
	switch mode {
	case UntilDecision:
		still := func(id ID) bool { return slices.ContainsFunc(asked, func(g AskedGate) bool { return g.ID == id }) }
		if len(asked) == 0 {
			return &WatchTrigger{Kind: UntilDecision, Seq: run.HeadSeq, Reason: "nothing waits for a decision"}, nil
		}
		if w.decided || slices.ContainsFunc(w.waited, func(id ID) bool { return !still(id) }) {
			return &WatchTrigger{Kind: UntilDecision, Seq: run.HeadSeq, Reason: fmt.Sprintf("a gate was decided; %d are still open", len(asked))}, nil
		}
	case UntilEvent:
		if run.HeadSeq > w.req.After {
			return &WatchTrigger{Kind: UntilEvent, Seq: w.req.After + 1, Reason: "there is a later record"}, nil
		}
	case UntilStage, UntilStep:
		if now := w.place(run.Stage, run.Step); now != w.before {
			return &WatchTrigger{Kind: mode, Seq: run.HeadSeq, Reason: fmt.Sprintf("it is at %s, and was at %s", cmp.Or(now, "its beginning"), cmp.Or(w.before, "its beginning"))}, nil
		}
	}
	return nil, nil
}

func failureText(f *Failure) string {
	if f == nil {
		return ""
	}
	return cutText(Joined(": ", cmp.Or(f.Code, f.Reason), f.Message), watchedText)
}

// asked are the undecided gates of a run and of those that it has dispatched.
func (w *watch) asked(run Run) ([]AskedGate, error) {
	d := &diagnosis{ctx: w.ctx, r: w.Runs}
	return d.gates(run)
}

// noteGates notes what waits for a decision at the cursor.
func (w *watch) noteGates() error {
	if w.req.Until != UntilDecision {
		return nil
	}
	w.from = cmp.Or(w.req.After, w.run.HeadSeq)
	asked, err := w.asked(w.run)
	for _, g := range asked {
		if g.Run != w.run.ID || g.OpenedSeq <= w.from {
			w.waited = append(w.waited, g.ID)
		}
	}
	return err
}

func (w *watch) place(stage, step string) string {
	if w.req.Until == UntilStage {
		return stage
	}
	return step
}

// placeAt is the stage or step that the run was at when it had come to a record. It reads
// back no further than it has to.
func (w *watch) placeAt(seq int64) (string, error) {
	if w.req.Until != UntilStage && w.req.Until != UntilStep {
		return "", nil
	}
	for window := int64(64); ; window *= 8 {
		f, from := Fold{}, max(0, seq-window)
		f.Seq = from
		if seq > from {
			for e, err := range w.Runs.Events(w.ctx, EventsRequest{Run: w.req.Run, After: from, Limit: int(seq - from)}) {
				if err != nil {
					return "", err
				}
				f.Apply(&e)
			}
		}
		if at := w.place(f.Stage, f.Step); at != "" || from == 0 {
			return at, nil
		}
	}
}

// answer completes the summary up to the record that the run was looked at with, which is
// the cursor of the next watch.
func (w *watch) answer(trigger *WatchTrigger, err error) (Watched, error) {
	got := Watched{Run: w.run.ID}
	if err != nil {
		return got, err
	}
	if w.wantsSummary() && w.seen < w.run.HeadSeq {
		for e, err := range w.Runs.Events(w.ctx, EventsRequest{Run: w.req.Run, After: w.seen, Limit: int(w.run.HeadSeq - w.seen)}) {
			if err != nil {
				return got, err
			}
			w.count(&e)
		}
	}
	got.Triggered, got.Trigger, got.Status, got.Last = trigger.Kind != WatchTimeout, *trigger, w.run.Status, w.run.HeadSeq
	asked, err := w.asked(w.run)
	if err != nil {
		return got, err
	}
	got.Asked = asked
	for _, g := range asked[:min(len(asked), watchedGates)] {
		got.Gates = append(got.Gates, briefGate(g.Gate))
	}
	if w.wantsSummary() {
		w.summary.Status, w.summary.Stage, w.summary.Step, w.summary.Bounds = w.run.Status, w.run.Stage, w.run.Step, w.run.Bounds
		w.summary.OpenGates = []Gate{}
		for _, g := range got.Gates {
			g.Shown = nil // it is with the gates
			w.summary.OpenGates = append(w.summary.OpenGates, g)
		}
		got.Summary = &w.summary
	}
	if got.Next, err = w.next(w.ctx, w.run); err != nil {
		return got, err
	}
	w.say(w.run.HeadSeq)
	return got, nil
}

// briefGate is a gate with the worst of its findings, and the beginnings of long texts. What
// is shown of it stays.
func briefGate(g Gate) Gate {
	var subject map[string]json.RawMessage
	var findings []struct {
		Stage string `json:"stage,omitempty"`
		Visit int64  `json:"visit,omitempty"`
		StageFinding
	}
	if json.Unmarshal(g.Subject, &subject) == nil && json.Unmarshal(subject["findings"], &findings) == nil && len(findings) > 0 {
		subject["total"] = json.RawMessage(strconv.Itoa(len(findings)))
		sort.SliceStable(findings, func(i, k int) bool { return worse(findings[i].Severity, findings[k].Severity) })
		findings = findings[:min(len(findings), watchedFindings)]
		for i, f := range findings {
			f.Title, f.Body, f.RequiredFix = cutText(f.Title, 159), cutText(f.Body, 299), cutText(f.RequiredFix, 239)
			findings[i] = f
		}
		subject["findings"], _ = json.Marshal(findings) // texts and numbers always can be
		if brief, err := json.Marshal(subject); err == nil {
			g.Subject = brief
		}
	}
	g.Subject = cutStrings(g.Subject, watchedValue)
	return g
}

// worse compares severities; one that is not known comes last.
func worse(a, b string) bool {
	x, y := severity(a), severity(b)
	return x >= 0 && (y < 0 || x < y)
}

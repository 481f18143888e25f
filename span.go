package tipstaff

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Span is something in a run that took time: what a [View] keeps of its calls, steps,
// visits of stages and gates, for the panel of a node and for the [Timeline]. A long run
// has many, so it is small: what is large stands in the records that it names.
type Span struct {
	Path     string // of a gate its key
	Name     string // what is called; of a gate its kind
	Kind     SpanKind
	calling  bool   // an attempt is under way
	broken   bool   // its drive ended first
	segment  uint16 // of the run's history: part of the idempotency key
	Attempt  uint16 // the last; 0: nothing was called
	State    NodeState
	Class    flow.Class // "": not recorded
	from, to int64      // nanoseconds; 0: it has not begun, it has not ended
	First    int64      // its first and its last record
	Last     int64
	Cost     USD
	digest   [32]byte
	Approval *Approved // of a call; nil: nobody was asked
	more     *SpanMore
}

// SpanKind says what a span is.
type SpanKind uint8

const (
	SpanCall SpanKind = iota
	SpanStep          // of a plan, which may make calls
	SpanVisit
	SpanGate
)

// SpanMore is what few spans have.
type SpanMore struct {
	Tries []Try // attempts before the last
	Child ID    // the run that it has dispatched
	// Of a gate: its id, what it asks, and what was decided by whom.
	Gate, Question, Action, By string
}

// Try is an attempt that was not the last.
type Try struct {
	From, To time.Time
	Code     string    // of its error; "": its drive ended first
	Next     time.Time // when the next one was to begin; zero: not recorded
}

// Approved is why a call was allowed, or was not.
type Approved struct{ Decision, By, Rule, Gate string }

// maxAsked is how much of a question a span keeps.
const maxAsked = 200

func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// Started is when the last attempt began; zero: none has.
func (s *Span) Started() time.Time { return moment(s.from) }

// Ended is when it ended; zero: it has not.
func (s *Span) Ended() time.Time { return moment(s.to) }

// More is what few spans have.
func (s *Span) More() SpanMore {
	if s.more == nil {
		return SpanMore{}
	}
	return *s.more
}

// Copy is the span as it is now, while the view goes on.
func (s *Span) Copy() Span {
	c := *s
	if s.more != nil {
		more := *s.more
		more.Tries = slices.Clone(more.Tries)
		c.more = &more
	}
	if s.Approval != nil {
		approval := *s.Approval
		c.Approval = &approval
	}
	return c
}

// Digest is that of a call's name and input; "": it has none.
func (s *Span) Digest() string {
	if s.digest == [32]byte{} {
		return ""
	}
	return "sha256:" + hex.EncodeToString(s.digest[:])
}

// IdempotencyKey is what every attempt of a call carries.
func (s *Span) IdempotencyKey(run ID) string {
	return flow.IdempotencyKey(run.String(), s.Path, int(s.segment))
}

// Spans are what happened in a node, in the order in which it began; of a stage, in all its
// visits.
func (n *Node) Spans() []*Span { return n.spans }

func (s *Span) rest() *SpanMore {
	if s.more == nil {
		s.more = new(SpanMore)
	}
	return s.more
}

// span is the one that goes on at a path, or a new one.
func (v *View) span(e *Event, path string, kind SpanKind) *Span {
	s := v.spans[path]
	over := s != nil && s.to != 0 && !s.broken
	if s == nil || over && (e.Kind == KindEffectIntended || e.Kind.OpensGate() || e.Kind == KindStageStarted || int(s.segment) != v.segment&math.MaxUint16) {
		s = &Span{Path: path, Kind: kind, First: e.Seq, segment: uint16(v.segment)}
		v.spans[path], v.open[s] = s, true
		if n := v.home(path); n != nil {
			n.spans = append(n.spans, s)
			if kind != SpanGate && v.unvisited(path) == n.Path {
				n.call = s
			}
		}
	}
	s.Last = e.Seq
	return s
}

// unvisited is a path without the visit of its stage.
func (v *View) unvisited(path string) string {
	first, rest, deeper := strings.Cut(path, "/")
	name, _, visited := strings.Cut(first, "#")
	switch {
	case !v.pipeline || !visited:
		return path
	case deeper:
		return name + "/" + rest
	}
	return name
}

// home is the node that something at a path belongs to; nil: there is none.
func (v *View) home(path string) *Node {
	if ofDelivery(path) {
		return v.byPath[deliveryPath]
	}
	for path = v.unvisited(path); path != ""; path = parentPath(path) {
		if n := v.byPath[path]; n != nil {
			return n
		}
	}
	return nil
}

func (v *View) endSpan(s *Span, at time.Time, state NodeState) {
	if s.to == 0 {
		s.to = at.UnixNano()
	}
	s.State, s.calling, s.broken = state, false, false
	delete(v.open, s)
}

// again puts the attempt that was under way among those before.
func (s *Span) again(at time.Time, code string, next time.Time) {
	if s.from != 0 {
		if s.to == 0 {
			s.to = at.UnixNano()
		}
		m := s.rest()
		m.Tries = append(m.Tries, Try{moment(s.from), moment(s.to), code, next})
	}
	s.from, s.to, s.calling, s.broken = 0, 0, false, false
}

// applySpan follows calls, steps, visits and gates.
func (v *View) applySpan(e *Event, call *Effect) {
	switch e.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		v.spanCall(e, call)
	case KindPlanStep:
		v.spanStep(e, BodyOf[PlanStep](e))
	case KindStageStarted:
		s := v.span(e, e.Path, SpanVisit)
		if s.from == 0 {
			s.from = e.At.UnixNano()
		}
		s.State = NodeRunning
	case KindStageRetrying:
		b := BodyOf[StageRetrying](e)
		s := v.span(e, e.Path, SpanVisit)
		next := e.At.Add(time.Duration(b.DelayMs) * time.Millisecond)
		s.again(e.At, v.same(b.Code), next)
		s.State = NodePending
	case KindStageFinished:
		if state, ok := stageOutcomes[BodyOf[StageFinished](e).Outcome]; ok {
			s := v.span(e, e.Path, SpanVisit)
			s.to = 0
			v.endSpan(s, e.At, state)
		}
	case KindIntentDispatch:
		v.span(e, e.Path, SpanCall).rest().Child = BodyOf[IntentDispatch](e).Child
	case KindAgentToolCallRequest:
		if b := BodyOf[AgentToolCallRequest](e); b.Invocation == "" {
			v.span(e, e.Path, SpanCall).Name = v.same(b.Title())
		}
	case KindAgentApprovalDecided:
		if b := BodyOf[AgentApprovalDecided](e); b.Invocation == "" {
			v.approved(v.span(e, e.Path, SpanCall), e.At, Approved{b.Decision, b.By, b.Rule, b.Gate})
		}
	case KindPolicyGate, KindIntentClarify:
		v.spanGate(e)
	case KindIntentAnswer, KindIntentAccept, KindPolicyGateResolve:
		v.gateClosed(e)
	}
}

func (v *View) spanCall(e *Event, b *Effect) {
	if slices.Contains(agentActivities, b.Name) && parentPath(e.Path) != "" || b.Name == "stage.begin" {
		return
	}
	s := v.span(e, e.Path, SpanCall)
	if s.Name == "" {
		s.Name = v.same(b.Name)
	}
	if b.Class != "" {
		s.Class = flow.Class(v.same(string(b.Class)))
	}
	if sum, found := strings.CutPrefix(b.Digest, "sha256:"); found && len(sum) == 2*len(s.digest) {
		_, _ = hex.Decode(s.digest[:], []byte(sum))
	}
	s.Attempt = uint16(min(max(b.Attempt, 1), math.MaxUint16))
	switch {
	case e.Kind == KindEffectIntended:
		if s.broken || s.calling { // the drive of the last one ended first
			s.again(v.lastSeen, "", time.Time{})
		}
		if s.from == 0 || s.Kind == SpanCall {
			s.from = e.At.UnixNano()
		}
		s.State, s.calling = NodeRunning, true
	case e.Kind == KindEffectFailed:
		if s.from == 0 {
			s.from = e.At.Add(-b.Took()).UnixNano()
		}
		code := ""
		if b.Error != nil {
			code = v.same(b.Error.Code)
		}
		s.again(e.At, code, b.RetryAt.Time)
		s.State = NodePending
	default:
		if s.broken { // somebody says what came of it
			s.again(e.At, "", time.Time{})
		}
		if s.from == 0 {
			s.from = e.At.Add(-b.Took()).UnixNano()
		}
		if s.calling = false; s.Kind != SpanCall { // the step or the visit goes on
			return
		}
		state := NodeDone
		switch {
		case len(b.Wanted) > 0 || b.Error != nil && b.Error.NotSent:
			state = NodeRefused
		case b.Error != nil:
			state = NodeFailed
		}
		v.endSpan(s, e.At, state)
	}
}

func (v *View) spanStep(e *Event, b PlanStep) {
	s := v.span(e, e.Path, SpanStep)
	state, ended := stepStates[b.Status]
	if s.from == 0 {
		s.from = e.At.Add(-time.Duration(b.LatencyMs) * time.Millisecond).UnixNano()
	}
	if ended {
		v.endSpan(s, e.At, state)
	} else if s.to == 0 {
		s.State = NodeRunning
	}
}

func (v *View) spanGate(e *Event) {
	b, err := flow.ReadOpened(string(e.Kind), e.Body)
	if err != nil {
		return
	}
	s := v.span(e, e.Path, SpanGate)
	s.Kind, s.Name, s.State, s.from = SpanGate, v.same(b.Kind), NodeWaiting, e.At.UnixNano()
	m := s.rest()
	m.Gate, m.Question = b.Gate, cutText(b.Question, maxAsked)
	if GateKind(b.Kind) == Approval {
		var subject struct{ Rule string }
		_ = json.Unmarshal(b.Subject, &subject)
		v.span(e, AskerPath(Approval, e.Path), SpanCall).Approval = &Approved{Rule: v.same(subject.Rule), Gate: b.Gate}
	}
}

func (v *View) gateClosed(e *Event) {
	b, err := flow.ReadResolved(string(e.Kind), e.Body)
	s := v.spans[e.Path]
	if err != nil || s == nil || s.Kind != SpanGate || s.to != 0 {
		return
	}
	m := s.rest()
	m.Action, m.By, s.Last = v.same(b.Action), v.same(Joined(" for ", b.Via, b.OnBehalfOf)), e.Seq
	state := NodeDone
	if !b.Decision() {
		state = NodeCancelled
	}
	v.endSpan(s, e.At, state)
	if c := v.spans[AskerPath(Approval, e.Path)]; GateKind(s.Name) == Approval && c != nil && c.Approval != nil {
		a := *c.Approval // which others may share
		a.Decision, a.By = m.Action, m.By
		c.Approval = &a
	}
}

// approved notes what the policy, or who was asked, said of a call. Most are the same.
func (v *View) approved(s *Span, at time.Time, a Approved) {
	had := v.approvals[a]
	if had == nil {
		had = &a
		v.approvals[a] = had
	}
	s.Approval = had
	if a.Decision == "deny" {
		s.from = at.UnixNano()
		v.endSpan(s, at, NodeRefused)
	}
}

// same is s as it was seen before: few names recur often, and are kept once.
func (v *View) same(s string) string {
	if had, ok := v.names[s]; ok {
		return had
	}
	s = strings.Clone(s)
	v.names[s] = s
	return s
}

// brokenState is that of an attempt whose drive ended first.
func (s *Span) brokenState() NodeState {
	if s.Class == flow.Once {
		return NodeUncertain
	}
	return NodeCancelled
}

// breakSpans is what the end of a drive does to calls under way. Steps, visits and gates go
// on when somebody drives the run again.
func (v *View) breakSpans(at time.Time) {
	for s := range v.open {
		if !s.calling {
			continue
		}
		s.to, s.State, s.calling, s.broken = max(s.from, at.UnixNano()), s.brokenState(), false, true
	}
}

// endSpans is what the end of the run does to all that goes on.
func (v *View) endSpans(at time.Time) {
	for s := range v.open {
		switch {
		case s.from == 0: // it never began
			s.State = NodeCancelled
		case s.broken:
		default:
			v.endSpan(s, at, NodeCancelled)
		}
	}
	clear(v.open)
}

// charge adds what a record has cost to the span that it is about, or to the nearest one
// above it, and to the node.
func (v *View) charge(path string, cost int64) {
	if cost <= 0 {
		return
	}
	if n := v.home(path); n != nil {
		n.cost += USD(cost)
	}
	for ; path != ""; path = parentPath(path) {
		if s := v.spans[path]; s != nil {
			s.Cost += USD(cost)
			return
		}
	}
}

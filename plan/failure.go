package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Codes of failures that the walker itself finds.
const (
	codeRefUnresolved  = "ref_unresolved"
	codeNotImplemented = "not_implemented"
)

// errNotPerformed is for leaves that nobody can perform.
var errNotPerformed error = &flow.Error{Code: codeNotImplemented, Message: "nobody performs this node", NotSent: true}

// Failure is why a plan failed, and where.
type Failure struct {
	Reason  string // one of the closed set, or x:<name>
	Code    string // the particular error
	Rule    string // that refused it, if one did
	Message string
	Node    string // id of the leaf; "": the plan's outputs
	Path    string
	Bound   string // of bound_exceeded
	Tally

	cause error
}

func (f *Failure) Error() string {
	if f.Node == "" {
		return "outputs: " + f.Message
	}
	return f.Node + ": " + f.Message
}

func (f *Failure) Unwrap() error { return f.cause }

// Cancelled is the end of a walk that was cancelled: flow.ErrCancelled, and what
// was done until then.
type Cancelled struct{ Tally }

func (*Cancelled) Error() string { return "the plan was cancelled" }
func (*Cancelled) Unwrap() error { return flow.ErrCancelled }

// leafError is a failure whose reason does not follow from its code.
type leafError struct {
	reason string
	error  *flow.Error
}

func (e *leafError) Error() string { return e.error.Error() }
func (e *leafError) Unwrap() error { return e.error }

// unresolved is the failure of a leaf whose references have no value. Nothing
// was sent, and yet it is no refusal: nobody forbade it.
func unresolved(err error) error {
	return &leafError{reason: ReasonStepError, error: resolveError(err)}
}

// agentFailed is the failure of a step, whose agent has many ways to fail that are
// nobody's tool: unless its code says more, it is the step that failed.
func agentFailed(err error) error {
	var e *flow.Error
	if reason := Reason(err); errors.As(err, &e) && (reason == ReasonInternal || reason == ReasonToolError) && e.Code != ReasonToolError && e.Code != flow.CodeInternal {
		return &leafError{reason: ReasonStepError, error: e}
	}
	return err
}

// ends reports whether an error is the end of a leaf. Those of a parked branch,
// of a program that does not fit its history and of a broken rule are not: the
// next drive comes by again.
func ends(err error) bool {
	var nd *flow.NonDeterminism
	var misuse *flow.Misuse
	return !flow.Parked(err) && !errors.As(err, &nd) && !errors.As(err, &misuse)
}

// status of a leaf that ended with err.
func status(err error) string {
	var e *flow.Error
	var own *leafError
	switch {
	case err == nil:
		return tipstaff.StepCompleted
	case errors.Is(err, flow.ErrCancelled):
		return tipstaff.StepCancelled
	case errors.As(err, &own), !errors.As(err, &e):
		return tipstaff.StepFailed
	case e.Code == flow.CodeInDoubt:
		return tipstaff.StepUncertain
	case e.NotSent && slices.Contains(refusals, e.Code): // somebody or some rule forbade the call
		return tipstaff.StepRefused
	}
	return tipstaff.StepFailed
}

// never are reasons that on_error: continue does not pass over.
var never = []string{ReasonPolicyDenied, ReasonBound, ReasonDeadline, ReasonGateDenied, ReasonInDoubt}

func stepError(err error) *tipstaff.StepError {
	s := &tipstaff.StepError{Reason: Reason(err), Code: ReasonInternal, Message: err.Error()}
	var e *flow.Error
	if errors.As(err, &e) {
		s.Code, s.Message = e.Code, e.Message
		var detail struct {
			Rule string `json:"rule"`
		}
		if json.Unmarshal(e.Detail, &detail) == nil {
			s.Rule = detail.Rule
		}
	}
	return s
}

func failure(path string, n *Node, e end) *Failure {
	f := &Failure{Node: n.ID, Path: path, cause: e.err}
	f.Reason, f.Code, f.Rule, f.Message = e.body.Error.Reason, e.body.Error.Code, e.body.Error.Rule, e.body.Error.Message
	var fe *flow.Error
	if errors.As(e.err, &fe) {
		f.Bound = fe.Bound
	}
	return f
}

// Mode is what is done about a leaf that failed and says nothing about failing
// itself: it has neither retry nor on_error.
type Mode struct {
	Action string // ModeRetry, ModeGate; anything else fails
	Note   string // for whoever is asked
}

// Actions of a Mode.
const (
	ModeRetry = "retry" // once more, by the rules of a node's own retry
	ModeGate  = "gate"  // a person is asked: retry or fail
)

// Keys below the path of a leaf that a person is asked about. What is tried
// again is another call, with a path of its own.
const (
	failureKey = "failure"
	againKey   = "again#"

	retryWord = "retry"
	failWord  = "fail"
)

// modeless reports whether nobody but the leaf itself says what its failing
// means.
func (w *walker) modeless(n *Node) bool {
	return w.h.Mode == nil || n.field("retry") != nil || n.field("on_error") != nil || n.Kind == Gate
}

// retry is the rule of a leaf: its own, or that of the modes.
func (w *walker) retry(n *Node) flow.Retry {
	if w.modeless(n) {
		return n.Retry
	}
	rule := flow.Retry{Max: 1, Backoff: retryBackoff, Factor: retryFactor, MaxBackoff: retryMaxBackoff}
	for _, reason := range retryable {
		if w.h.Mode(reason).Action == ModeRetry {
			rule.On = append(rule.On, reason)
		}
	}
	if rule.On == nil {
		return flow.Retry{}
	}
	return rule
}

// attempt performs a leaf, and again for as long as it fails in a way that a
// person is to be asked about and that person wants it.
func (w *walker) attempt(fc flow.Context, n *Node, l *progress) end {
	e := w.perform(fc, n, l)
	for i := 1; ; i++ {
		mode, asked := w.asks(n, e)
		if !asked {
			return e
		}
		decision, err := fc.Wait(failureGate(n, e, mode, i))
		if err != nil {
			return end{err: err}
		}
		if decision.Action != retryWord {
			e.err = settled(e.err, decision)
			return e
		}
		e = w.perform(fc.At(againKey+strconv.Itoa(i+1)), n, l)
	}
}

// asks is the mode under which a person is asked about a leaf that ended so.
// References without a value are not: asking does not give them one.
func (w *walker) asks(n *Node, e end) (Mode, bool) {
	var own *leafError
	if e.err == nil || w.modeless(n) || !ends(e.err) || status(e.err) != tipstaff.StepFailed || errors.As(e.err, &own) {
		return Mode{}, false
	}
	reason := Reason(e.err)
	mode := w.h.Mode(reason)
	return mode, mode.Action == ModeGate && !slices.Contains(never, reason)
}

// failureSubject is what a person decides about: how the leaf failed.
type failureSubject struct {
	Node    string             `json:"node"`
	Attempt int                `json:"attempt"`
	Error   tipstaff.StepError `json:"error"`
}

func failureGate(n *Node, e end, mode Mode, attempt int) flow.Gate {
	fault := *stepError(e.err)
	g := flow.Gate{
		Key: failureKey, Kind: "question", Question: fmt.Sprintf("%s failed: %s. Try it again?", n.ID, fault.Reason),
		Subject: flow.JSON(failureSubject{n.ID, attempt, fault}),
		Actions: []string{retryWord, failWord}, Deny: failWord, Expires: DefaultExpiry,
	}
	if mode.Note != "" {
		g.Question += " " + mode.Note
	}
	if attempt > 1 {
		g.Key += "#" + strconv.Itoa(attempt)
	}
	return g
}

// settled is the failure of a leaf that a person let fail: the one it had, unless
// they knew the reason better.
func settled(err error, d flow.Decision) error {
	if !validFailReason(d.FailReason) {
		return err
	}
	fault := stepError(err)
	return &leafError{reason: d.FailReason, error: &flow.Error{Code: fault.Code, Message: fault.Message}}
}

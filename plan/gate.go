package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Ask opens the gate of a node and waits for its decision: one Wait at the
// node's path. Nothing here approves.
func Ask(fc flow.Context, n *Node, subject json.RawMessage) (flow.Decision, error) {
	g := flow.Gate{Kind: "question", Question: n.Question, Subject: subject, Expires: n.Expires}
	for _, a := range n.Actions {
		g.Actions = append(g.Actions, a.Name)
		if a.Fails && g.Deny == "" {
			g.Deny = a.Name
		}
	}
	return fc.Wait(g)
}

// gateOutput is what others can refer to.
type gateOutput struct {
	Action string          `json:"action"`
	Answer json.RawMessage `json:"answer"`
	By     string          `json:"by"`
}

func (w *walker) gate(fc flow.Context, n *Node, l *progress) end {
	subject, err := w.subject(n, l)
	if err != nil {
		return end{err: err}
	}
	asked := *n
	if asked.Question, err = w.question(n, l); err != nil {
		return end{err: err}
	}
	return w.unlessCarried(fc, n, gateGiven{asked.Question, subject, n.Actions}, func() end { return w.ask(fc, &asked, subject) })
}

// maxQuestion is how long a question may become, in bytes.
const maxQuestion = 4 << 10

// question is that of a gate, with its references replaced.
func (w *walker) question(n *Node, l *progress) (string, error) {
	if w.h.Verbatim {
		return n.Question, nil
	}
	text, err := w.text(n.Question, l)
	if err == nil && len(text) > maxQuestion {
		err = unresolved(fmt.Errorf("the question would have %d bytes, and %d are the most: put what is long into show", len(text), maxQuestion))
	}
	return text, err
}

func (w *walker) ask(fc flow.Context, n *Node, subject json.RawMessage) end {
	ask := w.h.Gate
	if ask == nil {
		ask = Ask
	}
	decision, err := ask(fc, n, subject)
	if err != nil {
		return end{err: err}
	}
	if err := denied(n, decision); err != nil {
		return end{err: err}
	}
	out := gateOutput{Action: decision.Action, Answer: decision.Answer, By: decision.By}
	if len(out.Answer) == 0 {
		out.Answer = json.RawMessage("null")
	}
	return end{output: flow.JSON(out)}
}

// subject is exactly what is decided: what the node shows. It is signed, so that
// a number in it must have a canonical form.
func (w *walker) subject(n *Node, l *progress) (json.RawMessage, error) {
	show := &document.Value{Kind: document.Object}
	if v := n.field("show"); v != nil {
		show.Members = []document.Member{{Key: "show", Value: v}}
	}
	subject, err := w.resolve(show, l)
	if err != nil {
		return nil, err
	}
	if _, err := document.Canonical(subject); err != nil {
		return nil, unresolved(err)
	}
	return subject, nil
}

// denied is the failure that a decision asks for, or nil. An action that the
// node does not offer denies as well: only what it names lets the plan go on.
func denied(n *Node, d flow.Decision) error {
	i := slices.IndexFunc(n.Actions, func(a Action) bool { return a.Name == d.Action })
	if i >= 0 && !n.Actions[i].Fails {
		return nil
	}
	reason := d.FailReason
	if reason == "" && i >= 0 {
		reason = n.Actions[i].FailReason
	}
	if !validFailReason(reason) {
		reason = ReasonGateDenied
	}
	message := fmt.Sprintf("the decision was %s", d.Action)
	if d.Note != "" {
		message += ": " + d.Note
	}
	return &leafError{reason: reason, error: &flow.Error{Code: ReasonGateDenied, Message: message}}
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

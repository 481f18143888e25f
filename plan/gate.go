package plan

import (
	"encoding/json"
	"fmt"
	"slices"

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

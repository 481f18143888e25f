package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Who decides at gates, where Config.Principal does not say.
const (
	byApprover = "local:approver"
	byNobody   = "system:unattended"
)

// host is what surrounds a turn in the library form. The drive reports to an inbox,
// which never holds it up; one goroutine reads that, tells the caller what happens,
// and has gates answered.
type host struct {
	ctx     context.Context
	cfg     Config
	session *Session
	message string

	run    string
	log    *flow.Mem
	shelf  *shelf
	calls  *CallLog
	inbox  *inbox
	events chan Event

	out Output // of the drive, once it is over

	// Of the one that serves:
	view    View
	waiting *waiting
	asking  *question // nil: nobody is asked
	last    *Event    // the terminal one, which waits for the session
	gone    bool      // the reader has left
}

func newHost(ctx context.Context, cfg Config, sess *Session, message, run string) *host {
	fitRouter(&cfg)
	return &host{ctx: ctx, cfg: cfg, session: sess, message: message,
		run: run, log: flow.NewMem(),
		shelf: &shelf{tools: cfg.Tools, policy: cfg.Policy, fixed: cfg.Gate}, calls: NewCallLog(cfg.Logger, cfg.LogKey),
		inbox: newInbox(), events: make(chan Event), waiting: newWaiting()}
}

// fitRouter fits router and settings to each other: the loop reserves by the
// settings what the router then asks.
func fitRouter(cfg *Config) {
	c, ok := cfg.Router.(*ToolkitClassifier)
	switch {
	case ok:
		own := *c
		own.Agent = cmp.Or(own.Agent, cfg.Agent)
		if own.Model == nil {
			own.Model = cfg.Model
		}
		cfg.Router, cfg.RouterPrompt, cfg.Toolkits = &own, own.Prompt, own.Toolkits
	case cfg.Router == nil && cfg.Settings.Router == RouterToolkits:
		cfg.Router = &ToolkitClassifier{Model: cfg.Model, Agent: cfg.Agent, Prompt: cfg.RouterPrompt, Toolkits: cfg.Toolkits}
	}
}

// Reports beside flow.Record, which is one of the drive's or of the log.
type (
	// barrier is closed when everything that was reported before it was told.
	barrier chan struct{}
	// opened is a gate that can be decided.
	opened flow.Record
	// atRest: every branch of the turn waits for a gate.
	atRest struct{}
	// answered is what came of a question.
	answered struct {
		question *question
		decision flow.Decision
		failed   bool
	}
	// over is the end of the drive. An error: the turn did not come to its own.
	over struct{ err error }
)

// appended reports what the drive records. Decisions come from the log, which knows
// which of two was first.
func (h *host) appended(d flow.Draft) {
	if tipstaff.Kind(d.Kind) != tipstaff.KindPolicyGateResolve {
		h.inbox.put(flow.Record{Draft: d})
	}
}

// waits is asked whenever the turn comes to do nothing but wait for gates.
func (h *host) waits([]string) bool {
	h.inbox.put(atRest{})
	return false
}

// toolCall is the activity of tools. They end themselves when their context ends:
// what they then say of a call that may be made once is an answer.
func (h *host) toolCall() flow.Activity {
	d := &dispatcher{tools: h.cfg.Tools, middleware: h.cfg.Middleware, principal: h.cfg.Principal, gate: h.shelf.guarded}
	return flow.Activity{Run: d.call, Stops: func(flow.Attempt) bool { return true }}
}

// record tells the caller what a record says, and does what follows from it.
func (h *host) record(r flow.Record) {
	h.calls.Appended(h.run, r.Draft)
	if e, ok := h.view.Event(r); ok {
		h.waiting.see(e)
		if e.Terminal() {
			h.last = &e
		} else {
			h.send(e)
		}
	}
	if tipstaff.Kind(r.Kind) == tipstaff.KindPolicyGateResolve {
		h.resolved(r)
	}
}

// question is a gate that somebody is asked about.
type question struct {
	*openGate
	withdraw context.CancelCauseFunc
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

// answer records a decision. One that comes too late, or because the turn is
// cancelled, counts for nothing.
func (h *host) answer(a answered) {
	h.asking = nil
	if a.failed && h.ctx.Err() != nil {
		return
	}
	_ = h.log.Decide(h.run, a.question.ID.String(), a.decision) // it was decided, or the turn is over
}

// resolved withdraws the question about a gate that is closed.
func (h *host) resolved(r flow.Record) {
	var b struct {
		Gate       string `json:"gate"`
		Action     string `json:"action"`
		OnBehalfOf string `json:"on_behalf_of"`
	}
	if json.Unmarshal(r.Body, &b) != nil {
		return
	}
	h.waiting.close(b.Gate)
	if q := h.asking; q != nil && q.ID.String() == b.Gate {
		q.withdraw(&AnsweredElsewhere{By: b.OnBehalfOf, Action: b.Action})
	}
}

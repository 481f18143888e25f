package agent

import (
	"encoding/json"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// View makes events of a run's records. Most are there as such; those about gates
// are seen in the gates' own records. It must be shown the records of a run in
// their order, from the first. The zero View has seen none.
type View struct {
	calls map[string]string            // ids, by the path of the call
	gates map[string]ApprovalRequested // by id
	// settled are the calls about which a decision was seen. One that comes after the
	// turn was cancelled is stored, and counts no more.
	settled map[string]bool
}

// Event is what a record, or something that was told without being recorded, says
// of a turn; false: nothing.
func (v *View) Event(r flow.Record) (Event, bool) {
	switch tipstaff.Kind(r.Kind) {
	case tipstaff.KindPolicyGate:
		return v.requested(r)
	case tipstaff.KindPolicyGateResolve:
		return v.decided(r)
	}
	t := typeOf(r.Kind)
	if t == "" {
		return Event{}, false
	}
	body, err := decodeBody(t, r.Body)
	if err != nil {
		return Event{}, false
	}
	switch b := body.(type) {
	case *ToolCallRequest:
		if v.calls == nil {
			v.calls = map[string]string{}
		}
		v.calls[r.Path] = b.ID
	case *ApprovalDecided:
		if !v.settle(r.Path) {
			return Event{}, false
		}
	}
	return Event{Seq: r.Seq, Path: r.Path, Body: body}, true
}

// settle reports whether this is the first decision about the call at a path.
func (v *View) settle(path string) bool {
	if v.settled == nil {
		v.settled = map[string]bool{}
	}
	first := !v.settled[path]
	v.settled[path] = true
	return first
}

func (v *View) requested(r flow.Record) (Event, bool) {
	var g tipstaff.GateOpened
	var subject struct {
		Rule         string `json:"rule"`
		PolicyDigest string `json:"policy_digest"`
	}
	path, approval := strings.CutSuffix(r.Path, "/approval")
	id, known := v.calls[path]
	if !approval || !known || json.Unmarshal(r.Body, &g) != nil || json.Unmarshal(g.Subject, &subject) != nil || g.Kind != string(tipstaff.Approval) {
		return Event{}, false
	}
	asked := ApprovalRequested{ID: id, Gate: g.Gate, Rule: subject.Rule, PolicyDigest: subject.PolicyDigest,
		Actions: g.Actions, ExpiresAt: g.ExpiresAt.Time}
	if v.gates == nil {
		v.gates = map[string]ApprovalRequested{}
	}
	v.gates[g.Gate] = asked
	return Event{Seq: r.Seq, Path: path, Body: &asked}, true
}

func (v *View) decided(r flow.Record) (Event, bool) {
	var d tipstaff.GateResolved
	if json.Unmarshal(r.Body, &d) != nil {
		return Event{}, false
	}
	asked, ok := v.gates[d.Gate]
	if !ok || !d.Decision() {
		return Event{}, false
	}
	path := strings.TrimSuffix(r.Path, "/approval")
	if !v.settle(path) {
		return Event{}, false
	}
	if d.OnBehalfOf == "" {
		d.OnBehalfOf = "local:cli"
	}
	return Event{Seq: r.Seq, Path: path, Body: &ApprovalDecided{ID: asked.ID, Decision: d.Action,
		By: d.OnBehalfOf, Rule: asked.Rule, PolicyDigest: asked.PolicyDigest, Gate: d.Gate, Reason: d.Note}}, true
}

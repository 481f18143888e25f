package runner

import (
	"encoding/json"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
)

// remembering is the log of a drive. On their way to the store it tells, of the
// leaves that end, what the memory is to keep: the record alone does not say
// which tool a node called, and the program does.
type remembering struct {
	flow.Log
	program func() program // the one that is driven now
}

// Append implements [flow.Log].
func (m *remembering) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	drafts = slices.Clone(drafts)
	for i := range drafts {
		switch drafts[i].Kind {
		case string(tipstaff.KindPlanStep):
			drafts[i].Memo = m.memo(drafts[i].Body)
		case string(tipstaff.KindStageFinished):
			drafts[i].Memo = m.stage(drafts[i].Body)
		}
	}
	m.Log.Append(l, drafts, done)
}

// memo is what is kept of a leaf that has ended; nil: it has not.
func (m *remembering) memo(body json.RawMessage) *flow.Memo {
	var b tipstaff.PlanStep
	if json.Unmarshal(body, &b) != nil || b.Status == tipstaff.StepStarted {
		return nil
	}
	memo := m.program().shared().text.memo(b.Node)
	memo.Outcome, memo.Digest = b.Status, b.ResultDigest
	memo.Summary += " " + b.Status
	if b.Error != nil {
		memo.Summary += ": " + b.Error.Code + ": " + b.Error.Message
	}
	return &memo
}

// stage is what is kept of a pipeline's stage that has ended.
func (m *remembering) stage(body json.RawMessage) *flow.Memo {
	var b tipstaff.StageFinished
	stages := m.program().shared().text.stages()
	if stages == nil || json.Unmarshal(body, &b) != nil {
		return nil
	}
	memo := &flow.Memo{Kind: "stage", Outcome: b.Outcome, Summary: b.Stage + " " + b.Outcome}
	for _, a := range stages {
		if a.Name != b.Stage || a.Tool == nil {
			continue
		}
		memo.Tool = a.Tool.URI
		if u, err := tipstaff.ParseToolURI(a.Tool.URI); err == nil {
			memo.Server = u.Server
		}
	}
	if b.Output != nil {
		memo.Digest = flow.Digest(b.Output)
	}
	if b.Code != "" {
		memo.Summary += ": " + b.Code + ": " + b.Error
	}
	return memo
}

// apart is the evidence of a terminal envelope without what the memory has put in
// when it was signed: that follows from the store, not from the run's own records.
// What the memory cannot have put in stays.
func apart(evidence json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var place cortex.Place
	if json.Unmarshal(evidence, &members) != nil || json.Unmarshal(members["cortex"], &place) != nil ||
		place.AttestSeq < 1 || place.LearnSeq != place.AttestSeq+1 || !sameJSON(members["cortex"], flow.JSON(place)) {
		return evidence
	}
	delete(members, "cortex")
	return flow.JSON(members)
}

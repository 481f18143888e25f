package flow

import (
	"encoding/json"
	"time"
)

// Clarifying is the gate that asks questions before there is a program to accept.
// It is opened by an intent.clarify in place of a policy.gate, and closed by an
// intent.answer.
func Clarifying(round int, questions json.RawMessage) Gate {
	return Gate{Kind: "clarification", Question: "Some things must be known before a plan can be made.",
		Subject: JSON(map[string]any{"round": round, "questions": questions}), Actions: []string{"answer", "deny"}, Deny: "deny", Clarify: true}
}

// opening is the record that opens a gate under an id.
func (q Gate) opening(id, key, digest string, expires time.Time) Draft {
	if q.Clarify {
		asked := IntentClarify{Gate: id}
		_ = json.Unmarshal(q.Subject, &asked) // as Clarifying has made it
		return Draft{Kind: KindIntentClarify, Path: key, From: "executor", Body: JSON(asked)}
	}
	return Draft{Kind: KindGateOpened, Path: key, From: "executor", Body: JSON(GateOpened{Gate: id, Kind: q.Kind, Question: q.Question,
		Subject: q.Subject, Actions: orEmpty(q.Actions), Deny: q.Deny, Digest: digest, ExpiresAt: Time{expires}})}
}

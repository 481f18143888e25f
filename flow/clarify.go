package flow

import "encoding/json"

// Clarifying is the gate that asks questions before there is a program to accept.
// It is opened by an intent.clarify in place of a policy.gate, and closed by an
// intent.answer.
func Clarifying(round int, questions json.RawMessage) Gate {
	return Gate{Kind: "clarification", Question: "Some things must be known before a plan can be made.",
		Subject: newObject(64+len(questions)).int("round", int64(round)).raw("questions", questions).close(),
		Actions: []string{"answer", "deny"}, Deny: "deny", Clarify: true}
}

// readGate reads a record that opens a gate.
func readGate(kind string, body json.RawMessage) (gateBody, error) {
	var b gateBody
	if kind != "intent.clarify" {
		return b, json.Unmarshal(body, &b)
	}
	var asked struct {
		Gate      string          `json:"gate"`
		Round     int             `json:"round"`
		Questions json.RawMessage `json:"questions"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return b, err
	}
	q := Clarifying(asked.Round, asked.Questions)
	return gateBody{Gate: asked.Gate, Kind: q.Kind, Deny: q.Deny, Digest: GateDigest(q)}, nil
}

// opening is the body of the record that opens a gate under an id.
func (q Gate) opening(id, digest string) object {
	if q.Clarify {
		var asked struct {
			Round     int64           `json:"round"`
			Questions json.RawMessage `json:"questions"`
		}
		_ = json.Unmarshal(q.Subject, &asked) // as Clarifying has made it
		return newObject(256).str("gate", id).int("round", asked.Round).raw("questions", asked.Questions)
	}
	subject := q.Subject
	if len(subject) == 0 {
		subject = []byte("null")
	}
	return newObject(256).str("gate", id).str("gate_kind", q.Kind).str("question", q.Question).
		raw("subject", subject).strs("actions", q.Actions).str("deny", q.Deny).str("digest", digest)
}

// openingKind is its kind.
func (q Gate) openingKind() string {
	if q.Clarify {
		return "intent.clarify"
	}
	return "policy.gate"
}

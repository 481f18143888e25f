package flow

import "encoding/json"

// Clarifying is the gate that asks questions before there is a program to accept.
// It is opened by an intent.clarify in place of a policy.gate, and closed by an
// intent.answer.
func Clarifying(round int, questions json.RawMessage) Gate {
	return Gate{Kind: "clarification", Question: "Some things must be known before a plan can be made.",
		Subject: NewObject(64+len(questions)).Int("round", int64(round)).Raw("questions", questions).Close(),
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
func (q Gate) opening(id, digest string) Object {
	if q.Clarify {
		var asked struct {
			Round     int64           `json:"round"`
			Questions json.RawMessage `json:"questions"`
		}
		_ = json.Unmarshal(q.Subject, &asked) // as Clarifying has made it
		return NewObject(256).Str("gate", id).Int("round", asked.Round).Raw("questions", asked.Questions)
	}
	subject := q.Subject
	if len(subject) == 0 {
		subject = []byte("null")
	}
	return NewObject(256).Str("gate", id).Str("gate_kind", q.Kind).Str("question", q.Question).
		Raw("subject", subject).Strs("actions", q.Actions).Str("deny", q.Deny).Str("digest", digest)
}

// openingKind is its kind.
func (q Gate) openingKind() string {
	if q.Clarify {
		return "intent.clarify"
	}
	return "policy.gate"
}

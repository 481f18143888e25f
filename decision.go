package tipstaff

import (
	"encoding/json"
	"time"
)

// Decision is the answer to a gate: who, what, why, when. Its canonical JSON is
// what is returned to every caller who sends it again.
type Decision struct {
	Action        string          `json:"action"`
	Actor         Actor           `json:"actor"`
	Answer        json.RawMessage `json:"answer"` // null where there is none
	DecidedAt     time.Time       `json:"decided_at"`
	Feedback      string          `json:"feedback"`
	FollowupRunID ID              `json:"followup_run_id"` // "" unless the decision made one
	GateID        ID              `json:"gate_id"`
	Kind          GateKind        `json:"kind"`
	Note          string          `json:"note"`
	Path          string          `json:"path"`
	RunID         ID              `json:"run_id"`
	Schema        int             `json:"schema"` // 1
	SubjectDigest string          `json:"subject_digest"`
}

// Actor is who decided. DecidedBy is claimed, Principal is known.
type Actor struct {
	Principal string `json:"principal"`
	Via       string `json:"via"`
	Client    string `json:"client"`
	DecidedBy string `json:"decided_by"`
}

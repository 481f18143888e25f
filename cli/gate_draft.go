package cli

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
)

// draft is what a confirmation asks to accept: a plan that a model has written.
type draft struct {
	ProgramDigest string            `json:"program_digest"`
	Outline       *tipstaff.Outline `json:"outline"`
}

// draftOf is the plan that a gate asks about; nil: it asks about something else.
func draftOf(g tipstaff.Gate) *draft {
	var d draft
	if g.Kind != tipstaff.Confirmation || json.Unmarshal(g.Subject, &d) != nil || d.Outline == nil {
		return nil
	}
	return &d
}

package tool

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff/flow"
)

// Hints are a tool's annotations as they came over the wire. A pointer keeps absent
// and false apart: absent claims nothing.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

func parseHints(annotations json.RawMessage) (Hints, error) {
	var h Hints
	if absent(annotations) {
		return h, nil
	}
	err := json.Unmarshal(annotations, &h)
	return h, err
}

// class is what the hints state, "" if nothing.
func (h Hints) class() flow.Class {
	switch {
	case isTrue(h.ReadOnly) && isTrue(h.Destructive):
		return flow.Once // it contradicts itself: believe the worse half
	case isTrue(h.ReadOnly):
		return flow.Read
	case isTrue(h.Idempotent):
		return flow.Idempotent
	case h.ReadOnly != nil || h.Idempotent != nil || isTrue(h.Destructive):
		return flow.Once
	}
	return ""
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// Destructive reports whether a call may undo or overwrite something: what is not
// read may, unless it is said not to.
func (d *Definition) Destructive() bool { return d.Class != flow.Read && !isFalse(d.Hints.Destructive) }

// OpenWorld reports whether what the tool returns may come from anybody. Only a
// tool that denies it does not.
func (d *Definition) OpenWorld() bool { return !isFalse(d.Hints.OpenWorld) }

package tool

import (
	"bytes"
	"encoding/json"

	"github.com/tipstaff/tipstaff/flow"
)

// strictness orders the classes; an unknown one is as strict as can be.
func strictness(c flow.Class) int {
	switch c {
	case flow.Read:
		return 1
	case flow.Idempotent:
		return 2
	}
	return 3
}

// effective is the stricter of what the manifest and the hints state, "" being
// nothing. With neither it is once.
func effective(declared, hinted flow.Class) flow.Class {
	switch {
	case declared == "" && hinted == "":
		return flow.Once
	case declared == "":
		return hinted
	case hinted == "" || strictness(declared) >= strictness(hinted):
		return declared
	}
	return hinted
}

// hints are a tool's annotations as they came over the wire. A pointer keeps
// absent and false apart: absent claims nothing.
type hints struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

func parseHints(annotations json.RawMessage) (hints, error) {
	var h hints
	if len(annotations) == 0 || bytes.Equal(annotations, []byte("null")) {
		return h, nil
	}
	err := json.Unmarshal(annotations, &h)
	return h, err
}

// class is what the hints state, "" if nothing.
func (h hints) class() flow.Class {
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

func isTrue(b *bool) bool { return b != nil && *b }

package runner

import (
	"bytes"
	"encoding/json"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// exact is a value in an envelope that must come back as it was given. Bodies of
// envelopes are canonical, and that form knows no difference between 1 and 1.0 and
// no large integers: what it would change stands there as text.
type exact json.RawMessage

// exactly marks such a text.
const exactly = "$json"

// MarshalJSON implements [json.Marshaler].
func (e exact) MarshalJSON() ([]byte, error) {
	var own map[string]json.RawMessage
	marked := json.Unmarshal(e, &own) == nil && own[exactly] != nil
	if canonical, err := canon.Form(e); err == nil && !marked && spelled(canonical) == spelled(e) {
		return e, nil
	}
	return json.Marshal(map[string]string{exactly: string(e)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *exact) UnmarshalJSON(raw []byte) error {
	var own map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &own) == nil && len(own) == 1 && json.Unmarshal(own[exactly], &text) == nil {
		raw = []byte(text)
	}
	*e = bytes.Clone(raw)
	return nil
}

// exacts are values that are to come back as they are.
func exacts(raw map[string]json.RawMessage) map[string]exact {
	all := map[string]exact{}
	for key, v := range raw {
		all[key] = exact(v)
	}
	return all
}

// raws are the values themselves.
func raws(all map[string]exact) map[string]json.RawMessage {
	raw := map[string]json.RawMessage{}
	for key, v := range all {
		raw[key] = json.RawMessage(v)
	}
	return raw
}

// spelled is a document with its members sorted and its numbers as they are written.
func spelled(raw []byte) string {
	v, err := canon.Decode(raw, canon.MaxDepth)
	if err != nil {
		return ""
	}
	return string(flow.JSON(v))
}

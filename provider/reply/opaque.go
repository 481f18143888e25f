package reply

import "encoding/json"

// Opaque is what of an answer must go back as it came: signed reasoning, and where
// it stood. Reasoning is bound to the model that thought it.
type Opaque struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Parts    []Part `json:"parts"`
}

// Part is one block of an answer, in their order.
type Part struct {
	Block json.RawMessage `json:"block,omitempty"` // as it came
	Text  int             `json:"text,omitempty"`  // so many bytes of the message's text
	Call  bool            `json:"call,omitempty"`  // the message's next call
}

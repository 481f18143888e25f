package tipstaff

import (
	"encoding/json"
	"time"
)

// Kind names what a record says. The list is closed.
type Kind string

// Event is one record of a run's journal.
type Event struct {
	V     int             `json:"v"`
	Seq   int64           `json:"seq"`
	Kind  Kind            `json:"kind"`
	At    time.Time       `json:"at"`
	Run   ID              `json:"run"`
	Path  string          `json:"path"`
	Epoch int64           `json:"epoch,omitempty"`
	N     int             `json:"n,omitempty"`
	Note  bool            `json:"note,omitempty"`
	Body  json.RawMessage `json:"body"`

	// Of envelopes, the signed records, alone:
	ID   ID     `json:"id,omitzero"`
	From string `json:"from,omitempty"`
	Prev string `json:"prev,omitempty"`
	Head string `json:"head,omitempty"`
	Key  string `json:"key,omitempty"`
	Sig  string `json:"sig,omitempty"`

	Raw []byte `json:"-"` // the stored bytes: these are the record
}

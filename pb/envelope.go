package pb

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// stored is an Envelope as pipelines store it. Two members have other names there than
// in core.proto.
type stored struct {
	*Envelope
	Schema   int    `json:"schema"`
	Metadata []byte `json:"metadata"`
}

// asStored reads what has another form in JSON: bytes are the JSON value that stands
// there, times are RFC 3339, amounts of money decimal texts.
var asStored = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFunc(func(raw []byte, value *[]byte) error {
		*value = bytes.Clone(raw)
		return nil
	}),
	json.UnmarshalFunc(func(raw []byte, stamp *timestamppb.Timestamp) error {
		var t time.Time
		err := json.Unmarshal(raw, &t)
		stamp.Seconds, stamp.Nanos = t.Unix(), int32(t.Nanosecond())
		return err
	}),
	json.UnmarshalFunc(func(raw []byte, n *int64) error {
		if raw[0] != '"' {
			return json.Unmarshal(raw, n)
		}
		return (*tipstaff.USD)(n).UnmarshalJSON(raw)
	}),
))

// ReadEnvelope reads an Envelope as pipelines store and show it.
func ReadEnvelope(raw []byte) (*Envelope, error) {
	s := stored{Envelope: new(Envelope)}
	if err := json.Unmarshal(raw, &s, asStored, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("the Envelope cannot be read: %w", err)
	}
	if s.Schema > 1 { // surfaces show an Envelope without it
		return nil, fmt.Errorf("the Envelope was stored in form %d; this version reads 1", s.Schema)
	}
	if string(s.Metadata) != "null" {
		s.MetadataJson = s.Metadata
	}
	s.Envelope.cutErrors()
	return s.Envelope, nil
}

// cutErrors shortens the errors of stages that were recorded before errors were cut. With
// them an Envelope may not fit into a message.
func (e *Envelope) cutErrors() {
	cut := func(text string) string {
		if len(text) <= 2*flow.MostMessage { // with the code before it
			return text
		}
		return flow.CutText(text, "")
	}
	for _, r := range e.Errors {
		r.Message = cut(r.Message)
	}
	for _, r := range e.ProcessingHistory {
		if r.Error != nil {
			*r.Error = cut(*r.Error)
		}
	}
	for stage, text := range e.FailedStages {
		e.FailedStages[stage] = cut(text)
	}
	if e.TerminationReason != nil {
		*e.TerminationReason = cut(*e.TerminationReason)
	}
}

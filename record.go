package tipstaff

import (
	"encoding/json"
	"errors"

	"github.com/tipstaff/tipstaff/journal"
)

// ParseEvent reads one stored record. The event keeps raw, and its Body lies
// within it: neither may be changed afterwards.
//
// A record that [journal.Parse] refuses is an error of code internal. One of another
// version or of an unknown kind is format_newer, and is given as far as it could be
// read.
func ParseEvent(raw []byte) (Event, error) {
	r, err := journal.Parse(raw)
	return EventOf(raw, r, err)
}

// EventOf is ParseEvent of a record that [journal.Parse] has read, or refused.
func EventOf(raw []byte, r journal.Record, err error) (Event, error) {
	e := Event{V: journal.Version, Seq: r.Seq, Kind: Kind(r.Kind), At: r.At, Path: r.Path, Epoch: r.Epoch, N: r.N, Note: r.Note, Body: r.Body,
		From: r.From, Prev: r.Prev, Head: r.Head, Key: r.Key, Sig: r.Sig, Raw: raw}
	if err == nil || errors.Is(err, journal.ErrVersion) {
		var bad error
		if e.Run, bad = ParseID(r.Run); bad != nil {
			return Event{}, malformed(bad)
		}
		if e.ID, bad = ParseID(r.ID); r.ID != "" && bad != nil {
			return Event{}, malformed(bad)
		}
	}
	switch {
	case errors.Is(err, journal.ErrVersion):
		return e, Errorf(FormatNewer, "record %d is not of version %d", r.Seq, journal.Version).WithHint("it takes a newer Tipstaff to read this run")
	case r.Kind != "" && !KnownKind(e.Kind):
		return e, Errorf(FormatNewer, "record %d is of the unknown kind %q", r.Seq, r.Kind).WithHint("it takes a newer Tipstaff to read this run")
	case err != nil:
		return Event{}, malformed(err)
	}
	return e, nil
}

func malformed(err error) *Error {
	return &Error{Code: Internal, Message: "a record cannot be read", Command: "run tipstaff verify on it", Err: &malformedRecord{err}}
}

// malformedRecord is why a record cannot be read.
type malformedRecord struct{ error }

func (m *malformedRecord) Unwrap() error { return m.error }

// Stored is the record as it is stored. What was told and not recorded, or carried over
// without its bytes, is written anew.
func (e Event) Stored() []byte {
	if e.Raw != nil {
		return e.Raw
	}
	b, err := json.Marshal(e)
	if err != nil { // a body that is not JSON
		e.Body = nil
		b, _ = json.Marshal(e)
	}
	return b
}

// ReadEvent reads what Stored gives.
func ReadEvent(text []byte) (e Event, err error) {
	if err := json.Unmarshal(text, &e); err == nil && e.Seq == 0 {
		return e, nil
	}
	return ParseEvent(text)
}

package tipstaff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tipstaff/tipstaff/canon"
)

// ParseEvent reads one stored record. The event keeps raw, and its Body lies
// within it: neither may be changed afterwards.
//
// A record that is not one object of exactly the known members is an error of
// code internal. One of another version or of an unknown kind is format_newer,
// and is given as far as it could be read.
func ParseEvent(raw []byte) (Event, error) {
	e := Event{Raw: raw}
	var seen member
	for m, err := range canon.Members(raw) {
		if err != nil {
			return Event{}, malformed("it is not JSON")
		}
		which, err := e.set(m.Name, raw[m.Start:m.End:m.End])
		if err != nil {
			return Event{}, malformed("%s: %v", m.Name, err)
		}
		if seen&which != 0 {
			return Event{}, malformed("%s stands twice", m.Name)
		}
		seen |= which
	}
	if missing := required &^ seen; missing != 0 {
		return Event{}, malformed("it lacks members that every record has")
	}
	if e.V != 1 {
		return e, Errorf(FormatNewer, "record %d has version %d", e.Seq, e.V).WithHint("use a newer tipstaff to read this run")
	}
	if !KnownKind(e.Kind) {
		return e, Errorf(FormatNewer, "record %d is of the unknown kind %q", e.Seq, string(e.Kind)).WithHint("use a newer tipstaff to read this run")
	}
	return e, nil
}

func malformed(format string, args ...any) *Error {
	return Errorf(Internal, "malformed record: "+format, args...).WithHint("run tipstaff verify on it")
}

// member is a set of members of a record.
type member uint32

const (
	hasV member = 1 << iota
	hasSeq
	hasKind
	hasAt
	hasRun
	hasPath
	hasBody
	hasEpoch
	hasN
	hasNote
	hasID
	hasFrom
	hasPrev
	hasHead
	hasKey
	hasSig

	required = hasV | hasSeq | hasKind | hasAt | hasRun | hasPath | hasBody
)

// set puts one member in its place. The values are valid JSON.
func (e *Event) set(name string, value []byte) (member, error) {
	switch name {
	case "v":
		return hasV, setInt(&e.V, value)
	case "seq":
		if err := setInt(&e.Seq, value); err != nil || e.Seq > 0 {
			return hasSeq, err
		}
		return hasSeq, fmt.Errorf("%d is no place in a journal", e.Seq)
	case "kind":
		return hasKind, setString(&e.Kind, value)
	case "at":
		return hasAt, setText(e.At.UnmarshalText, value)
	case "run":
		return hasRun, setText(e.Run.UnmarshalText, value)
	case "path":
		return hasPath, setString(&e.Path, value)
	case "body":
		e.Body = value
		return hasBody, nil
	case "epoch":
		return hasEpoch, setInt(&e.Epoch, value)
	case "n":
		return hasN, setInt(&e.N, value)
	case "note":
		return hasNote, setBool(&e.Note, value)
	case "id":
		return hasID, setText(e.ID.UnmarshalText, value)
	case "from":
		return hasFrom, setString(&e.From, value)
	case "prev":
		return hasPrev, setString(&e.Prev, value)
	case "head":
		return hasHead, setString(&e.Head, value)
	case "key":
		return hasKey, setString(&e.Key, value)
	case "sig":
		return hasSig, setString(&e.Sig, value)
	}
	return 0, fmt.Errorf("no record has such a member")
}

func setInt[T int | int64](to *T, value []byte) error {
	n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
	*to = T(n)
	return err
}

func setBool(to *bool, value []byte) error {
	*to = string(value) == "true"
	if !*to && string(value) != "false" {
		return fmt.Errorf("%.20s is neither true nor false", value)
	}
	return nil
}

func setString[T ~string](to *T, value []byte) error {
	text, err := unquote(value)
	*to = T(text)
	return err
}

func setText(to func([]byte) error, value []byte) error {
	text, err := unquote(value)
	if err != nil {
		return err
	}
	return to(text)
}

func unquote(value []byte) ([]byte, error) {
	if value[0] != '"' {
		return nil, fmt.Errorf("%.20s is not a string", value)
	}
	return []byte(canon.Unquote(value)), nil
}

// Members gives each the members of the body, one after the other and undecoded,
// until it returns false. It reports whether the body is one valid object and each
// always returned true. Whoever needs little of a body reads it several times as
// fast as by decoding all of it.
func (e *Event) Members(each func(name string, value json.RawMessage) bool) bool {
	for m, err := range canon.Members(e.Body) {
		if err != nil || !each(m.Name, json.RawMessage(e.Body[m.Start:m.End:m.End])) {
			return false
		}
	}
	return bytes.HasPrefix(bytes.TrimLeft(e.Body, " \t\r\n"), []byte("{"))
}

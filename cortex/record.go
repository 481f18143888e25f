package cortex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Kinds of records.
const (
	KindRemember     = "remember"      // an item is kept
	KindTombstone    = "tombstone"     // an item is out of use from here on
	KindAttest       = "attest"        // a run has ended: how, and on what it relied
	KindLearnWeights = "learn_weights" // follows each attest: what was learned from it
)

// Record is one record of the log. Its bytes are those of a plain record of a
// run's journal, with a body in RFC 8785 form, and they are chained the same way:
// hash = SHA-256(hash before ‖ bytes).
type Record struct {
	Seq  int64 // from 1, without gaps
	At   time.Time
	Run  string // whose event or end it is; "": none's
	Path string // of the leaf or stage, for an event
	Body Body
}

// Body is what a record says: *Remember, *Tombstone, *Attest or *LearnWeights.
type Body interface {
	kind() string
	// check says what is wrong with the body of this record.
	check(r *Record) error
}

// Kind is the record's kind.
func (r *Record) Kind() string { return r.Body.kind() }

// Bytes is the record as it is stored. The zone of At does not matter.
func (r *Record) Bytes() ([]byte, error) {
	if err := r.Body.check(r); err != nil {
		return nil, fmt.Errorf("%s %d of the memory: %w", r.Kind(), r.Seq, err)
	}
	body, err := canon.Form(flow.JSON(r.Body))
	if err != nil {
		return nil, fmt.Errorf("%s %d of the memory: %w", r.Kind(), r.Seq, err)
	}
	rec := journal.Record{At: r.At, Body: body, Kind: r.Kind(), Path: r.Path, Run: r.Run, Seq: r.Seq}
	return rec.AppendTo(nil), nil
}

// ParseRecord reads what Bytes gives, and nothing else. Its error wraps
// [journal.ErrMalformed], [journal.ErrVersion], [journal.ErrFieldMissing],
// [journal.ErrUnknownKind] or [journal.ErrBody].
func ParseRecord(b []byte) (Record, error) {
	j, err := journal.Parse(b)
	if err != nil {
		return Record{}, err
	}
	if j.Epoch != 0 || j.N != 0 || j.Note {
		return Record{}, fmt.Errorf("%w: records of the memory have no epoch, n or note", journal.ErrMalformed)
	}
	r := Record{Seq: j.Seq, At: j.At, Run: j.Run, Path: j.Path}
	switch j.Kind {
	case KindRemember:
		r.Body = new(Remember)
	case KindTombstone:
		r.Body = new(Tombstone)
	case KindAttest:
		r.Body = new(Attest)
	case KindLearnWeights:
		r.Body = new(LearnWeights)
	default:
		return Record{}, fmt.Errorf("%w: %.40q is no kind of record in the memory", journal.ErrUnknownKind, j.Kind)
	}
	if err := decode(j.Body, r.Body); err != nil {
		return Record{}, fmt.Errorf("%w: %s: %v", journal.ErrBody, j.Kind, err)
	}
	if err := r.Body.check(&r); err != nil {
		return Record{}, fmt.Errorf("%w: %s: %v", journal.ErrBody, j.Kind, err)
	}
	return r, nil
}

// decode is strict: what it accepts is spelled as Bytes would spell it.
func decode(raw []byte, body Body) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(body); err != nil {
		return err
	}
	spelling, err := canon.Form(flow.JSON(body))
	if err != nil {
		return err
	}
	if !bytes.Equal(spelling, raw) {
		return fmt.Errorf("it is not in its canonical spelling")
	}
	return nil
}

// Item is the item that a remember record keeps, as it stood then; false: the
// record is of another kind.
func (r *Record) Item() (tipstaff.MemoryItem, bool) {
	b, ok := r.Body.(*Remember)
	if !ok {
		return tipstaff.MemoryItem{}, false
	}
	u, _ := ParseURI(b.Item) // checked with the record
	run, _ := tipstaff.ParseID(r.Run)
	return tipstaff.MemoryItem{Item: b.Item, Type: u.Type, Text: b.Text, Importance: b.Importance, Pinned: b.Pinned, By: b.By,
		Seq: r.Seq, CreatedAt: r.At, Skill: b.Skill, Verb: b.Verb, Server: b.Server,
		Run: run, Path: r.Path, Kind: b.Kind, Tool: b.Tool, Outcome: b.Outcome, Digest: b.Digest, LastUsedAt: r.At}, true
}

// String says in a line what the record tells.
func (r *Record) String() string {
	switch b := r.Body.(type) {
	case *Remember:
		return b.Item + "  " + Summary(b.Text)
	case *Tombstone:
		return b.Item + "  by " + b.By
	case *Attest:
		if b.Reason != "" {
			return fmt.Sprintf("%s (%s), %d cited", b.Outcome, b.Reason, len(b.Cited))
		}
		return fmt.Sprintf("%s, %d cited", b.Outcome, len(b.Cited))
	case *LearnWeights:
		if b.Skipped {
			return "nothing: " + b.Why
		}
		return fmt.Sprintf("%+d from %d items: %v", b.Delta, len(b.Counted), b.New)
	}
	return ""
}

// SummaryLimit is how many characters the text of an event has at most.
const SummaryLimit = 120

// Summary makes text fit for an event: one line, at most SummaryLimit characters.
func Summary(text string) string {
	line := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), separates), " ")
	if utf8.RuneCountInString(line) <= SummaryLimit {
		return line
	}
	n := 0
	for i := range line {
		if n == SummaryLimit-1 {
			return line[:i] + "…"
		}
		n++
	}
	return line
}

// separates tells what may not stand in a line: control characters and every
// kind of white space, the separators of lines and paragraphs among them.
func separates(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}

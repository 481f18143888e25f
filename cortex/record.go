package cortex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
		return Record{}, fmt.Errorf("%w: %.40q is not a kind of record in the memory", journal.ErrUnknownKind, j.Kind)
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
	// What may not stand in a line: control characters and every kind of white space, the
	// separators of lines and paragraphs among them.
	line := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}), " ")
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

// Limits of what is remembered.
const (
	MaxImportance = 10
	MaxText       = 2000 // bytes

	// EventImportance is what the executor gives to the events it writes.
	EventImportance = 3
)

// Remember is an item that is kept.
type Remember struct {
	By         string `json:"by"`
	Digest     string `json:"digest,omitempty"`
	Importance int    `json:"importance"`
	Item       string `json:"item"`
	Kind       string `json:"kind,omitempty"` // of the node or stage
	Outcome    string `json:"outcome,omitempty"`
	Pinned     bool   `json:"pinned"`
	Server     string `json:"server,omitempty"`
	Skill      string `json:"skill,omitempty"`
	Text       string `json:"text"`
	Tool       string `json:"tool,omitempty"`
	Verb       string `json:"verb,omitempty"`
}

func (*Remember) kind() string { return KindRemember }

func (b *Remember) check(r *Record) error {
	u, err := ParseURI(b.Item)
	switch {
	case err != nil:
		return err
	case u != NewURI(u.Type, r.At, r.Seq):
		return fmt.Errorf("record %d does not make %s", r.Seq, b.Item)
	case b.Importance < 0 || b.Importance > MaxImportance:
		return fmt.Errorf("the importance is %d: it goes from 0 to %d", b.Importance, MaxImportance)
	case b.Text == "":
		return errors.New("there is no text")
	case len(b.Text) > MaxText:
		return fmt.Errorf("the text has %d bytes: at most %d are remembered", len(b.Text), MaxText)
	case !utf8.ValidString(b.Text):
		return errors.New("the text is not UTF-8")
	case u.Type == TypeEvent && utf8.RuneCountInString(b.Text) > SummaryLimit:
		return fmt.Errorf("the text of an event has more than %d characters", SummaryLimit)
	case u.Type == TypeEvent && (b.Importance != EventImportance || b.Pinned):
		return fmt.Errorf("an event has the importance %d and is not pinned", EventImportance)
	}
	return nil
}

// Tombstone takes an item out of use. Its record stays: the log is complete.
type Tombstone struct {
	By   string `json:"by"`
	Item string `json:"item"`
}

func (*Tombstone) kind() string { return KindTombstone }

func (b *Tombstone) check(*Record) error {
	_, err := ParseURI(b.Item)
	return err
}

// Outcomes of a run.
const (
	Success   = "success"
	Partial   = "partial"
	Failure   = "failure"
	Cancelled = "cancelled"
)

// Attest is the end of a run.
type Attest struct {
	Began     Time     `json:"began"` // when the run was drafted: what is younger it cannot learn from
	Cited     []string `json:"cited"` // items: those it was given, its own events, those of its children
	CreatedBy string   `json:"created_by"`
	Outcome   string   `json:"outcome"`
	Reason    string   `json:"reason"` // of a failure
}

func (*Attest) kind() string { return KindAttest }

func (b *Attest) check(r *Record) error {
	switch {
	case r.Run == "":
		return errors.New("it names no run")
	case !slices.Contains([]string{Success, Partial, Failure, Cancelled}, b.Outcome):
		return fmt.Errorf("%q is not an outcome", b.Outcome)
	case b.Cited == nil:
		return errors.New("it cites nothing, not even an empty list")
	}
	for _, item := range b.Cited {
		if _, err := ParseURI(item); err != nil {
			return err
		}
	}
	return nil
}

// Why nothing was learned.
const (
	Neutral        = "neutral"         // the outcome says nothing about what was cited
	NothingCounted = "nothing_counted" // nothing older than the run was cited
	Degenerate     = "degenerate"      // what was cited has no worth by any factor, or no weight would be left
)

// LearnWeights is what was learned from the attest before it. Weights are in the
// order R, A, C, D, V.
type LearnWeights struct {
	Counted   []string `json:"counted"` // the cited items that were old enough
	Delta     int      `json:"delta"`   // 1, -1 or 0
	New       Weights  `json:"new"`
	Prev      Weights  `json:"prev"`
	Skipped   bool     `json:"skipped"` // new is prev
	SourceSeq int64    `json:"source_seq"`
	Why       string   `json:"why"` // it was skipped
}

func (*LearnWeights) kind() string { return KindLearnWeights }

func (b *LearnWeights) check(r *Record) error {
	switch {
	case b.SourceSeq != r.Seq-1:
		return fmt.Errorf("it follows record %d, not %d", r.Seq-1, b.SourceSeq)
	case !b.New.valid() || !b.Prev.valid():
		return fmt.Errorf("weights are whole numbers of 10⁻⁹ and add up to %d", One)
	case b.Counted == nil:
		return errors.New("it counts nothing, not even an empty list")
	}
	return nil
}

// Time is a time whose text has exactly nine decimals. It is no struct with a
// time.Time in it: that would bring its own JSON, which leaves zeros out.
type Time time.Time

const timeLayout = "2006-01-02T15:04:05.000000000Z"

// MarshalText is RFC 3339 in UTC.
func (t Time) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, timeLayout), nil
}

// UnmarshalText reads what MarshalText writes.
func (t *Time) UnmarshalText(b []byte) error {
	parsed, err := time.Parse(timeLayout, string(b))
	*t = Time(parsed)
	return err
}

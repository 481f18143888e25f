package cortex

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

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
		return fmt.Errorf("%q is no outcome", b.Outcome)
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

package cortex

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// Codes of what can be wrong with a log, beside those of a journal: malformed,
// version, field_missing, unknown_kind, body, gap and hash.
const (
	FaultItem        = "item_unknown"   // a record names an item that no record before it remembers
	FaultUnpaired    = "unpaired"       // an attest and its learn_weights do not stand together
	FaultAttestTwice = "attest_twice"   // a run ended twice
	FaultLearned     = "learn_mismatch" // what a learn_weights says does not follow from the log before it
)

// Rebuild derives from a log, record by record, what a store keeps beside it.
// The zero value is not ready: use NewRebuild.
type Rebuild struct {
	Seq      int64 // of the last record
	Hash     journal.Hash
	Weights  Weights
	Learned  int64            // seq of the last learn_weights; 0: none
	Attested map[string]int64 // seq of the attest, by run
	Log      tipstaff.Finding

	items   map[int64]*Change // by the seq of their records
	pending *LearnWeights     // what the next record must say
	changes []Change
}

// NewRebuild begins with an empty memory.
func NewRebuild() *Rebuild {
	return &Rebuild{Weights: Cold, Attested: map[string]int64{}, Log: tipstaff.NothingFound(), items: map[int64]*Change{}}
}

// Standing is how an item stands after the records so far.
func (b *Rebuild) Standing(u URI) (Standing, bool) {
	if c := b.find(u); c != nil {
		return c.Standing, true
	}
	return Standing{}, false
}

func (b *Rebuild) find(u URI) *Change {
	if c := b.items[u.Seq()]; c != nil && c.Item == u {
		return c
	}
	return nil
}

// Items is how many there are that are not forgotten.
func (b *Rebuild) Items() (n int) {
	for _, s := range b.items {
		if s.Forgotten == 0 {
			n++
		}
	}
	return n
}

// Add takes the next record as it is stored, and returns it; false: it cannot be
// read. A fault is noted, and reading goes on with what is there.
func (b *Rebuild) Add(seq int64, stored []byte, hash journal.Hash) (Record, bool) {
	if next := b.Seq + 1; seq != next {
		b.Fault("gap", seq, "record %d follows record %d", seq, b.Seq)
	}
	if b.Hash.Next(stored) != hash {
		b.Fault("hash", seq, "the hash is not that of the record and the hash before it")
	}
	b.Seq, b.Hash = seq, hash
	r, err := ParseRecord(stored)
	if err == nil && r.Seq != seq {
		err = fmt.Errorf("%w: the record says that it is number %d", journal.ErrMalformed, r.Seq)
	}
	if err != nil {
		b.Fault(codeOf(err), seq, "%v", err)
		b.pending = nil
		return Record{}, false
	}
	b.apply(&r)
	return r, true
}

// Close looks at the end of the log.
func (b *Rebuild) Close() {
	if b.pending != nil {
		b.Fault(FaultUnpaired, b.Seq, "no learn_weights follows this attest")
	}
}

// Fault notes what is wrong with a record. Stores add what only they can see.
func (b *Rebuild) Fault(code string, seq int64, format string, args ...any) {
	b.Log.Note(tipstaff.Problem{Code: code, Seq: seq, Message: fmt.Sprintf(format, args...)})
}

// codeOf is the journal's own name for what is wrong with a record.
func codeOf(err error) string {
	for _, code := range []journal.FaultCode{journal.ErrMalformed, journal.ErrVersion, journal.ErrFieldMissing, journal.ErrUnknownKind, journal.ErrBody} {
		if errors.Is(err, code) {
			return string(code)
		}
	}
	return string(journal.ErrMalformed)
}

func (b *Rebuild) apply(r *Record) {
	if _, ok := r.Body.(*LearnWeights); b.pending != nil && !ok {
		b.Fault(FaultUnpaired, r.Seq-1, "no learn_weights follows this attest")
		b.pending = nil
	}
	switch body := r.Body.(type) {
	case *Remember:
		u, _ := ParseURI(body.Item) // it was checked with the record
		b.items[r.Seq] = &Change{u, Standing{Created: r.At, LastUse: r.At, Importance: body.Importance, Pinned: body.Pinned}}
	case *Tombstone:
		u, _ := ParseURI(body.Item)
		if c := b.find(u); c != nil && c.Forgotten == 0 {
			c.Forgotten = r.Seq
		} else {
			b.Fault(FaultItem, r.Seq, "there is no %s to forget", body.Item)
		}
	case *Attest:
		b.attest(r, body)
	case *LearnWeights:
		b.learned(r, body)
	}
}

func (b *Rebuild) attest(r *Record, body *Attest) {
	if first, twice := b.Attested[r.Run]; twice {
		b.Fault(FaultAttestTwice, r.Seq, "run %s ended with record %d already", r.Run, first)
	}
	b.Attested[r.Run] = r.Seq
	var err error
	b.pending, b.changes, err = Settle(r.Seq, r.At, body, b.Weights, func(u URI) (Standing, bool, error) {
		s, ok := b.Standing(u)
		return s, ok, nil
	})
	if err != nil {
		b.Fault(FaultItem, r.Seq, "%v", err)
	}
}

// learned compares what a record says with what follows from the log before it,
// and goes on with the latter.
func (b *Rebuild) learned(r *Record, body *LearnWeights) {
	want := b.pending
	b.pending = nil
	if want == nil {
		b.Fault(FaultUnpaired, r.Seq, "no attest precedes this learn_weights")
		return
	}
	if !reflect.DeepEqual(body, want) {
		b.Fault(FaultLearned, r.Seq, "the log adds up to %+v", *want)
	}
	for _, c := range b.changes {
		b.items[c.Item.Seq()].Standing = c.Standing
	}
	b.Weights, b.Learned = want.New, r.Seq
}

package tipstaff

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tipstaff/tipstaff/journal"
)

// Memory is what a workspace remembers from run to run: items, how often they
// have helped, and the weights learned from that.
//
// Everything follows from one append-only log. Errors are [*Error]: a malformed
// item is invalid_argument, an unknown one artifact_not_found.
type Memory interface {
	// Items are those that are not forgotten, newest first.
	Items(context.Context, MemoryQuery) ([]MemoryItem, error)
	// Item is one, forgotten or not.
	Item(ctx context.Context, item string) (MemoryItem, error)
	// Recall gives the eight best items for a piece of work, best first. It
	// changes nothing: an item counts as used when a run that was given it ends.
	Recall(context.Context, RecallRequest) ([]MemoryItem, error)
	// Weights are those in force.
	Weights(context.Context) (MemoryWeights, error)
	// Log yields the log's records after a cursor.
	Log(ctx context.Context, after int64) iter.Seq2[MemoryRecord, error]
	// Remember keeps an item.
	Remember(context.Context, RememberRequest) (MemoryItem, error)
	// Forget takes an item out of use. Its record stays in the log.
	Forget(ctx context.Context, item string) (MemoryItem, error)
	// Rebuild derives items and weights from the log and compares them with those
	// in use. Unless it is to check only, it puts them right; a log that is not
	// whole is never built upon.
	Rebuild(ctx context.Context, check bool) (MemoryReport, error)
}

// MemoryTypes are all that an item can be of.
func MemoryTypes() []string {
	return []string{"identity", "fact", "preference", "belief", "event", "goal", "constraint", "capability", "pattern"}
}

// MemoryItem is something remembered, with what became of it.
type MemoryItem struct {
	Item       string    `json:"item"` // cortex://<type>/<ulid>
	Type       string    `json:"type"`
	Text       string    `json:"text"`
	Importance int       `json:"importance"` // 0 to 10
	Pinned     bool      `json:"pinned"`
	By         string    `json:"by"` // who remembered it
	Seq        int64     `json:"seq"`
	CreatedAt  time.Time `json:"created_at"`

	// What it is about. One that names none of these, and is no event, is about
	// everything.
	Skill  string `json:"skill,omitempty"`
	Verb   string `json:"verb,omitempty"`
	Server string `json:"server,omitempty"`

	// Of an event: the leaf or stage whose end it tells of.
	Run     ID     `json:"run_id,omitzero"`
	Path    string `json:"path,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Digest  string `json:"digest,omitempty"` // of its result

	LastUsedAt time.Time `json:"last_used_at"` // CreatedAt, if it never was
	Accesses   int64     `json:"accesses"`
	Citations  int64     `json:"citations"`
	Forgotten  bool      `json:"forgotten,omitempty"`
	// Score is what it is worth now, in 10⁻⁹, and Factors are what that was made of, from 0
	// to 1 each. Lists leave both out unless they are asked for.
	Score   Billionths    `json:"score,omitempty"`
	Factors MemoryFactors `json:"factors,omitzero"`
}

// MemoryFactors are what the score of an item is made of, before the weights.
type MemoryFactors struct {
	R Billionths `json:"R"` // recency
	A Billionths `json:"A"` // accesses
	C Billionths `json:"C"` // citations
	D Billionths `json:"D"` // declared importance
}

// MemoryQuery selects items.
type MemoryQuery struct {
	Type  string // "": all
	Limit int    // 0: all
	// Scored has each item tell its score and the factors of it.
	Scored bool
}

// RecallRequest says what is to be done. Items that share one of these, or that
// are about everything, are recalled.
type RecallRequest struct{ Skill, Verb, Server string }

// RememberRequest is an item to keep.
type RememberRequest struct {
	Type, Text          string
	Importance          int
	Pinned              bool
	Skill, Verb, Server string // what it is about; all empty: everything
}

// MemoryWeights say how much each factor counts for the score of an item, in
// 10⁻⁹. Their sum is 10⁹.
type MemoryWeights struct {
	R Billionths `json:"R"` // recency
	A Billionths `json:"A"` // accesses
	C Billionths `json:"C"` // citations
	D Billionths `json:"D"` // declared importance
	V Billionths `json:"V"` // nearness of a vector: kept for an embedder, never learned
}

// Billionths is a number in units of 10⁻⁹: whole in JSON, with decimals in text.
type Billionths int64

// String has nine decimals.
func (b Billionths) String() string {
	sign, n := "", int64(b)
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%09d", sign, n/1e9, n%1e9)
}

// MemoryRecord is one record of the memory's log.
type MemoryRecord struct {
	Seq  int64
	Kind string
	At   time.Time
	Run  ID     // whose event or end it tells of; zero: none
	Text string // what it says, for people
	Raw  []byte // the bytes as stored
	// Weights are those in force after a record that says what was learned; nil: it says
	// something else.
	Weights *MemoryWeights
}

// MemoryReport is what a rebuild found.
type MemoryReport struct {
	Seq     int64         `json:"head_seq"`
	Head    string        `json:"head_hash"`
	Items   int           `json:"items"`   // not forgotten
	Attests int           `json:"attests"` // runs that ended
	Weights MemoryWeights `json:"weights"`
	Rebuilt int           `json:"rebuilt"` // rows that were put right
	Log     Finding       `json:"log"`     // is the log whole
	State   Finding       `json:"state"`   // does what is in use follow from it
}

// NothingFound is a finding to note problems in.
func NothingFound() Finding { return Finding{OK: true, Problems: []Problem{}} }

// Note adds a problem. All are counted, and so many as a journal's are listed.
func (f *Finding) Note(p Problem) {
	f.OK, f.Total = false, f.Total+1
	if len(f.Problems) < journal.MaxFaults {
		f.Problems = append(f.Problems, p)
	}
}

// OK reports that nothing was found.
func (r MemoryReport) OK() bool { return r.Log.OK && r.State.OK }

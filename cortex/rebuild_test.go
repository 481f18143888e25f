package cortex

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// book is a memory as a store keeps it: a log, and beside it what is in use.
type book struct {
	log     []entry
	head    journal.Hash
	now     time.Time
	items   map[URI]*Standing
	order   []URI
	weights Weights
	runs    int
}

type entry struct {
	seq   int64
	bytes []byte
	hash  journal.Hash
}

func newBook() *book {
	return &book{now: noon, items: map[URI]*Standing{}, weights: Cold}
}

func (b *book) next() int64 { return int64(len(b.log)) + 1 }

func (b *book) write(t interface{ Fatal(...any) }, run string, body Body) {
	r := Record{Seq: b.next(), At: b.now, Run: run, Body: body}
	stored, err := r.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b.head = b.head.Next(stored)
	b.log = append(b.log, entry{r.Seq, stored, b.head})
}

func (b *book) remember(t interface{ Fatal(...any) }, importance int) URI {
	u := NewURI("fact", b.now, b.next())
	b.write(t, "", &Remember{By: "me", Importance: importance, Item: u.String(), Text: "something"})
	b.items[u] = &Standing{Created: b.now, LastUse: b.now, Importance: importance}
	b.order = append(b.order, u)
	return u
}

func (b *book) forget(t interface{ Fatal(...any) }, u URI) {
	b.write(t, "", &Tombstone{By: "me", Item: u.String()})
	b.items[u].Forgotten = b.next() - 1
}

func (b *book) end(t interface{ Fatal(...any) }, began time.Time, outcome, reason string, cited ...URI) {
	b.runs++
	run := fmt.Sprintf("run%d", b.runs)
	a := end(outcome, reason, cited...)
	a.Began = Time(began)
	b.write(t, run, a)
	learned, changes, err := Settle(b.next()-1, b.now, a, b.weights, func(u URI) (Standing, bool, error) {
		s, ok := b.items[u]
		if !ok {
			return Standing{}, false, nil
		}
		return *s, true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, run, learned)
	for _, c := range changes {
		*b.items[c.Item] = c.Standing
	}
	b.weights = learned.New
}

func rebuilt(log []entry) *Rebuild {
	r := NewRebuild()
	for _, e := range log {
		r.Add(e.seq, e.bytes, e.hash)
	}
	r.Close()
	return r
}

// Whatever happened, the log alone leads to what is in use.
func TestRebuildEqualsWhatIsInUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBook()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			b.now = b.now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(40*24*time.Hour)).Draw(t, "pass")))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				b.remember(t, rapid.IntRange(0, 10).Draw(t, "importance"))
			case 2:
				if u, ok := b.pick(t); ok && b.items[u].Forgotten == 0 {
					b.forget(t, u)
				}
			default:
				var cited []URI
				for range rapid.IntRange(0, 4).Draw(t, "cited") {
					if u, ok := b.pick(t); ok {
						cited = append(cited, u)
					}
				}
				outcome := rapid.SampledFrom([]string{Success, Partial, Failure, Cancelled}).Draw(t, "outcome")
				reason := rapid.SampledFrom([]string{"tool_error", "factual_error"}).Draw(t, "reason")
				b.end(t, b.now.Add(-time.Duration(rapid.Int64Range(0, int64(50*24*time.Hour)).Draw(t, "took"))), outcome, reason, cited...)
			}
		}
		r := rebuilt(b.log)
		if r.Log.Total != 0 || r.Weights != b.weights || r.Hash != b.head || len(r.Attested) != b.runs {
			t.Fatalf("rebuilt %+v, in use %v", r, b.weights)
		}
		inUse := 0
		for _, u := range b.order {
			if got, ok := r.Standing(u); !ok || got != *b.items[u] {
				t.Fatalf("%s is rebuilt as %+v, and in use as %+v", u, got, *b.items[u])
			}
			if b.items[u].Forgotten == 0 {
				inUse++
			}
		}
		if r.Items() != inUse {
			t.Fatalf("%d items are rebuilt, %d are in use", r.Items(), inUse)
		}
	})
}

func (b *book) pick(t *rapid.T) (URI, bool) {
	if len(b.order) == 0 {
		return URI{}, false
	}
	return b.order[rapid.IntRange(0, len(b.order)-1).Draw(t, "item")], true
}

func eventful(t *testing.T) *book {
	b := newBook()
	first := b.remember(t, 5)  // 1
	second := b.remember(t, 9) // 2
	b.now = b.now.Add(time.Hour)
	b.end(t, b.now, Success, "", first) // 3, 4
	b.forget(t, second)                 // 5
	b.now = b.now.Add(time.Hour)
	b.end(t, b.now, Failure, "factual_error", first) // 6, 7
	return b
}

func TestASoundLogHasNoFaults(t *testing.T) {
	if r := rebuilt(eventful(t).log); r.Log.Total != 0 || r.Learned != 7 || r.Attested["run2"] != 6 {
		t.Errorf("%+v", r)
	}
}

// rechain makes the hashes fit again, as one would who knows how they are made.
func rechain(log []entry) []entry {
	head := journal.Hash{}
	for i := range log {
		head = head.Next(log[i].bytes)
		log[i].hash = head
	}
	return log
}

func swapText(log []entry, at int, old, new string) []entry {
	log[at].bytes = []byte(strings.Replace(string(log[at].bytes), old, new, 1))
	return log
}

func TestDamageIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		harm func([]entry) []entry
		code string
		seq  int64
	}{
		"a record is missing":           {func(l []entry) []entry { return slices.Delete(l, 1, 2) }, "gap", 3},
		"the first is missing":          {func(l []entry) []entry { return l[1:] }, "gap", 2},
		"a byte is another":             {func(l []entry) []entry { return swapText(l, 0, "something", "somethinG") }, "hash", 1},
		"a hash is another":             {func(l []entry) []entry { l[3].hash[0] ^= 1; return l }, "hash", 4},
		"two have changed places":       {func(l []entry) []entry { l[0].bytes, l[1].bytes = l[1].bytes, l[0].bytes; return l }, "hash", 1},
		"two moved, hashes made to fit": {func(l []entry) []entry { l[0].bytes, l[1].bytes = l[1].bytes, l[0].bytes; return rechain(l) }, "malformed", 1},
		"no JSON":                       {func(l []entry) []entry { l[0].bytes = []byte("x"); return rechain(l) }, "malformed", 1},
		"a learn_weights is missing": {func(l []entry) []entry {
			l = append(l[:6:6], l[6:]...)[:6]
			return l
		}, FaultUnpaired, 6},
		"other weights, hashes made to fit":    {func(l []entry) []entry { return rechain(swapText(l, 3, `"delta":1`, `"delta":0`)) }, FaultLearned, 4},
		"other outcome, hashes made to fit":    {func(l []entry) []entry { return rechain(swapText(l, 2, `"outcome":"success"`, `"outcome":"partial"`)) }, FaultLearned, 4},
		"other importance, hashes made to fit": {func(l []entry) []entry { return rechain(swapText(l, 0, `"importance":5`, `"importance":6`)) }, FaultLearned, 4},
		"a run that ended twice":               {func(l []entry) []entry { return rechain(swapText(l, 5, `"run":"run2"`, `"run":"run1"`)) }, FaultAttestTwice, 6},
		"an item that never was": {func(l []entry) []entry {
			return rechain(swapText(l, 4, NewURI("fact", noon, 2).String(), NewURI("goal", noon, 2).String()))
		}, FaultItem, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := rebuilt(c.harm(eventful(t).log))
			if !slices.ContainsFunc(r.Log.Problems, func(p tipstaff.Problem) bool { return p.Code == c.code && p.Seq == c.seq }) {
				t.Errorf("found %+v, want %s at %d", r.Log.Problems, c.code, c.seq)
			}
		})
	}
}

// A log of which everything is wrong does not fill the memory with faults.
func TestFaultsAreCountedAndLimited(t *testing.T) {
	r := NewRebuild()
	for i := range int64(200) {
		r.Add(2*i+2, []byte("x"), journal.Hash{})
	}
	if len(r.Log.Problems) != journal.MaxFaults || r.Log.Total != 600 {
		t.Errorf("%d faults of %d are kept", len(r.Log.Problems), r.Log.Total)
	}
}

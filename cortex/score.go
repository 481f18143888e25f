package cortex

import (
	"cmp"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Standing is what the worth of an item depends on.
type Standing struct {
	Created    time.Time
	LastUse    time.Time // Created, if there was none
	Accesses   int64
	Citations  int64
	Importance int
	Pinned     bool
	Forgotten  int64 // seq of its tombstone; 0: it is in use
}

// StandingOf is that of an item in use.
func StandingOf(m *tipstaff.MemoryItem) Standing {
	return Standing{Created: m.CreatedAt, LastUse: m.LastUsedAt, Accesses: m.Accesses, Citations: m.Citations,
		Importance: m.Importance, Pinned: m.Pinned}
}

// Factors are R, A, C and D of an item, each from 0 to One.
type Factors [factors]int64

// Factors at a time.
func (s Standing) Factors(now time.Time) Factors {
	return Factors{
		recency:   fade(now.Sub(s.LastUse)),
		accesses:  growth(s.Accesses),
		citations: growth(s.Citations),
		declared:  int64(s.Importance) * (One / MaxImportance),
	}
}

// Named is the same with names.
func (f Factors) Named() tipstaff.MemoryFactors {
	b := func(i int) tipstaff.Billionths { return tipstaff.Billionths(f[i]) }
	return tipstaff.MemoryFactors{R: b(recency), A: b(accesses), C: b(citations), D: b(declared)}
}

// Rate has an item tell what it is worth, and why.
func (w Weights) Rate(m *tipstaff.MemoryItem, now time.Time) {
	s := StandingOf(m)
	m.Score, m.Factors = w.Score(s, now), s.Factors(now).Named()
}

// pinnedScore is the least that a pinned item is worth.
const pinnedScore = 7 * One / 10

// Score is the mean of the factors by their weights, rounded half to even. V has
// no part in it: nothing here makes vectors.
func (w Weights) Score(s Standing, now time.Time) tipstaff.Billionths {
	f := s.Factors(now)
	sum, total := int64(0), int64(0) // at most 10⁹·10⁹: it fits
	for i, v := range f {
		sum += w[i] * v
		total += w[i]
	}
	score := int64(0)
	if total > 0 {
		score = halfEven(sum, total)
	}
	if s.Pinned {
		score = max(score, pinnedScore)
	}
	return tipstaff.Billionths(score)
}

// halfEven is num/den, neither negative, rounded.
func halfEven(num, den int64) int64 {
	whole, rest := num/den, num%den
	if twice := 2 * rest; twice > den || twice == den && whole%2 == 1 {
		whole++
	}
	return whole
}

// Recalled is how many items are recalled.
const Recalled = 8

// Recall ranks the items that are not forgotten and have to do with the request,
// and gives the best of them with their scores. Of equal ones the one that was
// used last goes first, then the younger one.
func (w Weights) Recall(items []tipstaff.MemoryItem, req tipstaff.RecallRequest, now time.Time) []tipstaff.MemoryItem {
	best := slices.DeleteFunc(slices.Clone(items), func(m tipstaff.MemoryItem) bool { return m.Forgotten || !Concerns(&m, req) })
	for i := range best {
		best[i].Score = w.Score(StandingOf(&best[i]), now)
	}
	slices.SortFunc(best, func(a, b tipstaff.MemoryItem) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), b.LastUsedAt.Compare(a.LastUsedAt), cmp.Compare(b.Seq, a.Seq))
	})
	return best[:min(len(best), Recalled)]
}

// Concerns reports whether an item has to do with a request: they share a skill,
// a verb or a server, or somebody remembered it for everything. An event that has
// none of them only happened.
func Concerns(m *tipstaff.MemoryItem, req tipstaff.RecallRequest) bool {
	shares := func(a, b string) bool { return a != "" && a == b }
	return m.Skill == "" && m.Verb == "" && m.Server == "" && m.Type != TypeEvent ||
		shares(m.Skill, req.Skill) || shares(m.Verb, req.Verb) || shares(m.Server, req.Server)
}

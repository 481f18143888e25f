package cortex

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

const day = 24 * time.Hour

// By hand: R = 1/e = 0.367879441 after 90 days, A of 30 uses ln 31/ln 1001 = 0.497048645, C = 0, D = 0.5; the mean by
// cold weights is (0.25·R + 0.15·A + 0.2·0.5)/0.9.
func TestFactorsByHand(t *testing.T) {
	s := Standing{LastUse: noon.Add(-90 * day), Accesses: 30, Importance: 5}
	f := s.Factors(noon)
	if f[0] != 367_879_441 || f[1] != 497_048_645 || f[2] != 0 || f[3] != 500_000_000 {
		t.Errorf("factors %v", f)
	}
	want := (0.25*float64(f[0]) + 0.15*float64(f[1]) + 0.2*float64(f[3])) / 0.9
	if got := float64(Cold.Score(s, noon)); got < want-1 || got > want+1 {
		t.Errorf("score %v, want about %v", got, want)
	}
}

func TestAClockThatWentBackIsNoAge(t *testing.T) {
	if f := (Standing{LastUse: noon.Add(time.Hour)}).Factors(noon); f[recency] != One {
		t.Errorf("recency %d", f[recency])
	}
}

func TestPinnedItemsKeepTheirWorth(t *testing.T) {
	old := Standing{LastUse: noon.Add(-5000 * day)}
	if got := Cold.Score(old, noon); got != 0 {
		t.Errorf("an old item is worth %s", got)
	}
	old.Pinned = true
	if got := Cold.Score(old, noon); got != 700_000_000 {
		t.Errorf("pinned, it is worth %s", got)
	}
	fresh := Standing{LastUse: noon, Accesses: 1000, Citations: 1000, Importance: 10, Pinned: true}
	if got := Cold.Score(fresh, noon); got != One {
		t.Errorf("the best there is is worth %s", got)
	}
}

func TestHalvesAreRoundedToEven(t *testing.T) {
	for _, c := range [][3]int64{{1, 2, 0}, {3, 2, 2}, {5, 2, 2}, {2, 3, 1}, {1, 3, 0}, {7, 1, 7}} {
		if got := halfEven(c[0], c[1]); got != c[2] {
			t.Errorf("%d/%d is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func item(seq int64, age time.Duration, with func(*tipstaff.MemoryItem)) tipstaff.MemoryItem {
	m := tipstaff.MemoryItem{Item: fmt.Sprint(seq), Seq: seq, CreatedAt: noon.Add(-age), LastUsedAt: noon.Add(-age), Importance: 3, Server: "files"}
	if with != nil {
		with(&m)
	}
	return m
}

func TestRecall(t *testing.T) {
	items := []tipstaff.MemoryItem{
		item(1, 0, func(m *tipstaff.MemoryItem) { m.Server = "other" }),
		item(2, 0, func(m *tipstaff.MemoryItem) { m.Forgotten = true }),
		item(3, 10*day, nil),
		item(4, 5*day, func(m *tipstaff.MemoryItem) { m.Server, m.Verb = "other", "build" }),
		item(5, 5*day, func(m *tipstaff.MemoryItem) { m.Server, m.Skill = "other", "skill://s@1.0.0" }),
		item(9, 0, func(m *tipstaff.MemoryItem) { m.Type, m.Server = TypeEvent, "" }),
		item(6, 400*day, func(m *tipstaff.MemoryItem) { m.Server = "" }),            // about everything
		item(7, 400*day, func(m *tipstaff.MemoryItem) { m.Pinned = true }),          // at least 0.7
		item(8, 0, func(m *tipstaff.MemoryItem) { m.Citations, m.Accesses = 9, 9 }), // the best but for the pinned one
	}
	got := Cold.Recall(items, tipstaff.RecallRequest{Server: "files", Verb: "build", Skill: "skill://s@1.0.0"}, noon)
	var order []int64
	for _, m := range got {
		order = append(order, m.Seq)
	}
	// 4 and 5 are worth the same: the younger record goes first.
	if want := []int64{7, 8, 5, 4, 3, 6}; !slices.Equal(order, want) {
		t.Errorf("recalled %v, want %v", order, want)
	}
	if got[0].Score != 700_000_000 || items[7].Score != 0 {
		t.Errorf("scores %s and %s", got[0].Score, items[7].Score)
	}
}

func TestRecallGivesEight(t *testing.T) {
	var items []tipstaff.MemoryItem
	for i := range 20 {
		items = append(items, item(int64(i+1), time.Duration(i)*day, nil))
	}
	got := Cold.Recall(items, tipstaff.RecallRequest{Server: "files"}, noon)
	if len(got) != 8 || got[0].Seq != 1 || got[7].Seq != 8 {
		t.Errorf("recalled %d, from %v", len(got), got)
	}
	if got := Cold.Recall(items, tipstaff.RecallRequest{}, noon); len(got) != 0 {
		t.Errorf("nothing was asked for, and %d were recalled", len(got))
	}
}

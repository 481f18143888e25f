package cortex

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestColdWeights(t *testing.T) {
	if !Cold.valid() {
		t.Errorf("%v do not add up to %d", Cold, One)
	}
}

// By hand: P = (1, 0, 0, 0.3), so the target is 0.9·P/1.3 = (0.692307692…, 0, 0, 0.207692307…). A twentieth of the way there
// lie 0.272115384 615…, 0.1425, 0.285 and 0.200384615 384…; their floors lack one unit, and R's fraction is the largest.
func TestLearningByHand(t *testing.T) {
	got, ok := Cold.learn(1, []Factors{{One, 0, 0, 3 * One / 10}})
	if want := (Weights{272_115_385, 142_500_000, 285_000_000, 200_384_615, 100_000_000}); !ok || got != want {
		t.Errorf("learned %v, want %v", got, want)
	}
}

// Equal fractions are served in the order R, A, C, D.
func TestTiesGoToTheFirst(t *testing.T) {
	parts := []*big.Int{big.NewInt(1), big.NewInt(1), big.NewInt(1), big.NewInt(1)}
	got, ok := apportion(6, parts)
	if !ok || got[0] != 2 || got[1] != 2 || got[2] != 1 || got[3] != 1 {
		t.Errorf("six units for four: %v", got)
	}
	if _, ok := apportion(6, []*big.Int{new(big.Int), new(big.Int)}); ok {
		t.Error("units were given to nobody")
	}
}

func TestNothingIsLearnedFromWorthlessItems(t *testing.T) {
	if got, ok := Cold.learn(1, []Factors{{}}); ok || got != Cold {
		t.Errorf("learned %v", got)
	}
}

func drawFactors(t *rapid.T) Factors {
	unit := rapid.OneOf(rapid.Just(int64(0)), rapid.Just(int64(One)), rapid.Int64Range(0, One))
	return Factors{unit.Draw(t, "R"), unit.Draw(t, "A"), unit.Draw(t, "C"), int64(rapid.IntRange(0, 10).Draw(t, "D")) * One / 10}
}

// However runs end, the sum stays, V stays, and nothing is negative.
func TestWeightsStayWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(drawFactors), 1, 4), 5, 5).Draw(t, "kinds")
		deltas := rapid.SliceOfN(rapid.SampledFrom([]int64{1, 1, -1}), 7, 7).Draw(t, "deltas")
		chain(t, 50, kinds, deltas)
	})
}

// A thousand runs end, an hour apart, in every way a run can, and cite what they
// like: each learns from where the one before it left the weights and the items.
func TestWeightsAfterAThousandEnds(t *testing.T) {
	const items = 7
	memory := map[URI]Standing{}
	var known []URI
	for i := range items {
		u := NewURI("fact", noon.Add(-time.Hour), int64(i+1))
		known = append(known, u)
		memory[u] = Standing{Created: noon.Add(-time.Hour), LastUse: noon.Add(-time.Hour), Importance: i}
	}
	ends := []*Attest{end(Success, ""), end(Failure, "factual_error"), end(Partial, ""), end(Success, ""), end(Failure, "tool_error"), end(Cancelled, "")}
	w, learned := Cold, 0
	for i := range 1000 {
		at := noon.Add(time.Duration(i+1) * time.Hour)
		b := *ends[i%len(ends)]
		b.Began = Time(at.Add(-time.Minute))
		var worth []Factors
		for _, u := range known[:1+i%items] {
			b.Cited = append(b.Cited, u.String())
			worth = append(worth, memory[u].Factors(at))
		}
		got, changes, err := Settle(int64(2*i+1), at, &b, w, func(u URI) (Standing, bool, error) { s, ok := memory[u]; return s, ok, nil })
		if err != nil || len(changes) != len(worth) {
			t.Fatalf("end %d: %d of %d items changed: %v", i, len(changes), len(worth), err)
		}
		want := w
		if d := b.delta(); d != 0 {
			want, _ = w.learn(int64(d), worth)
		}
		if got.Prev != w || got.New != want || !got.New.valid() || got.New[vector] != Cold[vector] {
			t.Fatalf("end %d (%s): %v became %v, want %v", i, b.Outcome, got.Prev, got.New, want)
		}
		if !got.Skipped {
			learned++
		}
		w = got.New
		for _, c := range changes {
			memory[c.Item] = c.Standing
		}
	}
	if learned != 501 { // of six ends three say something about what was cited: 166 times three, and three of the last four
		t.Errorf("%d of 1000 ends were learned from", learned)
	}
}

// chain learns from many ends, one after the other.
func chain(t interface{ Fatalf(string, ...any) }, ends int, kinds [][]Factors, deltas []int64) Weights {
	w := Cold
	for i := range ends {
		next, ok := w.learn(deltas[i%len(deltas)], kinds[i%len(kinds)])
		if !next.valid() || next[vector] != Cold[vector] || !ok && next != w {
			t.Fatalf("end %d: %v became %v", i, w, next)
		}
		w = next
	}
	return w
}

// Each step is the formula, done here with fractions.
func TestLearningIsTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Map(rapid.Int64Range(0, 1000), big.NewInt), factors, factors).Draw(t, "parts")
		w := Cold
		if shares, ok := apportion(One-w[vector], parts); ok {
			copy(w[:], shares)
		}
		delta := rapid.SampledFrom([]int64{1, -1}).Draw(t, "delta")
		counted := rapid.SliceOfN(rapid.Custom(drawFactors), 1, 4).Draw(t, "counted")
		if next, ok := w.learn(delta, counted); ok {
			nearFormula(t, w, next, delta, counted)
		}
	})
}

// nearFormula: each weight is within one unit of its exact value.
func nearFormula(t *rapid.T, w, next Weights, delta int64, counted []Factors) {
	sums, total := [factors]*big.Rat{}, new(big.Rat)
	for i := range sums {
		sums[i] = new(big.Rat)
		for _, f := range counted {
			sums[i].Add(sums[i], big.NewRat(f[i], 1))
		}
		total.Add(total, sums[i])
	}
	share := big.NewRat(One-w[vector], 1)
	moved, sum := [factors]*big.Rat{}, new(big.Rat)
	for i := range moved {
		target := new(big.Rat).Mul(share, new(big.Rat).Quo(sums[i], total))
		step := new(big.Rat).Mul(big.NewRat(delta, 20), target.Sub(target, big.NewRat(w[i], 1)))
		moved[i] = step.Add(step, big.NewRat(w[i], 1))
		if moved[i].Sign() < 0 {
			moved[i] = new(big.Rat)
		}
		sum.Add(sum, moved[i])
	}
	for i := range moved {
		exact := moved[i].Mul(moved[i], share)
		exact.Quo(exact, sum)
		off := exact.Sub(exact, big.NewRat(next[i], 1))
		if off.Abs(off).Cmp(big.NewRat(1, 1)) >= 0 {
			t.Fatalf("weight %d of %v, from %v by %d, is off by %s", i, next, w, delta, off.FloatString(3))
		}
	}
}

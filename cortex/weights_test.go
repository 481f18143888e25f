package cortex

import (
	"math/big"
	"testing"

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

func TestWeightsAfterAThousandEnds(t *testing.T) {
	kinds := [][]Factors{{{One, 0, 0, 300_000_000}}, {{1, 2, 3, 0}, {One, One, One, One}}, {{0, 0, 777_777_777, 100_000_000}}}
	w := chain(t, 1000, kinds, []int64{1, 1, -1, 1})
	if w == Cold || w[vector] != 100_000_000 {
		t.Errorf("the weights are %v", w)
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

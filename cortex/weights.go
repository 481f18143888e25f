package cortex

import (
	"math/big"

	"github.com/tipstaff/tipstaff"
)

// One is 1 in the units of weights, factors and scores, which are 10⁻⁹.
const One = 1_000_000_000

// Places of the factors among weights.
const (
	recency = iota
	accesses
	citations
	declared // importance
	vector

	factors = vector // as many as are learned
)

// Weights of the factors R, A, C, D and V. Their sum is One.
type Weights [vector + 1]int64

// Cold are the weights of a memory that has learned nothing.
var Cold = Weights{250_000_000, 150_000_000, 300_000_000, 200_000_000, 100_000_000}

func (w Weights) valid() bool {
	sum := int64(0)
	for _, v := range w {
		if v < 0 || v > One {
			return false
		}
		sum += v
	}
	return sum == One
}

// Named is the same with names.
func (w Weights) Named() tipstaff.MemoryWeights {
	b := func(i int) tipstaff.Billionths { return tipstaff.Billionths(w[i]) }
	return tipstaff.MemoryWeights{R: b(recency), A: b(accesses), C: b(citations), D: b(declared), V: b(vector)}
}

// rate is how far weights move toward their target at each end of a run: 1/20.
const rate = 20

// learn moves the weights toward the factors by which the counted items, on the
// whole, were worth what they are (delta 1), or away from them (delta −1). It
// reports false where that has no meaning.
//
// With S = One − V and P the sum of each factor over the counted items, the target
// is t = S·P/ΣP and the new weight w + delta·(t − w)/20, not below 0. All four
// have the denominator 20·ΣP, so their numerators alone are scaled to S.
func (w Weights) learn(delta int64, counted []Factors) (Weights, bool) {
	var sums [factors]int64
	total := new(big.Int)
	for _, f := range counted {
		for i := range sums {
			sums[i] += f[i]
			total.Add(total, big.NewInt(f[i]))
		}
	}
	if total.Sign() == 0 {
		return w, false
	}
	share := big.NewInt(One - w[vector])
	var parts [factors]*big.Int
	for i := range parts {
		// (20 − delta)·w·ΣP + delta·S·P
		kept := new(big.Int).Mul(big.NewInt((rate-delta)*w[i]), total)
		moved := new(big.Int).Mul(big.NewInt(delta*sums[i]), share)
		parts[i] = kept.Add(kept, moved)
		if parts[i].Sign() < 0 {
			parts[i].SetInt64(0)
		}
	}
	shares, ok := apportion(One-w[vector], parts[:])
	if !ok {
		return w, false
	}
	copy(w[:factors], shares)
	return w, true
}

// apportion divides whole units in proportion to parts: each gets the floor of
// its due, and what is left goes one by one to the largest fractions, the first
// of equal ones first. It reports false if all parts are 0.
func apportion(units int64, parts []*big.Int) ([]int64, bool) {
	sum := new(big.Int)
	for _, p := range parts {
		sum.Add(sum, p)
	}
	if sum.Sign() == 0 {
		return nil, false
	}
	dues, left := make([]int64, len(parts)), units
	rests := make([]*big.Int, len(parts))
	for i, p := range parts {
		due, rest := new(big.Int).Mul(p, big.NewInt(units)), new(big.Int)
		due.QuoRem(due, sum, rest)
		dues[i], rests[i] = due.Int64(), rest
		left -= dues[i]
	}
	for ; left > 0; left-- {
		largest := 0
		for i := range rests {
			if rests[i].Cmp(rests[largest]) > 0 {
				largest = i
			}
		}
		dues[largest]++
		rests[largest].SetInt64(-1) // each gets one at most
	}
	return dues, true
}

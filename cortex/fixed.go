package cortex

import (
	"math/big"
	"math/bits"
	"sync/atomic"
	"time"
)

// The factors have nine decimals, correctly rounded. math.Exp and math.Log may
// differ in the last bit from one processor to the next, and near the middle
// between two decimals that bit decides. So both functions are computed on
// integers, with so many bits to spare that the error is known to be too small to
// matter; where it is not, with more bits.

// spare is the number of bits below which a result is not to be trusted, of
// those that were computed beyond the decimals. The series below stay far under
// it: they have less than 2¹⁰ terms, each off by less than one in its last bit, and
// their results are scaled by less than 2³².
const spare = 64

// rounded is the whole number nearest to f, which is computed to a given number
// of bits after the point. f must be irrational: then it is never in the middle,
// and some number of bits shows on which side it lies.
func rounded(f func(precision uint) *big.Int) int64 {
	for precision := uint(192); ; precision *= 2 {
		v := f(precision)
		half := new(big.Int).Lsh(big.NewInt(1), precision-1)
		up := new(big.Int).Add(v, half)
		whole := new(big.Int).Rsh(up, precision)
		rest := up.Sub(up, new(big.Int).Lsh(whole, precision))
		near := rest.BitLen() <= spare
		rest.Sub(half.Lsh(half, 1), rest)
		if !near && rest.BitLen() > spare {
			return whole.Int64()
		}
	}
}

// lifetime is how long it takes until recency is 1/e.
const lifetime = 90 * 24 * time.Hour

// fade is exp(−d/lifetime).
func fade(d time.Duration) int64 {
	switch {
	case d <= 0:
		return One
	case d > 22*lifetime:
		return 0 // exp(−22) is less than half of 10⁻⁹
	}
	return rounded(func(precision uint) *big.Int {
		one := new(big.Int).Lsh(big.NewInt(One), 2*precision)
		return one.Quo(one, exp(int64(d), int64(lifetime), precision))
	})
}

// exp is e to the num/den, both positive, by its series: all terms are positive,
// so nothing cancels.
func exp(num, den int64, precision uint) *big.Int {
	term := new(big.Int).Lsh(big.NewInt(1), precision)
	sum := new(big.Int).Set(term)
	n, d := big.NewInt(num), new(big.Int)
	for i := int64(1); term.Sign() > 0; i++ {
		term.Mul(term, n)
		term.Quo(term, d.Mul(big.NewInt(den), big.NewInt(i)))
		sum.Add(sum, term)
	}
	return sum
}

// saturation is from how many uses on more of them add nothing.
const saturation = 1000

// growths remembers growth, which depends on nothing but n.
var growths [saturation]atomic.Int64

// growth is ln(1+n)/ln(1+saturation), at most 1.
func growth(n int64) int64 {
	switch {
	case n <= 0:
		return 0
	case n >= saturation:
		return One
	}
	if known := growths[n].Load(); known > 0 {
		return known
	}
	v := rounded(func(precision uint) *big.Int {
		ln := log(uint64(1+n), precision)
		ln.Mul(ln, big.NewInt(One)).Lsh(ln, precision)
		return ln.Quo(ln, log(1+saturation, precision))
	})
	growths[n].Store(v)
	return v
}

// log is the natural logarithm of m ≥ 1: that of a power of two, and of what m is
// beyond it, which is below 2.
func log(m uint64, precision uint) *big.Int {
	k := bits.Len64(m) - 1
	power := int64(1) << k
	ln := atanh(1, 3, precision) // ln 2 = 2·atanh(1/3)
	ln.Mul(ln, big.NewInt(int64(k)))
	ln.Add(ln, atanh(int64(m)-power, int64(m)+power, precision))
	return ln.Lsh(ln, 1)
}

// atanh is the inverse hyperbolic tangent of num/den, which is at most 1/3:
// z + z³/3 + z⁵/5 + …
func atanh(num, den int64, precision uint) *big.Int {
	power := new(big.Int).Lsh(big.NewInt(num), precision)
	power.Quo(power, big.NewInt(den))
	sum, term := new(big.Int), new(big.Int)
	square, squareOf := big.NewInt(num*num), big.NewInt(den*den)
	for i := int64(1); power.Sign() > 0; i += 2 {
		sum.Add(sum, term.Quo(power, big.NewInt(i)))
		power.Mul(power, square)
		power.Quo(power, squareOf)
	}
	return sum
}

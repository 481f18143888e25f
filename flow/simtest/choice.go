package simtest

import "math/rand/v2"

// Choices is a list of small numbers that decides everything in a simulation.
type Choices struct {
	rng    *rand.Rand // nil: what is not in the list is 0
	made   []uint16
	next   int
	listed bool
}

// Seeded makes choices by chance, the same for the same seed.
func Seeded(seed uint64) *Choices { return &Choices{rng: rand.New(rand.NewPCG(seed, 0x7150f))} }

// Listed makes the choices of a list; after its end all are 0.
func Listed(list []uint16) *Choices { return &Choices{made: list, listed: true} }

// Made is the list of what was chosen so far.
func (c *Choices) Made() []uint16 {
	if c.listed {
		return c.made[:min(c.next, len(c.made))]
	}
	return c.made
}

// Of chooses a number below n.
func (c *Choices) Of(n int) int {
	if n <= 1 {
		return 0
	}
	if c.listed {
		if c.next >= len(c.made) {
			return 0
		}
		c.next++
		return int(c.made[c.next-1]) % n
	}
	v := c.rng.IntN(n)
	c.made = append(c.made, uint16(v))
	return v
}

// One is true in one of n cases.
func (c *Choices) One(n int) bool { return c.Of(n) == n-1 }

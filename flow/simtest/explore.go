package simtest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// schedules is how many schedules of one program are tried.
const schedules = 8

// Explore tries schedules of generated programs, from the seed on, until the time
// is over or most were tried (0: no such limit). It returns how many it tried, and
// the shrunk failure of the first that broke a rule.
func Explore(t *testing.T, ground Ground, generate func(*Choices) *Case, seed uint64, most int, budget time.Duration) (int, *Failure) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the same choices give the same schedule
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	began := time.Now()
	tried := 0
	for (most == 0 || tried < most) && time.Since(began) < budget {
		var found *found
		bubble(t, func() { found = batch(ground, generate, seed, programs, &tried) })
		if found != nil {
			t.Log(found) // to shrink it may take longer than the test may
			return tried, found.shrink(t, ground, generate)
		}
		seed += programs
	}
	return tried, nil
}

// Seeds tries the schedules of single programs, given by their seeds, and returns the shrunk
// failure of the first that broke a rule.
func Seeds(t *testing.T, ground Ground, generate func(*Choices) *Case, seeds ...uint64) (tried int, failure *Failure) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, seed := range seeds {
		var found *found
		bubble(t, func() { found = batch(ground, generate, seed, 1, &tried) })
		if found != nil {
			t.Log(found)
			return tried, found.shrink(t, ground, generate)
		}
	}
	return tried, nil
}

// programs is how many programs share one bubble.
const programs = 16

func bubble(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }

// batch tries some programs, each with several schedules of which the first is
// undisturbed.
func batch(ground Ground, generate func(*Choices) *Case, seed, programs uint64, tried *int) *found {
	for i := range programs {
		program := Seeded(seed + i)
		c := generate(program)
		var twin *Ending
		for k := range schedules {
			pick := Listed(nil)
			if k > 0 {
				pick = Seeded((seed+i)<<8 + uint64(k))
			}
			end, failure := Run(ground, c, pick, twin, false)
			*tried++
			if k == 0 {
				twin = &end
			}
			if failure != nil {
				return &found{seed: seed + i, schedule: k, program: program.Made(), choices: pick.Made(), rule: failure.Rule}
			}
		}
	}
	return nil
}

// found is a schedule that fails.
type found struct {
	seed             uint64
	schedule         int
	program, choices []uint16
	rule             string
}

func (f *found) String() string {
	return fmt.Sprintf("seed %d, schedule %d: %s", f.seed, f.schedule, f.rule)
}

// again runs it once more; nil: it does not fail.
func again(t *testing.T, ground Ground, generate func(*Choices) *Case, program, choices []uint16, tracing bool) (failure *Failure) {
	bubble(t, func() {
		c := generate(Listed(program))
		twin, _ := Run(ground, c, Listed(nil), nil, false)
		_, failure = Run(ground, c, Listed(choices), &twin, tracing)
	})
	return failure
}

// shrink makes the program and the schedule smaller as long as a rule is broken,
// and runs the smallest with a trace.
func (f *found) shrink(t *testing.T, ground Ground, generate func(*Choices) *Case) *Failure {
	program, choices := f.program, f.choices
	tries := 6000
	fails := func(p, c []uint16) bool {
		tries--
		return tries > 0 && again(t, ground, generate, p, c, false) != nil
	}
	for before := -1; before != weight(program)+weight(choices) && tries > 0; {
		before = weight(program) + weight(choices)
		program = smaller(program, func(p []uint16) bool { return fails(p, choices) })
		choices = smaller(choices, func(c []uint16) bool { return fails(program, c) })
	}
	last := again(t, ground, generate, program, choices, true)
	if last == nil {
		return &Failure{Rule: f.String() + "\n(it does not fail again)", Case: generate(Listed(f.program))}
	}
	last.Rule = fmt.Sprintf("seed %d, schedule %d: %s", f.seed, f.schedule, last.Rule)
	return last
}

func weight(list []uint16) int {
	n := len(list)
	for _, v := range list {
		n += int(v)
	}
	return n
}

// smaller makes a list shorter and its numbers smaller as long as it fails.
func smaller(list []uint16, fails func([]uint16) bool) []uint16 {
	for size := len(list); size > 0; size /= 2 {
		for at := len(list) - size; at >= 0; at -= size {
			if at+size > len(list) {
				continue
			}
			without := append(append([]uint16(nil), list[:at]...), list[at+size:]...)
			if fails(without) {
				list = without
				continue
			}
			zeroed := append([]uint16(nil), list...)
			clear(zeroed[at : at+size])
			if weight(zeroed) < weight(list) && fails(zeroed) {
				list = zeroed
			}
		}
	}
	for i := range list {
		for list[i] > 0 {
			less := append([]uint16(nil), list...)
			less[i] /= 2
			if !fails(less) {
				break
			}
			list = less
		}
	}
	return list
}

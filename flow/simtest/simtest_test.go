package simtest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// budget is how long the simulator runs: TIPSTAFF_SIM sets it.
func budget(t *testing.T, usual time.Duration) time.Duration {
	text := os.Getenv("TIPSTAFF_SIM")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func seed() uint64 {
	n, err := strconv.ParseUint(os.Getenv("TIPSTAFF_SIM_SEED"), 10, 64)
	if err != nil {
		return uint64(time.Now().UnixNano()) >> 10
	}
	return n
}

func TestSchedules(t *testing.T) {
	from, began := seed(), time.Now()
	n, failure := Explore(t, Generate, from, 0, budget(t, 20*time.Second))
	took := time.Since(began)
	t.Logf("%d schedules from seed %d in %v: %.0f a second", n, from, took, float64(n)/took.Seconds())
	if failure != nil {
		t.Fatal(failure)
	}
}

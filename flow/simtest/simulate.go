package simtest

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Simulate explores schedules of generated programs as a test. TIPSTAFF_SIM says for
// how long (usual: if it does not), TIPSTAFF_SIM_SEED where to begin: a failure tells
// its seed. Without one it begins at 1, so that a test that passed passes again; a soak
// begins elsewhere each time.
func Simulate(t *testing.T, ground Ground, generate func(*Choices) *Case, usual time.Duration) {
	if text := os.Getenv("TIPSTAFF_SIM"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		usual = d
	}
	seed, err := strconv.ParseUint(os.Getenv("TIPSTAFF_SIM_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	began := time.Now()
	n, failure := Explore(t, ground, generate, seed, 0, usual)
	took := time.Since(began)
	t.Logf("%d schedules from seed %d in %v: %.0f a second", n, seed, took.Round(time.Millisecond), float64(n)/took.Seconds())
	if failure != nil {
		t.Fatal(failure)
	}
}

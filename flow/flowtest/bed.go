package flowtest

import (
	"math/rand/v2"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// Bed is a log under test together with what stands around it in a system:
// whoever creates runs, decides gates and recovers after a crash.
type Bed interface {
	// Engine drives runs over log, which is Log() or a wrapper of it.
	Engine(log flow.Log, opts *flow.Options) flow.Engine
	// Log is the log as it was last opened.
	Log() flow.Log
	// Owner is who drives; it must count as alive until Reopen.
	Owner() flow.Owner
	// NewRun creates a run that can be driven and returns its id.
	NewRun() (string, error)
	// Write appends a record as someone who does not own the run.
	Write(run string, d flow.Draft) error
	// Decide answers an open gate, named by its id. The same decision again is
	// accepted and writes nothing, another one is an error.
	Decide(run, gate string, d flow.Decision) error
	// Records are all records of a run, in order, those of its creation included.
	Records(run string) ([]flow.Record, error)
	// Reopen is what follows a crash: everything in memory is gone, the log is
	// what was durable, and each run that was owned has been found dead, so that
	// run.interrupted stands at its end and its lease is free.
	Reopen() error
}

// Run runs the whole suite. open makes a bed with an empty log; it is called for
// every test.
func Run(t *testing.T, open func(*testing.T) Bed) {
	themes := []struct {
		name string
		test func(*testing.T, opener)
	}{
		{"keys", keys},
		{"fitting", fitting},
		{"crash", crash},
		{"doubt", doubt},
		{"branches", branches},
		{"closing", closings},
		{"cancelling", cancelling},
		{"stopping", stopping},
		{"waiting", waiting},
		{"sleeping", sleeping},
		{"bounds", bounds},
		{"charging", charging},
		{"reserving", reservings},
		{"holding", holding},
		{"forking", forking},
		{"long", long},
		{"correcting", correcting},
		{"replaying", replaying},
		{"faults", faults},
		{"agreeing", agreeing},
		{"random", random},
	}
	for _, theme := range themes {
		t.Run(theme.name, func(t *testing.T) { theme.test(t, open) })
	}
}

// RunStore is Run for a log that is a [flow.Store], and so can write to two runs at once.
func RunStore(t *testing.T, open func(*testing.T) Bed) {
	Run(t, open)
	t.Run("beside", func(t *testing.T) { beside(t, open) })
}

type opener func(*testing.T) Bed

// slow is a Bed on which a sweep over all places of a journal takes minutes. In short tests
// every so many places are tried there, from another one each time.
type slow interface{ Every() int }

// places is where a sweep begins, counted from 0, and how far it steps.
func places(t *testing.T, bed Bed) (first, step int) {
	s, ok := bed.(slow)
	if !ok || !testing.Short() {
		return 0, 1
	}
	first, step = rand.IntN(s.Every()), s.Every()
	t.Logf("every %d places, from %d on", step, first)
	return first, step
}

// times is how often a race or an interleaving is tried.
func times(n int) int {
	if testing.Short() {
		return max(n/10, 10)
	}
	return n
}

package runner_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

// Whoever has watched a run all along is told the same as one who comes new.
func TestStatusIsThatOfANewcomer(t *testing.T) {
	b := newBed(t)
	moment := time.Now()
	same := func(status string) {
		t.Helper()
		config := b.Config
		config.Now = func() time.Time { return moment }
		newcomer := runner.New(config)
		b.Now = config.Now
		for range 2 {
			watched, err := b.List(cli(), tipstaff.ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			fresh, err := newcomer.List(cli(), tipstaff.ListRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fresh, watched); diff != "" || watched.Runs[0].Status != status {
				t.Errorf("%s, not %s (-newcomer +watcher):\n%s", watched.Runs[0].Status, status, diff)
			}
		}
	}
	run, _ := b.run(gated)
	same(tipstaff.StatusAwaitingDecision)
	if _, err := b.decide(run, "root/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	same(tipstaff.StatusAwaitingResume)
	b.resume(run)
	same(string(tipstaff.Completed))
}

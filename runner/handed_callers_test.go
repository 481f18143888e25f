package runner_test

import (
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/worker"
)

// Of ten who bring the same at once each is taken for who they are.
func TestTenCallersAtOnce(t *testing.T) {
	t.Parallel()
	b := payBed(t, worker.Write)
	var wait sync.WaitGroup
	runs := make([]tipstaff.ID, 10)
	for i := range runs {
		who := bySubmitter
		if i == 4 {
			who = someones[3]
		}
		wait.Go(func() {
			s, err := b.Start(who.ctx(), tipstaff.StartRequest{Name: "p", Program: []byte(payers()[0].plan)})
			if err != nil {
				t.Error(err)
			}
			runs[i] = s.Run
		})
	}
	wait.Wait()
	for i, run := range runs {
		if out := b.wait(run); (out.Outcome == "parked") == (i == 4) {
			t.Errorf("run %d ended %+v", i, out)
		}
	}
	if got := b.effects(); got != "paid\n" {
		t.Errorf("together they have done %q", got)
	}
}

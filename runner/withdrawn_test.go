package runner_test

import (
	"context"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A question that the stop of the process withdraws was not declined: the drive is
// interrupted, and does not come to rest as if nobody would answer.
func TestStopWithdrawsQuestions(t *testing.T) {
	for range 30 {
		b := newBed(t)
		asked := 0
		_, out := b.run(gated, b.attended(func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) {
			asked++
			b.stop(&flow.Stop{Reason: "signal:INT"})
			return tipstaff.Choice{}, false
		}))
		if out.Outcome != "interrupted" || out.Reason != "signal:INT" || asked != 1 {
			t.Fatalf("%+v, asked %d times", out, asked)
		}
	}
}

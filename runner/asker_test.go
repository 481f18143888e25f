package runner

import (
	"context"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// mute is a store of which nobody ever hears anything.
type mute struct{ flow.Store }

func (mute) Follow(string) (<-chan struct{}, func()) { return nil, func() {} }

// Who does not answer has declined, unless the question was withdrawn because the
// process is told to stop: then the run is interrupted, and not left to others.
func TestWithdrawnIsNotDeclined(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	a := &asker{r: &Runner{Config: Config{Store: mute{}, Stop: ctx}}, declined: map[string]bool{},
		who: person{ask: func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) { return tipstaff.Choice{}, false }}}
	a.answer(context.Background(), flow.GateRow{ID: "declined"})
	stop()
	a.answer(context.Background(), flow.GateRow{ID: "withdrawn"})
	if !a.hopeless([]string{"declined"}) || a.hopeless([]string{"withdrawn"}) {
		t.Errorf("declined are %v", a.declined)
	}
}

package runner

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	runA = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	runB = "01JCQ8R4T5V6W7X8Y9Z0A1B2D4"
)

var noon = time.Date(2026, 11, 15, 13, 0, 0, 0, time.FixedZone("CET", 3600))

func progressed(n int) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindToolProgress), Path: "root/c", Body: fmt.Appendf(nil, `{"progress":%d}`, n)}
}

// overheard empties an ear.
func overheard(told <-chan tipstaff.Event) (bodies []string) {
	(&hearing{told: told}).ended("", func(e tipstaff.Event, _ error) bool {
		bodies = append(bodies, string(e.Body))
		return true
	})
	return bodies
}

func TestEveryListenerOfARunHearsWhatIsTold(t *testing.T) {
	var hub talk
	one, stopOne := hub.listen(runA)
	two, stopTwo := hub.listen(runA)
	other, stopOther := hub.listen(runB)
	defer stopOne()
	defer stopTwo()
	defer stopOther()
	hub.tell(runA, progressed(3), noon)
	want := tipstaff.Event{V: 1, Kind: tipstaff.KindToolProgress, At: noon.UTC(), Run: idOf(runA), Path: "root/c", Body: []byte(`{"progress":3}`)}
	for _, told := range []<-chan tipstaff.Event{one, two} {
		if diff := cmp.Diff(want, <-told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := overheard(other); got != nil {
		t.Errorf("of another run: %v", got)
	}
}

func TestAListenerThatDoesNotKeepUpMissesTheRest(t *testing.T) {
	var hub talk
	slow, stopSlow := hub.listen(runA)
	quick, stopQuick := hub.listen(runA)
	defer stopSlow()
	defer stopQuick()
	var all, got []string
	for i := range 3 * heldTalk {
		hub.tell(runA, progressed(i), noon) // returns, although nobody reads slow
		got = append(got, overheard(quick)...)
		all = append(all, string(progressed(i).Body))
	}
	if !slices.Equal(got, all) {
		t.Errorf("who keeps up heard %v", got)
	}
	if got := overheard(slow); !slices.Equal(got, all[:heldTalk]) {
		t.Errorf("who does not keep up heard %v", got)
	}
	hub.tell(runA, progressed(99), noon)
	if got := overheard(slow); !slices.Equal(got, []string{`{"progress":99}`}) {
		t.Errorf("having caught up, it heard %v", got)
	}
}

func TestWhatBelongsInJournalsIsNotTold(t *testing.T) {
	var hub talk
	told, stop := hub.listen(runA)
	defer stop()
	for _, kind := range []tipstaff.Kind{tipstaff.KindPlanOutput, "tool.gossip"} {
		hub.tell(runA, flow.Draft{Kind: string(kind)}, noon)
	}
	if len(told) != 0 {
		t.Errorf("heard %v", <-told)
	}
}

func TestNothingIsKeptOfListenersThatStopped(t *testing.T) {
	var hub talk
	told, stop := hub.listen(runA)
	_, stopSecond := hub.listen(runA)
	stop()
	hub.tell(runA, progressed(1), noon)
	if len(told) != 0 {
		t.Error("heard something after it stopped")
	}
	if len(hub.ears[runA]) != 1 {
		t.Errorf("%d listeners are left, not the second alone", len(hub.ears[runA]))
	}
	stop() // again: the second stays
	stopSecond()
	if len(hub.ears) != 0 {
		t.Errorf("left over: %v", hub.ears)
	}
}

func TestListenersComeAndGoWhileOthersTell(t *testing.T) {
	var hub talk
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				_, stop := hub.listen(runA)
				hub.tell(runA, progressed(i), noon)
				stop()
			}
		})
	}
	all.Wait()
	if len(hub.ears) != 0 {
		t.Errorf("left over: %v", hub.ears)
	}
}

// Whoever listens late hears what calls under way have told, and nothing of those
// that have ended.
func TestWhatCallsUnderWayHaveToldIsKept(t *testing.T) {
	var hub talk
	hub.tell(runA, progressed(1), noon)
	ended := progressed(2)
	ended.Path = "root/d"
	hub.tell(runA, ended, noon)
	hub.appended(runA, flow.Draft{Kind: string(tipstaff.KindEffectFinished), Path: "root/d"})
	hub.appended(runA, flow.Draft{Kind: string(tipstaff.KindPlanStep), Path: "root/c"})
	late, stop := hub.listen(runA)
	defer stop()
	if got := overheard(late); !slices.Equal(got, []string{`{"progress":1}`}) {
		t.Errorf("heard %v", got)
	}
	for i := range 2 * heldTalk {
		hub.tell(runB, progressed(i), noon)
	}
	full, stopFull := hub.listen(runB) // does not block
	defer stopFull()
	if got := overheard(full); len(got) != heldTalk {
		t.Errorf("heard %d", len(got))
	}
	hub.appended(runB, flow.Draft{Kind: string(tipstaff.KindRunParked)})
	hub.over(runA)
	if len(hub.fresh) != 0 {
		t.Errorf("kept %v", hub.fresh)
	}
}

// What a call tells is passed on after the record of its beginning and before that
// of its end, also while the records of another are read.
func TestWhatIsToldStandsWithItsCall(t *testing.T) {
	told := make(chan tipstaff.Event, 8)
	h := &hearing{told: told}
	var order []string
	yield := func(e tipstaff.Event, _ error) bool { order = append(order, e.Path); return true }
	told <- tipstaff.Event{Path: "first"}
	told <- tipstaff.Event{Path: "second"} // whose beginning is written, and not read yet
	h.reading()
	h.ended("first", yield)
	h.read(yield)
	if !slices.Equal(order, []string{"first"}) {
		t.Fatalf("before the second call's beginning was read: %v", order)
	}
	h.reading()
	h.read(yield)
	if !slices.Equal(order, []string{"first", "second"}) || len(h.held) != 0 {
		t.Errorf("%v, and %v is left", order, h.held)
	}
}

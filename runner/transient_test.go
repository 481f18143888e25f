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
	(&subscription{events: told}).ended("", func(e tipstaff.Event, _ error) bool {
		bodies = append(bodies, string(e.Body))
		return true
	})
	return bodies
}

func TestEveryListenerOfARunHearsWhatIsTold(t *testing.T) {
	var hub transientHub
	one, stopOne := hub.subscribe(runA)
	two, stopTwo := hub.subscribe(runA)
	other, stopOther := hub.subscribe(runB)
	defer stopOne()
	defer stopTwo()
	defer stopOther()
	hub.publish(runA, progressed(3), noon)
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
	var hub transientHub
	slow, stopSlow := hub.subscribe(runA)
	quick, stopQuick := hub.subscribe(runA)
	defer stopSlow()
	defer stopQuick()
	var all, got []string
	for i := range 3 * transientBuffer {
		hub.publish(runA, progressed(i), noon) // returns, although nobody reads slow
		got = append(got, overheard(quick)...)
		all = append(all, string(progressed(i).Body))
	}
	if !slices.Equal(got, all) {
		t.Errorf("who keeps up heard %v", got)
	}
	if got := overheard(slow); !slices.Equal(got, all[:transientBuffer]) {
		t.Errorf("who does not keep up heard %v", got)
	}
	hub.publish(runA, progressed(99), noon)
	if got := overheard(slow); !slices.Equal(got, []string{`{"progress":99}`}) {
		t.Errorf("having caught up, it heard %v", got)
	}
}

func TestWhatBelongsInJournalsIsNotTold(t *testing.T) {
	var hub transientHub
	told, stop := hub.subscribe(runA)
	defer stop()
	for _, kind := range []tipstaff.Kind{tipstaff.KindPlanOutput, "tool.gossip"} {
		hub.publish(runA, flow.Draft{Kind: string(kind)}, noon)
	}
	if len(told) != 0 {
		t.Errorf("heard %v", <-told)
	}
}

func TestNothingIsKeptOfListenersThatStopped(t *testing.T) {
	var hub transientHub
	told, stop := hub.subscribe(runA)
	_, stopSecond := hub.subscribe(runA)
	stop()
	hub.publish(runA, progressed(1), noon)
	if len(told) != 0 {
		t.Error("heard something after it stopped")
	}
	if len(hub.subscribers) != 1 {
		t.Errorf("%d listeners are left, not the second alone", len(hub.subscribers))
	}
	stop() // again: the second stays
	stopSecond()
	if len(hub.subscribers) != 0 {
		t.Errorf("left over: %v", hub.subscribers)
	}
}

func TestListenersComeAndGoWhileOthersTell(t *testing.T) {
	var hub transientHub
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				_, stop := hub.subscribe(runA)
				hub.publish(runA, progressed(i), noon)
				stop()
			}
		})
	}
	all.Wait()
	if len(hub.subscribers) != 0 {
		t.Errorf("left over: %v", hub.subscribers)
	}
}

// Whoever listens late hears what calls under way have told, and nothing of those
// that have ended.
func TestWhatCallsUnderWayHaveToldIsKept(t *testing.T) {
	var hub transientHub
	hub.publish(runA, progressed(1), noon)
	ended := progressed(2)
	ended.Path = "root/d"
	hub.publish(runA, ended, noon)
	hub.appended(runA, flow.Draft{Kind: string(tipstaff.KindEffectFinished), Path: "root/d"})
	hub.appended(runA, flow.Draft{Kind: string(tipstaff.KindPlanStep), Path: "root/c"})
	late, stop := hub.subscribe(runA)
	defer stop()
	if got := overheard(late); !slices.Equal(got, []string{`{"progress":1}`}) {
		t.Errorf("heard %v", got)
	}
	for i := range 2 * transientBuffer {
		hub.publish(runB, progressed(i), noon)
	}
	full, stopFull := hub.subscribe(runB) // does not block
	defer stopFull()
	if got := overheard(full); len(got) != transientBuffer {
		t.Errorf("heard %d", len(got))
	}
	hub.appended(runB, flow.Draft{Kind: string(tipstaff.KindRunParked)})
	hub.forget(runA)
	if len(hub.recent) != 0 {
		t.Errorf("kept %v", hub.recent)
	}
}

// What a call tells is passed on after the record of its beginning and before that
// of its end, also while the records of another are read.
func TestWhatIsToldStandsWithItsCall(t *testing.T) {
	told := make(chan tipstaff.Event, 8)
	h := &subscription{events: told}
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

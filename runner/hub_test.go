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

// overheard is what a subscriber was sent and has not read.
func overheard(told <-chan tipstaff.Event) (bodies []string) {
	(&subscription{told: told}).ended("", func(e tipstaff.Event, _ error) bool {
		bodies = append(bodies, string(e.Body))
		return true
	})
	return bodies
}

func TestEveryListenerOfARunHearsWhatIsTold(t *testing.T) {
	var events hub
	one, stopOne := events.subscribe(runA)
	two, stopTwo := events.subscribe(runA)
	other, stopOther := events.subscribe(runB)
	defer stopOne()
	defer stopTwo()
	defer stopOther()
	events.tell(runA, progressed(3), noon)
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
	var events hub
	slow, stopSlow := events.subscribe(runA)
	quick, stopQuick := events.subscribe(runA)
	defer stopSlow()
	defer stopQuick()
	var all, got []string
	for i := range 3 * backlog {
		events.tell(runA, progressed(i), noon) // returns, although nobody reads slow
		got = append(got, overheard(quick)...)
		all = append(all, string(progressed(i).Body))
	}
	if !slices.Equal(got, all) {
		t.Errorf("who keeps up heard %v", got)
	}
	if got := overheard(slow); !slices.Equal(got, all[:backlog]) {
		t.Errorf("who does not keep up heard %v", got)
	}
	events.tell(runA, progressed(99), noon)
	if got := overheard(slow); !slices.Equal(got, []string{`{"progress":99}`}) {
		t.Errorf("having caught up, it heard %v", got)
	}
}

func TestWhatBelongsInJournalsIsNotTold(t *testing.T) {
	var events hub
	told, stop := events.subscribe(runA)
	defer stop()
	for _, kind := range []tipstaff.Kind{tipstaff.KindPlanOutput, "tool.gossip"} {
		events.tell(runA, flow.Draft{Kind: string(kind)}, noon)
	}
	if len(told) != 0 {
		t.Errorf("heard %v", <-told)
	}
}

func TestNothingIsKeptOfListenersThatStopped(t *testing.T) {
	var events hub
	told, stop := events.subscribe(runA)
	_, stopSecond := events.subscribe(runA)
	stop()
	events.tell(runA, progressed(1), noon)
	if len(told) != 0 {
		t.Error("heard something after it stopped")
	}
	if len(events.subscribers[runA]) != 1 {
		t.Errorf("%d subscribers are left, not the second alone", len(events.subscribers[runA]))
	}
	stop() // again: the second stays
	stopSecond()
	if len(events.subscribers) != 0 {
		t.Errorf("left over: %v", events.subscribers)
	}
}

func TestListenersComeAndGoWhileOthersTell(t *testing.T) {
	var events hub
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				_, stop := events.subscribe(runA)
				events.tell(runA, progressed(i), noon)
				stop()
			}
		})
	}
	all.Wait()
	if len(events.subscribers) != 0 {
		t.Errorf("left over: %v", events.subscribers)
	}
}

// Whoever subscribes late is sent what calls under way have told, and nothing of those
// that have ended.
func TestWhatCallsUnderWayHaveToldIsKept(t *testing.T) {
	var events hub
	events.tell(runA, progressed(1), noon)
	ended := progressed(2)
	ended.Path = "root/d"
	events.tell(runA, ended, noon)
	events.appended(runA, flow.Draft{Kind: string(tipstaff.KindEffectFinished), Path: "root/d"})
	events.appended(runA, flow.Draft{Kind: string(tipstaff.KindPlanStep), Path: "root/c"})
	late, stop := events.subscribe(runA)
	defer stop()
	if got := overheard(late); !slices.Equal(got, []string{`{"progress":1}`}) {
		t.Errorf("heard %v", got)
	}
	for i := range 2 * backlog {
		events.tell(runB, progressed(i), noon)
	}
	full, stopFull := events.subscribe(runB) // does not block
	defer stopFull()
	if got := overheard(full); len(got) != backlog {
		t.Errorf("heard %d", len(got))
	}
	events.appended(runB, flow.Draft{Kind: string(tipstaff.KindRunParked)})
	events.over(runA)
	if len(events.fresh) != 0 {
		t.Errorf("kept %v", events.fresh)
	}
}

// What a call tells is passed on after the record of its beginning and before that
// of its end, also while the records of another are read.
func TestWhatIsToldStandsWithItsCall(t *testing.T) {
	told := make(chan tipstaff.Event, 8)
	h := &subscription{told: told}
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
	if !slices.Equal(order, []string{"first", "second"}) || len(h.queue) != 0 {
		t.Errorf("%v, and %v is left", order, h.queue)
	}
}

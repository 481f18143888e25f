package runner

import (
	"maps"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Owners that renew their leases are never taken for dead, whatever their clocks say; those
// that do not are, after a while; and while nobody could renew anything, or this process did
// not look, nobody is.
func TestSilentOwnersAreNoticed(t *testing.T) {
	start := time.Now()
	beat := func(holder string, at time.Duration) flow.Hold {
		return flow.Hold{Run: holder + "1", Holder: holder, Heartbeat: start.Add(at)}
	}
	var w watch
	seen := map[string]time.Duration{} // when each was first found silent
	look := func(at time.Duration, holds ...flow.Hold) {
		for holder, silent := range maps.All(w.silent(holds, start.Add(at))) {
			if _, before := seen[holder]; silent && !before {
				seen[holder] = at
			}
		}
	}
	for at := time.Duration(0); at <= 60*time.Second; at += lookEvery {
		steady := at.Truncate(5*time.Second) - time.Hour // its clock is an hour behind
		dead := min(steady+2*time.Hour, time.Hour+10*time.Second)
		look(at, beat("steady", steady), beat("dead", dead), flow.Hold{Run: "new", Holder: "dead", Heartbeat: start})
	}
	if len(seen) != 1 || seen["dead"] < 10*time.Second+silentAfter || seen["dead"] > 10*time.Second+silentAfter+2*lookEvery {
		t.Errorf("found silent: %v", seen)
	}
	clear(seen)
	look(200*time.Second, beat("steady", 0), beat("dead", 0)) // nobody has looked for long
	look(202*time.Second, beat("steady", 0), beat("dead", 0))
	if len(seen) > 0 {
		t.Errorf("after a pause, found silent at once: %v", seen)
	}
}

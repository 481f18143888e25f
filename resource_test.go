package tipstaff

import (
	"strings"
	"testing"
	"time"
)

// Every document has text: clients reject one that has none.
func TestDiffOfARunWithoutOne(t *testing.T) {
	runs := newWatchable(started(), nil)
	text, err := Control{Runs: runs, Now: time.Now}.Read(WithCaller(t.Context(), Caller{Surface: "cli"}), Resource{Run: testID(1), Part: ResourceDiff})
	if err != nil || !strings.Contains(string(text), testID(1).String()) {
		t.Errorf("%q, %v", text, err)
	}
}

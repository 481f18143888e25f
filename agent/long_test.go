package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// stored is how many bytes a turn of n steps leaves behind: its records, and the
// documents that they name.
func stored(t *testing.T, n, window int) int {
	t.Helper()
	b := newBed(func(r agent.Request) (agent.Response, error) {
		answer := say("Done.")
		if step := stepOf(r); step < n {
			answer = call("f__a", fmt.Sprintf(`{"n":%d}`, step))
		}
		answer.Usage = nil // so that sizes are estimated
		return answer, nil
	}, aTool("f/a", "read"))
	b.model.forget = true
	b.cfg.MaxSteps, b.cfg.Caps.ContextWindow = n, window
	if out := b.drive(t); out.Status != flow.Completed {
		t.Fatalf("%d steps: %v", n, out.Err)
	}
	started := of[*agent.StepStarted](b)
	if dropped := started[n-1].Cut.Dropped > 0; dropped != (n == 1000) {
		t.Fatalf("of %d steps the last one drops messages: %v", n, dropped)
	}
	bytes := 0
	for _, r := range b.log.Records(theRun) {
		bytes += len(r.Body)
	}
	return bytes
}

// What a turn stores grows with its steps, and not with their square, although its
// conversation has to be cut in every step at last.
func TestLongTurnsAreStoredInProportion(t *testing.T) {
	const window = 12_000 // that about 450 steps fit
	short, long := stored(t, 100, window), stored(t, 1000, window)
	if long > 12*short {
		t.Errorf("1,000 steps store %d bytes, more than 12 times the %d of 100", long, short)
	}
}

func TestLargeResultsAreNotCopied(t *testing.T) {
	b := newBed(steps(call("f__a", `{}`), say("Done.")), aTool("f/a", "read"))
	whole := strings.Repeat("0123456789abcdef", 1<<16)
	b.world.acts["f/a"] = says(whole)
	b.take(t)
	r := of[*agent.ToolCallResult](b)[0]
	last := b.model.requests[1].Messages
	entered := last[len(last)-1].Content[0].Text
	if r.Bytes != 1<<20 || len(r.Content) != 4<<10 || len(entered) > 33<<10 || !strings.Contains(entered, r.Ref) {
		t.Errorf("%d bytes, %d shown, %d entered", r.Bytes, len(r.Content), len(entered))
	}
	for _, rec := range b.log.Records(theRun) {
		if rec.Kind == "effect.finished" && rec.Path == "turn/tool#1.1" && !strings.Contains(string(rec.Body), whole) {
			t.Error("the record does not have the whole")
		}
	}
}

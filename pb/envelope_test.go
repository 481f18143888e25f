package pb

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// An Envelope with errors of many megabytes, from before they were cut, fits into a message.
func TestErrorsFromBeforeTheyWereCutAreCut(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	raw, err := json.Marshal(map[string]any{
		"errors": []any{map[string]any{"stage": "a", "visit": 1, "code": "agent_error", "message": long, "at": "2026-11-18T00:00:00Z"}},
		"processing_history": []any{map[string]any{"agent": "a", "visit": 1, "attempts": 1, "started_at": "2026-11-18T00:00:00Z", "duration_ms": 1,
			"status": "error", "error": long, "llm_calls": 0, "tool_calls": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": "0.00"}},
		"failed_stages": map[string]any{"a": long}, "termination_reason": long})
	if err != nil {
		t.Fatal(err)
	}
	e, err := ReadEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	if n := proto.Size(e); n > 20<<10 {
		t.Errorf("it has %d bytes", n)
	}
	if !strings.Contains(e.Errors[0].Message, "5242880 bytes in all") || e.FailedStages["a"] == long {
		t.Errorf("%.100s", e.Errors[0].Message)
	}
}

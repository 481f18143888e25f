package tipstaff

import "testing"

func TestEveryTerminalReasonHasOneOutcome(t *testing.T) {
	for reason, want := range map[TerminalReason]string{
		"completed": "completed", "break_requested": "completed",
		"max_llm_calls_exceeded": "bound_exceeded", "deadline_exceeded": "bound_exceeded",
		"gate_denied": "failed", "internal_error": "failed",
		"halted": "cancelled", "rolled_back": "cancelled",
	} {
		if got, err := reason.Outcome(), reason.Check(); got != want || err != nil {
			t.Errorf("the outcome of %q is %q, %v; want %q", reason, got, err, want)
		}
	}
	all := TerminalReasons()
	if len(all) != 22 {
		t.Errorf("%d reasons, want 22", len(all))
	}
	for _, r := range all {
		if (r.Bound() != "") != (r.Outcome() == OutcomeBound) {
			t.Errorf("%s: outcome %s, bound %q", r, r.Outcome(), r.Bound())
		}
	}
}

func TestAnUnknownTerminalReasonHasNoOutcome(t *testing.T) {
	for _, r := range []TerminalReason{"", "Completed", "finished", "max_things_exceeded"} {
		if r.Check() == nil || r.Outcome() != "" {
			t.Errorf("%q: outcome %q, %v; want an error", r, r.Outcome(), r.Check())
		}
	}
}

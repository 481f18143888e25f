package plan

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

// modes is a Handlers.Mode that knows one reason.
func modes(reason, action string) func(string) Mode {
	return func(r string) Mode {
		if r == reason {
			return Mode{Action: action}
		}
		return Mode{}
	}
}

// Whoever lets a leaf fail may know the reason better; what is no reason is not
// taken for one.
func TestADecisionMayNameTheReason(t *testing.T) {
	failed := &flow.Error{Code: ReasonToolError, Message: "no", Answered: true}
	for named, want := range map[string]string{
		"": ReasonToolError, ReasonWrongAssumption: ReasonWrongAssumption, "x:mine": "x:mine", "because": ReasonToolError,
	} {
		fc := newDesk()
		fc.waited = func(flow.Gate) (flow.Decision, error) { return flow.Decision{Action: "fail", FailReason: named}, nil }
		_, err := Walk(fc, one(t, aCall), nil, Handlers{Perform: answer("", failed), Mode: modes(ReasonToolError, ModeGate)})
		var f *Failure
		if !errors.As(err, &f) || f.Reason != want || f.Code != ReasonToolError || f.Message != "no" {
			t.Errorf("%q: %+v", named, f)
		}
	}
}

// While nobody has decided, the leaf has not ended; when its group ends first, it
// is cancelled.
func TestAskingMayEndOtherwise(t *testing.T) {
	failed := &flow.Error{Code: ReasonToolError, Answered: true}
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"parked":    {flow.ErrParked, []string{}},
		"cancelled": {flow.ErrCancelled, []string{`root plan.step {"node":"a","status":"cancelled"}`}},
	} {
		fc := newDesk()
		fc.waited = func(flow.Gate) (flow.Decision, error) { return flow.Decision{}, c.err }
		_, err := Walk(fc, one(t, aCall), nil, Handlers{Perform: answer("", failed), Mode: modes(ReasonToolError, ModeGate)})
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, *fc.emitted); diff != "" {
			t.Errorf("%s: emitted (-want +got):\n%s", name, diff)
		}
	}
}

// The rule that a call gets is the node's own, or once more for exactly those
// reasons that a mode retries.
func TestRetryOfModes(t *testing.T) {
	const own = `{id: a, kind: tool_call, tool: "mcp://t/read@1.0.0", retry: {max: 3}}`
	const silent = `{id: a, kind: tool_call, tool: "mcp://t/read@1.0.0", on_error: fail}`
	for _, c := range []struct {
		name, node string
		mode       func(string) Mode
		max        int
		on         []string
	}{
		{"no modes", aCall, nil, 0, nil},
		{"another action", aCall, modes(ReasonTimeout, ModeGate), 0, nil},
		{"a reason that is not mended", aCall, modes(ReasonStepError, ModeRetry), 0, nil},
		{"one reason", aCall, modes(ReasonTimeout, ModeRetry), 1, []string{ReasonTimeout}},
		{"own retry", own, modes(ReasonToolError, ModeRetry), 3, []string{ReasonTimeout, ReasonToolUnavailable}},
		{"own on_error", silent, modes(ReasonTimeout, ModeRetry), 0, nil},
	} {
		var got flow.Retry
		h := Handlers{Mode: c.mode, Perform: func(_ flow.Context, r Task) (flow.Result, error) {
			got = r.Retry
			return flow.Result{Value: json.RawMessage("1")}, nil
		}}
		if _, err := Walk(newDesk(), one(t, c.node), nil, h); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.on, got.On); diff != "" || got.Max != c.max {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

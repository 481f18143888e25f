package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// A run whose end cannot be written down has not ended: the next drive serves what
// is recorded and ends it.
func TestAFinishThatFailsInterruptsTheDrive(t *testing.T) {
	calls := 0
	counted := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		calls++
		return flow.Done{Value: json.RawMessage(`1`)}, nil
	}}
	log := flow.NewMem()
	job := oneCall(counted, flow.Once)
	broken := errors.New("the journal cannot be read back")
	job.Finish = func(flow.Outcome) ([]flow.Draft, error) { return nil, broken }
	out, err := flow.New(log, nil).Drive(context.Background(), job)
	if err != nil || out.Status != flow.Interrupted || !errors.Is(out.Err, broken) {
		t.Fatalf("%+v %v", out, err)
	}
	h, err := log.Load(context.Background(), "r")
	if err != nil || h.Ended != "" {
		t.Fatalf("the run is %q, %v", h.Ended, err)
	}
	if last := h.Records[len(h.Records)-1].Kind; last != "run.interrupted" {
		t.Errorf("the last record is %s", last)
	}
	out, err = flow.New(log, nil).Drive(context.Background(), oneCall(counted, flow.Once))
	if err != nil || out.Status != flow.Completed || calls != 1 {
		t.Errorf("%+v %v after %d calls", out, err, calls)
	}
}

// Records are UTF-8, or nobody could verify them: a value that is not is no result.
func TestAResultThatIsNotUTF8IsRefused(t *testing.T) {
	garbage := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: json.RawMessage("\"a\xffb\"")}, nil
	}}
	out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), oneCall(garbage, flow.Read))
	var failed *flow.Error
	if err != nil || out.Status != flow.Failed || !errors.As(out.Err, &failed) || !strings.Contains(failed.Message, "UTF-8") {
		t.Errorf("%+v %v", out, err)
	}
}

package flow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

func always(flow.Attempt) bool { return true }

func oneCall(act flow.Activity, class flow.Class) flow.Job {
	return flow.Job{Run: "r", Root: "root", Acts: map[string]flow.Activity{"a": act},
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			r, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: class})
			return r.Value, err
		}}
}

func TestAPromptActivityIsCutByAStop(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	waits := flow.Activity{Prompt: always, Run: func(inner context.Context, _ flow.Attempt) (flow.Done, error) {
		stop(&flow.Stop{Reason: "signal:TERM"})
		<-inner.Done()
		return flow.Done{}, context.Cause(inner)
	}}
	log := flow.NewMem()
	out, err := flow.New(log, nil).Drive(ctx, oneCall(waits, flow.Read))
	if err != nil || out.Status != flow.Interrupted || out.Reason != "signal:TERM" {
		t.Fatalf("%+v %v", out, err)
	}
	answers := flow.Activity{Prompt: always, Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: json.RawMessage(`1`)}, nil
	}}
	if out, err := flow.New(log, nil).Drive(context.Background(), oneCall(answers, flow.Read)); err != nil || out.Status != flow.Completed {
		t.Fatalf("%+v %v", out, err)
	}
}

func TestAPromptActivityThatPanicsIsLikeAnyOther(t *testing.T) {
	panics := flow.Activity{Prompt: always, Run: func(context.Context, flow.Attempt) (flow.Done, error) { panic("boom") }}
	out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), oneCall(panics, flow.Read))
	if err != nil || out.Status != flow.Interrupted || out.Reason != "panic" {
		t.Errorf("read: %+v %v", out, err)
	}
	out, err = flow.New(flow.NewMem(), nil).Drive(context.Background(), oneCall(panics, flow.Once))
	if err != nil || out.Status != flow.ParkedRun || len(out.Gates) != 1 {
		t.Errorf("once: %+v %v", out, err)
	}
}

// A once call goes on when the process is told to stop, until nobody waits any
// longer; then it is in doubt.
func TestAPromptActivityIsLetGoWhenTheGraceEnds(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	abandon := make(chan struct{})
	waits := flow.Activity{Prompt: always, Run: func(inner context.Context, _ flow.Attempt) (flow.Done, error) {
		stop(&flow.Stop{Reason: "signal:INT"})
		close(abandon)
		<-inner.Done()
		return flow.Done{}, context.Cause(inner)
	}}
	job := oneCall(waits, flow.Once)
	job.Abandon = abandon
	log := flow.NewMem()
	out, err := flow.New(log, nil).Drive(ctx, job)
	if err != nil || out.Status != flow.Interrupted || len(out.InDoubt) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	if out, err := flow.New(log, nil).Drive(context.Background(), oneCall(waits, flow.Once)); err != nil || out.Status != flow.ParkedRun || len(out.Gates) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
}

package flow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

func answers(say func(flow.Attempt)) flow.Activity {
	return flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		say(a)
		return flow.Done{Value: json.RawMessage(`1`)}, nil
	}}
}

// records are the kinds of a run's records.
func records(t *testing.T, log flow.Log) (kinds []string) {
	t.Helper()
	h, err := log.Load(context.Background(), "r")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Records {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func TestWhatIsToldIsHandedOnAndNotRecorded(t *testing.T) {
	var told []flow.Draft
	job := oneCall(answers(func(a flow.Attempt) {
		a.Tell(flow.Event{Kind: "tool.progress", Body: map[string]int{"progress": 1}})
		a.Note(flow.Event{Kind: "plan.output"})
		a.Tell(flow.Event{Kind: "tool.progress", Body: map[string]int{"progress": 2}})
	}), flow.Read)
	job.Tell = func(d flow.Draft) { told = append(told, d) }
	log := flow.NewMem()
	if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
		t.Fatalf("%+v %v", out, err)
	}
	want := []flow.Draft{
		{Kind: "tool.progress", Path: "root/c", Body: json.RawMessage(`{"progress":1}`)},
		{Kind: "tool.progress", Path: "root/c", Body: json.RawMessage(`{"progress":2}`)},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if kinds := records(t, log); slices.Contains(kinds, "tool.progress") || !slices.Contains(kinds, "plan.output") {
		t.Errorf("recorded: %v", kinds)
	}
}

func TestWhatIsToldToNobodyIsLetGo(t *testing.T) {
	job := oneCall(answers(func(a flow.Attempt) { a.Tell(flow.Event{Kind: "tool.progress"}) }), flow.Read)
	if out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
		t.Errorf("%+v %v", out, err)
	}
}

func TestWhatIsToldIsRedacted(t *testing.T) {
	var told []string
	job := oneCall(answers(func(a flow.Attempt) {
		a.Tell(flow.Event{Kind: "tool.progress", Body: map[string]string{"message": "logged in with hunter22"}})
	}), flow.Read)
	job.Redact = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter22"), []byte("$env:PASSWORD")) }
	job.Tell = func(d flow.Draft) { told = append(told, string(d.Body)) }
	if _, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), job); err != nil {
		t.Fatal(err)
	}
	if want := []string{`{"message":"logged in with $env:PASSWORD"}`}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// long is a text of so many bytes, with its quotes.
type long int

func (n long) MarshalJSON() ([]byte, error) {
	return append(append([]byte{'"'}, bytes.Repeat([]byte("x"), int(n)-2)...), '"'), nil
}

// The largest body is told, and noted; a larger one is neither.
func TestTooLargeToBeTold(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	var told, noted []int
	job := oneCall(answers(func(a flow.Attempt) {
		for _, size := range []long{flow.MaxPayload + 1, flow.MaxPayload} {
			a.Tell(flow.Event{Kind: "tool.progress", Body: size})
			a.Note(flow.Event{Kind: "plan.output", Body: size})
		}
	}), flow.Read)
	job.Tell = func(d flow.Draft) { told = append(told, len(d.Body)) }
	job.Appended = func(d flow.Draft) {
		if d.Note {
			noted = append(noted, len(d.Body))
		}
	}
	if _, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), job); err != nil {
		t.Fatal(err)
	}
	if want := []int{flow.MaxPayload}; !slices.Equal(told, want) || !slices.Equal(noted, want) {
		t.Errorf("told %d and noted %d bytes, want %d", told, noted, want)
	}
}

// An activity may keep its Attempt for longer than anyone waits for it.
func TestNothingIsToldOfAnAttemptThatHasEnded(t *testing.T) {
	var kept flow.Attempt
	told := 0
	job := oneCall(answers(func(a flow.Attempt) { kept = a }), flow.Read)
	job.Tell = func(flow.Draft) { told++ }
	log := &outcomes{Log: flow.NewMem(), written: func() { kept.Tell(flow.Event{Kind: "tool.progress"}) }}
	if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
		t.Fatalf("%+v %v", out, err)
	}
	kept.Tell(flow.Event{Kind: "tool.progress"})
	if told != 0 {
		t.Errorf("told %d times after its outcome was on its way to the log, or later", told)
	}
}

func TestNothingIsNotedOfAnAttemptThatHasEnded(t *testing.T) {
	var kept flow.Attempt
	job := oneCall(answers(func(a flow.Attempt) { kept = a }), flow.Read)
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read})
		kept.Note(flow.Event{Kind: "plan.output"})
		return nil, err
	}
	log := flow.NewMem()
	if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
		t.Fatalf("%+v %v", out, err)
	}
	if kinds := records(t, log); slices.Contains(kinds, "plan.output") {
		t.Errorf("recorded: %v", kinds)
	}
}

// outcomes is a log that says when it is handed the outcome of a call.
type outcomes struct {
	flow.Log
	written func()
}

func (o *outcomes) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	o.Log.Append(l, drafts, func(err error) {
		if slices.ContainsFunc(drafts, func(d flow.Draft) bool { return d.Kind == "effect.finished" }) {
			o.written()
		}
		done(err)
	})
}

func TestNothingIsToldOfAnAttemptThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		ended, returned := make(chan struct{}), make(chan struct{})
		deaf := flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			defer close(returned)
			a.Tell(flow.Event{Kind: "tool.progress"})
			<-ended
			a.Tell(flow.Event{Kind: "tool.progress"})
			return flow.Done{}, nil
		}}
		job := oneCall(deaf, flow.Read)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Timeout: time.Second})
			return nil, err
		}
		job.Tell = func(flow.Draft) { told++ }
		out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), job)
		if err != nil || out.Status != flow.Failed {
			t.Fatalf("%+v %v", out, err)
		}
		close(ended)
		<-returned
		if told != 1 {
			t.Errorf("told %d times, and not once: before the timeout", told)
		}
	})
}

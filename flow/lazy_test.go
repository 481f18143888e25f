package flow_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// disk is a log that takes its time, and remembers what came together.
type disk struct {
	flow.Log
	delay   time.Duration
	mu      sync.Mutex
	batches [][]string // kinds
	arrived chan string
}

func (d *disk) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	var kinds []string
	for _, draft := range drafts {
		kinds = append(kinds, draft.Kind)
	}
	d.mu.Lock()
	d.batches = append(d.batches, kinds)
	d.mu.Unlock()
	time.AfterFunc(d.delay, func() {
		for _, kind := range kinds {
			if d.arrived != nil && kind == "plan.step" {
				d.arrived <- kind
			}
		}
		d.Log.Append(l, drafts, done)
	})
}

func takes(d time.Duration) flow.Activity {
	return flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		time.Sleep(d)
		return flow.Done{Value: json.RawMessage(`1`)}, nil
	}}
}

// What a busy program says goes along with its next step, and costs no commit of
// its own, however long the program goes on.
func TestLazyRecordsOfABusyRunGoAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &disk{Log: flow.NewMem(), delay: time.Millisecond}
		out, err := flow.New(log, nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root",
			Acts: map[string]flow.Activity{"a": takes(time.Millisecond)},
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				for i := range 50 {
					if _, err := fc.Do(flow.Call{Key: "c" + strconv.Itoa(i), Name: "a", Class: flow.Read}); err != nil {
						return nil, err
					}
					fc.Emit(flow.Event{Kind: "plan.step", Body: i})
				}
				return nil, nil
			}})
		if err != nil || out.Status != flow.Completed {
			t.Fatalf("%+v %v", out, err)
		}
		for i, kinds := range log.batches[:50] {
			if !slices.Contains(kinds, "effect.finished") {
				t.Errorf("batch %d has no step: %v", i, kinds)
			}
		}
	})
}

// What is said while a batch is with the log is written soon after it, also if
// nothing else is.
func TestLazyRecordsAreWrittenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &disk{Log: flow.NewMem(), delay: 20 * time.Millisecond, arrived: make(chan string, 1)}
		waits := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			<-log.arrived
			return flow.Done{Value: json.RawMessage(`1`)}, nil
		}}
		out, err := flow.New(log, nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root",
			Acts: map[string]flow.Activity{"quick": takes(0), "waits": waits},
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				return nil, fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: func(fc flow.Context) error {
					_, err := fc.Do(flow.Call{Key: "c", Name: "quick", Class: flow.Read})
					return err
				}}, flow.Branch{Name: "b", Run: func(fc flow.Context) error {
					time.Sleep(time.Millisecond) // now the step of the other branch is being written
					fc.Emit(flow.Event{Kind: "plan.step"})
					_, err := fc.Do(flow.Call{Key: "c", Name: "waits", Class: flow.Read})
					return err
				}})
			}})
		if err != nil || out.Status != flow.Completed {
			t.Fatalf("%+v %v", out, err)
		}
	})
}

// What a program says while it is not known whether it fits what is recorded is not
// written, however long it takes and however the drive ends.
func TestNothingIsSaidBeforeItFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		job := flow.Job{Run: "r", Root: "root", Acts: map[string]flow.Activity{"a": takes(time.Millisecond)}}
		for _, key := range []string{"pay", "payment", "stopped"} {
			ctx, stop := context.WithCancel(context.Background())
			job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				if key != "pay" {
					fc.Emit(flow.Event{Kind: "plan.step", Body: 1})
					time.Sleep(time.Second)
				}
				if key == "stopped" {
					stop()
					synctest.Wait()
				}
				if _, err := fc.Do(flow.Call{Key: key, Name: "a"}); err != nil {
					return nil, err
				}
				_, err := fc.Wait(flow.Gate{Key: "g", Actions: []string{"yes"}})
				return nil, err
			}
			if out, err := flow.New(log, nil).Drive(ctx, job); err != nil || (out.Reason == "replay_mismatch") != (key == "payment") {
				t.Fatalf("%s: %+v %v", key, out, err)
			}
			stop()
		}
		for _, r := range log.Records("r") {
			if r.Kind == "plan.step" {
				t.Errorf("record %d was said by a program that does not fit", r.Seq)
			}
		}
	})
}

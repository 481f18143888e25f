package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

func cancelRun(t *testing.T, log *flow.Mem) {
	t.Helper()
	if err := log.Write("r", flow.Draft{Kind: "run.cancel_requested", Body: json.RawMessage(`{}`)}); err != nil {
		t.Error(err)
	}
}

// A call that waits to be tried again ends at once with its run or its process, and
// is not tried again.
func TestNobodyWaitsForARetryOfARunThatEnds(t *testing.T) {
	for name, want := range map[string]flow.Status{"stopped": flow.Interrupted, "cancelled": flow.Cancelled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(context.Background())
				defer stop(nil)
				log, attempts, began := flow.NewMem(), 0, time.Now()
				job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
					attempts++
					return flow.Done{}, &flow.Error{Code: "away", Retry: true}
				}}, flow.Read)
				job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
					_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Retry: flow.Retry{Max: 9, Backoff: time.Hour}})
					return nil, err
				}
				time.AfterFunc(time.Minute, func() {
					if want == flow.Interrupted {
						stop(&flow.Stop{Reason: "signal:TERM"})
					} else {
						cancelRun(t, log)
					}
				})
				out, err := flow.New(log, nil).Drive(ctx, job)
				if err != nil || out.Status != want {
					t.Fatalf("%+v %v", out, err)
				}
				if took := time.Since(began); attempts != 1 || took != time.Minute {
					t.Errorf("it made %d attempts and ended after %v, not after one and a minute", attempts, took)
				}
			})
		})
	}
}

// A check is cut when its run is cancelled. Whatever it says then, the call is neither
// made nor refused.
func TestACancelCutsChecks(t *testing.T) {
	for name, says := range map[string]error{"refuses": &flow.Error{Code: "policy_denied"}, "passes": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, ran := flow.NewMem(), false
				var cause, got error
				job := oneCall(flow.Activity{
					Check: func(ctx context.Context, _ flow.Attempt) error {
						cancelRun(t, log)
						<-ctx.Done()
						cause = context.Cause(ctx)
						return says
					},
					Run: func(context.Context, flow.Attempt) (flow.Done, error) {
						ran = true
						return flow.Done{Value: json.RawMessage(`1`)}, nil
					}}, flow.Once)
				job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
					_, got = fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Once})
					return nil, got
				}
				out, err := flow.New(log, nil).Drive(context.Background(), job)
				if err != nil || out.Status != flow.Cancelled || ran {
					t.Fatalf("%+v %v, performed: %v", out, err, ran)
				}
				if !errors.Is(cause, flow.ErrCancelled) || !errors.Is(got, flow.ErrCancelled) {
					t.Errorf("the check was told %v, the flow %v", cause, got)
				}
				if kinds := records(t, log); slices.Contains(kinds, "effect.finished") || slices.Contains(kinds, "effect.intended") {
					t.Errorf("recorded: %v", kinds)
				}
			})
		})
	}
}

// An attempt whose intent was being written when the drive failed is not made: its
// outcome could not be recorded.
func TestAFailedDriveBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, ran := &disk{Log: flow.NewMem(), delay: 20 * time.Millisecond}, false
		job := oneCall(answers(func(flow.Attempt) { ran = true }), flow.Once)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			return nil, fc.Go(flow.Group{KeepGoing: true}, flow.Branch{Name: "a", Run: func(fc flow.Context) error {
				_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Once})
				return err
			}}, flow.Branch{Name: "b", Run: func(flow.Context) error {
				time.Sleep(time.Millisecond)
				panic("boom")
			}})
		}
		out, err := flow.New(log, nil).Drive(context.Background(), job)
		if err != nil || out.Status != flow.Interrupted || out.Reason != "panic" || ran {
			t.Errorf("%+v %v, performed: %v", out, err, ran)
		}
	})
}

// Four fifths of a bound are warned of, too, when an attempt in flight comes to hold
// them; a bound of nothing warns of nothing.
func TestWhatIsReservedInFlightIsWarnedOf(t *testing.T) {
	log := flow.NewMem()
	job := oneCall(answers(func(a flow.Attempt) {
		for _, more := range []flow.Use{{"calls": 7}, {"calls": 1}, {"calls": 1}, {"tokens": 5}, {"other": 0}} {
			if err := a.Reserve(more); err != nil {
				t.Error(err)
			}
		}
	}), flow.Read)
	job.Limits = flow.Use{"calls": 10, "other": 0}
	if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
		t.Fatalf("%+v %v", out, err)
	}
	got := slices.DeleteFunc(notes(log.Records("r")), func(n string) bool { return n[:len("bound.w")] != "bound.w" })
	if diff := cmp.Diff([]string{`bound.warned {"bound":"calls","limit":10,"used":8}`}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

// driven runs a flow over a memory log; what is called takes some time and succeeds.
func driven(t *testing.T, limits flow.Use, takes time.Duration, program func(flow.Context) error) (flow.Outcome, []flow.Record) {
	t.Helper()
	log := flow.NewMem()
	out, err := flow.New(log, nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root", Limits: limits,
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage("{}"), program(fc)
		},
		Acts: map[string]flow.Activity{"call": {Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
			if takes == 0 {
				return flow.Done{Value: json.RawMessage("1")}, nil
			}
			select {
			case <-ctx.Done():
				return flow.Done{}, context.Cause(ctx)
			case <-time.After(takes):
				return flow.Done{Value: json.RawMessage("1")}, nil
			}
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	return out, log.Records("r")
}

func call(key int, reserve flow.Use) flow.Call {
	return flow.Call{Key: fmt.Sprint("c", key), Name: "call", Class: flow.Read, Reserve: reserve}
}

// notes gives the notes of the engine about bounds: kind and body.
func notes(records []flow.Record) (list []string) {
	for _, r := range records {
		if r.Note && strings.HasPrefix(r.Kind, "bound.") {
			list = append(list, r.Kind+" "+string(r.Body))
		}
	}
	return list
}

// Four fifths of a bound are warned of, once; a call beyond it is noted and says how
// much there was.
func TestBoundsWarnAndRefuse(t *testing.T) {
	var last error
	out, records := driven(t, flow.Use{"calls": 10}, 0, func(fc flow.Context) error {
		for i := range 6 {
			if _, last = fc.Do(call(i, flow.Use{"calls": 2})); last != nil {
				return last
			}
		}
		return nil
	})
	want := []string{`bound.warned {"bound":"calls","limit":10,"used":8}`, `bound.refused {"bound":"calls","limit":10,"used":10,"refused":"call"}`}
	if diff := cmp.Diff(want, notes(records)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if last == nil || last.Error() != "bound_exceeded (calls): calls is limited to 10: 10 used, 0 in flight, 2 more wanted" || out.Status != flow.Failed {
		t.Errorf("%v, %v", out.Status, last)
	}
}

func TestWallTimeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last error
		_, records := driven(t, flow.Use{flow.WallTime: 3000}, 2*time.Second, func(fc flow.Context) error {
			for i := range 2 {
				if _, last = fc.Do(call(i, nil)); last != nil {
					break
				}
			}
			_, last = fc.Do(call(9, nil))
			return last
		})
		if last == nil || !strings.HasPrefix(last.Error(), "bound_exceeded (wall_time): the run may take 3s and has taken ") {
			t.Errorf("%v", last)
		}
		if !slices.ContainsFunc(notes(records), func(n string) bool {
			return strings.HasPrefix(n, `bound.refused {"bound":"wall_time","limit":3000,"used":3`) || strings.HasPrefix(n, `bound.refused {"bound":"wall_time","limit":3000,"used":4`)
		}) {
			t.Errorf("notes %q do not say how long it took", notes(records))
		}
	})
}

// The wall time of a run is that of all its drives, without the time between them.
func TestWallTimeCountsOnInTheNextDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, made := flow.NewMem(), 0
		job := asking(func(fc flow.Context) error {
			for i := range 4 {
				if i == 1 {
					if err := waits(fc, "ok"); err != nil {
						return err
					}
				}
				if err := calls(fc, fmt.Sprint("c", i), flow.Read); err != nil {
					return err
				}
			}
			return nil
		})
		job.Limits = flow.Use{flow.WallTime: 2000}
		job.Acts = map[string]flow.Activity{"a": {Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
			select {
			case <-ctx.Done():
				return flow.Done{}, context.Cause(ctx)
			case <-time.After(800 * time.Millisecond):
				made++
				return flow.Done{Value: json.RawMessage("1")}, nil
			}
		}}}
		out := drive(t, flow.New(log, nil), job)
		if out.Status != flow.ParkedRun || len(out.Gates) != 1 || made != 1 {
			t.Fatalf("%+v after %d calls", out, made)
		}
		time.Sleep(time.Hour)
		if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "yes"}); err != nil {
			t.Fatal(err)
		}
		// 0.8 s are used: the second call fits, the third does not.
		if out = drive(t, flow.New(log, nil), job); out.Status != flow.Failed || made != 2 {
			t.Errorf("%+v after %d calls, want the third of 0.8 s to be cut off at 2 s", out, made)
		}
	})
}

// What was paid before is not reserved again; the rest is.
func TestPrepaidInPart(t *testing.T) {
	_, records := driven(t, nil, 0, func(fc flow.Context) error {
		c := call(1, flow.Use{"calls": 1, "tokens": 5, "other": 2})
		c.Prepaid = flow.Use{"calls": 1, "tokens": 2}
		_, err := fc.Do(c)
		return err
	})
	used := flow.Totals(flow.History{Records: records}, nil).Used
	if diff := cmp.Diff(flow.Use{"tokens": 3, "other": 2}, used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

// A history of 100,000 records takes no further call.
func TestTooLargeHistories(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	for emits, want := range map[int]string{flow.MaxRecords - 2: "", flow.MaxRecords - 1: flow.CodeHistoryTooLong} { // run.started is one
		var last error
		driven(t, nil, 0, func(fc flow.Context) error {
			for range emits {
				fc.Emit(flow.Event{Kind: "said", Body: 1})
			}
			_, last = fc.Do(call(1, nil))
			return last
		})
		var e *flow.Error
		if errors.As(last, &e); want == "" && last != nil || want != "" && (e == nil || e.Code != want) {
			t.Errorf("after %d events: %v, want %q", emits, last, want)
		}
	}
}

func TestGroupsHaveALimit(t *testing.T) {
	for n, ok := range map[int]bool{flow.MaxBranches: true, flow.MaxBranches + 1: false} {
		branches := make([]flow.Branch, n)
		for i := range branches {
			branches[i].Run = func(flow.Context) error { return nil }
		}
		var got error
		_, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root",
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				got = fc.Go(flow.Group{}, branches...)
				return json.RawMessage("{}"), got
			}})
		if (got == nil) != ok || ok && err != nil {
			t.Errorf("%d branches: %v, %v", n, got, err)
		}
	}
}

// A person who is asked extends a bound, which is noted, or stops the call.
func TestBoundsAreExtended(t *testing.T) {
	for action, want := range map[string][]string{
		"extend": {`bound.refused {"bound":"calls","limit":1,"used":1,"refused":"call"}`, `bound.extended {"bound":"calls","by":4}`},
		"stop":   {`bound.refused {"bound":"calls","limit":1,"used":1,"refused":"call"}`},
	} {
		log := flow.NewMem()
		job := flow.Job{Run: "r", Root: "root", Limits: flow.Use{"calls": 1},
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				for i := range 2 {
					c := call(i, flow.Use{"calls": 1})
					c.Ask = true
					if _, err := fc.Do(c); err != nil {
						return nil, err
					}
				}
				return json.RawMessage("{}"), nil
			},
			Acts: map[string]flow.Activity{"call": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
				return flow.Done{Value: json.RawMessage("1")}, nil
			}}}}
		drive := func() flow.Outcome {
			out, err := flow.New(log, nil).Drive(context.Background(), job)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if out := drive(); out.Status != flow.ParkedRun {
			t.Fatalf("%+v", out)
		}
		var gate struct {
			Gate     string
			Question string
			Subject  struct {
				Path, Name, Bound string
				Wanted            flow.Use
			}
		}
		for _, r := range log.Records("r") {
			if r.Kind == "policy.gate" {
				if err := json.Unmarshal(r.Body, &gate); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := gate.Subject; s.Path != "root/c1" || s.Name != "call" || s.Bound != "calls" || s.Wanted["calls"] != 1 || !strings.Contains(gate.Question, "calls") {
			t.Errorf("asked %+v", gate)
		}
		if err := log.Decide("r", gate.Gate, flow.Decision{Action: action, Answer: json.RawMessage(`{"calls":4}`), By: "user:ada"}); err != nil {
			t.Fatal(err)
		}
		if out := drive(); (out.Status == flow.Completed) != (action == "extend") {
			t.Errorf("%s: %v, %v", action, out.Status, out.Err)
		}
		var got []string
		for _, note := range notes(log.Records("r")) {
			note, _, _ = strings.Cut(note, `,"gate":`)
			if note = strings.TrimSuffix(note, "}") + "}"; !strings.HasPrefix(note, "bound.warned") {
				got = append(got, note)
			}
		}
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
}

// A check sees the attempt that is to come, may not reserve, and refuses by failing
// in any way.
func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		check func(context.Context, flow.Attempt) error
		want  string
	}{
		"passes": {func(ctx context.Context, a flow.Attempt) error {
			if a.N != 1 || a.Class != flow.Once || a.Path != "root/c1" || a.Reserve(flow.Use{"calls": 1}) == nil {
				return fmt.Errorf("attempt %d of class %s at %s", a.N, a.Class, a.Path)
			}
			return nil
		}, ""},
		"refuses": {func(context.Context, flow.Attempt) error { return &flow.Error{Code: "policy_denied", Message: "no"} }, "policy_denied: no"},
		"panics":  {func(context.Context, flow.Attempt) error { panic("boom") }, "internal: the check panicked: boom"},
	} {
		var got error
		ran := false
		_, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root",
			Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				_, got = fc.Do(flow.Call{Key: "c1", Name: "call", Class: flow.Once, Timeout: time.Minute})
				return json.RawMessage("{}"), nil
			},
			Acts: map[string]flow.Activity{"call": {Check: c.check, Run: func(context.Context, flow.Attempt) (flow.Done, error) {
				ran = true
				return flow.Done{Value: json.RawMessage("1")}, nil
			}}}})
		text := ""
		var e *flow.Error
		if errors.As(got, &e) {
			text = e.Error()
		}
		if err != nil || text != c.want || ran != (c.want == "") || e != nil && !e.NotSent {
			t.Errorf("%s: %v, ran %v, %v; want %q", name, got, ran, err, c.want)
		}
	}
}

// The wait before a retry grows by its factor, up to its longest, and is no shorter
// than what the failure asks for.
func TestBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		retry flow.Retry
		after time.Duration
		want  []time.Duration
	}{
		"doubles":          {flow.Retry{Max: 3, Backoff: time.Second}, 0, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		"by its factor":    {flow.Retry{Max: 3, Backoff: time.Second, Factor: 3}, 0, []time.Duration{time.Second, 3 * time.Second, 9 * time.Second}},
		"up to the most":   {flow.Retry{Max: 3, Backoff: time.Second, MaxBackoff: 3 * time.Second}, 0, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
		"at least so much": {flow.Retry{Max: 2, Backoff: time.Second}, 5 * time.Second, []time.Duration{5 * time.Second, 5 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				_, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root",
					Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
						_, _ = fc.Do(flow.Call{Key: "c", Name: "call", Class: flow.Read, Retry: c.retry})
						return json.RawMessage("{}"), nil
					},
					Acts: map[string]flow.Activity{"call": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
						at = append(at, time.Now())
						return flow.Done{}, &flow.Error{Code: "away", Retry: true, After: c.after}
					}}}})
				if err != nil {
					t.Fatal(err)
				}
				var waits []time.Duration
				for i := 1; i < len(at); i++ {
					waits = append(waits, at[i].Sub(at[i-1]))
				}
				if !slices.Equal(waits, c.want) {
					t.Errorf("waited %v, want %v", waits, c.want)
				}
			})
		})
	}
}

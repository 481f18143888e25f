package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
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

// What a check waits for is no part of the call, whose timeout begins after it: a server that
// has to start has its own time for that.
func TestACheckMayTakeLongerThanTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		job := oneCall(flow.Activity{
			Check: func(ctx context.Context, _ flow.Attempt) error {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				return context.Cause(ctx)
			},
			Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
				if until, ok := ctx.Deadline(); !ok || time.Until(until) != time.Second {
					t.Errorf("the call has %v left", time.Until(until))
				}
				return flow.Done{Value: json.RawMessage(`1`)}, nil
			}}, flow.Once)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			r, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Once, Timeout: time.Second})
			return r.Value, err
		}
		if out, err := flow.New(log, nil).Drive(context.Background(), job); err != nil || out.Status != flow.Completed {
			t.Fatalf("%+v %v", out, err)
		}
	})
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

// A stop that comes while the intent of a once call is written is known to an activity
// that can stop itself when it begins. Others are not told: they go on.
func TestAStopBeforeACallBegins(t *testing.T) {
	for name, stops := range map[string]bool{"stops itself": true, "goes on": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(context.Background())
				defer stop(nil)
				time.AfterFunc(time.Millisecond, func() { stop(&flow.Stop{Reason: "signal:TERM"}) })
				var cause error
				act := flow.Activity{Stops: func(flow.Attempt) bool { return stops },
					Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
						cause = context.Cause(ctx)
						return flow.Done{Value: json.RawMessage(`1`)}, nil
					}}
				log := &disk{Log: flow.NewMem(), delay: 20 * time.Millisecond}
				out, err := flow.New(log, nil).Drive(ctx, oneCall(act, flow.Once))
				if err != nil || out.Status != flow.Completed {
					t.Fatalf("%+v %v", out, err)
				}
				if told := errors.As(cause, new(*flow.Stop)); told != stops {
					t.Errorf("when it began, the cause was %v", cause)
				}
			})
		})
	}
}

// An activity that does not come back when its context ends is waited for a moment
// more, and one that stops itself for as long as a stop waits.
func TestHowLongADeafActivityIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		class   flow.Class
		deaf    time.Duration
		outcome bool
		took    time.Duration
	}{
		"read, which comes back soon":           {flow.Read, 40 * time.Millisecond, false, 40 * time.Millisecond},
		"read":                                  {flow.Read, time.Hour, false, 50 * time.Millisecond},
		"what stops itself":                     {flow.Once, 9 * time.Second, true, 9 * time.Second},
		"what stops itself, and takes too long": {flow.Once, time.Hour, false, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(context.Background())
				defer stop(nil)
				act := flow.Activity{Stops: always, Run: func(inner context.Context, a flow.Attempt) (flow.Done, error) {
					stop(&flow.Stop{Reason: "signal:TERM"})
					<-inner.Done()
					time.Sleep(c.deaf)
					if a.Class == flow.Read {
						return flow.Done{}, context.Cause(inner)
					}
					return flow.Done{Value: json.RawMessage(`1`)}, nil
				}}
				log, began := flow.NewMem(), time.Now()
				out, err := flow.New(log, nil).Drive(ctx, oneCall(act, c.class))
				if took := time.Since(began); err != nil || took != c.took {
					t.Errorf("%+v %v, after %v and not %v", out, err, took, c.took)
				}
				if recorded := slices.Contains(records(t, log), "effect.finished"); recorded != c.outcome {
					t.Errorf("its outcome is recorded: %v", recorded)
				}
				time.Sleep(c.deaf) // until it is back
			})
		})
	}
}

// A drive that fails leaves its gates as they are, and says which are open.
func TestAFailedDriveLeavesGatesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		out := drive(t, flow.New(log, nil), asking(func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: func(fc flow.Context) error { return waits(fc, "g") }},
				flow.Branch{Name: "b", Run: func(flow.Context) error {
					time.Sleep(time.Millisecond)
					panic("boom")
				}})
		}))
		if out.Reason != "panic" || len(out.Gates) != 1 {
			t.Errorf("%+v", out)
		}
		if kinds := records(t, log); slices.Contains(kinds, "policy.gate.resolve") {
			t.Errorf("recorded: %v", kinds)
		}
	})
}

// A group that fails closes its own gates and none beside it.
func TestAGroupClosesItsOwnGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		gate := func(fc flow.Context) error { return waits(fc, "g") }
		fails := func(flow.Context) error {
			time.Sleep(time.Millisecond)
			return errors.New("no")
		}
		job := asking(func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: gate}, flow.Branch{Name: "b", Run: func(fc flow.Context) error {
				_ = fc.Go(flow.Group{}, flow.Branch{Name: "c", Run: gate}, flow.Branch{Name: "d", Run: fails})
				return nil
			}})
		})
		out := drive(t, flow.New(log, nil), job)
		if out.Status != flow.ParkedRun || len(out.Gates) != 1 {
			t.Fatalf("%+v", out)
		}
		if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "yes"}); err != nil {
			t.Fatal(err)
		}
		if out := drive(t, flow.New(log, nil), job); out.Status != flow.Completed {
			t.Errorf("%+v", out)
		}
	})
}

// A run that ends closes its gates in the order of their keys.
func TestTheEndClosesGatesInOrder(t *testing.T) {
	log := flow.NewMem()
	var branches []flow.Branch
	var want []string
	for _, name := range []string{"e", "b", "g", "a", "f", "c", "d"} {
		branches = append(branches, flow.Branch{Name: name, Run: func(fc flow.Context) error { return waits(fc, "q") }})
		want = append(want, "root/"+name+"/q")
	}
	job := asking(func(fc flow.Context) error { return fc.Go(flow.Group{}, branches...) })
	if out := drive(t, flow.New(log, nil), job); len(out.Gates) != len(branches) || !slices.IsSorted(out.Gates) {
		t.Errorf("it parks with %v", out.Gates)
	}
	cancelRun(t, log)
	if out := drive(t, flow.New(log, nil), job); out.Status != flow.Cancelled {
		t.Fatalf("%+v", out)
	}
	var got []string
	for _, r := range log.Records("r") {
		if r.Kind == "policy.gate.resolve" {
			got = append(got, r.Path)
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("closed %v", got)
	}
}

// The first cancel of a run counts: what is in flight is awaited until its deadline,
// whatever another one says.
func TestTheFirstCancelCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, began := flow.NewMem(), time.Now()
		cancel := func(left time.Duration) {
			body := flow.JSON(flow.RunCancelRequested{Deadline: time.Now().Add(left)})
			if err := log.Write("r", flow.Draft{Kind: "run.cancel_requested", Body: body}); err != nil {
				t.Error(err)
			}
		}
		released := make(chan struct{})
		act := flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			cancel(time.Hour)
			cancel(time.Minute)
			<-released
			return flow.Done{Value: json.RawMessage(`1`)}, nil
		}}
		out := drive(t, flow.New(log, nil), oneCall(act, flow.Once))
		if took := time.Since(began); out.Status != flow.Cancelled || took != time.Hour {
			t.Errorf("%+v after %v", out, took)
		}
		close(released)
	})
}

// A run is cancelled if somebody asked for it and the program was told so: not by a
// program that says so itself, nor by a request that came when all was done.
func TestWhatCountsAsCancelled(t *testing.T) {
	if out := drive(t, flow.New(flow.NewMem(), nil), asking(func(flow.Context) error { return flow.ErrCancelled })); out.Status != flow.Failed {
		t.Errorf("a program that says so itself: %+v", out)
	}
	synctest.Test(t, func(t *testing.T) {
		log := flow.NewMem()
		late := oneCall(answers(func(flow.Attempt) {
			cancelRun(t, log)
			time.Sleep(time.Second) // until the drive knows
		}), flow.Once)
		if out := drive(t, flow.New(log, nil), late); out.Status != flow.Completed {
			t.Errorf("a request that nobody met: %+v", out)
		}
	})
}

// Nobody can use a Context when its drive is over.
func TestAContextThatWasKept(t *testing.T) {
	var kept flow.Context
	log, ran := flow.NewMem(), 0
	job := oneCall(answers(func(flow.Attempt) { ran++ }), flow.Read)
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		kept = fc
		return nil, nil
	}
	drive(t, flow.New(log, nil), job)
	if err := calls(kept, "k", flow.Read); !errors.As(err, new(*flow.Misuse)) || ran > 0 {
		t.Errorf("it was told %v, performed: %d", err, ran)
	}
	job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		if err := fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(fc flow.Context) error { kept = fc; return nil }}); err != nil {
			return nil, err
		}
		return nil, calls(kept, "k", flow.Read)
	}
	if out := drive(t, flow.New(flow.NewMem(), nil), job); out.Reason != "misuse" || ran > 0 {
		t.Errorf("that of a branch: %+v, performed: %d", out, ran)
	}
}

// A job that keeps no account of itself ends with an envelope that says how.
func TestThePlainEnd(t *testing.T) {
	for kind, c := range map[string]struct {
		program func(*flow.Mem) flow.Func
		want    string
	}{
		"intent.attest": {func(*flow.Mem) flow.Func {
			return func(flow.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{"a":1}`), nil }
		}, `{"cited":[],"evidence":{},"outcome":"success","outputs_digest":"` + flow.Digest([]byte(`{"a":1}`)) + `"}`},
		"intent.fail": {func(*flow.Mem) flow.Func {
			return func(flow.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no luck") }
		}, `{"cited":[],"evidence":{},"message":"no luck","reason":"internal"}`},
		"intent.cancel": {func(log *flow.Mem) flow.Func {
			return func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				cancelRun(t, log)
				return nil, waits(fc, "g")
			}
		}, `{"cited":[],"evidence":{},"on_behalf_of":"system:cancel","reason":"","via":"command"}`},
	} {
		log := flow.NewMem()
		job := asking(nil)
		job.Flow = c.program(log)
		drive(t, flow.New(log, nil), job)
		all := log.Records("r")
		if last := all[len(all)-1]; last.Kind != kind || last.From != "executor" || string(last.Body) != c.want {
			t.Errorf("%s of %s: %s, want %s", last.Kind, last.From, last.Body, c.want)
		}
	}
}

// Who asks is told every record that a drive writes, in order, and none of the log's.
func TestWhoAsksIsToldWhatIsWritten(t *testing.T) {
	log := flow.NewMem()
	var told []string
	job := asking(func(fc flow.Context) error {
		fc.Emit(flow.Event{Kind: "said"})
		return calls(fc, "c", flow.Once)
	})
	job.Appended = func(d flow.Draft) { told = append(told, d.Kind) }
	drive(t, flow.New(log, nil), job)
	if want := kindsOf(log.Records("r"))[1:]; len(want) != 4 || !slices.Equal(told, want) {
		t.Errorf("told %v, written %v", told, want)
	}
}

// A segment begins with what the job says of it, and names blobs only where it keeps
// some.
func TestWhatASegmentBeginsWith(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", 999) + `"`)
	for name, c := range map[string]struct {
		next flow.Segment
		want string
	}{
		"a state, and blobs": {flow.Segment{State: long, Keep: []string{"sha256:k"}, Limits: flow.Use{"calls": 7}}, `{"state":` + string(long) + `,"used":{"calls":2},"limit":{"calls":7},"keep":["sha256:k"]}`},
		"nothing":            {flow.Segment{}, `{"state":null,"used":{"calls":2},"limit":{}}`},
	} {
		log, segments := flow.NewMem(), 0
		job := asking(nil)
		var root, in string
		job.Flow = func(fc flow.Context, input json.RawMessage) (json.RawMessage, error) {
			root, in = fc.Path(), string(input)
			if segments++; segments == 2 {
				return nil, nil
			}
			_, err := fc.Do(flow.Call{Key: "c", Name: "a", Class: flow.Read, Reserve: flow.Use{"calls": 2}})
			return nil, errors.Join(err, flow.Continue(json.RawMessage(`1`)))
		}
		c.next.Root = "next"
		c.next.Before = []flow.Draft{{Kind: "said", Body: json.RawMessage(`{}`)}}
		job.Next = func(state json.RawMessage, cut bool) (flow.Segment, error) {
			if string(state) != "1" || cut {
				t.Errorf("%s: asked with %s, cut %v", name, state, cut)
			}
			return c.next, nil
		}
		if out := drive(t, flow.New(log, nil), job); out.Status != flow.Completed || out.Used["calls"] != 2 || !maps.Equal(out.Limit, c.next.Limits) {
			t.Fatalf("%s: %+v", name, out)
		}
		all := log.Records("r")
		i := slices.IndexFunc(all, func(r flow.Record) bool { return r.Kind == "run.continued" })
		var body map[string]json.RawMessage
		if err := json.Unmarshal(all[i].Body, &body); err != nil {
			t.Fatal(err)
		}
		if all[i-1].Kind != "said" || root != "next" || body["wall_ms"] == nil || body["t"] == nil {
			t.Errorf("%s: after %s, %s at %s", name, all[i-1].Kind, all[i].Body, root)
		}
		delete(body, "wall_ms")
		delete(body, "t")
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, body); diff != "" || in != string(want["state"]) {
			t.Errorf("%s: entered with %s (-want +got):\n%s", name, in, diff)
		}
	}
}

// An activity that stops itself when its group closes says what it knows: an answer
// counts, and what was not sent was never begun.
func TestWhatStopsItselfAccountsForItself(t *testing.T) {
	for name, c := range map[string]struct {
		says error
		want string // code of the outcome
		told string
	}{
		"it has an answer": {&flow.Error{Code: "half_done", Answered: true}, "half_done", "half_done"},
		"it sent nothing":  {&flow.Error{Code: "too_early", NotSent: true}, flow.CodeNotStarted, "flow: cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := flow.NewMem()
				var told error
				job := oneCall(flow.Activity{Stops: always, Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
					<-ctx.Done()
					return flow.Done{}, c.says
				}}, flow.Once)
				job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
					return nil, fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: func(fc flow.Context) error {
						told = calls(fc, "c", flow.Once)
						return told
					}}, flow.Branch{Name: "b", Run: func(flow.Context) error {
						time.Sleep(time.Millisecond)
						return errors.New("no")
					}})
				}
				drive(t, flow.New(log, nil), job)
				var got struct{ Error struct{ Code string } }
				for _, r := range log.Records("r") {
					if r.Kind == "effect.finished" {
						if err := json.Unmarshal(r.Body, &got); err != nil {
							t.Fatal(err)
						}
					}
				}
				if got.Error.Code != c.want || told == nil || told.Error() != c.told {
					t.Errorf("recorded %q, told %v", got.Error.Code, told)
				}
			})
		})
	}
}

// A drive that fails waits for nobody: what is in flight is cut, and told why. What it
// then brings back is not recorded.
func TestAFailedDriveCutsWhatIsInFlight(t *testing.T) {
	for prompt, class := range map[bool]flow.Class{true: flow.Read, false: flow.Once} {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			back := make(chan struct{})
			job := oneCall(flow.Activity{Prompt: func(flow.Attempt) bool { return prompt }, Run: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
				defer close(back)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return flow.Done{Value: json.RawMessage(`1`)}, nil
			}}, class)
			job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				return nil, fc.Go(flow.Group{KeepGoing: true}, flow.Branch{Name: "a", Run: func(fc flow.Context) error { return calls(fc, "c", class) }},
					flow.Branch{Name: "b", Run: func(fc flow.Context) error {
						time.Sleep(time.Millisecond)
						return calls(fc, "not a key", flow.Read)
					}})
			}
			log, began := flow.NewMem(), time.Now()
			out := drive(t, flow.New(log, nil), job)
			if took := time.Since(began); out.Reason != "misuse" || took != time.Millisecond {
				t.Errorf("%s: %+v after %v", class, out, took)
			}
			<-back
			if !errors.As(cause, new(*flow.Misuse)) || slices.Contains(records(t, log), "effect.finished") {
				t.Errorf("%s: told %v, recorded %v", class, cause, records(t, log))
			}
		})
	}
}

// A once call whose group closes while its intent is written is not made, and its
// branch is told that it was cancelled.
func TestAClosedGroupBeginsNothing(t *testing.T) {
	for name, prompt := range map[string]bool{"prompt": true, "not prompt": false} {
		synctest.Test(t, func(t *testing.T) {
			log, ran := &disk{Log: flow.NewMem(), delay: 20 * time.Millisecond}, false
			var told error
			act := answers(func(flow.Attempt) { ran = true })
			act.Prompt = func(flow.Attempt) bool { return prompt }
			job := oneCall(act, flow.Once)
			job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				return nil, fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: func(fc flow.Context) error {
					told = calls(fc, "c", flow.Once)
					return told
				}}, flow.Branch{Name: "b", Run: func(flow.Context) error {
					time.Sleep(time.Millisecond)
					return errors.New("no")
				}})
			}
			if out := drive(t, flow.New(log, nil), job); out.Status != flow.Failed || ran || !errors.Is(told, flow.ErrCancelled) || len(out.InDoubt) > 0 {
				t.Errorf("%s: %+v, made %v, told %v", name, out, ran, told)
			}
		})
	}
}

// A group that fails cuts its own calls and none beside it.
func TestAGroupCutsItsOwnCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cuts []string
		job := oneCall(flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			select {
			case <-ctx.Done():
				cuts = append(cuts, a.Path)
				return flow.Done{}, context.Cause(ctx)
			case <-time.After(time.Second):
				return flow.Done{Value: json.RawMessage(`1`)}, nil
			}
		}}, flow.Read)
		one := func(fc flow.Context) error { return calls(fc, "k", flow.Read) }
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			return nil, fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: one}, flow.Branch{Name: "b", Run: func(fc flow.Context) error {
				_ = fc.Go(flow.Group{}, flow.Branch{Name: "c", Run: one}, flow.Branch{Name: "d", Run: func(flow.Context) error {
					time.Sleep(time.Millisecond)
					return errors.New("no")
				}})
				return nil
			}})
		}
		if out := drive(t, flow.New(flow.NewMem(), nil), job); out.Status != flow.Completed || !slices.Equal(cuts, []string{"root/b/c/k"}) {
			t.Errorf("%+v, cut %v", out, cuts)
		}
	})
}

// A replay writes nothing, so nobody is asked how the run ends.
func TestAReplayDoesNotFinish(t *testing.T) {
	log := flow.NewMem()
	job := oneCall(answers(func(flow.Attempt) {}), flow.Read)
	drive(t, flow.New(log, nil), job)
	job.Finish = func(flow.Outcome) ([]flow.Draft, error) {
		t.Error("it was asked for its end")
		return nil, nil
	}
	job.Appended = func(d flow.Draft) { t.Errorf("it writes %s", d.Kind) }
	h, err := log.Load(context.Background(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if out := drive(t, flow.Replay(h), job); out.Status != flow.Completed || string(out.Value) != "1" {
		t.Errorf("%+v", out)
	}
}

// The time of a run follows the clock, and goes on where that is set back, in one drive
// or between two.
func TestTheTimeOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift time.Duration
		o := &flow.Options{Now: func() time.Time { return time.Now().Add(shift) }}
		log, began := flow.NewMem(), time.Now()
		read := func(shifts ...time.Duration) (got []time.Duration) {
			t.Helper()
			drive(t, flow.New(log, o), asking(func(fc flow.Context) error {
				for _, s := range shifts {
					shift = s
					got = append(got, fc.Now().Sub(began))
					time.Sleep(time.Second)
				}
				return waits(fc, "g")
			}))
			return got
		}
		if got, want := read(0, time.Hour, -time.Hour, 0), []time.Duration{0, time.Hour + time.Second, time.Hour + 2*time.Second, time.Hour + 3*time.Second}; !slices.Equal(got, want) {
			t.Errorf("in one drive: %v, want %v", got, want)
		}
		began = began.Add(time.Hour + 3*time.Second) // the last time that was read
		if got := read(0, 0, 0, 0, 0, 0); got[5]-got[4] != time.Second || got[4] < 0 {
			t.Errorf("in the next one: %v", got)
		}
	})
}

// A stop waits for a once call as long as its grace, or until nobody wants to wait.
func TestTheGraceOfAStop(t *testing.T) {
	for name, c := range map[string]struct {
		grace, abandon, want time.Duration
	}{
		"the usual one": {0, 0, 10 * time.Second},
		"another":       {3 * time.Second, 0, 3 * time.Second},
		"cut short":     {0, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(context.Background())
				released, abandon := make(chan struct{}), make(chan struct{})
				job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
					stop(&flow.Stop{Reason: "signal:TERM"})
					<-released
					return flow.Done{}, nil
				}}, flow.Once)
				if c.abandon > 0 {
					job.Abandon = abandon
					time.AfterFunc(c.abandon, func() { close(abandon) })
				}
				began := time.Now()
				out, err := flow.New(flow.NewMem(), &flow.Options{Grace: c.grace}).Drive(ctx, job)
				if took := time.Since(began); err != nil || out.Status != flow.Interrupted || !slices.Equal(out.InDoubt, []string{"root/c"}) || took != c.want {
					t.Errorf("%+v %v after %v, want %v", out, err, took, c.want)
				}
				close(released)
			})
		})
	}
}

// A drive that ends starts no further branch of a group.
func TestAStopStartsNoBranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(context.Background())
		started := false
		job := oneCall(flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
			stop(&flow.Stop{Reason: "signal:TERM"})
			time.Sleep(time.Second)
			return flow.Done{Value: json.RawMessage(`1`)}, nil
		}}, flow.Once)
		job.Flow = func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			return nil, fc.Go(flow.Group{Limit: 1}, flow.Branch{Name: "a", Run: func(fc flow.Context) error { return calls(fc, "c", flow.Once) }},
				flow.Branch{Name: "b", Run: func(flow.Context) error {
					started = true
					return nil
				}})
		}
		out, err := flow.New(flow.NewMem(), nil).Drive(ctx, job)
		if err != nil || out.Status != flow.Interrupted || started {
			t.Errorf("%+v %v, started: %v", out, err, started)
		}
	})
}

// An attempt that somebody kept waits for nothing when its drive is over.
func TestNothingIsWrittenWhenTheDriveIsOver(t *testing.T) {
	var kept flow.Attempt
	log := flow.NewMem()
	drive(t, flow.New(log, nil), oneCall(answers(func(a flow.Attempt) { kept = a }), flow.Read))
	if err := kept.Sync(); !flow.Parked(err) {
		t.Errorf("it was told %v", err)
	}
}

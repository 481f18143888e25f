package flow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// parkedAfter is when a program parks whose first gate is decided after six seconds.
func parkedAfter(t *testing.T, linger time.Duration, hopeless func([]string) bool) time.Duration {
	log, began := flow.NewMem(), time.Now()
	job := asking(func(fc flow.Context) error {
		if err := waits(fc, "g"); err != nil {
			return err
		}
		return waits(fc, "h")
	})
	job.Linger, job.Hopeless = linger, hopeless
	job.Appended = func(d flow.Draft) {
		if d.Kind == "policy.gate" && d.Path == "root/g" {
			time.AfterFunc(6*time.Second, func() {
				for _, r := range log.Records("r") {
					if r.Kind == "policy.gate" {
						_ = log.Decide("r", gateOf(t, r), flow.Decision{Action: "yes"})
						return
					}
				}
			})
		}
	}
	if out := drive(t, flow.New(log, nil), job); out.Status != flow.ParkedRun || len(out.Gates) != 1 {
		t.Errorf("%+v", out)
	}
	return time.Since(began)
}

// A run lingers for its time each time that it comes to rest, or until nobody is going
// to answer.
func TestHowLongARunLingers(t *testing.T) {
	for name, c := range map[string]struct {
		linger, gone, want time.Duration
	}{
		"not at all":                    {0, 0, 0},
		"less than the answer takes":    {5 * time.Second, 0, 5 * time.Second},
		"anew after an answer":          {10 * time.Second, 0, 16 * time.Second},
		"until nobody is there":         {10 * time.Second, 3 * time.Second, 3 * time.Second},
		"until nobody is there, later":  {10 * time.Second, 9 * time.Second, 9 * time.Second},
		"to the end, if somebody stays": {10 * time.Second, time.Hour, 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var hopeless func([]string) bool
				if c.gone > 0 {
					hopeless = func(gates []string) bool {
						if len(gates) != 1 {
							t.Errorf("asked about %v", gates)
						}
						return time.Since(began) >= c.gone
					}
				}
				if got := parkedAfter(t, c.linger, hopeless); got != c.want {
					t.Errorf("it parked after %v, want %v", got, c.want)
				}
				time.Sleep(10 * time.Second) // until the answer has come
			})
		})
	}
}

// A sleep of a second counts as running; during a longer one the run parks, until the
// first of them is over.
func TestSleepsAndParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := func(naps ...time.Duration) flow.Outcome {
			return drive(t, flow.New(flow.NewMem(), nil), asking(func(fc flow.Context) error {
				return flow.Each(fc, flow.Group{}, naps, nil, func(fc flow.Context, nap time.Duration) error { return fc.Sleep(nap) })
			}))
		}
		began := time.Now()
		if out := asleep(time.Second); out.Status != flow.Completed || time.Since(began) != time.Second {
			t.Errorf("%+v after %v", out, time.Since(began))
		}
		began = time.Now()
		out := asleep(5*time.Hour, 3*time.Hour, time.Second+1, 2*time.Hour, 4*time.Hour)
		if out.Status != flow.ParkedRun || !out.WakeAt.Equal(began.Add(time.Second+1)) || time.Since(began) > time.Second/2 {
			t.Errorf("%+v after %v", out, time.Since(began))
		}
	})
}

// reluctant is a log that does not park at first, without saying why.
type reluctant struct {
	*flow.Mem
	refusals int
	err      error
	asked    func(flow.Parking)
}

func (r *reluctant) Park(l flow.Lease, p flow.Parking) (bool, error) {
	if r.asked != nil {
		r.asked(p)
	}
	if r.err != nil {
		return false, r.err
	}
	if r.refusals--; r.refusals >= 0 {
		return false, nil
	}
	return r.Mem.Park(l, p)
}

// Parking is tried again where the log does not take it, and nothing comes of it.
func TestParkingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		program := asking(func(fc flow.Context) error { return waits(fc, "g") })
		if out := drive(t, flow.New(&reluctant{Mem: flow.NewMem(), refusals: 3}, nil), program); out.Status != flow.ParkedRun {
			t.Errorf("%+v", out)
		}
		broken := errors.New("broken")
		if out := drive(t, flow.New(&reluctant{Mem: flow.NewMem(), err: broken}, nil), program); out.Status != flow.Interrupted || !errors.Is(out.Err, broken) {
			t.Errorf("%+v", out)
		}
	})
}

// A gate that expires takes the action that denies, in this drive or, if it is over by
// then, in the next one; one that was decided in time does not.
func TestGatesExpire(t *testing.T) {
	for name, c := range map[string]struct {
		linger, decided time.Duration
		away            time.Duration // between two drives
		want            string
	}{
		"while somebody waits":    {time.Hour, 0, 0, "no"},
		"while nobody waits":      {0, 0, time.Hour, "no"},
		"not if decided in time":  {time.Hour, 59 * time.Second, 0, "yes"},
		"decided, and then later": {0, time.Second, time.Hour, "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := flow.NewMem()
				var got flow.Decision
				job := asking(func(fc flow.Context) (err error) {
					got, err = fc.Wait(flow.Gate{Key: "g", Kind: "question", Actions: []string{"yes", "no"}, Deny: "no", Expires: time.Minute})
					return err
				})
				job.Linger = c.linger
				if c.decided > 0 {
					time.AfterFunc(c.decided, func() {
						for _, r := range log.Records("r") {
							if r.Kind == "policy.gate" {
								_ = log.Decide("r", gateOf(t, r), flow.Decision{Action: "yes"})
							}
						}
					})
				}
				out := drive(t, flow.New(log, nil), job)
				if c.linger == 0 {
					if out.Status != flow.ParkedRun {
						t.Fatalf("%+v", out)
					}
					time.Sleep(c.away)
					out = drive(t, flow.New(log, nil), job)
				}
				if out.Status != flow.Completed || got.Action != c.want || (got.Via == "expiry") != (c.want == "no") {
					t.Errorf("%+v, decided %+v", out, got)
				}
			})
		})
	}
}

// A run that was about to park when an answer came goes on, and does not park before it
// comes to rest again.
func TestAnAnswerAgainstParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &reluctant{Mem: flow.NewMem()}
		var parks []time.Duration
		began := time.Now()
		log.asked = func(p flow.Parking) {
			if parks = append(parks, time.Since(began)); len(parks) == 1 {
				if err := log.Decide("r", p.Gates[0], flow.Decision{Action: "yes"}); err != nil {
					t.Error(err)
				}
			}
		}
		job := asking(func(fc flow.Context) error {
			if err := errors.Join(waits(fc, "g"), calls(fc, "c", flow.Read)); err != nil {
				return err
			}
			return waits(fc, "h")
		})
		job.Acts["a"] = takes(time.Second)
		if out := drive(t, flow.New(log, nil), job); out.Status != flow.ParkedRun || len(out.Gates) != 1 {
			t.Errorf("%+v", out)
		}
		if want := []time.Duration{0, time.Second}; !slices.Equal(parks, want) {
			t.Errorf("it tried to park after %v, want %v", parks, want)
		}
	})
}

// A sleep really takes its time, however the clock is set meanwhile and whatever else
// happens.
func TestASleepWhileTheClockIsSet(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept time.Duration
				began := time.Now()
				job := asking(func(fc flow.Context) error {
					return fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: func(fc flow.Context) error {
						err := fc.Sleep(time.Second)
						slept = time.Since(began)
						return err
					}}, flow.Branch{Name: "b", Run: func(fc flow.Context) error {
						time.Sleep(time.Second / 2)
						_ = fc.Go(flow.Group{}, flow.Branch{Run: func(flow.Context) error { return errors.New("no") }})
						time.Sleep(time.Second)
						return nil
					}})
				})
				o := &flow.Options{Now: func() time.Time {
					if time.Since(began) < time.Second/2 {
						return time.Now()
					}
					return time.Now().Add(by)
				}}
				if out := drive(t, flow.New(flow.NewMem(), o), job); out.Status != flow.Completed || slept != time.Second {
					t.Errorf("%+v after %v", out, slept)
				}
			})
		})
	}
}

// The answer to a question is no extension of a bound, whatever it is called.
func TestAnAnswerThatLooksLikeAnExtension(t *testing.T) {
	log := flow.NewMem()
	job := asking(func(fc flow.Context) error { return waits(fc, "g") })
	job.Limits = flow.Use{"calls": 1}
	out := drive(t, flow.New(log, nil), job)
	if err := log.Decide("r", out.Gates[0], flow.Decision{Action: "extend", Answer: json.RawMessage(`{"calls":5}`)}); err != nil {
		t.Fatal(err)
	}
	if out := drive(t, flow.New(log, nil), job); out.Limit["calls"] != 1 || len(notes(log.Records("r"))) > 0 {
		t.Errorf("%+v, noted %v", out, notes(log.Records("r")))
	}
}

package flowtest

import (
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// everything uses each kind of step, in branches and after them. Its value is a
// function of what its calls return, so it shows any that was lost or changed.
func everything(r *rig) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) != `{}` {
			return ending(r, fc, in)
		}
		fc.Emit(flow.Event{Kind: "agent.said", Body: map[string]string{"at": "start"}})
		before := fc.Now()
		got := make([]string, 5)
		err := fc.Go(flow.Group{},
			flow.Branch{Name: "sender", Run: func(fc flow.Context) error {
				v, err := flow.Do[string](fc, reserving(flow.Once, "send", "tool_calls"))
				fc.Emit(flow.Event{Kind: "agent.said", Body: v})
				got[0] = v
				return err
			}},
			flow.Branch{Name: "retrier", Run: func(fc flow.Context) (err error) {
				c := retrying(flow.Idempotent, "try", 2)
				c.Reserve = flow.Use{"tool_calls": 1}
				got[1], err = flow.Do[string](fc, c)
				return err
			}},
			flow.Branch{Name: "sleeper", Run: func(fc flow.Context) (err error) {
				if err := fc.Sleep(time.Hour); err != nil {
					return err
				}
				got[2], err = flow.Do[string](fc, call(flow.Read, "look", "look"))
				return err
			}},
			flow.Branch{Name: "asker", Run: func(fc flow.Context) (err error) {
				d, err := fc.Wait(question("g"))
				if err != nil {
					return err
				}
				got[3], err = flow.Do[string](fc, call(flow.Once, "act", d.Action))
				return err
			}},
			flow.Branch{Name: "reader", Run: func(fc flow.Context) (err error) {
				if got[4], err = flow.Do[string](fc, reserving(flow.Read, "one", "tool_calls")); err != nil {
					return err
				}
				return do(fc, call(flow.Read, "two", got[4]))
			}},
		)
		if err != nil {
			return nil, err
		}
		if fc.Now().Before(before.Add(time.Hour)) {
			return nil, &flow.Error{Code: "slept_too_short"}
		}
		return nil, flow.Continue(flow.JSON(got))
	}
}

// ending is the second segment: keys begin anew in it.
func ending(r *rig, fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
	d, err := fc.Wait(question("last"))
	if err != nil {
		return nil, err
	}
	v, err := fc.Do(call(flow.Once, "end", map[string]any{"got": in, "said": d.Action}))
	if err != nil {
		return nil, err
	}
	fc.Emit(flow.Event{Kind: "agent.said", Body: "end"})
	return v.Value, nil
}

const everythingValue = `{"got":["send","try","look","yes","one"],"said":"yes"}`

var everythingCalls = []string{"sender/send", "retrier/try", "sleeper/look", "asker/act", "reader/one", "reader/two", "end"}

func newEverything(t tb, bed Bed) *rig {
	r := newRun(t, bed, nil)
	r.job.Flow = everything(r)
	r.job.Limits = flow.Use{"tool_calls": 20}
	r.world.Answer("root/retrier/try", failingUntil(2))
	return r
}

// endsAlike checks the end of a run of everything that was disturbed: its value,
// and that each effect happened, once calls exactly once and others at most
// again times more.
func (r *rig) endsAlike(out flow.Outcome, past journal, again int) {
	r.t.Helper()
	r.check(out, flow.Completed)
	if string(out.Value) != everythingValue {
		r.t.Fatalf("the value is %s, want %s%v", out.Value, everythingValue, r.journal())
	}
	j := r.journal()
	for _, key := range everythingCalls {
		path := "root/" + key
		n := r.world.Count(path)
		least, most := 1, 1
		if key == "retrier/try" && len(past.of("effect.intended").at(path)) == 0 {
			most++ // its first attempt fails, unless a crash ate it
			least = most - again
		}
		if end, _ := j.finished(path); end.Error != nil {
			r.t.Fatalf("%s failed: %v%v", path, end.Error, j)
		}
		intent := j.of("effect.intended").at(path)
		once := len(intent) > 0 && read(intent[0]).Class == flow.Once
		switch _, finished := past.finished(path); {
		case finished, past.unsettled(path):
			least, most = 0, 0
		case !once:
			most += again
		}
		if n < least || n > most {
			r.t.Fatalf("%s happened %d times, want %d to %d%v", path, n, least, most, j)
		}
	}
	r.agree(out)
}

// knowing answers for a run that goes on where another one was cut off: what that
// one did before is to be found in its own world.
func (r *rig) knowing(past journal, before *World) func(gate) (flow.Decision, bool) {
	return func(g gate) (flow.Decision, bool) {
		if g.GateKind == "in_doubt" && past.unsettled(g.asker()) {
			return flow.Decision{Action: "use_result", Answer: before.Value(g.asker()), By: "local:cli", Via: "command"}, true
		}
		return r.sensibly(g)
	}
}

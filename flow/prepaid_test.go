package flow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// The first attempt of a call may have been charged before it: then it needs no
// room in the ledger, and is charged nothing more. Later ones are like any other.
func TestPrepaid(t *testing.T) {
	for name, c := range map[string]struct {
		fails   int // attempts
		limit   int64
		granted bool
		used    int64
	}{
		"the only attempt fits although the bound is used up": {0, 1, true, 1},
		"a second attempt needs room of its own":              {1, 1, false, 1},
		"and takes it where there is some":                    {1, 2, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			program := func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				if _, err := fc.Do(flow.Call{Key: "begin", Name: "begin", Class: flow.Read, Reserve: flow.Use{"calls": 1}}); err != nil {
					return nil, err
				}
				_, err := fc.Do(flow.Call{Key: "call", Name: "call", Class: flow.Read, Reserve: flow.Use{"calls": 1}, Prepaid: flow.Use{"calls": 1},
					Retry: flow.Retry{Max: 3}})
				return json.RawMessage("{}"), err
			}
			acts := map[string]flow.Activity{
				"begin": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
					return flow.Done{Value: json.RawMessage("{}")}, nil
				}},
				"call": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
					if attempts++; attempts <= c.fails {
						return flow.Done{Use: flow.Use{"calls": 1}}, &flow.Error{Code: "away", Message: "away", Retry: true}
					}
					return flow.Done{Value: json.RawMessage("{}"), Use: flow.Use{"calls": 1}}, nil
				}},
			}
			log := flow.NewMem()
			job := flow.Job{Run: "r", Root: "root", Flow: program, Acts: acts, Limits: flow.Use{"calls": c.limit}}
			out, err := flow.New(log, nil).Drive(context.Background(), job)
			if err != nil {
				t.Fatal(err)
			}
			if done := out.Status == flow.Completed; done != c.granted {
				t.Errorf("the run ended %s (%v), want completed: %v", out.Status, out.Err, c.granted)
			}
			if out.Used["calls"] != c.used {
				t.Errorf("%d calls were charged, want %d", out.Used["calls"], c.used)
			}
			h, err := log.Load(context.Background(), "r")
			if err != nil {
				t.Fatal(err)
			}
			if used := flow.Totals(h, job.Limits).Used; used["calls"] != c.used {
				t.Errorf("the records add up to %d calls, want %d", used["calls"], c.used)
			}
			for _, f := range flow.Conform(h, job.Limits) {
				t.Errorf("the records do not conform: %v", f)
			}
		})
	}
}

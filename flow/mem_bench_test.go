package flow_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// The cost of a step when nothing has to be synced.
func BenchmarkMemStep(b *testing.B) {
	value := json.RawMessage(`{"text":"` + string(make190()) + `"}`)
	acts := map[string]flow.Activity{"echo": {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: value}, nil
	}}}
	left := b.N
	out, err := flow.New(flow.NewMem(), nil).Drive(context.Background(), flow.Job{Run: "r", Root: "root", Acts: acts,
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			n := min(left, 1000)
			for i := range n {
				if _, err := fc.Do(flow.Call{Key: "s" + strconv.Itoa(i), Name: "echo", Class: flow.Read}); err != nil {
					return nil, err
				}
			}
			if left -= n; left > 0 {
				return nil, flow.Continue(nil)
			}
			return nil, nil
		}})
	if err != nil || out.Status != flow.Completed {
		b.Fatal(out, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func make190() []byte {
	b := make([]byte, 180)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

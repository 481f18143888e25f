package flow_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// A run that lingers until an answer says when it comes to rest, and with which
// gates; it parks where that is said to be hopeless.
func TestARunAtRestSaysSo(t *testing.T) {
	for name, want := range map[string]flow.Status{"somebody will answer": flow.Completed, "nobody will": flow.ParkedRun} {
		t.Run(name, func(t *testing.T) {
			log := flow.NewMem()
			var rested [][]string
			asked := func(key string) func(flow.Context) error {
				return func(fc flow.Context) error {
					_, err := fc.Wait(flow.Gate{Key: key, Kind: "question", Actions: []string{"yes"}, Deny: "yes"})
					return err
				}
			}
			job := flow.Job{Run: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", Root: "root", Linger: -1,
				Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
					return nil, fc.Go(flow.Group{}, flow.Branch{Name: "a", Run: asked("q")}, flow.Branch{Name: "b", Run: asked("q")})
				}}
			job.Hopeless = func(gates []string) bool {
				rested = append(rested, slices.Clone(gates))
				if want == flow.ParkedRun {
					return true
				}
				go log.Decide(job.Run, gates[0], flow.Decision{Action: "yes"})
				return false
			}
			out, err := flow.New(log, nil).Drive(context.Background(), job)
			if err != nil || out.Status != want {
				t.Fatalf("ended %s, %v, %v", out.Status, out.Err, err)
			}
			if len(rested[0]) != 2 || want == flow.Completed && (len(rested) != 2 || len(rested[1]) != 1) {
				t.Errorf("it came to rest with %v", rested)
			}
		})
	}
}

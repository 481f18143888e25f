package temporal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Steps as a program has them whose engine is Temporal: one activity each, one after the
// other.
func BenchmarkActivities(b *testing.B) {
	server := os.Getenv("TIPSTAFF_TEMPORAL")
	if server == "" {
		b.Skip("TIPSTAFF_TEMPORAL names no server: scripts/temporal.sh starts one")
	}
	to, err := parse(server, func(string) string { return "" })
	if err != nil {
		b.Fatal(err)
	}
	to.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := client.DialContext(b.Context(), to.Options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	const queue = "activities"
	w := worker.New(c, queue, worker.Options{})
	result := map[string]string{"text": strings.Repeat("word ", 35)}
	w.RegisterActivityWithOptions(func(context.Context, string) (map[string]string, error) { return result, nil }, activity.RegisterOptions{Name: "step"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, steps int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for range steps {
			if err := workflow.ExecuteActivity(ctx, "step", "notes/today.txt").Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: "steps"})
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	run := func(steps int) {
		started, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: fmt.Sprint(b.Name(), time.Now().UnixNano()), TaskQueue: queue}, "steps", steps)
		if err == nil {
			err = started.Get(b.Context(), nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	run(1) // who polls has a connection then
	b.ResetTimer()
	run(b.N)
}

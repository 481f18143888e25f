package temporal

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Names that histories hold. They never change, nor do the names of fields below.
const (
	workflowType = "tipstaff.run"
	activityType = "tipstaff.drive"
	signalResume = "resume"
)

const (
	beatEvery   = 5 * time.Second
	beatTimeout = 20 * time.Second
	driveLimit  = 24 * time.Hour
	firstRetry  = time.Second
	lastRetry   = time.Minute
	// leastWait keeps a workflow from spinning: clocks of machines differ, and hosts may
	// disagree about which of them a run belongs to. A run never parks for less.
	leastWait = time.Second
)

// Status is how a drive ended, as far as scheduling is concerned.
type Status string

const (
	Ended       Status = "ended"       // the run has: nothing is left to drive
	Parked      Status = "parked"      // the run waits, for a decision or for WakeAt
	Interrupted Status = "interrupted" // the run can go on, here or elsewhere
	Busy        Status = "busy"        // another process drives it
)

// Outcome is how a drive ended.
type Outcome struct {
	Status Status    `json:"status"`
	WakeAt time.Time `json:"wake_at,omitzero"` // of a parked run; zero: only a decision wakes it
	Host   string    `json:"host,omitempty"`   // where it must be driven next; "": anywhere
	Code   string    `json:"code,omitempty"`   // why it was interrupted
}

// task is what the activity is given.
type task struct {
	Run  string `json:"run"`
	Host string `json:"host,omitempty"` // whose queue it is in; "": that of all
}

// drives is the workflow: it has a run driven until it has ended.
//
// It is replayed from histories that older versions have written. What changes the order
// of its commands needs workflow.GetVersion; TestRecordedHistoriesReplay finds out.
func drives(ctx workflow.Context, host string) error {
	t := task{Run: workflow.GetInfo(ctx).WorkflowExecution.ID, Host: host}
	signals := workflow.GetSignalChannel(ctx, signalResume)
	for driven := false; ; driven = true {
		// The drive that follows sees whatever these were about.
		for signals.Len() > 0 {
			var host string
			if signals.ReceiveAsync(&host) && host != "" {
				t.Host = host
			}
		}
		if driven && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, workflowType, t.Host)
		}
		var out Outcome
		if err := workflow.ExecuteActivity(withQueue(ctx, t.Host), activityType, t).Get(ctx, &out); err != nil {
			return failure(t.Run, err)
		}
		t.Host = out.Host
		resumed := func() bool { return signals.Len() > 0 }
		var err error
		switch {
		case out.Status == Ended:
			if !resumed() {
				return nil
			}
		case out.Status == Parked && out.WakeAt.IsZero():
			err = workflow.Await(ctx, resumed)
		case out.Status == Parked:
			_, err = workflow.AwaitWithTimeout(ctx, max(out.WakeAt.Sub(workflow.Now(ctx)), leastWait), resumed)
		default: // it belongs to another host
			_, err = workflow.AwaitWithTimeout(ctx, leastWait, resumed)
		}
		if err != nil {
			return err
		}
	}
}

// withQueue has activities taken by the workers of a host, "": by any.
func withQueue(ctx workflow.Context, host string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queueOf(workflow.GetInfo(ctx).TaskQueueName, host),
		StartToCloseTimeout: driveLimit,
		HeartbeatTimeout:    beatTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: firstRetry, BackoffCoefficient: 2, MaximumInterval: lastRetry},
	})
}

// queueOf is the task queue of a host, "": the one that all workers share.
func queueOf(shared, host string) string {
	if host == "" {
		return shared
	}
	return shared + "@" + host
}

// failure is why the workflow ends although its run has not.
func failure(run string, err error) error {
	var refused *temporal.ApplicationError
	if !errors.As(err, &refused) {
		return err // it was cancelled
	}
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("run %s cannot be driven (%s): tipstaff show %[1]s says why, tipstaff resume %[1]s has it tried again", run, refused.Type()), refused.Type(), nil)
}

package temporal

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const testRun = "01K9Z0000000000000000RVN01"

// bed runs the workflow of one run, with a clock that moves at once, and notes its drives.
type bed struct {
	*testsuite.TestWorkflowEnvironment
	started time.Time
	drives  []string // the queue and the time of each
}

// newBed has drives end as the outcomes say, one after the other. An error is what the
// activity returns. Meanwhile is called during each drive; nil: nothing is.
func newBed(t *testing.T, meanwhile func(b *bed, n int), ends ...any) *bed {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b := &bed{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment()}
	b.SetTestTimeout(20 * time.Second)
	b.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: testRun, TaskQueue: defaultQueue})
	b.RegisterWorkflowWithOptions(drives, workflow.RegisterOptions{Name: workflowType})
	b.started = b.Now()
	b.RegisterActivityWithOptions(func(ctx context.Context, given task) (Outcome, error) {
		n := len(b.drives)
		if n >= len(ends) {
			return Outcome{}, temporal.NewNonRetryableApplicationError("one drive too many", "test", nil)
		}
		if given.Run != testRun {
			t.Errorf("drive of run %q", given.Run)
		}
		b.drives = append(b.drives, activity.GetInfo(ctx).TaskQueue+" "+b.Now().Sub(b.started).Round(time.Second).String())
		if meanwhile != nil {
			meanwhile(b, n)
		}
		switch end := ends[n].(type) {
		case error:
			return Outcome{}, end
		case func() Outcome:
			return end(), nil
		default:
			return end.(Outcome), nil
		}
	}, activity.RegisterOptions{Name: activityType})
	return b
}

// resume has the run resumed after so long, on a host.
func (b *bed) resume(after time.Duration, host string) {
	b.RegisterDelayedCallback(func() { b.SignalWorkflow(signalResume, host) }, after)
}

// wants runs the workflow, which completes, and compares its drives.
func (b *bed) wants(t *testing.T, drives ...string) {
	t.Helper()
	b.ExecuteWorkflow(workflowType, "")
	if !b.IsWorkflowCompleted() || b.GetWorkflowError() != nil {
		t.Errorf("the workflow ended with %v", b.GetWorkflowError())
	}
	if !slices.Equal(b.drives, drives) {
		t.Errorf("driven at %q, want %q", b.drives, drives)
	}
}

func TestARunThatEndsIsDrivenOnce(t *testing.T) {
	newBed(t, nil, Outcome{Status: Ended}).wants(t, "tipstaff 0s")
}

func TestAParkedRunWaitsForItsSignal(t *testing.T) {
	b := newBed(t, nil, Outcome{Status: Parked}, Outcome{Status: Ended})
	b.resume(3*time.Hour, "")
	b.wants(t, "tipstaff 0s", "tipstaff 3h0m0s")
}

func TestAParkedRunWaitsForItsTimer(t *testing.T) {
	var b *bed
	b = newBed(t, nil, func() Outcome { return Outcome{Status: Parked, WakeAt: b.started.Add(48 * time.Hour)} }, Outcome{Status: Ended})
	b.wants(t, "tipstaff 0s", "tipstaff 48h0m0s")
}

func TestASignalComesBeforeTheTimer(t *testing.T) {
	var b *bed
	park := func() Outcome { return Outcome{Status: Parked, WakeAt: b.started.Add(time.Hour)} }
	b = newBed(t, nil, park, park, Outcome{Status: Ended})
	b.resume(time.Minute, "")
	b.wants(t, "tipstaff 0s", "tipstaff 1m0s", "tipstaff 1h0m0s")
}

// A clock that is ahead of the store's has a run driven too early, again and again.
func TestATimerThatIsDueDoesNotSpin(t *testing.T) {
	var b *bed
	due := func() Outcome { return Outcome{Status: Parked, WakeAt: b.started} }
	b = newBed(t, nil, due, due, Outcome{Status: Ended})
	b.wants(t, "tipstaff 0s", "tipstaff 1s", "tipstaff 2s")
}

func TestSignalsDuringADriveAreOneMoreDrive(t *testing.T) {
	b := newBed(t, func(b *bed, n int) {
		for range 3 * (1 - min(n, 1)) { // during the first
			b.SignalWorkflow(signalResume, "")
		}
	}, Outcome{Status: Parked}, Outcome{Status: Parked}, Outcome{Status: Ended})
	b.resume(time.Hour, "")
	b.wants(t, "tipstaff 0s", "tipstaff 0s", "tipstaff 1h0m0s")
}

func TestASignalDuringTheLastDriveIsNotLost(t *testing.T) {
	b := newBed(t, func(b *bed, n int) {
		if n == 0 {
			b.SignalWorkflow(signalResume, "")
		}
	}, Outcome{Status: Ended}, Outcome{Status: Ended})
	b.wants(t, "tipstaff 0s", "tipstaff 0s")
}

func TestARunMovesToItsHost(t *testing.T) {
	b := newBed(t, nil,
		Outcome{Status: Interrupted, Host: "ada"}, // found where it does not belong
		Outcome{Status: Parked, Host: "ada"},
		Outcome{Status: Parked, Host: "ada"}, // resumed by somebody who does not know where it belongs
		Outcome{Status: Parked},              // resumed on another host, where it needs to stay no longer
		Outcome{Status: Ended})
	b.resume(time.Minute, "")
	b.resume(2*time.Minute, "bob")
	b.resume(3*time.Minute, "")
	b.wants(t, "tipstaff 0s", "tipstaff@ada 1s", "tipstaff@ada 1m0s", "tipstaff@bob 2m0s", "tipstaff 3m0s")
}

func TestInterruptedDrivesAreRetriedWithBackoff(t *testing.T) {
	again := temporal.NewApplicationError("interrupted", "store_lost")
	ends := []any{again, again, again, again, again, again, again, again, Outcome{Status: Ended}}
	newBed(t, nil, ends...).wants(t, "tipstaff 0s", "tipstaff 1s", "tipstaff 3s", "tipstaff 7s", "tipstaff 15s", "tipstaff 31s", "tipstaff 1m3s", "tipstaff 2m3s", "tipstaff 3m3s")
}

func TestAHopelessRunFailsItsWorkflowAndSaysWhy(t *testing.T) {
	b := newBed(t, nil, temporal.NewNonRetryableApplicationError("interrupted", "replay_mismatch", nil))
	b.ExecuteWorkflow(workflowType, "")
	var failed *temporal.ApplicationError
	if err := b.GetWorkflowError(); !errors.As(err, &failed) || failed.Type() != "replay_mismatch" || !strings.Contains(failed.Error(), "tipstaff resume "+testRun) {
		t.Errorf("the workflow ended with %v", err)
	}
}

func TestAWorkflowContinuesAsNewBeforeADrive(t *testing.T) {
	b := newBed(t, nil, Outcome{Status: Parked, Host: "ada"})
	b.SetContinueAsNewSuggested(true)
	b.resume(time.Minute, "bob")
	b.resume(time.Minute, "")
	b.ExecuteWorkflow(workflowType, "")
	var anew *workflow.ContinueAsNewError
	if err := b.GetWorkflowError(); !errors.As(err, &anew) {
		t.Fatalf("the workflow ended with %v", err)
	}
	if got := string(anew.Input.GetPayloads()[0].GetData()); anew.WorkflowType.Name != workflowType || got != `"bob"` {
		t.Errorf("continues as %s(%s)", anew.WorkflowType.Name, got)
	}
	if want := []string{"tipstaff 0s"}; !slices.Equal(b.drives, want) {
		t.Errorf("driven at %q, want %q", b.drives, want)
	}
}

func TestACancelledWorkflowEnds(t *testing.T) {
	b := newBed(t, nil, Outcome{Status: Parked})
	b.RegisterDelayedCallback(b.CancelWorkflow, time.Minute)
	b.ExecuteWorkflow(workflowType, "")
	if err := b.GetWorkflowError(); !temporal.IsCanceledError(err) {
		t.Errorf("the workflow ended with %v", err)
	}
}

// Histories that this workflow has written must be understood for as long as such
// workflows may be open.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, file := range files {
		r := worker.NewWorkflowReplayer()
		r.RegisterWorkflowWithOptions(drives, workflow.RegisterOptions{Name: workflowType})
		if err := r.ReplayWorkflowHistoryFromJSONFile(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

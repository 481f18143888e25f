package temporal

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/tipstaff/tipstaff"
)

// driveOnce performs the activity on the queue of host ada, for a drive that ends so.
func driveOnce(t *testing.T, stopped bool, out Outcome, err error) (Outcome, *temporal.ApplicationError) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	work, stop := context.WithCancel(t.Context())
	defer stop()
	d := &driver{Engine: &Engine{client: silentServer{}}, work: work, places: make(chan struct{}, 1)}
	d.drive = func(ctx context.Context, run string) (Outcome, error) {
		if run != testRun {
			t.Errorf("drive of run %q", run)
		}
		if stopped {
			stop()
			<-ctx.Done()
		}
		return out, err
	}
	env.RegisterActivityWithOptions(d.activity, activity.RegisterOptions{Name: activityType})
	value, failed := env.ExecuteActivity(activityType, task{Run: testRun, Host: "ada"})
	if failed != nil {
		var again *temporal.ApplicationError
		if !errors.As(failed, &again) {
			t.Fatalf("the activity failed with %v", failed)
		}
		return Outcome{}, again
	}
	var got Outcome
	if err := value.Get(&got); err != nil {
		t.Fatal(err)
	}
	return got, nil
}

func TestWhatTheWorkflowIsToldOfADrive(t *testing.T) {
	for name, out := range map[string]Outcome{
		"ended":             {Status: Ended, Host: "ada"},
		"parked":            {Status: Parked, Host: "ada", WakeAt: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)},
		"belongs elsewhere": {Status: Interrupted, Host: "bob"},
		"belongs anywhere":  {Status: Interrupted},
		"is busy elsewhere": {Status: Busy, Host: "bob"},
	} {
		if got, again := driveOnce(t, false, out, nil); again != nil || got != out {
			t.Errorf("%s: %+v, %v", name, got, again)
		}
	}
}

func TestWhatIsDrivenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		stopped  bool
		out      Outcome
		err      error
		code     string
		after    time.Duration // 0: by the policy
		hopeless bool
	}{
		"interrupted":      {out: Outcome{Status: Interrupted, Host: "ada", Code: "store_lost"}, code: "store_lost"},
		"busy":             {out: Outcome{Status: Busy, Host: "ada"}, code: "busy", after: 5 * time.Second},
		"stopped":          {stopped: true, out: Outcome{Status: Interrupted, Host: "ada", Code: "signal:TERM"}, code: "signal:TERM", after: time.Millisecond},
		"error":            {err: tipstaff.Errorf(tipstaff.StoreUnavailable, "the password is secret"), code: "store_unavailable"},
		"error of no kind": {err: errors.New("the password is secret"), code: "internal"},
		"replay_mismatch":  {out: Outcome{Status: Interrupted, Host: "ada", Code: "replay_mismatch"}, code: "replay_mismatch", hopeless: true},
		"misuse":           {out: Outcome{Status: Interrupted, Host: "bob", Code: "misuse"}, code: "misuse", hopeless: true},
		"format_newer":     {err: tipstaff.Errorf(tipstaff.FormatNewer, "newer"), code: "format_newer", hopeless: true},
	} {
		_, again := driveOnce(t, c.stopped, c.out, c.err)
		switch {
		case again == nil:
			t.Errorf("%s: the workflow was told", name)
		case again.Type() != c.code || again.NextRetryDelay() != c.after || again.NonRetryable() != c.hopeless || strings.Contains(again.Error(), "secret"):
			t.Errorf("%s: %v, after %s", name, again, again.NextRetryDelay())
		}
	}
}

func TestPlaces(t *testing.T) {
	d := &driver{places: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	if !d.enter(ctx, task{Run: testRun}) {
		t.Error("the first found no place")
	}
	if d.enter(ctx, task{Run: testRun}) {
		t.Error("the second, which others may drive, has a place too")
	}
	entered := make(chan bool)
	go func() { entered <- d.enter(ctx, task{Run: testRun, Host: "ada"}) }()
	<-d.places
	if !<-entered {
		t.Error("the third, which is for this host, did not wait for a place")
	}
	go func() { entered <- d.enter(ctx, task{Run: testRun, Host: "ada"}) }()
	cancel()
	if <-entered {
		t.Error("the fourth has entered although the worker stops")
	}
}

// silentServer answers no heartbeat.
type silentServer struct{ client.Client }

func (silentServer) RecordActivityHeartbeat(ctx context.Context, _ []byte, _ ...any) error {
	<-ctx.Done()
	return ctx.Err()
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// exits is every code of errors with its exit code.
var exits = map[tipstaff.Code]int{
	tipstaff.InvalidArgument: 2, tipstaff.InvalidProgram: 2, tipstaff.CorrectionInvalid: 2,
	tipstaff.WorkspaceUnresolved: 2, tipstaff.CursorBeyondHead: 2,
	tipstaff.RunNotFound: 3, tipstaff.RunEnded: 3, tipstaff.ArtifactNotFound: 3, tipstaff.Busy: 3, tipstaff.LeaseLost: 3,
	tipstaff.GateNotFound: 3, tipstaff.GateClosed: 3, tipstaff.GateExpired: 3, tipstaff.ActionNotOffered: 3,
	tipstaff.FeedbackRequired: 3, tipstaff.FeedbackNotAllowed: 3, tipstaff.SubjectChanged: 3, tipstaff.DecisionConflict: 3,
	tipstaff.Forbidden: 3, tipstaff.InspectOnly: 3, tipstaff.OwnRun: 3, tipstaff.WorkspaceUntrusted: 3, tipstaff.StateUnavailable: 3, tipstaff.StoreUnavailable: 3, tipstaff.StoreBusy: 3, tipstaff.SessionBusy: 3,
	tipstaff.TaskNotFound: 3, tipstaff.TaskTransition: 3, tipstaff.TaskConflict: 3, tipstaff.TaskBusy: 3, tipstaff.SessionUnknown: 3, tipstaff.SessionMismatch: 3,
	tipstaff.SessionElsewhere: 3, tipstaff.SessionIsClosed: 3, tipstaff.SessionConflict: 3, tipstaff.SessionIsLost: 3,
	tipstaff.WorkerUnavailable: 3, tipstaff.WorkerUnsupportedVersion: 3, tipstaff.WorkerDirectory: 3, tipstaff.WorkerSettings: 3, tipstaff.WorkerSandboxRequired: 3,
	tipstaff.WorkerPolicyInexpressible: 3, tipstaff.WorkerContainment: 3, tipstaff.ResumeUnsupported: 3,
	tipstaff.ThreadBusy: 3, tipstaff.VersionStale: 3, tipstaff.WrongState: 3, tipstaff.RequestConflict: 3, tipstaff.HostConflict: 3,
	tipstaff.CheckpointNotFound: 3, tipstaff.AgentNotFound: 3, tipstaff.PipelineNotFound: 3, tipstaff.WorkerNotFound: 3, tipstaff.QueueFull: 3,
	tipstaff.LimitReached: 3, tipstaff.Unauthenticated: 3, tipstaff.Stopping: 3, tipstaff.CallCancelled: 3, tipstaff.DeadlineExceeded: 3,
	tipstaff.StoreFull: 3, tipstaff.StoreLost: 3, tipstaff.Integrity: 6, tipstaff.FormatNewer: 3, tipstaff.ReplayMismatch: 3, tipstaff.Refused: 3, tipstaff.ActionBlocked: 3, tipstaff.ObeyedFilesChanged: 3,
	tipstaff.NotAGitRepository: 3, tipstaff.NoCommits: 3,
	tipstaff.PathOutside: 3, tipstaff.CapacityReached: 3, tipstaff.ProjectBusy: 3, tipstaff.SpawnFailed: 3, tipstaff.UnsupportedPlatform: 3,
	tipstaff.WrongGateKind: 3, tipstaff.TooManyWatchers: 3,
	tipstaff.Internal: 1,
}

func TestExitCodeOfEveryErrorCode(t *testing.T) {
	for _, code := range declaredCodes(t) {
		want, ok := exits[code]
		if !ok {
			t.Errorf("%s has no exit code in this test", code)
			continue
		}
		if got := exitCode(fmt.Errorf("wrapped: %w", tipstaff.Errorf(code, "x"))); got != want {
			t.Errorf("%s: exit code %d, want %d", code, got, want)
		}
	}
}

// declaredCodes reads the closed list where it is declared, so that a code added
// there cannot be forgotten here.
func declaredCodes(t *testing.T) []tipstaff.Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []tipstaff.Code
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); !ok || id.Name != "Code" {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, tipstaff.Code(text))
		return true
	})
	if len(codes) < 20 {
		t.Fatalf("found only %d codes: the list moved", len(codes))
	}
	return codes
}

func TestExitCodeOfErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"usage", &usageError{message: "x"}, 2},
		{"unknown error", errors.New("x"), 1},
		{"status", status(7), 7},
		{"status of success", status(0), 0},
		{"SIGINT", &SignalError{syscall.SIGINT}, 130},
		{"SIGTERM", fmt.Errorf("x: %w", &SignalError{syscall.SIGTERM}), 143},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestExitCodeOfDrives(t *testing.T) {
	signalled, cancel := context.WithCancelCause(context.Background())
	cancel(&SignalError{syscall.SIGTERM})
	for _, c := range []struct {
		name string
		ctx  context.Context
		d    tipstaff.Driven
		want int
	}{
		{"success", nil, tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}, 0},
		{"partial", nil, tipstaff.Driven{State: tipstaff.Completed, Outcome: "partial"}, 0},
		{"completed in spite of a signal", signalled, tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}, 0},
		{"failed", nil, tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "tool_error"}, 1},
		{"bound", nil, tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "bound_exceeded"}, 5},
		{"cancelled", nil, tipstaff.Driven{State: tipstaff.Cancelled, Outcome: "cancelled"}, 8},
		{"parked", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked"}, 4},
		{"cut", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "cut"}, 4},
		{"SIGTERM by cause", signalled, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted"}, 143},
		{"SIGTERM by reason", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "signal:SIGTERM"}, 143},
		{"SIGINT by reason", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "signal:INT"}, 130},
		{"replay mismatch", nil, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "replay_mismatch"}, 3},
		{"panic", signalled, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "panic"}, 1},
		{"lease lost", nil, tipstaff.Driven{State: tipstaff.Executing, Err: tipstaff.Errorf(tipstaff.LeaseLost, "x")}, 3},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = context.Background()
		}
		if got := exitOfDriven(ctx, c.d); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestExitCodeOfReports(t *testing.T) {
	ok, bad := tipstaff.Finding{OK: true}, tipstaff.Finding{}
	for _, c := range []struct {
		integrity, conformance tipstaff.Finding
		want                   int
	}{{ok, ok, 0}, {bad, ok, 6}, {ok, bad, 7}, {bad, bad, 6}} {
		if got := exitOfReport(tipstaff.Report{Integrity: c.integrity, Conformance: c.conformance}); got != c.want {
			t.Errorf("integrity %v, conformance %v: %d, want %d", c.integrity.OK, c.conformance.OK, got, c.want)
		}
	}
}

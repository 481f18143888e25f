package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/tipstaff/tipstaff"
)

// Exit codes, the same for every command. Scripts depend on them.
const (
	exitDone          = 0
	exitFailed        = 1
	exitInvalid       = 2 // the invocation or a document; nothing was started
	exitRefused       = 3 // nothing changed
	exitWaiting       = 4 // for a decision, a time or a resume
	exitBound         = 5
	exitIntegrity     = 6
	exitNonConformant = 7
	exitCancelled     = 8
	exitMaterial      = 9
	exitToolError     = 10  // the tool ran and reported an error
	exitSignal        = 128 // plus the signal's number: 130 SIGINT, 143 SIGTERM
)

// exitStatus ends a command that has already said everything.
type exitStatus int

func (exitStatus) Error() string { return "exit status" }

// status is nil for 0, so that a command can return it.
func status(code int) error {
	if code == exitDone {
		return nil
	}
	return exitStatus(code)
}

// usageError is an invocation that makes no sense.
type usageError struct {
	message string
	hint    string
}

func (e *usageError) Error() string { return e.message }

// exitCode is the exit code of a command that returned err.
func exitCode(err error) int {
	var (
		st    exitStatus
		usage *usageError
		sig   *SignalError
	)
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &st):
		return int(st)
	case errors.As(err, &usage):
		return exitInvalid
	case errors.As(err, &sig):
		return exitOfSignal(sig)
	}
	return exitOfCode(tipstaff.CodeOf(err))
}

func exitOfCode(c tipstaff.Code) int {
	switch c {
	case "":
		return exitDone
	case tipstaff.InvalidArgument, tipstaff.InvalidProgram, tipstaff.CorrectionInvalid,
		tipstaff.WorkspaceUnresolved, tipstaff.CursorBeyondHead:
		return exitInvalid
	case tipstaff.Internal:
		return exitFailed
	case tipstaff.Integrity:
		return exitIntegrity
	}
	return exitRefused
}

func exitOfSignal(e *SignalError) int {
	if n, ok := e.Signal.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitSignal + int(syscall.SIGINT)
}

// exitOfDriven is the exit code of the process that drove a run. ctx is the
// command's: its cause names the signal that broke the drive off.
func exitOfDriven(ctx context.Context, d tipstaff.Driven) int {
	switch {
	case d.Err != nil:
		return exitCode(d.Err)
	case d.Outcome == "interrupted":
		return exitOfInterruption(ctx, d.Reason)
	case d.Waits():
		return exitWaiting
	}
	return exitOfState(d.State, d.Reason)
}

func exitOfInterruption(ctx context.Context, reason string) int {
	var sig *SignalError
	name, signalled := strings.CutPrefix(reason, "signal:")
	switch {
	case reason == string(tipstaff.ReplayMismatch):
		return exitRefused
	case reason != "" && !signalled: // misuse, panic
		return exitFailed
	case errors.As(context.Cause(ctx), &sig):
		return exitOfSignal(sig)
	case strings.TrimPrefix(name, "SIG") == "TERM":
		return exitSignal + int(syscall.SIGTERM)
	}
	return exitSignal + int(syscall.SIGINT)
}

// exitOfRun is the exit code of a command that watched a run which others drive.
func exitOfRun(r tipstaff.Run) int {
	reason := ""
	if r.Error != nil {
		reason = r.Error.Reason
	}
	return exitOfState(r.State, reason)
}

// exitOfState takes a run that has not ended for one that waits: whoever asks
// has looked until nobody drove it any more.
func exitOfState(s tipstaff.State, reason string) int {
	switch s {
	case tipstaff.Completed:
		return exitDone
	case tipstaff.Cancelled:
		return exitCancelled
	case tipstaff.Failed:
		if reason == "bound_exceeded" {
			return exitBound
		}
		return exitFailed
	}
	return exitWaiting
}

// exitOfReport looks at integrity first: what a forged journal conforms to says
// nothing.
func exitOfReport(r tipstaff.Report) int {
	switch {
	case !r.Integrity.OK:
		return exitIntegrity
	case !r.Conformance.OK:
		return exitNonConformant
	}
	return exitDone
}

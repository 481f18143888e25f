package runner

import (
	"errors"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// storeErrors says how the errors of a store look to people.
var storeErrors = []struct {
	is      error
	code    tipstaff.Code
	hint    string
	command string // the same for people at the command line
}{
	{flow.ErrIntegrity, tipstaff.Integrity, "nothing was done", "`tipstaff verify` tells what was changed (with --anchor FILE, of a run that is anchored): restore a backup of .tipstaff"},
	{flow.ErrStoreLost, tipstaff.StoreLost, "", "put the file back where it was, or restore a backup; then resume the run"},
	{journal.ErrUnknownKey, tipstaff.Refused, "", ""},
	{flow.ErrNoRun, tipstaff.RunNotFound, "", "`tipstaff ls` lists the runs of this workspace"},
	{flow.ErrEnded, tipstaff.RunEnded, "", "`tipstaff fork` makes a new run from an ended one"},
	{flow.ErrSessionBusy, tipstaff.SessionBusy, "", "continue it with `tipstaff chat --session`, or cancel the run"},
	{flow.ErrThreadBusy, tipstaff.ThreadBusy, "resume, roll back or cancel that run, or use another thread", ""},
	{flow.ErrRequestKnown, tipstaff.RequestConflict, "a request id names one request: give another, or none", ""},
	{flow.ErrCapacity, tipstaff.CapacityReached, "wait until one of them has ended, or cancel one", "`tipstaff ls --status running` lists them; --max-runs N or TIPSTAFF_MAX_RUNS allows more"},
	{flow.ErrProjectBusy, tipstaff.ProjectBusy, "wait until that run has ended, or work in a worktree", ""},
	{flow.ErrBusy, tipstaff.Busy, "", "`tipstaff watch` follows it; `tipstaff cancel` ends it"},
	{flow.ErrLeaseLost, tipstaff.LeaseLost, "another process drives this run now", ""},
	{flow.ErrStoreFull, tipstaff.StoreFull, "nothing that was recorded is lost", "make room on the disk, then resume the run"},
	{flow.ErrStoreBusy, tipstaff.StoreBusy, "another process holds the store; try again", ""},
	{flow.ErrReadOnly, tipstaff.FormatNewer, "", ""},
	{flow.ErrNoBlob, tipstaff.ArtifactNotFound, "", "`tipstaff doctor` says what is missing; bring it back from a backup"},
	{flow.ErrStoreDown, tipstaff.StoreUnavailable, "", "see that the disk, or the database, can be used, then run the command again"},
}

// explain gives an error of a lower layer its code and advice. What has a code
// already keeps it.
func explain(err error, run tipstaff.ID) error {
	if err == nil {
		return nil
	}
	var known *tipstaff.Error
	if errors.As(err, &known) {
		return err
	}
	var mismatch *flow.NonDeterminism
	if errors.As(err, &mismatch) {
		return &tipstaff.Error{Code: tipstaff.ReplayMismatch, Run: run, Message: mismatch.Error(), Err: err,
			Hint: "drive the run with the version of Tipstaff that started it, or fork it"}
	}
	for _, s := range storeErrors {
		if errors.Is(err, s.is) {
			return &tipstaff.Error{Code: s.code, Run: run, Message: messageOf(err, s.code, run), Hint: s.hint, Command: s.command, Err: err}
		}
	}
	return &tipstaff.Error{Code: tipstaff.Internal, Run: run, Message: "something unexpected went wrong", Err: err}
}

// coded is an error that [explain] has given its code; nil is none.
func coded(err error) *tipstaff.Error {
	var e *tipstaff.Error
	errors.As(err, &e)
	return e
}

func messageOf(err error, code tipstaff.Code, run tipstaff.ID) string {
	switch code {
	case tipstaff.RunNotFound:
		return "there is no run " + run.String()
	case tipstaff.RunEnded:
		return "run " + run.String() + " has ended"
	case tipstaff.SessionBusy:
		return "a turn of the session has not ended: run " + run.String()
	case tipstaff.ThreadBusy:
		return "the thread has a run that has not ended" + strings.TrimPrefix(err.Error(), flow.ErrThreadBusy.Error())
	case tipstaff.RequestConflict:
		return "the request has made a run already" + strings.TrimPrefix(err.Error(), flow.ErrRequestKnown.Error())
	case tipstaff.Busy:
		return "run " + run.String() + " is being driven by another process"
	case tipstaff.Integrity, tipstaff.StoreLost, tipstaff.CapacityReached, tipstaff.ProjectBusy:
		return strings.TrimPrefix(err.Error(), "flow: ")
	}
	return err.Error()
}

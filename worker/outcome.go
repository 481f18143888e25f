package worker

import "github.com/tipstaff/tipstaff"

// facts are what is known of an invocation that has ended.
type facts struct {
	notStarted bool // the CLI could not be executed
	noChannel  bool // it was stopped for want of a channel, or says that it has none
	connected  bool // its relay has authenticated
	survivors  int
	cancelled  bool   // stopped because the run is being cancelled
	limit      string // that it was stopped at, or ended at by itself
	lingered   bool   // stopped because it did not end after it had reported or asked

	report  tipstaff.TaskStatus // needs_review, paused or nothing
	pending int                 // requests that wait for a person
	fault   Outcome             // what the signs of the CLI tell: session_conflict, session_lost, channel
	events  int                 // lines that are JSON
	end     *ending             // of the stream
	exit    tipstaff.WorkerExit
	denials int
}

// outcome is the first that fits.
func (f *facts) outcome() Outcome {
	spoke := f.report != "" || f.pending > 0
	well := f.end != nil && !f.end.isError && f.exit == (tipstaff.WorkerExit{}) // ended by itself, and well
	switch {
	case f.notStarted:
		return StartFailed
	case f.noChannel, f.fault == ChannelFailed, well && !f.connected && !spoke:
		return ChannelFailed
	case f.survivors > 0:
		return Orphan
	case f.cancelled:
		return Cancelled
	case f.limit != "" && !spoke:
		return Limit
	case f.pending > 0:
		return Approval
	case f.report == tipstaff.TaskPaused:
		return Paused
	case f.fault != "":
		return f.fault
	case f.report == tipstaff.TaskNeedsReview && (f.limit != "" || f.lingered):
		return Reported
	case f.events == 0:
		return Empty
	case f.end != nil && f.end.isError:
		return Failed
	case f.exit != (tipstaff.WorkerExit{}):
		return Exited
	case f.end == nil:
		return Truncated
	case f.report == tipstaff.TaskNeedsReview:
		return Reported
	case f.denials > 0:
		return Denied
	}
	return NoReport
}

// failed reports whether an outcome is a failure of the invocation, not a turn that ended.
func (o Outcome) failed() bool {
	switch o {
	case Approval, Paused, Denied, NoReport, Reported:
		return false
	}
	return true
}

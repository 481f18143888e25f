package tipstaff

// State is where a run stands in its lifecycle.
type State string

const (
	Drafting   State = "drafting"
	Proposed   State = "proposed"
	Clarifying State = "clarifying"
	Accepted   State = "accepted"
	Executing  State = "executing"
	Completed  State = "completed"
	Failed     State = "failed"
	Cancelled  State = "cancelled"
)

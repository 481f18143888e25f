package tipstaff

// Actions at a handoff.
const (
	ActionContinue = "continue"
	ActionRetry    = "retry_feedback"
	ActionWaive    = "continue_with_waiver"
	ActionHalt     = "halt"
)

// Triggers of a handoff.
const (
	TriggerIncomplete = "incomplete"
	TriggerRejected   = VerdictRejected
	TriggerApproved   = VerdictApproved
)

// HandoffActions are what a handoff offers, by what triggered it, the default first. It
// is never applied by itself.
func HandoffActions(trigger string) []string {
	switch trigger {
	case TriggerIncomplete:
		return []string{ActionRetry, ActionWaive, ActionHalt}
	case TriggerRejected:
		return []string{ActionRetry, ActionContinue, ActionWaive, ActionHalt}
	}
	return []string{ActionContinue, ActionRetry, ActionHalt}
}

// HandoffSubject is what a person is handed: what a stage or the worker of a task has
// brought.
type HandoffSubject struct {
	Stage            string         `json:"stage"`
	Visit            int64          `json:"visit"`
	Trigger          string         `json:"trigger"`
	Round            int64          `json:"round"`
	MaxRounds        int64          `json:"max_rounds"`
	Summary          string         `json:"summary"`
	Findings         []StageFinding `json:"findings"`
	Incomplete       []string       `json:"incomplete"`
	DefaultAction    string         `json:"default_action"`
	FeedbackRequired []string       `json:"feedback_required_for"`
}

// Offer fills in what follows from the trigger, and returns the actions.
func (s *HandoffSubject) Offer() []string {
	actions := HandoffActions(s.Trigger)
	s.DefaultAction = actions[0]
	for _, a := range actions {
		if a == ActionRetry || a == ActionWaive {
			s.FeedbackRequired = append(s.FeedbackRequired, a)
		}
	}
	return actions
}

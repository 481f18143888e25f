package tipstaff

import (
	"encoding/json"
	"fmt"
	"strconv"
)

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

// handoff shows what was brought: how it was judged, then each finding with what is to be
// done about it.
func (s *shower) handoff(raw json.RawMessage) bool {
	var h HandoffSubject
	if json.Unmarshal(raw, &h) != nil || h.Trigger == "" {
		return false
	}
	s.field(0, "result", h.Trigger)
	s.field(0, "round", fmt.Sprintf("%d of %d", h.Round, h.MaxRounds))
	text := func(depth int, at, name, text string) {
		if text != "" {
			s.value(depth, at, name, quote(text))
		}
	}
	text(0, "summary", "summary", h.Summary)
	s.each(0, "findings", len(raw), len(h.Findings), func(i int) {
		f, at := h.Findings[i], joinNames("findings", strconv.Itoa(i))
		s.line(0, "finding "+f.ID)
		text(1, joinNames(at, "severity"), "severity", f.Severity)
		text(1, joinNames(at, "title"), "title", f.Title)
		if f.File != "" {
			text(1, joinNames(at, "file"), "file", Joined(":", f.File, positive(f.Line)))
		}
		text(1, joinNames(at, "body"), "body", f.Body)
		text(1, joinNames(at, "required_fix"), "required fix", f.RequiredFix)
	}, func(i int) int {
		return len(h.Findings[i].Title) + len(h.Findings[i].Body) + len(h.Findings[i].RequiredFix)
	})
	s.each(0, "incomplete", len(raw), len(h.Incomplete), func(i int) {
		text(0, joinNames("incomplete", strconv.Itoa(i)), "incomplete", h.Incomplete[i])
	}, func(i int) int { return len(h.Incomplete[i]) })
	s.field(0, "default", h.DefaultAction)
	return true
}

// positive is a number, if there is one.
func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

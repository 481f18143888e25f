package skill

import (
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Reasons that a skill can say something about. The first are those that trying
// again may mend; of the last a run fails whatever a skill would like, because
// somebody or something has forbidden to go on, or there is no node to go on
// with.
var (
	passing = []string{"timeout", "tool_unavailable", "tool_error", "output_invalid"}
	lasting = []string{"step_error", "subagent_failed", "factual_error", "wrong_assumption", "internal"}
	final   = []string{"policy_denied", "gate_denied", "bound_exceeded", "deadline_exceeded", "in_doubt",
		"plan_invalid", "ambiguous_after_clarify", "blocked_by_constraint"}
)

// CheckDocument finds reasons and actions that there are not, and that do not go
// together.
func (m *FailureMode) CheckDocument(f *document.Fields) {
	reason, action := f.Get("reason"), f.Get("action")
	known := slices.Contains(slices.Concat(passing, lasting, final), m.Reason) || slug.MatchString(m.Reason)
	switch {
	case reason == nil || action == nil || reason.Kind != document.Text || action.Kind != document.Text:
	case !known:
		f.Problems.Add(document.CodeFieldInvalid, reason.At, f.Path, "%s is no reason to fail; it is one of %s, or x:<name>",
			tipstaff.Quote(m.Reason, 120), strings.Join(slices.Concat(passing, lasting, final), ", "))
	case m.Action == Fail:
	case m.Action != Retry && m.Action != Gate:
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s is no action; it is fail, retry or gate", tipstaff.Quote(string(m.Action), 120))
	case slices.Contains(final, m.Reason):
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s always fails; its action can only be fail", m.Reason)
	case m.Action == Retry && !slices.Contains(passing, m.Reason):
		f.Problems.Add(document.CodeFieldInvalid, action.At, f.Path, "%s is not mended by trying again; retry is for %s", m.Reason, strings.Join(passing, ", "))
	}
}

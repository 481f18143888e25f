package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// The rules by which a change of terms is material, in the order in which they
// are reported.
const (
	RuleBudgetDelta            = "budget_delta"
	RuleNewSubAgent            = "new_sub_agent"
	RuleScopeExpansion         = "scope_expansion"
	RuleNewToolNamespace       = "new_tool_namespace"
	RuleHardConstraintRelaxed  = "hard_constraint_relaxed"
	RuleSuccessCriteriaChanged = "success_criteria_changed"
	RuleDeadlineShift          = "deadline_shift"
	RuleAnchorFlip             = "anchor_flip"
)

// change is a pair of terms, and when it is looked at.
type change struct {
	old, new Terms
	now      time.Time
}

// Classify says whether terms have changed so much that they must be accepted
// again, and by which rules. It is pure: all rules are tried, and equal terms
// are never material.
func Classify(old, new Terms, now time.Time) tipstaff.Classification {
	c := change{old, new, now}
	found := tipstaff.Classification{Reasons: []tipstaff.Reason{}}
	for _, rule := range [...]struct {
		name    string
		details func(change) []string
	}{
		{RuleBudgetDelta, change.budgetDelta},
		{RuleNewSubAgent, change.newSubAgent},
		{RuleScopeExpansion, change.scopeExpansion},
		{RuleNewToolNamespace, change.newToolNamespace},
		{RuleHardConstraintRelaxed, change.hardConstraintRelaxed},
		{RuleSuccessCriteriaChanged, change.successCriteriaChanged},
		{RuleDeadlineShift, change.deadlineShift},
		{RuleAnchorFlip, change.anchorFlip},
	} {
		details := rule.details(c)
		slices.Sort(details)
		for _, d := range details {
			found.Reasons = append(found.Reasons, tipstaff.Reason{Rule: rule.name, Detail: d})
		}
	}
	found.Material = len(found.Reasons) > 0
	return found
}

func (c change) anchorFlip() []string {
	switch {
	case c.old.Anchor == c.new.Anchor:
		return nil
	case c.new.Anchor:
		return []string{"the end of the run is anchored now"}
	}
	return []string{"the end of the run is no longer anchored"}
}

// differ is what only one of two lists has. What stands in one of them more often
// than in the other counts as often as that.
func differ[T comparable](old, new []T) (gone, added []T) {
	return beyond(old, new), beyond(new, old)
}

// beyond are the items of a that b does not have, in the order of a.
func beyond[T comparable](a, b []T) []T {
	count := map[T]int{}
	for _, x := range b {
		count[x]++
	}
	var more []T
	for _, x := range a {
		if count[x]--; count[x] < 0 {
			more = append(more, x)
		}
	}
	return more
}

// briefly keeps what documents say short enough for a line: a detail names what
// has changed, the documents have the rest.
func briefly(s string) string {
	const most = 80
	runes := []rune(s)
	if len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return s
}

// became is a change of one text.
func became(what, old, new string) string {
	return fmt.Sprintf("%s changes from %s to %s", what, orNone(old), orNone(new))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return briefly(s)
}

func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return briefly(strings.Join(words, ", "))
}

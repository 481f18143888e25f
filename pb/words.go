package pb

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// endings are the reasons for which runs end, by outcome. A run that has ended has
// exactly one.
var endings = []struct {
	outcome string
	reasons []string
}{
	{"completed", []string{"completed", "break_requested"}},
	{"bound_exceeded", []string{
		"max_iterations_exceeded", "edge_limit_exceeded", "max_stage_visits_exceeded", "max_agent_hops_exceeded", "max_llm_calls_exceeded",
		"max_tool_calls_exceeded", "max_tokens_exceeded", "max_cost_exceeded", "deadline_exceeded", "max_stages_exceeded",
	}},
	{"failed", []string{
		"llm_failed_fatally", "tool_failed_fatally", "stage_failed_fatally", "policy_violation", "gate_denied", "deadlock", "internal_error",
	}},
	{"cancelled", []string{"user_cancelled", "halted", "rolled_back"}},
}

// OutcomeOf is the outcome of a run that ended for a reason. An unknown reason is an
// error: nobody may take it for a completion.
func OutcomeOf(reason string) (outcome string, err error) {
	for _, e := range endings {
		if slices.Contains(e.reasons, reason) {
			return e.outcome, nil
		}
	}
	return "", fmt.Errorf("%q is no reason for which a run ends", reason)
}

func outcomes() (all []string) {
	for _, e := range endings {
		all = append(all, e.outcome)
	}
	return all
}

func terminalReasons() (all []string) {
	for _, e := range endings {
		all = append(all, e.reasons...)
	}
	return all
}

func names[T ~string](words ...T) (all []string) {
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}

var gateKinds = names(tipstaff.Question, tipstaff.Approval, tipstaff.Handoff, tipstaff.Clarification,
	tipstaff.Confirmation, tipstaff.InDoubt, tipstaff.Bound, tipstaff.Delivery)

// closedSets are the words that fields may hold, by the field's name in core.proto.
// Where a field knows no absence, the empty text is that it is not set.
var closedSets = map[protoreflect.FullName][]string{
	"tipstaff.core.v1.Envelope.terminal_reason":     terminalReasons(),
	"tipstaff.core.v1.BoundsResult.terminal_reason": terminalReasons(),
	"tipstaff.core.v1.Envelope.outcome":             outcomes(),
	"tipstaff.core.v1.BoundsResult.outcome":         outcomes(),
	"tipstaff.core.v1.Envelope.state": names(tipstaff.Drafting, tipstaff.Proposed, tipstaff.Clarifying, tipstaff.Accepted,
		tipstaff.Executing, tipstaff.Completed, tipstaff.Failed, tipstaff.Cancelled),
	"tipstaff.core.v1.Envelope.condition":      names(tipstaff.Running, tipstaff.Waiting, tipstaff.Interrupted),
	"tipstaff.core.v1.Interrupt.kind":          gateKinds,
	"tipstaff.core.v1.InterruptDecision.kind":  gateKinds,
	"tipstaff.core.v1.Goal.status":             {"pending", "satisfied"},
	"tipstaff.core.v1.ProcessingRecord.status": {"running", "success", "error", "skipped", "cancelled"},
	"tipstaff.core.v1.Transition.reason": {
		"edge_limit", "visit_limit", "iteration_limit", "error", "interrupt", "complete", "next_stage", "reintent", "routing", "default",
		"start", "resume", "rollback",
	},
	"tipstaff.core.v1.HostedAgent.effect": names(flow.Read, flow.Idempotent, flow.Once),
	"tipstaff.core.v1.Grant.bound": {
		tipstaff.BoundModelCalls, tipstaff.BoundToolCalls, tipstaff.BoundTokens, tipstaff.BoundCostUSD, tipstaff.BoundWallTime,
	},
}

func checkWord(fd protoreflect.FieldDescriptor, word string, at trail) error {
	set, closed := closedSets[fd.FullName()]
	if !closed || slices.Contains(set, word) || word == "" && !fd.HasPresence() {
		return nil
	}
	return at.fault(fmt.Sprintf("%q is none of %s", word, strings.Join(set, ", ")))
}

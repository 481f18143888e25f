package pb

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// FieldError is a field whose value cannot be accepted, and its path:
// outputs.critic.findings[2].
type FieldError struct {
	Path    string // "": the whole value
	Message string
}

func (e *FieldError) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

func fault(at canon.Path, format string, args ...any) error {
	return &FieldError{Path: at.String(), Message: fmt.Sprintf(format, args...)}
}

// Check returns a [*FieldError] for the first field of a message that cannot be
// accepted: a word outside of its closed set, an unknown value of an enum, a negative
// amount of money, a time that no calendar has, and bytes that are not the JSON that
// belongs there.
func Check(m proto.Message) error { return checkMessage(m.ProtoReflect(), nil) }

// checkMessage goes by the order of core.proto, so that the first fault of a message
// is always the same one.
func checkMessage(m protoreflect.Message, at canon.Path) error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); m.Has(fd) {
			if err := checkField(fd, m.Get(fd), append(at, string(fd.Name()))); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkField(fd protoreflect.FieldDescriptor, v protoreflect.Value, at canon.Path) error {
	switch {
	case fd.IsList():
		for i := range v.List().Len() {
			if err := checkValue(fd, v.List().Get(i), append(at, i)); err != nil {
				return err
			}
		}
		return nil
	case fd.IsMap():
		var first error
		var least string
		for key, v := range v.Map().Range {
			if err := checkValue(fd.MapValue(), v, append(at, key.String())); err != nil && (first == nil || key.String() < least) {
				first, least = err, key.String()
			}
		}
		return first
	}
	return checkValue(fd, v, at)
}

func checkValue(fd protoreflect.FieldDescriptor, v protoreflect.Value, at canon.Path) error {
	switch fd.Kind() {
	case protoreflect.Int64Kind:
		if isMoney(fd) && v.Int() < 0 {
			return fault(at, "an amount is never negative")
		}
	case protoreflect.StringKind:
		set, closed := closedSets[fd.FullName()]
		if closed && !slices.Contains(set, v.String()) {
			return fault(at, "%q is none of %s", v.String(), strings.Join(set, ", "))
		}
	case protoreflect.BytesKind:
		if !isText(fd) {
			return checkJSON(v.Bytes(), at)
		}
		if !utf8.Valid(v.Bytes()) {
			return fault(at, "the text is not valid UTF-8")
		}
	case protoreflect.EnumKind:
		if fd.Enum().Values().ByNumber(v.Enum()) == nil {
			return fault(at, "%d is no %s", v.Enum(), fd.Enum().Name())
		}
	case protoreflect.MessageKind:
		stamp, ok := v.Message().Interface().(*timestamppb.Timestamp)
		if !ok {
			return checkMessage(v.Message(), at)
		}
		if stamp.CheckValid() != nil {
			return fault(at, "there is no such time")
		}
	}
	return nil
}

// isMoney: an amount of 10⁻⁹ USD.
func isMoney(fd protoreflect.FieldDescriptor) bool {
	return slices.Contains(strings.Split(string(fd.Name()), "_"), "cost")
}

// isText: bytes that are a document as its author wrote it. All others are a JSON value.
func isText(fd protoreflect.FieldDescriptor) bool {
	return fd.FullName() == "tipstaff.core.v1.PipelineConfig.document"
}

// MaxDepth is how deep lists and objects may be nested in one JSON value.
const MaxDepth = 64

// checkJSON accepts one JSON value that every reader understands alike.
func checkJSON(raw []byte, at canon.Path) error {
	_, err := canon.Decode(raw, MaxDepth)
	if bad := (*canon.Fault)(nil); errors.As(err, &bad) {
		return fault(slices.Concat(at, bad.Path), "%s", bad.Reason)
	}
	return err
}

func names[T ~string](words ...T) (all []string) {
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}

var (
	gateKinds = names(tipstaff.Question, tipstaff.Approval, tipstaff.Handoff, tipstaff.Clarification,
		tipstaff.Confirmation, tipstaff.InDoubt, tipstaff.Bound, tipstaff.Delivery)
	terminalReasons = names(tipstaff.TerminalReasons()...)
	outcomes        = []string{tipstaff.OutcomeCompleted, tipstaff.OutcomeBound, tipstaff.OutcomeFailed, tipstaff.OutcomeCancelled}
)

// closedSets are the words that a field may hold, by the field's name in core.proto.
var closedSets = map[protoreflect.FullName][]string{
	"tipstaff.core.v1.Envelope.terminal_reason":     terminalReasons,
	"tipstaff.core.v1.BoundsResult.terminal_reason": terminalReasons,
	"tipstaff.core.v1.Envelope.outcome":             outcomes,
	"tipstaff.core.v1.BoundsResult.outcome":         outcomes,
	"tipstaff.core.v1.Envelope.state": names(tipstaff.Drafting, tipstaff.Proposed, tipstaff.Clarifying, tipstaff.Accepted,
		tipstaff.Executing, tipstaff.Completed, tipstaff.Failed, tipstaff.Cancelled),
	"tipstaff.core.v1.Envelope.condition":      names(tipstaff.Running, tipstaff.Waiting, tipstaff.Interrupted),
	"tipstaff.core.v1.Interrupt.kind":          gateKinds,
	"tipstaff.core.v1.InterruptDecision.kind":  gateKinds,
	"tipstaff.core.v1.Goal.status":             {"pending", "satisfied"},
	"tipstaff.core.v1.ProcessingRecord.status": {"running", "success", "error", "skipped", "cancelled"},
	"tipstaff.core.v1.Transition.reason": {
		tipstaff.TransitionEdge, tipstaff.TransitionVisit, tipstaff.TransitionIteration, tipstaff.TransitionError, tipstaff.TransitionInterrupt,
		tipstaff.TransitionComplete, tipstaff.TransitionNextStage, tipstaff.TransitionReintent, tipstaff.TransitionRouting,
		tipstaff.TransitionDefault, tipstaff.TransitionStart, tipstaff.TransitionResume, tipstaff.TransitionRollback,
	},
	"tipstaff.core.v1.HostedAgent.effect": names(flow.Read, flow.Idempotent, flow.Once),
	"tipstaff.core.v1.Grant.bound": {
		tipstaff.BoundModelCalls, tipstaff.BoundToolCalls, tipstaff.BoundTokens, tipstaff.BoundCostUSD, tipstaff.BoundWallTime,
	},
}

package agent

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// CallLog writes one log record for each tool call of a turn, when its result is
// first recorded, so that a replay writes none. What a call was given and what it
// brought back are not in it: arguments are told apart by a keyed hash, results by
// their size. It is for one goroutine.
type CallLog struct {
	logger *slog.Logger
	key    []byte
	calls  map[string]map[string]*loggedCall // by run and path
}

// loggedCall is what is known of a call before its result.
type loggedCall struct {
	ToolCallRequest
	decision string // made without a gate
	rule     string
	taken    bool   // a gate was decided, and that was what counted
	action   string // with which a person did
}

// processKey keys the hashes of those who have no key of their own.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key)
	return key
})

// NewCallLog is a log of calls. A nil logger discards them. Hashes of arguments can
// be compared where the key is the same; nil: within this process.
func NewCallLog(logger *slog.Logger, key []byte) *CallLog {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if key == nil {
		key = processKey()
	}
	return &CallLog{logger: logger, key: key, calls: map[string]map[string]*loggedCall{}}
}

// Appended takes in what a drive of the run records. Decisions that others record
// may be handed in too.
func (l *CallLog) Appended(run string, d flow.Draft) {
	c := l.take(run, d)
	var r ToolCallResult
	if tipstaff.Kind(d.Kind) != tipstaff.KindAgentToolCallResult || json.Unmarshal(d.Body, &r) != nil {
		return
	}
	l.logger.LogAttrs(context.Background(), slog.LevelInfo, "tool_call",
		slog.String("run", run), slog.String("path", d.Path), slog.Int("step", c.Step), slog.String("call_id", r.ID),
		slog.String("server", c.Server), slog.String("tool", c.Tool), slog.String("effect", string(c.Effect)),
		slog.String("decision", c.decided(r.Class)), slog.String("rule", c.rule), slog.String("args_hmac", l.hash(c.Arguments)),
		slog.Int64("latency_ms", r.DurationMS), slog.String("outcome", outcome(r.Class)), slog.Int64("result_bytes", r.Bytes))
}

// Recorded takes in what an earlier drive has recorded, and writes nothing: the
// result of a call that was waiting then tells what was called.
func (l *CallLog) Recorded(run string, d flow.Draft) { l.take(run, d) }

// take is the call that a record is about, with what the records so far say of it. A
// result ends it.
func (l *CallLog) take(run string, d flow.Draft) *loggedCall {
	path := strings.TrimSuffix(d.Path, "/approval") // of a gate: the call it is about
	of := l.calls[run]
	c := of[path]
	switch kind := tipstaff.Kind(d.Kind); {
	case kind == tipstaff.KindAgentToolCallRequest:
		if of == nil {
			of = map[string]*loggedCall{}
			l.calls[run] = of
		}
		c = new(loggedCall)
		of[path] = c
	case c == nil:
		return new(loggedCall)
	case kind == tipstaff.KindAgentToolCallResult:
		if delete(of, path); len(of) == 0 {
			delete(l.calls, run)
		}
	}
	c.take(d)
	return c
}

// Forget drops what is kept of a run that is no longer driven here.
func (l *CallLog) Forget(run string) { delete(l.calls, run) }

// take keeps what a record says of the call. One that cannot be read says nothing.
func (c *loggedCall) take(d flow.Draft) {
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindAgentToolCallRequest:
		_ = json.Unmarshal(d.Body, &c.ToolCallRequest)
	case tipstaff.KindAgentApprovalDecided:
		var b ApprovalDecided
		_ = json.Unmarshal(d.Body, &b)
		c.decision, c.rule = b.Decision, b.Rule
	case tipstaff.KindPolicyGate:
		var b tipstaff.GateOpened
		var subject struct {
			Rule string `json:"rule"`
		}
		_ = json.Unmarshal(d.Body, &b)
		_ = json.Unmarshal(b.Subject, &subject)
		c.rule = subject.Rule
	case tipstaff.KindPolicyGateResolve:
		var b tipstaff.GateResolved
		if d.From == "user" { // else it closes the gate, or comes too late to
			_ = json.Unmarshal(d.Body, &b)
			c.action = b.Action
		}
	case tipstaff.KindGateTaken:
		c.taken = true
	}
}

// decided is how it came about that the call was made or not; "": nobody was
// asked. Where the decision itself was not seen, it shows in the result.
func (c *loggedCall) decided(class string) string {
	switch {
	case c.decision != "" || !c.taken:
		return c.decision
	case class == ClassApprovalDenied:
		return ActionDeny
	case c.action != "":
		return c.action
	}
	return ActionAllow
}

// hashLength is how much of a hash is written, in hex digits.
const hashLength = 32

// hash tells equal arguments from others, and nobody without the key what they are.
func (l *CallLog) hash(args json.RawMessage) string {
	if form, err := canon.Exact(args); err == nil { // else two values could have one canonical form
		args = form
	}
	mac := hmac.New(sha256.New, l.key)
	mac.Write(args)
	return hex.EncodeToString(mac.Sum(nil))[:hashLength]
}

// outcome sorts the classes of results.
func outcome(class string) string {
	switch class {
	case "":
		return "ok"
	case ClassApprovalDenied, tool.CodePolicyDenied:
		return "denied"
	case tool.CodeUnavailable:
		return "unavailable"
	case flow.CodeTimeout, ClassPanic, ClassCancelled, ClassInDoubt:
		return class
	case tool.CodeToolError, tool.CodeOutputInvalid, flow.CodeResultTooLarge, flow.CodeInternal: // it ran, and that was of no use
		return "tool_error"
	}
	return "refused"
}

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
// their size.
//
// Its methods never wait for the logger: records are written by a goroutine that
// lives while there is something to write. Flush waits for it.
type CallLog struct {
	logger *slog.Logger
	key    []byte

	mu      sync.Mutex
	rest    sync.Cond // the queue is empty, and nobody writes
	queue   []logged
	writing bool

	calls map[string]map[string]*loggedCall // by run and path, of the goroutine alone
}

// logged is something for the log to take in.
type logged struct {
	run   string
	draft flow.Draft
	known bool // it was recorded earlier, and is not written
	over  bool // nothing more comes of the run
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
	l := &CallLog{logger: logger, key: key, calls: map[string]map[string]*loggedCall{}}
	l.rest.L = &l.mu
	return l
}

// Appended takes in what a drive of the run records. It may be called from
// flow.Job.Appended. Decisions that others record may be handed in too.
func (l *CallLog) Appended(run string, d flow.Draft) { l.put(logged{run: run, draft: d}) }

// Recorded takes in what an earlier drive has recorded, and writes nothing: the
// result of a call that was waiting then tells what was called.
func (l *CallLog) Recorded(run string, d flow.Draft) { l.put(logged{run: run, draft: d, known: true}) }

// Forget drops what is kept of a run that is no longer driven here.
func (l *CallLog) Forget(run string) { l.put(logged{run: run, over: true}) }

// Flush returns when everything that was taken in is written.
func (l *CallLog) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing {
		l.rest.Wait()
	}
}

func (l *CallLog) put(e logged) {
	if !e.over && !ofCalls(e.draft.Kind) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, e)
	if !l.writing {
		l.writing = true
		go l.write()
	}
}

func ofCalls(kind string) bool {
	switch tipstaff.Kind(kind) {
	case tipstaff.KindAgentToolCallRequest, tipstaff.KindAgentApprovalDecided, tipstaff.KindAgentToolCallResult,
		tipstaff.KindPolicyGate, tipstaff.KindPolicyGateResolve, tipstaff.KindGateTaken:
		return true
	}
	return false
}

func (l *CallLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		batch := l.queue
		l.queue = nil
		l.mu.Unlock()
		for _, e := range batch {
			l.take(e)
		}
		l.mu.Lock()
	}
	l.writing = false
	l.rest.Broadcast()
}

func (l *CallLog) take(e logged) {
	if e.over {
		delete(l.calls, e.run)
		return
	}
	path := strings.TrimSuffix(e.draft.Path, "/approval") // of a gate: the call it is about
	if tipstaff.Kind(e.draft.Kind) == tipstaff.KindAgentToolCallResult {
		l.result(e, path)
		return
	}
	of := l.calls[e.run]
	if tipstaff.Kind(e.draft.Kind) == tipstaff.KindAgentToolCallRequest {
		if of == nil {
			of = map[string]*loggedCall{}
			l.calls[e.run] = of
		}
		of[path] = new(loggedCall)
	}
	if c := of[path]; c != nil {
		c.take(e.draft)
	}
}

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

func (l *CallLog) result(e logged, path string) {
	c := l.calls[e.run][path]
	if c == nil {
		c = new(loggedCall)
	}
	if delete(l.calls[e.run], path); len(l.calls[e.run]) == 0 {
		delete(l.calls, e.run)
	}
	var r ToolCallResult
	if e.known || json.Unmarshal(e.draft.Body, &r) != nil {
		return
	}
	l.logger.LogAttrs(context.Background(), slog.LevelInfo, "tool_call",
		slog.String("run", e.run), slog.String("path", path), slog.Int("step", c.Step), slog.String("call_id", r.ID),
		slog.String("server", c.Server), slog.String("tool", c.Tool), slog.String("effect", string(c.Effect)),
		slog.String("decision", c.decided(r.Class)), slog.String("rule", c.rule), slog.String("args_hmac", l.hash(c.Arguments)),
		slog.Int64("latency_ms", r.DurationMS), slog.String("outcome", outcome(r.Class)), slog.Int64("result_bytes", r.Bytes))
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

package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	rawKept     = 4 << 10 // of a line in worker.event
	contentKept = 4 << 10 // of a result in agent.tool_call_result
)

// Classes of results that nobody saw.
const (
	notExecuted = "not_executed" // it waits for a decision
	inDoubt     = "in_doubt"
	callStopped = "cancelled"
	toolError   = "tool_error"
	denied      = "policy_denied"
)

// mapper puts what a CLI tells into the order of an agent's events. A step is one message
// of the model: its agent.message follows its deltas and precedes its calls, all of which
// precede their results; every call has one result; the end is told once, at the end.
//
// Sub-agents have steps of their own, told apart by the call that they serve.
type mapper struct {
	of         *cliType
	worker     string
	invocation string
	emit       func(Body)
	log        func(readable)
	onSession  func(id string)
	onChannel  func(status string) // the CLI says that it has no channel
	onUsage    func(tipstaff.ModelUsage)
	passed     func(callID string) (rule, digest string, ok bool)
	waits      func(callID string) bool // for a decision
	now        func() time.Time

	raw   []byte // the line that is being read
	told  bool   // something was told of it
	retry bool   // it is a notice that the CLI tries again

	id        string // of the session
	steps     int
	calls     int
	open      map[string]*step // by sub-agent
	asked     map[string]*asked
	done      map[string]bool
	text      string              // last of the model, sub-agents aside
	used      tipstaff.ModelUsage // of all messages
	model     string
	refused   []Denial
	ended     *ending
	finished  bool
	jsonLines int
}

// step is one message of a model.
type step struct {
	n        int
	id       string // the CLI's, of the message
	model    string
	text     strings.Builder
	told     bool // its agent.message
	answered bool // a call of it has a result
	calls    int
	usage    *tipstaff.ModelUsage
}

// toolCall is one that a model asks for.
type toolCall struct {
	parent, id, name, server, tool string
	args                           json.RawMessage
}

type asked struct {
	toolCall
	step  *step
	index int // in its step
	at    time.Time
	class flow.Class
}

// ending is what a CLI says when its turn has ended.
type ending struct {
	isError bool
	text    string
	msg     string // what went wrong
	reason  string
	limit   string // that made it end
	usage   *tipstaff.ModelUsage
	cost    *tipstaff.USD
}

func newMapper(of *cliType, worker, invocation string, emit func(Body), log func(readable)) *mapper {
	return &mapper{of: of, worker: worker, invocation: invocation, emit: emit, log: log,
		onSession: func(string) {}, onChannel: func(string) {}, onUsage: func(tipstaff.ModelUsage) {},
		passed: func(string) (string, string, bool) { return "", "", false }, waits: func(string) bool { return false },
		now:  time.Now,
		open: map[string]*step{}, asked: map[string]*asked{}, done: map[string]bool{}}
}

// line reads one line. Whatever the reader of the CLI makes nothing of is told as it is.
func (m *mapper) line(r reader, raw []byte) {
	m.raw, m.told, m.retry = trimEnd(raw), false, false
	if line := bytes.TrimLeft(m.raw, " \t\r"); len(line) == 0 || line[0] != '{' || !r.read(m.raw) {
		m.other(tipstaff.WorkerText)
		return
	}
	m.jsonLines++
	if !m.told {
		m.other(tipstaff.WorkerUnknown)
	}
}

// long tells of a line that is too long to be read.
func (m *mapper) long(l *longLine) {
	b := &tipstaff.WorkerEvent{Invocation: m.invocation, What: tipstaff.WorkerUnknown, Raw: wholeRunes(l.head), Bytes: l.size, Digest: l.digest()}
	m.tell(b)
	m.log(readable{mark: "…", title: b.What, text: b.Raw, size: l.size})
}

func (m *mapper) tell(b Body) {
	m.told = true
	m.emit(b)
}

func (m *mapper) inside(parent string) tipstaff.Inside {
	return tipstaff.Inside{Worker: m.worker, Invocation: m.invocation, Parent: parent}
}

// other tells of the line itself.
func (m *mapper) other(what string) {
	m.retry = what == tipstaff.WorkerRetry
	m.note(what, m.raw)
}

// warn tells of something that no line said.
func (m *mapper) warn(text string) { m.note(tipstaff.WorkerWarning, []byte(text)) }

func (m *mapper) note(what string, raw []byte) {
	b := &tipstaff.WorkerEvent{Invocation: m.invocation, What: what, Raw: string(raw)}
	if len(raw) > rawKept {
		b.Raw, b.Bytes, b.Digest = wholeRunes(raw[:rawKept]), int64(len(raw)), flow.Digest(raw)
	}
	m.tell(b)
	m.log(readable{mark: "·", title: what, text: string(raw)})
}

// session is the id that the CLI has.
func (m *mapper) session(id string) {
	if id != "" && id != m.id {
		m.id = id
		m.onSession(id)
	}
}

func (m *mapper) channelFailed(status string) { m.onChannel(status) }

// message begins a step, unless it is that of the message that is open.
func (m *mapper) message(parent, id, model string) {
	if s := m.open[parent]; s != nil && s.id == id && id != "" {
		return
	}
	m.begin(parent, id, model)
}

func (m *mapper) begin(parent, id, model string) *step {
	m.flush(parent)
	m.steps++
	s := &step{n: m.steps, id: id, model: model}
	m.open[parent] = s
	if model != "" && parent == "" {
		m.model = model
	}
	m.tell(&tipstaff.AgentStepStarted{Step: s.n, Model: model, Inside: m.inside(parent)})
	return s
}

// current is the step that text or a call belongs to: a new one if nothing may be added to
// the open one any more.
func (m *mapper) current(parent string, isCall bool) *step {
	s := m.open[parent]
	switch {
	case s == nil:
		return m.begin(parent, "", m.model)
	case s.told && (!isCall || s.answered):
		return m.begin(parent, s.id, s.model)
	}
	return s
}

// say adds to the text of the open message.
func (m *mapper) say(parent, text string) {
	if text == "" {
		return
	}
	s := m.current(parent, false)
	m.tell(&tipstaff.AgentTextDelta{Step: s.n, Channel: "answer", Offset: int64(s.text.Len()), Text: text, Inside: m.inside(parent)})
	s.text.WriteString(text)
}

// using is what a message has used so far.
func (m *mapper) using(parent string, u tipstaff.ModelUsage) {
	s := m.open[parent]
	if s == nil {
		return
	}
	if s.usage != nil { // CLIs repeat it with every block of a message
		m.used = minus(m.used, *s.usage)
	}
	s.usage = &u
	m.used = plus(m.used, u)
	m.onUsage(m.used)
}

// flush tells the open message, to which no call belongs.
func (m *mapper) flush(parent string) { m.tellMessage(parent, "stop") }

// tellMessage tells the open message. How many calls follow is not known yet.
func (m *mapper) tellMessage(parent, reason string) {
	s := m.open[parent]
	if s == nil || s.told {
		return
	}
	s.told = true
	text := s.text.String()
	if parent == "" && text != "" {
		m.text = text
	}
	m.tell(&tipstaff.AgentMessage{Step: s.n, Text: text, Reason: reason, Usage: s.usage, Attempts: 1, Model: s.model, Inside: m.inside(parent)})
	if text != "" {
		m.log(readable{mark: "»", title: m.whose(parent), text: text, most: textShown})
	}
}

func (m *mapper) whose(parent string) string {
	if parent == "" {
		return m.worker
	}
	return m.worker + " (" + parent + ")"
}

// call tells of one.
func (m *mapper) call(c toolCall) {
	if c.id == "" || m.asked[c.id] != nil || m.done[c.id] {
		m.other(tipstaff.WorkerUnknown)
		return
	}
	s := m.current(c.parent, true)
	m.tellMessage(c.parent, "tool_calls")
	s.calls++
	m.calls++
	a := &asked{toolCall: c, step: s, index: s.calls, at: m.now(), class: m.of.class(c.server, c.tool)}
	m.asked[c.id] = a
	args, digest := canonical(c.args)
	in := m.inside(c.parent)
	switch {
	case c.server == ServerName:
		in.Tier = tipstaff.TierMediated
	case !m.of.hook: // else the hook may not have been asked yet
		in.Tier = tipstaff.TierReported
	}
	m.tell(&tipstaff.AgentToolCallRequest{Step: s.n, Index: a.index, ID: c.id, Name: c.name, Server: c.server, Tool: c.tool,
		Arguments: args, ArgsDigest: digest, Effect: a.class, OpenWorld: m.of.does(c.tool) == nets, Facts: json.RawMessage("{}"), Inside: in})
	m.log(readable{mark: "→", title: c.server + "/" + c.tool, text: string(args), most: outputShown})
}

// result tells what a call brought.
func (m *mapper) result(id, content string, isError bool, class string) {
	a := m.asked[id]
	if a == nil {
		m.other(tipstaff.WorkerUnknown)
		return
	}
	delete(m.asked, id)
	m.done[id] = true
	m.flush(a.parent)
	a.step.answered = true
	in := m.inside(a.parent)
	in.Tier = tipstaff.TierReported
	rule, digest, passed := m.passed(id)
	if passed || a.server == ServerName {
		in.Tier = tipstaff.TierMediated
	}
	switch waits := m.waits(id); {
	case waits:
		class = notExecuted
	case isError && class == "":
		class = toolError
	}
	if passed {
		m.tell(&tipstaff.AgentApprovalDecided{ID: id, Decision: "allow", By: "policy", Rule: rule, PolicyDigest: digest, Inside: in})
	}
	kept := content
	if len(kept) > contentKept {
		kept = wholeRunes([]byte(kept[:contentKept]))
	}
	m.tell(&tipstaff.AgentToolCallResult{ID: id, IsError: isError, Class: class, Content: kept, Bytes: int64(len(content)), Ref: flow.Digest([]byte(content)),
		DurationMS: m.now().Sub(a.at).Milliseconds(), Untrusted: m.of.does(a.tool) == nets, Inside: in})
	title := a.server + "/" + a.tool
	if class != "" {
		title += " " + class
	}
	m.log(readable{mark: "←", title: title, text: content, most: outputShown})
}

// denied notes a call that the CLI did not make.
func (m *mapper) denied(id, name string, args json.RawMessage, why string) {
	i := slices.IndexFunc(m.refused, func(d Denial) bool { return d.CallID == id && id != "" })
	if i < 0 {
		server, tool := m.of.resolve(name, []string{ServerName})
		d := Denial{Tool: server + "/" + tool, CallID: id}
		if a := m.asked[id]; a != nil && args == nil {
			args = a.args
		}
		m.refused, i = append(m.refused, d), len(m.refused)
	}
	d := &m.refused[i]
	if d.Reason == "" {
		d.Reason = why
	}
	if d.ArgsDigest == "" && args != nil {
		_, d.ArgsDigest = canonical(args)
	}
}

// end notes how the CLI says that its turn ended; it is told when nothing can follow.
func (m *mapper) end(e ending) {
	if m.ended != nil {
		m.other(tipstaff.WorkerUnknown) // a second one; the last counts
	}
	m.told = true
	m.ended = &e
}

// resumed takes an end back: the CLI goes on.
func (m *mapper) resumed() { m.ended = nil }

// close tells what is open, and the end. Afterwards nothing is told.
func (m *mapper) close(outcome Outcome, which, msg string, usage tipstaff.ModelUsage) {
	if m.finished {
		return
	}
	m.settle()
	m.finished = true
	msg = flow.CutText(msg, "")
	var terminal Body
	if outcome.failed() {
		terminal = &tipstaff.AgentError{Code: "worker_" + string(outcome), Msg: msg, Which: which, Usage: usage, Steps: m.steps, Inside: m.inside("")}
	} else {
		reason := "stop"
		if m.ended != nil {
			reason = cmp.Or(m.ended.reason, reason)
		}
		terminal = &tipstaff.AgentFinish{Reason: reason, Text: m.text, Usage: usage, Steps: m.steps, ToolCalls: m.calls, Inside: m.inside("")}
	}
	m.emit(terminal)
	m.log(readable{mark: "=", title: tipstaff.Joined(" ", string(outcome), which), text: msg, most: textShown})
}

// settle tells the messages that are open, and a result of every call that has none.
func (m *mapper) settle() {
	parents := make([]string, 0, len(m.open))
	for p := range m.open {
		parents = append(parents, p)
	}
	slices.SortFunc(parents, func(a, b string) int { return cmp.Compare(m.open[a].n, m.open[b].n) })
	for _, p := range parents {
		m.flush(p)
	}
	left := slices.SortedFunc(maps.Values(m.asked), func(a, b *asked) int {
		return cmp.Or(cmp.Compare(a.step.n, b.step.n), cmp.Compare(a.index, b.index))
	})
	for _, a := range left {
		class := inDoubt
		if a.class == flow.Read {
			class = callStopped
		}
		m.result(a.id, "", true, class)
	}
	if m.ended != nil && m.text == "" {
		m.text = m.ended.text
	}
}

// canonical is the arguments of a call as an object, with the digest of their canonical form.
func canonical(raw json.RawMessage) (json.RawMessage, string) {
	if len(raw) == 0 || raw[0] != '{' {
		if len(raw) == 0 || string(raw) == "null" {
			return json.RawMessage("{}"), flow.Digest([]byte("{}"))
		}
		return json.RawMessage("{}"), ""
	}
	form, err := canon.Exact(raw)
	if err != nil {
		compact, err := canon.Compact(raw)
		if err != nil {
			return json.RawMessage("{}"), ""
		}
		return compact, ""
	}
	return form, flow.Digest(form)
}

// wholeRunes is b as text, without a rune that was cut.
func wholeRunes(b []byte) string {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				b = b[:len(b)-i]
			}
			break
		}
	}
	return string(b)
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

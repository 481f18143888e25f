package tipstaff

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Conversation is what was said at a place of a program, a turn, a step, or a visit of a stage
// that a model or a worker does, as its records tell it. It is a pure fold: it can stop at any
// record and go on later. Texts are as recorded, and results their first 4 KiB.
type Conversation struct {
	Path  string             `json:"path"`
	Seq   int64              `json:"seq,omitempty"` // the last record that was taken in
	Items []ConversationItem `json:"items"`
	Usage ModelUsage         `json:"usage"` // of all steps

	last  map[string]int // by agent: where its step stands
	calls map[string]int // by the path of a call; of a worker's own, by invocation and id
}

// ConversationItem is a message or a tool call.
type ConversationItem struct {
	Seq  int64     `json:"seq,omitempty"`   // the record that brought it; 0: it is the program's
	Run  ID        `json:"run_id,omitzero"` // whose record that is: the run's own, or one that it comes from
	At   time.Time `json:"at,omitzero"`
	Path string    `json:"path"` // of the agent
	Role string    `json:"role"` // user, assistant, tool, error; worker: a line of a CLI that stands for nothing else
	Text string    `json:"text,omitempty"`
	// Ref is the digest of a text that is not in the record.
	Ref  string            `json:"ref,omitempty"`
	Code string            `json:"code,omitempty"` // of an error, and what sort of line a worker's is
	Step *ConversationStep `json:"step,omitempty"` // of the assistant
	Call *ConversationCall `json:"call,omitempty"` // of a tool
	// Told is what it is known by among what is told and never recorded: see [ToldOf].
	Told string `json:"-"`
	// Of what a worker tells: who it is, which process of it, the call of the sub-agent that
	// says it, and for calls what can be said of them: mediated or reported.
	Inside
}

// ConversationStep is one call of a model.
type ConversationStep struct {
	Number  int       `json:"number"`
	Model   string    `json:"model"`
	Started time.Time `json:"started_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"` // zero: it has not answered
	Reason  string    `json:"reason,omitempty"`  // why it stopped
	// Usage is nil if it is not known, and its cost if the price is not.
	Usage     *ModelUsage `json:"usage,omitempty"`
	Attempts  int         `json:"attempts,omitempty"`
	Cut       AgentCut    `json:"cut"` // what was left out of the request
	Reasoning string      `json:"reasoning,omitempty"`
	Answer    int64       `json:"answer,omitempty"` // the record that holds all of the answer
}

// ConversationCall is a tool call and what came of it.
type ConversationCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	URI       string          `json:"uri,omitempty"`
	Effect    flow.Class      `json:"effect,omitempty"`
	Arguments json.RawMessage `json:"arguments"`

	Decision  string `json:"decision,omitempty"` // allow, allow_all, deny …; "": nobody was asked yet, or need be
	DecidedBy string `json:"decided_by,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Gate      string `json:"gate,omitempty"`
	Note      string `json:"note,omitempty"`

	Outcome   string    `json:"outcome"` // open, asked, ok or error
	Code      string    `json:"code,omitempty"`
	Result    string    `json:"result,omitempty"`
	Cut       int64     `json:"cut,omitempty"`          // how many bytes of the result are left out
	Ref       string    `json:"ref,omitempty"`          // digest of all of it
	Record    int64     `json:"record,omitempty"`       // that holds all of it; 0: none does, or it is not made by us
	RecordRun ID        `json:"record_run_id,omitzero"` // whose record that is
	Started   time.Time `json:"started_at,omitzero"`
	Ended     time.Time `json:"ended_at,omitzero"`
	TookMS    int64     `json:"took_ms,omitempty"`
	Untrusted bool      `json:"untrusted,omitempty"` // it came from an open world
	// Media are images and other content of the result that is no text.
	Media []ConversationMedia `json:"media,omitempty"`
}

// RoleWorker is the role of a line of a CLI.
const RoleWorker = "worker"

// Outcomes of calls in a conversation.
const (
	CallOpen  = "open"
	CallAsked = "asked" // whether it may be made
	CallOK    = "ok"
	CallError = "error"
)

// NewConversation begins what is said at a path: turn, root/2, critic#3.
func NewConversation(path string) *Conversation {
	zero := USD(0)
	return &Conversation{Path: path, Items: []ConversationItem{}, Usage: ModelUsage{CostUSD: &zero},
		last: map[string]int{}, calls: map[string]int{}}
}

// holds reports whether a record belongs to the conversation: a visit of a stage has all its
// attempts.
func (c *Conversation) holds(path string) bool {
	rest, ok := strings.CutPrefix(path, c.Path)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '.' && strings.Contains(c.Path, "#"))
}

// Apply takes in one record.
func (c *Conversation) Apply(e *Event) {
	if e.Seq > 0 {
		c.Seq = e.Seq
	}
	if !c.holds(e.Path) || e.Seq == 0 {
		return
	}
	switch e.Kind {
	case KindAgentStepStarted:
		c.step(e)
	case KindEffectIntended, KindEffectFinished:
		c.effect(e)
	case KindAgentMessage:
		c.message(e)
	case KindAgentToolCallRequest:
		c.request(e)
	case KindAgentApprovalDecided, KindPolicyGate, KindPolicyGateResolve:
		c.approval(e)
	case KindAgentToolCallResult:
		c.result(e)
	case KindAgentError:
		b := BodyOf[AgentError](e)
		c.add(e, ConversationItem{Path: e.Path, Role: RoleError, Code: b.Code, Text: b.Msg, Inside: b.Inside})
	case KindWorkerEvent:
		b := BodyOf[WorkerEvent](e)
		c.add(e, ConversationItem{Path: e.Path, Role: RoleWorker, Code: b.What, Text: b.Raw, Ref: b.Digest, Inside: Inside{Invocation: b.Invocation, Tier: TierReported}})
	}
}

func (c *Conversation) add(e *Event, it ConversationItem) int {
	it.Seq, it.Run, it.At = e.Seq, e.Run, e.At
	c.Items = append(c.Items, it)
	return len(c.Items) - 1
}

// agentOf is who speaks: an agent's calls are numbered below it, a worker tells all at one path.
func agentOf(path string, in Inside) string {
	if in.Invocation != "" {
		return path
	}
	return parentPath(path)
}

// speaker tells apart who speaks at the same path: processes of a worker, and sub-agents.
func speaker(path string, in Inside) string {
	return agentOf(path, in) + "\x00" + in.Invocation + "\x00" + in.Parent
}

func (c *Conversation) step(e *Event) {
	b := BodyOf[AgentStepStarted](e)
	c.last[speaker(e.Path, b.Inside)] = c.add(e, ConversationItem{Path: agentOf(e.Path, b.Inside), Role: RoleAssistant, Inside: b.Inside, Told: toldOf(e.Path, b.Inside, b.Step),
		Step: &ConversationStep{Number: b.Step, Model: b.Model, Started: e.At, Cut: b.Cut}})
}

// effect takes in what the calls themselves tell: a worker's prompt, and with the answer of a
// model what it thought.
func (c *Conversation) effect(e *Event) {
	var b Effect
	if !decode(e.Body, &b) {
		return
	}
	if e.Kind == KindEffectIntended {
		var given struct{ Prompt string }
		if strings.HasPrefix(lastSegment(e.Path), "worker#") && decode(b.Input, &given) && strings.HasPrefix(given.Prompt, "sha256:") {
			c.add(e, ConversationItem{Path: e.Path, Role: RoleUser, Ref: given.Prompt})
		}
		return
	}
	if call := c.call(e.Path); call != nil {
		call.Record, call.RecordRun, call.Media = e.Seq, e.Run, mediaOf(b.Value)
	}
	i, ok := c.last[speaker(e.Path, Inside{})]
	if !ok || !strings.HasPrefix(lastSegment(e.Path), "model#") {
		return
	}
	var answer struct{ Opaque json.RawMessage }
	_ = decode(b.Value, &answer)
	c.Items[i].Step.Reasoning, c.Items[i].Step.Answer = reasoningOf(answer.Opaque), e.Seq
}

// reasoningOf is what vendors show of what a model thought. What is encrypted is not shown.
func reasoningOf(opaque json.RawMessage) string {
	var blocks []struct {
		Thinking string
		Summary  []struct{ Text string }
	}
	if !decode(opaque, &blocks) {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		parts = append(parts, b.Thinking)
		for _, s := range b.Summary {
			parts = append(parts, s.Text)
		}
	}
	return Joined("\n\n", parts...)
}

func (c *Conversation) message(e *Event) {
	b := BodyOf[AgentMessage](e)
	i, ok := c.last[speaker(e.Path, b.Inside)]
	if !ok || !c.Items[i].Step.Ended.IsZero() { // a worker need not say that it begins
		i = c.add(e, ConversationItem{Path: agentOf(e.Path, b.Inside), Role: RoleAssistant, Inside: b.Inside, Step: &ConversationStep{Number: b.Step, Model: b.Model}})
		c.last[speaker(e.Path, b.Inside)] = i
	}
	it := &c.Items[i]
	it.Seq, it.Run, it.At, it.Text = e.Seq, e.Run, e.At, b.Text
	s := it.Step
	s.Ended, s.Reason, s.Usage, s.Attempts = e.At, b.Reason, b.Usage, b.Attempts
	if b.Model != "" {
		s.Model = b.Model
	}
	if b.Usage == nil {
		c.Usage.CostUSD = nil // what is not known makes the sum unknown
	}
	c.Usage.Add(b.Usage)
}

// callKey is what a call is known by: its path, and of a worker's own the process and its id.
func callKey(path string, in Inside, id string) string {
	if in.Invocation != "" {
		return in.Invocation + "\x00" + id
	}
	return path
}

func (c *Conversation) request(e *Event) {
	b := BodyOf[AgentToolCallRequest](e)
	c.calls[callKey(e.Path, b.Inside, b.ID)] = c.add(e, ConversationItem{Path: agentOf(e.Path, b.Inside), Role: RoleTool, Inside: b.Inside, Told: e.Path,
		Call: &ConversationCall{ID: b.ID, Name: b.Title(), URI: b.URI, Effect: b.Effect, Arguments: b.Arguments, Outcome: CallOpen, Started: e.At}})
}

func (c *Conversation) approval(e *Event) {
	path := strings.TrimSuffix(e.Path, "/approval")
	switch e.Kind {
	case KindAgentApprovalDecided:
		b := BodyOf[AgentApprovalDecided](e)
		if call := c.call(callKey(e.Path, b.Inside, b.ID)); call != nil {
			call.Decision, call.DecidedBy, call.Rule, call.Note = b.Decision, b.By, b.Rule, b.Reason
			if call.Outcome == CallAsked {
				call.Outcome = CallOpen
			}
		}
	case KindPolicyGate:
		b := BodyOf[GateOpened](e)
		if call := c.call(path); call != nil {
			var subject struct{ Rule string }
			_ = decode(b.Subject, &subject)
			call.Outcome, call.Gate, call.Rule = CallAsked, b.Gate, subject.Rule
		}
	default:
		b := BodyOf[GateResolved](e)
		if call := c.call(path); call != nil && call.Gate == b.Gate {
			call.Decision, call.DecidedBy, call.Note, call.Outcome = b.Action, b.Via, b.Note, CallOpen
		}
	}
}

func (c *Conversation) call(key string) *ConversationCall {
	if i, ok := c.calls[key]; ok {
		return c.Items[i].Call
	}
	return nil
}

func (c *Conversation) result(e *Event) {
	b := BodyOf[AgentToolCallResult](e)
	key := callKey(e.Path, b.Inside, b.ID)
	call := c.call(key)
	if call == nil { // a worker tells of what it did not announce
		call = &ConversationCall{ID: b.ID, Arguments: json.RawMessage("{}")}
		c.calls[key] = c.add(e, ConversationItem{Path: agentOf(e.Path, b.Inside), Role: RoleTool, Inside: b.Inside, Call: call})
	}
	call.Outcome, call.Code, call.Result, call.Ref, call.Ended, call.TookMS, call.Untrusted = CallOK, b.Class, b.Content, b.Ref, e.At, b.DurationMS, b.Untrusted
	if b.IsError {
		call.Outcome = CallError
	}
	call.Cut = max(0, b.Bytes-int64(len(b.Content)))
	if b.Tier != "" { // of the two the result knows better whether it came through us
		c.Items[c.calls[key]].Tier = b.Tier
	}
}

// ConversationOf is what was said at a path of a run up to a record of it, 0 being its head,
// what it inherits included. A turn begins with its message, and a worker with what it was
// told. The fold can go on with later records of the run.
func ConversationOf(ctx context.Context, svc Reader, r Run, path string, at int64) (*Conversation, error) {
	c := NewConversation(path)
	if r.Turn != nil && path == ProgramTurn {
		var doc struct{ Message string }
		text, err := svc.Artifact(ctx, r.ID, r.Program.Digest)
		if err != nil {
			return nil, err
		}
		_ = json.Unmarshal(text, &doc) // it was checked when the run was made
		c.Items = append(c.Items, ConversationItem{At: r.CreatedAt, Path: path, Role: RoleUser, Text: doc.Message})
	}
	err := inheritedEvents(ctx, svc, r.ID, func(e *Event, from *inheritance) {
		if e.Seq <= from.upTo && (at == 0 || from.run.ID != r.ID || e.Seq <= at) {
			c.Apply(e)
		}
	})
	return c, err
}

// ConversationPlace is a place of a program where something was said.
type ConversationPlace struct {
	Path  string `json:"path"` // for [NewConversation]
	Steps int    `json:"steps"`
}

// ConversationPlaces are those of a run up to a record of it, 0 being its head, in the order in
// which they were first heard of, what it inherits included. A visit of a stage is one place.
func ConversationPlaces(ctx context.Context, svc Reader, r Run, at int64) ([]ConversationPlace, error) {
	all, index := []ConversationPlace{}, map[string]int{}
	err := inheritedEvents(ctx, svc, r.ID, func(e *Event, from *inheritance) {
		if e.Seq > from.upTo || at > 0 && from.run.ID == r.ID && e.Seq > at {
			return
		}
		path, step := placeOf(e)
		if path == "" {
			return
		}
		i, known := index[path]
		if !known {
			i = len(all)
			index[path], all = i, append(all, ConversationPlace{Path: path})
		}
		if step {
			all[i].Steps++
		}
	})
	return all, err
}

// placeOf is where a record says something; "": it says nothing.
func placeOf(e *Event) (path string, step bool) {
	switch e.Kind {
	case KindAgentStepStarted:
		path, step = agentOf(e.Path, BodyOf[AgentStepStarted](e).Inside), true
	case KindAgentMessage:
		path = agentOf(e.Path, BodyOf[AgentMessage](e).Inside)
	case KindAgentError, KindWorkerEvent:
		path = e.Path
	default:
		return "", false
	}
	if strings.HasPrefix(lastSegment(path), "worker#") { // its own process, at a step or stage
		path = parentPath(path)
	}
	last := lastSegment(path)
	if hash := strings.IndexByte(last, '#'); hash >= 0 { // all attempts of a visit
		if dot := strings.IndexByte(last[hash:], '.'); dot >= 0 {
			path = path[:len(path)-len(last)+hash+dot]
		}
	}
	return path, step
}

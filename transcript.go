package tipstaff

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// TranscriptMessage is one message of a conversation, as the records of a run tell it.
type TranscriptMessage struct {
	Run   ID               `json:"run_id"`
	Path  string           `json:"path"`           // of the agent: turn, a step, a visit of a stage
	Role  string           `json:"role"`           // user, assistant, tool; error: the agent ended without an answer
	Text  string           `json:"text,omitempty"` // of a tool: how its result begins
	Model string           `json:"model,omitempty"`
	Calls []TranscriptCall `json:"calls,omitempty"` // that the assistant asks for
	// Of a tool: which call this is the result of, and what came of it.
	CallID  string `json:"call_id,omitempty"`
	IsError bool   `json:"is_error,omitempty"`
	Code    string `json:"code,omitempty"`  // of what went wrong; of an error, too
	Bytes   int64  `json:"bytes,omitempty"` // of the whole result
	Ref     string `json:"ref,omitempty"`   // its digest
}

// TranscriptCall is a tool call with what was decided about it.
type TranscriptCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Effect    flow.Class      `json:"effect,omitempty"`
	Arguments json.RawMessage `json:"arguments"`
	Decision  string          `json:"decision,omitempty"` // allow by rule reads; "": there was none
}

// FrozenMessage begins the names under which intent.draft lists the messages of a
// conversation; their order is that of the names.
const FrozenMessage = "message/"

// ProgramTurn is the kind of a program, and the path of the agent in it.
const ProgramTurn = "turn"

// Roles of a transcript.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
	RoleError     = "error"
)

// TurnsUpTo are the turns of a conversation, oldest first, the last being r.
func TurnsUpTo(ctx context.Context, svc Reader, r Run) ([]Run, error) {
	turns := []Run{r}
	for req := (ListRequest{Session: r.Turn.Session, Before: r.ID}); ; {
		page, err := svc.List(ctx, req)
		if err != nil {
			return nil, err
		}
		turns = append(turns, page.Runs...)
		if page.Next.IsZero() {
			slices.Reverse(turns)
			return turns, nil
		}
		req.Before = page.Next
	}
}

// Transcript is what the agents of a run said, and which tools they called, in the order
// of the journal. Of a turn it has the message, too, and of the first turn of a session
// what that begins with: a fork has the conversation that it comes from.
func Transcript(ctx context.Context, svc Reader, r Run) ([]TranscriptMessage, error) {
	t := &transcript{ctx: ctx, svc: svc, run: r.ID, last: map[string]int{}, calls: map[string]place{}}
	if r.Turn != nil {
		if err := t.begin(r); err != nil {
			return nil, err
		}
	}
	err := inheritedEvents(ctx, svc, r.ID, func(e *Event, from *inheritance) {
		if e.Seq <= from.upTo { // what a rollback has left behind is no part of it
			t.take(e)
		}
	})
	return t.list, err
}

// transcript collects messages from records.
type transcript struct {
	ctx   context.Context
	svc   Reader
	run   ID
	list  []TranscriptMessage
	last  map[string]int   // where the last answer of an agent stands
	calls map[string]place // calls in the list, by path
}

// place is where a call stands in the list.
type place struct{ message, call int }

// begin adds what a turn is given: the conversation before it, if it is the first of its
// session, and the message.
func (t *transcript) begin(r Run) error {
	if r.Turn.Number == 1 {
		if err := t.inherited(); err != nil {
			return err
		}
	}
	var doc struct{ Message string }
	text, err := t.svc.Artifact(t.ctx, r.ID, r.Program.Digest)
	if err != nil {
		return err
	}
	_ = json.Unmarshal(text, &doc) // it was checked when the run was made
	t.add(TranscriptMessage{Path: ProgramTurn, Role: RoleUser, Text: doc.Message})
	return nil
}

// inherited adds the conversation that the turn has frozen.
func (t *transcript) inherited() error {
	var frozen map[string]string
	for e, err := range t.svc.Events(t.ctx, EventsRequest{Run: t.run, Limit: 1}) {
		if err != nil {
			return err
		}
		frozen = BodyOf[IntentDraft](&e).Frozen
	}
	for _, name := range slices.Sorted(maps.Keys(frozen)) {
		if !strings.HasPrefix(name, FrozenMessage) {
			continue
		}
		if err := t.message(ProgramTurn, frozen[name]); err != nil {
			return err
		}
	}
	return nil
}

// message adds a stored message of a conversation.
func (t *transcript) message(path, digest string) error {
	text, err := t.svc.Artifact(t.ctx, t.run, digest)
	if err != nil {
		return err
	}
	var m struct {
		Role, Text, Model string
		CallID            string `json:"call_id"`
		IsError           bool   `json:"is_error"`
		Content           []struct{ Text string }
		Calls             []struct{ ID, Name, Arguments string }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	said := TranscriptMessage{Path: path, Role: m.Role, Text: m.Text, Model: m.Model, CallID: m.CallID, IsError: m.IsError}
	for _, c := range m.Content {
		said.Text += c.Text
	}
	if m.Role == RoleTool {
		said.Bytes = int64(len(said.Text))
	}
	for _, c := range m.Calls {
		arguments := json.RawMessage(c.Arguments)
		if !json.Valid(arguments) {
			arguments, _ = json.Marshal(c.Arguments)
		}
		said.Calls = append(said.Calls, TranscriptCall{ID: c.ID, Name: c.Name, Arguments: arguments})
	}
	t.add(said)
	return nil
}

func (t *transcript) add(m TranscriptMessage) {
	m.Run = t.run
	t.list = append(t.list, m)
}

// take adds what a record says.
func (t *transcript) take(e *Event) {
	agent := e.Path[:max(0, strings.LastIndexByte(e.Path, '/'))]
	switch e.Kind {
	case KindAgentMessage:
		b := BodyOf[AgentMessage](e)
		t.add(TranscriptMessage{Path: agent, Role: RoleAssistant, Text: b.Text, Model: b.Model})
		t.last[agent] = len(t.list) - 1
	case KindAgentToolCallRequest:
		if i, ok := t.last[agent]; ok {
			b := BodyOf[AgentToolCallRequest](e)
			t.list[i].Calls = append(t.list[i].Calls, TranscriptCall{ID: b.ID, Name: b.Title(), Effect: b.Effect, Arguments: b.Arguments})
			t.calls[e.Path] = place{i, len(t.list[i].Calls) - 1}
		}
	case KindAgentApprovalDecided, KindPolicyGateResolve:
		t.decided(e)
	case KindAgentToolCallResult:
		b := BodyOf[AgentToolCallResult](e)
		t.add(TranscriptMessage{Path: agent, Role: RoleTool, CallID: b.ID, IsError: b.IsError, Code: b.Class, Text: b.Content, Bytes: b.Bytes, Ref: b.Ref})
	case KindAgentError:
		b := BodyOf[AgentError](e)
		t.add(TranscriptMessage{Path: e.Path, Role: RoleError, Code: b.Code, Text: b.Msg})
	}
}

// decided adds to a call who let it be made, or did not.
func (t *transcript) decided(e *Event) {
	at, ok := t.calls[strings.TrimSuffix(e.Path, "/approval")]
	if !ok {
		return
	}
	c := &t.list[at.message].Calls[at.call]
	switch b := BodyOf[AgentApprovalDecided](e); {
	case e.Kind == KindPolicyGateResolve:
		resolved := BodyOf[GateResolved](e)
		c.Decision = Joined(": ", Joined(" by ", resolved.Action, resolved.Via), resolved.Note)
	case b.By == "policy":
		c.Decision = b.Decision + " by rule " + b.Rule
	default:
		c.Decision = Joined(" by ", b.Decision, b.By)
	}
}

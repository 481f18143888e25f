package tipstaff

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// What a worker tells of itself keeps who told it, and how far it can be believed.
func TestConversationOfAWorker(t *testing.T) {
	c := NewConversation("work#1")
	seq := int64(0)
	tell := func(path string, kind Kind, body any) {
		seq++
		c.Apply(&Event{Seq: seq, Kind: kind, Path: path, At: time.Unix(seq, 0), Body: flow.JSON(body)})
	}
	const at = "work#1/worker#1"
	in, sub := Inside{Worker: "claude", Invocation: "I1"}, Inside{Worker: "claude", Invocation: "I1", Parent: "c1"}
	mediated, reported := in, in
	mediated.Tier, reported.Tier = TierMediated, TierReported
	tell(at, KindEffectIntended, Effect{Name: "worker.run", Input: json.RawMessage(`{"worker":"claude","prompt":"sha256:abc"}`)})
	tell(at, KindAgentStepStarted, AgentStepStarted{Step: 1, Model: "opus", Inside: in})
	tell(at, KindAgentMessage, AgentMessage{Step: 1, Text: "two calls", Usage: &ModelUsage{TotalTokens: 5}, Inside: in})
	tell(at, KindAgentToolCallRequest, AgentToolCallRequest{ID: "c1", Name: "Bash", Arguments: json.RawMessage(`{"a":1}`), Inside: reported})
	tell(at, KindAgentToolCallRequest, AgentToolCallRequest{ID: "c2", Server: "db", Tool: "query", Arguments: json.RawMessage(`{}`), Inside: reported})
	tell(at, KindAgentMessage, AgentMessage{Step: 1, Text: "I am below", Inside: sub})
	tell(at, KindAgentToolCallResult, AgentToolCallResult{ID: "c2", Content: "rows", Bytes: 9000, Untrusted: true, Inside: mediated})
	tell(at, KindAgentToolCallResult, AgentToolCallResult{ID: "c1", IsError: true, Class: "exit", Content: "no", Bytes: 2, Inside: reported})
	tell(at, KindWorkerEvent, WorkerEvent{Invocation: "I1", What: WorkerThinking, Raw: "hm"})
	tell("work#1", KindAgentError, AgentError{Code: "bound_exceeded", Msg: "too much"})
	tell("work#10/worker#1", KindAgentMessage, AgentMessage{Text: "of another visit", Inside: in})
	tell("work#1.2/worker#1", KindAgentMessage, AgentMessage{Text: "of another attempt", Inside: Inside{Invocation: "I2"}})

	if len(c.Items) != 8 {
		t.Fatalf("%d items: %+v", len(c.Items), c.Items)
	}
	for i, want := range []struct{ role, text string }{{RoleUser, ""}, {RoleAssistant, "two calls"}, {RoleTool, ""}, {RoleTool, ""}, {RoleAssistant, "I am below"},
		{RoleWorker, "hm"}, {RoleError, "too much"}, {RoleAssistant, "of another attempt"}} {
		if got := c.Items[i]; got.Role != want.role || got.Text != want.text {
			t.Errorf("item %d is %+v, want %v", i, got, want)
		}
	}
	if got := c.Items[0]; got.Ref != "sha256:abc" {
		t.Errorf("what it was told: %+v", got)
	}
	if got := c.Items[2]; got.Tier != TierReported || got.Call.Outcome != CallError || got.Call.Code != "exit" || got.Call.Cut != 0 {
		t.Errorf("a reported call: %+v %+v", got, got.Call)
	}
	if got := c.Items[3]; got.Tier != TierMediated || got.Call.Name != "db/query" || !got.Call.Untrusted || got.Call.Cut != 9000-4 || got.Worker != "claude" {
		t.Errorf("a mediated call: %+v %+v", got, got.Call)
	}
	if got := c.Items[6]; got.Path != "work#1" || got.Code != "bound_exceeded" {
		t.Errorf("the end: %+v", got)
	}
	if got := c.Items[4]; got.Parent != "c1" {
		t.Errorf("of a sub-agent: %+v", got)
	}
	if c.Usage.TotalTokens != 5 || c.Usage.CostUSD != nil {
		t.Errorf("what nobody knows the price of costs %+v", c.Usage)
	}
}

// What is said is found again by where it is said: all attempts of a visit are one place, and
// a worker speaks where its step or stage is.
func TestPlacesOfConversations(t *testing.T) {
	inside := Inside{Invocation: "I1"}
	for _, c := range []struct {
		path string
		kind Kind
		body any
		want string
	}{
		{"turn/model#1", KindAgentStepStarted, AgentStepStarted{Step: 1}, "turn"},
		{"root/2/model#3", KindAgentMessage, AgentMessage{}, "root/2"},
		{"critic#2/model#1", KindAgentMessage, AgentMessage{}, "critic#2"},
		{"critic#2.3/model#1", KindAgentMessage, AgentMessage{}, "critic#2"},
		{"work#1/worker#1", KindAgentMessage, AgentMessage{Inside: inside}, "work#1"},
		{"work#1.2/worker#1", KindWorkerEvent, WorkerEvent{}, "work#1"},
		{"root/1/worker#2", KindAgentStepStarted, AgentStepStarted{Inside: inside}, "root/1"},
		{"v1.2#1", KindAgentError, AgentError{}, "v1.2#1"},
		{"root/0", KindPlanStep, PlanStep{}, ""},
	} {
		e := &Event{Seq: 1, Kind: c.kind, Path: c.path, Body: flow.JSON(c.body)}
		got, _ := placeOf(e)
		if got != c.want {
			t.Errorf("%s at %s is said at %q, want %q", c.kind, c.path, got, c.want)
		}
		if talk := NewConversation(got); got != "" && !talk.holds(c.path) {
			t.Errorf("what is said at %q does not hold %s", got, c.path)
		}
	}
}

// What is told of a step or a call is known by the same name as the item that waits for it, and
// by no other.
func TestWhatIsToldFindsItsItem(t *testing.T) {
	inside, sub := Inside{Invocation: "I1"}, Inside{Invocation: "I1", Parent: "c1"}
	c := NewConversation("turn")
	seen := map[string]bool{}
	for i, one := range []struct {
		path string
		kind Kind
		body any
		told Event
	}{
		{"turn/model#1", KindAgentStepStarted, AgentStepStarted{Step: 1}, Event{Kind: KindAgentTextDelta, Path: "turn/model#1", Body: flow.JSON(AgentTextDelta{Step: 1})}},
		{"turn/model#2", KindAgentStepStarted, AgentStepStarted{Step: 2}, Event{Kind: KindAgentTextDelta, Path: "turn/model#2", Body: flow.JSON(AgentTextDelta{Step: 2})}},
		{"turn/call#1", KindAgentToolCallRequest, AgentToolCallRequest{ID: "c"}, Event{Kind: KindToolProgress, Path: "turn/call#1", Body: flow.JSON(ToolProgress{})}},
		{"turn/worker#1", KindAgentStepStarted, AgentStepStarted{Step: 1, Inside: inside}, Event{Kind: KindAgentTextDelta, Path: "turn/worker#1", Body: flow.JSON(AgentTextDelta{Step: 1, Inside: inside})}},
		{"turn/worker#1", KindAgentStepStarted, AgentStepStarted{Step: 1, Inside: sub}, Event{Kind: KindAgentTextDelta, Path: "turn/worker#1", Body: flow.JSON(AgentTextDelta{Step: 1, Inside: sub})}},
	} {
		c.Apply(&Event{Seq: int64(i + 1), Kind: one.kind, Path: one.path, Body: flow.JSON(one.body)})
		got := ToldOf(&one.told)
		if item := c.Items[len(c.Items)-1]; len(c.Items) != i+1 || item.Told != got || got == "" || seen[got] {
			t.Errorf("%s at %s: %q is told, %q waits", one.told.Kind, one.path, got, item.Told)
		}
		seen[got] = true
	}
	if got := ToldOf(&Event{Seq: 1, Kind: KindAgentMessage, Path: "turn/model#1", Body: flow.JSON(AgentMessage{})}); got != "" {
		t.Errorf("a record is told to %q", got)
	}
}

// The result of a call has what is no text beside what is.
func TestMediaOfACall(t *testing.T) {
	c := NewConversation("turn")
	c.Apply(&Event{Seq: 1, Kind: KindAgentToolCallRequest, Path: "turn/call#1", Body: flow.JSON(AgentToolCallRequest{ID: "c", Arguments: json.RawMessage("{}")})})
	value := `{"content":[{"type":"text","text":"two"},{"type":"image","mime_type":"image/png","digest":"sha256:ab","size":7,"kept":true},{"type":"audio","data":"AAAA"}]}`
	c.Apply(&Event{Seq: 2, Kind: KindEffectFinished, Path: "turn/call#1", Body: flow.JSON(Effect{Value: json.RawMessage(value)})})
	want := []ConversationMedia{{Type: "image/png", Bytes: 7, Digest: "sha256:ab", Kept: true}, {Type: "audio", Bytes: 3}}
	if got := c.Items[0].Call.Media; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	c.Apply(&Event{Seq: 3, Kind: KindEffectFinished, Path: "turn/call#1", Body: flow.JSON(Effect{Value: json.RawMessage(`"what a person gave"`)})})
	if got := c.Items[0].Call.Media; got != nil {
		t.Errorf("of a text: %+v", got)
	}
}

// Whether there is a conversation in a run is known from its records alone.
func TestWhetherARunTalks(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		body any
		want bool
	}{
		{KindPlanStep, PlanStep{}, false},
		{KindAgentStepStarted, AgentStepStarted{Step: 1}, true},
		{KindAgentError, AgentError{}, true},
		{KindWorkerEvent, WorkerEvent{}, true},
		{KindRunForked, RunForked{Counters: flow.Use{BoundModelCalls: 2}}, true}, // from a run in which there was one
		{KindRunForked, RunForked{Counters: flow.Use{BoundToolCalls: 2}}, false},
	} {
		f := new(Fold)
		f.Apply(&Event{Seq: 1, Kind: c.kind, Path: "root/model#1", Body: flow.JSON(c.body)})
		if got := Status(Facts{}, f, nil, time.Time{}).Said; got != c.want {
			t.Errorf("after %s: %v", c.kind, got)
		}
	}
	f := new(Fold)
	f.Apply(&Event{Seq: 1, Kind: KindIntentDraft, Body: flow.JSON(IntentDraft{ProgramKind: ProgramTurn})})
	if !Status(Facts{}, f, nil, time.Time{}).Said { // it has a message
		t.Error("a turn has no conversation")
	}
}

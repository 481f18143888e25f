package runner_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

func (b *bed) talkAt(run tipstaff.ID, path string, at int64) *tipstaff.Conversation {
	b.t.Helper()
	c, err := tipstaff.ConversationOf(cli(), b, b.get(run), path, at)
	b.check(err)
	return c
}

// talkContinues stops a conversation at each record of its run and goes on from there.
func (b *bed) talkContinues(run tipstaff.ID, path string) {
	b.t.Helper()
	events, whole := b.events(run), b.talkAt(run, path, 0)
	for at := range events {
		c := b.talkAt(run, path, int64(at+1))
		for i := range events[at+1:] {
			c.Apply(&events[at+1:][i])
		}
		if diff := cmp.Diff(whole, c, cmpopts.IgnoreUnexported(tipstaff.Conversation{})); diff != "" {
			b.t.Fatalf("stopped at record %d and continued it is another:\n%s", at+1, diff)
		}
	}
}

func TestConversationOfATurn(t *testing.T) {
	t.Parallel()
	b := agentBed(t, echo)
	b.write("note.txt", strings.Repeat("x", 10_000))
	run := b.said(cli(), "", "the note").ID
	c := b.talkAt(run, "turn", 0)
	if len(c.Items) != 4 {
		t.Fatalf("message, step, call, step: %+v", c.Items)
	}
	user, look, read, done := c.Items[0], c.Items[1], c.Items[2], c.Items[3]
	if user.Role != tipstaff.RoleUser || user.Text != "the note" {
		t.Errorf("the message: %+v", user)
	}
	if look.Role != tipstaff.RoleAssistant || look.Text != "I look." || look.Step.Number != 1 || look.Step.Model == "" || look.Step.Usage.TotalTokens != 110 ||
		look.Step.Ended.Before(look.Step.Started) || look.Step.Answer == 0 {
		t.Errorf("the first step: %+v %+v", look, look.Step)
	}
	call := read.Call
	if read.Role != tipstaff.RoleTool || call.Name != "builtin/read_file" || string(call.Arguments) != `{"path":"note.txt"}` || call.Decision != "allow" || call.DecidedBy != "policy" ||
		call.Rule != "reads" || call.Outcome != tipstaff.CallOK || len(call.Result) > 4096 || int64(len(call.Result))+call.Cut < 10_000 || call.Ended.Before(call.Started) {
		t.Errorf("the call: %+v", call)
	}
	if whole := b.events(run)[call.Record-1]; whole.Seq != call.Record || !strings.Contains(string(whole.Body), strings.Repeat("x", 10_000)) || call.Ref == "" {
		t.Errorf("all of it is not in record %d: %s", call.Record, whole.Body)
	}
	if done.Text != "I have read it." || done.Step.Number != 2 {
		t.Errorf("the last step: %+v", done)
	}
	if c.Usage.TotalTokens != 220 || c.Usage.CostUSD == nil || *c.Usage.CostUSD != 300_000 {
		t.Errorf("in all: %+v", c.Usage)
	}
	b.talkContinues(run, "turn")
}

func TestConversationOfAStage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.withModel("agents:\n  helper: {model: main}\n")
	b.write("note.txt", "from the file")
	b.says = func(r agent.Request) agent.Response {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return agent.Response{Text: `{"again": true}`, Reason: "stop"}
		}
		return agent.Response{Text: "I look", Reason: "tool_use", Model: "m1", Calls: []agent.Call{{ID: "c1", Name: r.Tools[0].Name, Arguments: `{"path":"note.txt"}`}},
			Opaque: []byte(`[{"type":"thinking","thinking":"where is it?","signature":"x"},{"type":"reasoning","summary":[{"text":"there"}],"encrypted_content":"zz"}]`)}
	}
	run, out := b.pipe(`
name: one
max_iterations: 1
agents:
  - name: m
    model: {agent: helper, prompt: "Look", tools: ["mcp://builtin/read_file@1.0.0"]}
    routing_rules: [{when: "has(output.again)", target: m}]
`)
	if len(out.Gates) != 1 {
		t.Fatalf("%+v", out)
	}
	call := b.talkAt(run, "m#1", 0).Items[1].Call
	if call.Outcome != tipstaff.CallAsked || call.Gate != out.Gates[0] || call.Rule != "builtin/no-match" || call.Decision != "" {
		t.Errorf("while it asks: %+v", call)
	}
	_, err := b.decide(run, out.Gates[0], "allow", func(d *tipstaff.DecideRequest) { d.Note = "go on" })
	b.check(err)
	b.resume(run)
	c := b.talkAt(run, "m#1", 0)
	if len(c.Items) != 3 {
		t.Fatalf("step, call, step: %+v", c.Items)
	}
	if step := c.Items[0].Step; step.Reasoning != "where is it?\n\nthere" || step.Model != "m1" {
		t.Errorf("what it thought: %+v", step)
	}
	if call := c.Items[1].Call; call.Decision != "allow" || call.Note != "go on" || call.Outcome != tipstaff.CallOK || call.Cut != 0 || call.Untrusted {
		t.Errorf("when it was answered: %+v", call)
	}
	for _, it := range b.talkAt(run, "m#2", 0).Items { // another visit has its own
		if it.Path != "m#2" {
			t.Errorf("of the second visit: %+v", it)
		}
	}
	b.talkContinues(run, "m#1")
}

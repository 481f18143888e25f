package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func TestApproveAnswersAsThePolicyRules(t *testing.T) {
	p := ruled{
		"worker-claude/Read":  {Effect: Allow, Rules: []string{"reads"}, Digest: "sha256:p"},
		"worker-claude/Bash":  {Effect: Ask, Rules: []string{"shell"}, Why: "commands are looked at", Digest: "sha256:p", Facts: json.RawMessage(`{"sql":{}}`), Guards: []string{"g:write"}},
		"worker-claude/Write": {Effect: Deny, Rules: []string{"no-writing"}, Why: "this is a review", Digest: "sha256:p"},
	}
	c := opened(t, new(fakeTask), p, channelOptions{Type: "claude", Hook: true})
	s := connected(t, c)
	// White space, order and escapes of the input are kept. The client would take out the
	// first, so it is not asked by way of it.
	input := `{"file_path":  "/w/a",` + "\n" + `"b":"<\u0041>","a":1.0}`
	i := slices.IndexFunc(channelTools, func(t channelTool) bool { return t.name == ApproveTool })
	got, err := c.(*mcpChannel).call(t.Context(), channelTools[i], json.RawMessage(`{"tool_name":"Read","input":`+input+`,"tool_use_id":"c1"}`))
	if want := `{"behavior":"allow","updatedInput":` + input + `}`; err != nil || got != want {
		t.Errorf("allow: %s, want %s", got, want)
	}
	given := `{"file_path":"/w/` + c.(*mcpChannel).secret + `"}` // no record may hold it: it is cleaned there, and nowhere else
	got, err = c.(*mcpChannel).call(t.Context(), channelTools[i], json.RawMessage(`{"tool_name":"Read","input":`+given+`,"tool_use_id":"c0"}`))
	if want := `{"behavior":"allow","updatedInput":` + given + `}`; err != nil || got != want {
		t.Errorf("allow: %s, want %s", got, want)
	}
	if rule, digest, ok := c.passed("c1"); !ok || rule != "reads" || digest != "sha256:p" {
		t.Errorf("%s %s %v", rule, digest, ok)
	}
	got, _ = call(t, s, ApproveTool, `{"tool_name":"Write","input":{"file_path":"/w/a"},"tool_use_id":"c2"}`)
	if got != `{"behavior":"deny","message":"no-writing: this is a review"}` {
		t.Errorf("deny: %s", got)
	}
	if isClosed(c.spoke()) {
		t.Error("a denial does not end the turn")
	}
	bash := `{"tool_name":"Bash","input":{"command":"rm -r x","description":"tidy up"},"tool_use_id":"c3","title":"Tidy"}`
	for range 2 { // a call that is asked about twice is one request
		got, _ = call(t, s, ApproveTool, bash)
		if !strings.Contains(got, `"behavior":"deny"`) || !strings.Contains(got, `"interrupt":true`) || !strings.Contains(got, `"message":"shell: `) {
			t.Errorf("ask: %s", got)
		}
	}
	<-c.spoke()
	args := json.RawMessage(`{"command":"rm -r x","description":"tidy up"}`)
	if diff := cmp.Diff([]Request{{Tool: "worker-claude/Bash", CallID: "c3", Args: args, ArgsDigest: flow.Digest(args), Class: "once", Rule: "shell",
		Facts: json.RawMessage(`{"sql":{}}`), Guards: []string{"g:write"}, Claim: `{"title":"Tidy"}`}}, c.pending()); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	shown := tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Approval, Subject: c.pending()[0].Subject("careful", "claude", "2.1.325", "/w")})
	if text := strings.Join(shown.Lines, "\n"); !shown.Whole || !strings.HasPrefix(text, "worker: careful (claude 2.1.325)\n") || !strings.Contains(text, "| rm -r x") || !strings.HasSuffix(text, `| {"title":"Tidy"}`) {
		t.Errorf("shown as\n%s", text)
	}
	if d := c.denials(); len(d) != 1 || d[0].Tool != "worker-claude/Write" || d[0].CallID != "c2" || d[0].Reason != "no-writing: this is a review" {
		t.Errorf("%+v", d)
	}
	for _, id := range []string{"c2", "c3", ""} {
		if _, _, ok := c.passed(id); ok {
			t.Errorf("%q has not passed", id)
		}
	}
}

func TestModelCannotCallApprove(t *testing.T) {
	all := ruled{"worker-claude/Bash": {Effect: Allow}, "tipstaff/approve": {Effect: Allow}, "worker-claude/mcp__tipstaff__approve": {Effect: Allow}}
	c := opened(t, new(fakeTask), all, channelOptions{Type: "claude", Hook: true})
	s := connected(t, c)
	got, _ := call(t, s, ApproveTool, `{"tool_name":"mcp__tipstaff__approve","input":{"tool_name":"Bash","input":{}},"tool_use_id":"c1"}`)
	if !strings.Contains(got, `"behavior":"deny"`) || !strings.Contains(got, ruleChannel) {
		t.Error(got)
	}
	got, _ = call(t, s, ApproveTool, `{"tool_name":"mcp__tipstaff__task_log","input":{"text":"a"},"tool_use_id":"c2"}`)
	if !strings.Contains(got, `"behavior":"allow"`) {
		t.Error(got)
	}
	if slices.Contains(taskTools(), ApproveTool) {
		t.Error("approve is among the tools that are allowed in advance")
	}
}

func TestApproveRefusesWhatItCannotShow(t *testing.T) {
	all := ruled{"worker-claude/Bash": {Effect: Allow}, "worker-claude/a/b": {Effect: Allow}}
	c := opened(t, new(fakeTask), all, channelOptions{Type: "claude", Hook: true})
	s := connected(t, c)
	for _, args := range []string{
		`{"tool_name":"Bash","input":{"command":"ls","command":"rm -r /"},"tool_use_id":"c"}`, // which of them is shown?
		`{"tool_name":"Bash","input":{"n":9007199254740993},"tool_use_id":"c"}`,               // no other number has its digest
		`{"tool_name":"a/b","input":{},"tool_use_id":"c"}`,
		`{"tool_name":"Bash","input":"ls","tool_use_id":"c"}`,
		`{"tool_name":"Bash","tool_use_id":"c"}`,
		`{"input":{},"tool_use_id":"c"}`,
		`{"tool_name":"Bash","input":{},"tool_use_id":7}`,
	} {
		if got, refused := call(t, s, ApproveTool, args); !refused && !strings.Contains(got, `"behavior":"deny"`) {
			t.Errorf("%s: %s", args, got)
		}
	}
	if _, _, ok := c.passed("c"); ok {
		t.Error("one has passed")
	}
}

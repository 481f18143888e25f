//go:build linux

package control

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// The MCP Inspector's command line lists everything that there is, and takes a run from its
// start to its evidence: by the protocol as it was with sessions, over HTTP, and as it is, over
// standard input and output. Each call is a server, or a connection, of its own.
func TestInspector(t *testing.T) {
	asked(t)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			i := inspect(t, era)
			i.lists(t)
			i.run(t)
			i.fails(t)
		})
	}
}

// inspector is the Inspector, and what it speaks with.
type inspector struct {
	*bed
	argv []string
}

func inspect(t *testing.T, era string) inspector {
	t.Helper()
	b := newBed(t)
	start := []string{node(t), module(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli", "--format", "json", "--quiet", "--protocol-era", era}
	if era == "modern" {
		return inspector{b, append(start, b.tipstaff(), "mcp", "--decide", "--workspace", b.Dir)}
	}
	s := b.start("mcp", "--http", "127.0.0.1:0")
	return inspector{b, append(start, "--transport", "http", "--server-url", s.url+"/mcp", "--header", "Authorization: "+s.bearer())}
}

// ask makes one request of the protocol, and returns its result.
func (i inspector) ask(t testing.TB, into any, args ...string) {
	t.Helper()
	var answer struct{ Result json.RawMessage }
	i.decode([]byte(i.must(program{argv: append(slices.Clone(i.argv), args...)})), &answer)
	i.decode(answer.Result, into)
}

// call calls a tool, and returns what it answers as structure.
func (i inspector) call(t testing.TB, into any, tool string, args map[string]any) {
	t.Helper()
	text, err := json.Marshal(args)
	i.Check(err)
	var answer struct {
		IsError           bool
		StructuredContent json.RawMessage
		Content           []struct{ Text string }
	}
	i.ask(t, &answer, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", string(text))
	if answer.IsError || len(answer.Content) != 1 || answer.Content[0].Text != string(answer.StructuredContent) {
		t.Fatalf("%s %s: %+v", tool, text, answer)
	}
	i.decode(answer.StructuredContent, into)
}

func (i inspector) lists(t *testing.T) {
	var tools struct {
		Tools []struct {
			Name, Title string
			Annotations map[string]any
		}
	}
	i.ask(t, &tools, "--method", "tools/list", "--strict") // which also judges schemas
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		if tool.Title == "" || len(tool.Annotations) < 4 {
			t.Errorf("of %s is told %+v", tool.Name, tool)
		}
	}
	slices.Sort(names)
	want := strings.Fields("delivery_decide delivery_gate gate_decide pending_decisions phase_handoff_decide plan_validate run_cancel run_diagnose run_diff " +
		"run_events_tail run_evidence run_history run_metrics run_resume run_start run_status run_verify run_watch")
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q", names)
	}
	var resources struct{ Resources []struct{ URI string } }
	i.ask(t, &resources, "--method", "resources/list")
	var templates struct {
		ResourceTemplates []struct{ URITemplate string }
	}
	i.ask(t, &templates, "--method", "resources/templates/list")
	if len(resources.Resources) < 2 || len(templates.ResourceTemplates) < 5 {
		t.Errorf("there are resources %v and templates %v", resources, templates)
	}
	var prompts struct{ Prompts []struct{ Name string } }
	i.ask(t, &prompts, "--method", "prompts/list")
	if len(prompts.Prompts) != 5 {
		t.Errorf("the prompts are %v", prompts)
	}
	var prompt struct {
		Messages []struct{ Content struct{ Text string } }
	}
	i.ask(t, &prompt, "--method", "prompts/get", "--prompt-name", "start_and_watch", "--prompt-args", "program_file=ask.yaml")
	if len(prompt.Messages) == 0 || !strings.Contains(prompt.Messages[0].Content.Text, "ask.yaml") {
		t.Errorf("the prompt is %+v", prompt)
	}
}

func (i inspector) run(t *testing.T) {
	var started struct {
		Run  string `json:"run_id"`
		Pid  int
		Next []nextCall
	}
	i.call(t, &started, "run_start", map[string]any{"program_file": "ask.yaml", "title": "by the Inspector"})
	if started.Pid == 0 || len(started.Next) != 1 || started.Next[0].Tool != "run_watch" {
		t.Fatalf("it was started as %+v", started)
	}
	var watched struct {
		Status string
		Gates  []struct {
			ID string `json:"gate_id"`
		}
	}
	i.call(t, &watched, "run_watch", started.Next[0].Args)
	if watched.Status == "running" { // it asks before its process has parked
		i.call(t, &watched, "run_watch", started.Next[0].Args)
	}
	if len(watched.Gates) != 1 {
		t.Fatalf("after the watch it is %+v", watched)
	}
	var pending struct {
		Total     int
		Decisions []struct {
			Run  string `json:"run_id"`
			Gate struct {
				ID       string `json:"gate_id"`
				Question string
			}
			Next []nextCall
		}
	}
	i.call(t, &pending, "pending_decisions", map[string]any{})
	if pending.Total != 1 || pending.Decisions[0].Run != started.Run || pending.Decisions[0].Gate.Question != "Double it?" {
		t.Fatalf("what waits is %+v", pending)
	}
	decide := pending.Decisions[0].Next[0]
	if _, said := decide.Args["action"]; said || decide.Kind != "input_required" || decide.Args["subject_digest"] == "" {
		t.Errorf("the decision is offered as %+v", decide)
	}
	decide.Args["action"], decide.Args["decided_by"] = "approve", "the Inspector"
	var first, again struct {
		Decision json.RawMessage
		Replayed bool
	}
	i.call(t, &first, decide.Tool, decide.Args)
	i.call(t, &again, decide.Tool, decide.Args)
	if first.Replayed || !again.Replayed || string(first.Decision) != string(again.Decision) {
		t.Errorf("the decision is %s, and the same again %s", first.Decision, again.Decision)
	}
	i.settled(started.Run)
	var resumed struct{ Outcome string }
	i.call(t, &resumed, "run_resume", map[string]any{"run_id": started.Run})
	if resumed.Outcome != "launched" {
		t.Errorf("the resumption is %+v", resumed)
	}
	i.call(t, &watched, "run_watch", map[string]any{"run_id": started.Run, "until": "end"})
	if watched.Status != "completed" {
		t.Errorf("it ends as %s", watched.Status)
	}
	var evidence struct {
		Steps struct{ Total int }
	}
	i.call(t, &evidence, "run_evidence", map[string]any{"run_id": started.Run, "slice": "steps"})
	if evidence.Steps.Total != 3 {
		t.Errorf("the evidence is %+v", evidence)
	}
	var read struct {
		Contents []struct{ MimeType, Text string }
	}
	i.ask(t, &read, "--method", "resources/read", "--uri", "tipstaff://runs/"+started.Run)
	if len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, `"status":"completed"`) {
		t.Errorf("the resource is %+v", read)
	}
	i.wellDone(started.Run, "the Inspector")
}

// nextCall is one that an answer advises.
type nextCall struct {
	Kind, Tool string
	Args       map[string]any
	Command    string
}

// Without --decide the Inspector is told what a person does, waits while they do it at another
// terminal, and has the run go on.
func TestInspectorLeavesDecisionsToAPerson(t *testing.T) {
	i := inspect(t, "modern")
	i.argv = slices.DeleteFunc(i.argv, func(word string) bool { return word == "--decide" })
	var started struct {
		Run string `json:"run_id"`
	}
	i.call(t, &started, "run_start", map[string]any{"program_file": "ask.yaml"})
	i.settled(started.Run)
	var at struct {
		Status string
		Next   []nextCall
	}
	i.call(t, &at, "run_watch", map[string]any{"run_id": started.Run})
	if len(at.Next) != 2 || at.Next[0].Kind != "person" || at.Next[1].Tool != "run_watch" {
		t.Fatalf("next is %+v", at.Next)
	}
	waited := make(chan bool)
	command, wait := at.Next[0].Command, at.Next[1]
	go func() {
		defer close(waited)
		i.call(t, &at, wait.Tool, wait.Args)
	}()
	words := strings.Fields(strings.Replace(command, "ACTION", "approve", 1))
	i.Must(0, words[1:]...)
	<-waited
	if len(at.Next) != 1 || at.Next[0].Tool != "run_resume" {
		t.Fatalf("when a person has answered, next is %+v", at.Next)
	}
	i.call(t, &at, at.Next[0].Tool, at.Next[0].Args)
	i.call(t, &at, "run_watch", map[string]any{"run_id": started.Run, "until": "end"})
	if at.Status != "completed" {
		t.Errorf("it ends as %s", at.Status)
	}
	i.wellDone(started.Run, "")
}

// settled waits for the process of a run to have parked it.
func (b *bed) settled(run string) {
	b.Helper()
	b.Until("nobody to drive run "+run, func() bool {
		var shown struct{ Condition string }
		b.json(&shown, "show", run)
		return shown.Condition != "running"
	})
}

// An error is a result that says so, which the Inspector ends with.
func (i inspector) fails(t *testing.T) {
	for args, code := range map[string]string{`{"run_id":"../x"}`: "invalid_argument", `{"run_id":"01M7GGV724CE3RT0X18PVCP8A2"}`: "run_not_found"} {
		got := i.bed.run(program{argv: append(slices.Clone(i.argv), "--method", "tools/call", "--tool-name", "run_status", "--tool-args-json", args)})
		if got.code == 0 || !strings.Contains(got.out+got.err, code) {
			t.Errorf("run_status %s: exit code %d\n%s\n%s", args, got.code, cmdtest.Clip(got.out), cmdtest.Clip(got.err))
		}
	}
}

package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

// typesByName are all of them.
func typesByName() map[string]*cliType {
	types := map[string]*cliType{}
	for _, r := range rows {
		types[r.of.name] = r.of
	}
	return types
}

// transcribe reads a whole stream, and counts for each line what was told of it.
func transcribe(of *cliType, stream []byte, outcome Outcome) (events []Body, m *mapper, silent []string) {
	m = newMapper(of, "w", "i", func(b Body) { events = append(events, b) }, func(readable) {})
	r := of.reader(m)
	for line := range bytes.Lines(stream) {
		ended := m.ended
		before := len(events)
		m.line(r, line)
		if len(events) == before && m.ended == ended {
			silent = append(silent, string(line))
		}
	}
	m.settle()
	m.close(outcome, "", "", tipstaff.ModelUsage{})
	return events, m, silent
}

// checkOrder checks the order of an agent's events.
func checkOrder(t testing.TB, events []Body, terminal bool) {
	t.Helper()
	type stepState struct {
		text           string
		told, answered bool
		index          int
		parent         string
	}
	steps := map[int]*stepState{}
	last := 0
	requests := map[string]int{} // call → step
	results := map[string]bool{}
	fault := func(format string, args ...any) { t.Errorf(format, args...) }
	for n, b := range events {
		end := false
		switch b := b.(type) {
		case *tipstaff.AgentStepStarted:
			if b.Step != last+1 {
				fault("step %d follows step %d", b.Step, last)
			}
			last = b.Step
			steps[b.Step] = &stepState{parent: b.Parent}
		case *tipstaff.AgentTextDelta:
			s := steps[b.Step]
			if s == nil || s.told || b.Offset != int64(len(s.text)) {
				fault("delta at %d of step %d, %+v", b.Offset, b.Step, s)
				continue
			}
			s.text += b.Text
		case *tipstaff.AgentMessage:
			s := steps[b.Step]
			if s == nil || s.told || s.text != b.Text {
				fault("message %q of step %d, %+v", b.Text, b.Step, s)
				continue
			}
			s.told = true
		case *tipstaff.AgentToolCallRequest:
			s := steps[b.Step]
			if s == nil || !s.told || s.answered || b.Index != s.index+1 || requests[b.ID] != 0 || b.ID == "" || !json.Valid(b.Arguments) {
				fault("request %d of step %d, %+v", b.Index, b.Step, s)
				continue
			}
			s.index, requests[b.ID] = b.Index, b.Step
		case *tipstaff.AgentApprovalDecided:
			if requests[b.ID] == 0 || results[b.ID] {
				fault("decision on %s", b.ID)
			}
		case *tipstaff.AgentToolCallResult:
			if requests[b.ID] == 0 || results[b.ID] {
				fault("result of %q, requested in step %d", b.ID, requests[b.ID])
				continue
			}
			results[b.ID], steps[requests[b.ID]].answered = true, true
		case *tipstaff.AgentFinish, *tipstaff.AgentError:
			end = true
		}
		if end != (n == len(events)-1) && terminal {
			fault("event %d of %d is %T", n, len(events), b)
		}
	}
	for n, s := range steps {
		if !s.told {
			fault("step %d has no message", n)
		}
	}
	if len(results) != len(requests) {
		fault("%d requests, %d results", len(requests), len(results))
	}
}

func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/streams/*/*.jsonl")
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	streams := map[string][]byte{}
	for _, f := range files {
		if streams[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return streams
}

func typeOfStream(file string) *cliType { return typesByName()[filepath.Base(filepath.Dir(file))] }

func TestEveryRecordedLineIsTold(t *testing.T) {
	for file, stream := range recorded(t) {
		events, m, silent := transcribe(typeOfStream(file), stream, NoReport)
		if silent != nil {
			t.Errorf("%s: nothing is told of %q", file, silent)
		}
		if m.id == "" && bytes.Contains(stream, []byte(`"session`)) {
			t.Errorf("%s: no session", file)
		}
		t.Run(file, func(t *testing.T) { checkOrder(t, events, true) })
	}
}

// What the recorded streams say, read by a person.
func TestRecordedStreams(t *testing.T) {
	type seen struct {
		Text    string
		Steps   int
		Calls   string // server/tool=class of the result
		End     string // ok, error, none
		Tokens  int64
		Denials int
	}
	cases := map[string]seen{
		"claude/text":                {"good morning", 1, "", "ok", 18, 0},
		"claude/denied-without-hook": {"tool said: ERROR Output redirection to 'peers/wd/made.txt' needs approval. The path is inside the working directories for this session ('peers/wd'), and Claude Code asks before a shell command creates, changes or removes files there.", 2, "worker-claude/Bash=tool_error", "ok", 36, 1},
		"claude/mcp-list":            {"tool said: hi bob", 2, "small/greet=", "ok", 36, 0},
		"claude/hook-denied":         {"tool said: ERROR policy says no", 2, "worker-claude/Bash=tool_error", "ok", 36, 1},
		"claude/lost-in-json":        {"", 0, "", "error", 0, 0},
		"claude/sigint":              {"", 1, "worker-claude/Bash=tool_error", "error", 18, 0},
		"claude/partial-1":           {"echo[2 msgs]: turn one", 1, "", "ok", 18, 0},
		"claude/resume-3":            {"thrice", 2, "worker-claude/Write=", "ok", 36, 0},
		"codex/command":              {"tool said: Chunk ID: 9c8676\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 3\nOutput:\ncodex-ran\n", 2, "worker-codex/command_execution=", "ok", 36, 0},
		"codex/denied":               {"over", 3, "worker-codex/command_execution=tool_error, worker-codex/command_execution=tool_error", "ok", 54, 0},
		"codex/channel":              {"over", 4, "tipstaff/task_status=, tipstaff/task_log=, tipstaff/task_set_status=", "ok", 72, 0},
		"gemini/denied":              {"over", 3, "worker-gemini/write_file=policy_denied, worker-gemini/run_shell_command=policy_denied", "ok", 54, 2},
		"gemini/channel":             {"over", 4, "tipstaff/task_status=, tipstaff/task_log=, tipstaff/task_set_status=", "ok", 72, 0},
		"opencode/denied":            {"over", 3, "worker-opencode/write=policy_denied, worker-opencode/bash=policy_denied", "ok", 54, 2},
		"opencode/channel":           {"over", 4, "tipstaff/task_status=, tipstaff/task_log=, tipstaff/task_set_status=", "ok", 72, 0},
		"cursor/documented":          {"I read it.", 2, "worker-cursor/read=", "ok", 0, 0},
		"scripted/made":              {"all done", 2, "worker-scripted/write_file=, tipstaff/task_set_status=", "ok", 42, 0},
	}
	streams := recorded(t)
	for name, want := range cases {
		file := filepath.Join("testdata/streams", name+".jsonl")
		events, m, _ := transcribe(typeOfStream(file), streams[file], NoReport)
		got := seen{Text: m.text, Steps: m.steps, End: "none", Denials: len(m.refused)}
		if m.ended != nil {
			got.End = map[bool]string{true: "error", false: "ok"}[m.ended.isError]
			if m.ended.usage != nil {
				got.Tokens = m.ended.usage.TotalTokens
			}
		}
		titles := map[string]string{}
		for _, b := range events {
			switch b := b.(type) {
			case *tipstaff.AgentToolCallRequest:
				titles[b.ID] = b.Title()
			case *tipstaff.AgentToolCallResult:
				got.Calls = tipstaff.Joined(", ", got.Calls, titles[b.ID]+"="+b.Class)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// What the recorded CLIs came to, had they been stopped by nobody: stream, stderr and
// exit together.
func TestRecordedOutcomes(t *testing.T) {
	want := map[string]string{ // by case; of some CLIs it differs
		"text": "no_report", "shell": "no_report", "write-write": "no_report", "write-bypass": "no_report", "ask": "no_report", "channel": "no_report",
		"resume-1": "no_report", "resume-2": "no_report", "resume-3": "no_report", "write": "no_report", "resume": "no_report", "unapproved": "no_report",
		"approval-allow": "no_report", "approval-ask": "error", "approval-deny": "denied", "denied": "denied", "codex/denied": "no_report", "cursor/denied": "no_report",
		"unknown-id": "session_lost", "unknown-id-beside-another": "session_lost", "used-id": "session_conflict",
		"busy-id": "no_report", "codex/busy-id": "session_conflict", "malformed-id": "no_report",
		"bad-request": "error", "cut": "error", "error": "error", "claude/dead": "error",
		"codex/dead": "exit", "gemini/dead": "exit", "opencode/dead": "empty", "term-tool": "exit", "term-waiting": "exit", "opencode/term-waiting": "empty",
		"rate-limit": "no_report", "server-error": "error", "gemini/server-error": "exit", "opencode/server-error": "empty", "untrusted": "empty",
	}
	files, err := filepath.Glob("testdata/streams/*/*.exit")
	if err != nil || len(files) < 40 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".exit")
		of, name := typeOfStream(file), filepath.Base(base)
		outcome, ok := want[of.name+"/"+name]
		if !ok {
			outcome, ok = want[name]
		}
		if !ok {
			continue
		}
		stream, err := os.ReadFile(base + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		stderr, _ := os.ReadFile(base + ".stderr")
		code, _ := os.ReadFile(file)
		f := facts{connected: true}
		if signal, ok := strings.CutPrefix(strings.TrimSpace(string(code)), "signal "); ok {
			f.exit.Signal = signal
		} else if f.exit.Code, err = strconv.Atoi(strings.TrimSpace(string(code))); err != nil {
			t.Fatal(err)
		}
		_, m, _ := transcribe(of, stream, NoReport)
		msg := ""
		if m.ended != nil {
			msg = m.ended.msg
		}
		resumed := strings.Contains(name, "unknown") || strings.Contains(name, "busy")
		f.events, f.end, f.denials, f.fault = m.jsonLines, m.ended, len(m.refused), of.fault(resumed, f.exit, string(stderr)+"\n"+msg)
		if got := f.outcome(); string(got) != outcome {
			t.Errorf("%s: %s, not %s: exit %+v, end %+v", base, got, outcome, f.exit, f.end)
		}
	}
}

func notesOf(events []Body) (kinds []string) {
	return (&memorySink{events: events}).notes()
}

func TestNoticesOfCodexAreNoEnd(t *testing.T) {
	stream := `{"type":"thread.started","thread_id":"t"}
{"type":"error","message":"Reconnecting... 1/5 (stream disconnected)"}
{"type":"error","message":"something odd"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"a warning"}}
{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"hm"}}
{"type":"item.completed","item":{"id":"item_2","type":"web_search","query":"q"}}
{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}
`
	events, m, _ := transcribe(&codex, []byte(stream), NoReport)
	if m.ended == nil || m.ended.isError {
		t.Errorf("%+v", m.ended)
	}
	if diff := cmp.Diff([]string{"init", "retry", "warning", "warning", "thinking"}, notesOf(events)); diff != "" {
		t.Error(diff)
	}
	if m.calls != 1 {
		t.Error("the start of the search was not supplied")
	}
	checkOrder(t, events, true)
}

// A sub-agent's messages come between those of the agent that called it.
func TestSubAgents(t *testing.T) {
	stream := `{"type":"assistant","message":{"id":"a","content":[{"type":"text","text":"I ask another"}]}}
{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t1","name":"Task","input":{}}]}}
{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"b","content":[{"type":"text","text":"inner"}]}}
{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"b","content":[{"type":"tool_use","id":"t2","name":"Read","input":{}},{"type":"tool_use","id":"t3","name":"Grep","input":{}}]}}
{"type":"user","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_result","tool_use_id":"t2","content":"x"}]}}
{"type":"user","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_result","tool_use_id":"t3","content":[]}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"y"}]}}
{"type":"assistant","message":{"id":"c","content":[{"type":"text","text":"over"}]}}
`
	events, m, silent := transcribe(&claude, []byte(stream), NoReport)
	checkOrder(t, events, true)
	if silent != nil || m.steps != 3 || m.text != "over" {
		t.Errorf("%d steps, %q, %q", m.steps, m.text, silent)
	}
	parents := map[string]string{}
	for _, b := range events {
		if r, ok := b.(*tipstaff.AgentToolCallRequest); ok {
			parents[r.ID] = r.Parent + " " + string(r.Effect)
		}
	}
	if diff := cmp.Diff(map[string]string{"t1": " once", "t2": "t1 read", "t3": "t1 read"}, parents); diff != "" {
		t.Error(diff)
	}
}

// Calls of one message that come after a result of it begin a step: all requests of a step
// come before its first result.
func TestLateCallsBeginAStep(t *testing.T) {
	stream := callLine("a", "1", "Read", `{}`) + "\n" + resultLine("1", `"x"`) + "\n" + callLine("a", "2", "Read", `{}`) + "\n" + textLine("a", "more") + "\n" +
		callLine("a", "2", "Read", `{}`) + "\n" + resultLine("9", `"?"`) + "\n"
	events, m, silent := transcribe(&claude, []byte(stream), Exited)
	checkOrder(t, events, true)
	if m.steps != 3 || m.calls != 2 || silent != nil {
		t.Errorf("%d steps, %d calls, %q", m.steps, m.calls, silent)
	}
	if diff := cmp.Diff([]string{"unknown", "unknown"}, notesOf(events)); diff != "" { // the repeated call, the result of none
		t.Error(diff)
	}
}

func TestNamesOfMCPTools(t *testing.T) {
	for _, c := range []struct {
		of         *cliType
		name, want string
	}{
		{&claude, "mcp__tipstaff__task_log", "tipstaff/task_log"},
		{&claude, "mcp__my__server__tool", "my__server/tool"},
		{&claude, "mcp__unknown__tool", "worker-claude/mcp__unknown__tool"},
		{&claude, "Bash", "worker-claude/Bash"},
		{&gemini, "mcp_tipstaff_task_log", "tipstaff/task_log"},
		{&gemini, "tipstaff__task_log", "tipstaff/task_log"},
		{&gemini, "write_file", "worker-gemini/write_file"},
		{&opencode, "tipstaff_task_ask", "tipstaff/task_ask"},
		{&opencode, "tipstaff_", "worker-opencode/tipstaff_"},
	} {
		server, tool := c.of.resolve(c.name, []string{"my", "tipstaff", "my__server"})
		if got := server + "/" + tool; got != c.want {
			t.Errorf("%s of %s is %s", c.name, c.of.name, got)
		}
	}
}

func TestLongContentIsCut(t *testing.T) {
	long := strings.Repeat("ä", 4<<10)
	events, _, _ := transcribe(&claude, []byte(callLine("a", "1", "Bash", `{}`)+"\n"+resultLine("1", `"`+long+`"`)+"\n"+long+"\n"), NoReport)
	for _, b := range events {
		switch b := b.(type) {
		case *tipstaff.AgentToolCallResult:
			if len(b.Content) != 4<<10 || b.Bytes != 8<<10 || b.Ref == "" {
				t.Errorf("%d of %d bytes, %q", len(b.Content), b.Bytes, b.Ref)
			}
		case *tipstaff.WorkerEvent:
			if len(b.Raw) != 4<<10 || b.Bytes != 8<<10 || b.Digest == "" {
				t.Errorf("%d of %d bytes, %q", len(b.Raw), b.Bytes, b.Digest)
			}
		}
	}
}

func fuzzStream(f *testing.F, of *cliType) {
	for file, stream := range recorded(f) {
		if typeOfStream(file) != of {
			continue
		}
		var short []byte // the fuzzer is slow with long ones
		for line := range bytes.Lines(stream) {
			if len(line) < 600 && len(short) < 2_000 {
				short = append(short, line...)
			}
		}
		f.Add(short)
	}
	f.Add([]byte("plain\n{\"type\":3}\n[]\nnull\n{}\n\n\xff\n{\"type\":\"result\"}\n{\"type\":\"result\"}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		outcome := NoReport
		if len(stream)%2 == 1 {
			outcome = Failed
		}
		events, _, silent := transcribe(of, stream, outcome)
		if silent != nil {
			t.Errorf("nothing is told of %q", silent)
		}
		checkOrder(t, events, true)
		for _, b := range events {
			if _, err := json.Marshal(b); err != nil {
				t.Errorf("%T: %v", b, err)
			}
		}
	})
}

func FuzzClaude(f *testing.F)   { fuzzStream(f, &claude) }
func FuzzCodex(f *testing.F)    { fuzzStream(f, &codex) }
func FuzzGemini(f *testing.F)   { fuzzStream(f, &gemini) }
func FuzzOpencode(f *testing.F) { fuzzStream(f, &opencode) }
func FuzzCursor(f *testing.F)   { fuzzStream(f, &cursor) }
func FuzzScripted(f *testing.F) { fuzzStream(f, &scripted) }

// lineList keeps what readLines hands over.
type lineList struct {
	lines  []string
	pieces []string
	ended  int
}

func (l *lineList) line(raw []byte) { l.lines = append(l.lines, string(raw)) }
func (l *lineList) piece(raw []byte, last bool) {
	l.pieces = append(l.pieces, string(raw))
	if last {
		l.ended++
	}
}
func (l *lineList) alive(bool) {}
func (l *lineList) quiet()     {}

func same(b []byte) []byte { return b }

func TestLinesOfAnyLength(t *testing.T) {
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 7, longest - 1, longest, longest + 1, longest + 5*window, 20 << 20} {
		text := strings.Repeat("x", size) + "\nnext\nrest"
		var l lineList
		if err := readLines(strings.NewReader(text), same, &l); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(l.pieces, "") + strings.Join(l.lines, ""); all != text {
			t.Errorf("%d: %d bytes of %d, %d lines, %d pieces", size, len(all), len(text), len(l.lines), len(l.pieces))
		}
		if long := size >= longest+chunk; long != (l.ended == 1) || len(l.lines) != map[bool]int{true: 2, false: 3}[l.ended == 1] {
			t.Errorf("%d: %d lines, %d pieces", size, len(l.lines), len(l.pieces))
		}
	}
}

// A credential is found wherever pieces of a long line end.
func TestSecretsInLongLines(t *testing.T) {
	const secret = "a-secret-of-some-length"
	clean := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(secret), []byte("***")) }
	line := strings.Repeat("0123456789"+secret, (18<<20)/(10+len(secret)))
	var l lineList
	if err := readLines(iotestHalf(line), clean, &l); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(l.pieces, "")
	if strings.Contains(all, "secret") || strings.Count(all, "***") != strings.Count(line, secret) {
		t.Errorf("%d of %d were replaced", strings.Count(all, "***"), strings.Count(line, secret))
	}
}

// iotestHalf reads in odd portions.
func iotestHalf(s string) io.Reader { return &oddReader{strings.NewReader(s)} }

type oddReader struct{ r io.Reader }

func (o *oddReader) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 4093)]) }

// nowhere takes lines as an invocation does, without files.
type nowhere struct {
	m *mapper
	r reader
}

func (n nowhere) line(raw []byte)    { n.m.line(n.r, raw) }
func (n nowhere) piece([]byte, bool) {}
func (n nowhere) alive(bool)         {}
func (n nowhere) quiet()             {}

// 100,000 events of Claude Code: text, calls and their results.
func BenchmarkStream(b *testing.B) {
	var stream bytes.Buffer
	for i := range 33_334 {
		fmt.Fprintln(&stream, textLine(fmt.Sprint("m", i), strings.Repeat("some words of the model ", 20)))
		fmt.Fprintln(&stream, callLine(fmt.Sprint("m", i), fmt.Sprint("c", i), "Bash", `{"command":"`+strings.Repeat("make test ", 30)+`","description":"x"}`))
		fmt.Fprintln(&stream, resultLine(fmt.Sprint("c", i), `"`+strings.Repeat("ok  \\tpackage\\t0.1s\\n", 60)+`"`))
	}
	b.SetBytes(int64(stream.Len()))
	b.ReportAllocs()
	for b.Loop() {
		log, err := openLogs(b.TempDir(), "i")
		if err != nil {
			b.Fatal(err)
		}
		m := newMapper(&claude, "w", "i", func(Body) {}, log.write)
		if err := readLines(bytes.NewReader(stream.Bytes()), same, nowhere{m, claude.reader(m)}); err != nil {
			b.Fatal(err)
		}
		m.settle()
		m.close(NoReport, "", "", tipstaff.ModelUsage{})
		if m.calls != 33_334 || m.steps != 33_334 || log.close() != nil {
			b.Fatal(m.calls, m.steps)
		}
	}
}

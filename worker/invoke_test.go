package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func TestHappyInvocation(t *testing.T) {
	b := newBed(t, "claude", happy(fakeStep{Out: callLine("m1", "c1", "mcp__tipstaff__task_set_status", `{"b":1,"a":2}`)}, reported, fakeStep{Out: resultLine("c1", `"ok"`)})...)
	r := b.spawn()
	if r.Outcome != Reported || r.Report.Status != tipstaff.TaskNeedsReview || r.Report.Reason != "it is done" {
		t.Fatalf("%s, %+v: %s", r.Outcome, r.Report, r.StderrTail)
	}
	if r.SessionID != anID || r.Text != "hello" || r.Steps != 1 || r.ToolCalls != 1 || !r.DenialsKnown || r.CLIVersion != "2.1.325" || r.Containment != "subreaper" || r.Exit.Code != 0 {
		t.Errorf("%+v", r)
	}
	if !r.UsageKnown || r.Usage.InputTokens != 12 || r.Usage.TotalTokens != 17 || r.Usage.CacheReadTokens != 2 || !r.CostKnown || r.CostUSD != 250_000_000 {
		t.Errorf("%+v, %v", r.Usage, r.CostUSD)
	}
	var kinds []string
	for _, e := range b.sink.events {
		kinds = append(kinds, strings.TrimPrefix(string(e.Kind()), "agent."))
	}
	if diff := cmp.Diff([]string{"worker.event", "step_started", "text_delta", "message", "tool_call_request", "tool_call_result", "finish"}, kinds); diff != "" {
		t.Error(diff)
	}
	request := b.sink.events[4].(*tipstaff.AgentToolCallRequest)
	if request.Server != "tipstaff" || request.Tool != "task_set_status" || request.Tier != tipstaff.TierMediated || string(request.Arguments) != `{"a":2,"b":1}` || request.ArgsDigest == "" {
		t.Errorf("%+v", request)
	}
	if s := b.sink.starts; len(s) != 1 || s[0].Family != "claude-2.1" || s[0].Identity.Pid == 0 || s[0].Posture != "read_only" || s[0].Settings != "none" || s[0].Resumed || s[0].Unenforced == nil {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{anID}, b.sink.sessions); diff != "" {
		t.Error(diff)
	}
	if got := b.seen()[0]; got.Input != "do it" || slices.Contains(got.Args, "do it") {
		t.Errorf("%q on stdin, %q", got.Input, got.Args)
	}
	if log := b.read(r.Logs.Readable); !strings.Contains(log, "» claude: hello") || !strings.Contains(log, "→ tipstaff/task_set_status") {
		t.Error(log)
	}
	if raw := b.read(r.Logs.Raw); !strings.HasSuffix(raw, endLine+"\n") {
		t.Error(raw)
	}
}

func TestEachTypeRuns(t *testing.T) {
	streams := map[string][]fakeStep{
		"claude":   happy(),
		"codex":    {connect, {Out: `{"type":"thread.started","thread_id":"` + anID + `"}`}, {Out: `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"hi"}}`}, {Out: `{"type":"turn.completed","usage":{"input_tokens":7,"output_tokens":1}}`}},
		"gemini":   {connect, {Out: `{"type":"init","session_id":"` + anID + `"}`}, {Out: `{"type":"message","role":"assistant","content":"hi","delta":true}`}, {Out: `{"type":"result","status":"success","stats":{"input_tokens":7,"output_tokens":1}}`}},
		"opencode": {connect, {Out: `{"type":"text","sessionID":"` + anID + `","part":{"messageID":"m","text":"hi"}}`}, {Out: `{"type":"step_finish","sessionID":"` + anID + `","part":{"reason":"stop","messageID":"m","tokens":{"input":7,"output":1},"cost":0.5}}`}},
		"cursor":   {connect, {Out: `{"type":"system","subtype":"init","session_id":"chat-1"}`}, {Out: `{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}`}, {Out: `{"type":"result","is_error":false,"result":"hi"}`}},
		"scripted": {connect, {Out: `{"kind":"session","id":"` + anID + `"}`}, {Out: `{"kind":"agent.message","body":{"step":1,"text":"hi"}}`}, {Out: `{"kind":"end","is_error":false,"usage":{"input_tokens":7,"output_tokens":1},"cost_usd":"0.5"}`}},
	}
	if diff := cmp.Diff([]string{"claude", "codex", "gemini", "opencode", "cursor", "scripted"}, Types()); diff != "" {
		t.Error(diff)
	}
	installed := Installed(func(program string) (string, error) {
		if program == "codex" || program == "cursor-agent" {
			return "/bin/" + program, nil
		}
		return "", exec.ErrNotFound
	})
	if diff := cmp.Diff([]string{"codex", "cursor"}, installed); diff != "" {
		t.Error(diff)
	}
	for typ, steps := range streams {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, typ, steps...)
			if rowsOf(typ)[0].makes == MadeByCLI {
				b.options.Session.ID = ""
			}
			r := b.spawn()
			want := map[bool]string{true: "chat-1", false: anID}[typ == "cursor"]
			if r.Outcome != NoReport || r.SessionID != want || r.UsageKnown == (typ == "cursor") || len(b.sink.sessions) != 1 || b.sink.sessions[0] != want {
				t.Errorf("%s, session %s, told %v: %s", r.Outcome, r.SessionID, b.sink.sessions, r.StderrTail)
			}
			b.options.Session.ID = r.SessionID
			if r := b.resume(); r.Outcome != NoReport {
				t.Errorf("resumed: %s: %s", r.Outcome, r.StderrTail)
			}
			token := b.read(filepath.Join(b.bin, tokenFile)) // of the second
			for _, s := range b.seen() {
				if all := strings.Join(append(s.Args, s.Env...), " "); len(token) != 64 || strings.Contains(all, token) || strings.Contains(all, tokenName) || strings.Contains(s.MCP, token) {
					t.Errorf("the token of the channel is with the CLI: %s", all)
				}
				if s.Input != "do it" || strings.Contains(strings.Join(s.Args, " "), "do it") || s.Dir != b.options.Dir {
					t.Errorf("%+v", s)
				}
				for _, v := range s.Env {
					if name, _, _ := strings.Cut(v, "="); !slices.Contains(b.options.Env, v) && !strings.HasPrefix(name, "TIPSTAFF_") && !SetsVariable(typ, name) {
						t.Errorf("a configuration could set %s, too", name)
					}
				}
			}
			if _, err := os.Stat(filepath.Join(b.options.Folder, tokenFile)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the token of the channel lies there: %v", err)
			}
			if typ == "cursor" {
				if _, err := os.Stat(filepath.Join(b.options.Dir, ".cursor")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the configuration stays behind: %v", err)
				}
			}
		})
	}
}

func TestOutcomesOfFakes(t *testing.T) {
	lost := "No conversation found with session ID: " + anID
	asks := fakeStep{Call: "task_ask", Args: `{"question":"which?"}`}
	cases := map[string]struct {
		steps   []fakeStep
		resume  bool
		outcome Outcome
		check   func(*bed, Result) bool
	}{
		"asks":             {happy(asks), false, Paused, func(_ *bed, r Result) bool { return r.Report.Question == "which?" }},
		"ends silently":    {[]fakeStep{connect}, false, Empty, nil},
		"declines in text": {[]fakeStep{connect, {Out: "Workspace not trusted."}}, false, Empty, func(b *bed, _ Result) bool { return slices.Contains(b.sink.notes(), "text") }},
		"exits 3":          {[]fakeStep{connect, {Out: initLine(anID)}, {Err: "bad luck", Exit: 3}}, false, Exited, func(_ *bed, r Result) bool { return r.Exit.Code == 3 && r.StderrTail == "bad luck" }},
		"exit 144":         {[]fakeStep{connect, {Out: initLine(anID)}, {Exit: 144}}, false, Exited, func(_ *bed, r Result) bool { return r.Exit == tipstaff.WorkerExit{Code: 144} }},
		"exit 143":         {[]fakeStep{connect, {Out: initLine(anID)}, {Exit: 143}}, false, Exited, func(_ *bed, r Result) bool { return r.Exit == tipstaff.WorkerExit{Code: 143} }},
		"dies":             {[]fakeStep{connect, {Out: initLine(anID)}, {Half: `{"type":"assi`, Die: true}}, false, Exited, func(_ *bed, r Result) bool { return r.Exit.Signal != "" && r.Exit.Code == 0 }},
		"half a line": {[]fakeStep{connect, {Out: initLine(anID)}, {Half: `{"type":"result","is_er`}}, false, Truncated, func(b *bed, r Result) bool {
			return strings.HasSuffix(b.read(r.Logs.Raw), `"is_er`) && slices.Contains(b.sink.notes(), "text")
		}},
		"id in use":          {[]fakeStep{{Err: "Error: Session ID " + anID + " is already in use.", Exit: 1}}, false, SessionConflict, nil},
		"unknown id":         {[]fakeStep{{Out: `{"type":"result","is_error":true,"subtype":"error_during_execution","num_turns":0}`}, {Err: lost, Exit: 1}}, true, SessionLost, nil},
		"unknown id in JSON": {[]fakeStep{{Out: `{"type":"result","is_error":true,"errors":["` + lost + `"]}`, Exit: 1}}, true, SessionLost, nil},
		"same text on spawn": {[]fakeStep{connect, {Err: lost, Exit: 1}}, false, Empty, nil},
		"error, success":     {[]fakeStep{connect, {Out: initLine(anID)}, {Out: `{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"}`}}, false, Failed, func(_ *bed, r Result) bool { return r.IsError }},
		"no channel":         {[]fakeStep{{Out: initLine(anID)}, {Out: endLine}}, false, ChannelFailed, nil},
		"denied": {happy(fakeStep{Out: `{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"c9","message":"no"}`}), false, Denied, func(_ *bed, r Result) bool {
			return len(r.Denials) == 1 && r.Denials[0].Tool == "worker-claude/Bash" && r.Denials[0].Reason == "no"
		}},
		"reported, then error": {[]fakeStep{connect, {Out: initLine(anID)}, reported, {Out: `{"type":"result","is_error":true}`, Exit: 1}}, false, Failed, func(_ *bed, r Result) bool { return r.Report.Status == tipstaff.TaskNeedsReview }},
		"changed id": {[]fakeStep{connect, {Out: initLine("other-id")}, {Out: strings.ReplaceAll(endLine, anID, "other-id")}}, true, NoReport, func(b *bed, r Result) bool {
			return r.SessionID == "other-id" && cmp.Equal(b.sink.sessions, []string{"other-id"})
		}},
		"budget":  {happy(fakeStep{Out: `{"type":"result","subtype":"error_max_budget_usd","is_error":true}`, Exit: 1}), false, Limit, func(_ *bed, r Result) bool { return r.Which == "cost_usd" }},
		"retries": {happy(fakeStep{Out: `{"type":"system","subtype":"api_retry","attempt":1}`, Repeat: 2_000}), false, NoReport, func(b *bed, _ Result) bool { return slices.Contains(b.sink.notes(), "retry") }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "claude", c.steps...)
			var r Result
			if r = b.invoke(t.Context(), c.resume); r.Outcome != c.outcome {
				t.Fatalf("%s, not %s: %s", r.Outcome, c.outcome, r.StderrTail)
			}
			if c.check != nil && !c.check(b, r) {
				t.Errorf("%+v\n%v", r, b.sink.notes())
			}
			checkOrder(t, b.sink.events, true)
		})
	}
}

// What a CLI says went wrong is recorded as far as a record can have it.
func TestAnErrorOfAWorkerIsCut(t *testing.T) {
	b := newBed(t, "claude", connect, fakeStep{Out: initLine(anID)},
		fakeStep{Out: `{"type":"result","subtype":"success","is_error":true,"result":"API Error: ` + strings.Repeat("x", 1<<20) + ` the end"}`})
	if r := b.spawn(); r.Outcome != Failed {
		t.Fatalf("it came to %s", r.Outcome)
	}
	said, ok := b.sink.events[len(b.sink.events)-1].(*tipstaff.AgentError)
	if !ok || len(said.Msg) > flow.MostMessage || !strings.Contains(said.Msg, "API Error: x") || !strings.HasSuffix(said.Msg, "x the end") {
		t.Errorf("%d bytes are recorded last: %.100v", len(flow.JSON(b.sink.events[len(b.sink.events)-1])), b.sink.events[len(b.sink.events)-1])
	}
}

func TestApprovalIsPending(t *testing.T) {
	b := newBed(t, "claude", slices.Concat([]fakeStep{connect, {Out: initLine(anID)}, {Out: callLine("m1", "toolu_1", "Bash", `{"command":"ls"}`)},
		{Call: "approve", Args: `{"tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"toolu_1"}`},
		{Out: `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"The user doesn't want to proceed"}]}}`},
		{Out: `{"type":"result","is_error":true,"subtype":"error_during_execution","permission_denials":[{"tool_name":"Bash","tool_use_id":"toolu_1","tool_input":{"command":"ls"}}]}`, Exit: 1}})...)
	b.options.Posture = Auto
	b.options.Policy = ruled{"worker-claude/Bash": {Effect: Ask, Rules: []string{"r1"}}}
	r := b.spawn()
	if r.Outcome != Approval || len(r.Pending) != 1 || r.Pending[0].CallID != "toolu_1" || len(r.Denials) != 0 || !r.IsError {
		t.Fatalf("%s %+v %+v: %s", r.Outcome, r.Pending, r.Denials, r.StderrTail)
	}
	for _, e := range b.sink.events {
		if result, ok := e.(*tipstaff.AgentToolCallResult); ok && result.Class != "not_executed" {
			t.Errorf("%+v", result)
		}
	}
	checkOrder(t, b.sink.events, true)
}

func TestCallsThatPassedTheHookAreMediated(t *testing.T) {
	b := newBed(t, "claude", happy(fakeStep{Out: callLine("m1", "toolu_1", "Bash", `{"command":"ls"}`)},
		fakeStep{Call: "approve", Args: `{"tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"toolu_1"}`}, fakeStep{Out: resultLine("toolu_1", `[{"type":"text","text":"a\nb"},{"type":"image"}]`)},
		fakeStep{Out: callLine("m2", "toolu_2", "Read", `{"file_path":"x"}`)}, fakeStep{Out: resultLine("toolu_2", `"x"`)})...)
	b.options.Posture = Write
	b.options.Policy = ruled{"worker-claude/Bash": {Effect: Allow, Rules: []string{"r1"}, Digest: "d"}, "Edit": {Effect: Deny, Rules: []string{"no edits"}}, "Write": {Effect: Allow}, "Bash": {Effect: Allow}}
	b.spawn()
	var decided *tipstaff.AgentApprovalDecided
	tiers := map[string]string{}
	for _, e := range b.sink.events {
		switch e := e.(type) {
		case *tipstaff.AgentApprovalDecided:
			decided = e
		case *tipstaff.AgentToolCallRequest:
			if e.Tool != "task_set_status" && e.Tier != "" {
				t.Errorf("%s is %s before anybody was asked about it", e.ID, e.Tier)
			}
		case *tipstaff.AgentToolCallResult:
			tiers[e.ID] = e.Tier
			if e.ID == "toolu_1" && e.Content != "a\nb\n[image]" {
				t.Errorf("%q", e.Content)
			}
		}
	}
	if decided == nil || decided.Rule != "r1" || decided.PolicyDigest != "d" || tiers["toolu_1"] != "mediated" || tiers["toolu_2"] != "reported" {
		t.Errorf("%+v, %v", decided, tiers)
	}
	if got := b.sink.starts[0].Unenforced; !slices.Contains(got, "no edits: deny Edit") || slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, " Write") || strings.Contains(s, "Bash") }) {
		t.Errorf("%q", got)
	}
}

func TestLimitsStopTheCLI(t *testing.T) {
	forever := fakeStep{Forever: true}
	begun := []fakeStep{connect, {Out: initLine(anID)}, {Out: textLine("m1", "hello")}}
	cases := map[string]struct {
		steps  []fakeStep
		limits Limits
	}{
		"wall":     {append(begun, forever), Limits{Wall: 300 * time.Millisecond}},
		"idle":     {append(begun, forever), Limits{Idle: 300 * time.Millisecond}},
		"output":   {append(begun, fakeStep{Out: strings.Repeat("x", 1<<16), Repeat: 1 << 14}, forever), Limits{Output: 4 << 20}},
		"tokens":   {append(begun, forever), Limits{Tokens: 14}},
		"cost_usd": {append(begun, forever), Limits{CostUSD: 1}},
	}
	for which, c := range cases {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "claude", c.steps...)
			c.limits.Grace = 5 * time.Second
			b.options.Limits = c.limits
			b.options.Price = func(string, tipstaff.ModelUsage) (tipstaff.USD, bool) { return 2, true }
			began := time.Now()
			r := b.spawn()
			if r.Outcome != Limit || r.Which != which || time.Since(began) > 11*time.Second {
				t.Errorf("%s at %q after %v: %s", r.Outcome, r.Which, time.Since(began), r.StderrTail)
			}
			if info, err := os.Stat(r.Logs.Raw); err != nil || c.limits.Output > 0 && info.Size() > c.limits.Output {
				t.Errorf("%v bytes of log, %v", info.Size(), err)
			}
			if r.UsageKnown || r.CostKnown {
				t.Error("what a stopped CLI used is not known")
			}
			checkOrder(t, b.sink.events, true)
		})
	}
}

// Notices of retries are no sign of life, neither on stdout nor on stderr; other output is.
func TestRetriesDoNotResetIdle(t *testing.T) {
	for name, c := range map[string]struct {
		typ   string
		step  fakeStep
		which string
	}{
		"stdout":       {"claude", fakeStep{Out: `{"type":"system","subtype":"api_retry"}`}, "idle"},
		"stderr":       {"gemini", fakeStep{Err: "Attempt 3 failed. Retrying with backoff... Error: no\n    at f (a.js:1:2) {\n  status: 500\n}"}, "idle"},
		"other":        {"claude", fakeStep{Out: `{"type":"system","subtype":"status"}`}, "wall"},
		"other stderr": {"gemini", fakeStep{Err: "still here"}, "wall"},
		"half lines":   {"claude", fakeStep{Half: "."}, "wall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.step.Pause, c.step.Repeat = 100*time.Millisecond, 600
			b := newBed(t, c.typ, connect, fakeStep{Out: initLine(anID)}, c.step)
			b.options.Limits.Wall, b.options.Limits.Idle = 3*time.Second, 1500*time.Millisecond
			if r := b.spawn(); r.Outcome != Limit || r.Which != c.which {
				t.Errorf("%s at %q, not at %q: %s", r.Outcome, r.Which, c.which, r.StderrTail)
			}
		})
	}
}

func TestStubbornProcessesAreEnded(t *testing.T) {
	b := newBed(t, "claude", connect, fakeStep{Deaf: true, Child: "own", Out: initLine(anID), Forever: true})
	var r Result
	for wall := 300 * time.Millisecond; wall < 30*time.Second; wall *= 3 {
		b.options.Limits = Limits{Wall: wall, Grace: 300 * time.Millisecond}
		if r = b.spawn(); r.Exit.Signal != "terminated" { // before it was deaf, on a busy machine
			break
		}
	}
	if r.Outcome != Limit || r.Exit.Signal != "killed" || len(r.Leftover) != 1 {
		t.Errorf("%s, %+v, %+v", r.Outcome, r.Exit, r.Leftover)
	}
}

func TestLeftoverOfANormalEnd(t *testing.T) {
	b := newBed(t, "claude", happy(fakeStep{Child: "own"}, reported)...)
	if r := b.spawn(); r.Outcome != Reported || len(r.Leftover) != 1 {
		t.Errorf("%s, %+v", r.Outcome, r.Leftover)
	}
}

// A process that nothing can end keeps the pipes open; the call returns all the same.
func TestHeldPipesAreGivenUp(t *testing.T) {
	b := newBed(t, "claude", happy(fakeStep{Child: "bare"}, reported)...)
	b.config.drain = 200 * time.Millisecond
	r := b.spawn()
	for _, name := range processes() {
		if line, _ := os.ReadFile("/proc/" + name + "/cmdline"); strings.HasPrefix(string(line), sleeper) {
			if env, _ := os.ReadFile("/proc/" + name + "/environ"); len(env) == 0 {
				var pid int
				_, _ = fmt.Sscan(name, &pid)
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
	}
	if r.Outcome != Reported || r.DurationMS > 20_000 {
		t.Errorf("%s after %d ms", r.Outcome, r.DurationMS)
	}
}

func TestCancel(t *testing.T) {
	b := newBed(t, "claude", connect, fakeStep{Out: initLine(anID)}, fakeStep{Out: callLine("m1", "c1", "Bash", `{}`)}, fakeStep{Forever: true})
	ctx, cancel := context.WithCancel(t.Context())
	sink := &cancelSink{memorySink: b.sink, cancel: cancel}
	b.options.Sink = sink
	if r := b.invoke(ctx, false); r.Outcome != Cancelled {
		t.Errorf("%s: %s", r.Outcome, r.StderrTail)
	}
	checkOrder(t, b.sink.events, true)
}

// cancelSink cancels at the first call.
type cancelSink struct {
	*memorySink
	cancel context.CancelFunc
}

func (s *cancelSink) Event(b Body) {
	s.memorySink.Event(b)
	if _, ok := b.(*tipstaff.AgentToolCallRequest); ok {
		s.cancel()
	}
}

func TestLingeringIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		say     fakeStep
		outcome Outcome
	}{
		"reported": {reported, Reported},
		"asked":    {fakeStep{Call: "task_ask", Args: `{"question":"?"}`}, Paused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "claude", connect, fakeStep{Out: initLine(anID)}, c.say, fakeStep{Forever: true})
			b.config.linger = 300 * time.Millisecond
			if r := b.spawn(); r.Outcome != c.outcome {
				t.Errorf("%s: %s", r.Outcome, r.StderrTail)
			}
		})
	}
}

func TestNoChannel(t *testing.T) {
	t.Run("late", func(t *testing.T) {
		b := newBed(t, "claude", fakeStep{Out: initLine(anID)}, fakeStep{Forever: true})
		b.config.connect = 300 * time.Millisecond
		if r := b.spawn(); r.Outcome != ChannelFailed || !strings.Contains(r.StderrTail, "has not connected") {
			t.Errorf("%s: %s", r.Outcome, r.StderrTail)
		}
	})
	t.Run("failed", func(t *testing.T) {
		b := newBed(t, "claude", fakeStep{Out: `{"type":"system","subtype":"init","mcp_servers":[{"name":"tipstaff","status":"failed"}]}`}, fakeStep{Forever: true})
		if r := b.spawn(); r.Outcome != ChannelFailed || !strings.Contains(r.StderrTail, "failed") {
			t.Errorf("%s: %s", r.Outcome, r.StderrTail)
		}
	})
	t.Run("codex", func(t *testing.T) {
		b := newBed(t, "codex", fakeStep{Err: "Error: required MCP servers failed to initialize: tipstaff: handshaking failed", Exit: 1})
		if r := b.spawn(); r.Outcome != ChannelFailed {
			t.Errorf("%s: %s", r.Outcome, r.StderrTail)
		}
	})
}

func TestWhatCannotBeStarted(t *testing.T) {
	b := newBed(t, "claude")
	b.starter.fail = errors.New("exec format error")
	if r := b.spawn(); r.Outcome != StartFailed || !strings.Contains(r.StderrTail, "exec format error") {
		t.Errorf("%s: %s", r.Outcome, r.StderrTail)
	}
	checkOrder(t, b.sink.events, true)
}

// If the start cannot be recorded, the process must not go on.
func TestUnrecordedStart(t *testing.T) {
	b := newBed(t, "claude", connect, fakeStep{Forever: true})
	b.sink.refuse = errors.New("the store is full")
	if r := b.spawn(); r.Outcome != StartFailed || !strings.Contains(r.StderrTail, "the store is full") {
		t.Errorf("%s: %s", r.Outcome, r.StderrTail)
	}
}

func TestSecretsAreInNoLog(t *testing.T) {
	const key, secret = "sk-ant-0123456789abcdef", "hunter2-hunter2"
	b := newBed(t, "claude", happy(
		fakeStep{Half: `{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"the key is sk-ant-01234`, Pause: 50 * time.Millisecond},
		fakeStep{Out: `56789abcdef, and hunter2-hunter2"}]}}`},
		fakeStep{Out: callLine("m3", "c1", "Bash", `{"command":"echo `+secret+`"}`)}, fakeStep{Out: resultLine("c1", `"`+key+`"`)},
		fakeStep{Err: "error: " + key}, fakeStep{Out: key}, fakeStep{Token: true},
		fakeStep{Half: strings.Repeat("y", longest) + key + strings.Repeat("z", 100<<10)}, fakeStep{Out: key})...)
	b.options.Env = append(b.options.Env, "ANTHROPIC_API_KEY="+key)
	b.options.Redact = func(line []byte) []byte { return []byte(strings.ReplaceAll(string(line), secret, "$env:SECRET")) }
	r := b.spawn()
	token := b.read(filepath.Join(b.bin, tokenFile))
	all := fmt.Sprintf("%+v", r)
	for _, e := range b.sink.events {
		all += fmt.Sprintf("%+v\n", e)
	}
	for _, name := range []string{r.Logs.Raw, r.Logs.Readable, strings.TrimSuffix(r.Logs.Raw, ".jsonl") + ".stderr"} {
		all += b.read(name)
	}
	if token == "" || strings.Contains(all, key) || strings.Contains(all, secret) || strings.Contains(all, token) {
		t.Errorf("a secret is in the logs, events or the result (token %v, key %v)", strings.Contains(all, token), strings.Contains(all, key))
	}
	if n := strings.Count(all, "$env:ANTHROPIC_API_KEY"); n < 6 {
		t.Errorf("%d replacements", n)
	}
}

func TestStrangeLinesAreKept(t *testing.T) {
	b := newBed(t, "claude", happy(
		fakeStep{Out: `{"type":"novelty","x":1}`}, fakeStep{Out: "plain \x1b[31mred"}, fakeStep{Out: `["a list"]`}, fakeStep{Out: `{"type":7}`},
		fakeStep{Half: `{"type":"assistant","message":"` + strings.Repeat("a", 10<<20)}, fakeStep{Out: strings.Repeat("b", 10<<20) + `"}`})...)
	r := b.spawn()
	raw, log := b.read(r.Logs.Raw), b.read(r.Logs.Readable)
	if !strings.Contains(raw, strings.Repeat("b", 10<<20)+"\"}\n") || !strings.Contains(raw, "plain \x1b[31mred\n") || !strings.Contains(raw, `{"type":"novelty","x":1}`) {
		t.Error("the raw log is not what was printed")
	}
	if !strings.Contains(log, `plain \u001b[31mred`) || !strings.Contains(log, "novelty") || !strings.Contains(log, "(20971553 bytes)") {
		t.Error(log[:min(len(log), 4000)])
	}
	if diff := cmp.Diff([]string{"init", "unknown", "text", "text", "unknown", "unknown"}, b.sink.notes()); diff != "" {
		t.Error(diff)
	}
	if r.Outcome != NoReport {
		t.Errorf("%s: %s", r.Outcome, r.StderrTail)
	}
}

// Totals that a CLI counts over its session become those of each invocation.
func TestCumulativeTotals(t *testing.T) {
	t.Run("claude", func(t *testing.T) {
		b := newBed(t, "claude")
		for n, total := range []string{"0.10", "0.25", "0.40", "0.05"} {
			b.script("2.1.325", connect, fakeStep{Out: initLine(anID)}, fakeStep{Out: `{"type":"result","is_error":false,"total_cost_usd":` + total + `,"usage":{"input_tokens":10,"output_tokens":1}}`})
			r := b.invoke(t.Context(), n > 0)
			want := []tipstaff.USD{100_000_000, 150_000_000, 150_000_000, 50_000_000}[n]
			if r.CostUSD != want || r.Usage.TotalTokens != 11 || slices.Contains(b.sink.notes(), "warning") != (n == 3) {
				t.Errorf("%d: %v, %d tokens, %v", n, r.CostUSD, r.Usage.TotalTokens, b.sink.notes())
			}
			b.options.Session.Totals = r.Totals
		}
	})
	t.Run("codex", func(t *testing.T) {
		b := newBed(t, "codex")
		for n, total := range []int{11, 22, 44, 5} {
			b.script("0.166.0", connect, fakeStep{Out: fmt.Sprintf(`{"type":"turn.completed","usage":{"input_tokens":%d,"output_tokens":0}}`, total)})
			r := b.invoke(t.Context(), n > 0)
			if want := []int64{11, 11, 22, 5}[n]; r.Usage.InputTokens != want || !r.UsageKnown || r.CostKnown {
				t.Errorf("%d: %+v", n, r.Usage)
			}
			b.options.Session.Totals = r.Totals
		}
	})
}

func TestManyInvocationsAtOnce(t *testing.T) {
	before := descriptors(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[Outcome]int{}
	var starters []*execStarter
	for range 50 {
		b := newBed(t, "claude", happy(reported)...)
		starters = append(starters, b.starter)
		all.Go(func() {
			w, err := New(b.config)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := w.Spawn(t.Context(), b.options)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
		})
	}
	all.Wait()
	if outcomes[Reported] != 50 {
		t.Error(outcomes)
	}
	for _, s := range starters {
		s.close()
	}
	if after := descriptors(t); after > before+4 { // the runtime may have opened some of its own
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

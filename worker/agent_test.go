package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

const agentScript = `
version: 1
answers:
  - {when: {turn: 1, step: 1}, text: I look at it., calls: [{tool: tipstaff/task_status}, {tool: worker-scripted/read_file, args: {path: in.txt}}]}
  - {when: {turn: 1, step: 2, result: secret}, calls: [{tool: worker-scripted/write_file, id: w1, args: {path: out.txt, content: hello}}]}
  - {when: {turn: 1, step: 3}, calls: [{tool: tipstaff/task_log, args: {text: written}}, {tool: tipstaff/task_output, args: {kind: file, path: out.txt}}]}
  - {when: {turn: 1, step: 4}, calls: [{tool: tipstaff/task_set_status, args: {status: needs_review, reason: out.txt is there}}]}
  - {when: {turn: 1, step: 5}, text: Done., usage: {input_tokens: 10, output_tokens: 2}}
  - {when: {turn: 2, step: 1}, calls: [{tool: worker-scripted/exec, id: x1, args: {argv: [touch, touched]}}]}
  - {when: {turn: 2, step: 2}, text: Touched.}
  - {when: {turn: 3, step: 1}, calls: [{tool: worker-scripted/exec, id: x2, args: {argv: [touch, touched]}}]}
  - {when: {turn: 3, step: 2}, text: Touched at last.}
  - {when: {user: "^Write no", step: 1}, calls: [{tool: worker-scripted/write_file, args: {path: no.txt, content: no}}]}
  - {when: {user: "^Write no", step: 2, result: "did not allow|denies"}, text: I may not.}
  - {when: {user: "^Write no", step: 2}, text: I might.}
`

// agentRun is an invocation of the scripted worker's program.
type agentRun struct {
	exit     int
	out, err string
	lines    []agentLine
	channel  channel
	task     *fakeTask
}

type agentLine struct {
	Kind    string
	ID      string
	IsError bool                 `json:"is_error"`
	Usage   *tipstaff.ModelUsage `json:"usage"`
	Body    struct {
		Server, Tool, Text, Decision, Class string
	}
}

// agentBinary is the command as it is released: the one that TIPSTAFF_BINARY names, as in
// make test, or one that is built. With the race detector that would take minutes.
func agentBinary(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("TIPSTAFF_BINARY"); given != "" {
		return given
	}
	binary := filepath.Join(t.TempDir(), "tipstaff")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "github.com/tipstaff/tipstaff/cmd/tipstaff")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// The program of scripted workers against a channel, as an invocation runs it.
func TestScriptedWorker(t *testing.T) {
	binary := agentBinary(t)
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{filepath.Join(dir, "in.txt"): "a secret", filepath.Join(home, "script.yaml"): agentScript} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	posture := Auto
	run := func(t *testing.T, p Policy, prompt string, args ...string) agentRun {
		t.Helper()
		r := agentRun{task: new(fakeTask)}
		r.channel = opened(t, r.task, p, channelOptions{Type: "scripted", Hook: p != nil, Dir: dir})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, binary, append([]string{"worker-agent", "--script", filepath.Join(home, "script.yaml")}, args...)...)
		var out, errs bytes.Buffer
		c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader(prompt), &out, &errs
		c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TIPSTAFF_WORKER_HOME=" + home, "TIPSTAFF_WORKER_POSTURE=" + string(posture), "GORACE=atexit_sleep_ms=0"}, r.channel.environ()...)
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		r.exit, r.out, r.err = c.ProcessState.ExitCode(), out.String(), errs.String()
		r.channel.close()
		for line := range strings.Lines(r.out) {
			var l agentLine
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			r.lines = append(r.lines, l)
		}
		return r
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	allow := func(grants ...Grant) Policy {
		return NewPolicy(PolicyOptions{Frozen: table{"write_file": {Effect: Allow, Rules: []string{"writes"}, Digest: "sha256:p"}, "exec": {Effect: Ask, Rules: []string{"commands"}}}, Type: "scripted", Dir: dir, Grants: grants})
	}
	const id = "6f1f7f6e-0000-5000-8000-000000000001"

	r := run(t, allow(), "Write it.", "--session", id)
	if r.exit != 0 || !exists("out.txt") {
		t.Fatalf("exit %d, stderr %q\n%s", r.exit, r.err, r.out)
	}
	if diff := cmp.Diff([]string{"log info written", "output file out.txt", "status needs_review out.txt is there"}, r.task.kept()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if rule, digest, ok := r.channel.passed("w1"); !ok || rule != "writes" || digest != "sha256:p" || r.channel.report().Status != tipstaff.TaskNeedsReview {
		t.Errorf("%q %q %v %+v", rule, digest, ok, r.channel.report())
	}
	first, last := r.lines[0], r.lines[len(r.lines)-1]
	if first.Kind != "session" || first.ID != id || last.Kind != "end" || last.IsError || last.Usage == nil || last.Usage.OutputTokens < 2 {
		t.Errorf("%+v … %+v", first, last)
	}
	var kinds, tools []string
	for _, l := range r.lines[1 : len(r.lines)-1] {
		if l.Kind != "agent.text_delta" {
			kinds = append(kinds, strings.TrimPrefix(l.Kind, "agent."))
		}
		if l.Kind == "agent.tool_call_request" {
			tools = append(tools, l.Body.Server+"/"+l.Body.Tool)
		}
	}
	if got := strings.Join(tools, " "); got != "tipstaff/task_status worker-scripted/read_file worker-scripted/write_file tipstaff/task_log tipstaff/task_output tipstaff/task_set_status" {
		t.Error(got)
	}
	if kinds[0] != "step_started" || kinds[len(kinds)-1] != "finish" || strings.Contains(r.out, "approval_requested") {
		t.Error(kinds)
	}

	t.Run("an id in use", func(t *testing.T) {
		if r := run(t, allow(), "Again.", "--session", id); r.exit != 1 || r.out != "" || !strings.Contains(r.err, "session id "+id+" is in use") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an unknown id", func(t *testing.T) {
		other := strings.Replace(id, "1", "2", 1)
		if r := run(t, allow(), "Again.", "--resume", other); r.exit != 1 || r.out != "" || !strings.Contains(r.err, "no session "+other) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("arguments that make no sense", func(t *testing.T) {
		for _, args := range [][]string{{}, {"--session", id, "--resume", id}, {"--session", "../" + id}, {"--session", id, "more"}} {
			if r := run(t, allow(), "Again.", args...); r.exit != 2 || r.out != "" || !strings.Contains(r.err, "usage") {
				t.Errorf("%v: %+v", args, r)
			}
		}
	})
	t.Run("asks, is interrupted, and goes on with a grant", func(t *testing.T) {
		r := run(t, allow(), "Touch it.", "--resume", id)
		last := r.lines[len(r.lines)-1]
		if r.exit != 1 || last.Kind != "end" || !last.IsError || exists("touched") {
			t.Errorf("exit %d, stderr %q\n%s", r.exit, r.err, r.out)
		}
		pending := r.channel.pending()
		if len(pending) != 1 || pending[0].Tool != "worker-scripted/exec" || pending[0].CallID != "x1" || pending[0].Rule != "commands" || string(pending[0].Args) != `{"argv":["touch","touched"]}` {
			t.Fatalf("%+v", pending)
		}
		r = run(t, allow(grantFor(pending[0], false)), "It is allowed: repeat it.", "--resume", id)
		if r.exit != 0 || !exists("touched") || !strings.Contains(r.out, "Touched at last.") {
			t.Errorf("exit %d, stderr %q\n%s", r.exit, r.err, r.out)
		}
	})
	t.Run("without a hook nothing is changed", func(t *testing.T) {
		r := run(t, nil, "Write no.txt.", "--resume", id)
		if r.exit != 0 || exists("no.txt") || !strings.Contains(r.out, "I may not.") {
			t.Errorf("exit %d, stderr %q\n%s", r.exit, r.err, r.out)
		}
	})
	t.Run("postures", func(t *testing.T) {
		defer func() { posture = Auto }()
		deny := NewPolicy(PolicyOptions{Frozen: table{"write_file": {Effect: Deny, Rules: []string{"no"}}}, Type: "scripted", Dir: dir})
		for _, c := range []struct {
			posture Posture
			policy  Policy
			written bool
		}{{ReadOnly, allow(), false}, {Auto, deny, false}, {Auto, allow(), true}, {Write, deny, true}, {Bypass, nil, true}} {
			posture = c.posture
			r := run(t, c.policy, "Write no.txt.", "--resume", id)
			if r.exit != 0 || exists("no.txt") != c.written || strings.Contains(r.out, "I may not.") == c.written {
				t.Errorf("%s: exit %d, written %v, stderr %q\n%s", c.posture, r.exit, exists("no.txt"), r.err, r.out)
			}
			_ = os.Remove(filepath.Join(dir, "no.txt"))
		}
	})
	t.Run("without a channel nothing runs", func(t *testing.T) {
		c := exec.Command(binary, "worker-agent", "--script", filepath.Join(home, "script.yaml"), "--session", strings.Replace(id, "1", "3", 1))
		c.Stdin, c.Env = strings.NewReader("a"), []string{"TIPSTAFF_WORKER_HOME=" + home}
		if out, err := c.Output(); err == nil || len(out) > 0 {
			t.Errorf("%v, %s", err, out)
		}
	})
	t.Run("the relay", func(t *testing.T) {
		task := new(fakeTask)
		ch := opened(t, task, nil, channelOptions{Type: "codex"})
		c := exec.Command(binary, "worker-mcp")
		c.Env = ch.environ() // which has no token
		c.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_log","arguments":{"text":"by the relay"}}}` + "\n")
		out, err := c.Output()
		if err != nil || !strings.Contains(string(out), `"logged"`) {
			t.Errorf("%v: %s", err, out)
		}
		again := exec.Command(binary, "worker-mcp")
		again.Env = ch.environ()
		if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "has had its connection") {
			t.Errorf("%v: %s", err, out)
		}
		if diff := cmp.Diff([]string{"log info by the relay"}, task.kept()); diff != "" {
			t.Error(diff)
		}
	})
}

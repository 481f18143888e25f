//go:build linux

package clis

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// cursor is the stand-in for cursor-agent, run as its documentation says. It is no real
// CLI: what is recorded of it is its documented form.
type cursor struct {
	*bench
	program string
}

// buildCursor builds the stand-in.
func buildCursor(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "cursor-agent")
	flags, env := cmdtest.BuildFlags()
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", program, "github.com/tipstaff/tipstaff/test/clis/cursor")...)
	build.Env = env
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

func newCursor(t *testing.T) cursor {
	t.Helper()
	program := buildCursor(t)
	c := cursor{&bench{TB: t, cli: standin{}, root: t.TempDir(), run: "cursor" + filepath.Base(t.TempDir())}, program}
	for _, dir := range []string{c.dir(), c.home()} {
		c.check(os.MkdirAll(dir, 0o755))
	}
	c.file("repo/.cursor/mcp.json", quoted(map[string]any{"mcpServers": map[string]any{"tipstaff": map[string]any{"command": os.Args[0], "args": []string{channelCommand}}}}))
	return c
}

func (c cursor) ask(prompt string, args ...string) ended {
	c.Helper()
	cmd := exec.Command(c.program, args...)
	cmd.Dir = c.dir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home(), "CURSOR_CONFIG_DIR=" + c.root + "/private", "TIPSTAFF_MCP_SOCKET=" + c.channel(), "TIPSTAFF_RUN_ID=" + c.run}
	cmd.Stdin = strings.NewReader(prompt)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run() // how it ended is in its state
	return ended{out: out.String(), err: errs.String(), code: cmd.ProcessState.ExitCode()}
}

func TestCursorStandIn(t *testing.T) {
	t.Parallel()
	c := newCursor(t)
	id := strings.TrimSpace(c.must(c.ask("", "create-chat"), 0).out)
	mode := []string{"-p", "--output-format", "stream-json"}
	trusted := append(mode, "--trust", "--force", "--sandbox", "enabled", "--approve-mcps")

	declined := c.must(c.keep("untrusted", c.ask("say hello", append(mode, "--resume", id)...)), 0, "Workspace Trust Required")
	if len(declined.lines()) != 0 {
		t.Errorf("it answered %v", declined)
	}
	first := c.must(c.keep("write", c.ask("say I write.\nwrite made.txt by the model\nrun cat made.txt\nsay done", append(trusted, "--resume", id)...)), 0, `"writeToolCall"`, `"exitCode":0`)
	if got := c.session(first); got != id {
		t.Errorf("the session is %q, not %q", got, id)
	}
	if got := c.read("made.txt"); got != "by the model" {
		t.Errorf("the file is %q", got)
	}
	c.must(c.keep("resume", c.ask("go on", append(trusted, "--resume", id)...)), 0, "prompt 2 of this chat")
	c.must(c.keep("channel", c.ask(`mcp tipstaff task_set_status {"status":"needs_review","reason":"done"}`, append(trusted, "--resume", id)...)), 0, "the status is set")
	c.channelTold("task_set_status")
	c.must(c.keep("unapproved", c.ask("write other.txt x", append(mode, "--trust", "--resume", id)...)), 0, "needs an approval")
	c.file("private/cli-config.json", `{"permissions":{"allow":["Read(**)"],"deny":["Write(**)","Shell(**)"]}}`)
	c.must(c.keep("denied", c.ask("write other.txt x\nrun echo x > other.txt", append(trusted, "--resume", id)...)), 0, "Write is denied", "Shell is denied")
	if got := c.read("other.txt"); got != "" {
		t.Errorf("%q was written", got)
	}
	c.must(c.keep("error", c.ask("fail the model is gone", append(trusted, "--resume", id)...)), 1, `"is_error":true`)
	c.must(c.keep("unknown-id", c.ask("go on", append(trusted, "--resume", "no-such-chat")...)), 1, "not found")
}

// standin tells where what the stand-in prints is recorded, and how it is a worker.
type standin struct {
	claude
	program string
}

func (standin) name() string { return "cursor" }

func (s standin) worker(*workspace) map[string]any { return map[string]any{"command": s.program} }

func (standin) passed(*workspace) []string { return []string{"CURSOR_API_KEY=x"} }

// The prompt is the stand-in's script: lines of the task and of answers are its verbs.
const cursorReport = `mcp tipstaff task_set_status {"status":"needs_review","reason":"done"}`

func TestCursorThroughTipstaff(t *testing.T) {
	installed(t)
	t.Parallel()
	program := buildCursor(t)
	t.Run("spawn and resume", func(t *testing.T) {
		w := newWorkspace(t, standin{program: program}, worker{posture: write, task: "write made.txt by the model\nmcp tipstaff task_ask {\"question\":\"which colour?\"}"})
		w.must(4, "task", "spawn", w.task)
		if got := w.worktree("made.txt"); got != "by the model" {
			t.Errorf("the worktree has %q", got)
		}
		shown := w.is("paused", "paused")
		w.ends("task", "resume", w.task, "run printf teal > colour.txt\n"+cursorReport)
		if got := w.worktree("colour.txt"); got != "teal" {
			t.Errorf("after the answer the worktree has %q", got)
		}
		if raw := w.logs(".jsonl"); !strings.Contains(raw, shown.Session) || !strings.Contains(raw, "prompt 2 of this chat") {
			t.Errorf("session %q was not gone on with:\n%s", shown.Session, clip(raw))
		}
		w.completed()
	})
	t.Run("declines without --trust", func(t *testing.T) {
		careful := filepath.Join(t.TempDir(), "cursor-agent")
		script := "#!/bin/sh\nfor a do shift; [ \"$a\" = --trust ] || set -- \"$@\" \"$a\"; done\nexec " + program + " \"$@\"\n"
		if err := os.WriteFile(careful, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		w := newWorkspace(t, standin{program: careful}, worker{posture: write, task: cursorReport})
		w.must(4, "task", "spawn", w.task).Says(t, "Workspace Trust Required")
		w.is("paused", "empty")
		w.nothingLeft()
		w.must(0, "verify", w.show().Run, "--open")
	})
}

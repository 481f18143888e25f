//go:build linux

package clis

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/clis/api"
)

// each runs a test with every CLI.
func each(t *testing.T, test func(*testing.T, cli)) {
	for _, c := range clis {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// slow skips what takes minutes and is seen through Tipstaff as well: it makes the
// recordings.
func slow(t *testing.T) {
	t.Helper()
	if !*record {
		t.Skip("TestThroughTipstaff has these cases, too; -record runs and records them")
	}
}

// Ids as Tipstaff makes them; Codex and opencode make their own.
const (
	firstID   = "7f2c1c5e-52c1-5d8e-9a52-1f0e4f3b9a01"
	unknownID = "11111111-2222-5333-8444-555555555555"
)

func report(status, reason string) api.Call {
	return api.Call{Tool: "task_set_status", Args: map[string]any{"status": status, "reason": reason}}
}

func ask(question string, options ...string) api.Call {
	args := map[string]any{"question": question}
	if len(options) > 0 { // Gemini CLI refuses null where a list is to be
		args["options"] = options
	}
	return api.Call{Tool: "task_ask", Args: args}
}

func note(text string) api.Call {
	return api.Call{Tool: "task_log", Args: map[string]any{"text": text}}
}

// must fails the test unless the CLI ended with the code, and said the texts.
func (b *bench) must(e ended, code int, texts ...string) ended {
	b.Helper()
	if e.code != code {
		b.Errorf("want exit code %d\n%v", code, e)
	}
	for _, text := range texts {
		if !strings.Contains(e.out+e.err, text) {
			b.Errorf("no word of %q in\n%v", text, e)
		}
	}
	return e
}

func TestContractText(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "good morning"})
		e := b.must(b.keep("text", b.spawn(auto, firstID, "say good morning")), 0, "good morning")
		b.session(e)
		if asked := b.api.Requests(); len(asked) != 1 || !asked[0].Said("user", "say good morning") {
			t.Errorf("the API was asked %+v", asked)
		}
	})
}

func TestContractBigText(t *testing.T) {
	var big strings.Builder
	for n := range 30000 {
		fmt.Fprintf(&big, "line %d\n", n) // Gemini stops a model that repeats itself
	}
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: big.String()})
		if e := b.must(b.spawn(auto, firstID, "say much"), 0); len(e.out) < big.Len() {
			t.Errorf("%d bytes were printed of a text of %d", len(e.out), big.Len())
		}
	})
}

func TestContractWrite(t *testing.T) {
	for _, p := range []posture{write, bypass} {
		t.Run(string(p), func(t *testing.T) {
			each(t, func(t *testing.T, c cli) {
				b := newBench(t, c, api.Turn{Text: "I shall write it.", Calls: []api.Call{api.WriteFile("made.txt", "by the model")}}, api.Turn{Text: "done"})
				b.must(b.keep("write-"+string(p), b.spawn(p, firstID, "write a file")), 0)
				if got := b.read("made.txt"); strings.TrimSpace(got) != "by the model" {
					t.Errorf("the file is %q", got)
				}
			})
		})
	}
}

func TestContractShell(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Calls: []api.Call{api.Run("echo ran > ran.txt; cat ran.txt")}}, api.Turn{Text: "over"})
		b.must(b.keep("shell", b.spawn(bypass, firstID, "run it")), 0)
		if got := b.read("ran.txt"); got != "ran\n" {
			t.Errorf("the file is %q", got)
		}
	})
}

func TestContractDenied(t *testing.T) {
	says := map[string]string{
		"claude":   `"permission_denials":[{"tool_name":"Bash"`,
		"codex":    "", // it tells of a refusal in prose, and not always
		"gemini":   "tool_not_registered",
		"opencode": "Model tried to call unavailable tool",
	}
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "by the model")}}, api.Turn{Calls: []api.Call{api.Run("echo x > ran.txt")}}, api.Turn{Text: "over"})
		b.must(b.keep("denied", b.spawn(readOnly, firstID, "write a file")), 0, says[c.name()])
		if got := b.read("made.txt") + b.read("ran.txt"); got != "" {
			t.Errorf("%q was written", got)
		}
		if n := len(b.api.Requests()); n != 3 {
			t.Errorf("the API was asked %d times", n)
		}
	})
}

func TestContractChannel(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c,
			api.Turn{Calls: []api.Call{{Tool: "task_status", Args: map[string]any{}}}},
			api.Turn{Calls: []api.Call{note("I began")}},
			api.Turn{Calls: []api.Call{report("needs_review", "it is done")}},
			api.Turn{Text: "over"})
		b.must(b.keep("channel", b.spawn(readOnly, firstID, "report")), 0)
		for tool, want := range map[string]string{"task_status": "", "task_log": "I began", "task_set_status": "needs_review"} {
			if got := string(b.channelTold(tool).Args); !strings.Contains(got, want) {
				t.Errorf("%s was called with %s", tool, got)
			}
		}
		env := b.channelTold("start").Env
		for _, name := range []string{"TIPSTAFF_MCP_SOCKET", "TIPSTAFF_MCP_TOKEN", "TIPSTAFF_RUN_ID", "TIPSTAFF_LAUNCH", "TIPSTAFF_SPAWN"} {
			if !strings.Contains(" "+strings.Join(env, " ")+" ", " "+name+" ") {
				t.Errorf("the channel does not get %s: %v", name, env)
			}
		}
		if asked := b.api.Requests()[0]; asked.Offers("approve") {
			t.Errorf("the model may call approve: %v", asked.Tools)
		}
	})
}

func TestContractAsk(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Calls: []api.Call{ask("which colour?", "red", "blue")}}, api.Turn{Text: "I wait."})
		b.must(b.keep("ask", b.spawn(auto, firstID, "ask")), 0)
		if got := string(b.channelTold("task_ask").Args); !strings.Contains(got, "which colour?") {
			t.Errorf("the question is %s", got)
		}
	})
}

// The hook of Claude Code: what it sends, and what each answer leads to.
func TestContractApproval(t *testing.T) {
	for name, c := range map[string]struct {
		word string
		code int
		says string
	}{
		"allow": {"ALLOWED", 0, `"permission_denials":[]`},
		"deny":  {denied, 0, "no-writes: the policy denies it"},
		"ask":   {interrupted, 1, `"terminal_reason":"aborted_tools"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, claude{}, api.Turn{When: "run it", Calls: []api.Call{api.Run("echo " + c.word + " > ran.txt")}}, api.Turn{Text: "over", Times: api.Forever})
			e := b.must(b.keep("approval-"+name, b.spawn(auto, firstID, "run it")), c.code, c.says)
			want := `{"tool_name":"Bash","input":{"command":"echo ` + c.word + ` \u003e ran.txt","description":"by the script"},"tool_use_id":"toolu_`
			if got := string(b.channelTold("approve").Args); !strings.HasPrefix(got, want) {
				t.Errorf("the request is %s", got)
			}
			if (b.read("ran.txt") != "") != (name == "allow") {
				t.Errorf("%q was written", b.read("ran.txt"))
			}
			b.must(b.resume(auto, b.session(e), "go on"), 0)
		})
	}
}

// A user who allows everything does not get past the hook.
func TestContractApprovalDespiteSettings(t *testing.T) {
	b := newBench(t, claude{}, api.Turn{Calls: []api.Call{api.Run("echo " + denied + " > ran.txt")}}, api.Turn{Text: "over"})
	for _, file := range []string{"home/.claude/settings.json", "repo/.claude/settings.json", "repo/.claude/settings.local.json"} {
		b.file(file, `{"permissions":{"allow":["Bash"],"defaultMode":"bypassPermissions"}}`)
	}
	b.must(b.spawn(auto, firstID, "run it"), 0)
	if got := b.read("ran.txt"); got != "" {
		t.Errorf("%q was written", got)
	}
}

// Neither do the compiled rules yield to a file of the project.
func TestContractDeniedDespiteProject(t *testing.T) {
	for _, c := range []cli{gemini{}, opencode{}} {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c, api.Turn{Calls: []api.Call{api.Run("echo x > ran.txt")}}, api.Turn{Text: "over"})
			b.file("repo/opencode.json", `{"permission":{"*":"allow","bash":"allow"}}`)
			b.file("repo/.gemini/settings.json", `{"tools":{"allowed":["run_shell_command"],"core":["run_shell_command"]},"general":{"defaultApprovalMode":"auto_edit"}}`)
			b.file("repo/.gemini/policies/all.toml", compiled("allow", "run_shell_command"))
			b.must(b.spawn(auto, firstID, "run it"), 0)
			if got := b.read("ran.txt"); got != "" {
				t.Errorf("%q was written", got)
			}
		})
	}
}

func TestContractResume(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "the colour is teal"}, api.Turn{Text: "teal, as I said"}, api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}, api.Turn{Text: "thrice"})
		id := b.session(b.keep("resume-1", b.spawn(write, firstID, "remember walnut")))
		for n, prompt := range []string{"what was it", "and now write"} {
			if again := b.session(b.must(b.keep(fmt.Sprintf("resume-%d", n+2), b.resume(write, id, prompt)), 0)); again != id {
				t.Errorf("the session is %s after %s", again, id)
			}
		}
		asked := b.api.Requests()
		last := asked[len(asked)-1]
		for _, text := range []string{"remember walnut", "what was it", "and now write"} {
			if !last.Said("user", text) {
				t.Errorf("the last request has no %q: %+v", text, last.Messages)
			}
		}
		if !last.Said("assistant", "the colour is teal") {
			t.Errorf("the last request has no answer of the first turn: %+v", last.Messages)
		}
		if b.read("made.txt") == "" {
			t.Error("after two resumptions nothing was written")
		}
	})
}

// wrong is how a CLI refuses an id.
type wrong struct {
	code int
	says string
}

func TestContractUnknownSession(t *testing.T) {
	refusals := map[string]wrong{
		"claude":   {1, "No conversation found with session ID: "},
		"codex":    {1, "no rollout found for thread id "},
		"gemini":   {42, "Error resuming session: No previous sessions found for this project."},
		"opencode": {1, "Session not found"},
	}
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c)
		id := unknownID
		if c.name() == "opencode" {
			id = "ses_e15bb55e3ffenJNOrmquH9e0Yj"
		}
		b.must(b.keep("unknown-id", b.resume(auto, id, "go on")), refusals[c.name()].code, refusals[c.name()].says)
		if n := len(b.api.Requests()); n != 0 {
			t.Errorf("the API was asked %d times", n)
		}
	})
	t.Run("gemini beside another", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, gemini{}, api.Turn{Text: "first"})
		b.spawn(auto, firstID, "one")
		b.must(b.keep("unknown-id-beside-another", b.resume(auto, unknownID, "go on")), 42, "Error resuming session: Invalid session identifier ")
	})
}

func TestContractUsedSession(t *testing.T) {
	for c, w := range map[cli]wrong{claude{}: {1, "is already in use."}, gemini{}: {42, "already exists. Use --resume to resume it"}} {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c, api.Turn{Text: "first"})
			b.spawn(auto, firstID, "one")
			if e := b.must(b.keep("used-id", b.spawn(auto, firstID, "two")), w.code, w.says); e.out != "" {
				t.Errorf("it printed %s", e.out)
			}
		})
	}
}

// A session that another process uses just now: only Codex minds.
func TestContractBusySession(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "first"}, api.Turn{When: "wait here", Hang: true}, api.Turn{When: "me too", Text: "second"})
		id := b.session(b.spawn(auto, firstID, "one"))
		before := len(b.api.Requests())
		r := b.start(auto, c.resume(b, auto, id), "wait here")
		b.asked(before + 1)
		w := wrong{0, "second"}
		if c.name() == "codex" {
			w = wrong{1, "already has an active writer"}
		}
		b.must(b.keep("busy-id", b.resume(auto, id, "me too")), w.code, w.says)
		end(marked(b.run))
		r.wait()
	})
}

// Codex takes an id that is no UUID for a name, and begins anew: never give it one.
func TestContractMalformedSession(t *testing.T) {
	b := newBench(t, codex{}, api.Turn{Text: "a new one"})
	b.must(b.keep("malformed-id", b.resume(auto, "no-such-thing", "go on")), 0, "a new one")
}

func TestContractErrors(t *testing.T) {
	slow(t)
	for name, turn := range map[string]api.Turn{
		"bad-request":  {Status: 400, Text: "the request is bad", Times: api.Forever},
		"server-error": {Status: 500, Text: "the server broke", Times: api.Forever},
		"rate-limit":   {Status: 429, Text: "too many", RetryAfter: time.Second, Times: 2},
		"cut":          {Close: true, Times: api.Forever},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c cli) {
				b := newBench(t, c, turn, api.Turn{Text: "late"})
				if name != "rate-limit" { // which ends by itself
					b.limit = 90 * time.Second
				}
				e := b.keep(name, b.spawn(auto, firstID, "go"))
				if (e.code == 0) != (name == "rate-limit") {
					t.Errorf("%v", e)
				}
			})
		})
	}
}

func TestContractDeadAPI(t *testing.T) {
	slow(t)
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c)
		b.limit, b.dead = 30*time.Second, true
		if e := b.keep("dead", b.spawn(auto, firstID, "go")); e.code == 0 {
			t.Errorf("%v", e)
		}
	})
}

// SIGTERM to the CLI alone, while it waits for the model and while a tool runs. What it
// leaves is ended here.
func TestContractSIGTERM(t *testing.T) {
	slow(t)
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Hang: true})
		r := b.start(auto, c.spawn(b, auto, firstID), "go")
		b.asked(1)
		b.terminated("term-waiting", r)

		b = newBench(t, c, api.Turn{Calls: []api.Call{api.Run("echo x > begun.txt; sleep 61")}}, api.Turn{Text: "over"})
		r = b.start(bypass, c.spawn(b, bypass, firstID), "go")
		for b.read("begun.txt") == "" {
			time.Sleep(10 * time.Millisecond)
		}
		b.terminated("term-tool", r)
	})
}

func (b *bench) terminated(name string, r *running) {
	b.Helper()
	b.check(r.cmd.Process.Signal(syscall.SIGTERM))
	sent := time.Now()
	timer := time.AfterFunc(10*time.Second, func() { end(marked(b.run)) })
	defer timer.Stop()
	b.keep(name, r.wait())
	b.Logf("%s: ended %s after the signal, leaving %v", name, time.Since(sent), marked(b.run))
	end(marked(b.run))
}

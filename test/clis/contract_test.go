package clis

import (
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

// Ids as Tipstaff makes them; Codex and opencode make their own.
const (
	firstID   = "7f2c1c5e-52c1-5d8e-9a52-1f0e4f3b9a01"
	unknownID = "11111111-2222-5333-8444-555555555555"
)

func call(tool string, args map[string]any) api.Call { return api.Call{Tool: tool, Args: args} }

func TestText(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "good morning"})
		e := b.keep("text", b.spawn(auto, firstID, "say good morning"))
		b.session(e)
	})
}

func TestWrite(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		for _, p := range []posture{write, bypass} {
			b := newBench(t, c, api.Turn{Text: "I shall write it.", Calls: []api.Call{api.WriteFile("made.txt", "by the model")}}, api.Turn{Text: "done"})
			b.keep("write-"+string(p), b.spawn(p, firstID, "write a file"))
			if got := b.read("made.txt"); strings.TrimSpace(got) != "by the model" {
				t.Errorf("%s: the file is %q", p, got)
			}
		}
	})
}

func TestDenied(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "by the model")}}, api.Turn{Calls: []api.Call{api.Run("echo x > ran.txt")}}, api.Turn{Text: "over"})
		b.keep("denied", b.spawn(readOnly, firstID, "write a file"))
		if got := b.read("made.txt") + b.read("ran.txt"); got != "" {
			t.Errorf("the file is %q", got)
		}
	})
}

func TestShell(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Calls: []api.Call{api.Run("echo ran > ran.txt; cat ran.txt")}}, api.Turn{Text: "over"})
		b.keep("shell", b.spawn(bypass, firstID, "run it"))
		if got := b.read("ran.txt"); got != "ran\n" {
			t.Errorf("the file is %q", got)
		}
	})
}

func TestChannel(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c,
			api.Turn{Calls: []api.Call{call("task_status", map[string]any{})}},
			api.Turn{Calls: []api.Call{call("task_log", map[string]any{"text": "I began"})}},
			api.Turn{Calls: []api.Call{call("task_set_status", map[string]any{"status": "needs_review", "reason": "it is done"})}},
			api.Turn{Text: "over"})
		b.keep("channel", b.spawn(readOnly, firstID, "report"))
		for _, tool := range []string{"task_status", "task_log", "task_set_status"} {
			t.Logf("%s", b.channelTold(tool).Args)
		}
		t.Logf("%v", b.heard()[0].Env)
	})
}

func TestAsk(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c,
			api.Turn{Calls: []api.Call{call("task_ask", map[string]any{"question": "which colour?", "options": []string{"red", "blue"}})}},
			api.Turn{Text: "I wait."})
		b.keep("ask", b.spawn(auto, firstID, "ask"))
		t.Logf("%s", b.channelTold("task_ask").Args)
	})
}

func TestApproval(t *testing.T) {
	for name, word := range map[string]string{"allow": "ALLOWED", "deny": denied, "ask": interrupted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, claude{},
				api.Turn{Calls: []api.Call{api.Run("echo " + word + " > ran.txt")}},
				api.Turn{Text: "over"})
			e := b.keep("approval-"+name, b.spawn(auto, firstID, "run it"))
			t.Logf("request %s", b.channelTold("approve").Args)
			if (b.read("ran.txt") != "") != (name == "allow") {
				t.Errorf("%q was written", b.read("ran.txt"))
			}
			b.keep("approval-"+name+"-resumed", b.resume(auto, b.session(e), "go on"))
		})
	}
}

func TestResume(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "the colour is teal"}, api.Turn{Text: "teal, as I said"}, api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "x")}}, api.Turn{Text: "thrice"})
		id := b.session(b.keep("resume-1", b.spawn(write, firstID, "remember walnut")))
		if again := b.session(b.keep("resume-2", b.resume(write, id, "what was it"))); again != id {
			t.Errorf("the session is %s after %s", again, id)
		}
		b.keep("resume-3", b.resume(write, id, "and now write"))
		asked := b.api.Requests()
		last := asked[len(asked)-1]
		for _, text := range []string{"remember walnut", "what was it", "and now write"} {
			if !last.Said("user", text) {
				t.Errorf("the last request has no %q: %+v", text, last.Messages)
			}
		}
		if !last.Said("assistant", "the colour is teal") {
			t.Errorf("the last request has no answer of the first turn")
		}
		if b.read("made.txt") == "" {
			t.Error("after two resumptions nothing was written")
		}
	})
}

func TestUnknownSession(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c)
		id := unknownID
		if c.name() == "opencode" {
			id = "ses_e15bb55e3ffenJNOrmquH9e0Yj"
		}
		b.keep("unknown-id", b.resume(auto, id, "go on"))
		if n := len(b.api.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestMalformedSession(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c)
		b.keep("malformed-id", b.resume(auto, "no-such-thing", "go on"))
		if n := len(b.api.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestUsedSession(t *testing.T) {
	for _, c := range []cli{claude{}, gemini{}} {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c, api.Turn{Text: "first"}, api.Turn{Text: "second"})
			b.spawn(auto, firstID, "one")
			b.keep("used-id", b.spawn(auto, firstID, "two"))
		})
	}
}

// A session that another process uses just now: the CLIs do not mind.
func TestSessionInUse(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: "first"}, api.Turn{When: "wait here", Hang: true}, api.Turn{When: "me too", Text: "second"})
		id := b.session(b.spawn(auto, firstID, "one"))
		before := len(b.api.Requests())
		r := b.start(auto, c.resume(b, auto, id), "wait here")
		b.asked(before + 1)
		b.keep("busy-id", b.resume(auto, id, "me too"))
		r.cmd.Process.Signal(syscall.SIGTERM)
		r.wait()
	})
}

func TestErrors(t *testing.T) {
	for name, turn := range map[string]api.Turn{
		"bad-request":        {Status: 400, Text: "the request is bad", Times: api.Forever},
		"unauthorized":       {Status: 401, Text: "the key is wrong", Times: api.Forever},
		"server-error":       {Status: 500, Text: "the server broke", Times: api.Forever},
		"rate-limit":         {Status: 429, Text: "too many", RetryAfter: time.Second, Times: 2},
		"rate-limit-forever": {Status: 429, Text: "too many", RetryAfter: time.Second, Times: api.Forever},
		"cut":                {Close: true, Times: api.Forever},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c cli) {
				b := newBench(t, c, turn, api.Turn{Text: "late"})
				b.limit = 40 * time.Second
				b.keep(name, b.spawn(auto, firstID, "go"))
				t.Logf("%d requests", len(b.api.Requests()))
			})
		})
	}
}

func TestDeadAPI(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c)
		b.limit = 40 * time.Second
		b.dead = true
		b.keep("dead", b.spawn(auto, firstID, "go"))
	})
}

func TestSIGTERM(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		each(t, func(t *testing.T, c cli) {
			b := newBench(t, c, api.Turn{Hang: true})
			r := b.start(auto, c.spawn(b, auto, firstID), "go")
			b.asked(1)
			r.cmd.Process.Signal(syscall.SIGTERM)
			b.limitAfter(r, 10*time.Second)
			b.keep("term-waiting", r.wait())
		})
	})
	t.Run("tool", func(t *testing.T) {
		each(t, func(t *testing.T, c cli) {
			b := newBench(t, c, api.Turn{Calls: []api.Call{api.Run("echo x > begun.txt; sleep 61")}}, api.Turn{Text: "over"})
			r := b.start(bypass, c.spawn(b, bypass, firstID), "go")
			for b.read("begun.txt") == "" {
				time.Sleep(10 * time.Millisecond)
			}
			r.cmd.Process.Signal(syscall.SIGTERM)
			b.limitAfter(r, 10*time.Second)
			e := b.keep("term-tool", r.wait())
			t.Logf("%s after the signal; left: %v", e.took, marked(b.run))
			end(marked(b.run))
		})
	})
}

func TestBig(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		b := newBench(t, c, api.Turn{Text: strings.Repeat("big text. ", 30000)})
		e := b.spawn(auto, firstID, "go")
		t.Logf("exit %d, %d bytes", e.code, len(e.out))
		if len(e.out) < 300000 {
			t.Errorf("%d bytes", len(e.out))
		}
	})
}

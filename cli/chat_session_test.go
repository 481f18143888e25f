package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

const sessionB = "01JCQ8R4T5V6W7X8Y9Z0A1B2T2"

func TestChatFindsItsSession(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string // "": the turn is one of sessionA
	}{
		{[]string{"--continue"}, 0, ""},
		{[]string{"--session", "@"}, 0, ""},
		{[]string{"--session", sessionA}, 0, ""},
		{[]string{"--session", sessionA[:25]}, 0, ""},
		{[]string{"--session", runB.String()}, 0, ""},
		{[]string{"--session", runB.String()[:25]}, 0, ""},
		{[]string{"--session", "01JCQ8"}, 2, "more than one session, or turn of one, begins with 01JCQ8"},
		{[]string{"--session", "01JD"}, 2, `there is no session "01JD"`},
		{[]string{"--session", "mine"}, 2, `there is no session "mine"`},
		{[]string{"--session", runA.String()}, 2, "is a plan, no turn of a session"},
		{[]string{"--continue", "--new"}, 2, "only one of them"},
		{[]string{"--list"}, 2, "--list lists sessions, and takes no MESSAGE"},
	} {
		k := newTalks(t).earlier()
		k.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, Program: tipstaff.Program{Kind: "plan"}})
		k.svc.heads = append(k.svc.heads, tipstaff.Run{ID: gateA, Turn: &tipstaff.TurnStatus{Session: sessionB}})
		k.run(t, c.code, append([]string{"chat", "hello"}, c.args...)...)
		contains(t, fmt.Sprint(c.args), k.err.String(), c.says)
		if c.code == 0 && k.asked[0]["session"] != sessionA {
			t.Errorf("%v: asked %v", c.args, k.asked)
		}
	}
}

func TestThereIsNoSessionToContinue(t *testing.T) {
	k := newTalks(t)
	k.run(t, 3, "chat", "hello", "--continue")
	contains(t, "stderr", k.err.String(), "there is no session yet", "begin one: tipstaff chat")
}

// What was said with an agent goes on with it, unless another one is named.
func TestChatKeepsTheAgentOfASession(t *testing.T) {
	for flag, want := range map[string]string{"": "ops", "--agent=default": "default"} {
		k := newTalks(t).earlier()
		k.svc.heads[0].Turn.Agent = "ops"
		k.run(t, 0, strings.Fields("chat hello --continue "+flag)...)
		if got := k.asked[0]["agent"]; got != want {
			t.Errorf("%q: the agent is %v", flag, got)
		}
	}
}

func TestChatContinuesAtThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t).earlier()
		k.svc.append("agent.message", "turn/model#1", `{"step":1,"text":"Let me see.","calls":1}`)
		k.svc.append("agent.tool_call_request", "turn/tool#1.1", `{"id":"c1","server":"disk","tool":"df","arguments":{"path":"/"},"effect":"read"}`)
		k.svc.append("agent.approval_decided", "turn/tool#1.1", `{"id":"c1","decision":"allow","by":"policy","rule":"reads"}`)
		k.svc.append("agent.tool_call_result", "turn/tool#1.1", `{"id":"c1","content":"9 %\nused","bytes":9}`)
		k.svc.append("agent.message", "turn/model#2", `{"step":2,"text":"I am \u001b[31mwell."}`)
		k.args = []string{"--continue"}
		got := k.prompts(t, context.Background(), 0, "hello"+enter)
		contains(t, "terminal", got, intro(2)+`› How are you?
Let me see.
  ✓ disk/df {"path":"/"}  read  allow by rule reads
    9 % used  (9 bytes)
I am \u001b[31mwell.
/help tells what can be typed here
› hello
You said: hello
`)
	})
}

// Of a long turn the message is shown, and the end.
func TestBriefTranscript(t *testing.T) {
	said := []tipstaff.TranscriptMessage{{Path: "turn", Role: "user", Text: "begin"}}
	for i := range 30 {
		id := fmt.Sprint(i)
		said = append(said, tipstaff.TranscriptMessage{Path: "turn", Role: "assistant", Calls: []tipstaff.TranscriptCall{{ID: id, Name: "disk/df" + id, Arguments: json.RawMessage(`{}`)}}})
		if i < 29 {
			said = append(said, tipstaff.TranscriptMessage{Path: "turn", Role: "tool", CallID: id, Code: "timeout", IsError: true})
		}
	}
	var b strings.Builder
	printTranscript(&b, said, brief, false) // 60 messages: the first, and the last 19, which end with 9 results and an open call
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	equal(t, "the beginning", strings.Join(lines[:4], "\n"), "› begin\n… 40 messages left out …\n  ✗ disk/df20 {}\n    timeout")
	equal(t, "the end", strings.Join(lines[len(lines)-2:], "\n"), "  ? disk/df29 {}\n    no result yet")
}

func TestChatTellsOfAMissingManifest(t *testing.T) {
	for _, args := range [][]string{{"chat", "hello"}, {"chat", "hello", "--json"}} {
		k := newTalks(t)
		start := k.svc.start
		k.svc.start = func(ctx context.Context, r tipstaff.StartRequest) (tipstaff.Started, error) {
			s, err := start(ctx, r)
			s.Warnings = []tipstaff.Problem{{Message: "no tipstaff.yaml here"}}
			return s, err
		}
		k.run(t, 0, args...)
		if !strings.HasPrefix(k.err.String(), "no tipstaff.yaml here\n") {
			t.Errorf("%v: %s", args, k.err)
		}
	}
}

// Of a long conversation the end is shown, and how to see the rest.
func TestChatRecallsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t).earlier()
		k.svc.heads[0].Turn.Number = 5
		k.svc.set(k.svc.heads[0])
		k.args = []string{"--session", "@"}
		got := k.prompts(t, context.Background(), 0, ctrlD)
		contains(t, "terminal", got, "4 turns before; to see all:\n  tipstaff show "+runB.String()+" --transcript\n› How are you?\n")
	})
}

// Nothing is said: a turn that was broken off goes on all the same.
func TestChatContinuesWithoutAMessage(t *testing.T) {
	k := newTalks(t).earlier()
	k.unfinishedTurn(func(tipstaff.ResumeRequest) tipstaff.Driven { return k.answers("the old answer") })
	k.run(t, 0, "chat", "--continue")
	equal(t, "stdout", k.out.String(), "the old answer\n")
	k = newTalks(t).earlier()
	k.run(t, 2, "chat", "--continue")
	contains(t, "stderr", k.err.String(), "there is no message")
}

func TestChatList(t *testing.T) {
	k := newTalks(t).earlier()
	k.svc.heads = append(k.svc.heads, tipstaff.Run{ID: runA, User: "local", State: tipstaff.Executing, Condition: tipstaff.Interrupted, UpdatedAt: epoch.Add(-time.Hour),
		Turn: &tipstaff.TurnStatus{Session: sessionB, Number: 12, Agent: "ops", Model: "big", Opening: "Is\x1b[2J it full?"}})
	k.svc.set(k.svc.heads[1])
	k.svc.artifacts[""] = `{"kind":"turn","message":"Is\u001b[2J it full?\nTell me."}`
	k.run(t, 0, "chat", "--list")
	const list = `SESSION                     LAST TURN            TURNS  STATE       AGENT    MODEL  LAST RUN                    TO GO ON                                            LAST WORDS
` + sessionA + `  2026-11-15 02:30:00  1      completed   default  m-1    01JCQ8R4T5V6W7X8Y9Z0A1B2D4  tipstaff chat --session ` + sessionA + `  How are you?
` + sessionB + `  2026-11-15 01:30:00  12     unfinished  ops      big    01JCQ8R4T5V6W7X8Y9Z0A1B2C3  tipstaff chat --session ` + sessionB + `  Is\u001b[2J it full?
`
	equal(t, "stdout", k.out.String(), list)
	for _, r := range k.svc.listed {
		if r.Heads && !r.Own {
			t.Errorf("sessions of others were asked for: %+v", r)
		}
	}
	k.out.Reset()
	k.run(t, 0, "sessions", "--kind", "chat")
	equal(t, "sessions --kind chat", k.out.String(), list)
	k = newTalks(t).earlier()
	k.run(t, 0, "chat", "--list", "--json")
	equal(t, "json", k.out.String(), `{"kind":"chat","session":"`+sessionA+`","user":"local","state":"completed","updated_at":"2026-11-15T02:30:00Z","command":"tipstaff chat --session `+sessionA+`",`+
		`"agent":"default","model":"m-1","turns":1,"last_run_id":"`+runB.String()+`","opening":"How are you?","last_words":"How are you?"}`+"\n")
	k = newTalks(t)
	k.run(t, 0, "chat", "--list")
	equal(t, "none", k.err.String(), "no sessions yet; begin one: tipstaff chat\n")
}

func TestChatTakesWhatIsPipedIn(t *testing.T) {
	big := strings.Repeat("x", maxMessage)
	for _, c := range []struct {
		name, message, piped string
		want                 string // "": it is refused
		says                 string
	}{
		{"both", "review", "+a\n-b\n", "review\n\n+a\n-b", ""},
		{"the pipe alone", "", "+a\n", "+a", ""},
		{"an empty pipe", "review", "", "review", ""},
		{"a blank pipe", "review", "\n\n", "review", ""},
		{"nothing", "", "", "", "there is no message"},
		{"as much as goes", "r", big[3:], "r\n\n" + big[3:], ""},
		{"too much", "r", big[2:], "", "standard input has 1048574 bytes: a message has at most 1048576"},
		{"far too much", "r", strings.Repeat(big, 5), "", "standard input has 5242880 bytes"},
		{"no text", "r", "ab\xff", "", "standard input is not text: byte 3 is not UTF-8"},
		{"a zero", "r", "a\x00", "", "byte 2 is not UTF-8"},
		{"text that is cut within a character", "r", big[:maxMessage-4] + "€€", "", "standard input has 1048578 bytes"},
	} {
		k := newTalks(t)
		k.env.StdinPiped, k.env.Stdin = true, strings.NewReader(c.piped)
		args, code := []string{"chat"}, 0
		if c.message != "" {
			args = append(args, c.message)
		}
		if c.want == "" {
			code = 2
		}
		k.run(t, code, args...)
		contains(t, c.name, k.err.String(), c.says)
		switch {
		case c.want == "" && len(k.asked) > 0:
			t.Errorf("%s: a turn was started", c.name)
		case c.want != "" && (len(k.asked) != 1 || k.asked[0]["message"] != c.want):
			t.Errorf("%s: the message is another", c.name)
		}
	}
}

// What is no pipe, and no file, belongs to nobody's message.
func TestChatReadsNoInputBesideAMessage(t *testing.T) {
	k := newTalks(t)
	k.env.Stdin = strings.NewReader("not meant")
	k.run(t, 0, "chat", "hello")
	equal(t, "stdout", k.out.String(), "You said: hello\n")
}

func TestChatSaysThatItWaitsForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for wait, says := range map[time.Duration]bool{inputWait - time.Millisecond: false, inputWait + time.Millisecond: true} {
			k := newTalks(t)
			r, w := io.Pipe()
			k.env.StdinPiped, k.env.Stdin = true, r
			go func() {
				time.Sleep(wait)
				io.WriteString(w, "late")
				time.Sleep(time.Minute) // it is said once
				w.Close()
			}()
			k.run(t, 0, "chat", "hello")
			equal(t, "stdout", k.out.String(), "You said: hello\n\nlate\n")
			if said := strings.Count(k.err.String(), "waiting for standard input to end"); said > 1 || (said == 1) != says {
				t.Errorf("after %v it is said %d times", wait, said)
			}
		}
	})
}

func TestASignalEndsTheWaitForInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		r, w := io.Pipe()
		defer w.Close()
		k.env.StdinPiped, k.env.Stdin = true, r
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(&SignalError{Signal: syscall.SIGINT}) })
		k.runContext(t, ctx, 130, "chat", "hello")
	})
}

func TestResumeOfATurnShowsTheAnswer(t *testing.T) {
	resumed := func(json bool) *talks {
		k := newTalks(t)
		k.unfinishedTurn(func(tipstaff.ResumeRequest) tipstaff.Driven { return k.answers("It is full.") })
		k.svc.runs[0].Turn = &tipstaff.TurnStatus{Session: sessionA, Number: 1, Agent: "default", Model: "m-1"}
		args := []string{"resume", runA.String()}
		if json {
			args = append(args, "--json")
		}
		k.run(t, 0, args...)
		return k
	}
	k := resumed(false)
	equal(t, "stdout", k.out.String(), "It is full.\n")
	equal(t, "stderr", k.err.String(), spent+goOn)
	lines := strings.Split(strings.TrimSpace(resumed(true).out.String()), "\n")
	var last struct{ Answer, Session string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Answer != "It is full." || last.Session != sessionA {
		t.Errorf("%v: %s", err, lines[len(lines)-1])
	}
}

func TestShowNamesSessionAgentAndModel(t *testing.T) {
	k := newTalks(t).earlier()
	k.run(t, 0, "show", runB.String())
	contains(t, "show", k.out.String(), "session    "+sessionA+", turn 1\n", "agent      default\n", "model      m-1\n")
	k = newTalks(t).earlier()
	k.run(t, 0, "ls")
	contains(t, "ls", k.out.String(), "(default, m-1, session "+sessionA+")\n")
}

func TestVersionIsAFlag(t *testing.T) {
	b := newBench(t)
	b.run(t, 0, "--version")
	equal(t, "stdout", b.out.String(), "tipstaff 1.2.3 abc go1.26\n")
}

// What was said before a kill, and not shown since, is shown when the turn is resumed.
func TestResumeShowsAnAnswerFromBefore(t *testing.T) {
	finish := `{"reason":"stop","text":"It is full.","steps":1,"usage":{"total_tokens":15}}`
	for name, recorded := range map[string]int{"the message": 1, "the end of the turn": 2} {
		for _, tty := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				k := newTalks(t)
				if tty {
					k.terminal()
				}
				k.svc.append("agent.message", "turn/model#1", `{"step":1,"text":"It is full."}`)
				if recorded > 1 {
					k.svc.append("agent.finish", "turn", finish)
				}
				k.unfinishedTurn(func(tipstaff.ResumeRequest) tipstaff.Driven {
					if recorded == 1 {
						k.svc.append("agent.finish", "turn", finish)
					}
					k.svc.append("intent.attest", "", `{"outcome":"success"}`)
					k.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: 3, Outputs: json.RawMessage(`{"text":"It is full."}`)})
					return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
				})
				k.svc.runs[0].HeadSeq, k.svc.runs[0].Turn = int64(recorded), &tipstaff.TurnStatus{Session: sessionA, Number: 1}
				k.run(t, 0, "resume", runA.String())
				equal(t, fmt.Sprint(name, ", at a terminal: ", tty), k.out.String(), "It is full.\n")
			})
		}
	}
}

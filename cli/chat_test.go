package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	sessionA = "01JCQ8R4T5V6W7X8Y9Z0A1B2S1"
	goOn     = "to go on with this session:\n  tipstaff chat --session " + sessionA + "\n"
)

// intro is how chat begins, in the session of turn n; 0: in a new one.
func intro(n int) string {
	session := "a new session"
	if n > 0 {
		session = fmt.Sprintf("session %s, turn %d", sessionA, n)
	}
	return "agent default, model m-1, " + session + ", workspace /w\n"
}

// talks is a fake whose turns answer with the message, and end as end says.
type talks struct {
	*bench
	asked []map[string]any // the programs of turns that were started
	reqs  []tipstaff.StartRequest
	turn  func(req tipstaff.StartRequest, message string) tipstaff.Driven
	args  []string // of chat, at the prompt
}

func newTalks(t *testing.T) *talks {
	b := newBench(t)
	k := &talks{bench: b}
	b.vars["TIPSTAFF_WORKSPACE"] = "/w"
	b.svc.artifacts = map[string]string{"sha256:p": `{"kind":"turn","session":"` + sessionA + `","message":"How are you?"}`}
	k.turn = func(_ tipstaff.StartRequest, message string) tipstaff.Driven {
		return k.answers("You said: " + message)
	}
	b.svc.check = func(r tipstaff.ValidateRequest) (tipstaff.Validated, error) {
		var doc struct{ Session string }
		_ = json.Unmarshal(r.Start.Program, &doc)
		return tipstaff.Validated{Turn: &tipstaff.TurnStatus{Session: doc.Session, Number: 2, Agent: "default", Model: "m-1"},
			Tools: []tipstaff.ToolInfo{{Server: "disk", Tool: "df", URI: "mcp://disk/df@1.0.0", Class: "read", Lock: tipstaff.ToolLocked}}}, nil
	}
	b.svc.start = func(_ context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		var doc map[string]any
		if err := json.Unmarshal(req.Program, &doc); err != nil {
			t.Errorf("the program is not JSON: %v", err)
		}
		k.asked, k.reqs = append(k.asked, doc), append(k.reqs, req)
		b.svc.forget()
		started := b.svc.drives(func() tipstaff.Driven { return k.turn(req, doc["message"].(string)) })
		started.Turn = &tipstaff.TurnStatus{Session: sessionA, Number: 1, Agent: "default", Model: "m-1"}
		if doc["session"] != nil {
			started.Turn.Number = 2
		}
		return started, nil
	}
	return k
}

// earlier gives the fake a session with one turn.
func (k *talks) earlier() *talks {
	r := tipstaff.Run{ID: runB, User: "local", State: tipstaff.Completed, UpdatedAt: epoch, Program: tipstaff.Program{Kind: "turn", Digest: "sha256:p"},
		Turn: &tipstaff.TurnStatus{Session: sessionA, Number: 1, Agent: "default", Model: "m-1", Opening: "How are you?"}}
	k.svc.heads = append(k.svc.heads, r)
	k.svc.set(r)
	return k
}

// answers is a turn that says something and ends well.
func (k *talks) answers(text string) tipstaff.Driven {
	s := k.svc
	s.append("run.started", "", `{}`)
	s.append("agent.step_started", "turn/model#1", `{"step":1,"model":"m-1"}`)
	s.tellOf("agent.text_delta", "turn/model#1", fmt.Sprintf(`{"step":1,"channel":"answer","offset":0,"text":%s}`, jsonOf(text[:min(4, len(text))])))
	s.append("agent.message", "turn/model#1", fmt.Sprintf(`{"step":1,"text":%s}`, jsonOf(text)))
	s.append("agent.finish", "turn", fmt.Sprintf(`{"reason":"stop","text":%s,"steps":1,"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,"cost_usd":"0.0012"}}`, jsonOf(text)))
	s.append("intent.attest", "", `{"outcome":"success"}`)
	s.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: int64(len(s.log)), Head: "sha256:h"})
	return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
}

// ends is a turn that ends at once, in some state.
func (k *talks) ends(d tipstaff.Driven, kind tipstaff.Kind, gates ...tipstaff.Gate) tipstaff.Driven {
	k.svc.append("run.started", "", `{}`)
	k.svc.append(kind, "", `{}`)
	k.svc.set(tipstaff.Run{ID: runA, State: d.State, Condition: tipstaff.Waiting, HeadSeq: 2, Head: "sha256:h", OpenGates: gates})
	return d
}

func approvalGate() tipstaff.Gate {
	return tipstaff.Gate{ID: gateA, Kind: tipstaff.Approval, Key: "turn/tool#1.1/approval", Path: "turn/tool#1.1", Question: "May it be called?",
		Subject: json.RawMessage(`{"uri":"mcp://disk/rm@1.0.0"}`), Actions: []string{"allow", "deny", "allow_all"}, Deny: "deny"}
}

func TestChatOnceInAPipe(t *testing.T) {
	k := newTalks(t)
	k.run(t, 0, "chat", "How full?\nTell me.", "--agent", "ops", "--model", "big", "--max-steps", "3", "--policy", "p.yaml", "--new")
	equal(t, "stdout", k.out.String(), "You said: How full?\nTell me.\n")
	equal(t, "stderr", k.err.String(), intro(1)+spent+goOn)
	want := map[string]any{"kind": "turn", "message": "How full?\nTell me.", "agent": "ops", "model": "big", "max_steps": 3.0}
	if fmt.Sprint(k.asked) != fmt.Sprint([]map[string]any{want}) {
		t.Errorf("asked %v", k.asked)
	}
	if r := k.reqs[0]; r.Attended || r.Title != "How full? …" {
		t.Errorf("the request is attended, or called %q", r.Title)
	}
	if o := k.opened[0]; o.Policy != "p.yaml" || !o.Starts {
		t.Errorf("opened with %+v", o)
	}
}

func TestChatReadsStandardInput(t *testing.T) {
	k := newTalks(t).earlier()
	k.env.Stdin = strings.NewReader("from a pipe\n\n")
	k.run(t, 0, "chat", "--session", sessionA)
	equal(t, "stdout", k.out.String(), "You said: from a pipe\n")
	equal(t, "stderr", k.err.String(), intro(2)+spent)
	if k.asked[0]["session"] != sessionA {
		t.Errorf("asked %v", k.asked)
	}
}

func TestChatOnceAtATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.terminal()
		k.run(t, 0, "chat", "hello")
		equal(t, "stdout", k.out.String(), "You said: hello\n")
		var vt vterm
		vt.Write([]byte(k.err.String()))
		equal(t, "stderr", vt.String(), strings.TrimSpace(wrapped(intro(1))+spent+goOn))
	})
}

func TestChatJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		answers := k.turn
		k.turn = func(r tipstaff.StartRequest, m string) tipstaff.Driven {
			d := answers(r, m)
			synctest.Wait() // what is told is heard before the turn has ended
			return d
		}
		k.run(t, 0, "chat", "hello", "--json")
		lines := strings.Split(strings.TrimSpace(k.out.String()), "\n")
		var kinds []string
		for _, l := range lines {
			var v struct{ Kind string }
			if err := json.Unmarshal([]byte(l), &v); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			kinds = append(kinds, v.Kind)
		}
		equal(t, "kinds", strings.Join(kinds, " "), "run.started agent.step_started agent.text_delta agent.message agent.finish intent.attest ")
		equal(t, "the end", lines[len(lines)-1], `{"run_id":"`+runA.String()+`","state":"completed","outcome":"success","reason":"","seq":5,"head":"sha256:h","session":"`+sessionA+`","answer":"You said: hello",`+
			`"usage":{"input_tokens":10,"output_tokens":5,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,"total_tokens":15,"cost_usd":"0.0012"},"cost_usd":"0.0012"}`)
		equal(t, "stderr", k.err.String(), "")
	})
}

func TestChatMisused(t *testing.T) {
	for _, c := range []struct {
		name string
		tty  bool
		args []string
		says string
	}{
		{"two messages", false, []string{"how", "full"}, `"full" is another`},
		{"an empty message", false, []string{" "}, "the message is empty"},
		{"no message", false, nil, "there is no message"},
		{"nobody to ask", false, []string{"x", "--approve", "ask"}, "--approve ask needs a terminal"},
		{"unknown approver", false, []string{"x", "--approve", "yes"}, "--approve yes is none of ask, auto and park"},
		{"negative steps", false, []string{"x", "--max-steps", "-1"}, "--max-steps -1"},
		{"too many steps", false, []string{"x", "--max-steps", "1001"}, "--max-steps 1001"},
		{"two sessions", false, []string{"x", "--new", "--session", sessionA}, "only one of them"},
		{"events of a prompt", true, []string{"--json"}, "--json needs a message"},
	} {
		k := newTalks(t)
		if c.tty {
			k.terminal()
		}
		k.run(t, 2, append([]string{"chat"}, c.args...)...)
		contains(t, c.name, k.err.String(), c.says)
		if len(k.asked) > 0 {
			t.Errorf("%s: a turn was started", c.name)
		}
	}
}

func TestChatEndsLikeItsRun(t *testing.T) {
	for _, c := range []struct {
		code   int
		driven tipstaff.Driven
		kind   tipstaff.Kind
		says   string
	}{
		{1, tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "step_error", Code: "empty_response", Message: "it said nothing"}, "intent.fail", "failed: step_error (empty_response): it said nothing\n"},
		{5, tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "bound_exceeded", Bound: "steps"}, "intent.fail", "failed: bound_exceeded steps\n"},
		{8, tipstaff.Driven{State: tipstaff.Cancelled, Outcome: "cancelled"}, "intent.cancel", "cancelled\n"},
		{4, tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked"}, "run.parked", "decide " + runA.String() + " turn/tool#1.1/approval allow\n"},
		{143, tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "signal:TERM"}, "run.interrupted", "tipstaff resume " + runA.String()},
	} {
		k := newTalks(t)
		k.turn = func(tipstaff.StartRequest, string) tipstaff.Driven { return k.ends(c.driven, c.kind, approvalGate()) }
		k.run(t, c.code, "chat", "hello")
		contains(t, string(c.kind), k.err.String(), c.says, goOn)
		equal(t, "stdout", k.out.String(), "")
	}
}

func TestChatIsRefused(t *testing.T) {
	k := newTalks(t)
	k.svc.start = func(context.Context, tipstaff.StartRequest) (tipstaff.Started, error) {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no session")
	}
	k.run(t, 2, "chat", "hello")
	contains(t, "stderr", k.err.String(), "error: there is no session")
}

// unfinishedTurn makes the fake's session have a turn that waits, until resume.
func (k *talks) unfinishedTurn(resumed func(tipstaff.ResumeRequest) tipstaff.Driven) {
	fresh := k.svc.start
	k.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Waiting})
	busy := func() error {
		if r, err := k.svc.Get(context.Background(), runA); err == nil && !r.State.Terminal() {
			return &tipstaff.Error{Code: tipstaff.SessionBusy, Message: "a turn has not ended", Run: runA}
		}
		return nil
	}
	k.svc.check = func(tipstaff.ValidateRequest) (tipstaff.Validated, error) { return tipstaff.Validated{}, busy() }
	k.svc.start = func(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		if err := busy(); err != nil {
			return tipstaff.Started{}, err
		}
		return fresh(ctx, req)
	}
	k.svc.resume = func(_ context.Context, r tipstaff.ResumeRequest) (tipstaff.Started, error) {
		return k.svc.drives(func() tipstaff.Driven { return resumed(r) }), nil
	}
}

func TestChatFinishesTheTurnBefore(t *testing.T) {
	k := newTalks(t).earlier()
	k.unfinishedTurn(func(tipstaff.ResumeRequest) tipstaff.Driven { return k.answers("the old answer") })
	k.run(t, 0, "chat", "the new question", "--session", sessionA)
	contains(t, "stdout", k.out.String(), "the old answer\n", "You said: the new question\n")
	contains(t, "stderr", k.err.String(), "the last turn of this session has not ended; it goes on: "+runA.String())
}

func TestChatDoesNotSendWhatCannotBeSaidYet(t *testing.T) {
	k := newTalks(t).earlier()
	k.unfinishedTurn(func(tipstaff.ResumeRequest) tipstaff.Driven {
		return k.ends(tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked"}, "run.parked", approvalGate())
	})
	k.run(t, 4, "chat", "the new question", "--session", sessionA)
	contains(t, "stderr", k.err.String(), "the message was not sent", "turn/tool#1.1/approval deny\n")
	if len(k.asked) > 0 {
		t.Error("a turn was started")
	}
}

func TestChatLeavesATurnToItsOwner(t *testing.T) {
	k := newTalks(t).earlier()
	k.unfinishedTurn(nil)
	k.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running})
	k.run(t, 3, "chat", "hello", "--session", sessionA)
	contains(t, "stderr", k.err.String(), "a turn has not ended")
}

// interruptible gives the fake a turn that lasts until it is cancelled or broken
// off, and returns what Ctrl-C does and a channel that is closed when it has begun.
func (k *talks) interruptible() (press func() bool, begun chan struct{}) {
	var handler func() bool
	k.env.OnInterrupt = func(f func() bool) func() {
		handler = f
		return func() { handler = nil }
	}
	begun = make(chan struct{})
	cancelled := make(chan string, 8)
	k.svc.cancel = func(r tipstaff.CancelRequest) (tipstaff.Run, error) {
		cancelled <- r.Reason
		return tipstaff.Run{}, nil
	}
	k.turn = func(tipstaff.StartRequest, string) tipstaff.Driven {
		close(begun)
		<-cancelled
		return k.ends(tipstaff.Driven{State: tipstaff.Cancelled, Outcome: "cancelled"}, "intent.cancel")
	}
	return func() bool { return handler() }, begun
}

func TestCtrlCCancelsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		press, begun := k.interruptible()
		go func() {
			<-begun
			synctest.Wait()
			if !press() {
				t.Error("the first Ctrl-C stops the process")
			}
		}()
		k.run(t, 8, "chat", "hello")
		contains(t, "stderr", k.err.String(), "cancelling; Ctrl-C again to leave\n", "cancelled\n")
	})
}

func TestASecondCtrlCStopsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for pause, dealt := range map[time.Duration]bool{leaveTime - time.Millisecond: false, leaveTime + time.Millisecond: true} {
			k := newTalks(t)
			press, begun := k.interruptible()
			slow := k.svc.cancel
			k.svc.cancel = func(r tipstaff.CancelRequest) (tipstaff.Run, error) {
				time.Sleep(5 * time.Second) // of the bubble: a call is given time to end
				return slow(r)
			}
			go func() {
				<-begun
				synctest.Wait()
				press()
				time.Sleep(pause)
				if got := press(); got != dealt {
					t.Errorf("after %v: dealt with %v", pause, got)
				}
			}()
			k.run(t, 8, "chat", "hello")
		}
	})
}

// approver answers approvals where no person is asked.
func (k *talks) approver(t *testing.T, tty bool) {
	k.env.Approve = func(context.Context, tipstaff.Gate) (tipstaff.Choice, bool) {
		if tty {
			t.Error("the person is not asked")
		}
		return tipstaff.Choice{Action: "allow", Via: "auto"}, true
	}
}

// asksAndAnswers is a turn that asks about gates, one after another, and answers
// with what was decided.
func (k *talks) asksAndAnswers(gates ...tipstaff.Gate) {
	k.turn = func(tipstaff.StartRequest, string) tipstaff.Driven {
		var actions []string
		for _, g := range gates {
			c, ok := k.svc.put(g)
			if !ok {
				return k.ends(tipstaff.Driven{State: tipstaff.Executing, Outcome: "parked"}, "run.parked", g)
			}
			actions = append(actions, c.Action)
		}
		return k.answers(strings.Join(actions, " "))
	}
}

func TestChatAsksAtATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.terminal()
		k.approver(t, true)
		k.asksAndAnswers(approvalGate(), publishGate(), approvalGate())
		keys := newTypist()
		k.env.Stdin = keys
		go func() {
			defer keys.w.Close()
			for _, answer := range []string{"allow", "approve", "deny"} {
				synctest.Wait()
				keys.types(answer + "\n")
			}
		}()
		k.run(t, 0, "chat", "hello")
		equal(t, "stdout", k.out.String(), "allow approve deny\n")
	})
}

func TestChatAutoLeavesOtherGatesAlone(t *testing.T) {
	k := newTalks(t)
	k.approver(t, false)
	k.asksAndAnswers(approvalGate(), publishGate())
	k.run(t, 4, "chat", "hello", "--approve", "auto")
	contains(t, "stderr", k.err.String(), "decide "+runA.String()+" root/ok approve")
}

// Who answers by rule would answer the same again: the turn parks.
func TestChatAutoIsNotAskedAgain(t *testing.T) {
	k := newTalks(t)
	k.approver(t, false)
	k.asksAndAnswers(approvalGate())
	k.svc.refuse = func(tipstaff.DecideRequest) error {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "no")
	}
	k.run(t, 4, "chat", "hello", "--approve", "auto")
}

// A turn at a server goes on although nobody is asked about it any more.
func TestChatAtAServerDoesNotSayThatTheRunStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.served().terminal()
		k.asksAndAnswers(publishGate())
		keys := newTypist()
		k.env.Stdin = keys
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() {
			defer keys.w.Close()
			synctest.Wait()
			cancel(&SignalError{syscall.SIGINT})
			synctest.Wait()
			k.svc.reply(nil) // at the server, which parks the run after a while
		}()
		k.runContext(t, ctx, 130, "chat", "hello")
		contains(t, "stderr", k.err.String(), "no longer asked\n")
		if strings.Contains(k.err.String(), "being stopped") {
			t.Errorf("it says that the run stops:\n%s", k.err)
		}
	})
}

func TestChatDeniedPinIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.withTools(&fakeTools{pins: added(`{"name":"echo"}`)})
		start := k.svc.start
		k.svc.start = func(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
			if strings.Contains(string(req.Program), "use desk") {
				return tipstaff.Started{}, &tipstaff.Error{Code: tipstaff.Refused, Message: "refused", Err: &tipstaff.ToolRefusal{Tools: []tipstaff.RefusedTool{{Server: "desk", Code: "unlocked_tool"}}}}
			}
			return start(ctx, req)
		}
		got := k.prompts(t, context.Background(), 0, "use desk"+enter, "deny"+enter, "hello"+enter)
		contains(t, "terminal", got, "nothing is written, and nothing was started\n", "You said: hello\n")
		if strings.Contains(got, "exit status") {
			t.Errorf("the exit status is reported:\n%s", got)
		}
	})
}

func TestChatParks(t *testing.T) {
	k := newTalks(t)
	k.terminal()
	k.run(t, 0, "chat", "hello", "--approve", "park")
	if k.reqs[0].Attended {
		t.Error("somebody is asked")
	}
}

// prompts runs the prompt on a terminal in raw mode, on which each of the keys is
// typed when nothing else goes on, and returns what the terminal shows.
func (k *talks) prompts(t *testing.T, ctx context.Context, code int, keys ...string) string {
	t.Helper()
	raw := 0
	k.terminal()
	k.env.History = filepath.Join(t.TempDir(), "history")
	k.env.Raw = func() (func(), error) {
		raw++
		return func() { raw-- }, nil
	}
	typist := newTypist()
	k.env.Stdin = typist
	both := &lockedBuffer{} // one terminal
	k.env.Stdout, k.env.Stderr = both, both
	typedAll := make(chan struct{})
	go func() {
		defer close(typedAll)
		for _, key := range keys {
			time.Sleep(3 * time.Second) // of the bubble: one Ctrl-C is not the second of another
			typist.types(key)
		}
		time.Sleep(time.Second)
		typist.w.Close()
	}()
	k.runContext(t, ctx, code, append([]string{"chat"}, k.args...)...)
	<-typedAll
	if raw != 0 {
		t.Error("the terminal is left raw")
	}
	var vt vterm
	vt.Write([]byte(both.String()))
	return vt.String()
}

func TestChatPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		got := k.prompts(t, context.Background(), 0, "hel", "lo"+enter, "again"+enter, "/session"+enter, "/run"+enter, "/new"+enter, "third\\"+enter+"line"+enter, "/nonsense"+enter, "/run now"+enter, enter, "/quit"+enter)
		equal(t, "terminal", got, wrapped(intro(0))+`/help tells what can be typed here
› hello
session `+sessionA+`
You said: hello
`+spent+`› again
You said: again
`+spent+`› /session
`+sessionA+`
to go on with it later:
  tipstaff chat --session `+sessionA+`
› /run
`+runA.String()+`
  tipstaff show `+runA.String()+`
  tipstaff verify `+runA.String()+`
› /new
the next message begins a new session
› third
  line
session `+sessionA+`
You said: third
line
`+spent+`› /nonsense
error: there is no /nonsense here
hint: /help lists what there is; a blank before it makes it a message
› /run now
error: /run takes nothing after it
› 
› /quit
`+strings.TrimSpace(goOn))
		var sessions []string
		for _, doc := range k.asked {
			sessions = append(sessions, fmt.Sprint(doc["session"]))
		}
		equal(t, "sessions", strings.Join(sessions, " "), "<nil> "+sessionA+" <nil>")
		history, err := os.ReadFile(k.env.History)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, "history", string(history), `"hello"`, `"third\nline"`)
	})
}

func TestChatPromptGoesOnAfterATurnThatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		answers := k.turn
		k.turn = func(r tipstaff.StartRequest, m string) tipstaff.Driven {
			if m == "fail" {
				return k.ends(tipstaff.Driven{State: tipstaff.Failed, Outcome: "failed", Reason: "step_error", Message: "no"}, "intent.fail")
			}
			return answers(r, m)
		}
		got := k.prompts(t, context.Background(), 0, "fail"+enter, "hello"+enter, ctrlD)
		contains(t, "terminal", got, "failed: step_error: no\n› hello\nYou said: hello\n")
	})
}

func TestChatPromptSettlesTheSessionFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.unfinishedTurn(func(r tipstaff.ResumeRequest) tipstaff.Driven {
			c, _ := k.svc.put(approvalGate())
			return k.answers("it was: " + c.Action)
		})
		k.approver(t, true)
		got := k.prompts(t, context.Background(), 0, "allow"+enter, "hello"+enter)
		contains(t, "terminal", got, "it goes on: "+runA.String()+"\n", "asks: May it be called?\n", "this turn: allow\nit was: allow\n", "› hello\nsession "+sessionA+"\nYou said: hello\n")
	})
}

func TestChatPromptThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.svc.check = func(tipstaff.ValidateRequest) (tipstaff.Validated, error) {
			return tipstaff.Validated{}, tipstaff.Errorf(tipstaff.InvalidProgram, "there is no agent")
		}
		contains(t, "terminal", k.prompts(t, context.Background(), 2), "error: there is no agent")
	})
}

func TestWhatIsTypedDuringATurnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.approver(t, true)
		answers := k.turn
		k.turn = func(req tipstaff.StartRequest, message string) tipstaff.Driven {
			if message != "first" {
				return answers(req, message)
			}
			time.Sleep(4 * time.Second) // meanwhile two texts are typed
			c, _ := k.svc.put(approvalGate())
			return k.answers("decided " + c.Action)
		}
		// The third text is half typed when the question comes, and goes on after it.
		got := k.prompts(t, context.Background(), 0, "first"+enter, "second"+enter+"thi", "deny"+enter, "rd"+enter)
		contains(t, "terminal", got, "this turn: deny\ndecided deny\n", "› second\nYou said: second\n", "› third\nYou said: third\n")
	})
}

func TestChatPromptIsLeft(t *testing.T) {
	hour := func(tipstaff.StartRequest, string) tipstaff.Driven { panic("nothing was sent") }
	for name, keys := range map[string][]string{
		"Ctrl-D": {ctrlD}, "the end of input": {}, "Ctrl-C twice": {ctrlC + ctrlC}, "Ctrl-C twice in a text": {"abc" + ctrlC + ctrlC}, "/quit": {"/quit" + enter},
		"Ctrl-C, then Ctrl-D": {"abc" + ctrlC, ctrlD},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTalks(t)
				k.turn = hour
				k.env.Interrupt = func() { t.Error("the process is stopped") }
				k.prompts(t, context.Background(), 0, keys...)
			})
		})
	}
}

func TestCtrlCAtThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		got := k.prompts(t, context.Background(), 0, "abc"+ctrlC, "hello"+enter)
		contains(t, "terminal", got, "Ctrl-C again, or Ctrl-D, to leave\n› hello\nsession "+sessionA+"\nYou said: hello\n")
	})
}

func TestCtrlCInATurnOfThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.interruptible()
		got := k.prompts(t, context.Background(), 0, "hello"+enter, ctrlC, "/run"+enter)
		contains(t, "terminal", got, "cancelling; Ctrl-C again to leave\ncancelled\n› /run\n"+runA.String()+"\n")
	})
}

func TestCtrlCTwiceInATurnOfThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.interruptible()
		stopped := make(chan struct{})
		k.env.Interrupt = func() { close(stopped) }
		k.svc.cancel = func(tipstaff.CancelRequest) (tipstaff.Run, error) {
			<-stopped
			return tipstaff.Run{}, nil
		}
		k.turn = func(tipstaff.StartRequest, string) tipstaff.Driven {
			<-stopped
			return k.ends(tipstaff.Driven{State: tipstaff.Executing, Outcome: "interrupted", Reason: "signal:INT"}, "run.interrupted")
		}
		got := k.prompts(t, context.Background(), 0, "hello"+enter, ctrlC+ctrlC)
		contains(t, "terminal", got, "tipstaff resume "+runA.String())
	})
}

func TestASignalEndsThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second/2, func() { cancel(&SignalError{Signal: syscall.SIGTERM}) })
		k.prompts(t, ctx, 143)
	})
}

func TestChatPromptWithoutAnEditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t)
		k.terminal()
		k.vars["TERM"] = "dumb"
		k.env.Raw = func() (func(), error) { panic("the terminal knows nothing of this") }
		k.approver(t, true)
		k.asksAndAnswers(approvalGate())
		keys := newTypist()
		k.env.Stdin = keys
		go func() {
			for _, text := range []string{"hello\n", "deny\n", "/help\n"} {
				synctest.Wait()
				keys.types(text)
			}
			synctest.Wait()
			keys.w.Close()
		}()
		k.run(t, 0, "chat")
		equal(t, "stdout", k.out.String(), "deny\n")
		contains(t, "stderr", k.err.String(), "› ", "asks: May it be called?\n", "allow? y: yes, ", "/session [ID]")
	})
}

// The tools are those of the agent, wherever the turns are taken.
func TestChatTools(t *testing.T) {
	for _, at := range []func(*bench) *bench{func(b *bench) *bench { return b }, (*bench).served} {
		synctest.Test(t, func(t *testing.T) {
			k := newTalks(t)
			at(k.bench)
			got := k.prompts(t, context.Background(), 0, "/tools"+enter)
			contains(t, "terminal", got, "mcp://disk/df@1.0.0  read  locked\n")
		})
	}
}

func TestChatSwitchesSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalks(t).earlier()
		got := k.prompts(t, context.Background(), 0, "/session"+enter, "/session "+sessionA[:25]+enter, "/session none"+enter, "hello"+enter)
		contains(t, "terminal", got, "there is no session yet", "› How are you?\n", `error: there is no session "none"`)
		if len(k.asked) != 1 || k.asked[0]["session"] != sessionA {
			t.Errorf("asked %v", k.asked)
		}
	})
}

// wrapped is a text as a terminal of 60 cells shows it.
func wrapped(text string) string {
	var vt vterm
	vt.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
	return vt.String() + "\n"
}

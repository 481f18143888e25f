package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

// asked asks once, with lines typed beforehand.
func asked(g tipstaff.Gate, input string) (tipstaff.Choice, bool, string) {
	out := &lockedBuffer{}
	p := &prompter{out: out, in: tipstaff.NewLineReader(strings.NewReader(input))}
	c, ok := p.ask(context.Background(), g)
	return c, ok, out.String()
}

func TestPromptTakesActions(t *testing.T) {
	approval := tipstaff.Gate{Actions: []string{"allow", "allow_all", "deny"}}
	inDoubt := tipstaff.Gate{Actions: []string{"retry", "use_result", "fail"}}
	handoff := tipstaff.Gate{Actions: []string{"retry_feedback", "halt"}}
	for _, c := range []struct {
		name  string
		gate  tipstaff.Gate
		input string
		want  tipstaff.Choice
	}{
		{"name", publishGate(), "approve\n", tipstaff.Choice{Action: "approve"}},
		{"prefix", publishGate(), "d\n", tipstaff.Choice{Action: "deny"}},
		{"blanks around", publishGate(), "  approve \r\n", tipstaff.Choice{Action: "approve"}},
		{"name that begins another", approval, "allow\n", tipstaff.Choice{Action: "allow"}},
		{"ambiguous, then better", approval, "al\nallow_\n", tipstaff.Choice{Action: "allow_all"}},
		{"third repetition", publishGate(), "\nx\ny\napp\n", tipstaff.Choice{Action: "approve"}},
		{"answer", inDoubt, "use\n{\"n\": 1}\n", tipstaff.Choice{Action: "use_result", Answer: json.RawMessage(`{"n": 1}`)}},
		{"answer repeated", inDoubt, "use\nnope\n\"yes\"\n", tipstaff.Choice{Action: "use_result", Answer: json.RawMessage(`"yes"`)}},
		{"feedback", handoff, "retry\n\nuse tabs\n", tipstaff.Choice{Action: "retry_feedback", Feedback: "use tabs"}},
	} {
		got, ok, out := asked(c.gate, c.input)
		if !ok || got.Action != c.want.Action || string(got.Answer) != string(c.want.Answer) || got.Feedback != c.want.Feedback {
			t.Errorf("%s: %v %+v, want %+v\n%s", c.name, ok, got, c.want, out)
		}
	}
}

func TestPromptNeverApprovesByItself(t *testing.T) {
	inDoubt := tipstaff.Gate{Actions: []string{"retry", "use_result", "fail"}}
	for _, c := range []struct {
		name  string
		gate  tipstaff.Gate
		input string
		says  string
	}{
		{"end of input", publishGate(), "", "no answer: the run parks"},
		{"line without its end", publishGate(), "approve", "no answer: the run parks"},
		{"empty lines", publishGate(), "\n\n\n\napprove\n", "no answer that makes sense: the run parks"},
		{"unknown words", publishGate(), "yes\nok\nsure\n1\napprove\n", `"sure" is none of the actions`},
		{"other case", publishGate(), "Approve\nAPPROVE\n", "no answer: the run parks"},
		{"no answer to an answer", inDoubt, "use_result\n", "no answer: the run parks"},
		{"no JSON", inDoubt, "use_result\na\nb\nc\nd\n1\n", "this is not JSON"},
	} {
		got, ok, out := asked(c.gate, c.input)
		if ok || got.Action != "" {
			t.Errorf("%s: decided %+v\n%s", c.name, got, out)
		}
		contains(t, c.name, out, c.says)
	}
}

// Files that are obeyed are named once more, and the answer to that is asked for by itself.
func TestPromptAsksAgainAboutWhatIsObeyed(t *testing.T) {
	subject, _ := json.Marshal(tipstaff.DeliverySubject{Tree: "t", Obeyed: []tipstaff.ObeyedFile{
		{Path: "tipstaff.yaml", Kind: tipstaff.ObeyedDecides, Reason: "modified: the manifest", Apply: tipstaff.ApplyAsks},
		{Path: "x\n  README", Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks},
		{Path: "ci.yml", Kind: tipstaff.ObeyedElsewhere, Reason: "modified: what a CI runs"}}})
	g := tipstaff.Gate{Kind: tipstaff.Delivery, Actions: tipstaff.DeliveryActions, Subject: subject}
	for _, c := range []struct {
		name, input, action, answer string
		asks                        int
	}{
		{"yes", "apply\nyes\n", "apply", `{"obeyed":true}`, 1},
		{"nonsense, then yes", "apply\nperhaps\ny\n", "apply", `{"obeyed":true}`, 1},
		{"no, and something else", "apply\nno\nskip\n", "skip", "", 1},
		{"no, and yes", "apply\nn\napply\ny\n", "apply", `{"obeyed":true}`, 2},
		{"a branch", "approve\n", "approve", "", 0},
		{"silence", "apply\n", "", "", 1},
	} {
		got, ok, out := asked(g, c.input)
		if ok != (c.action != "") || got.Action != c.action || string(got.Answer) != c.answer || strings.Count(out, "obey here:\n  tipstaff.yaml\n  \"x\\n  README\"\nchange these") != c.asks {
			t.Errorf("%s: %v %+v\n%s", c.name, ok, got, out)
		}
		if strings.Contains(out, "  ci.yml\n") {
			t.Errorf("%s: asked about a file that is applied as any other\n%s", c.name, out)
		}
	}
}

func TestPromptShowsExactlyWhatIsDecided(t *testing.T) {
	g := publishGate()
	g.Question = "Send \x1b[31mit\x1b[0m\nto \u202eeveryone?"
	g.Subject = json.RawMessage(`{"args":{"to":"a\u202eb","body":"` + "x\u200by\u009b" + `"}}`)
	_, _, out := asked(g, "")
	equal(t, "prompt", out, `
root/ok (question) asks: Send \u001b[31mit\u001b[0m\nto \u202eeveryone?
  args: {"to":"a\u202eb","body":"x\u200by\u009b"}
digest: sha256:d1
approve, deny? 
no answer: the run parks
`)
}

func TestPromptCutsLongSubjects(t *testing.T) {
	g := publishGate()
	g.Subject = json.RawMessage(`"` + strings.Repeat("é", 3000) + `"`)
	_, _, out := asked(g, "")
	// 6,000 bytes, of which the first 1,536 and the last 512 are shown.
	contains(t, "prompt", out, "… 3952 bytes left out …\n", "approve, deny, or v to view everything? ")
	if n := strings.Count(out, "é"); n != 1024 {
		t.Errorf("%d characters shown, want 1024", n)
	}
	_, _, out = asked(g, "v\n")
	if n := strings.Count(out, "é"); n != 1024+3000 {
		t.Errorf("%d characters shown with v, want 4024", n)
	}
}

// Of a call the usual keys are understood, and why it is denied is handed on.
func TestPromptApprovals(t *testing.T) {
	g := publishGate()
	g.Kind, g.Actions, g.Deny = tipstaff.Approval, []string{"allow", "deny", "allow_all"}, "deny"
	for typed, want := range map[string]tipstaff.Choice{
		"y\n": {Action: "allow"}, "a\n": {Action: "allow_all"}, "allow\n": {Action: "allow"}, "N\n": {Action: "deny"},
		"n because it is  Friday \n": {Action: "deny", Note: "it is  Friday"}, "deny because no\n": {Action: "deny", Note: "no"},
	} {
		got, ok, out := asked(g, typed)
		if !ok || got.Action != want.Action || got.Note != want.Note {
			t.Errorf("%q decided %+v\n%s", typed, got, out)
		}
	}
	g.Actions = []string{"allow", "deny"}
	if got, ok, _ := asked(g, "a\n"); ok && got.Action != "allow" {
		t.Errorf("a decided %+v, where only one is asked about", got)
	}
}

func TestPromptEndsWithItsContextAlthoughTheReadBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, out := newTypist(), &lockedBuffer{}
		p := &prompter{out: out, in: tipstaff.NewLineReader(keys)}
		ctx, cancel := context.WithCancel(context.Background())
		answered := make(chan bool)
		go func() {
			_, ok := p.ask(ctx, publishGate())
			answered <- ok
		}()
		synctest.Wait() // the read blocks
		cancel()
		if <-answered {
			t.Error("decided")
		}
		contains(t, "prompt", out.String(), "someone else answered")

		// What is typed before the next question was meant for this one.
		keys.types("approve\n")
		synctest.Wait()
		go func() {
			c, ok := p.ask(context.Background(), publishGate())
			answered <- ok && c.Action == "deny"
		}()
		synctest.Wait()
		keys.types("deny\n")
		if !<-answered {
			t.Error("an answer to an earlier question was taken for this one")
		}
		keys.w.Close()
	})
}

func TestPromptTakesOverAnUnfinishedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newTypist()
		p := &prompter{out: io.Discard, in: tipstaff.NewLineReader(keys)}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if _, ok := p.ask(gone, publishGate()); ok {
			t.Error("decided")
		}
		answered := make(chan string)
		go func() {
			c, _ := p.ask(context.Background(), publishGate())
			answered <- c.Action
		}()
		synctest.Wait()
		keys.types("approve\n")
		equal(t, "action", <-answered, "approve")
		keys.w.Close()
	})
}

func TestPromptLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, out := newTypist(), &lockedBuffer{}
		p := &prompter{out: out, in: tipstaff.NewLineReader(keys)}
		begin := time.Now()
		if _, ok := p.ask(context.Background(), publishGate()); ok {
			t.Error("decided")
		}
		if waited := time.Since(begin); waited != 10*time.Minute {
			t.Errorf("waited %v", waited)
		}
		contains(t, "prompt", out.String(), "no answer in 10m00s: the run parks\n")
		keys.w.Close()
	})
}

func TestPromptEndsOnSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, out := newTypist(), &lockedBuffer{}
		stop, cancel := context.WithCancelCause(context.Background())
		p := &prompter{out: out, in: tipstaff.NewLineReader(keys)}
		answered := make(chan bool)
		go func() {
			_, ok := p.ask(stop, publishGate())
			answered <- ok
		}()
		synctest.Wait()
		cancel(&SignalError{syscall.SIGINT})
		if <-answered {
			t.Error("decided")
		}
		contains(t, "prompt", out.String(), "the run is being stopped")
		keys.w.Close()
	})
}

func TestEndOfInputStaysTheEnd(t *testing.T) {
	// A terminal can be read again after its end; nobody is there all the same.
	keys := &endsOnce{rest: strings.NewReader("approve\n")}
	p := &prompter{out: io.Discard, in: tipstaff.NewLineReader(keys)}
	for range 2 {
		if c, ok := p.ask(context.Background(), publishGate()); ok {
			t.Errorf("decided %+v", c)
		}
	}
}

// endsOnce is a terminal on which Ctrl-D was typed, and then something else.
type endsOnce struct {
	ended bool
	rest  io.Reader
}

func (e *endsOnce) Read(p []byte) (int, error) {
	if !e.ended {
		e.ended = true
		return 0, io.EOF
	}
	return e.rest.Read(p)
}

func TestRunAttendedAsksAndGoesOn(t *testing.T) {
	b := newBench(t).terminal()
	b.env.Stdin = strings.NewReader("app\n")
	b.svc.start = asks(b.svc)
	b.run(t, 0, "run", planFile(t))
	var vt vterm
	vt.Write([]byte(b.err.String()))
	contains(t, "terminal", vt.String(), "root/ok (question) asks: Publish?", "digest: sha256:d1", "  ✓ ok  Publish?")
	contains(t, "stderr", b.err.String(), "approve, deny? ") // no echo here: the tree stands in its place
	contains(t, "stdout", b.out.String(), "state  completed (success)\n")
}

func TestRunAttendedDeclinesAtTheEndOfInput(t *testing.T) {
	b := newBench(t).terminal()
	b.svc.start = asks(b.svc)
	b.run(t, 4, "run", planFile(t))
	contains(t, "stderr", b.err.String(), "no answer: the run parks", "tipstaff decide 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 root/ok approve\n")
}

func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	for name, change := range map[string]func(*Env){
		"stdin":  func(e *Env) { e.StdinTTY = false },
		"stderr": func(e *Env) { e.StderrTTY = false },
	} {
		b := newBench(t).terminal()
		change(b.env)
		b.env.Stdin = strings.NewReader("approve\n")
		b.svc.start = asks(b.svc)
		b.run(t, 4, "run", planFile(t))
		if strings.Contains(b.err.String(), "approve, deny?") {
			t.Errorf("asked although %s is no terminal", name)
		}
	}
}

// An answer that is not accepted is asked for again: the person learns why.
func TestARefusedAnswerIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t).terminal()
		b.svc.start = asks(b.svc)
		b.svc.refuse = func(r tipstaff.DecideRequest) error {
			if r.Action == "deny" {
				return tipstaff.Errorf(tipstaff.InvalidArgument, "deny needs \x1b[1mwords").WithHint("say why")
			}
			return nil
		}
		keys := newTypist()
		b.env.Stdin = keys
		go func() {
			defer keys.w.Close()
			for _, answer := range []string{"deny\n", "deny\n", "approve\n"} {
				synctest.Wait()
				keys.types(answer)
			}
		}()
		b.run(t, 0, "run", planFile(t))
		shown := b.err.String()
		contains(t, "stderr", shown, "not accepted: deny needs \\u001b[1mwords\nhint: say why\n")
		if n := strings.Count(shown, "asks: Publish?"); n != 3 {
			t.Errorf("asked %d times, want 3:\n%s", n, shown)
		}
	})
}

func TestWhoAnsweredElsewhereIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, out := newTypist(), &lockedBuffer{}
		p := &prompter{out: out, in: tipstaff.NewLineReader(keys)}
		ctx, withdraw := context.WithCancelCause(context.Background())
		go func() {
			synctest.Wait() // until the read blocks
			withdraw(&tipstaff.AnsweredElsewhere{By: "alice", Action: "approve"})
		}()
		if _, ok := p.ask(ctx, publishGate()); ok {
			t.Error("decided")
		}
		contains(t, "prompt", out.String(), "\nno longer asked: already answered by alice: approve\n")
		keys.w.Close()
	})
}

// A gate that is higher than the terminal says again, where the answer is typed, what would
// be done: tool and path do not scroll away. One that fits says it once.
func TestALongGateSaysAgainWhatIsDecided(t *testing.T) {
	for _, c := range []struct {
		lines, height, times int
	}{{3, 24, 1}, {60, 24, 2}, {60, 200, 1}, {5000, 24, 2}} {
		var out strings.Builder
		p := &prompter{out: &out, in: tipstaff.NewLineReader(strings.NewReader("")), size: func() (int, int) { return 80, c.height }}
		p.ask(context.Background(), writeGate(c.lines))
		if n := strings.Count(out.String(), "tool: mcp://builtin/write_file@1.0.0"); n != c.times {
			t.Errorf("%d lines at a height of %d: the tool is named %d times, want %d\n%s", c.lines, c.height, n, c.times, out.String())
		}
		rows := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		last := strings.Join(rows[max(0, len(rows)-c.height):], "\n")
		contains(t, "what is still in sight", last, "root/w (approval) asks: May it be written?", "tool: mcp://builtin/write_file@1.0.0", `path: "out/notes.md"`, "allow? ")
	}
}

package main

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// talking has an agent that answers, one that asks before it acts, and one that
// takes its time.
const talking = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools: {exec: {effect: once}, sleep: {effect: read}}
models:
  first: {provider: scripted, script: script.yaml}
agents:
  default: {model: first, tools: [mcp://builtin/exec@1.0.0, mcp://builtin/sleep@1.0.0]}
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
-- script.yaml --
version: 1
answers:
  - {when: {user: "^act", step: 1}, text: "I would like to.", calls: [{tool: builtin/exec, args: {argv: [sh, -c, "echo acted | tee -a effects"]}}]}
  - {when: {user: "^act", result: acted}, text: It is done.}
  - {when: {user: "^act"}, text: Then not.}
  - {when: {user: "^wait", step: 1}, calls: [{tool: builtin/sleep, args: {duration: 5m}}]}
  - {when: {user: "^twice", turn: 2}, text: Now it is the second time.}
  - {text: "You said something.", when: {purpose: turn}}
`

// newChat is a workspace with those, on a terminal whose words tests can read.
func newChat(t *testing.T) *workspace {
	w := newWorkspace(t, talking)
	w.Env = []string{"NO_COLOR=1"}
	return w
}

// cooked reports whether the terminal is as a shell wants it.
func (term *terminal) cooked() bool {
	term.Folder.Helper()
	t, err := unix.IoctlGetTermios(int(term.keys.Fd()), unix.TCGETS)
	term.Folder.Check(err)
	return t.Lflag&unix.ICANON != 0 && t.Lflag&unix.ECHO != 0 && t.Lflag&unix.ISIG != 0
}

// ended waits for the end and wants an exit code, and the terminal in order.
func (term *terminal) ended(code int) string {
	term.Folder.Helper()
	r := term.Wait()
	<-term.dark
	if r.Code != code {
		term.Folder.Errorf("want exit code %d, got %d\n%s", code, r.Code, term.shown())
	}
	if !term.cooked() {
		term.Folder.Errorf("the terminal is left raw\n%s", term.shown())
	}
	return term.shown()
}

// drawnQuestion is an approval that waits for its answer: what is typed before it
// is drawn so is for the next turn.
const drawnQuestion = "\x1b[Jallow? "

// saysThenAsked types something and waits until one more question is asked.
func (term *terminal) saysThenAsked(text string) {
	term.Folder.Helper()
	before := strings.Count(term.shown(), drawnQuestion)
	term.types(text)
	term.asked(drawnQuestion, before+1)
}

func TestChatAtATerminal(t *testing.T) {
	t.Parallel()
	w := newChat(t)
	term := w.atTerminal("chat")
	term.asked("/help", 1)
	term.types("twice\r")
	term.asked("You said something.", 1)
	term.asked("1 step", 1)
	term.types("twice\r")
	term.asked("Now it is the second time.", 1)
	term.asked("1 step", 2)
	term.saysThenAsked("act\r")
	term.types("y\r")
	term.asked("It is done.", 1)
	term.asked("2 steps", 1)
	term.saysThenAsked("act\r")
	term.types("n\r")
	term.asked("Then not.", 1)
	term.types("\x04")
	shown := term.ended(0)
	for _, text := range []string{"builtin/exec", "once, may destroy", "allow by terminal", "deny by terminal", "tipstaff chat --session "} {
		if !strings.Contains(shown, text) {
			t.Errorf("%q was not shown:\n%s", text, shown)
		}
	}
	if got := w.effects(); got != "acted" {
		t.Errorf("effects %q", got)
	}
	runs := w.runs()
	if len(runs) != 4 {
		t.Fatalf("%d turns were taken", len(runs))
	}
	for _, run := range runs {
		w.Must(0, "verify", run)
	}
}

// The first Ctrl-C cancels the turn, whether the terminal makes a signal of it or
// not, and the session can be gone on with.
func TestCtrlCCancelsATurn(t *testing.T) {
	t.Parallel()
	t.Run("one message", func(t *testing.T) {
		t.Parallel()
		w := newChat(t)
		term := w.atTerminal("chat", "wait")
		term.asked("▸ builtin/sleep", 1)
		term.types("\x03")
		shown := term.ended(8)
		if s := w.show("@"); s.State != "cancelled" {
			t.Errorf("the turn is %s\n%s", s.State, shown)
		}
		w.Must(0, "verify", "@")
	})
	t.Run("at the prompt", func(t *testing.T) {
		t.Parallel()
		w := newChat(t)
		term := w.atTerminal("chat")
		term.asked("/help", 1)
		term.types("wait\r")
		term.asked("▸ builtin/sleep", 1)
		term.types("\x03")
		term.asked("cancelled", 1)
		if s := w.show("@"); s.State != "cancelled" {
			t.Errorf("the turn is %s", s.State)
		}
		term.types("twice\r")
		term.asked("Now it is the second time.", 1)
		term.types("/quit\r")
		term.ended(0)
		w.Must(0, "verify", "@")
	})
}

// A signal interrupts: the turn can be gone on with.
func TestSignalInterruptsATurn(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"one message": {"chat", "wait"}, "at the prompt": {"chat"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newChat(t)
			term := w.atTerminal(args...)
			if len(args) == 1 {
				term.asked("/help", 1)
				term.types("wait\r")
			}
			term.asked("▸ builtin/sleep", 1)
			term.Signal(syscall.SIGTERM)
			shown := term.ended(143)
			if s := w.show("@"); s.Status != "interrupted" || !strings.Contains(shown, "tipstaff resume "+s.ID) {
				t.Errorf("the turn is %s\n%s", s.Status, shown)
			}
			w.Must(0, "verify", "@", "--open")
		})
	}
}

// A turn that was parked is gone on with when its session is opened again.
func TestChatGoesOnWithAParkedTurn(t *testing.T) {
	t.Parallel()
	w := newChat(t)
	told := sessionTold.FindStringSubmatch(w.Must(4, "chat", "act").Err)
	if told == nil {
		t.Fatal("it does not say how to go on")
	}
	term := w.atTerminal("chat", "--session", told[1])
	term.asked(drawnQuestion, 1)
	term.types("y\r")
	term.asked("It is done.", 1)
	term.types("hello\r")
	term.asked("You said something.", 1)
	term.types("\x04")
	term.ended(0)
	if got := w.effects(); got != "acted" {
		t.Errorf("effects %q", got)
	}
	w.Must(0, "verify", "@")
}

// Killed at any moment, a conversation is found again, read, and gone on with.
func TestChatIsFoundAgainAfterAKill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ says, until string }{
		"while it asks":        {"act\r", drawnQuestion},
		"while a tool is used": {"wait\r", "▸ builtin/sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newChat(t)
			term := w.atTerminal("chat")
			term.asked("/help", 1)
			term.types("twice\r")
			term.asked("1 step", 1)
			term.types(c.says)
			term.asked(c.until, 1)
			term.Signal(syscall.SIGKILL)
			term.Wait()
			term = w.atTerminal("chat", "--continue")
			term.asked("› twice\r\nYou said something.\r\n", 1)
			term.asked("the last turn of this session has not ended; it goes on: ", 1)
			term.asked(c.until, 1)
			if name == "while it asks" {
				term.types("y\r")
				term.asked("It is done.", 1)
				term.types("\x04")
				term.ended(0)
				if got := w.effects(); got != "acted" {
					t.Errorf("effects %q", got)
				}
			} else {
				term.Signal(syscall.SIGTERM)
				term.ended(143)
			}
			if sessions := strings.Count(w.Must(0, "chat", "--list", "--json").Out, "\n"); sessions != 1 {
				t.Errorf("%d sessions", sessions)
			}
		})
	}
}

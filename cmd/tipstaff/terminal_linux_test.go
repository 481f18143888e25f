package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// terminal is a person's: the command sees a real one on all its streams.
type terminal struct {
	*cmdtest.Process
	keys *os.File

	mu     sync.Mutex
	screen bytes.Buffer
	dark   chan struct{} // closed when the command has let go of the terminal
}

func (w *workspace) atTerminal(args ...string) *terminal { return w.atTerminalOf(0, 0, args...) }

// atTerminalOf is for a terminal of a size; 0 is that nobody knows it.
func (w *workspace) atTerminalOf(width, height int, args ...string) *terminal {
	w.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		w.Skipf("there are no terminals here: %v", err)
	}
	w.Cleanup(func() { keys.Close() })
	w.Check(unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	w.Check(unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	w.Check(err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	w.Check(err)
	defer tty.Close()
	term := &terminal{Process: w.Prepare(args...), keys: keys, dark: make(chan struct{})}
	term.Cmd.Stdin, term.Cmd.Stdout, term.Cmd.Stderr = tty, tty, tty
	term.Cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	term.Begin()
	go term.watch()
	return term
}

func (term *terminal) watch() {
	defer close(term.dark)
	buf := make([]byte, 4096)
	for {
		n, err := term.keys.Read(buf)
		term.mu.Lock()
		term.screen.Write(buf[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// asked waits until the text has been shown for the n-th time.
func (term *terminal) asked(text string, n int) {
	term.Folder.Helper()
	term.Folder.Until(fmt.Sprintf("%q", text), func() bool { return strings.Count(term.shown(), text) >= n || !term.Running() })
}

func (term *terminal) types(text string) {
	term.Folder.Helper()
	if _, err := term.keys.WriteString(text); err != nil {
		term.Folder.Fatal(err)
	}
}

// Only an answer that was typed out and makes sense decides anything. Silence,
// nonsense and the end of input leave the gate as it is.
func TestAnswersAtATerminal(t *testing.T) {
	t.Parallel()
	const plan = `-- gate.yaml --
kind: plan
version: 1
root: {id: ok, kind: gate, question: "Publish this?", show: {title: hello}}
`
	for name, c := range map[string]struct {
		keys   []string // one after another, each when it is asked
		code   int
		action string // "": the gate stays open
	}{
		"approved":             {[]string{"approve\n"}, 0, "approve"},
		"approved in short":    {[]string{"a\n"}, 0, "approve"},
		"denied":               {[]string{"deny\n"}, 1, "deny"},
		"at the second try":    {[]string{"yes\n", "approve\n"}, 0, "approve"},
		"nothing but returns":  {[]string{"\n", "\n", "\n", "\n"}, 4, ""},
		"nothing but nonsense": {[]string{"yes\n", "ok\n", "sure\n", "y\n"}, 4, ""},
		"the end of input":     {[]string{"\x04"}, 4, ""},
		"a hint of an answer":  {[]string{"appr\x04\x04"}, 4, ""},
		"Ctrl-C":               {[]string{"\x03"}, 130, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, plan)
			term := w.atTerminal("run", "gate.yaml")
			for i, keys := range c.keys {
				term.asked("approve, deny? ", i+1)
				if !term.Running() {
					break // it has asked often enough
				}
				term.types(keys)
			}
			r := term.Wait()
			<-term.dark
			if r.Code != c.code {
				t.Errorf("want exit code %d, got %d\n%s", c.code, r.Code, term.shown())
			}
			for _, text := range []string{"Publish this?", "hello", "sha256:"} {
				if !strings.Contains(term.shown(), text) {
					t.Errorf("%q was not shown before the answer was asked for:\n%s", text, term.shown())
				}
			}
			action := ""
			for _, rec := range w.journal("@") {
				if rec.Kind == "policy.gate.resolve" {
					action = rec.field("action")
					if via := rec.field("via"); via != "terminal" {
						t.Errorf("it is recorded as decided via %s", via)
					}
				}
			}
			if action != c.action {
				t.Errorf("the gate was decided with %q, want %q", action, c.action)
			}
		})
	}
}

// An answer that does not fit the gate is refused with the reason, and the question is
// asked again.
func TestRefusedAnswerAtATerminal(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, `-- bound.yaml --
name: bound
max_iterations: 1
on_bound: ask
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {}}]}}
  - {name: judge, stage_order: 2, default_next: work, scripted: {answers: [{output: {}}]}}
`)
	term := w.atTerminal("run", "bound.yaml")
	const question = "extend by a number, like 5, or stop? "
	term.asked(question, 1)
	term.types("{\"iterations\":-1}\n")
	term.asked(question, 2)
	term.types("1\n")
	term.asked(question, 3) // one round later
	term.types("stop\n")
	r := term.Wait()
	<-term.dark
	if shown := term.shown(); r.Code != 5 || !strings.Contains(shown, "not accepted: a bound can only be extended by more than 0") {
		t.Errorf("exit code %d, want 5\n%s", r.Code, shown)
	}
	w.Must(0, "verify", "@")
}

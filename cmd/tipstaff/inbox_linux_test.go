package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/sqlite/sqlitetest"
)

const inboxPlans = manifest + `policy:
  rules:
    - {id: writes, tool: "builtin/write_file", do: ask}
-- gate.yaml --
kind: plan
version: 1
name: publish
root: {id: ok, kind: gate, question: "Publish this?", show: {title: hello}}
-- done.yaml --
kind: plan
version: 1
name: listing
root: {id: list, kind: tool_call, tool: "mcp://builtin/list_dir@1.0.0", args: {path: "."}}
`

// inboxTerminal is the inbox on a terminal of a size.
type inboxTerminal struct {
	*terminal
	width, height int
}

func (w *workspace) atInbox(width, height int) *inboxTerminal {
	w.Helper()
	return &inboxTerminal{w.atTerminalOf(width, height), width, height}
}

func (term *inboxTerminal) screen() *screen {
	return newScreen(term.width, term.height).shows(term.shown())
}

// until waits for texts to be on the screen at once, and returns it.
func (term *inboxTerminal) until(texts ...string) string {
	term.Folder.Helper()
	var at string
	has := func() bool {
		at = term.screen().String()
		for _, text := range texts {
			if !strings.Contains(at, text) {
				return !term.Running()
			}
		}
		return true
	}
	defer func() {
		if term.Folder.Failed() {
			term.Folder.Logf("the screen:\n%s", at)
		}
	}()
	term.Folder.Until(fmt.Sprintf("%q", texts), has)
	for _, text := range texts {
		if !strings.Contains(at, text) {
			term.Folder.Fatalf("it has ended without %q:\n%s", text, at)
		}
	}
	return at
}

// crowd fills the workspace with ten thousand runs, of which five hundred ask.
func (w *workspace) crowd() {
	w.Helper()
	w.Must(0, "run", "done.yaml")
	done := w.runs()[0]
	w.Must(4, "run", "gate.yaml", "--unattended")
	var waits struct {
		Run  string `json:"run_id"`
		Gate struct {
			ID string `json:"gate_id"`
		}
	}
	w.Check(json.Unmarshal([]byte(w.Must(0, "decide", "--json").Out), &waits))
	w.Check(sqlitetest.Crowd(w.Dir, done, 9_500, waits.Run, waits.Gate.ID, 500))
}

// The inbox among ten thousand runs: what waits, the keys, a filter, a gate and its decision,
// what runs and what has ended.
func TestInbox(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("of the inbox there are tests with fewer runs")
	}
	for _, size := range [][2]int{{60, 20}, {120, 40}} {
		t.Run(fmt.Sprintf("%d columns", size[0]), func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, inboxPlans)
			w.Env = []string{"NO_COLOR=1", "TERM=xterm-256color"}
			w.crowd()
			w.Must(4, "run", "gate.yaml", "--unattended") // one that can go on
			term := w.atInbox(size[0], size[1])
			term.until("[1 Waits 496]", "AGE  EXPIRES  ASKS", "Publish this?", "publish  root", "? help  q quit") // five have expired
			if !term.screen().other {
				t.Error("the screen of the shell is drawn on")
			}
			term.types("?")
			term.until("Keys", "resume the run, in a process of its own", "any key back")
			term.types(" ")
			term.types("/nothing like it\r")
			term.until("nothing here holds nothing like it; esc shows all")
			term.types("\x1b")
			term.until("[1 Waits 496]")

			term.types("\r")
			term.until("root (question) asks: Publish this?", `show: {"title":"hello"}`, "enter decides: approve, deny")
			term.types("\r")
			term.until("approve, deny?", "enter send")
			term.visible()
			term.types("maybe\r")
			term.until(`"maybe" is none of the actions`)
			term.visible()
			term.types("approve because it reads well\r")
			term.until("decided: approve; r resumes the run")
			term.types("r")
			term.until("goes on in process")
			term.types("\x1b")
			term.until("[1 Waits 495]")

			term.types("3")
			term.until("[3 Ended", "ENDED AS", "completed", "listing", "publish")
			term.types("g") // what was chosen before the newest came stays chosen
			term.types("\r")
			term.until("completed  publish", "esc back")
			term.types("\x1b")
			term.until("[3 Ended")
			term.types("q")
			shown := term.ended(0)
			if strings.Contains(newScreen(size[0], size[1]).shows(shown).String(), "Ended") || newScreen(size[0], size[1]).shows(shown).other {
				t.Errorf("something is left of it: %q", shown[max(0, len(shown)-300):])
			}
			for _, rec := range w.journal(w.runs()[0]) {
				if rec.Kind == "policy.gate.resolve" && (rec.field("via") != "terminal" || rec.field("note") != "it reads well") {
					t.Errorf("it is recorded as %s, %s", rec.field("via"), rec.field("note"))
				}
			}
		})
	}
}

// visible waits for the cursor: the question is there, and what is typed answers it.
func (term *inboxTerminal) visible() {
	term.Folder.Helper()
	term.Folder.Until("the cursor", func() bool { return !term.screen().hidden || !term.Running() })
}

// The terminal is given back whole, whichever way the inbox ends.
func TestInboxGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*inboxTerminal)
		code int
	}{
		"q":       {func(term *inboxTerminal) { term.types("q") }, 0},
		"Ctrl-C":  {func(term *inboxTerminal) { term.types("\x03") }, 130},
		"SIGINT":  {func(term *inboxTerminal) { term.Signal(syscall.SIGINT) }, 130},
		"SIGTERM": {func(term *inboxTerminal) { term.Signal(syscall.SIGTERM) }, 143},
		"Ctrl-C at a question": {func(term *inboxTerminal) {
			term.types("\r")
			term.until("enter decides")
			term.types("\r")
			term.until("approve, deny?")
			term.types("\x03")
		}, 130},
		"Ctrl-Z": {func(term *inboxTerminal) {
			term.types("\x1a")
			term.Folder.Until("a shell's terminal", term.cooked)
			term.Folder.Until("its own again", func() bool {
				term.Folder.Check(term.Cmd.Process.Signal(syscall.SIGCONT))
				return !term.cooked()
			})
			term.until("Publish this?")
			term.types("q")
		}, 0},
		"another size": {func(term *inboxTerminal) {
			term.width, term.height = 60, 12
			term.Folder.Check(unix.IoctlSetWinsize(int(term.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 60}))
			term.Folder.Until("the smaller screen", func() bool {
				rows := strings.Split(term.screen().String(), "\n")
				return strings.HasPrefix(rows[11], "? help  q quit") || !term.Running()
			})
			term.types("q")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, inboxPlans)
			w.Env = []string{"TERM=xterm-256color"}
			w.Must(4, "run", "gate.yaml", "--unattended")
			term := w.atInbox(80, 24)
			term.until("1 Waits 1", "Publish this?")
			c.end(term)
			shown := term.ended(c.code)
			if s := newScreen(term.width, term.height).shows(shown); s.other || s.hidden {
				t.Errorf("the screen is left as it was: %q", shown[max(0, len(shown)-300):])
			}
		})
	}
}

// What somebody else decides meanwhile, in a process of their own, is seen without a key, and
// withdraws the question.
func TestInboxSeesWhatOthersDo(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, inboxPlans)
	w.Env = []string{"TERM=xterm-256color", "NO_COLOR=1"}
	w.Must(4, "run", "gate.yaml", "--unattended")
	term := w.atInbox(80, 24)
	term.until("[1 Waits 1]")
	w.Must(4, "run", "gate.yaml", "--unattended")
	term.until("[1 Waits 2]")
	term.types("\r")
	term.until("enter decides")
	term.types("\r")
	term.until("approve, deny?")
	term.visible()
	term.types("appr")
	oldest := w.runs()[1]
	w.Must(0, "decide", oldest, "root", "deny")
	term.until("already answered by local:cli: deny")
	term.types("ove\r\x1b")
	term.until("[1 Waits 1]")
	term.types("q")
	term.ended(0)
	for _, rec := range w.journal(oldest) {
		if rec.Kind == "policy.gate.resolve" && rec.field("action") != "deny" {
			t.Errorf("it was decided with %s", rec.field("action"))
		}
	}
}

// A terminal that cannot be drawn on gets what a pipe gets, and nothing is made by looking.
func TestBareCommandAtATerminal(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, inboxPlans)
	w.Env = []string{"TERM=dumb"}
	if shown := w.atTerminal().ended(0); !strings.Contains(shown, "Available Commands:") || strings.Contains(shown, "\x1b") {
		t.Errorf("at a dumb terminal:\n%s", shown)
	}
	w.Env = []string{"TERM=xterm"}
	term := w.atInbox(80, 24)
	term.until("Nothing waits for you.")
	term.types("q")
	term.ended(0)
	if _, err := os.Stat(w.Path(".tipstaff")); err == nil {
		t.Error("a store was made by looking")
	}
	empty := emptyWorkspace(t)
	empty.Env = []string{"TERM=xterm"}
	if shown := empty.atTerminal().ended(0); !strings.Contains(shown, "To make it one:\r\n  tipstaff init") || strings.Contains(shown, "\x1b[?1049h") {
		t.Errorf("outside of a workspace:\n%s", shown)
	}
}

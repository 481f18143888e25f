package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tipstaff/tipstaff"
)

// inboxBench is an inbox without a terminal: what it is told, and what it shows.
type inboxBench struct {
	*testing.T
	*inbox
	svc  *fakeService
	msgs chan tea.Msg
	keys keyDecoder

	piece, after int
	expected     bool
}

func newInboxBench(t *testing.T, width, height int, runs ...tipstaff.Run) *inboxBench {
	t.Helper()
	b := newBench(t).terminal()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	s := &inboxBench{T: t, svc: b.svc, msgs: make(chan tea.Msg, 64)}
	b.svc.runs = runs
	s.inbox = newInbox(&app{env: b.env, out: &output{w: b.out}, err: &output{w: b.err}}, ctx, b.svc)
	s.terminal, s.now = s, func() time.Time { return epoch.Add(90 * time.Minute) }
	s.changed = make(chan struct{})
	s.does(s.Init())
	s.does(s.update(tea.WindowSizeMsg{Width: width, Height: height}))
	s.until("what waits", "Waits ")
	return s
}

func (s *inboxBench) expect()                { s.expected = true }
func (s *inboxBench) answers(piece int) bool { return !s.expected && piece > s.after }

// draw is a frame that reaches the terminal.
func (s *inboxBench) draw() {
	if s.expected {
		s.expected, s.after = false, s.piece
	}
}

// does has a command done beside the test, as the library does.
func (s *inboxBench) does(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		msg := cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			for _, c := range batch {
				s.does(c)
			}
			return
		}
		select {
		case s.msgs <- msg:
		case <-s.ctx.Done():
		}
	}()
}

func (s *inboxBench) text() string { return s.View().Content }

// until takes messages in until the screen shows a text.
func (s *inboxBench) until(what, text string) {
	s.Helper()
	s.wait(what, func() bool { return strings.Contains(s.text(), text) })
}

func (s *inboxBench) wait(what string, done func() bool) {
	s.Helper()
	late := time.After(20 * time.Second)
	for !done() {
		select {
		case msg := <-s.msgs:
			if msg != nil {
				s.does(s.update(msg))
			}
		case <-late:
			s.Fatalf("%s did not come:\n%s", what, s.text())
		}
	}
}

// types is a piece of input.
func (s *inboxBench) types(text string) {
	s.piece++
	s.does(s.update(pressedMsg{append(s.keys.feed([]byte(text)), s.keys.pause()...), s.piece}))
}

// open opens the gate that is chosen, and draws it.
func (s *inboxBench) open() {
	s.Helper()
	s.types("\r")
	s.until("the gate", "enter decides")
	s.draw()
}

// asked waits for a question, and draws it.
func (s *inboxBench) asked(prompt string) {
	s.Helper()
	s.until("the question", prompt)
	s.wait("its frame", func() bool { return s.gate.drawn })
	s.draw()
}

// fits checks that nothing sticks out of the screen, and that nothing acts on the terminal.
func (s *inboxBench) fits() {
	s.Helper()
	rows := strings.Split(s.text(), "\n")
	if len(rows) != s.height {
		s.Errorf("%d rows on a screen of %d:\n%s", len(rows), s.height, s.text())
	}
	for _, r := range rows {
		if cells(r) > s.width {
			s.Errorf("%d cells on a screen of %d: %q", cells(r), s.width, r)
		}
		if r != clean(r) {
			s.Errorf("this acts on the terminal: %q", r)
		}
	}
}

// writeGate asks to write a file of many lines.
func writeGate(lines int) tipstaff.Gate {
	sum := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	args := jsonOf(map[string]string{"path": "out/notes.md", "content": strings.Repeat("all is well\n", lines)})
	return tipstaff.Gate{ID: gateA, Kind: tipstaff.Approval, Key: "root/w/approval", Path: "root/w", Question: "May it be written?",
		Subject: json.RawMessage(fmt.Sprintf(`{"uri":"mcp://builtin/write_file@1.0.0","class":"once","rule":"writes","args":%s,"tool_digest":%q,"args_digest":%q,"program":{"name":"plan","digest":%q}}`, args, sum, sum, sum)),
		Digest:  sum, Actions: []string{"allow", "deny"}, Deny: "deny", OpenedAt: epoch}
}

func waitingAt(g tipstaff.Gate) tipstaff.Run {
	r := waitingRun()
	r.OpenGates = []tipstaff.Gate{g}
	return r
}

func TestInboxShowsItsLists(t *testing.T) {
	hostile := publishGate()
	hostile.ID, hostile.Question, hostile.OpenedAt = mustID("01JCQ8R4T5V6W7X8Y9Z0A1B2G2"), "Send \x1b[2J\u202eit 日本語 to everyone who is on the list of people, today?", epoch.Add(30*time.Minute)
	hostile.ExpiresAt = epoch.Add(3 * time.Hour)
	other := waitingAt(hostile)
	other.ID, other.Title = runB, "A\x07 title that goes on for longer than there is room on any screen"
	for _, width := range []int{60, 80, 120} {
		s := newInboxBench(t, width, 20, waitingRun(), other)
		s.fits()
		contains(t, "the list", s.text(), "[1 Waits 2]", "  1h           Publish?", "  1h  in 1h    Send \\u001b[2J\\u202eit", "? help  q quit")
		if first, second := strings.Index(s.text(), "Publish?"), strings.Index(s.text(), "Send"); first > second {
			t.Errorf("the oldest is not the first:\n%s", s.text())
		}
		s.types("\t")
		s.until("the runs", "[2 Runs 2]") // of whatever status: the service of this test selects none
		if req := s.svc.listed[len(s.svc.listed)-1]; strings.Join(req.Status, " ") != "running queued interrupted awaiting_resume" {
			t.Errorf("%+v was read", req)
		}
		s.fits()
		s.types("3")
		s.until("what has ended", "[3 Ended 2]")
		if req := s.svc.listed[len(s.svc.listed)-1]; strings.Join(req.Status, " ") != "completed failed cancelled" || req.Limit > 50 {
			t.Errorf("%+v was read", req)
		}
		s.types("?")
		contains(t, "help", s.text(), "Ctrl-Z", "any key back")
		s.fits()
		s.types("x1")
		s.until("the list again", "[1 Waits 2]")
	}
}

func TestInboxReadsNoMoreThanIsShown(t *testing.T) {
	run := waitingRun()
	run.OpenGates = nil
	for i := range 10_000 {
		g := publishGate()
		g.ID, g.Question = mustID(fmt.Sprintf("02%024d", i)), fmt.Sprintf("Question %d?", i)
		run.OpenGates = append(run.OpenGates, g)
	}
	s := newInboxBench(t, 60, 24, run)
	contains(t, "the list", s.text(), "[1 Waits 10000]", "Question 0?")
	if n := len(s.lists[listWaits].rows); n > 24 {
		t.Errorf("%d gates were read for 24 rows", n)
	}
	for range 30 {
		s.types("j")
		s.wait("more", func() bool { return !s.lists[listWaits].reading })
	}
	contains(t, "further down", s.text(), "Question 30?")
	if n := len(s.lists[listWaits].rows); n > 100 {
		t.Errorf("%d gates were read for 30 steps", n)
	}
	s.types("/9999\r")
	s.until("what holds it", "Question 9999?")
	s.fits()
	contains(t, "the filter", s.text(), "[1 Waits 1]", "/9999")
	s.types("/none such\r")
	s.until("nothing", "nothing here holds 9999none such") // the field has what was looked for before
	s.types("\x1b")
	s.until("all again", "[1 Waits 10000]")
}

func TestInboxDecides(t *testing.T) {
	s := newInboxBench(t, 80, 24, waitingRun())
	var got tipstaff.DecideRequest
	s.svc.decide = func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
		got = r
		s.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: "awaiting_resume"})
		return tipstaff.Decided{Decision: tipstaff.Decision{Action: r.Action}, Run: s.svc.runs[0]}, nil
	}
	var resumed tipstaff.ResumeRequest
	s.svc.resume = func(_ context.Context, r tipstaff.ResumeRequest) (tipstaff.Started, error) {
		resumed = r
		return tipstaff.Started{Run: r.Run, Launched: &tipstaff.Launched{Pid: 42}}, nil
	}
	s.open()
	contains(t, "the gate", s.text(), "root/ok (question) asks: Publish?", "all is well", "digest: sha256:d1")
	s.types("\r")
	s.asked("approve, deny?")
	s.types("yes\r")
	s.asked("approve, deny?")
	contains(t, "nonsense", s.text(), `"yes" is none of the actions`)
	s.types("approve because it was read\r")
	s.until("the decision", "decided: approve; r resumes the run")
	if got.Run != runA || got.Gate != gateA.String() || got.Action != "approve" || got.Note != "it was read" || got.SubjectDigest != "sha256:d1" || got.Via != "terminal" {
		t.Errorf("%+v was decided", got)
	}
	s.types("r")
	s.until("the resumption", "goes on in process 42")
	if resumed.Run != runA || !resumed.Detach {
		t.Errorf("%+v was resumed", resumed)
	}
	s.types("\x1b")
	s.until("the empty list", "Nothing waits for you.")
}

// Whatever is typed before a question is on the screen does not answer it.
func TestInboxTakesNoAnswerTypedAhead(t *testing.T) {
	s := newInboxBench(t, 80, 24, waitingRun())
	var got []string
	s.svc.decide = func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
		got = append(got, r.Action)
		return tipstaff.Decided{Decision: tipstaff.Decision{Action: r.Action}, Run: waitingRun()}, nil
	}
	s.types("\rapprove\r") // the gate was not there yet
	s.until("the gate", "enter decides")
	s.types("\rapprove\r") // nor had it been drawn
	if s.gate.busy() {
		t.Fatal("a gate is decided that nobody has seen")
	}
	s.draw()
	s.types("\rapprove\r") // the question was not there
	s.until("the question", "approve, deny?")
	s.types("approve\r") // nor had it been drawn
	s.wait("its frame", func() bool { return s.gate.drawn })
	s.types("approve\r")
	ahead := s.piece
	s.draw()
	s.does(s.update(pressedMsg{[]key{{"text", "approve"}, {name: "enter"}}, ahead})) // typed before, and heard now
	if text := s.gate.editor.String(); text != "" || len(got) > 0 {
		t.Fatalf("%q stands there, and %q was decided", text, got)
	}
	s.types("deny\r")
	s.until("the decision", "decided: deny")
	if strings.Join(got, " ") != "deny" {
		t.Errorf("%q was decided", got)
	}
}

// A refusal is shown, and nothing is lost by it.
func TestInboxShowsRefusals(t *testing.T) {
	s := newInboxBench(t, 80, 24, waitingRun())
	s.svc.refuse = func(r tipstaff.DecideRequest) error {
		if r.Action == "deny" {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "deny needs \x1b[1mwords").WithHint("say why")
		}
		return tipstaff.Errorf(tipstaff.DecisionConflict, "gate root/ok was decided by bob: deny")
	}
	s.open()
	s.types("\r")
	s.asked("approve, deny?")
	s.types("deny\r")
	s.until("the refusal", "hint: say why")
	contains(t, "the refusal", s.text(), `not accepted: deny needs \u001b[1mwords`)
	s.asked("approve, deny?")
	s.types("approve\r")
	s.until("the other's decision", "nothing was decided here")
	contains(t, "the conflict", s.text(), "not accepted: gate root/ok was decided by bob: deny")
	s.fits()
}

// A question is withdrawn when somebody else answers it, and the screen says who did.
func TestInboxWithdrawsWhatOthersHaveDecided(t *testing.T) {
	s := newInboxBench(t, 80, 24, waitingRun())
	s.open()
	s.types("\r")
	s.asked("approve, deny?")
	s.types("appr")
	s.svc.append(tipstaff.KindPolicyGateResolve, "root/ok", fmt.Sprintf(`{"gate":%q,"action":"deny","via":"command","on_behalf_of":"local:bob"}`, gateA))
	s.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Waiting, Status: "awaiting_resume"})
	s.does(s.update(changedMsg{}))
	s.until("the news", "already answered by local:bob: deny")
	s.wait("the end of the question", func() bool { return !s.gate.busy() })
	s.types("\r")
	if s.gate.busy() {
		t.Error("a closed gate is asked about")
	}
}

// Tool and path are in sight however long the rest is, and digests come last.
func TestInboxKeepsInSightWhatIsDecided(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 20}, {120, 40}} {
		s := newInboxBench(t, size[0], size[1], waitingAt(writeGate(500)))
		s.open()
		inSight := func(where string) {
			t.Helper()
			s.fits()
			contains(t, where, s.text(), "May it be written?", "tool: mcp://builtin/write_file@1.0.0", `path: "out/notes.md"`)
		}
		inSight("the beginning")
		if strings.Contains(s.text(), "sha256:") {
			t.Errorf("digests stand where nobody looks for them:\n%s", s.text())
		}
		s.types("v")
		s.types("\r")
		s.asked("allow? y: yes")
		inSight("the question")
		for range 3 {
			s.types("\x1b[6~")
		}
		inSight("further down")
		s.types("\x1b")
		s.wait("the end of the question", func() bool { return !s.gate.busy() })
		s.types("G")
		inSight("the end")
		contains(t, "the end", s.text(), "digest: sha256:0123")
	}
}

// v shows all of a value in the view itself.
func TestInboxShowsEverything(t *testing.T) {
	s := newInboxBench(t, 80, 24, waitingAt(writeGate(500)))
	s.open()
	s.types("\r")
	s.asked("v: view everything")
	cut := s.text()
	s.types("v\r")
	s.until("the whole", "all of it is shown above")
	if s.text() == cut || !s.gate.whole {
		t.Errorf("it is as before:\n%s", s.text())
	}
	s.asked("allow? y")
}

func TestInboxWatches(t *testing.T) {
	run := tipstaff.Run{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Running, Status: "running", Program: tipstaff.Program{Kind: "plan", Name: "notes"}, CreatedAt: epoch}
	s := newInboxBench(t, 60, 20, run)
	s.svc.own(true)
	s.svc.append("run.started", "", `{}`)
	s.types("2")
	s.until("the run", "[2 Runs 1]")
	s.types("\r")
	s.until("the tree", "running  notes")
	s.svc.append("effect.intended", "root/read", `{"name":"tool.call"}`)
	s.until("the step", "read")
	s.fits()
	s.svc.append("intent.attest", "", `{"outcome":"success"}`)
	s.svc.own(false)
	s.until("the end", "completed")
	s.wait("the end of its records", func() bool { return s.watch.over })
	s.types("\x1b")
	contains(t, "the list", s.text(), "[2 Runs")
}

func TestInboxTellsAddresses(t *testing.T) {
	s := newInboxBench(t, 60, 20, waitingRun())
	s.types("o")
	s.until("the advice", "no page is served; to serve one: tipstaff serve")
	s.page = func() string { return "http://127.0.0.1:8080" }
	s.types("o")
	s.until("the address", "http://")
	joined := strings.ReplaceAll(s.text(), "\n", "")
	contains(t, "the address", joined, "http://127.0.0.1:8080/ui/runs/"+runA.String()+"/gates/"+gateA.String())
	s.fits()
}

// Without a terminal, without one that can be drawn on, or without a workspace there is help.
func TestBareCommand(t *testing.T) {
	b := newBench(t)
	b.run(t, 0)
	contains(t, "in a pipe", b.out.String(), "Tipstaff runs plans.", "Available Commands")
	for term, advice := range map[string]bool{"dumb": false, "": false, "xterm": true} {
		b := newBench(t).terminal()
		b.env.Raw = func() (func(), error) { t.Error("the terminal was taken"); return func() {}, nil }
		b.vars["TERM"], b.vars["TIPSTAFF_WORKSPACE"] = term, t.TempDir()
		b.run(t, 0)
		contains(t, term, b.out.String(), "Available Commands")
		if strings.Contains(b.out.String(), "  tipstaff init\n") != advice {
			t.Errorf("at a terminal that is %q:\n%s", term, b.out)
		}
	}
}

// What stays in sight of a gate is what would be done, whatever foreign text says.
func TestBriefOfAGate(t *testing.T) {
	g := writeGate(3)
	g.Subject = json.RawMessage(`{"uri":"mcp://desk/send@1.0.0","class":"once","rule":"r","why":"w","facts":{"a":{"b":[1,2,3,4,5,6,7,8,9]}},"args":{"body":"tool: mcp://desk/read@1.0.0\narguments\n  to: \"eve\"","to":"bob"}}`)
	equal(t, "brief", strings.Join(textOf(g, false).brief, "\n"), "tool: mcp://desk/send@1.0.0\nto: \"bob\"\nbody: 49 bytes\neffect: once\nrule: r")
}

func TestRowsOfALine(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"short", 20, "short"},
		{"words that go on", 10, "words that\ngo on"},
		{"    | a foreign line that goes on", 20, "    | a foreign line\n    | that goes on"},
		{"日本語日本語", 5, "日本\n語日\n本語"},
		{"", 5, ""},
	} {
		equal(t, c.line, strings.Join(rowsOf(c.line, c.width), "\n"), c.want)
	}
}

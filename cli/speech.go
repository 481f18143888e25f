package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// speech shows a turn as it goes on: what the model says, as it says it, and in
// short lines what it does. Standard output gets the answer alone; all else is
// talk. In a pipe the answer is written once, when it is known.
type speech struct {
	a       *app
	screen  *screen // for what is under way; nil: it is not shown
	live    bool    // standard output is a terminal: text is shown while it comes
	colored bool    // of standard error
	ahead   func() (entered int, typing string)

	step   int
	model  string
	since  time.Time // the model was asked then; zero: it is not its turn
	said   said
	open   channel // the line that is being written belongs to it; "": there is none
	stream streamText
	wrap   wrapper
	calls  []*spokenCall // that have no result yet
	usage  string        // the line at the end of the turn
	heard  bool          // the last message was shown
	answer string        // that was not shown while it came
}

type channel string

const (
	answering channel = "answer"
	reasoning channel = "reasoning"
)

// spokenCall is a tool call that the model asked for.
type spokenCall struct {
	path                   string
	name, effect, decision string
	since                  time.Time // zero: it does not run
	began                  time.Time // the first attempt
	retried                bool
	note                   string
}

// said is the text of one step as far as it was shown.
type said struct {
	from int    // where the last piece without a gap begins
	text string // that piece
}

func (s said) end() int { return s.from + len(s.text) }

// add takes in what comes at an offset, and reports what of it is new and how it
// joins: anew is a text that begins again, gap one of which something is missing.
func (s *said) add(offset int, text string) (piece string, anew, gap bool) {
	switch {
	case offset == 0 && s.end() > 0:
		*s = said{text: text}
		return text, true, false
	case offset > s.end():
		*s = said{offset, text}
		return text, false, true
	case offset < s.from, offset+len(text) <= s.end():
		return "", false, false
	}
	piece = text[s.end()-offset:]
	s.text += piece
	return piece, false, false
}

// rest is what of the whole text was not shown; false: what was shown is none of it.
func (s said) rest(whole string) (string, bool) {
	if s.end() > len(whole) || whole[s.from:s.end()] != s.text {
		return whole, false
	}
	return whole[s.end():], true
}

func (a *app) newSpeech(screen *screen) *speech {
	return &speech{a: a, screen: screen, live: a.env.StdoutTTY, colored: a.env.colored(a.env.StderrTTY)}
}

// take takes in an event. Of what is history nothing is shown, but how a call that
// goes on now began.
func (s *speech) take(ev *tipstaff.Event, history bool) {
	switch ev.Kind {
	case tipstaff.KindAgentTextDelta:
		s.delta(tipstaff.BodyOf[tipstaff.AgentTextDelta](ev))
	case tipstaff.KindAgentStepStarted:
		b := tipstaff.BodyOf[tipstaff.AgentStepStarted](ev)
		s.step, s.model, s.since, s.said = b.Step, b.Model, ev.At, said{}
		if !history && b.Cut != (tipstaff.AgentCut{}) {
			s.note(fmt.Sprintf("the conversation is too long for the model: %s left out, %s shortened", plural(b.Cut.Dropped, "message"), plural(b.Cut.Elided+b.Cut.Shortened, "result")))
		}
	case tipstaff.KindAgentMessage:
		s.since = time.Time{}
		if s.heard = !history; s.heard {
			s.message(tipstaff.BodyOf[tipstaff.AgentMessage](ev).Text)
		}
		s.said = said{}
	case tipstaff.KindAgentRouterDecided:
		if b := tipstaff.BodyOf[tipstaff.AgentRouterDecided](ev); b.Fallback != "" && !history {
			s.note("all tools are offered: " + b.Fallback)
		}
	case tipstaff.KindAgentFinish:
		b := tipstaff.BodyOf[tipstaff.AgentFinish](ev)
		s.since, s.usage = time.Time{}, usageText(b.Steps, b.ToolCalls, b.Usage)
		if (!s.live || !s.heard) && !history {
			s.answer = b.Text
		}
	case tipstaff.KindAgentError:
		b := tipstaff.BodyOf[tipstaff.AgentError](ev)
		s.since, s.usage = time.Time{}, usageText(b.Steps, 0, b.Usage)
	case tipstaff.KindRunParked, tipstaff.KindRunInterrupted: // nothing is under way any more
		s.since = time.Time{}
		for _, c := range s.calls {
			c.since, c.note = time.Time{}, ""
		}
	case tipstaff.KindEffectFailed:
		if b := tipstaff.BodyOf[tipstaff.Effect](ev); !history && b.Name == "model.call" {
			s.note(s.model + " is " + tipstaff.RetryText(ev))
			return
		}
		s.call(ev, history)
	default:
		s.call(ev, history)
	}
}

// call takes in what concerns one tool call.
func (s *speech) call(ev *tipstaff.Event, history bool) {
	path := strings.TrimSuffix(ev.Path, "/approval")
	if ev.Kind == tipstaff.KindAgentToolCallRequest {
		b := tipstaff.BodyOf[tipstaff.AgentToolCallRequest](ev)
		s.calls = append(s.calls, &spokenCall{path: path, name: b.Title(), effect: string(b.Effect)})
		return
	}
	i := slices.IndexFunc(s.calls, func(c *spokenCall) bool { return c.path == path })
	if i < 0 {
		return
	}
	c := s.calls[i]
	switch ev.Kind {
	case tipstaff.KindAgentApprovalDecided:
		b := tipstaff.BodyOf[tipstaff.AgentApprovalDecided](ev)
		c.decision = b.Decision + " by " + b.By
		if b.By == "policy" {
			c.decision = b.Decision + " by rule " + b.Rule
		}
	case tipstaff.KindPolicyGateResolve:
		if ev.Path != path {
			b := tipstaff.BodyOf[tipstaff.GateResolved](ev)
			c.decision = tipstaff.Joined(" by ", b.Action, b.Via)
		}
	case tipstaff.KindEffectIntended:
		c.since = ev.At
		if !c.retried {
			c.began = ev.At
		}
	case tipstaff.KindToolProgress:
		if !c.since.IsZero() {
			c.note = tipstaff.BodyOf[tipstaff.ToolProgress](ev).String()
		}
	case tipstaff.KindEffectFailed:
		c.retried, c.note = true, tipstaff.RetryText(ev)
		if !history {
			s.note(c.name + " is " + c.note)
		}
	case tipstaff.KindEffectFinished:
		c.since, c.note = time.Time{}, ""
	case tipstaff.KindAgentToolCallResult:
		s.calls = slices.Delete(s.calls, i, i+1)
		if !history {
			s.tell(c.line(tipstaff.BodyOf[tipstaff.AgentToolCallResult](ev), ev.At))
		}
	}
}

// line is a call that has ended, in short.
func (c *spokenCall) line(b tipstaff.AgentToolCallResult, at time.Time) line {
	mark := marks[tipstaff.NodeDone]
	if b.IsError {
		mark = marks[tipstaff.NodeFailed]
	}
	took := ""
	if b.DurationMS > 0 || !b.IsError {
		took = human(time.Duration(b.DurationMS) * time.Millisecond)
	}
	if c.retried { // as long as somebody has waited for it
		took = human(at.Sub(c.began))
	}
	l := line{mark, say(plain, " "+c.name)}.and(dim, tipstaff.Joined("  ", c.effect, c.decision, took))
	if b.IsError {
		text, _, _ := strings.Cut(b.Content, "\n")
		text = strings.TrimPrefix(text, b.Class+": ") // what was refused says so to the model
		l = l.and(plain, fit(clean(tipstaff.Joined(": ", b.Class, text)), maxDetail))
	}
	return l
}

// delta is a piece of what the model says, while it says it.
func (s *speech) delta(b tipstaff.AgentTextDelta) {
	if !s.live {
		return
	}
	if channel(b.Channel) == reasoning {
		if s.a.env.StderrTTY {
			s.write(reasoning, b.Text)
		}
		return
	}
	piece, anew, gap := s.said.add(int(b.Offset), b.Text)
	switch {
	case anew:
		s.note("the answer was broken off and begins anew")
	case gap:
		piece = "…" + piece
	}
	s.write(answering, piece)
}

// message is the whole of what the model has said in a step.
func (s *speech) message(text string) {
	if s.live {
		rest, joins := s.said.rest(text)
		if !joins {
			s.note("what follows is the whole text")
		}
		s.write(answering, rest)
	}
	s.endLine()
}

// write shows text that may not be a whole line.
func (s *speech) write(c channel, text string) {
	if text == "" {
		return
	}
	if s.open != c {
		s.endLine()
		s.screen.suspend()
		width, _ := s.a.env.size()
		s.open, s.stream, s.wrap = c, streamText{}, wrapper{width: width}
	}
	s.put(s.wrap.add(s.stream.clean(text)))
}

// put writes what belongs to the line that is being written.
func (s *speech) put(text string) {
	if text == "" {
		return
	}
	if s.open == answering {
		io.WriteString(s.a.out, text)
		return
	}
	if s.colored {
		text = dim.paint(text)
	}
	io.WriteString(s.a.err, text)
}

// endLine ends the line that is being written, if there is one.
func (s *speech) endLine() {
	if s.open == "" {
		return
	}
	w := s.a.err
	if s.open == answering {
		w = s.a.out
	}
	s.put(s.wrap.rest())
	if s.stream.tail != "\n" {
		io.WriteString(w, "\n")
	}
	s.open = ""
	s.screen.resume()
}

// tell writes a line of talk.
func (s *speech) tell(l line) {
	s.endLine()
	s.screen.suspend()
	defer s.screen.resume()
	fmt.Fprintln(s.a.err, l.text(s.colored))
}

func (s *speech) note(text string) { s.tell(line{say(dim, text)}) }

// under is what is under way, below the text. It has at most height lines.
func (s *speech) under(width, height int, now time.Time) (lines []line) {
	for _, c := range s.calls {
		if c.since.IsZero() {
			continue
		}
		lines = append(lines, line{marks[tipstaff.NodeRunning], say(plain, " "+c.name), say(dim, "  "+tipstaff.Joined("  ", c.effect, human(now.Sub(c.since)), c.note))})
	}
	if !s.since.IsZero() {
		lines = append(lines, line{marks[tipstaff.NodeRunning], say(dim, tipstaff.Joined("  ", fmt.Sprintf(" step %d", s.step), s.model, human(now.Sub(s.since))))})
	}
	if s.ahead != nil {
		switch n, typing := s.ahead(); {
		case typing != "":
			lines = append(lines, line{say(dim, "for the next turn: "+typing)})
		case n > 0:
			lines = append(lines, line{say(dim, plural(n, "message")+" for the next turns")})
		}
	}
	lines = lines[max(0, len(lines)-height):]
	for i := range lines {
		lines[i] = lines[i].fit(width)
	}
	return lines
}

// usageText is what a turn took.
func usageText(steps, calls int, u tipstaff.ModelUsage) string {
	parts := []string{plural(steps, "step")}
	if calls > 0 {
		parts = append(parts, plural(calls, "tool call"))
	}
	if u.TotalTokens > 0 {
		parts = append(parts, fmt.Sprintf("%s (%d in, %d out)", plural(int(u.TotalTokens), "token"), u.InputTokens, u.OutputTokens))
	}
	switch {
	case u.CostUSD == nil:
		parts = append(parts, "cost unknown")
	case *u.CostUSD != 0:
		parts = append(parts, tipstaff.CostText(*u.CostUSD, u.LostUSD))
	}
	return strings.Join(parts, ", ")
}

// finish writes what is left to say of a turn.
func (s *speech) finish() {
	s.endLine()
	s.screen.suspend()
	if s.answer != "" {
		io.WriteString(s.a.out, strings.TrimSuffix(dataText(s.answer), "\n")+"\n")
	}
	if s.usage != "" {
		fmt.Fprintln(s.a.err, line{say(dim, s.usage)}.text(s.colored))
	}
}

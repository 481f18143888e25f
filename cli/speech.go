package cli

import (
	"encoding/json"
	"fmt"
	"io"
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
	calls  map[string]*spokenCall // by their paths
	order  []string               // of the calls that have no result yet
	usage  string                 // the line at the end of the turn
	answer string                 // that was not shown while it came
}

type channel string

const (
	answering channel = "answer"
	reasoning channel = "reasoning"
)

// spokenCall is a tool call that the model asked for.
type spokenCall struct {
	name, effect, decision string
	since                  time.Time // zero: it does not run
	note                   string
}

// agentBody has the members of all records of an agent that speech looks at.
type agentBody struct {
	Step     int     `json:"step"`
	Model    string  `json:"model"`
	Channel  channel `json:"channel"`
	Offset   int     `json:"offset"`
	Text     string  `json:"text"`
	Name     string  `json:"name"`
	Server   string  `json:"server"`
	Tool     string  `json:"tool"`
	Effect   string  `json:"effect"`
	Decision string  `json:"decision"`
	By       string  `json:"by"`
	Rule     string  `json:"rule"`
	Action   string  `json:"action"`
	Via      string  `json:"via"`
	IsError  bool    `json:"is_error"`
	Class    string  `json:"class"`
	Content  string  `json:"content"`
	Duration int64   `json:"duration_ms"`
	Fallback string  `json:"fallback"`
	Cut      struct {
		Elided  int `json:"elided"`
		Dropped int `json:"dropped"`
	} `json:"cut"`
	Usage     agentUsage `json:"usage"`
	Code      string     `json:"code"`
	Msg       string     `json:"msg"`
	Steps     int        `json:"steps"`
	ToolCalls int        `json:"tool_calls"`
}

// agentBodyOf reads what is looked at; false: the record has another form.
func agentBodyOf(ev tipstaff.Event) (b agentBody, ok bool) {
	return b, json.Unmarshal(ev.Body, &b) == nil
}

// tool is what the model wants to call, under the name that it has here.
func (b agentBody) tool() string {
	if b.Server == "" {
		return b.Name
	}
	return b.Server + "/" + b.Tool
}

type agentUsage struct {
	Input  int64   `json:"input_tokens"`
	Output int64   `json:"output_tokens"`
	Total  int64   `json:"total_tokens"`
	Cost   *string `json:"cost_usd"` // nil: nobody knows
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
	return &speech{a: a, screen: screen, live: a.env.StdoutTTY, colored: a.env.colored(a.env.StderrTTY), calls: map[string]*spokenCall{}}
}

// take takes in an event. Of what is history nothing is shown, but how a call that
// goes on now began.
func (s *speech) take(ev tipstaff.Event, history bool) {
	b, ok := agentBodyOf(ev)
	if !ok {
		return
	}
	switch ev.Kind {
	case tipstaff.KindAgentTextDelta:
		s.delta(b)
	case tipstaff.KindAgentStepStarted:
		s.step, s.model, s.since, s.said = b.Step, b.Model, ev.At, said{}
		if !history && b.Cut.Elided+b.Cut.Dropped > 0 {
			s.note(fmt.Sprintf("the conversation is too long for the model: %s left out, %s shortened", plural(b.Cut.Dropped, "message"), plural(b.Cut.Elided, "result")))
		}
	case tipstaff.KindAgentMessage:
		s.since = time.Time{}
		if !history {
			s.message(b.Text)
		}
		s.said = said{}
	case tipstaff.KindAgentRouterDecided:
		if b.Fallback != "" && !history {
			s.note("all tools are offered: " + b.Fallback)
		}
	case tipstaff.KindAgentFinish, tipstaff.KindAgentError:
		s.since = time.Time{}
		s.usage = usageText(b)
		if ev.Kind == tipstaff.KindAgentFinish && !s.live && !history {
			s.answer = b.Text
		}
	case tipstaff.KindRunParked, tipstaff.KindRunInterrupted:
		s.rest()
	default:
		s.call(ev, b, history)
	}
}

// rest is the end of a drive: nothing is under way any more.
func (s *speech) rest() {
	s.since = time.Time{}
	for _, c := range s.calls {
		c.since, c.note = time.Time{}, ""
	}
}

// call takes in what concerns one tool call.
func (s *speech) call(ev tipstaff.Event, b agentBody, history bool) {
	path := strings.TrimSuffix(ev.Path, "/approval")
	if ev.Kind == tipstaff.KindAgentToolCallRequest {
		s.calls[path] = &spokenCall{name: b.tool(), effect: b.Effect}
		s.order = append(s.order, path)
		return
	}
	c := s.calls[path]
	if c == nil {
		return
	}
	switch ev.Kind {
	case tipstaff.KindAgentApprovalDecided:
		c.decision = b.Decision + " by " + b.By
		if b.By == "policy" {
			c.decision = b.Decision + " by rule " + b.Rule
		}
	case tipstaff.KindPolicyGateResolve:
		if ev.Path != path {
			c.decision = joined(" by ", b.Action, b.Via)
		}
	case tipstaff.KindEffectIntended:
		c.since = ev.At
	case tipstaff.KindToolProgress:
		if !c.since.IsZero() {
			c.note = bodyOf(ev).progress()
		}
	case tipstaff.KindEffectFailed, tipstaff.KindEffectFinished:
		c.since, c.note = time.Time{}, ""
	case tipstaff.KindAgentToolCallResult:
		s.order = without(s.order, path)
		if !history {
			s.tell(c.line(b))
		}
	}
}

func without(all []string, one string) []string {
	var left []string
	for _, s := range all {
		if s != one {
			left = append(left, s)
		}
	}
	return left
}

// line is a call that has ended, in short.
func (c *spokenCall) line(b agentBody) line {
	mark := marks[done]
	if b.IsError {
		mark = marks[failed]
	}
	took := ""
	if b.Duration > 0 || !b.IsError {
		took = human(time.Duration(b.Duration) * time.Millisecond)
	}
	l := line{mark, say(plain, " "+c.name)}
	if how := joined("  ", c.effect, c.decision, took); how != "" {
		l = append(l, say(dim, "  "+how))
	}
	if b.IsError {
		text, _, _ := strings.Cut(b.Content, "\n")
		l = append(l, say(plain, "  "+fit(clean(joined(": ", b.Class, text)), maxDetail)))
	}
	return l
}

// delta is a piece of what the model says, while it says it.
func (s *speech) delta(b agentBody) {
	if !s.live {
		return
	}
	if b.Channel == reasoning {
		if s.a.env.StderrTTY {
			s.write(reasoning, b.Text)
		}
		return
	}
	piece, anew, gap := s.said.add(b.Offset, b.Text)
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
		if s.screen != nil {
			s.screen.suspend()
		}
		s.open, s.stream = c, streamText{}
	}
	text = s.stream.clean(text)
	if c == answering {
		io.WriteString(s.a.out, text)
		return
	}
	if s.colored {
		text = "\x1b[" + string(dim) + "m" + text + "\x1b[0m"
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
	if s.stream.tail != "\n" {
		io.WriteString(w, "\n")
	}
	s.open = ""
	if s.screen != nil {
		s.screen.resume()
	}
}

// tell writes a line of talk.
func (s *speech) tell(l line) {
	s.endLine()
	if s.screen != nil {
		s.screen.suspend()
		defer s.screen.resume()
	}
	fmt.Fprintln(s.a.err, l.text(s.colored))
}

func (s *speech) note(text string) { s.tell(line{say(dim, text)}) }

// paint shows what is under way below the text, unless text is being written.
func (s *speech) paint() {
	s.screen.paint(func(width, height int) []line {
		lines := s.under(time.Now())
		lines = lines[max(0, len(lines)-height):]
		for i := range lines {
			lines[i] = lines[i].fit(width)
		}
		return lines
	})
}

func (s *speech) under(now time.Time) (lines []line) {
	for _, path := range s.order {
		c := s.calls[path]
		if c.since.IsZero() {
			continue
		}
		lines = append(lines, line{marks[running], say(plain, " "+c.name), say(dim, "  "+joined("  ", c.effect, human(now.Sub(c.since)), c.note))})
	}
	if !s.since.IsZero() {
		lines = append(lines, line{marks[running], say(dim, joined("  ", fmt.Sprintf(" step %d", s.step), s.model, human(now.Sub(s.since))))})
	}
	if s.ahead == nil {
		return lines
	}
	switch n, typing := s.ahead(); {
	case typing != "":
		lines = append(lines, line{say(dim, "for the next turn: "+typing)})
	case n > 0:
		lines = append(lines, line{say(dim, plural(n, "message")+" for the next turns")})
	}
	return lines
}

// usageText is what a turn took.
func usageText(b agentBody) string {
	u := b.Usage
	parts := []string{plural(b.Steps, "step")}
	if b.ToolCalls > 0 {
		parts = append(parts, plural(b.ToolCalls, "tool call"))
	}
	if u.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s (%d in, %d out)", plural(int(u.Total), "token"), u.Input, u.Output))
	}
	switch {
	case u.Cost == nil:
		parts = append(parts, "cost unknown")
	case *u.Cost != "0.00":
		parts = append(parts, "$"+clean(*u.Cost))
	}
	return strings.Join(parts, ", ")
}

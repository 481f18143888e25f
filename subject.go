package tipstaff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Shown is what a gate asks about, as people see it. Every surface shows a gate by it
// and by nothing else, so that what is approved is what was shown.
//
// What asks comes first, then the values one by one, the short ones before the long
// ones. A long value is cut by itself, in its middle: its end may matter most, and no
// value can push another out of sight.
type Shown struct {
	// Lines are all of it, for a terminal or a page: printable, and with a bar before
	// every line that is another's text.
	Lines []string `json:"lines"`
	// Parts are the values, for whoever lays them out themselves.
	Parts []ShownPart `json:"parts"`
	// Whole: nothing was cut.
	Whole bool `json:"whole"`
}

// ShownPart is one value under its name. Its text is foreign, and as it is.
type ShownPart struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`         // of the value
	Cut   int    `json:"cut,omitempty"` // of them, left out of the middle
}

// Limits of what is shown of one value. They belong to the rules of runs: whether an
// acceptance covers a call depends on them.
const (
	shownHead  = 1536 // bytes of a text
	shownTail  = 512
	shownFirst = 40 // members of an object, items of a list
	shownLast  = 10
	shownLine  = 100 // bytes of what stands on a line with its name
	shownDepth = 16
)

// Subject is what a gate asks about, with long values cut.
func Subject(g Gate) Shown { return shownGate(g, false) }

// WholeSubject is all of what a gate asks about.
func WholeSubject(g Gate) Shown { return shownGate(g, true) }

// ShownWhole reports whether [Subject] shows all of a value.
func ShownWhole(v json.RawMessage) bool {
	s := shower{Shown: Shown{Whole: true}}
	s.value(0, "", "", v)
	return s.Whole
}

func shownGate(g Gate, all bool) Shown {
	s := shower{Shown: Shown{Lines: []string{}, Parts: []ShownPart{}, Whole: true}, all: all}
	s.subject(g)
	return s.Shown
}

type shower struct {
	Shown
	all  bool
	base int // the depth at which the value begins that is being shown
	// foreign: the values are a worker's, which no schema has checked. Its commands and
	// file texts are blocks however short they are, and names may be of any length.
	foreign bool
}

// line says something of ours at a depth.
func (s *shower) line(depth int, text string) {
	s.Lines = append(s.Lines, strings.Repeat("  ", depth)+Printable(text))
}

// field says something short of ours under its name; "" is left out.
func (s *shower) field(depth int, name, text string) {
	if text != "" {
		s.line(depth, name+": "+text)
	}
}

// subject tells the forms apart that gates of this program have. What it does not know
// is shown member by member.
func (s *shower) subject(g Gate) {
	var b struct {
		URI     string          `json:"uri"`
		Args    json.RawMessage `json:"args"`
		Outline *Outline        `json:"outline"`
		Digest  string          `json:"program_digest"`
		Input   json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(g.Subject, &b) // other forms have none of them
	d, delivers := DeliverySubjectOf(g)
	switch {
	case g.Kind == Approval && (s.workerRequest(g.Subject) || s.workerInvocation(g.Subject)), g.Kind == Question && s.workerQuestion(g.Subject):
	case delivers:
		s.delivery(d)
	case g.Kind == Handoff && s.handoff(g.Subject):
	case g.Kind == Approval && b.URI != "":
		s.approval(g.Subject)
	case g.Kind == Confirmation && b.Outline != nil:
		s.program(g.Subject)
	case g.Kind == Confirmation && b.Digest != "":
		s.correction(g.Subject)
	case g.Kind == InDoubt && b.Input != nil:
		s.doubt(g.Subject)
		s.given(g.Given)
		s.heard(g.Heard)
	case len(QuestionsOf(g)) > 0:
		for i, q := range QuestionsOf(g) {
			s.Parts = append(s.Parts, ShownPart{Name: q.ID, Text: q.Prompt, Bytes: len(q.Prompt)})
			s.line(0, fmt.Sprintf("%d. %s", i+1, q.Text()))
		}
	case len(g.Subject) > 0 && string(g.Subject) != "null":
		s.members(0, "", g.Subject)
	}
	if c := g.Changed; c != nil && c.Files > 0 {
		s.changes(c.Files, c.Added, c.Removed, c.First)
	}
}

// approval is a call that waits to be allowed.
func (s *shower) approval(raw json.RawMessage) {
	var b struct {
		URI        string `json:"uri"`
		ToolDigest string `json:"tool_digest"`
		Class      string `json:"class"`
		Hints      struct {
			Destructive bool `json:"destructive"`
			OpenWorld   bool `json:"open_world"`
		} `json:"hints"`
		Args       json.RawMessage `json:"args"`
		ArgsDigest string          `json:"args_digest"`
		Facts      json.RawMessage `json:"facts"`
		Rule       string          `json:"rule"`
		Why        string          `json:"why"`
		Program    struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"program"`
	}
	_ = json.Unmarshal(raw, &b)
	s.field(0, "tool", b.URI)
	effect := []string{b.Class}
	if b.Hints.Destructive {
		effect = append(effect, "may destroy")
	}
	if b.Hints.OpenWorld {
		effect = append(effect, "open world")
	}
	s.field(0, "effect", strings.Join(effect, ", "))
	s.field(0, "rule", b.Rule)
	s.field(0, "why", b.Why)
	if facts := string(b.Facts); facts != "" && facts != "{}" {
		s.value(0, "facts", "facts", b.Facts)
	}
	s.arguments(0, "", b.Args)
	s.field(0, "digest of "+b.Program.Name, b.Program.Digest)
	s.field(0, "digest of the tool", b.ToolDigest)
	s.field(0, "digest of the arguments", b.ArgsDigest)
}

// arguments are shown one by one.
func (s *shower) arguments(depth int, at string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "{}" {
		s.line(depth, "no arguments")
		return
	}
	s.line(depth, "arguments")
	s.members(depth+1, at, raw)
}

// program is a plan that waits to be accepted.
func (s *shower) program(raw json.RawMessage) {
	var b struct {
		IntentHash    string                     `json:"intent_hash"`
		ProgramDigest string                     `json:"program_digest"`
		Intent        json.RawMessage            `json:"intent"`
		Outline       *Outline                   `json:"outline"`
		Bounds        map[string]json.RawMessage `json:"bounds"`
	}
	_ = json.Unmarshal(raw, &b)
	s.value(0, "intent", "intent", b.Intent)
	s.line(0, "plan")
	s.node(1, b.Outline)
	var bounds []string
	for _, name := range sortedKeys(b.Bounds) {
		bounds = append(bounds, name+" "+strings.Trim(string(b.Bounds[name]), `"`))
	}
	s.field(0, "bounds", strings.Join(bounds, ", "))
	s.field(0, "intent_hash", b.IntentHash)
	s.field(0, "program_digest", b.ProgramDigest)
}

// ShownOutline is a program's tree with all that its nodes are given.
func ShownOutline(n *Outline) []string {
	s := shower{all: true}
	s.node(0, n)
	return s.Lines
}

func (s *shower) node(depth int, n *Outline) {
	s.base = depth
	name := n.ID
	if name == "" {
		name = n.Path[strings.LastIndexByte(n.Path, '/')+1:]
	}
	words := slices.DeleteFunc([]string{name, n.Kind, n.Label, n.Class}, func(w string) bool { return w == "" })
	s.line(depth, strings.Join(words, "  "))
	if len(n.Given) > 0 {
		s.members(depth+1, name, n.Given)
	}
	for _, c := range n.Children {
		s.node(depth+1, c)
	}
}

// Change is how a correction changes a node of a program, or something beside its tree.
type Change struct {
	What string          `json:"what"` // the id or path of the node, or the member of the document
	Was  json.RawMessage `json:"was,omitempty"`
	Now  json.RawMessage `json:"now,omitempty"`
}

// correction is a program that is to take the place of an accepted one.
func (s *shower) correction(raw json.RawMessage) {
	var b struct {
		IntentHash    string   `json:"intent_hash"`
		ProgramDigest string   `json:"program_digest"`
		Reasons       []Reason `json:"reasons"`
		Changes       []Change `json:"changes"`
	}
	_ = json.Unmarshal(raw, &b)
	for _, c := range b.Changes {
		s.change(c)
	}
	if len(b.Reasons) > 0 {
		s.line(0, "this must be confirmed because")
	}
	for _, r := range b.Reasons {
		s.line(1, r.Rule+": "+r.Detail)
	}
	s.field(0, "intent_hash", b.IntentHash)
	s.field(0, "program_digest", b.ProgramDigest)
}

func (s *shower) change(c Change) {
	switch {
	case c.Was == nil:
		s.line(0, c.What+" is added")
		s.members(1, c.What, c.Now)
	case c.Now == nil:
		s.line(0, c.What+" is removed")
		s.members(1, c.What, c.Was)
	default:
		s.line(0, c.What+" is changed")
		var was, now map[string]json.RawMessage
		if json.Unmarshal(c.Was, &was) != nil || json.Unmarshal(c.Now, &now) != nil || was == nil || now == nil {
			s.fromTo(c.What, "", c.Was, c.Now)
			return
		}
		for _, name := range sortedKeys(was, now) {
			if !bytes.Equal(was[name], now[name]) {
				s.fromTo(c.What, name, was[name], now[name])
			}
		}
	}
}

func (s *shower) fromTo(what, name string, was, now json.RawMessage) {
	from, to := strings.TrimSpace(name+" was"), strings.TrimSpace(name+" is now")
	if was != nil {
		s.value(1, joinNames(what, from), from, was)
	}
	if now == nil {
		s.line(1, name+" is gone")
		return
	}
	s.value(1, joinNames(what, to), to, now)
}

// doubt is a call of which nobody knows whether it took effect.
func (s *shower) doubt(raw json.RawMessage) {
	var b struct {
		Path    string `json:"path"`
		Name    string `json:"name"`
		Attempt int    `json:"attempt"`
		Sent    string `json:"sent"`
		Known   *struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Detail  json.RawMessage `json:"detail"`
		} `json:"known"`
		Input json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(raw, &b)
	var call struct {
		URI  string          `json:"uri"`
		Args json.RawMessage `json:"args"`
	}
	if json.Unmarshal(b.Input, &call) == nil && call.URI != "" {
		s.field(0, "tool", call.URI)
		s.arguments(0, "", call.Args)
	} else {
		s.field(0, "call", b.Name)
		s.value(0, "input", "input", b.Input)
	}
	s.field(0, "sent", b.Sent)
	if b.Attempt > 1 {
		s.line(0, fmt.Sprintf("this was attempt %d", b.Attempt))
	}
	switch {
	case b.Known != nil:
		s.value(0, "known of its end", "known of its end", quote(strings.TrimPrefix(b.Known.Code+": "+b.Known.Message, ": ")))
		if len(b.Known.Detail) > 0 {
			s.value(0, "detail", "detail", b.Known.Detail)
		}
	case b.Sent != "":
		s.line(0, "known of its end: nothing, the process that made it has ended")
	}
	s.field(0, "path", b.Path)
}

// given is what came for a call in doubt after all.
func (s *shower) given(r *GivenResult) {
	if r == nil {
		return
	}
	s.line(0, "host "+r.Host+" has brought its result since; use_result without an answer takes it")
	if r.Error != nil {
		s.value(0, "error", "error", quote(r.Error.Code+": "+r.Error.Message))
		return
	}
	s.value(0, "output", "output", r.Output)
	if len(r.Control) > 0 {
		s.value(0, "control", "control", r.Control)
	}
}

// heard is what was last heard of a worker in doubt.
func (s *shower) heard(h *LastHeard) {
	if h == nil {
		return
	}
	if h.Text != "" {
		s.value(0, "last text", "last text", quote(h.Text))
	}
	if h.Tool != "" {
		s.field(0, "last tool call", h.Tool)
		s.arguments(0, "", h.Args)
	}
	if len(h.Changed) > 0 {
		s.field(0, "changed files", strings.Join(h.Changed, ", "))
	}
}

// ClarifyQuestion is one of those that a clarification asks.
type ClarifyQuestion struct {
	ID       string          `json:"id"`
	Prompt   string          `json:"prompt"`
	Type     string          `json:"type"` // text, number, boolean, choice
	Options  []string        `json:"options"`
	Default  json.RawMessage `json:"default,omitempty"`
	Required bool            `json:"required"`
}

// QuestionsOf are the questions of a clarification; nil: the gate is none.
func QuestionsOf(g Gate) []ClarifyQuestion {
	var s struct {
		Questions []ClarifyQuestion `json:"questions"`
	}
	if g.Kind != Clarification || json.Unmarshal(g.Subject, &s) != nil {
		return nil
	}
	return s.Questions
}

// Text is the question with what may be answered.
func (q ClarifyQuestion) Text() string {
	notes := q.Type
	if len(q.Options) > 0 {
		notes = strings.Join(q.Options, ", ")
	}
	switch {
	case q.HasDefault():
		notes += "; default " + string(q.Default)
	case !q.Required:
		notes += "; may be left out"
	}
	return q.Prompt + " (" + notes + ")"
}

// HasDefault reports whether the question need not be answered because it has an answer.
func (q ClarifyQuestion) HasDefault() bool { return len(q.Default) > 0 && string(q.Default) != "null" }

// members shows those of an object one by one, the short ones first; anything else as
// it is.
func (s *shower) members(depth int, at string, raw json.RawMessage) {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		s.value(depth, at, "", raw)
		return
	}
	names := sortedKeys(all)
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := s.onLine(a, all[a]), s.onLine(b, all[b])
		switch {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	s.each(depth, at, len(raw), len(names), func(i int) { s.value(depth, joinNames(at, s.label(names[i])), names[i], all[names[i]]) },
		func(i int) int { return len(names[i]) + len(all[names[i]]) })
}

// each shows the parts of a value, the middle of too many left out.
func (s *shower) each(depth int, at string, size, n int, show func(int), weigh func(int) int) {
	left := 0
	for i := range n {
		if s.all || i < shownFirst || i >= n-shownLast {
			show(i)
			continue
		}
		if left += weigh(i); i == n-shownLast-1 {
			s.line(depth, fmt.Sprintf("… %d of %d, %d bytes, left out …", n-shownFirst-shownLast, n, left))
			s.Whole = false
			s.Parts = append(s.Parts, ShownPart{Name: at, Bytes: size, Cut: left})
		}
	}
}

// value shows one value under its name.
func (s *shower) value(depth int, at, name string, raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	label := s.label(name)
	var text string
	switch {
	case s.onLine(name, raw):
		s.Parts = append(s.Parts, ShownPart{Name: at, Text: string(raw), Bytes: len(raw)})
		s.line(depth, labelled(label, string(raw)))
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		s.text(depth, at, label, text)
	case raw[0] == '{' && depth-s.base < shownDepth:
		s.line(depth, label+":")
		s.members(depth+1, at, raw)
	case raw[0] == '[' && depth-s.base < shownDepth:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items)
		s.line(depth, label+":")
		s.each(depth+1, at, len(raw), len(items), func(i int) { s.value(depth+1, joinNames(at, strconv.Itoa(i)), strconv.Itoa(i), items[i]) },
			func(i int) int { return len(items[i]) })
	default: // too deep, or a number that goes on and on
		s.text(depth, at, label, string(raw))
	}
}

// text shows a text as a block of its own lines.
func (s *shower) text(depth int, at, name, text string) {
	p := ShownPart{Name: at, Text: text, Bytes: len(text)}
	s.line(depth, labelled(name, fmt.Sprintf("%d bytes", len(text))))
	if s.all || len(text) <= shownHead+shownTail {
		s.block(depth, text)
	} else {
		head, tail := head(text, shownHead), tail(text, shownTail)
		p.Cut = len(text) - len(head) - len(tail)
		p.Text = fmt.Sprintf("%s\n… %d bytes left out …\n%s", head, p.Cut, tail)
		s.Whole = false
		s.block(depth, head)
		s.line(depth+1, fmt.Sprintf("… %d bytes left out …", p.Cut))
		s.block(depth, tail)
	}
	s.Parts = append(s.Parts, p)
}

// block is another's text. The bar before each of its lines is what it cannot forge.
func (s *shower) block(depth int, text string) {
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		s.Lines = append(s.Lines, strings.Repeat("  ", depth+1)+"| "+Printable(l))
	}
}

// onLine reports whether a value stands on the line of its name.
func (s *shower) onLine(name string, raw json.RawMessage) bool {
	if s.foreign && len(raw) > 0 && raw[0] == '"' && slices.Contains(blockNames, name) {
		return false
	}
	return len(raw) <= shownLine && !bytes.Contains(raw, []byte(`\n`)) && !bytes.Contains(raw, []byte("\n"))
}

func labelled(name, text string) string {
	if name == "" {
		return text
	}
	return name + ": " + text
}

func joinNames(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}

func head(s string, n int) string {
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func tail(s string, n int) string {
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

func quote(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always can be
	return b
}

// sortedKeys are those of all maps, once each.
func sortedKeys(maps ...map[string]json.RawMessage) (keys []string) {
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

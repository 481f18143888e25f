package pipeline

import (
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Question is a kind of interrupt that a stage may raise, and that no rule routes to.
const Question = "question"

// ReadControl reads the control part of a result, as a stage that has no other way
// puts it into its output. nil: there is none. What it does not know is refused: a
// word misspelt here would be an instruction ignored.
func ReadControl(object map[string]any) (*Control, error) {
	if object == nil {
		return nil, nil
	}
	m := &members{of: object, path: controlKey}
	c := &Control{
		Break: m.boolean("break"), Feedback: m.text("feedback"), Summary: m.text("summary"),
		SatisfiedGoals: m.texts("satisfied_goals"), Metadata: m.object("metadata"),
	}
	if ask := m.object("interrupt"); ask != nil {
		c.Interrupt = m.interrupt(ask)
	}
	return c, m.end()
}

func (m *members) interrupt(object map[string]any) *InterruptRequest {
	in := &members{of: object, path: m.path + ".interrupt"}
	ask := &InterruptRequest{
		Kind: in.text("kind"), Question: in.text("question"), Message: in.text("message"),
		Data: in.object("data"), TTLSeconds: in.whole("ttl_seconds"),
	}
	if !slices.Contains([]string{Clarification, Confirmation, Question}, ask.Kind) {
		in.fail("kind", fmt.Sprintf("%q is none of clarification, confirmation and question", document.Brief(ask.Kind)))
	}
	if ask.TTLSeconds < 0 {
		in.fail("ttl_seconds", "it cannot be negative")
	}
	if err := in.end(); err != nil && m.err == nil {
		m.err = err
	}
	return ask
}

// members reads an object whose members are known. It keeps the first fault.
type members struct {
	of    map[string]any
	path  string
	asked []string
	err   error
}

func (m *members) fail(name, text string) {
	if m.err == nil {
		m.err = fmt.Errorf("%s.%s: %s", m.path, name, text)
	}
}

// get is a member, nil where there is none.
func (m *members) get(name string) any {
	m.asked = append(m.asked, name)
	return m.of[name]
}

// end is the first fault: one that was found, or a member that nobody knows.
func (m *members) end() error {
	for _, name := range sortedKeys(m.of) {
		if slices.Contains(m.asked, name) {
			continue
		}
		text := "nobody knows this"
		if near := tipstaff.Nearest(name, m.asked); near != "" {
			text += "; did you mean " + near + "?"
		}
		m.fail(document.Brief(name), text)
	}
	return m.err
}

func member[T any](m *members, name, kind string) T {
	var none T
	v := m.get(name)
	if v == nil {
		return none
	}
	t, ok := v.(T)
	if !ok {
		m.fail(name, fmt.Sprintf("%s belongs here, not %s", kind, typeName(v)))
	}
	return t
}

func (m *members) text(name string) string  { return member[string](m, name, "a string") }
func (m *members) boolean(name string) bool { return member[bool](m, name, "a boolean") }
func (m *members) whole(name string) int64  { return member[int64](m, name, "a whole number") }
func (m *members) object(name string) map[string]any {
	return member[map[string]any](m, name, "an object")
}

func (m *members) texts(name string) []string {
	var list []string
	for _, item := range member[[]any](m, name, "a list") {
		s, ok := item.(string)
		if !ok {
			m.fail(name, "a list of strings belongs here")
		}
		list = append(list, s)
	}
	return list
}

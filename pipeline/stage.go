package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Perform runs one attempt of one stage. Errors of flow that must be handed up
// (parked, cancelled, non-determinism, misuse) come back as they are, a refused
// bound as the *flow.Error that Do gave; every other failure is a [*StageError].
// It stands at the attempt's own path: critic#3, critic#3.2 for its second attempt.
type Perform func(flow.Context, Stage) (Result, error)

// Stage is one attempt as it is given to Perform. Templates have been filled in.
type Stage struct {
	Agent          *Agent
	Visit, Attempt int
	View           *Envelope // read-only; the newest 50 records of its history
	Budget         Budget
	Timeout        time.Duration // of the attempt
	AskBounds      bool          // a refused bound of the ledger opens a gate (flow.Call.Ask)

	// Of model stages: the prompt with the feedback at its end. The first model call
	// was paid for when the stage began: it must reserve neither model_calls nor
	// agent_hops.
	Prompt, System string
	Args           json.RawMessage // of tool stages: an object
	Input          json.RawMessage // of remote and plan stages
	Feedback       string          // carried by the edge that entered it; "": none
	Response       *Response       // what was answered, of a stage that goes on after its interrupt
}

// Budget is what is left to the run when a stage starts, by the ledger's names; a
// bound that is absent has no limit.
type Budget map[string]int64

// Result is what an attempt brings.
type Result struct {
	Output  map[string]any // values as in an Envelope
	Control *Control
	Usage   tipstaff.StageUsage
	Once    bool // it made an effect that must not be repeated
}

// StageError is why an attempt failed.
type StageError struct {
	Code      string `json:"code" doc:",required"`
	Message   string `json:"message" doc:""`
	Retryable bool   `json:"retryable,omitempty" doc:""`

	Once   bool                `json:"-"` // the attempt made an effect that must not be repeated
	Denied bool                `json:"-"` // policy or a person refused a call: policy_violation, if fatal
	Usage  tipstaff.StageUsage `json:"-"`
}

func (e *StageError) Error() string { return e.Code + ": " + e.Message }

// Control is what a stage says beside its output.
type Control struct {
	Interrupt      *InterruptRequest `json:"interrupt,omitempty"`
	Break          bool              `json:"break,omitempty"` // end now, well
	Feedback       string            `json:"feedback,omitempty"`
	SatisfiedGoals []string          `json:"satisfied_goals,omitempty"`
	Summary        string            `json:"summary,omitempty"`
	Metadata       map[string]any    `json:"metadata,omitempty"` // merged
}

// InterruptRequest asks a person.
type InterruptRequest struct {
	Kind       string         `json:"kind"` // clarification, confirmation or question
	Question   string         `json:"question,omitempty"`
	Message    string         `json:"message,omitempty"`
	Data       map[string]any `json:"data,omitempty"`
	TTLSeconds int64          `json:"ttl_seconds,omitempty"` // 0 is 24 h
}

// Response is the answer to an interrupt, as stages, rules and templates see it.
type Response struct {
	InterruptID string `json:"interrupt_id"`
	Kind        string `json:"kind"`
	Action      string `json:"action"`
	Approved    *bool  `json:"approved,omitempty"` // of a confirmation
	Text        string `json:"text,omitempty"`
	Data        any    `json:"data,omitempty"`
	Note        string `json:"note,omitempty"`
	By          string `json:"by,omitempty"`
}

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
		m.fail(document.Brief(name), "nobody knows this"+tipstaff.DidYouMean(name, m.asked))
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

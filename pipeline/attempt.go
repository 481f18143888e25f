package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Codes of failures that the executor itself finds.
const (
	codeInput         = "input_error"
	codeOutputInvalid = "output_invalid"
	codeTooLarge      = "output_too_large"
	codeUnknownGoal   = "unknown_goal"
	codeRouting       = "routing_error"
)

// retryable are codes that say themselves that another attempt may do better.
var retryable = []string{flow.CodeTimeout, "tool_unavailable", "agent_unavailable", codeOutputInvalid}

// Retryable reports whether a failure with this code may be followed by another
// attempt, also if nobody has marked it.
func Retryable(code string) bool { return slices.Contains(retryable, code) }

// maxDelay bounds the time before a retry, which doubles each time.
const maxDelay = 30 * time.Second

// handsUp tells errors of flow that are not a stage's own: nobody may act on them.
func handsUp(err error) bool {
	var nd *flow.NonDeterminism
	var misuse *flow.Misuse
	return flow.Parked(err) || errors.Is(err, flow.ErrCancelled) || errors.As(err, &nd) || errors.As(err, &misuse)
}

// attempt makes the next attempt of a visit, at whose path fc stands. Its error is
// one of flow, or errFatal where a failure must close the batch.
func (x *executor) attempt(fc flow.Context, v *visit) error {
	v.attempts++
	result, err := x.tryOnce(fc, v)
	if err != nil && handsUp(err) {
		return err
	}
	v.add(result, err)
	var refused *flow.Error
	if err == nil {
		err = x.accept(v, result)
	} else if errors.As(err, &refused) && isBound(refused) {
		v.refused = refused
	}
	v.failure = x.failureOf(err)
	if v.again(result) {
		v.delay = v.backoff()
		fc.Emit(flow.Event{Kind: string(tipstaff.KindStageRetrying), Body: tipstaff.StageRetrying{Stage: v.agent.Name, Visit: v.n,
			NextAttempt: int64(v.attempts + 1), DelayMs: v.delay.Milliseconds(), Code: v.failure.Code, Error: v.failure.Message}})
		v.records++
		return nil
	}
	v.status = statusSuccess
	if v.failure != nil {
		v.status = statusError
	}
	v.ended = fc.Now()
	fc.Emit(flow.Event{Kind: string(tipstaff.KindStageFinished), Body: v.finished()})
	v.records += 2
	if fatal := v.refused != nil || v.failure != nil && v.agent.ErrorNext == ""; fatal && x.p.OnFailure == Cancel {
		return errFatal
	}
	return nil
}

// tryOnce waits until the attempt is due, pays for its first model call, fills in
// the templates and has it performed.
func (x *executor) tryOnce(fc flow.Context, v *visit) (Result, error) {
	if v.attempts > 1 {
		if err := x.beginRetry(fc, v); err != nil {
			return Result{}, err
		}
	}
	st, err := x.prepare(v)
	if err != nil {
		return Result{}, &StageError{Code: codeInput, Message: err.Error()}
	}
	if v.agent.Way == WayScripted {
		v.records++
		return PerformScripted(fc, st)
	}
	return x.do(fc, st)
}

// beginRetry lets the delay pass. A retry is no start; but its first model call is
// paid for in advance like that of the first attempt.
func (x *executor) beginRetry(fc flow.Context, v *visit) error {
	v.records += 2
	if err := fc.Sleep(v.delay); err != nil {
		return err
	}
	if v.agent.Way != WayModel {
		return nil
	}
	v.records += 2
	v.calls++
	_, err := fc.Do(flow.Call{Key: "begin", Name: BeginActivity, Class: flow.Read, Ask: x.p.OnBound == AskMore,
		Reserve: flow.Use{tipstaff.BoundModelCalls: 1}, Input: flow.JSON(beginInput{v.agent.Name, v.n, v.attempts})})
	if err != nil {
		v.calls--
	}
	return err
}

// prepare makes what an attempt is given.
func (x *executor) prepare(v *visit) (Stage, error) {
	view := *x.env
	st := Stage{Agent: v.agent, Visit: int(v.n), Attempt: v.attempts, View: &view, Budget: x.env.Budget(),
		Timeout: v.agent.Timeout, AskBounds: x.p.OnBound == AskMore, Feedback: v.entry.Feedback, Response: v.entry.Response}
	s := x.scope(v, x.env.Outputs[v.agent.OutputKey])
	fill := func(t *Template, what string) (json.RawMessage, error) {
		if t == nil {
			return nil, nil
		}
		value, err := t.value(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return EncodeValue(value), nil
	}
	var err error
	switch v.agent.Way {
	case WayModel:
		err = v.prompt(&st, s, v.agent.Model.Prompt, v.agent.Model.System)
	case WayWorker:
		err = v.prompt(&st, s, v.agent.Worker.Prompt, nil)
	case WayTool:
		if st.Args, err = fill(v.agent.Tool.Args, "args"); err == nil {
			st.Args, err = anObject(st.Args, "args")
		}
	case WayRemote:
		st.Input, err = fill(v.agent.Remote.Input, "input")
	case WayPlan:
		if st.Input, err = fill(v.agent.Plan.Inputs, "inputs"); err == nil {
			st.Input, err = anObject(st.Input, "inputs")
		}
	}
	return st, err
}

// anObject is what a template gave where an object is wanted; nothing is an empty one.
func anObject(raw json.RawMessage, what string) (json.RawMessage, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, fmt.Errorf("%s: it must be an object, not %s", what, document.Brief(string(raw)))
	}
	return raw, nil
}

// prompt fills in what a model or worker is told. Feedback stands at its end, word for
// word.
func (v *visit) prompt(st *Stage, s *scope, prompt, system *Template) error {
	for _, part := range []struct {
		name string
		t    *Template
		into *string
	}{{"prompt", prompt, &st.Prompt}, {"system", system, &st.System}} {
		if part.t == nil {
			continue
		}
		text, err := part.t.text(s)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		*part.into = text
	}
	if st.Feedback != "" {
		st.Prompt = strings.TrimPrefix(st.Prompt+"\n\n"+st.Feedback, "\n\n")
	}
	return nil
}

// accept checks a result in the order in which its faults are reported: its form,
// required fields, schema, goals and size.
func (x *executor) accept(v *visit, r Result) error {
	output, control, err := v.split(r)
	if err != nil {
		return &StageError{Code: codeOutputInvalid, Message: err.Error(), Once: r.Once}
	}
	encoded := EncodeValue(output)
	if err := v.agent.checkOutput(output, encoded); err != nil {
		invalid := &StageError{Code: codeOutputInvalid, Message: err.Error(), Once: r.Once}
		if control.Interrupt == nil || x.state.Earlier {
			return invalid
		}
		v.unfinished = invalid
	}
	for _, goal := range control.SatisfiedGoals {
		if !slices.ContainsFunc(x.env.Goals, func(g Goal) bool { return g.Name == goal }) {
			return &StageError{Code: codeUnknownGoal, Message: fmt.Sprintf("%q is no goal of this run", document.Brief(goal)), Once: r.Once}
		}
	}
	if !x.fits(encoded) {
		return tooLarge(v.agent)
	}
	v.result, v.encoded, v.control = output, encoded, control
	return nil
}

// split takes the control part from the output, of stages that have no other place
// for it, and converts both into values.
func (v *visit) split(r Result) (output map[string]any, c Control, err error) {
	if output, err = NormalizeObject(r.Output); err != nil {
		return nil, c, fmt.Errorf("the output: %w", err)
	}
	if output == nil {
		output = map[string]any{}
	}
	inside, has := output[controlKey]
	switch {
	case r.Control != nil:
		c = *r.Control
	case has && v.agent.Way != WayRemote && v.agent.Way != WayScripted:
		output = maps.Clone(output)
		delete(output, controlKey)
		object, ok := inside.(map[string]any)
		if !ok {
			return nil, c, fmt.Errorf("%s: an object belongs here, not %s", controlKey, typeName(inside))
		}
		control, err := ReadControl(object)
		if err != nil {
			return nil, c, err
		}
		c = *control
	}
	c, err = c.normalized()
	return output, c, err
}

// normalized is a control part whose values are those of an Envelope.
func (c Control) normalized() (_ Control, err error) {
	if c.Metadata != nil {
		if c.Metadata, err = NormalizeObject(c.Metadata); err != nil {
			return c, fmt.Errorf("metadata: %w", err)
		}
	}
	if c.Interrupt == nil {
		return c, nil
	}
	i := *c.Interrupt
	if i.Data != nil {
		if i.Data, err = NormalizeObject(i.Data); err != nil {
			return c, fmt.Errorf("interrupt.data: %w", err)
		}
	}
	c.Interrupt = &i
	if _, known := gateActions[i.Kind]; !known {
		return c, fmt.Errorf("interrupt.kind: %q is none of clarification, confirmation and question", document.Brief(i.Kind))
	}
	if i.TTLSeconds < 0 {
		return c, errors.New("interrupt.ttl_seconds: it must not be negative")
	}
	return c, nil
}

func tooLarge(a *Agent) *StageError {
	return &StageError{Code: codeTooLarge, Message: fmt.Sprintf("with the output of %s the Envelope would have more than %d bytes", a.Name, MaxEnvelope)}
}

// add counts what an attempt has used, however it ended.
func (v *visit) add(r Result, err error) {
	u := r.Usage
	var failed *StageError
	if errors.As(err, &failed) {
		u = failed.Usage
	}
	v.usage = v.usage.Plus(u)
	if v.agent.Way == WayModel {
		u.LLMCalls-- // paid for in advance
	}
	v.calls += max(u.LLMCalls, 0)
}

// failureOf is the failure of an attempt, with a text that is not too long; nil: it has not
// failed. What calls say was cut when it was recorded; the program itself may say more.
func (x *executor) failureOf(err error) *StageError {
	e := asStageError(err)
	if e == nil || x.state.Uncut || len(e.Message) <= flow.MostMessage {
		return e
	}
	cut := *e
	cut.Message = flow.CutText(e.Message, "")
	return &cut
}

func asStageError(err error) *StageError {
	var own *StageError
	var called *flow.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	case errors.As(err, &called):
		return &StageError{Code: called.Code, Message: called.Message, Retryable: called.Retry}
	}
	return &StageError{Code: flow.CodeInternal, Message: err.Error()}
}

// again reports whether another attempt follows. One that made an effect which must
// not be repeated is the last, although each of its calls obeyed its class.
func (v *visit) again(r Result) bool {
	f := v.failure
	return f != nil && v.refused == nil && v.attempts <= v.agent.MaxRetries && !f.Once && !r.Once && !f.Denied &&
		(f.Retryable || Retryable(f.Code))
}

func (v *visit) backoff() time.Duration {
	d := v.agent.RetryDelay
	for i := 1; i < v.attempts && d < maxDelay; i++ {
		d *= 2
	}
	return min(d, maxDelay)
}

// why is code and text of a failed visit.
func (v *visit) why() (code, text string) {
	if v.refused != nil {
		return v.refused.Code, v.refused.Message
	}
	return v.failure.Code, v.failure.Message
}

// finished says how a visit ended.
func (v *visit) finished() tipstaff.StageFinished {
	f := tipstaff.StageFinished{Stage: v.agent.Name, Visit: v.n, Outcome: v.status, Attempts: int64(v.attempts), Usage: v.usage}
	if !v.ended.IsZero() {
		f.DurationMs = v.ended.Sub(v.started).Milliseconds()
	}
	switch v.status {
	case statusSuccess:
		f.OutputKey, f.Output = v.agent.OutputKey, v.encoded
	case statusError:
		f.Code, f.Error = v.why()
		if v.refused == nil {
			f.Next = v.agent.ErrorNext
		}
	}
	return f
}

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// end is how a leaf came out.
type end struct {
	output  json.RawMessage
	body    tipstaff.PlanStep
	err     error
	input   string // digest of what it was given
	carried bool   // an earlier revision did it
}

// leaf performs n and says how it ended. Parked and fatal errors say nothing:
// the leaf has not ended.
func (w *walker) leaf(fc flow.Context, n *Node, l *progress) error {
	e := w.attempt(fc, n, l)
	if e.err != nil && !ends(e.err) {
		return e.err
	}
	e.body.Node = n.ID
	e.body.Status = status(e.err)
	if e.carried {
		e.body.Status = tipstaff.StepCarried
	}
	if e.err != nil && !errors.Is(e.err, flow.ErrCancelled) {
		e.body.Error = stepError(e.err)
	}
	fc.Emit(flow.Event{Kind: string(tipstaff.KindPlanStep), Body: e.body})
	l.counts[e.body.Status]++
	switch {
	case e.err == nil:
		l.outputs[n.ID] = e.output
		if w.h.Keep != nil && !e.carried {
			w.h.Keep.Completed(n.ID, Done{Path: fc.Path(), Kind: n.Kind, By: n.Performer(), Input: e.input, Digest: flow.Digest(e.output), Output: e.output})
		}
		return nil
	case errors.Is(e.err, flow.ErrCancelled):
		return e.err
	case n.Continue && e.body.Status == tipstaff.StepFailed && !slices.Contains(never, e.body.Error.Reason):
		l.continued = append(l.continued, n.ID)
		return nil
	}
	return failure(fc.Path(), n, e)
}

// perform resolves what the leaf refers to and has it performed.
func (w *walker) perform(fc flow.Context, n *Node, l *progress) end {
	t := Task{Node: n, Args: n.Args, Literal: n.literal, Timeout: n.Timeout, Retry: w.retry(n)}
	var given any
	var err error
	switch n.Kind {
	case ToolCall:
		if !n.verbatim {
			t.Args, err = w.resolve(n.field("args"), l)
		}
		given = callGiven{t.Args, n.Parse}
	case Step:
		if t.Args, err = w.resolve(n.field("inputs"), l); err == nil {
			t.Prompt, err = w.text(n.Prompt, l)
		}
		given = stepGiven{t.Prompt, t.Args, n.Tools, n.OutputSchema}
	case SubDispatch:
		t.Args, err = w.resolve(n.field("inputs"), l)
		given = dispatchGiven{n.Agent, t.Args, n.Scope, n.Bounds, n.Accept}
	case Gate:
		return w.gate(fc, n, l)
	default:
		err = fmt.Errorf("plan: %s is of no known kind", n.ID)
	}
	if err != nil {
		return end{err: err}
	}
	return w.unlessCarried(fc, n, given, func() end {
		if n.Kind != ToolCall {
			fc.Emit(flow.Event{Kind: string(tipstaff.KindPlanStep), Body: tipstaff.PlanStep{Node: n.ID, Status: tipstaff.StepStarted}})
		}
		if w.h.Perform == nil {
			return end{err: errNotPerformed}
		}
		e := called(w.h.Perform(fc, t))
		if n.Kind == Step {
			e.err = agentFailed(e.err)
		}
		if e.err == nil && n.OutputSchema != nil {
			e.err = misfit(n.OutputSchema, e.output)
		}
		return e
	})
}

// misfit is why a reply does not fit the schema that a step asks for.
func misfit(schema, reply json.RawMessage) error {
	s, err := document.CompileSchema(schema)
	if err == nil {
		err = document.Conforms(s, reply)
	}
	if err != nil {
		return &flow.Error{Code: ReasonOutputInvalid, Message: "the reply does not fit output_schema: " + err.Error()}
	}
	return nil
}

// called is the end of a leaf that was handed out.
func called(r flow.Result, err error) end {
	e := end{output: r.Value, body: tipstaff.PlanStep{LatencyMs: r.Ms}, err: err}
	if err != nil {
		return e
	}
	if len(e.output) == 0 {
		e.output = json.RawMessage("null")
	}
	e.body.ResultDigest = flow.Digest(e.output)
	return e
}

// text is one with its references replaced.
func (w *walker) text(s string, l *progress) (string, error) {
	parts, err := parseText(s)
	if err == nil {
		s, err = joinParts(parts, w.find(l))
	}
	if err != nil {
		return "", unresolved(err)
	}
	return s, nil
}

// resolve is the object v with its references replaced, {} for none.
func (w *walker) resolve(v *document.Value, l *progress) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("{}"), nil
	}
	out, err := render(v, w.find(l))
	if err != nil {
		return nil, unresolved(err)
	}
	return out, nil
}

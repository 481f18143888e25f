package pipeline

import "cel.dev/cel-go/interpreter"

// seen is what a stage has brought or is told, which the Envelope does not hold (or
// not yet).
type seen struct {
	output   map[string]any // the stage's own; nil: what the Envelope has of it
	response *Response      // to its interrupt; nil: there was none
	err      *StageError    // it failed; nil: it did not
}

// scope is what the expressions of one stage see. It reads the Envelope and never
// changes it, and is for one goroutine.
type scope struct {
	p     *Pipeline
	env   *Envelope
	agent *Agent
	seen  seen
}

func (p *Pipeline) scope(env *Envelope, a *Agent, s seen) *scope {
	return &scope{p: p, env: env, agent: a, seen: s}
}

// ResolveName implements cel.Activation.
func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case "input":
		return s.env.RawInput, true
	case "output":
		return orNull(s.output()), true
	case "outputs":
		outputs := slotsOf(s.env.Outputs)
		if s.seen.output != nil {
			outputs[s.agent.OutputKey] = s.seen.output
		}
		return outputs, true
	case "prior":
		return slotsOf(s.env.Prior), true
	case "metadata":
		if s.env.Metadata == nil {
			return map[string]any{}, true
		}
		return s.env.Metadata, true
	case "response":
		return s.seen.response.object(), true
	case "error":
		return s.seen.err.object(), true
	case "iteration":
		return s.env.Iteration, true
	case "visits": // of every stage; one that never started has none
		all := make(map[string]any, len(s.p.Agents))
		for _, a := range s.p.Agents {
			all[a.Name] = s.env.Visits[a.Name]
		}
		return all, true
	case "goals":
		all := make([]any, len(s.env.Goals))
		for i, g := range s.env.Goals {
			all[i] = map[string]any{"name": g.Name, "status": g.Status}
		}
		return all, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (s *scope) Parent() interpreter.Activation { return nil }

// output is the stage's own: what it has just brought, else what stands in its slot.
func (s *scope) output() map[string]any {
	if s.seen.output != nil {
		return s.seen.output
	}
	return s.env.Outputs[s.agent.OutputKey]
}

func slotsOf(slots map[string]map[string]any) map[string]any {
	all := make(map[string]any, len(slots))
	for key, slot := range slots {
		all[key] = slot
	}
	return all
}

// object is the answer with all its members, so that asking for one that was left
// empty is no error. nil: there was no answer.
func (r *Response) object() any {
	if r == nil {
		return nil
	}
	object := map[string]any{
		"interrupt_id": r.InterruptID, "kind": r.Kind, "action": r.Action, "approved": nil,
		"text": r.Text, "data": r.Data, "note": r.Note, "by": r.By,
	}
	if r.Approved != nil {
		object["approved"] = *r.Approved
	}
	return object
}

func (e *StageError) object() any {
	if e == nil {
		return nil
	}
	return map[string]any{"code": e.Code, "message": e.Message, "retryable": e.Retryable}
}

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Handlers are what a walk is given from outside.
type Handlers struct {
	// Perform does a tool_call, step or sub_dispatch at the path of its Context. A tool
	// call is its approval, if one is asked for, then one Do with key "". nil: the node
	// fails with not_implemented.
	Perform func(flow.Context, Task) (flow.Result, error)
	// Gate asks a person. nil: [Ask], which parks until somebody has decided.
	Gate func(flow.Context, *Node, json.RawMessage) (flow.Decision, error)
	// Verbatim: questions of gates are asked as they are written. Runs of earlier
	// versions did not look for references in them.
	Verbatim bool
	// Mode says what is done about a leaf that failed for a reason and has no retry
	// and no on_error of its own. It must be pure. nil: it fails.
	Mode func(reason string) Mode
	// Carry is what earlier revisions of the plan leave to this walk.
	Carry Carry
	// Keep is told what a later revision can rely on. nil: there will be none.
	Keep Keeper
}

// Task is a leaf whose references have been replaced.
type Task struct {
	Node   *Node
	Prompt string // of a step
	// Args are the arguments of a call, or the inputs of a step or child run: RFC 8785
	// JSON, {} if the node has none. Only a number that came through a reference and
	// has no such form is left as it came; the call is then to be refused.
	Args    json.RawMessage
	Literal bool          // of a call: the arguments are those that the document shows
	Timeout time.Duration // the node's own; 0: see [Node.EffectiveTimeout], or the agent's
	Retry   flow.Retry    // zero: none; of class once it is to be left aside
}

// Tally is what became of the leaves.
type Tally struct {
	Counts    map[string]int `json:"counts"`    // ended leaves by status
	Skipped   []string       `json:"skipped"`   // ids of leaves that were never reached, in document order
	Continued []string       `json:"continued"` // ids of leaves whose failure was passed over
}

// Result is the value of a plan that came to its end.
type Result struct {
	Outcome string          `json:"outcome"` // success, or partial if a failure was continued
	Outputs json.RawMessage `json:"outputs"` // {} if the plan declares none
	Tally
}

// Outcomes of a completed plan.
const (
	Success = "success"
	Partial = "partial"
)

// Walk runs the plan from its root, at whose path fc stands. inputs is what
// CheckInputs returned. The value is a [Result].
//
// A plan that fails returns a [*Failure]. A run that is cancelled returns a
// [*Cancelled], which is flow.ErrCancelled; every other error of flow comes back
// as it is.
func Walk(fc flow.Context, d *Document, inputs json.RawMessage, h Handlers) (json.RawMessage, error) {
	w := &walker{d: d, h: h, inputs: map[string]json.RawMessage{}}
	if len(inputs) > 0 {
		if err := json.Unmarshal(inputs, &w.inputs); err != nil {
			return nil, fmt.Errorf("plan: inputs: %w", err)
		}
	}
	l := (*progress)(nil).branch()
	if err := w.node(fc, d.Root, l); err != nil {
		return nil, l.close(err)
	}
	outputs, err := w.outputs(l)
	if err != nil {
		return nil, l.close(&Failure{Reason: ReasonOutputInvalid, Code: err.Code, Message: err.Message, Path: fc.Path(), cause: err})
	}
	result := Result{Outcome: Success, Outputs: outputs, Tally: l.tally()}
	if len(l.continued) > 0 {
		result.Outcome = Partial
	}
	return flow.JSON(result), nil
}

// walker is what all branches share; it does not change during the walk.
type walker struct {
	d      *Document
	h      Handlers
	inputs map[string]json.RawMessage
}

// progress is what one branch has seen. Branches of a group have their own, and
// look through to the one they started from, which rests meanwhile; so they
// share nothing that changes, and joining them in document order gives the same
// in every run.
type progress struct {
	parent    *progress
	outputs   map[string]json.RawMessage
	counts    map[string]int
	skipped   []string
	continued []string
}

func (l *progress) output(id string) (json.RawMessage, bool) {
	for ; l != nil; l = l.parent {
		if raw, ok := l.outputs[id]; ok {
			return raw, true
		}
	}
	return nil, false
}

// branch is that of a branch which starts from l; of nil that of the root.
func (l *progress) branch() *progress {
	return &progress{parent: l, outputs: map[string]json.RawMessage{}, counts: map[string]int{}}
}

func (l *progress) skip(n *Node) {
	for leaf := range n.Leaves {
		l.skipped = append(l.skipped, leaf.ID)
	}
}

// join takes over what a branch has seen.
func (l *progress) join(branch *progress) {
	for status, n := range branch.counts {
		l.counts[status] += n
	}
	maps.Copy(l.outputs, branch.outputs)
	l.skipped = append(l.skipped, branch.skipped...)
	l.continued = append(l.continued, branch.continued...)
}

func (l *progress) tally() Tally {
	return Tally{Counts: maps.Clone(l.counts), Skipped: append([]string{}, l.skipped...), Continued: append([]string{}, l.continued...)}
}

// close gives the error of a walk what was seen on the way.
func (l *progress) close(err error) error {
	var f *Failure
	switch {
	case flow.Parked(err):
		return err
	case errors.As(err, &f):
		closed := *f
		closed.Tally = l.tally()
		return &closed
	case errors.Is(err, flow.ErrCancelled):
		return &Cancelled{Tally: l.tally()}
	}
	return err
}

// node walks n, at whose path fc stands.
func (w *walker) node(fc flow.Context, n *Node, l *progress) error {
	switch n.Kind {
	case Sequential:
		return w.sequential(fc, n, l)
	case Parallel:
		return w.parallel(fc, n, l)
	}
	return w.leaf(fc, n, l)
}

func (w *walker) sequential(fc flow.Context, n *Node, l *progress) error {
	for i, c := range n.Children {
		if err := w.node(fc.At(c.segment), c, l); err != nil {
			for _, unreached := range n.Children[i+1:] {
				l.skip(unreached)
			}
			return err
		}
	}
	return nil
}

func (w *walker) parallel(fc flow.Context, n *Node, l *progress) error {
	started := make([]*progress, len(n.Children))
	branches := make([]flow.Branch, len(n.Children))
	for i, c := range n.Children {
		branches[i] = flow.Branch{Name: c.segment, Run: func(fc flow.Context) error {
			started[i] = l.branch()
			return w.node(fc, c, started[i])
		}}
	}
	err := fc.Go(flow.Group{Limit: n.MaxParallel}, branches...)
	for i, c := range n.Children {
		if started[i] == nil {
			l.skip(c)
			continue
		}
		l.join(started[i])
	}
	return err
}

// outputs resolves what the document declares. A leaf whose failure was passed
// over has none, which shows as null: the run is partial, not failed.
func (w *walker) outputs(l *progress) (json.RawMessage, *flow.Error) {
	if w.d.Turn != nil { // what its agent brings is all there is
		out, _ := l.output(w.d.Root.ID)
		return out, nil
	}
	if w.d.Outputs == nil {
		return json.RawMessage("{}"), nil
	}
	find := w.find(l)
	out, err := render(w.d.written.Get("outputs"), func(ref reference) (json.RawMessage, error) {
		if slices.Contains(l.continued, ref.node) {
			return json.RawMessage("null"), nil
		}
		return find(ref)
	})
	if err != nil {
		return nil, resolveError(err)
	}
	return out, nil
}

// find looks references up in the inputs and in what l has seen.
func (w *walker) find(l *progress) lookup {
	return func(ref reference) (json.RawMessage, error) {
		from, ok := l.output(ref.node)
		if ref.node == "" {
			// An optional input that was not given, and followup outside of one.
			if from, ok = w.inputs[ref.name]; !ok {
				from, ok = json.RawMessage("null"), true
			}
		}
		if !ok {
			return nil, fmt.Errorf("%v: %s has no output", ref, ref.node)
		}
		found, err := descend(from, ref.path)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", ref, err)
		}
		return found, nil
	}
}

// resolveError types what went wrong with a reference.
func resolveError(err error) *flow.Error {
	code := codeRefUnresolved
	if errors.Is(err, document.ErrUnsafe) {
		code = document.CodeNumberUnsafe
	}
	return &flow.Error{Code: code, Message: err.Error(), NotSent: true}
}

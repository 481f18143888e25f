package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
)

// transition is the way from one segment of a run to the next. It follows from the
// records of the segment that ends: the owner writes it, and verify computes it
// again.
type transition struct {
	src    source
	put    func([]byte) (string, error) // keeps a long result and returns its digest
	events []tipstaff.Event             // the records of the segment that ends

	before []flow.Draft // envelopes that precede the run.continued
	to     segment
	keep   []string // digests that the segment names
}

// follow completes the transition from p, which has just been driven or replayed over
// the records of its segment. state is what its flow continues with, unless it was
// cut.
func (t *transition) follow(ctx context.Context, p program, state json.RawMessage, cut bool) error {
	was := p.shared().segment
	t.to = segment{Latest: was.Latest, Recalled: was.Recalled}
	return p.next(ctx, t, state, cut)
}

// segment is the transition as the engine wants it, given the program of the segment
// that begins.
func (t *transition) segment(next program) flow.Segment {
	c := next.shared()
	return flow.Segment{Before: t.before, State: flow.JSON(t.to), Keep: t.keep, Root: rootOf(next), Limits: c.limits, Deadline: c.deadline()}
}

// correct turns to the revision that was handed in: at once if it leaves the terms
// as they were accepted, else by way of a confirmation.
func (p *planProgram) correct(ctx context.Context, t *transition) error {
	req, at, err := requested(t.events)
	if err != nil {
		return err
	}
	now, next := p.inForce(t.events), req.revision
	next.Number = p.segment.Latest + 1
	found, target, changes, err := p.compare(ctx, t.src, now.accepted(), next, t.events, at)
	if err != nil {
		return err
	}
	t.before = []flow.Draft{{Kind: string(tipstaff.KindIntentCorrect), From: journal.Executor, Body: flow.JSON(tipstaff.IntentCorrect{
		Target: target, Reason: req.Reason, Material: &found.Material, Reasons: found.Reasons,
		Terms: tipstaff.Terms{IntentHash: next.IntentHash, ProgramDigest: next.ProgramDigest}, Revision: next.Number, OnBehalfOf: req.Actor})}}
	t.to.Latest = next.Number
	if found.Material {
		t.to.Phase, t.to.Revision, t.to.Former, t.to.Reasons, t.to.Changes = phaseConfirm, next, &now, found.Reasons, changes
		return nil
	}
	accepted := now.accepted()
	if next.Asks = cmp.Or(next.Asks, now.Asks); p.draft.Rules >= rulesAsk { // nobody has accepted more than before
		next.Asks = joinAsks(req.Asks, now.Asks)
	}
	next.AcceptedBy, next.Accepted, next.Shown = now.AcceptedBy, &accepted, now.Shown
	t.to.Phase, t.to.Revision = phaseWalk, next
	return nil
}

// inForce is the revision that the segment walks, with the acceptance that it
// runs under.
func (p *planProgram) inForce(events []tipstaff.Event) revision {
	now := p.segment.inForce()
	if now.IntentHash == "" {
		now.IntentHash = p.doc.Intent.Hash()
	}
	for i := range events {
		if events[i].Kind == tipstaff.KindPlanProposed {
			now.AcceptedBy = tipstaff.BodyOf[tipstaff.PlanProposed](&events[i]).AcceptedBy
		}
	}
	return now
}

// compare classifies the change from what was accepted to what was handed in, as
// of the time at which it was. events are the records of the present segment. The
// target is what the correction changes.
func (p *planProgram) compare(ctx context.Context, src source, accepted, next revision, events []tipstaff.Event, at time.Time) (found tipstaff.Classification, what string, changes []tipstaff.Change, err error) {
	old, err := p.openRevision(ctx, src, accepted)
	if err != nil {
		return found, "", nil, err
	}
	new, err := p.openRevision(ctx, src, next)
	if err != nil {
		return found, "", nil, err
	}
	before, after := old.terms(), new.terms()
	if !before.ByID {
		settle(p.made(events), p.terms(), before, after)
	}
	if p.draft.Rules >= rulesShown {
		changes = plan.Changes(old.doc, new.doc)
	}
	return policy.Classify(before, after, at), target(p.doc, new.doc), changes, nil
}

// made are the leaves that have made calls which must not be made twice, or may have:
// in earlier segments, and in this one by its records. The value is who performed each.
func (p *planProgram) made(events []tipstaff.Event) map[string]string {
	made := map[string]string{}
	for id, done := range p.segment.Carried {
		made[id] = done.By
	}
	for id, doubt := range p.segment.InDoubt {
		made[id] = doubt.By
	}
	for i := range events {
		if e := &events[i]; e.Kind != tipstaff.KindEffectIntended || tipstaff.BodyOf[tipstaff.Effect](e).Class != flow.Once {
			continue
		}
		if leaf := p.leafAt(events[i].Path); leaf != nil {
			made[leaf.ID] = leaf.Performer()
		}
	}
	return made
}

// settle marks, in the accepted terms and in those that come after, the calls that were
// made: who accepted a call has not accepted that it is made once more under another
// id. What a made call was, its id tells in the terms in force, or else in the accepted
// ones. If neither has it only its performer is known, of whom no call is left then.
func settle(made map[string]string, now, accepted, after policy.Terms) {
	for _, id := range slices.Sorted(maps.Keys(made)) {
		performed := func(e policy.Effect) bool { return cmp.Or(e.Agent, e.Tool) == made[id] }
		other := func(e policy.Effect) bool { return e.ID != id || !performed(e) }
		calls := slices.DeleteFunc(slices.Clone(now.Calls), other)
		if len(calls) == 0 {
			calls = slices.DeleteFunc(slices.Clone(accepted.Calls), other)
		}
		for _, call := range calls {
			mark(accepted.Calls, call, func(policy.Effect) bool { return true })
			mark(after.Calls, call, func(e policy.Effect) bool { return e.ID == id })
		}
		for i := range accepted.Calls {
			if len(calls) == 0 && performed(accepted.Calls[i]) {
				accepted.Calls[i].Made = true
			}
		}
	}
}

// mark finds an equal call that is not marked yet.
func mark(in []policy.Effect, call policy.Effect, where func(policy.Effect) bool) {
	for i, e := range in {
		if !e.Made && e.Agent == call.Agent && e.Tool == call.Tool && bytes.Equal(e.Args, call.Args) && where(e) {
			in[i].Made = true
			return
		}
	}
}

// target is the part of a document that a revision changes: the intent if nothing
// else does.
func target(old, new *plan.Document) string {
	if old.Intent.Hash() != new.Intent.Hash() && sameJSON(withoutIntent(old), withoutIntent(new)) {
		return "intent"
	}
	return "plan"
}

func withoutIntent(d *plan.Document) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(d.Canonical(), &members) != nil {
		return d.Canonical()
	}
	delete(members, "intent")
	return flow.JSON(members)
}

// decides reports whether a record is the decision of a gate.
func decides(e *tipstaff.Event, gate string) bool {
	var b tipstaff.GateResolved
	closes := e.Kind == tipstaff.KindPolicyGateResolve || e.Kind == tipstaff.KindIntentAccept
	return closes && json.Unmarshal(e.Body, &b) == nil && b.Gate == gate
}

// maxInline is how long a result may be to stand in the segment itself: a segment
// grows with the nodes of a plan, not with what they bring forth.
const maxInline = 1 << 10

// handOn puts together what the next segment takes over: what this one took over,
// what was completed in it, and what nobody knows the end of.
func (p *planProgram) handOn(ctx context.Context, t *transition) error {
	c := &t.to
	c.Carried = maps.Clone(p.segment.Carried)
	if c.Carried == nil {
		c.Carried = map[string]plan.Done{}
	}
	for id, done := range p.left.done {
		if len(done.Output) > maxInline {
			if _, err := t.put(done.Output); err != nil {
				return err
			}
			done.Output = nil
		}
		c.Carried[id] = done
	}
	c.Approved = p.left.approved
	if err := p.doubts(ctx, t); err != nil {
		return err
	}
	t.keep = c.digests()
	return nil
}

// digests are the blobs that the segment names beside its programs.
func (c *segment) digests() (all []string) {
	for _, done := range c.Carried {
		if done.Output == nil {
			all = append(all, done.Digest)
		}
	}
	for _, d := range c.InDoubt {
		if d.InputDigest != "" {
			all = append(all, d.InputDigest)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// doubts are the once calls that were announced and never settled, here or
// earlier, by the leaf that made them.
func (p *planProgram) doubts(ctx context.Context, t *transition) error {
	c := &t.to
	c.InDoubt = maps.Clone(p.segment.InDoubt)
	if c.InDoubt == nil {
		c.InDoubt = map[string]doubtedCall{}
	}
	for id := range p.left.settled {
		delete(c.InDoubt, id)
	}
	open, err := unsettled(ctx, t.src, t.events)
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(open))) { // of one leaf the first counts
		leaf := p.leafAt(path)
		if leaf == nil {
			continue
		}
		call := doubtedCall{Doubt: open[path]}
		call.Kind, call.By = leaf.Kind, leaf.Performer()
		if len(call.Input) > maxInline {
			if call.InputDigest, err = t.put(call.Input); err != nil {
				return err
			}
			call.Input = nil
		}
		c.InDoubt[leaf.ID] = call
	}
	return nil
}

// leafAt is the leaf that a path of this segment belongs to.
func (p *planProgram) leafAt(path string) *plan.Node {
	root := p.root()
	for leaf := range p.doc.Root.Leaves {
		at := root + strings.TrimPrefix(leaf.Path, p.doc.Root.Path)
		if path == at || strings.HasPrefix(path, at+"/") {
			return leaf
		}
	}
	return nil
}

// unsettled are the once calls without an outcome, by path.
func unsettled(ctx context.Context, src source, events []tipstaff.Event) (map[string]plan.Doubt, error) {
	open, inputs := map[string]plan.Doubt{}, map[string]json.RawMessage{}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case tipstaff.KindEffectFinished:
			delete(open, e.Path)
		case tipstaff.KindEffectLost:
			if d, ok := open[e.Path]; ok {
				d.Lost = e.Body
				open[e.Path] = d
			}
		case tipstaff.KindEffectIntended:
			var b tipstaff.Effect
			if err := json.Unmarshal(e.Body, &b); err != nil {
				return nil, fmt.Errorf("record %d cannot be read: %w", e.Seq, err)
			}
			if b.Input != nil {
				inputs[e.Path] = b.Input
			}
			if b.Class == flow.Once {
				open[e.Path] = plan.Doubt{Path: e.Path, Name: b.Name, Attempt: b.Attempt, Digest: b.Digest}
			}
		}
	}
	for path, d := range open {
		input, err := attached(ctx, src, inputs[path])
		if err != nil {
			return nil, err
		}
		d.Input = input
		open[path] = d
	}
	return open, nil
}

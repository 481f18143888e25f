package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

// passage is the way from one chapter of a run to the next. It follows from the
// records of the chapter that ends: the owner writes it, and verify computes it
// again.
type passage struct {
	before  []flow.Draft // envelopes that precede the run.continued
	chapter chapter
	keep    []string // digests that the chapter names
}

// segment is the passage as the engine wants it, given the program of the chapter
// that begins.
func (t *passage) segment(next *program) flow.Segment {
	return flow.Segment{Before: t.before, State: flow.JSON(t.chapter), Keep: t.keep,
		Root: t.chapter.root(), Limits: next.limits, Deadline: next.deadline()}
}

// passage computes what follows a chapter. p has just been driven or replayed over
// its records, which are events; state is what its flow continues with, unless it
// was cut. put keeps long results and returns their digest.
func (p *program) passage(ctx context.Context, src source, put func([]byte) (string, error), events []tipstaff.Event, state json.RawMessage, cut bool) (*passage, error) {
	t := &passage{chapter: chapter{Latest: p.chapter.Latest, Recalled: p.chapter.Recalled}}
	if err := p.handOn(ctx, src, put, events, t); err != nil {
		return nil, err
	}
	if cut {
		return t, p.correct(ctx, src, events, t)
	}
	if p.pipe != nil {
		return t, p.goOn(put, state, t)
	}
	if p.chapter.Phase == phaseDraft {
		return t, p.propose(ctx, src, state, t)
	}
	return t, p.answered(events, state, t)
}

// goOn is the passage of a pipeline whose history begins afresh: nothing of it
// changes.
func (p *program) goOn(put func([]byte) (string, error), state json.RawMessage, t *passage) error {
	c := &t.chapter
	c.Phase, c.Revision, c.Pipeline, c.pipe = phaseWalk, p.chapter.inForce(), state, true
	for _, stage := range slices.Sorted(maps.Keys(p.talks.said)) {
		digest, err := put(p.talks.said[stage])
		if err != nil {
			return err
		}
		if c.Talks == nil {
			c.Talks = map[string]string{}
		}
		c.Talks[stage] = digest
		t.keep = append(t.keep, digest)
	}
	return nil
}

// correct turns to the revision that was handed in: at once if it leaves the terms
// as they were accepted, else by way of a confirmation.
func (p *program) correct(ctx context.Context, src source, events []tipstaff.Event, t *passage) error {
	req, at, err := requested(events)
	if err != nil {
		return err
	}
	now, next := p.inForce(events), req.revision
	next.Number = p.chapter.Latest + 1
	found, target, changes, err := p.compare(ctx, src, now.accepted(), next, events, at)
	if err != nil {
		return err
	}
	t.before = []flow.Draft{{Kind: string(tipstaff.KindIntentCorrect), From: journal.Executor, Body: flow.JSON(map[string]any{
		"target": target, "reason": req.Reason, "material": found.Material, "reasons": found.Reasons,
		"intent_hash": next.IntentHash, "program_digest": next.ProgramDigest, "revision": next.Number, "on_behalf_of": req.Actor})}}
	t.chapter.Latest = next.Number
	if found.Material {
		t.chapter.Phase, t.chapter.Revision, t.chapter.Former, t.chapter.Reasons, t.chapter.Changes = phaseConfirm, next, &now, found.Reasons, changes
		return nil
	}
	accepted := now.accepted()
	next.Asks = cmp.Or(next.Asks, now.Asks) // nobody has accepted more than before
	next.AcceptedBy, next.Accepted, next.Shown = now.AcceptedBy, &accepted, now.Shown
	t.chapter.Phase, t.chapter.Revision = phaseWalk, next
	return nil
}

// inForce is the revision that the chapter walks, with the acceptance that it
// runs under.
func (p *program) inForce(events []tipstaff.Event) revision {
	now := p.chapter.inForce()
	if now.IntentHash == "" {
		now.IntentHash = p.doc.Intent.Hash()
	}
	for i := range events {
		var b struct {
			AcceptedBy string `json:"accepted_by"`
		}
		if events[i].Kind == tipstaff.KindPlanProposed && json.Unmarshal(events[i].Body, &b) == nil {
			now.AcceptedBy = b.AcceptedBy
		}
	}
	return now
}

// compare classifies the change from what was accepted to what was handed in, as
// of the time at which it was. events are the records of the present chapter. The
// target is what the correction changes.
func (p *program) compare(ctx context.Context, src source, accepted, next revision, events []tipstaff.Event, at time.Time) (found tipstaff.Classification, what string, changes []tipstaff.Change, err error) {
	old, err := openRevision(ctx, src, p, accepted)
	if err != nil {
		return found, "", nil, err
	}
	new, err := openRevision(ctx, src, p, next)
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
// in earlier chapters, and in this one by its records. The value is who performed each.
func (p *program) made(events []tipstaff.Event) map[string]string {
	made := map[string]string{}
	for id, done := range p.chapter.Carried {
		made[id] = done.By
	}
	for id, doubt := range p.chapter.InDoubt {
		made[id] = doubt.By
	}
	for i := range events {
		var b struct {
			Class flow.Class `json:"class"`
		}
		if e := &events[i]; e.Kind != tipstaff.KindEffectIntended || json.Unmarshal(e.Body, &b) != nil || b.Class != flow.Once {
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

// answered turns to what the answer to a confirmation has chosen.
func (p *program) answered(events []tipstaff.Event, state json.RawMessage, t *passage) error {
	var answer confirmed
	if err := json.Unmarshal(state, &answer); err != nil || p.chapter.Phase != phaseConfirm {
		return errors.New("the program goes on although nothing was confirmed")
	}
	if answer.Action == actionRevise && p.chapter.Draft != nil {
		d := *p.chapter.Draft
		d.Wanted = append(slices.Clone(d.Wanted), answer.Feedback)
		t.chapter = chapter{Phase: phaseDraft, Latest: 1, Revision: *d.With, Draft: &d, Recalled: t.chapter.Recalled}
		d.With = nil
		return nil
	}
	chosen := p.chapter.Revision
	if chosen.IntentHash == "" {
		chosen.IntentHash = p.doc.Intent.Hash()
	}
	switch {
	case answer.Action == actionAccept:
		i := slices.IndexFunc(events, func(e tipstaff.Event) bool { return decides(&e, answer.Gate) })
		if i < 0 {
			return fmt.Errorf("no record decides gate %s", answer.Gate)
		}
		chosen.AcceptedBy, chosen.Asks = events[i].ID.String(), ""
		var b resolveBody
		chosen.ByParent = json.Unmarshal(events[i].Body, &b) == nil && b.Via == viaParent
		chosen.Shown = p.draft.Rules >= rulesShown
	case answer.Action == actionKeep && p.chapter.Former != nil:
		chosen = *p.chapter.Former
	default:
		return fmt.Errorf("a confirmation was answered with %q", answer.Action)
	}
	t.before = []flow.Draft{{Kind: string(tipstaff.KindPlanProposed), From: journal.Executor, Body: flow.JSON(chosen.proposed())}}
	t.chapter.Phase, t.chapter.Revision = phaseWalk, chosen
	return nil
}

// decides reports whether a record is the decision of a gate.
func decides(e *tipstaff.Event, gate string) bool {
	var b resolveBody
	closes := e.Kind == tipstaff.KindPolicyGateResolve || e.Kind == tipstaff.KindIntentAccept
	return closes && json.Unmarshal(e.Body, &b) == nil && b.Gate == gate
}

// maxInline is how long a result may be to stand in the chapter itself: a chapter
// grows with the nodes of a plan, not with what they bring forth.
const maxInline = 1 << 10

// handOn puts together what the next chapter takes over: what this one took over,
// what was completed in it, and what nobody knows the end of.
func (p *program) handOn(ctx context.Context, src source, put func([]byte) (string, error), events []tipstaff.Event, t *passage) error {
	c := &t.chapter
	c.Carried = maps.Clone(p.chapter.Carried)
	if c.Carried == nil {
		c.Carried = map[string]plan.Done{}
	}
	for id, done := range p.left.done {
		if len(done.Output) > maxInline {
			if _, err := put(done.Output); err != nil {
				return err
			}
			done.Output = nil
		}
		c.Carried[id] = done
	}
	c.Approved = p.left.approved
	if err := p.doubts(ctx, src, put, events, c); err != nil {
		return err
	}
	t.keep = c.digests()
	return nil
}

// digests are the blobs that the chapter names beside its programs.
func (c *chapter) digests() (all []string) {
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
func (p *program) doubts(ctx context.Context, src source, put func([]byte) (string, error), events []tipstaff.Event, c *chapter) error {
	c.InDoubt = maps.Clone(p.chapter.InDoubt)
	if c.InDoubt == nil {
		c.InDoubt = map[string]doubtedCall{}
	}
	for id := range p.left.settled {
		delete(c.InDoubt, id)
	}
	open, err := unsettled(ctx, src, events)
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
			if call.InputDigest, err = put(call.Input); err != nil {
				return err
			}
			call.Input = nil
		}
		c.InDoubt[leaf.ID] = call
	}
	return nil
}

// leafAt is the leaf that a path of this chapter belongs to.
func (p *program) leafAt(path string) *plan.Node {
	root := p.chapter.root()
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
			var b struct {
				Name    string          `json:"name"`
				Class   flow.Class      `json:"class"`
				Attempt int             `json:"attempt"`
				Digest  string          `json:"digest"`
				Input   json.RawMessage `json:"input"`
			}
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

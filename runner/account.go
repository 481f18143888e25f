package runner

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// evidence is what a terminal envelope says about the run it ends. It follows
// from the program and the records before it, so verify computes it again.
type evidence struct {
	ProgramDigest string         `json:"program_digest"`
	Revision      int            `json:"revision"`
	Counts        map[string]int `json:"counts"`
	Skipped       []string       `json:"skipped"`
	Continued     []string       `json:"continued"`
	InDoubt       []string       `json:"in_doubt"`
	Tools         []toolUse      `json:"tools"`
	Bounds        boundsUse      `json:"bounds"`
	Lifecycle     string         `json:"lifecycle"`
	Session       *sessionHead   `json:"session,omitempty"` // of a turn
}

type toolUse struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Calls  int    `json:"calls"`
}

type boundsUse struct {
	Used  tipstaff.Bounds `json:"used"`
	Limit tipstaff.Bounds `json:"limit"`
}

// account gathers evidence record by record.
type account struct {
	steps  map[string]string // status by node
	stages map[string]int    // of pipelines: ended stages by outcome
	passed []string          // and those that were skipped last
	uris   map[string]string // of calls, by path
	calls  map[string]int    // attempts, by URI
	open   map[string]bool   // paths of once calls without an outcome
	doubts map[string]string // by gate: the path of an earlier revision's call that it asks about
	events []tipstaff.Event  // envelopes, for the lifecycle
	cancel *cancelRequest
}

func newAccount() *account {
	return &account{steps: map[string]string{}, stages: map[string]int{}, uris: map[string]string{}, calls: map[string]int{}, open: map[string]bool{}, doubts: map[string]string{}}
}

func (a *account) add(e *tipstaff.Event) {
	switch e.Kind {
	case tipstaff.KindPlanStep:
		a.stepped(e)
	case tipstaff.KindStageFinished, tipstaff.KindStageSkipped:
		a.staged(e)
	case tipstaff.KindEffectIntended:
		a.intended(e)
	case tipstaff.KindEffectFinished:
		delete(a.open, e.Path)
	case tipstaff.KindRunCancelRequested:
		a.cancel = new(cancelRequest)
		_ = json.Unmarshal(e.Body, a.cancel)
	case tipstaff.KindRunContinued:
		a.continued(e)
	case tipstaff.KindGateTaken:
		a.taken(e)
	default:
		a.asked(e)
		if e.Kind.Envelope() && !e.Kind.Terminal() {
			slim := *e
			slim.Raw = nil
			a.events = append(a.events, slim)
		}
	}
}

func (a *account) stepped(e *tipstaff.Event) {
	if b := tipstaff.BodyOf[tipstaff.PlanStep](e); b.Status != tipstaff.StepStarted {
		a.steps[b.Node] = b.Status
	}
}

// staged counts the stages of a pipeline that ended, and remembers those that were
// skipped.
func (a *account) staged(e *tipstaff.Event) {
	b := tipstaff.BodyOf[tipstaff.StageFinished](e) // of a skipped one, its name
	i := slices.Index(a.passed, b.Stage)
	switch {
	case e.Kind == tipstaff.KindStageFinished:
		a.stages[b.Outcome]++
		if i >= 0 { // it was, in an earlier epoch
			a.passed = slices.Delete(a.passed, i, i+1)
		}
	case i < 0:
		a.passed = append(a.passed, b.Stage)
	}
}

func (a *account) intended(e *tipstaff.Event) {
	b := tipstaff.BodyOf[tipstaff.Effect](e)
	if b.Class == flow.Once {
		a.open[e.Path] = true
	}
	if b.Name != tool.ActivityName {
		return
	}
	var input tool.Input
	if json.Unmarshal(b.Input, &input) == nil && input.URI != "" {
		a.uris[e.Path] = input.URI
	}
	a.calls[a.uris[e.Path]]++
}

// continued: another walk begins. What became of the nodes is what became of them
// in the last one; carried ones say so there again.
func (a *account) continued(e *tipstaff.Event) {
	var b struct {
		State struct {
			Phase string `json:"phase"`
		} `json:"state"`
	}
	if json.Unmarshal(e.Body, &b) == nil && b.State.Phase == phaseWalk {
		clear(a.steps)
	}
}

// asked notes a gate about a call of an earlier revision.
func (a *account) asked(e *tipstaff.Event) {
	if e.Kind != tipstaff.KindPolicyGate || !strings.HasSuffix(e.Path, "/"+flow.EarlierDoubt(flow.Attempt{}, nil).Key) {
		return
	}
	var b struct {
		Gate    string `json:"gate"`
		Subject struct {
			Path string `json:"path"`
		} `json:"subject"`
	}
	if json.Unmarshal(e.Body, &b) == nil {
		a.doubts[b.Gate] = b.Subject.Path
	}
}

// taken settles the call that such a gate was about: somebody has decided.
func (a *account) taken(e *tipstaff.Event) {
	if len(a.doubts) == 0 {
		return
	}
	var b struct {
		Gate string `json:"gate"`
	}
	if json.Unmarshal(e.Body, &b) == nil {
		delete(a.open, a.doubts[b.Gate])
	}
}

// evidence closes the account. end is the envelope that ends the run.
func (a *account) evidence(p program, used, limit flow.Use, end tipstaff.Kind) evidence {
	c := p.shared()
	ev := evidence{ProgramDigest: c.draft.ProgramDigest, Revision: c.segment.inForce().Number, Counts: map[string]int{}, Skipped: []string{}, Continued: []string{},
		InDoubt: []string{}, Tools: []toolUse{}, Bounds: boundsUse{tipstaff.Bounds(used), tipstaff.Bounds(limit)}}
	p.count(a, &ev)
	ev.InDoubt = append(ev.InDoubt, slices.Sorted(maps.Keys(a.open))...)
	for _, uri := range slices.Sorted(maps.Keys(a.calls)) {
		use := toolUse{URI: uri, Calls: a.calls[uri]}
		if d, err := c.gate.Tools.Lookup(uri); err == nil {
			use.Digest = d.Digest
		}
		ev.Tools = append(ev.Tools, use)
	}
	ev.Lifecycle = tipstaff.Lifecycle(append(slices.Clone(a.events), tipstaff.Event{Kind: end, Run: idOf(c.run)}))
	return ev
}

// countStages: what became of the stages of a pipeline.
func (a *account) countStages(ev *evidence) {
	ev.Counts, ev.Skipped = a.stages, append(ev.Skipped, a.passed...)
}

func idOf(run string) tipstaff.ID {
	id, _ := tipstaff.ParseID(run)
	return id
}

// accountOf reads the records of a run up to its head, and of a fork what it
// inherits before them.
func accountOf(ctx context.Context, src source, run string) (*account, int64, error) {
	a := newAccount()
	head := int64(0)
	err := eachEvent(ctx, src, run, 0, func(e *tipstaff.Event) error {
		head = e.Seq
		return a.take(ctx, src, e)
	})
	return a, head, err
}

// take adds a record as it is stored. Of no kind but intents is a payload looked
// at.
func (a *account) take(ctx context.Context, src source, e *tipstaff.Event) error {
	switch e.Kind {
	case tipstaff.KindIntentDraft:
		if e.Seq > 1 {
			break // not the one that made the run
		}
		if err := a.inherit(ctx, src, e); err != nil {
			return err
		}
	case tipstaff.KindEffectIntended:
		intended := *e
		if err := attach(ctx, src, &intended); err != nil {
			return err
		}
		e = &intended
	}
	a.add(e)
	return nil
}

// inherit takes over what a fork's source had done, given the fork's draft.
func (a *account) inherit(ctx context.Context, src source, first *tipstaff.Event) error {
	var draft draftBody
	if json.Unmarshal(first.Body, &draft) != nil || draft.ForkOf == nil {
		return nil
	}
	h, err := segmentOf(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil {
		return err
	}
	for _, r := range append(h.Base, h.Records...) {
		if flow.Owned(r.Kind, r.N) {
			a.add(&tipstaff.Event{Kind: tipstaff.Kind(r.Kind), Path: r.Path, N: r.N, Body: r.Body})
		}
	}
	return nil
}

// cancelRequest is the stored request that a cancelled run answers to.
func (a *account) cancelRequest() cancelRequest {
	if a.cancel == nil {
		return newCancel("system:cancel", "", "")
	}
	return *a.cancel
}

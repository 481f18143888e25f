package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
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
	Held  tipstaff.Bounds `json:"held,omitempty"` // for attempts that were lost
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
		if b := tipstaff.BodyOf[tipstaff.PlanStep](e); b.Status != tipstaff.StepStarted {
			a.steps[b.Node] = b.Status
		}
	case tipstaff.KindStageFinished:
		b := tipstaff.BodyOf[tipstaff.StageFinished](e)
		a.stages[b.Outcome]++
		a.passed = slices.DeleteFunc(a.passed, func(stage string) bool { return stage == b.Stage }) // in an earlier epoch it was
	case tipstaff.KindStageSkipped:
		if b := tipstaff.BodyOf[tipstaff.StageSkipped](e); !slices.Contains(a.passed, b.Stage) {
			a.passed = append(a.passed, b.Stage)
		}
	case tipstaff.KindEffectIntended:
		a.intended(e)
	case tipstaff.KindEffectFinished:
		delete(a.open, e.Path)
	case tipstaff.KindRunCancelRequested:
		a.cancel = &cancelRequest{RunCancelRequested: tipstaff.BodyOf[tipstaff.RunCancelRequested](e)}
	case tipstaff.KindRunContinued:
		// What became of the nodes is what became of them in the last walk; carried ones
		// say so there again.
		var to struct{ Phase string }
		if json.Unmarshal(tipstaff.BodyOf[tipstaff.RunContinued](e).State, &to) == nil && to.Phase == phaseWalk {
			clear(a.steps)
		}
	case tipstaff.KindGateTaken:
		delete(a.open, a.doubts[tipstaff.BodyOf[tipstaff.GateTaken](e).Gate]) // somebody has decided
	default:
		if e.Kind == tipstaff.KindPolicyGate && strings.HasSuffix(e.Path, "/"+flow.EarlierDoubt(flow.Attempt{}, nil).Key) {
			var asked struct{ Path string }
			b := tipstaff.BodyOf[tipstaff.GateOpened](e)
			if json.Unmarshal(b.Subject, &asked) == nil {
				a.doubts[b.Gate] = asked.Path
			}
		}
		if e.Kind.Envelope() && !e.Kind.Terminal() {
			slim := *e
			slim.Raw = nil
			a.events = append(a.events, slim)
		}
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

// evidence closes the account. end is the envelope that ends the run.
func (a *account) evidence(p program, t flow.Tally, end tipstaff.Kind) evidence {
	c := p.shared()
	ev := evidence{ProgramDigest: c.draft.ProgramDigest, Revision: c.segment.inForce().Number, Counts: map[string]int{}, Skipped: []string{}, Continued: []string{},
		InDoubt: []string{}, Tools: []toolUse{}, Bounds: boundsUse{tipstaff.Bounds(t.Used), tipstaff.Bounds(t.Held), tipstaff.Bounds(t.Limit)}}
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
// at. The draft of a fork brings what its source had done.
func (a *account) take(ctx context.Context, src source, e *tipstaff.Event) error {
	switch e.Kind {
	case tipstaff.KindIntentDraft:
		draft := tipstaff.BodyOf[tipstaff.IntentDraft](e)
		if e.Seq > 1 || draft.ForkOf == nil {
			break
		}
		h, err := segmentOf(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq)
		if err != nil {
			return err
		}
		inherited := ownedEvents(append(h.Base, h.Records...))
		for i := range inherited {
			a.add(&inherited[i])
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

// cancelRequest is the stored request that a cancelled run answers to.
func (a *account) cancelRequest() cancelRequest {
	if a.cancel == nil {
		return newCancel("system:cancel", "", "")
	}
	return *a.cancel
}

// finish is the terminal envelope of a run that its owner ends. It adds up what
// the store holds: the engine has made everything before it durable. What cannot
// be read back cannot be signed for either: then the run is not ended.
func (r *Runner) finish(p program, out flow.Outcome) ([]flow.Draft, error) {
	ctx := context.Background()
	drafts, err := r.ending(ctx, p, ended(out))
	if err != nil {
		return nil, err
	}
	drafts[len(drafts)-1].Beside, err = p.beside(ctx, r, ended(out))
	return drafts, err
}

func (r *Runner) ending(ctx context.Context, p program, out flow.Outcome) ([]flow.Draft, error) {
	a, _, err := accountOf(ctx, r.Store, p.shared().run)
	if err != nil {
		return nil, fmt.Errorf("the records of the run cannot be read back to end it: %w", err)
	}
	switch out.Status {
	case flow.Completed:
		return r.attest(ctx, p, a, out)
	case flow.Cancelled:
		req := a.cancelRequest()
		var d *declined
		if errors.As(out.Err, &d) { // a decision has ended it
			req = newCancel(d.decision.By, d.Error(), d.decision.Via)
		}
		return []flow.Draft{r.cancelled(p, a, out, req)}, nil
	}
	f := failureOf(out.Err)
	body := tipstaff.IntentFail{Reason: f.Reason, Code: f.Code, Message: f.Message, Bound: f.Bound, Ending: endingOf(p, a, out, tipstaff.KindIntentFail)}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentFail), From: journal.Executor, Body: flow.JSON(body)}}, nil
}

func (r *Runner) attest(ctx context.Context, p program, a *account, out flow.Outcome) ([]flow.Draft, error) {
	var res plan.Result
	if err := json.Unmarshal(out.Value, &res); err != nil {
		return r.ending(ctx, p, flow.Outcome{Status: flow.Failed, Err: fmt.Errorf("the result of the walk cannot be read: %w", err), Tally: out.Tally})
	}
	digest, err := r.Store.PutBlob(ctx, canonical(res.Outputs))
	if err != nil {
		return nil, fmt.Errorf("the outputs of the run cannot be stored: %w", err)
	}
	body := tipstaff.IntentAttest{Outcome: res.Outcome, OutputsDigest: digest, Ending: endingOf(p, a, out, tipstaff.KindIntentAttest)}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentAttest), From: journal.Executor, Body: flow.JSON(body)}}, nil
}

// canonical is RFC 8785 where a value has such a form: a large number in a
// result is kept as it came.
func canonical(raw json.RawMessage) []byte {
	if form, err := canon.Exact(raw); err == nil {
		return form
	}
	return flow.JSON(raw)
}

// cancelRequest is a run.cancel_requested, and how the run is then cancelled.
type cancelRequest struct {
	tipstaff.RunCancelRequested
	via string // "" is command
}

func newCancel(actor, reason, via string) cancelRequest {
	return cancelRequest{tipstaff.RunCancelRequested{Actor: actor, Reason: reason}, via}
}

// endingOf is what every terminal envelope says of a run.
func endingOf(p program, a *account, out flow.Outcome, kind tipstaff.Kind) tipstaff.Ending {
	e := p.terminal(out)
	e.Cited, e.Evidence = p.shared().cited(), flow.JSON(a.evidence(p, out.Tally, kind))
	return e
}

// cancelled is the envelope that settles a cancelled run: signed by the
// executor for whoever asked.
func (r *Runner) cancelled(p program, a *account, out flow.Outcome, req cancelRequest) flow.Draft {
	body := tipstaff.IntentCancel{Reason: req.Reason, Via: cmp.Or(req.via, "command"), OnBehalfOf: req.Actor, Ending: endingOf(p, a, out, tipstaff.KindIntentCancel)}
	return flow.Draft{Kind: string(tipstaff.KindIntentCancel), From: journal.Executor, Body: flow.JSON(body)}
}

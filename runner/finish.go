package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
)

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
		return []flow.Draft{r.cancelled(p, a, out, declineOr(out.Err, a.cancelRequest()))}, nil
	}
	f := failureOf(out.Err)
	body := tipstaff.IntentFail{Reason: f.Reason, Code: f.Code, Message: f.Message, Bound: f.Bound, Ending: endingOf(p, a, out, tipstaff.KindIntentFail)}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentFail), From: journal.Executor, Body: flow.JSON(body)}}, nil
}

func (r *Runner) attest(ctx context.Context, p program, a *account, out flow.Outcome) ([]flow.Draft, error) {
	var res plan.Result
	if err := json.Unmarshal(out.Value, &res); err != nil {
		return r.ending(ctx, p, flow.Outcome{Status: flow.Failed, Err: fmt.Errorf("the result of the walk cannot be read: %w", err), Used: out.Used, Limit: out.Limit})
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
	e.Cited, e.Evidence = p.shared().cited(), flow.JSON(a.evidence(p, out.Used, out.Limit, kind))
	return e
}

// cancelled is the envelope that settles a cancelled run: signed by the
// executor for whoever asked.
func (r *Runner) cancelled(p program, a *account, out flow.Outcome, req cancelRequest) flow.Draft {
	body := tipstaff.IntentCancel{Reason: req.Reason, Via: cmp.Or(req.via, "command"), OnBehalfOf: req.Actor, Ending: endingOf(p, a, out, tipstaff.KindIntentCancel)}
	return flow.Draft{Kind: string(tipstaff.KindIntentCancel), From: journal.Executor, Body: flow.JSON(body)}
}

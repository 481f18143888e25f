package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
)

// finish is the terminal envelope of a run that its owner ends. It adds up what
// the store holds: the engine has made everything before it durable.
func (r *Runner) finish(p *program, out flow.Outcome) []flow.Draft {
	ctx := context.Background()
	a, _, err := accountOf(ctx, r.Store, p.run)
	if err != nil {
		a = newAccount()
	}
	switch out.Status {
	case flow.Completed:
		return r.attest(ctx, p, a, out)
	case flow.Cancelled:
		return []flow.Draft{r.cancelled(p, a, out.Used, out.Limit, a.cancelRequest())}
	}
	f := failureOf(out.Err)
	body := map[string]any{"reason": f.Reason, "message": f.Message, "cited": []string{},
		"evidence": a.evidence(p, out.Used, out.Limit, tipstaff.KindIntentFail)}
	if f.Code != "" {
		body["code"] = f.Code
	}
	if f.Bound != "" {
		body["bound"] = f.Bound
	}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentFail), From: journal.Executor, Body: flow.JSON(body)}}
}

func (r *Runner) attest(ctx context.Context, p *program, a *account, out flow.Outcome) []flow.Draft {
	var res plan.Result
	if err := json.Unmarshal(out.Value, &res); err != nil {
		return r.finish(p, flow.Outcome{Status: flow.Failed, Err: fmt.Errorf("the result of the walk cannot be read: %w", err), Used: out.Used, Limit: out.Limit})
	}
	digest, err := r.Store.PutBlob(ctx, canonical(res.Outputs))
	if err != nil {
		digest = flow.Digest(canonical(res.Outputs)) // the commit meets the same disk, and says so
	}
	return []flow.Draft{{Kind: string(tipstaff.KindIntentAttest), From: journal.Executor, Body: flow.JSON(map[string]any{
		"outcome": res.Outcome, "outputs_digest": digest, "cited": []string{},
		"evidence": a.evidence(p, out.Used, out.Limit, tipstaff.KindIntentAttest)})}}
}

// canonical is RFC 8785 where a value has such a form: a large number in a
// result is kept as it came.
func canonical(raw json.RawMessage) []byte {
	if journal.SafeNumbers(raw) == nil {
		if c, err := journal.Canonical(raw); err == nil {
			return c
		}
	}
	return flow.JSON(raw)
}

// cancelBody is run.cancel_requested.
type cancelBody struct {
	Actor    string `json:"actor"`
	Mode     string `json:"mode"`
	Reason   string `json:"reason"`
	Deadline string `json:"deadline"`
}

// cancelled is the envelope that settles a cancelled run: signed by the
// executor for whoever asked.
func (r *Runner) cancelled(p *program, a *account, used, limit flow.Use, req cancelBody) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindIntentCancel), From: journal.Executor, Body: flow.JSON(map[string]any{
		"reason": req.Reason, "via": "command", "cited": []string{}, "on_behalf_of": req.Actor,
		"evidence": a.evidence(p, used, limit, tipstaff.KindIntentCancel)})}
}

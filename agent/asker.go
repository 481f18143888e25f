package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// RequestOf is the call that an approval gate is about, as approvers are shown it.
// How the model calls it the gate does not know; nor whether the turn has read
// anything untrusted, so it is taken to have.
func RequestOf(g tipstaff.Gate) (ToolCallRequest, error) {
	if g.Kind != tipstaff.Approval {
		return ToolCallRequest{}, fmt.Errorf("agent: gate %s is of kind %s: it is not about a call", g.Key, g.Kind)
	}
	var s struct {
		URI   string     `json:"uri"`
		Class flow.Class `json:"class"`
		Hints struct {
			Destructive *bool `json:"destructive"`
			OpenWorld   *bool `json:"open_world"`
		} `json:"hints"`
		Args       json.RawMessage `json:"args"`
		ArgsDigest string          `json:"args_digest"`
		Facts      json.RawMessage `json:"facts"`
		Rule       string          `json:"rule"`
	}
	err := json.Unmarshal(g.Subject, &s)
	var u tipstaff.ToolURI
	if err == nil {
		u, err = tipstaff.ParseToolURI(s.URI)
	}
	if err != nil {
		return ToolCallRequest{}, fmt.Errorf("agent: what gate %s is about cannot be read: %w", g.Key, err)
	}
	return ToolCallRequest{Server: u.Server, Tool: u.Tool, URI: s.URI, Effect: s.Class,
		Destructive: orTrue(s.Hints.Destructive), OpenWorld: orTrue(s.Hints.OpenWorld),
		Arguments: s.Args, ArgsDigest: s.ArgsDigest, Facts: s.Facts, Rule: s.Rule, Untrusted: true}, nil
}

// orTrue: what is not said is taken for the worse.
func orTrue(b *bool) bool { return b == nil || *b }

// Asker has an approver answer the approval gates of a run; via is how its answers
// are recorded. Other gates, and what it fails at, it leaves to others.
func Asker(a Approver, via string) tipstaff.Ask {
	return func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		r, err := RequestOf(g)
		if err != nil {
			return tipstaff.Choice{}, false
		}
		d, err := a.Approve(ctx, r)
		if d == AllowAll && !slices.Contains(g.Actions, ActionAllowAll) { // a plan's own call stands alone
			d = Allow
		}
		return tipstaff.Choice{Via: via, Action: d.Action()}, err == nil
	}
}

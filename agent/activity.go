package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// Local is what the calls of a turn bring to their activities beside their input,
// as [flow.Attempt].Local. It is in no record: a conversation is named there by its
// digest alone.
type Local struct {
	*Settings
	Gate    *tool.Gate // of the turn; nil: it is made from the catalog, which is not yet read
	CallID  string     // of a tool call: how its model names it
	Catalog *Catalog   // nil: it is not yet read
	Request Request    // of a model call
	step    int
}

// ModelCall is the activity model.call: it asks the model once. What the model says
// is told while it says it.
func ModelCall(model Model) flow.Activity {
	return flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		l, ok := a.Local.(*Local)
		if !ok {
			return flow.Done{}, fmt.Errorf("agent: the call at %s has no request", a.Path)
		}
		if err := a.Sync(); err != nil { // whoever is told what the model says can look up that it was asked
			return flow.Done{}, err
		}
		request := l.Request
		request.Path, request.Attempt = a.Path, a.N
		said, err := model.Stream(ctx, request, teller(a, l.step))
		said.Usage = priced(said.Usage, l.Caps.Price)
		if err != nil {
			return flow.Done{Use: spent(said.Usage, err)}, brokenOff(said, err)
		}
		return flow.Done{Value: flow.JSON(said), Use: used(said.Usage)}, nil
	}}
}

// teller hands on deltas, each with its place in the text of its channel.
func teller(a flow.Attempt, step int) func(Delta) {
	var offset map[string]int64
	return func(d Delta) {
		if d.Text == "" {
			return
		}
		if offset == nil {
			offset = map[string]int64{}
		}
		a.Tell(emitted(&TextDelta{Step: step, Channel: d.Channel, Offset: offset[d.Channel], Text: d.Text}))
		offset[d.Channel] += int64(len(d.Text))
	}
}

// spent is what a failed attempt used. One that the vendor refused, or that never
// reached it, has used no tokens.
func spent(u *Usage, err error) flow.Use {
	var failed *flow.Error
	if u == nil && errors.As(err, &failed) && (failed.NotSent || failed.Answered) {
		return flow.Use{tipstaff.BoundModelCalls: 1, tipstaff.BoundTokens: 0, tipstaff.BoundCostUSD: 0}
	}
	return used(u)
}

// partial is the member of a failure's detail that holds what the model had said
// until then.
const partial = "partial"

// brokenOff puts what was said before a failure into it: it is part of the
// conversation.
func brokenOff(said Response, err error) error {
	var failed *flow.Error
	if said.Text == "" || !errors.As(err, &failed) {
		return err
	}
	with := *failed
	detail := map[string]json.RawMessage{}
	if len(failed.Detail) > 0 && json.Unmarshal(failed.Detail, &detail) != nil {
		detail = map[string]json.RawMessage{"detail": failed.Detail}
	}
	detail[partial] = flow.JSON(said.Text)
	with.Detail = flow.JSON(detail)
	return &with
}

// partialText is what brokenOff put there.
func partialText(failed *flow.Error) string {
	var detail map[string]json.RawMessage
	var text string
	if json.Unmarshal(failed.Detail, &detail) != nil || json.Unmarshal(detail[partial], &text) != nil {
		return ""
	}
	return text
}

// CatalogCall is the activity tool.catalog. Its value is a Catalog.
func CatalogCall(list func(context.Context) (*Catalog, error)) flow.Activity {
	return flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		c, err := list(ctx)
		if err != nil {
			return flow.Done{}, err
		}
		return flow.Done{Value: flow.JSON(c)}, nil
	}}
}

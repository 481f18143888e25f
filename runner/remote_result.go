package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Complete implements [tipstaff.Host]: the first result of a call is its answer, and
// durable when this returns.
func (h *host) Complete(ctx context.Context, r tipstaff.HostResult) error {
	c := h.take(r)
	if c == nil {
		return h.late(ctx, r)
	}
	select {
	case <-c.stored:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.lost != nil {
		return &tipstaff.Error{Code: tipstaff.WrongState, Run: c.Run, Err: c.lost,
			Message: "the result of call " + c.ID + " was not recorded", Hint: "keep it, and bring it again when the run is driven on"}
	}
	return nil
}

// take hands a result to its call. nil: there is no call that it could be the answer
// of.
func (h *host) take(r tipstaff.HostResult) *remoteCall {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	c := h.pool.calls[r.Call]
	if c == nil {
		return nil
	}
	// Nobody knows any more to whom a process before this one gave what may be repeated.
	given := slices.Contains(c.given, h.id) || len(c.given) == 0 && c.class != flow.Once
	switch {
	case !h.serves(c.owners), !given, c.result == nil && c.ended:
		return nil
	case c.result == nil:
		c.result = &r
		close(c.came)
	case !bytes.Equal(flow.JSON(c.result), flow.JSON(r)):
		return nil
	}
	return c
}

// late records a result that cannot be used. One that is recorded as the call's
// answer already was brought twice, which is no harm.
func (h *host) late(ctx context.Context, r tipstaff.HostResult) error {
	run, path, ok := placeOf(r.Call)
	if !ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is no call", shortened(r.Call))
	}
	store := h.pool.store
	draft, err := readDraft(ctx, store, run)
	if err != nil {
		return explain(err, idOf(run))
	}
	if !h.serves(draft.owners()) {
		return explain(flow.ErrNoRun, idOf(run))
	}
	known, err := outcomeIs(ctx, store, run, path, &r)
	if err != nil || known {
		return explain(err, idOf(run))
	}
	body := tipstaff.EffectLate{Call: r.Call, Host: h.id, Output: r.Output, Control: r.Control, Error: r.Error}
	err = store.Write(ctx, run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tipstaff.State(tx.Row().State).Terminal() {
			return nil, nil // nothing follows its end
		}
		return []flow.Draft{{Kind: string(tipstaff.KindEffectLate), Path: path, Note: true, Body: flow.JSON(body)}}, nil
	})
	if errors.Is(err, flow.ErrEnded) {
		return nil
	}
	return explain(err, idOf(run))
}

// outcomeIs reports whether a result is the one that stands in the journal.
func outcomeIs(ctx context.Context, src source, run, path string, r *tipstaff.HostResult) (found bool, err error) {
	err = eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		if found || s.Kind != string(tipstaff.KindEffectFinished) {
			return nil
		}
		e, err := parse(ctx, src, s)
		if err != nil || e.Path != path {
			return err
		}
		var b struct {
			Value remoteValue         `json:"value"`
			Error *tipstaff.HostError `json:"error"`
		}
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return err
		}
		if r.Error != nil {
			found = b.Error != nil && b.Error.Code == r.Error.Code && b.Error.Message == r.Error.Message
		} else {
			found = b.Error == nil && sameText(b.Value.Output, r.Output) && sameText(b.Value.Control, r.Control)
		}
		return nil
	})
	return found, err
}

// sameText compares JSON as hosts and journals write it.
func sameText(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return string(flow.JSON(a)) == string(flow.JSON(b))
}

// Reserve implements [tipstaff.Host].
func (h *host) Reserve(ctx context.Context, call string, use tipstaff.Usage) (bound string, err error) {
	if use.LLMCalls < 0 || use.ToolCalls < 0 || use.TokensIn < 0 || use.TokensOut < 0 || use.CostUSD < 0 {
		return "", tipstaff.Errorf(tipstaff.InvalidArgument, "nobody can reserve less than nothing")
	}
	h.pool.mu.Lock()
	c := h.pool.calls[call]
	mine := c != nil && c.at == h
	h.pool.mu.Unlock()
	if !mine {
		return "", tipstaff.Errorf(tipstaff.WrongState, "host %s does not have call %s", h.id, shortened(call))
	}
	ask := reservation{granted: make(chan error, 1), use: useOf(usageOf(use))}
	select {
	case c.asks <- ask:
		err := <-ask.granted
		var refused *flow.Error
		if errors.As(err, &refused) && refused.Bound != "" {
			return refused.Bound, nil
		}
		return "", explain(err, tipstaff.ID{})
	case <-c.over:
		return "", tipstaff.Errorf(tipstaff.WrongState, "call %s is over", shortened(call))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// codeForm is what a host may call a failure.
var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_.:-]{0,63}$`)

// engineCodes are what only the engine says of a call: an agent that says so means
// something else.
var engineCodes = []string{flow.CodeBoundExceeded, flow.CodeDeadline, flow.CodeInDoubt, flow.CodeInternal, flow.CodeHistoryTooLong, flow.CodeResultTooLarge}

// failure is the error of a call whose agent failed: an answer like another. One that
// failed because it was refused more ends at that bound.
func (c *remoteCall) failure() *flow.Error {
	e := c.result.Error
	switch {
	case e.Code == flow.CodeBoundExceeded && c.refused != nil:
		return &flow.Error{Code: flow.CodeBoundExceeded, Bound: c.refused.Bound, Message: c.refused.Message, Answered: true}
	case !codeForm.MatchString(e.Code) || slices.Contains(engineCodes, e.Code):
		return &flow.Error{Code: "agent_error", Message: strings.TrimPrefix(e.Code+": "+e.Message, ": "), Retry: e.Retryable, Answered: true}
	}
	return &flow.Error{Code: e.Code, Message: e.Message, Retry: e.Retryable, Answered: true}
}

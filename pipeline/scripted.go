package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// ScriptedActivity is the call of a scripted stage: it lets time pass.
const ScriptedActivity = "stage.scripted"

// Activities are those that the executor itself calls.
func Activities() map[string]flow.Activity {
	prompt := func(flow.Attempt) bool { return true }
	return map[string]flow.Activity{
		BeginActivity:    {Run: func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, nil }, Prompt: prompt},
		ScriptedActivity: {Run: pass, Prompt: prompt},
	}
}

// scriptedInput says how long a scripted stage takes. What it answers stands in the
// document.
type scriptedInput struct {
	Answer  int   `json:"answer"` // its number, from 1
	DelayMs int64 `json:"delay_ms,omitempty"`
	Hang    bool  `json:"hang,omitempty"`
}

// pass waits for the delay, or until its context ends.
func pass(ctx context.Context, a flow.Attempt) (flow.Done, error) {
	var in scriptedInput
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return flow.Done{}, err
	}
	wait := ctx
	if !in.Hang {
		if in.DelayMs == 0 {
			return flow.Done{}, nil
		}
		delayed, cancel := context.WithTimeout(ctx, time.Duration(in.DelayMs)*time.Millisecond)
		defer cancel()
		wait = delayed
	}
	<-wait.Done()
	return flow.Done{}, context.Cause(ctx)
}

// PerformScripted is the [Perform] of scripted stages. What an answer says it used
// is charged to the run.
func PerformScripted(fc flow.Context, st Stage) (Result, error) {
	n, err := st.Agent.Scripted.answerOf(st.Visit)
	if err != nil {
		return Result{}, err
	}
	a := st.Agent.Scripted.Answers[n-1]
	_, err = fc.Do(flow.Call{Key: "scripted", Name: ScriptedActivity, Class: flow.Read, Timeout: st.Timeout,
		Input:   flow.JSON(scriptedInput{Answer: n, DelayMs: a.Delay.Milliseconds(), Hang: a.Hang}),
		Reserve: reserveOf(a.Usage), Ask: st.AskBounds})
	var failed *flow.Error
	switch {
	case err == nil:
	case handsUp(err) || !errors.As(err, &failed) || isBound(failed):
		return Result{}, err
	default:
		return Result{}, &StageError{Code: failed.Code, Message: failed.Message, Retryable: failed.Retry, Usage: a.Usage}
	}
	if a.Error != nil {
		e := *a.Error
		e.Usage = a.Usage
		return Result{}, &e
	}
	return Result{Output: a.Output, Control: a.Control, Usage: a.Usage}, nil
}

// answerOf is the number of the answer to a visit, from 1.
func (s *Scripted) answerOf(visit int) (int, error) {
	count := len(s.Answers)
	switch {
	case visit <= count:
		return visit, nil
	case count > 0 && s.Repeat == repeatLast:
		return count, nil
	case count > 0 && s.Repeat == repeatCycle:
		return (visit-1)%count + 1, nil
	}
	return 0, &StageError{Code: "script_exhausted", Message: fmt.Sprintf("there are %d answers, and this is visit %d", count, visit)}
}

// reserveOf is the usage by the ledger's names; nil: none.
func reserveOf(u tipstaff.StageUsage) flow.Use {
	use := flow.Use{}
	for name, n := range map[string]int64{
		tipstaff.BoundModelCalls: u.LLMCalls, tipstaff.BoundToolCalls: u.ToolCalls, tipstaff.BoundAgentHops: u.Hops,
		tipstaff.BoundTokens: u.TokensIn + u.TokensOut, tipstaff.BoundCostUSD: int64(u.CostUSD),
	} {
		if n > 0 {
			use[name] = n
		}
	}
	return use
}

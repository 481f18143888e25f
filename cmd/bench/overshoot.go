package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	// promised is how many tokens a model may say in an answer, said how many it
	// reports to have said: more than anybody could reserve.
	promised, said = 100, 500
	answerTime     = 2 * time.Millisecond

	perTurn     = 20     // steps that a turn would take
	tokensATurn = 10_000 // of the bound: too few for that
)

// measureOvershoot: many turns at once under one bound of tokens, with a model that
// uses more than it may. What was in flight when the bound was reached cannot be
// called back; nothing else may come on top of it.
func measureOvershoot(ctx context.Context, b *bench) ([]row, error) {
	l, err := newLoop(agent.Settings{MaxSteps: perTurn, MaxOutputTokens: promised})
	if err != nil {
		return nil, err
	}
	m := &meter{bound: int64(b.together) * tokensATurn, tokens: map[string]int64{}}
	refused, err := l.together(ctx, b.together, m)
	if err != nil {
		return nil, err
	}
	if refused != b.together {
		return nil, fmt.Errorf("of %d turns %d met the bound", b.together, refused)
	}
	over := max(0, m.used()-m.bound)
	calls, flying := m.inFlight()
	return []row{{figure: fmt.Sprintf("%d turns at once under one bound of %s tokens", b.together, count(float64(m.bound))), value: float64(m.used()),
		measured: count(float64(over)) + " tokens over it",
		beside:   fmt.Sprintf("%d calls in flight then, of %s tokens", calls, count(float64(flying))),
		bound:    limit("what was in flight", over <= flying)}}, nil
}

// together takes turns side by side in one run, and returns how many of them ended
// at its bound.
func (l *loop) together(ctx context.Context, turns int, m *meter) (refused int, err error) {
	ends := make([]error, turns)
	program := func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		branches := make([]flow.Branch, turns)
		for i := range branches {
			branches[i] = flow.Branch{Name: strconv.Itoa(i), Run: func(fc flow.Context) error {
				_, err := l.turn(fc)
				var failed *flow.Error
				if errors.As(err, &failed) { // the others go on
					ends[i], err = failed, nil
				}
				return err
			}}
		}
		return empty, fc.Go(flow.Group{}, branches...)
	}
	job := flow.Job{Run: "turns", Root: "root", Flow: program, Acts: l.acts(reader{perTurn, m.answer}), Appended: m.appended,
		Limits: flow.Use{tipstaff.BoundTokens: m.bound}}
	if err := completed(flow.New(flow.NewMem(), nil).Drive(ctx, job)); err != nil {
		return 0, err
	}
	for _, end := range ends {
		var failed *flow.Error
		switch {
		case !errors.As(end, &failed):
		case failed.Code == flow.CodeBoundExceeded && failed.Bound == tipstaff.BoundTokens:
			refused++
		default:
			return 0, failed
		}
	}
	return refused, nil
}

// meter counts what the answers of a model use, and which calls were in flight
// together.
type meter struct {
	bound int64

	mu     sync.Mutex
	tokens map[string]int64 // that a call used, by its path

	marks []mark // in the order in which the engine came by
}

// mark is the beginning or the end of a call: the record that tells of it, before
// anything is reserved or after all is settled.
type mark struct {
	path string
	end  bool
}

func (m *meter) answer(ctx context.Context, r agent.Request) (*agent.Usage, error) {
	step, err := stepOf(r.Path)
	if err != nil {
		return nil, err
	}
	// By its own count, all that it said before is in what it now reads.
	u := &agent.Usage{InputTokens: agent.Estimate(r) + int64(step-1)*said, OutputTokens: said}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	m.mu.Lock()
	m.tokens[r.Path] = u.TotalTokens
	m.mu.Unlock()
	select {
	case <-time.After(answerTime):
		return u, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// appended sees the records of the run as they are written.
func (m *meter) appended(d flow.Draft) {
	switch tipstaff.Kind(d.Kind) {
	case tipstaff.KindAgentStepStarted:
		m.marks = append(m.marks, mark{d.Path, false})
	case tipstaff.KindEffectFinished:
		m.marks = append(m.marks, mark{d.Path, true})
	}
}

func (m *meter) used() (all int64) {
	for _, n := range m.tokens {
		all += n
	}
	return all
}

// inFlight are the calls under way when the last one began that the bound let
// through, itself among them, and the tokens that they used.
func (m *meter) inFlight() (calls int, tokens int64) {
	last := len(m.marks) - 1
	for last >= 0 && (m.marks[last].end || m.tokens[m.marks[last].path] == 0) { // one without tokens was refused
		last--
	}
	for _, at := range m.marks[:last+1] {
		switch n := m.tokens[at.path]; {
		case n == 0: // refused, or no question to the model
		case at.end:
			calls, tokens = calls-1, tokens-n
		default:
			calls, tokens = calls+1, tokens+n
		}
	}
	return calls, tokens
}

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
)

// correctionBody is run.correction_requested: a revised program that waits for
// the run's owner. Its number and acceptance are not known yet.
type correctionBody struct {
	revision
	tipstaff.RunCorrectionRequested
}

// requested is the correction that a segment holds, and when it was handed in.
func requested(events []tipstaff.Event) (b correctionBody, at time.Time, err error) {
	for i := range events {
		e := &events[i]
		if e.Kind != tipstaff.KindRunCorrectionRequested {
			continue
		}
		if err := json.Unmarshal(e.Body, &b); err != nil {
			return b, at, fmt.Errorf("record %d cannot be read: %w", e.Seq, err)
		}
		return b, e.At, nil
	}
	return b, at, errors.New("the history begins afresh although nobody has corrected the run")
}

// segmentEvents are the records of the present segment, its run.continued first,
// and of a fork's first segment what it inherits before them.
func (r *Runner) segmentEvents(ctx context.Context, run string) ([]tipstaff.Event, error) {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	var events []tipstaff.Event
	if row.Cont == 0 && row.Base != "" {
		base, err := segmentOf(ctx, r.Store, row.Base, row.BaseSeq)
		if err != nil {
			return nil, err
		}
		events = ownedEvents(append(base.Base, base.Records...))
	}
	err = eachRecord(ctx, r.Store, run, max(0, row.Cont-1), func(s flow.Stored) error {
		e, err := tipstaff.ParseEvent(s.Bytes)
		events = append(events, e)
		return err
	})
	return events, err
}

// Correct checks a revised program as if it were started, and hands it to the
// run. Nothing is stored unless all of it holds. What it tells is computed as the
// run's owner will.
func (r *Runner) Correct(ctx context.Context, req tipstaff.CorrectRequest) (tipstaff.Corrected, error) {
	row, err := r.openToChange(ctx, req.Run, tipstaff.ScopeRun, handed{own: true}.needs())
	if err != nil {
		return tipstaff.Corrected{}, err
	}
	corrected, err := r.correct(ctx, row, req)
	return corrected, explain(err, req.Run)
}

func (r *Runner) correct(ctx context.Context, row flow.Row, req tipstaff.CorrectRequest) (none tipstaff.Corrected, err error) {
	if strings.TrimSpace(req.Reason) == "" {
		return none, tipstaff.Errorf(tipstaff.InvalidArgument, "a correction needs a reason")
	}
	for {
		own, next, err := r.revised(ctx, row, req)
		if err != nil {
			return none, err
		}
		at, err := r.handIn(ctx, own, next)
		if errors.Is(err, errMoved) {
			continue // another correction was handed in and taken up meanwhile
		}
		if err != nil {
			return none, err
		}
		return r.foretell(ctx, own, next, at)
	}
}

// validateCorrection says what a correction would mean, and hands nothing in.
func (r *Runner) validateCorrection(ctx context.Context, req tipstaff.CorrectRequest) (v tipstaff.Validated, err error) {
	row, err := r.openToChange(ctx, req.Run, tipstaff.ScopeRun, handed{own: true}.needs())
	if err != nil {
		return v, err
	}
	own, next, err := r.revised(ctx, row, req)
	if err != nil {
		return v, explain(err, req.Run)
	}
	found, err := r.foretell(ctx, own, next, r.Now())
	if err != nil {
		return v, explain(err, req.Run)
	}
	return tipstaff.Validated{Program: found.Program, Outline: found.Outline, Bounds: next.Bounds, Corrected: &found}, nil
}

// revised is the plan of a run, and a program that is to take its place.
func (r *Runner) revised(ctx context.Context, row flow.Row, req tipstaff.CorrectRequest) (own *planProgram, next correctionBody, err error) {
	if tipstaff.State(row.State).Terminal() {
		return nil, next, flow.ErrEnded
	}
	if _, err := r.Store.Load(ctx, row.ID); err != nil {
		return nil, next, err // what is corrected must be what was accepted
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err == nil {
		own, err = correctable(p)
	}
	if err == nil {
		next, err = r.revise(ctx, own, req)
	}
	return own, next, err
}

// correctable is the plan of a run that takes corrections.
func correctable(p program) (*planProgram, error) {
	c := p.shared()
	if c.draft.ProgramKind != plan.KindPlan {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "run %s executes a %s: only a plan can be corrected", c.run, c.draft.ProgramKind)
	}
	if parent := c.draft.Parent; parent.Dispatched() {
		// What a child may do was settled by its parent's plan and acceptance.
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "run %s was started by run %s: it has no plan of its own that could be corrected", c.run, parent.Run).
			WithHint("correct the plan of run %s", parent.Run)
	}
	own, ok := p.(*planProgram)
	if !ok {
		return nil, unconfirmed(c.run)
	}
	return own, nil
}

func unconfirmed(run string) error {
	return tipstaff.Errorf(tipstaff.Busy, "run %s has a program that waits to be confirmed", run).
		WithHint("decide about it first").WithCommand("`tipstaff show %s` shows the gate", run)
}

// revise validates and freezes a revised program.
func (r *Runner) revise(ctx context.Context, p *planProgram, c tipstaff.CorrectRequest) (correctionBody, error) {
	req := tipstaff.StartRequest{Program: c.Program, Name: c.Name, AllowSubDispatch: p.gate.Manifest != nil && p.gate.Manifest.SubDispatch}
	had, err := attached(ctx, r.Store, p.draft.Inputs)
	if err != nil {
		return correctionBody{}, err
	}
	made, err := r.prepareWith(ctx, opened{StartRequest: req}, inputsTaken{had: had})
	if invalid := coded(err); invalid != nil && errors.Is(err, errInvalid) { // what is wrong with the workspace keeps its own code
		own := *invalid
		own.Code = tipstaff.CorrectionInvalid
		err = own.WithHint("nothing was changed: the run goes on as it was")
	}
	if err != nil {
		return correctionBody{}, err
	}
	if !reflect.DeepEqual(made.text.deliver(), p.text.deliver()) || !reflect.DeepEqual(made.text.files().Prepare, p.text.files().Prepare) || modeOf(made.files) != modeOf(p.draft.Files) {
		return correctionBody{}, tipstaff.Errorf(tipstaff.CorrectionInvalid, "a correction cannot change where a program works, nor what it delivers").
			WithHint("nothing was changed: the run goes on as it was")
	}
	if raised := made.bounds.Above(p.segment.inForce().accepted().Bounds); len(raised) > 0 {
		if err := may(ctx, need{true, tipstaff.ScopeDecide, "raise the bound " + raised[0]}); err != nil {
			return correctionBody{}, err
		}
	}
	body, err := r.freeze(ctx, made)
	if err == nil {
		body.Asks, err = (handed{own: true}).asks(ctx)
	}
	if err != nil {
		return correctionBody{}, err
	}
	return correctionBody{RunCorrectionRequested: tipstaff.RunCorrectionRequested{Reason: c.Reason, Actor: actor(ctx)}, revision: body.asRevision(made.text.intent().Hash())}, nil
}

// handIn stores a correction, if the run still stands where it was looked at, and
// returns the time of its record.
func (r *Runner) handIn(ctx context.Context, p *planProgram, b correctionBody) (at time.Time, err error) {
	err = r.Store.Write(ctx, p.run, func(tx flow.Tx) ([]flow.Draft, error) {
		row := tx.Row()
		switch state := tipstaff.State(row.State); {
		case state.Terminal():
			return nil, flow.ErrEnded
		case row.Cancel:
			return nil, tipstaff.Errorf(tipstaff.Busy, "run %s is being cancelled", p.run)
		case row.Correction > row.Cont:
			return nil, tipstaff.Errorf(tipstaff.Busy, "run %s has a correction that it has not taken up yet", p.run).
				WithCommand("`tipstaff resume %s` takes it up", p.run)
		case state != tipstaff.Executing:
			return nil, unconfirmed(p.run)
		case row.Cont != p.segment.since:
			return nil, errMoved
		}
		at = tx.Now()
		return []flow.Draft{{Kind: string(tipstaff.KindRunCorrectionRequested), Body: flow.JSON(b)}}, nil
	})
	return at, err
}

// foretell is what the run's owner will make of a correction, and the program as
// it will be.
func (r *Runner) foretell(ctx context.Context, p *planProgram, b correctionBody, at time.Time) (none tipstaff.Corrected, err error) {
	next := b.revision
	next.Number = p.segment.Latest + 1
	events, err := r.segmentEvents(ctx, p.run)
	if err != nil {
		return none, err
	}
	found, _, changes, err := p.compare(ctx, r.Store, p.segment.inForce().accepted(), next, events, at)
	if err != nil {
		return none, err
	}
	after, err := p.openRevision(ctx, r.Store, next)
	if err != nil {
		return none, err
	}
	now := after.started()
	return tipstaff.Corrected{Run: now.Run, Program: now.Program, Outline: now.Outline, Revision: next.Number, Changes: changes, Classification: found}, nil
}

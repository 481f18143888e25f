package cli

import (
	"context"
	"fmt"

	"github.com/tipstaff/tipstaff"
)

// attend has the gates of a run put to somebody, until it is stopped. A nil ask is
// nobody.
func attend(ctx context.Context, svc tipstaff.Service, run tipstaff.ID, ask tipstaff.Ask) (stop func()) {
	if ask == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tipstaff.Attend(ctx, svc, run, ask) // whoever follows the run meets the error, too
	}()
	return func() {
		cancel()
		<-ended
	}
}

// drive shows a run that was started until it rests, then says where it stands. ask
// answers its gates; nil: nobody does. Records up to shown were there before.
func (a *app) drive(ctx context.Context, svc tipstaff.Service, s *tipstaff.Started, p *prompter, ask tipstaff.Ask, shown int64) error {
	f := a.newFollower(svc, s, s.Program.Name, shown)
	p.beside(f)
	release := a.attach(s, f)
	leave := attend(ctx, svc, s.Run, ask)
	d, err := f.drive(ctx)
	leave()
	release()
	p.close()
	f.paint()
	if err != nil {
		return a.left(s.Run, err)
	}
	run, err := svc.Get(context.WithoutCancel(ctx), s.Run)
	if err != nil {
		run = tipstaff.Run{ID: s.Run, State: d.State, HeadSeq: f.last}
	}
	a.conclude(run, openBelow(ctx, svc, run), d)
	switch {
	case d.Err != nil:
		return d.Err
	case err != nil:
		return err
	}
	return status(exitOfDriven(ctx, d))
}

// left says how a run is followed that goes on elsewhere.
func (a *app) left(run tipstaff.ID, err error) error {
	fmt.Fprintf(a.err, "the run goes on at the server; to follow it:\n  %s\n", a.invocation("watch", run.String()))
	return err
}

// conclude prints where the run stands on standard output, and on standard error
// what brings it on.
func (a *app) conclude(r tipstaff.Run, below []tipstaff.Run, d tipstaff.Driven) {
	if a.json {
		a.writeJSON(conclusion{r.ID, r.State, d.Outcome, d.Reason, r.HeadSeq, r.Head})
	} else {
		a.printFields(endFields(r, d))
	}
	switch {
	case r.State == tipstaff.Completed, r.State == tipstaff.Failed, r.State == tipstaff.Cancelled:
	case d.Outcome == "parked", d.Outcome == "cut":
		a.saySteps(a.err, r, below, d.WakeAt)
	default:
		if d.Reason != string(tipstaff.Integrity) { // which says itself what to do first
			fmt.Fprintf(a.err, "interrupted%s; to go on:\n  %s\n", inBrackets(d.Reason), a.resumeLine(r.ID))
		}
	}
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + clean(s) + ")"
}

// conclusion is the last line of run, resume and watch with --json.
type conclusion struct {
	Run     tipstaff.ID    `json:"run_id"`
	State   tipstaff.State `json:"state"`
	Outcome string         `json:"outcome"`
	Reason  string         `json:"reason"`
	Seq     int64          `json:"seq"`
	Head    string         `json:"head"`
}

func endFields(r tipstaff.Run, d tipstaff.Driven) []field {
	state := string(r.State)
	if d.Outcome != "" && d.Outcome != state {
		state += " (" + d.Outcome + ")"
	}
	fields := []field{{"run", r.ID.String()}, {"state", state}}
	if d.State == tipstaff.Failed || d.State == tipstaff.Cancelled {
		fields = append(fields, field{"reason", failureText(r, d)})
	}
	if len(r.Outputs) > 0 && string(r.Outputs) != "null" {
		fields = append(fields, field{"outputs", string(r.Outputs)})
	}
	return append(fields, field{"seq", fmt.Sprint(r.HeadSeq)}, field{"head", r.Head})
}

// failureText prefers what is recorded to what the drive said.
func failureText(r tipstaff.Run, d tipstaff.Driven) string {
	e := r.Error
	if e == nil {
		e = &tipstaff.Failure{Reason: d.Reason, Code: d.Code, Bound: d.Bound, Message: d.Message}
	}
	text := tipstaff.Joined(" ", e.Reason, e.Bound)
	if e.Code != "" && e.Code != e.Reason {
		text = tipstaff.Joined(" ", text, "("+e.Code+")")
	}
	if e.Path != "" {
		text = tipstaff.Joined(" ", text, "at "+e.Path)
	}
	return tipstaff.Joined(": ", text, e.Message)
}

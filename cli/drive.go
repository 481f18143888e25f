package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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

// follow shows a run that was started until it rests, has its gates put to ask, and
// hands what became of it to conclude. A nil ask is nobody.
func (a *app) follow(ctx context.Context, f *follower, s *tipstaff.Started, p *prompter, ask tipstaff.Ask, conclude func(tipstaff.Run, tipstaff.Driven)) (tipstaff.Driven, error) {
	p.beside(f)
	release := a.attach(s, f)
	leave := attend(ctx, f.svc, s.Run, ask)
	d, err := f.show(ctx, true)
	leave()
	release()
	p.beside(nil)
	if f.speech == nil {
		f.paint()
	}
	if err != nil {
		fmt.Fprintf(a.err, "the run is left to the server; to follow it:\n  %s\n", a.invocation("watch", s.Run.String()))
		return d, err
	}
	run, err := f.svc.Get(context.WithoutCancel(ctx), s.Run)
	if err != nil {
		run = tipstaff.Run{ID: s.Run, State: d.State, HeadSeq: f.last}
	}
	conclude(run, d)
	if d.Err != nil {
		err = d.Err
	}
	return d, err
}

// drive shows a run that was started until it rests, then says where it stands, and
// is its exit code. Records up to shown were there before.
func (a *app) drive(ctx context.Context, svc tipstaff.Service, s *tipstaff.Started, p *prompter, ask tipstaff.Ask, shown int64) error {
	f := a.newFollower(svc, s, s.Program.Name, shown)
	d, err := a.follow(ctx, f, s, p, ask, func(run tipstaff.Run, d tipstaff.Driven) { a.conclude(ctx, svc, run, d) })
	if err != nil {
		return err
	}
	if a.strict && d.Outcome == "partial" {
		return status(exitFailed)
	}
	return status(exitOfDriven(ctx, d))
}

// strictFlag is that of commands that drive a plan to its end.
func (a *app) strictFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.strict, "strict", false, "exit with 1 if the run ends partial: a failure was passed over")
}

// conclude prints where the run stands on standard output, and on standard error
// what brings it on.
func (a *app) conclude(ctx context.Context, svc tipstaff.Service, r tipstaff.Run, d tipstaff.Driven) {
	if a.json {
		a.writeJSON(conclusionOf(r, d))
	} else {
		a.printFields(endFields(r, d)...)
	}
	a.sayNext(ctx, svc, r, d)
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

func conclusionOf(r tipstaff.Run, d tipstaff.Driven) conclusion {
	return conclusion{r.ID, r.State, d.Outcome, d.Reason, r.HeadSeq, r.Head}
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

type resumeOptions struct {
	*app
	detachOptions
	yes, unattended bool
	with, reason    string
}

func newResume(a *app) *cobra.Command {
	o := &resumeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Drive a waiting or interrupted run on, or correct it",
		Long: `Drive a run on from where it stood. What was done is not done again. A call that
must happen only once and was broken off is asked about first.

With --unattended, a run that still waits for its decisions stays as it is, and
the exit code is 4.

With --with, FILE is a revised plan for the run, which goes on with it: what it has
in common with the plan so far is carried over, not done again. A revision that
changes what was accepted must be confirmed first. A run that another process
drives is handed the revision, and goes on there.`,
		Example: `  tipstaff resume @
  tipstaff resume 01JCQ8 --unattended
  tipstaff resume @ --with plan.yaml --reason "the path was wrong"`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "approve the plan's own gates in advance; the record says so")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	cmd.Flags().StringVar(&o.with, "with", "", "a revised plan for the run, as a `file`; - reads it from standard input")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why the plan is revised, for the record: a `text`")
	o.strictFlag(cmd)
	o.hostFlag(cmd)
	o.detachOptions.flags(cmd)
	return cmd
}

func (o *resumeOptions) run(ctx context.Context, ref string) error {
	correction, err := o.correction()
	if err != nil {
		return err
	}
	limit, err := o.limit(o.app)
	if err != nil {
		return err
	}
	svc, id, err := o.openRun(ctx, ref, OpenOptions{MaxRuns: limit})
	if err != nil {
		return err
	}
	before, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	p := o.newPrompter(o.unattended || o.detach || o.with == "-")
	var corrected tipstaff.Corrected
	if correction != nil {
		if err := o.mustTrust(); err != nil {
			return err
		}
		correction.Run = id
		if corrected, err = svc.Correct(ctx, *correction); err != nil {
			return err
		}
	}
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: id, Detach: o.detach, Presence: tipstaff.Presence{Yes: o.yes, Attended: p != nil}})
	if correction != nil && tipstaff.CodeOf(err) == tipstaff.Busy {
		return o.handedIn(corrected)
	}
	if err != nil {
		return err
	}
	if o.detach {
		return o.sayLaunched(ctx, svc, started)
	}
	if correction != nil {
		started.Program, started.Outline = corrected.Program, corrected.Outline
	}
	if before.Turn != nil {
		return o.driveTurn(ctx, svc, &started, p, before)
	}
	return o.drive(ctx, svc, &started, p, p.asker(), before.HeadSeq)
}

// driveTurn shows a turn as chat does.
func (o *resumeOptions) driveTurn(ctx context.Context, svc tipstaff.Service, s *tipstaff.Started, p *prompter, before tipstaff.Run) error {
	c := &conversation{chatOptions: &chatOptions{app: o.app}, svc: svc, prompts: p, ask: p.asker()}
	s.Turn = before.Turn
	d, err := c.follow(ctx, context.Background(), s, before.HeadSeq)
	if err != nil {
		return err
	}
	return status(exitOfDriven(ctx, d))
}

// correction is the revised plan that the command line names; nil: none.
func (o *resumeOptions) correction() (*tipstaff.CorrectRequest, error) {
	switch {
	case o.with == "" && o.reason != "":
		return nil, &usageError{message: "--reason says why a plan is revised, but --with names none"}
	case o.with == "":
		return nil, nil
	case strings.TrimSpace(o.reason) == "":
		return nil, &usageError{message: "--with needs a --reason", hint: "it is signed with the correction: --reason 'the path was wrong'"}
	}
	plan, err := o.source(o.with)
	return &tipstaff.CorrectRequest{Name: plan.Name, Program: plan.Text, Reason: o.reason}, err
}

// handedIn tells of a correction that the process which drives the run takes up.
func (o *resumeOptions) handedIn(c tipstaff.Corrected) error {
	c.Outline = nil
	return o.print(c, func() {
		o.printFields(field{"run", c.Run.String()}, field{"program", programText(c.Program)},
			field{"correction", correctionText(c.Revision, c.Material, c.Reasons)})
		fmt.Fprintf(o.err, "the process that drives the run takes it up; to follow it:\n  %s\n", o.invocation("watch", c.Run.String()))
	})
}

// correctionText says what a correction means for the run.
func correctionText(revision int, material bool, reasons []tipstaff.Reason) string {
	if !material {
		return fmt.Sprintf("revision %d, not material", revision)
	}
	text := fmt.Sprintf("revision %d, material", revision)
	for i, r := range reasons {
		text += tipstaff.Joined(" ", []string{":", ";"}[min(i, 1)], r.Rule+",", r.Detail)
	}
	return text
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type resumeOptions struct {
	*app
	ref        string
	yes        bool
	unattended bool
	with       string
	reason     string
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
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "approve the plan's own gates in advance; the record says so")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	cmd.Flags().StringVar(&o.with, "with", "", "a revised plan for the run, as a `file`; - reads it from standard input")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why the plan is revised, for the record: a `text`")
	o.hostFlag(cmd)
	return cmd
}

func (o *resumeOptions) run(ctx context.Context) error {
	correction, err := o.correction()
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, false)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	before, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	p := o.newPrompter(ctx, o.unattended || o.with == "-")
	var corrected tipstaff.Corrected
	if correction != nil {
		correction.Run = id
		if corrected, err = svc.Correct(ctx, *correction); err != nil {
			return err
		}
	}
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: id, Presence: tipstaff.Presence{Yes: o.yes, Attended: p != nil}})
	if correction != nil && tipstaff.CodeOf(err) == tipstaff.Busy {
		p.close()
		return o.handedIn(corrected)
	}
	if err != nil {
		return err
	}
	if correction != nil {
		started.Program, started.Outline = corrected.Program, corrected.Outline
	}
	return o.drive(ctx, svc, &started, p, p.asker(), before.HeadSeq)
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
	c := &tipstaff.CorrectRequest{Name: o.with, Reason: o.reason}
	if o.with == "-" {
		c.Name = "stdin"
	}
	var err error
	c.Program, err = o.read(o.with)
	return c, err
}

// handedIn tells of a correction that the process which drives the run takes up.
func (o *resumeOptions) handedIn(c tipstaff.Corrected) error {
	if o.json {
		c.Outline = nil
		return o.writeJSON(c)
	}
	o.printFields([]field{{"run", c.Run.String()}, {"program", programText(c.Program)},
		{"correction", correctionText(c.Revision, c.Material, c.Reasons)}})
	fmt.Fprintf(o.err, "the process that drives the run takes it up; to follow it:\n  %s\n", o.invocation("watch", c.Run.String()))
	return nil
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

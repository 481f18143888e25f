package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type resumeOptions struct {
	*app
	ref        string
	yes        bool
	unattended bool
}

func newResume(a *app) *cobra.Command {
	o := &resumeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Drive a waiting or interrupted run on",
		Long: `Drive a run on from where it stood. What was done is not done again. A call that
must happen only once and was broken off is asked about first.

With --unattended, a run that still waits for its decisions stays as it is, and
the exit code is 4.`,
		Example:           "  tipstaff resume @\n  tipstaff resume 01JCQ8 --unattended",
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "approve the plan's own gates in advance; the record says so")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	return cmd
}

func (o *resumeOptions) run(ctx context.Context) error {
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
	p := o.newPrompter(ctx, o.unattended)
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: id, Yes: o.yes, Ask: p.asker()})
	if err != nil {
		return err
	}
	return o.drive(ctx, svc, &started, p, before.HeadSeq)
}

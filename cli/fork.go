package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type forkOptions struct {
	*app
	ref string
	at  string

	// Of pipelines:
	rollback          bool
	thread, label     string
	outputs, metadata []string
	raise             []string

	resume, unattended bool
}

func newFork(a *app) *cobra.Command {
	o := &forkOptions{app: a}
	cmd := &cobra.Command{
		Use:   "fork RUN",
		Short: "Make a new run from the beginning of another, or roll a pipeline back",
		Long: `Make a new run that inherits the records of another up to --at. By default these
are the ones before the effect that made it fail, else all. Nothing is driven:
tipstaff resume does that, or --resume.

A pipeline is forked at a boundary between its turns: a checkpoint, the newest of a
stage, or the last one before a record. Its data is as it was there; its counters
stay as high as they are. With --rollback the new run takes the place of this one,
which ends. With --label nothing is forked: a checkpoint gets a name.`,
		Example: `  tipstaff fork @
  tipstaff fork 01JCQ8 --at 12
  tipstaff fork @ --at stage:critic --rollback --set-output critic='{"verdict":"ok"}' --resume
  tipstaff fork @ --label before-the-review`,
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			switch {
			case cmd.Flags().Changed("at") && o.at == "":
				return &usageError{message: "--at needs a record, a checkpoint or stage:NAME"}
			case cmd.Flags().Changed("label") && o.label == "":
				return &usageError{message: "--label needs a name"}
			case o.unattended && !o.resume:
				return &usageError{message: "--unattended is for --resume"}
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.at, "at", "", "the last record to inherit, by its seq; of a pipeline also a checkpoint or stage:NAME: a `place`")
	cmd.Flags().BoolVar(&o.rollback, "rollback", false, "take the place of the run, which ends")
	cmd.Flags().StringVar(&o.thread, "thread", "", "the `key` of the line of runs that the new run begins")
	cmd.Flags().StringArrayVar(&o.outputs, "set-output", nil, "an output that the new run has instead, as `key=JSON`; may be repeated")
	cmd.Flags().StringArrayVar(&o.metadata, "set-metadata", nil, "metadata that the new run has instead, as `key=JSON`; may be repeated")
	cmd.Flags().StringArrayVar(&o.raise, "raise", nil, "a bound that the new run has instead, as `name=n`; may be repeated")
	cmd.Flags().StringVar(&o.label, "label", "", "make no run: give the newest checkpoint, or that of --at, this `name`")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "drive the new run at once")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "with --resume: ask nobody, park at gates")
	o.hostFlag(cmd)
	return cmd
}

func (o *forkOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, false)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	req, err := o.request(id)
	if err != nil {
		return err
	}
	if o.label != "" {
		return o.giveLabel(ctx, svc, req)
	}
	run, err := o.fork(ctx, svc, req)
	if err != nil {
		return err
	}
	switch {
	case o.resume:
		fmt.Fprintf(o.err, "run %s, %s\n", run.ID, clean(lineageText(run.Lineage)))
		return o.driveOn(ctx, svc, run)
	case o.json:
		return o.writeJSON(filled(run))
	}
	o.printFields([]field{{"run", run.ID.String()}, {"from", lineageText(run.Lineage)}})
	fmt.Fprintf(o.err, "to drive it:\n  %s\n", o.resumeLine(run.ID))
	return nil
}

func (o *forkOptions) fork(ctx context.Context, svc tipstaff.Service, req tipstaff.ForkRequest) (tipstaff.Run, error) {
	if o.rollback {
		return svc.Rollback(ctx, tipstaff.RollbackRequest{Run: req.Run, Place: req.Place, Changes: req.Changes})
	}
	return svc.Fork(ctx, req)
}

// driveOn drives the new run.
func (o *forkOptions) driveOn(ctx context.Context, svc tipstaff.Service, run tipstaff.Run) error {
	p := o.newPrompter(ctx, o.unattended)
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: run.ID, Presence: tipstaff.Presence{Attended: p != nil}})
	if err != nil {
		return err
	}
	return o.drive(ctx, svc, &started, p, p.asker(), run.HeadSeq)
}

// giveLabel gives a checkpoint a name, and shows it.
func (o *forkOptions) giveLabel(ctx context.Context, svc tipstaff.Service, req tipstaff.ForkRequest) error {
	c, err := svc.Label(ctx, tipstaff.LabelRequest{Run: req.Run, Checkpoint: req.Checkpoint, Label: o.label})
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(c)
	}
	o.printFields([]field{{"checkpoint", c.ID}, {"stage", c.Stage}, {"label", o.label}})
	return nil
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type watchOptions struct {
	*app
	ref string
}

func newWatch(a *app) *cobra.Command {
	o := &watchOptions{app: a}
	return &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a run, whoever drives it",
		Long: `Follow a run until it has ended or waits. The exit code is the one its own
process would give: 0 completed, 1 failed, 4 waiting, 5 bound exceeded,
8 cancelled. To stop watching does nothing to the run.`,
		Example:           "  tipstaff watch @",
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
}

func (o *watchOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, true)
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
	f := o.newFollower(svc, &tipstaff.Started{Run: id, Validated: tipstaff.Validated{Outline: unseen(before)}}, nameOf(before), 0)
	if err := f.watch(ctx); err != nil {
		return err
	}
	run, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	o.conclude(run, openBelow(ctx, svc, run), run.Rest())
	return status(exitOfRun(run))
}

// unseen is the outline of a run that this process does not drive: of a pipeline
// that it is one. Its stages appear as they start.
func unseen(r tipstaff.Run) *tipstaff.Outline {
	if r.Program.Kind != tipstaff.ProgramPipeline {
		return nil
	}
	return &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: r.Program.Name}
}

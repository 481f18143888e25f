package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type cancelOptions struct {
	*app
	ref    string
	reason string
}

func newCancel(a *app) *cobra.Command {
	o := &cancelOptions{app: a}
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run for good",
		Long: `End a run for good. A process that drives it is asked to stop and given time to
let calls end that must not be broken off; a run that nobody drives ends at once.`,
		Example:           `  tipstaff cancel @ --reason "wrong branch"`,
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why: `text` for the record")
	return cmd
}

func (o *cancelOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, false)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	run, err := svc.Cancel(ctx, tipstaff.CancelRequest{Run: id, Reason: o.reason})
	if err != nil {
		return err
	}
	if run.State == tipstaff.Completed || run.State == tipstaff.Failed {
		return tipstaff.Errorf(tipstaff.RunEnded, "run %s was not cancelled: it %s first", id, run.State)
	}
	if o.json {
		return o.writeJSON(filled(run))
	}
	if run.State == tipstaff.Cancelled {
		fmt.Fprintf(o.out, "cancelled %s\n", id)
		return nil
	}
	fmt.Fprintf(o.out, "asked %s to cancel; it has not settled yet\n", id)
	fmt.Fprintf(o.err, "to see it end:\n  %s\n", o.invocation("watch", id.String()))
	return nil
}

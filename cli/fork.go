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
	at  int64
}

func newFork(a *app) *cobra.Command {
	o := &forkOptions{app: a}
	cmd := &cobra.Command{
		Use:   "fork RUN",
		Short: "Make a new run from the beginning of another",
		Long: `Make a new run that inherits the records of another up to --at. By default these
are the ones before the effect that made it fail, else all. Nothing is driven:
tipstaff resume does that.`,
		Example:           "  tipstaff fork @\n  tipstaff fork 01JCQ8 --at 12",
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if cmd.Flags().Changed("at") && o.at < 1 {
				return &usageError{message: "--at needs the number of a record", hint: "tipstaff events RUN prints them"}
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Int64Var(&o.at, "at", 0, "the last record to inherit, by its `seq`")
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
	run, err := svc.Fork(ctx, tipstaff.ForkRequest{Run: id, At: o.at})
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(filled(run))
	}
	o.printFields([]field{{"run", run.ID.String()}, {"from", lineageText(run.Lineage)}})
	fmt.Fprintf(o.err, "to drive it:\n  %s\n", o.resumeLine(run.ID))
	return nil
}

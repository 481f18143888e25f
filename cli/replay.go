package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type replayOptions struct {
	*app
	ref string
}

func newReplay(a *app) *cobra.Command {
	o := &replayOptions{app: a}
	return &cobra.Command{
		Use:   "replay RUN|DIR",
		Short: "Run a plan again over its journal alone",
		Long: `Run the plan over the journal alone: nothing is called. Prints, in the journal's
order, the records that the plan asked for, then its outcome. Exit code 7: the
plan asks for something else than what is recorded.`,
		Example:           "  tipstaff replay @",
		Args:              needs("RUN|DIR"),
		ValidArgsFunction: completed(a, completeRunOrDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
}

func (o *replayOptions) run(ctx context.Context) error {
	// A run that has not ended replays too, as far as it got.
	return o.verify(ctx, o.ref, tipstaff.VerifyRequest{Open: true, Replay: true}, o.print)
}

func (o *replayOptions) print(r tipstaff.Report) {
	fmt.Fprintf(o.out, "outcome: %s\n", clean(r.Outcome))
	if !r.Integrity.OK {
		o.printFinding("integrity", r.Integrity)
	}
	if !r.Conformance.OK {
		o.printFinding("conformance", r.Conformance)
	}
}

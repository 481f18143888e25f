package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type exportOptions struct {
	*app
	ref, dir string
}

func newExport(a *app) *cobra.Command {
	o := &exportOptions{app: a}
	return &cobra.Command{
		Use:               "export RUN DIR",
		Short:             "Write a run to a folder that verifies on its own",
		Example:           "  tipstaff export @ ./export\n  tipstaff verify ./export",
		Args:              needs("RUN", "DIR"),
		ValidArgsFunction: completed(a, completeRun, completeDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.dir = args[0], args[1]
			return o.run(cmd.Context())
		},
	}
}

func (o *exportOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, true)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	if err := o.env.Export(ctx, svc, id, o.dir); err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(map[string]string{"run_id": id.String(), "dir": o.dir})
	}
	fmt.Fprintf(o.out, "exported %s to %s\n", id, clean(o.dir))
	return nil
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type doctorOptions struct{ *app }

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{app: a}
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with the workspace, and what to do",
		Long: `Look for what is wrong with this workspace: damaged pages, missing or changed files,
keys that do not fit, rows and blobs that nobody names, permissions, disk space, the
clock, the manifest and the lock. Each finding says how bad it is, what and where it
is, and what to do. Nothing is changed, and a damaged database is read as far as it
goes.

It does not prove what runs did: tipstaff verify RUN does. Exit code 1: something is
wrong.`,
		Example:           "  tipstaff doctor\n  tipstaff doctor --json",
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *doctorOptions) run(ctx context.Context) error {
	found, err := o.env.Doctor(ctx, o.workspaceDir())
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b tipstaff.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) }) // errors first
	for _, d := range found {
		if !o.json {
			fmt.Fprintf(o.out, "%s: %s: %s: %s; remedy: %s\n", d.Severity, d.Code, clean(d.Where), clean(d.Message), clean(d.Remedy))
		} else if err := o.writeJSON(d); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return status(exitFailed)
	}
	if !o.json {
		fmt.Fprintf(o.err, "nothing is wrong with %s\n", clean(o.workspaceDir()))
	}
	return nil
}

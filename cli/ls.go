package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type lsOptions struct{ *app }

func newLs(a *app) *cobra.Command {
	o := &lsOptions{app: a}
	return &cobra.Command{
		Use:               "ls",
		Short:             "List runs, newest first",
		Example:           "  tipstaff ls\n  tipstaff ls --json | head -1",
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *lsOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, true)
	if err != nil {
		return err
	}
	none := true
	err = eachRun(ctx, svc, nil, func(r tipstaff.Run) error {
		none = false
		return o.print(r)
	})
	if err != nil || !none {
		return err
	}
	page, err := svc.List(ctx, tipstaff.ListRequest{Limit: 1})
	switch {
	case page.Strays > 0:
		fmt.Fprintf(o.err, "warning: this store holds no run, but .tipstaff/journal has the signed envelopes of %s: the database was removed or replaced\n"+
			"hint: end all commands and put .tipstaff/tipstaff.db back from a backup; until then, start nothing here\n", plural(page.Strays, "run"))
	case !o.json:
		fmt.Fprintln(o.err, "no runs yet; start one: tipstaff run plan.yaml")
	}
	return err
}

// print keeps a run on one row of a terminal; a pipe gets all of it.
func (o *lsOptions) print(r tipstaff.Run) error {
	if o.json {
		return o.writeJSON(filled(r))
	}
	row := fmt.Sprintf("%s  %s  %s  %s", r.ID, r.CreatedAt.UTC().Format(time.DateTime), pad(clean(r.Status), 12), clean(nameOf(r)))
	if o.env.StdoutTTY {
		width, _ := o.env.size()
		row = fit(row, width)
	}
	_, err := fmt.Fprintln(o.out, row)
	return err
}

// eachRun calls f with every run of the given statuses, newest first.
func eachRun(ctx context.Context, svc tipstaff.Service, statuses []string, f func(tipstaff.Run) error) error {
	req := tipstaff.ListRequest{Status: statuses}
	for {
		page, err := svc.List(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			if err := f(r); err != nil {
				return err
			}
		}
		if page.Next.IsZero() {
			return nil
		}
		req.Before = page.Next
	}
}

// filled has empty lists where a run has none, so that scripts need not ask.
func filled(r tipstaff.Run) tipstaff.Run {
	if r.OpenGates == nil {
		r.OpenGates = []tipstaff.Gate{}
	}
	if r.Bounds == nil {
		r.Bounds = map[string]tipstaff.BoundStatus{}
	}
	return r
}

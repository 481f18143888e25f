package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type eventsOptions struct {
	*app
	ref    string
	after  int64
	follow bool
}

func newEvents(a *app) *cobra.Command {
	o := &eventsOptions{app: a}
	cmd := &cobra.Command{
		Use:               "events RUN",
		Short:             "Print a run's records",
		Long:              "Print a run's records in order. With --json they are the stored bytes, one record a line.",
		Example:           "  tipstaff events @ --after 12 --follow\n  tipstaff events @ --json | jq .kind",
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().Int64Var(&o.after, "after", 0, "only records after this `seq`")
	cmd.Flags().BoolVar(&o.follow, "follow", false, "go on until the run has ended or nobody drives it")
	return cmd
}

func (o *eventsOptions) run(ctx context.Context) error {
	if o.after < 0 {
		return &usageError{message: "--after cannot be negative", hint: "0 is before the first record"}
	}
	svc, err := o.open(ctx, true)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	for ev, err := range svc.Events(ctx, tipstaff.EventsRequest{Run: id, After: o.after, Follow: o.follow}) {
		if err == nil {
			err = o.writeEvent(ev)
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (a *app) writeEvent(ev tipstaff.Event) error {
	switch {
	case a.json:
		return a.writeLine(ev.Stored())
	case ev.Seq == 0: // told, not recorded
		return nil
	}
	_, err := fmt.Fprintln(a.out, recordLine(ev))
	return err
}

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type lsOptions struct {
	*app
	limit   int
	before  string
	status  []string
	thread  string
	threads bool
}

func newLs(a *app) *cobra.Command {
	o := &lsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List runs, newest first",
		Long: `List runs, newest first, a page at a time; what follows a page is said below it.
With --threads, list your threads of pipelines, each with its last run.`,
		Example: `  tipstaff ls
  tipstaff ls --status awaiting_decision --status failed
  tipstaff ls --limit 500 --json
  tipstaff ls --threads`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if flags := given(cmd, "status", "thread"); o.threads && len(flags) > 0 {
				return &usageError{message: "--" + flags[0] + " is for runs, not for --threads"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&o.limit, "limit", 50, "how many")
	cmd.Flags().StringVar(&o.before, "before", "", "only runs that are older than this `run`")
	cmd.Flags().StringArrayVar(&o.status, "status", nil, "only runs of this `status`, as ls prints it; may be given several times")
	cmd.Flags().StringVar(&o.thread, "thread", "", "only the runs of a `thread` of pipelines")
	cmd.Flags().BoolVar(&o.threads, "threads", false, "list threads")
	return cmd
}

func (o *lsOptions) run(ctx context.Context) (err error) {
	var before tipstaff.ID
	if o.before != "" {
		if before, err = tipstaff.ParseID(o.before); err != nil {
			return &usageError{message: "--before: " + err.Error()}
		}
	}
	if o.limit < 1 {
		return &usageError{message: "--limit is at least 1"}
	}
	svc, err := o.open(ctx, toRead)
	if err != nil {
		return err
	}
	if o.threads {
		return o.listThreads(ctx, svc, before)
	}
	page, err := svc.List(ctx, tipstaff.ListRequest{Limit: o.limit, Before: before, Status: o.status, Thread: o.thread})
	if err != nil {
		return err
	}
	for _, r := range page.Runs {
		if err := o.line(r, filled(r), r.Status); err != nil {
			return err
		}
	}
	switch {
	case page.Strays > 0:
		fmt.Fprintf(o.err, "warning: this store holds no run, but .tipstaff/journal has the signed envelopes of %s: the database was removed or replaced\n"+
			"hint: end all commands and put .tipstaff/tipstaff.db back from a backup; until then, start nothing here\n", plural(page.Strays, "run"))
	case len(page.Runs) > 0 || o.json:
	case !before.IsZero() || len(o.status) > 0 || o.thread != "":
		fmt.Fprintln(o.err, "no such runs")
	default:
		fmt.Fprintln(o.err, "no runs yet; start one: tipstaff run plan.yaml")
	}
	o.more(page.Next, "--before")
	return nil
}

func (o *lsOptions) listThreads(ctx context.Context, svc tipstaff.Service, before tipstaff.ID) error {
	page, err := svc.Threads(ctx, tipstaff.ThreadsRequest{Limit: o.limit, Before: before})
	if err != nil {
		return err
	}
	for _, t := range page.Threads {
		t.Head = filled(t.Head)
		if err := o.line(t.Head, t, tipstaff.Joined("  ", clean(t.ID), plural(t.Runs, "run"), t.Head.Status)); err != nil {
			return err
		}
	}
	if len(page.Threads) == 0 && !o.json {
		fmt.Fprintln(o.err, "no threads")
	}
	o.more(page.Next, "--threads", "--before")
	return nil
}

// line is a run in a list.
func (o *lsOptions) line(r tipstaff.Run, v any, status string) error {
	err := o.print(v, func() {
		o.row("%s  %s  %s  %s", r.ID, r.CreatedAt.UTC().Format(time.DateTime), pad(clean(status), 12), tipstaff.Joined("  ", clean(nameOf(r)), turnText(r.Turn)))
	})
	if err == nil {
		err = o.out.failure()
	}
	return err
}

// more says how the next page is listed.
func (o *lsOptions) more(next tipstaff.ID, flags ...string) {
	if next.IsZero() {
		return
	}
	words := []string{"ls"}
	if o.limit != 50 {
		words = append(words, "--limit", fmt.Sprint(o.limit))
	}
	for _, s := range o.status {
		words = append(words, "--status", s)
	}
	if o.thread != "" {
		words = append(words, "--thread", o.thread)
	}
	fmt.Fprintf(o.err, "more: %s\n", o.invocation(append(append(words, flags...), next.String())...))
}

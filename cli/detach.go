package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// detachOptions are those of commands that can leave a run to a process of its own.
type detachOptions struct {
	detach  bool
	maxRuns string
}

func (o *detachOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.detach, "detach", false, "leave the run to a process of its own, and return at once")
	cmd.Flags().StringVar(&o.maxRuns, "max-runs", "", "with --detach: refuse if `n` runs have a process of their own already (default $TIPSTAFF_MAX_RUNS, else 4)")
}

// limit is how many runs may have a process of their own, checked before anything is opened.
// What somebody has to wait for does not go with --detach.
func (o *detachOptions) limit(a *app, waits ...string) (int, error) {
	switch {
	case !o.detach && o.maxRuns != "":
		return 0, &usageError{message: "--max-runs goes with --detach"}
	case !o.detach:
		return 0, nil
	case a.server != "" && o.maxRuns != "":
		return 0, a.notAtServer("max-runs")
	case len(a.hosts) > 0:
		waits = append(waits, "host")
	case a.strict:
		waits = append(waits, "strict")
	}
	if len(waits) > 0 {
		return 0, &usageError{message: fmt.Sprintf("--%s needs somebody who waits for the run, and --detach does not", waits[0])}
	}
	return MaxRuns(o.maxRuns, a.env.getenv)
}

// MaxRuns is how many runs may have a process of their own, by the flag --max-runs or the
// environment; 0: nobody has said.
func MaxRuns(flag string, getenv func(string) string) (int, error) {
	text, from := flag, "--max-runs"
	if text == "" {
		text, from = getenv("TIPSTAFF_MAX_RUNS"), "TIPSTAFF_MAX_RUNS"
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, tipstaff.Errorf(tipstaff.InvalidArgument, "%s %q is not a number above 0", from, text)
	}
	return n, nil
}

// launched is what `--detach --json` prints.
type launched struct {
	Run tipstaff.ID `json:"run_id"`
	*tipstaff.Launched
}

// sayLaunched says which process a run was left to. One that waits for decisions was left
// to none.
func (a *app) sayLaunched(ctx context.Context, svc tipstaff.Service, s tipstaff.Started) error {
	if s.Launched == nil {
		run, err := svc.Get(ctx, s.Run)
		if err != nil {
			return err
		}
		d := run.Rest()
		a.conclude(ctx, svc, run, d)
		return status(exitOfDriven(ctx, d))
	}
	err := a.print(launched{s.Run, s.Launched}, func() {
		a.printFields(field{"run", s.Run.String()}, field{"process", fmt.Sprint(s.Launched.Pid)}, field{"log", filepath.Join(s.Launched.Dir, "runner.log")})
	})
	if err == nil && !a.json {
		fmt.Fprintf(a.err, "to follow it:\n  %s\n", a.invocation("watch", s.Run.String()))
	}
	return err
}

// newExec is the command of the process that drives a run of its own. People do not use it.
func newExec(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "exec RUN",
		Short:  "Drive the run that this process was launched for",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return a.execute(cmd.Context(), args[0]) },
	}
	a.skillsFlag(cmd)
	return cmd
}

func (a *app) execute(ctx context.Context, ref string) error {
	token := a.env.getenv("TIPSTAFF_LAUNCH")
	if token == "" {
		return &usageError{message: "exec drives a run that was launched, and there is no token of a launch", hint: "use tipstaff resume RUN, or tipstaff resume RUN --detach"}
	}
	id, err := tipstaff.ParseID(ref)
	if err != nil {
		return &usageError{message: err.Error()}
	}
	svc, err := a.open(ctx, OpenOptions{Execute: ref, Launch: token})
	if err != nil {
		return err
	}
	before, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: id})
	if err == nil {
		err = a.drive(ctx, svc, &started, nil, nil, before.HeadSeq)
	}
	// Whoever has cancelled the run may have ended it, too.
	if code := tipstaff.CodeOf(err); code == tipstaff.LeaseLost || code == tipstaff.RunEnded {
		if run, gerr := svc.Get(context.WithoutCancel(ctx), id); gerr == nil && run.State == tipstaff.Cancelled {
			a.report(err)
			return status(exitCancelled)
		}
	}
	return err
}

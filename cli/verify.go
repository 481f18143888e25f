package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newVerify(a *app) *cobra.Command {
	var (
		req    tipstaff.VerifyRequest
		memory bool
	)
	cmd := &cobra.Command{
		Use:   "verify [RUN|DIR]",
		Short: "Prove what a run did, and that it kept to its plan",
		Long: `Check a run of this workspace, or a folder made by tipstaff export. Integrity:
no record was changed, removed, moved or forged. Conformance: the plan, replayed,
takes exactly the recorded steps.

With --anchor the journal must also pass through what that file says of the run: so
a run that was cut short, or written anew with the real keys, is found too.

With --memory the workspace's memory is checked as well, or alone if no run is
named: its log is whole, and what is in use follows from it.

What looks like a run's id is one; write ./NAME for a folder of such a name.
Exit code 6: integrity is broken. 7: the run does not conform.`,
		Example: `  tipstaff verify @
  tipstaff verify ./export --key alice.pub
  tipstaff verify --memory`,
		Args: func(cmd *cobra.Command, args []string) error {
			if memory && len(args) == 0 {
				return nil
			}
			return needs("RUN|DIR")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if memory && a.server != "" && (len(args) == 0 || looksLikeRun(args[0])) { // a folder is verified here
				return &usageError{message: "--memory checks the memory of a local workspace; the runs are at " + a.server}
			}
			if len(args) == 0 {
				return a.rebuildMemory(ctx, true)
			}
			var err error
			if req.Keys, err = keyFiles(req.Keys); err != nil {
				return err
			}
			err = a.verify(ctx, args[0], req, a.printReport)
			if memory && reported(err) {
				err = graver(err, a.rebuildMemory(ctx, true))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&req.Open, "open", false, "do not report that the run has not ended")
	cmd.Flags().StringArrayVar(&req.Keys, "key", nil, "trust only this public key: a .pub `file` or a folder of them; may be repeated")
	cmd.Flags().StringArrayVar(&req.Admins, "admin", nil, "`user` whose token could act in the runs of others (default: those of tipstaff.yaml); may be repeated")
	cmd.Flags().StringVar(&req.Anchor, "anchor", "", "compare the run with this anchor `file`")
	cmd.Flags().BoolVar(&memory, "memory", false, "check the workspace's memory too")
	return cmd
}

// reported tells that a check has said what it found, whatever that was.
func reported(err error) bool {
	var st exitStatus
	return err == nil || errors.As(err, &st)
}

// graver is the finding of two checks that the exit code tells: broken integrity
// goes before a run that does not conform.
func graver(run, memory error) error {
	if memory != nil && (run == nil || !reported(memory) || errors.Is(memory, exitStatus(exitIntegrity))) {
		return memory
	}
	return run
}

func newReplay(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "replay RUN|DIR",
		Short: "Run a plan again over its journal alone",
		Long: `Run the plan over the journal alone: nothing is called. Prints, in the journal's
order, the records that the plan asked for, then its outcome. Exit code 7: the
plan asks for something else than what is recorded.`,
		Example: "  tipstaff replay @",
		RunE: func(cmd *cobra.Command, args []string) error {
			// A run that has not ended replays too, as far as it got.
			return a.verify(cmd.Context(), args[0], tipstaff.VerifyRequest{Open: true, Replay: true}, func(r tipstaff.Report) {
				fmt.Fprintf(a.out, "outcome: %s\n", clean(r.Outcome))
				if !r.Integrity.OK {
					a.printFinding("integrity", r.Integrity)
				}
				if !r.Conformance.OK {
					a.printFinding("conformance", r.Conformance)
				}
			})
		},
	}
}

// verify asks for the report of a run, or of an exported one, and shows it.
func (a *app) verify(ctx context.Context, ref string, req tipstaff.VerifyRequest, text func(tipstaff.Report)) error {
	if !looksLikeRun(ref) {
		a.server = "" // a folder lies on this machine
	}
	svc, err := a.open(ctx, toRead)
	if err != nil {
		return err
	}
	if req.Run, req.Dir, err = resolveOrDir(ctx, svc, ref); err != nil {
		return err
	}
	if a.server != "" && (req.Anchor != "" || len(req.Keys) > 0) {
		return &usageError{message: "keys and anchors lie on this machine, and the run at the server", hint: "tipstaff export writes the run to a folder, which verify checks here"}
	}
	report, err := svc.Verify(ctx, req)
	if err != nil {
		return err
	}
	for _, ev := range report.Replayed {
		_ = a.writeEvent(ev) // a.out keeps the error
	}
	report.Replayed = nil
	if err := a.print(report, func() { text(report) }); err != nil {
		return err
	}
	return status(exitOfReport(report))
}

func (a *app) printReport(r tipstaff.Report) {
	a.printFields(
		field{"run", r.Run.String()},
		field{"records", fmt.Sprintf("%d, %d of them signed", r.Seq, r.Envelopes)},
		field{"head", r.Head},
		field{"state", string(r.State)},
		field{"lifecycle", r.Lifecycle},
	)
	a.printFinding("integrity", r.Integrity)
	a.printFinding("conformance", r.Conformance)
}

func (a *app) printFinding(name string, f tipstaff.Finding) {
	if f.OK {
		fmt.Fprintf(a.out, "%s: ok\n", name)
		return
	}
	total := max(f.Total, len(f.Problems))
	fmt.Fprintf(a.out, "%s: %s\n", name, plural(total, "problem"))
	for _, p := range f.Problems {
		fmt.Fprintf(a.out, "  %s\n", clean(p.String()))
	}
	if hidden := total - len(f.Problems); hidden > 0 && len(f.Problems) > 0 {
		fmt.Fprintf(a.out, "  and %d more\n", hidden)
	}
}

func newExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "export RUN DIR",
		Short:   "Write a run to a folder that verifies on its own",
		Example: "  tipstaff export @ ./export\n  tipstaff verify ./export",
		RunE: func(cmd *cobra.Command, args []string) error {
			svc, id, err := a.openRun(cmd.Context(), args[0], toRead)
			if err != nil {
				return err
			}
			if err := a.env.Export(cmd.Context(), svc, id, args[1]); err != nil {
				return err
			}
			return a.print(map[string]string{"run_id": id.String(), "dir": args[1]}, func() {
				fmt.Fprintf(a.out, "exported %s to %s\n", id, clean(args[1]))
			})
		},
	}
}

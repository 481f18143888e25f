package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type verifyOptions struct {
	*app
	ref      string
	unended  bool
	keyNames []string
	admins   []string
	memory   bool
	anchor   string
}

func newVerify(a *app) *cobra.Command {
	o := &verifyOptions{app: a}
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
			if o.memory && len(args) == 0 {
				return nil
			}
			return needs("RUN|DIR")(cmd, args)
		},
		ValidArgsFunction: completed(a, completeRunOrDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return o.runMemory(cmd.Context())
			}
			o.ref = args[0]
			err := o.run(cmd.Context())
			if o.memory && reported(err) {
				err = graver(err, o.runMemory(cmd.Context()))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&o.unended, "open", false, "a run that has not ended is no fault")
	cmd.Flags().StringArrayVar(&o.keyNames, "key", nil, "trust only this public key: a .pub `file` or a folder of them; may be repeated")
	cmd.Flags().StringArrayVar(&o.admins, "admin", nil, "`user` whose token could act in the runs of others (default: those of tipstaff.yaml); may be repeated")
	cmd.Flags().StringVar(&o.anchor, "anchor", "", "compare the run with this anchor `file`")
	cmd.Flags().BoolVar(&o.memory, "memory", false, "check the workspace's memory too")
	return cmd
}

// runMemory changes nothing.
func (o *verifyOptions) runMemory(ctx context.Context) error {
	m, err := o.openMemory(ctx, true)
	if err != nil {
		return err
	}
	report, err := m.Rebuild(ctx, true)
	if err != nil {
		return err
	}
	return o.reportMemory(report)
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

func (o *verifyOptions) run(ctx context.Context) error {
	keys, err := keyFiles(o.keyNames)
	if err != nil {
		return err
	}
	return o.verify(ctx, o.ref, tipstaff.VerifyRequest{Open: o.unended, Keys: keys, Admins: o.admins, Anchor: o.anchor}, o.printReport)
}

// verify asks for the report of a run, or of an exported one, and shows it.
func (a *app) verify(ctx context.Context, ref string, req tipstaff.VerifyRequest, print func(tipstaff.Report)) error {
	if !looksLikeRun(ref) {
		a.server = "" // a folder lies on this machine
	}
	svc, err := a.open(ctx, true)
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
	if a.json {
		err = a.writeJSON(report)
	} else {
		print(report)
	}
	if err != nil {
		return err
	}
	return status(exitOfReport(report))
}

func (a *app) printReport(r tipstaff.Report) {
	a.printFields([]field{
		{"run", r.Run.String()},
		{"records", fmt.Sprintf("%d, %d of them signed", r.Seq, r.Envelopes)},
		{"head", r.Head},
		{"state", string(r.State)},
		{"lifecycle", r.Lifecycle},
	})
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
		fmt.Fprintf(a.out, "  %s\n", problemLine(p))
	}
	if hidden := total - len(f.Problems); hidden > 0 && len(f.Problems) > 0 {
		fmt.Fprintf(a.out, "  and %d more\n", hidden)
	}
}

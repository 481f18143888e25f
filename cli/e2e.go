package cli

import (
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// EndToEndOptions say how the product is tried.
type EndToEndOptions struct {
	Workspace string // whose models are used, if Live
	Live      bool
	Sabotage  bool
}

// EndToEndReport is what a trial of the product has found. As JSON it has all of it.
type EndToEndReport interface {
	OK() bool
	Text(io.Writer)
}

func newE2E(a *app) *cobra.Command {
	var (
		o    EndToEndOptions
		file string
	)
	cmd := &cobra.Command{
		Use:   "e2e",
		Short: "Prove this build on this machine, from a wish to a signed end",
		Long: `Make three whole runs in a temporary folder, without a network: a wish, a question,
a plan of six tool calls on three MCP servers, two corrections, an attested end. Then
hold what they left behind against what must be there: 75 assertions, of which none is
computed by the code under test. Nothing of the workspace is touched.

With --sabotage each of the 29 definitions is also shown evidence with a fault in it,
and must fail. With --live the model of the workspace's agent "default" does two of the
runs, and the third repeats what it said.

Exit code 1: an assertion failed, or passed although its evidence was spoiled.`,
		Example: "  tipstaff e2e\n  tipstaff e2e --sabotage --report report.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report io.Writer = io.Discard
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return &usageError{message: "the report cannot be written: " + err.Error()}
				}
				defer f.Close()
				report = f
			}
			o.Workspace = a.workspaceDir()
			r, err := a.env.EndToEnd(cmd.Context(), o)
			if err != nil {
				return err
			}
			indented := json.NewEncoder(report)
			indented.SetIndent("", "  ")
			if err := indented.Encode(r); err != nil {
				return err
			}
			if err := a.print(r, func() { r.Text(a.out) }); err != nil {
				return err
			}
			if !r.OK() {
				return status(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.Live, "live", false, "have the workspace's own model do runs A and C: it costs what the model costs")
	cmd.Flags().BoolVar(&o.Sabotage, "sabotage", false, "also show that each definition fails under a fault of its own")
	cmd.Flags().StringVar(&file, "report", "", "write all of it as JSON to this `file`")
	_ = cmd.MarkFlagFilename("report") // fails only for a flag that is not there
	return cmd
}

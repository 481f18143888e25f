package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type toolsVerifyOptions struct {
	*app
	offline bool
}

func newToolsVerify(a *app) *cobra.Command {
	o := &toolsVerifyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the declared tools can be called",
		Long: `Check the manifest, the variables it refers to, packages and tipstaff.lock; then
start or connect to every server and compare what it lists with the lock. Tools that
are not declared are noted; declared ones that are missing, unlocked or changed are
errors.

Exit code 3: there are errors. 2: the manifest is not valid.`,
		Example: `  tipstaff tools verify
  tipstaff tools verify --offline`,
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&o.offline, "offline", false, "start and connect to nothing")
	return cmd
}

func (o *toolsVerifyOptions) run(ctx context.Context) error {
	tools, err := o.tools()
	if err != nil {
		return err
	}
	r, err := tools.Verify(ctx, o.offline)
	if err != nil {
		return err
	}
	if o.json {
		err = o.writeJSON(r)
	} else {
		o.print(r)
	}
	if err == nil && !r.OK {
		return status(exitRefused)
	}
	return err
}

func (o *toolsVerifyOptions) print(r tipstaff.ToolReport) {
	for _, s := range r.Servers {
		fmt.Fprintf(o.out, "%s  %s  %d of %s usable\n", clean(s.Server), orDash(clean(s.Version)), s.Usable, plural(s.Tools, "tool"))
	}
	printFindings(o.out, r.Findings, o.env.colored(o.env.StdoutTTY))
	if r.OK {
		fmt.Fprintln(o.out, "ok")
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

var levelColors = map[string]color{tipstaff.FindingError: red, tipstaff.FindingWarning: yellow, tipstaff.FindingNote: dim}

func printFindings(w io.Writer, findings []tipstaff.ToolFinding, colored bool) {
	for _, f := range findings {
		l := line{say(levelColors[f.Level], f.Level+": "), say(plain, tipstaff.Joined(": ", f.Code, f.Message))}
		fmt.Fprintln(w, l.text(colored))
		for _, c := range f.Changes {
			for _, l := range changeLines(c) {
				fmt.Fprintln(w, l.text(colored))
			}
		}
	}
}

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type versionOptions struct{ *app }

func newVersion(a *app) *cobra.Command {
	o := &versionOptions{app: a}
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "  tipstaff version",
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(*cobra.Command, []string) error { return o.run() },
	}
}

func (o *versionOptions) run() error {
	v := o.env.Version
	if o.json {
		return o.writeJSON(v)
	}
	_, err := fmt.Fprintln(o.out, tipstaff.Joined(" ", "tipstaff", v.Version, v.Commit, v.Go))
	return err
}

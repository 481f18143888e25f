package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

type backupOptions struct {
	*app
	dest string
}

func newBackup(a *app) *cobra.Command {
	o := &backupOptions{app: a}
	return &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy the store to a new folder, also while runs go on",
		Long: `Copy the runs of this workspace, with their payloads and the keys, to a new folder
that is a workspace of its own: ls, verify and resume work there with --workspace.
The copy is of one moment, also while other processes write; a copy made by other
means (cp, rsync) need not be one. Runs that are under way are interrupted in it.

Beside the store it holds tipstaff.yaml and tipstaff.lock, and no other files of
the workspace. It holds the private keys: keep it as safe as the workspace.`,
		Example:           "  tipstaff backup ../backups/monday\n  tipstaff ls --workspace ../backups/monday",
		Args:              needs("DEST"),
		ValidArgsFunction: completed(a, completeDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dest = args[0]
			return o.run(cmd.Context())
		},
	}
}

func (o *backupOptions) run(ctx context.Context) error {
	made, err := o.env.Backup(ctx, o.workspaceDir(), o.dest)
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(made)
	}
	fmt.Fprintf(o.out, "copied %s with %s, %s, the keys%s to %s\n", plural(int(made.Runs), "run"), plural(int(made.Records), "record"),
		plural(made.Blobs, "blob"), strings.Join(append([]string{""}, made.Files...), ", "), clean(made.Dir))
	if made.Missing > 0 {
		fmt.Fprintf(o.err, "%s missing in the workspace and in the copy: tipstaff doctor says which\n", plural(made.Missing, "blob"))
	}
	fmt.Fprintln(o.err, "it holds the private keys: keep it as safe as the workspace")
	return nil
}

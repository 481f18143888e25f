package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newStore(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Where runs are kept",
	}
	cmd.AddCommand(newStoreCopy(a))
	return cmd
}

func newStoreCopy(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy all runs from a folder to a database, or back",
		Long: `Copy everything that a store holds to another that holds nothing: runs with their
records and payloads, gates, tasks, sessions and the memory. FROM and TO are each the
folder of a workspace, its .tipstaff, or the address of a Postgres database, like
postgres://user@host/name.

It is copied as of one moment, and only if nobody drives a run of FROM. Every record of
the copy is read back and checked before it counts: a copy that fails or is killed leaves
no store. FROM stays as it is.

Keys stay in files. A copy of a folder goes on with the keys of that folder. For a
database they are looked for where the copy will be, then in the workspace, and
copied to a folder that does not have them.`,
		Example: `  tipstaff store copy . postgres://tipstaff@db.example/tipstaff
  tipstaff store copy postgres://tipstaff@db.example/tipstaff ../restored`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.store != "" {
				return &usageError{message: "store copy is told both stores by its arguments; --store does not apply"}
			}
			made, err := a.env.CopyStore(cmd.Context(), OpenOptions{Workspace: a.workspaceDir(), Blobs: a.blobsAddress()}, args[0], args[1])
			if err != nil {
				return err
			}
			return a.print(made, func() {
				fmt.Fprintf(a.out, "copied %s with %s, %s, %s and %s of memory from %s to %s: every hash agrees\n", plural(int(made.Runs), "run"), plural(int(made.Records), "record"),
					plural(int(made.Blobs), "blob"), plural(int(made.Tasks), "task"), plural(int(made.Memory), "record"), clean(made.From), clean(made.To))
				if made.Missing > 0 {
					fmt.Fprintf(a.err, "%s: missing in the source, and so in the copy\n", plural(int(made.Missing), "blob"))
				}
				fmt.Fprintf(a.err, "the copy uses the keys in %s: keep them safe; every machine that uses the copy needs them\n", clean(made.Keys))
				fmt.Fprintf(a.err, "the runs are now in both stores: resume them in only one of the two, or calls that must happen once happen twice\n")
			})
		},
	}
}

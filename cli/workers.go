package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newWorkers(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List and check workers",
		Long: `A worker is an AI CLI, such as Claude Code or Codex, that works by itself on a task,
inside bounds. tipstaff.yaml configures workers and binds roles to them; without it
each type of CLI is a worker of that name.`,
		Example: "  tipstaff workers list\n  tipstaff workers check claude",
	}
	cmd.AddCommand(newWorkersList(a), newWorkersCheck(a))
	return cmd
}

func newWorkersList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List workers, and the roles that are bound to them",
		Example: "  tipstaff workers list\n  tipstaff workers list --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.env.ListWorkers(cmd.Context(), a.workspaceDir())
			if err != nil {
				return err
			}
			return printTable(a, list, "NAME\tTYPE\tBINARY\tVERSION\tPOSTURE\tSET IN\tROLES", func(w tipstaff.WorkerInfo) string {
				return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", clean(w.Name), w.Type, clean(cmp.Or(w.Binary, w.Command+" (not found)")),
					clean(shownVersion(w)), w.Posture, w.Set, clean(boundRoles(w.Roles)))
			})
		},
	}
}

// shownVersion is the version of a worker's CLI, or why nobody asked for it.
func shownVersion(w tipstaff.WorkerInfo) string {
	if w.Trouble == tipstaff.WorkerNotLookedAt {
		return w.Trouble
	}
	return cmp.Or(w.Version, "-")
}

// boundRoles are roles with where they were bound, those of one place together.
func boundRoles(roles []tipstaff.WorkerRole) string {
	var parts []string
	for len(roles) > 0 {
		set := roles[0].Set
		var names []string
		for _, r := range roles {
			if r.Set == set {
				names = append(names, r.Name)
			}
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), set))
		roles = slices.DeleteFunc(slices.Clone(roles), func(r tipstaff.WorkerRole) bool { return r.Set == set })
	}
	return cmp.Or(strings.Join(parts, "; "), "-")
}

func newWorkersCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Say whether workers can run, and how",
		Long: `Run the CLIs of workers with --version and --help, and say how they would be used:
by which rows of the table of command lines, what they ask before they act, what of
the policy they cannot be told, and which limits hold only at the end of a turn.

Exit code 3: a worker that a role is bound to cannot run.`,
		Example: "  tipstaff workers check\n  tipstaff workers check claude codex --json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := a.env.CheckWorkers(cmd.Context(), a.workspaceDir(), args)
			if err != nil {
				return err
			}
			code := exitDone
			for i, w := range list {
				if w.Trouble != "" && w.Bound() {
					code = exitRefused
				}
				err := a.print(w, func() {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					a.printFields(checkFields(w)...)
				})
				if err != nil {
					return err
				}
			}
			return status(code)
		},
	}
}

func checkFields(w tipstaff.WorkerCheck) []field {
	state := "can run"
	if w.Trouble != "" {
		state = tipstaff.Joined(": ", "cannot run", string(w.Code), w.Trouble)
	}
	source := w.Source
	if source == "documented" {
		source = "documented: from the vendor's documentation, never tried with the CLI itself"
	}
	resume := "no"
	if w.Resume {
		resume = "yes"
	}
	fields := []field{
		{"worker", w.Name}, {"type", w.Type}, {"state", state}, {"binary", cmp.Or(w.Binary, w.Command+" (not found)")}, {"version", w.Version},
		{"family", w.Family}, {"source", source}, {"posture", w.Posture}, {"roles", boundRoles(w.Roles)}, {"resume", resume},
		{"session ids", w.SessionFrom}, {"permission", w.Permission}, {"containment", w.Containment}, {"credentials", cmp.Or(strings.Join(w.Credentials, ", "), "none in the environment")},
	}
	for _, flag := range w.Missing {
		fields = append(fields, field{"missing flag", flag})
	}
	for _, rule := range w.Inexpressible {
		fields = append(fields, field{"not expressible", rule})
	}
	if len(w.EndLimits) > 0 {
		fields = append(fields, field{"at the end of a turn only", strings.Join(w.EndLimits, ", ")})
	}
	for _, warning := range w.Warnings {
		fields = append(fields, field{"warning", warning})
	}
	return fields
}

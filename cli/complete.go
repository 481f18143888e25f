package cli

import (
	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// completion offers the values of one argument, given the ones before it.
type completion func(a *app, cmd *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective)

// completed completes arguments by position. Completion never complains: where
// nothing can be found out, nothing is offered.
func completed(a *app, by ...completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(before) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return by[len(before)](a, cmd, before, typed)
	}
}

func completeFile(*app, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func completeDir(*app, *cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeRun(a *app, cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	svc, err := a.open(cmd.Context(), true)
	if err != nil || typed != "" && !looksLikeRun(typed) || typed == "@" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	page, err := svc.List(cmd.Context(), tipstaff.ListRequest{Prefix: typed})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, r := range page.Runs {
		ids = append(ids, cobra.CompletionWithDesc(r.ID.String(), clean(r.Status+" "+nameOf(r))))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeRunOrDir is for RUN|DIR: folders where no run fits.
func completeRunOrDir(a *app, cmd *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective) {
	if ids, directive := completeRun(a, cmd, before, typed); len(ids) > 0 {
		return ids, directive
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeGate(a *app, cmd *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
	var keys []string
	for _, g := range a.openGates(cmd, before[0]) {
		keys = append(keys, cobra.CompletionWithDesc(g.Key, clean(g.Question)))
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

func completeAction(a *app, cmd *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
	for _, g := range a.openGates(cmd, before[0]) {
		if g.Key == before[1] || g.ID.String() == before[1] {
			return g.Actions, cobra.ShellCompDirectiveNoFileComp
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) openGates(cmd *cobra.Command, ref string) []tipstaff.Gate {
	svc, err := a.open(cmd.Context(), true)
	if err != nil {
		return nil
	}
	id, err := resolve(cmd.Context(), svc, ref)
	if err != nil {
		return nil
	}
	run, err := svc.Get(cmd.Context(), id)
	if err != nil {
		return nil
	}
	return run.OpenGates
}

package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

const idLength = 26

// resolve finds the run that RUN names: an id, a unique prefix, or @ for the
// newest. A whole id is not looked up: what is done with it says whether it
// exists.
func resolve(ctx context.Context, svc tipstaff.Service, ref string) (tipstaff.ID, error) {
	switch {
	case ref == "@":
		return newest(ctx, svc)
	case len(ref) == idLength:
		id, err := tipstaff.ParseID(ref)
		if err == nil && id.IsZero() { // to a Service the zero id is none at all
			err = namesNoRun(ref)
		}
		return id, err
	case !looksLikeRun(ref):
		return tipstaff.ID{}, namesNoRun(ref)
	}
	return byPrefix(ctx, svc, ref)
}

func namesNoRun(ref string) error {
	return tipstaff.Errorf(tipstaff.InvalidArgument, "%q names no run", ref).
		WithHint("give an id, the beginning of one (upper case), or @ for the newest run")
}

// newest is the last run that somebody started. One that another run has started
// belongs to that.
func newest(ctx context.Context, svc tipstaff.Service) (tipstaff.ID, error) {
	for r, err := range allRuns(ctx, svc, nil) {
		if err != nil || r.Lineage == nil || r.Lineage.Relation != dispatched {
			return r.ID, err
		}
	}
	return tipstaff.ID{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run yet").WithHint("start one: tipstaff run plan.yaml")
}

// allRuns are the runs of the given statuses, newest first. It ends with an error.
func allRuns(ctx context.Context, svc tipstaff.Service, statuses []string) iter.Seq2[tipstaff.Run, error] {
	return func(yield func(tipstaff.Run, error) bool) {
		req := tipstaff.ListRequest{Status: statuses}
		for {
			page, err := svc.List(ctx, req)
			if err != nil {
				yield(tipstaff.Run{}, err)
				return
			}
			for _, r := range page.Runs {
				if !yield(r, nil) {
					return
				}
			}
			if page.Next.IsZero() {
				return
			}
			req.Before = page.Next
		}
	}
}

// dispatched is the relation of a run to the one that started it.
const dispatched = "dispatch"

func byPrefix(ctx context.Context, svc tipstaff.Service, prefix string) (tipstaff.ID, error) {
	page, err := svc.List(ctx, tipstaff.ListRequest{Prefix: prefix, Limit: 4})
	if err != nil {
		return tipstaff.ID{}, err
	}
	switch len(page.Runs) {
	case 0:
		return tipstaff.ID{}, tipstaff.Errorf(tipstaff.RunNotFound, "no run begins with %s", prefix).
			WithHint("tipstaff ls lists the runs")
	case 1:
		return page.Runs[0].ID, nil
	}
	var ids []string
	for _, r := range page.Runs {
		ids = append(ids, r.ID.String())
	}
	return tipstaff.ID{}, tipstaff.Errorf(tipstaff.InvalidArgument, "more than one run begins with %s", prefix).
		WithHint("give more of the id, for example %s", strings.Join(ids, " or "))
}

// looksLikeRun reports whether s can be (the beginning of) an id, or is @.
func looksLikeRun(s string) bool {
	if s == "@" {
		return true
	}
	if s == "" || len(s) > idLength || s[0] > '7' {
		return false
	}
	for i := range len(s) {
		if !strings.ContainsRune("0123456789ABCDEFGHJKMNPQRSTVWXYZ", rune(s[i])) {
			return false
		}
	}
	return true
}

// resolveOrDir finds the run, or the exported folder, that RUN|DIR names. What
// looks like a run is one; a folder of such a name is written ./NAME.
func resolveOrDir(ctx context.Context, svc tipstaff.Service, ref string) (tipstaff.ID, string, error) {
	if looksLikeRun(ref) {
		id, err := resolve(ctx, svc, ref)
		return id, "", err
	}
	info, err := os.Stat(ref)
	if err != nil || !info.IsDir() {
		return tipstaff.ID{}, "", tipstaff.Errorf(tipstaff.InvalidArgument, "%q is neither a run nor a folder", ref).
			WithHint("give an id, the beginning of one, @ for the newest run, or a folder made by tipstaff export")
	}
	dir, err := filepath.Abs(ref)
	return tipstaff.ID{}, dir, err
}

// keyFiles checks that the files of --key are there, and makes their names
// independent of the folder in which they are read.
func keyFiles(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			return nil, &usageError{message: fmt.Sprintf("--key: %v", err), hint: "give a .pub file, or a folder of them"}
		}
		file, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// completion offers the values of one argument, given the ones before it. It never
// complains: where nothing can be found out, nothing is offered.
type completion func(a *app, ctx context.Context, before []string, typed string) []string

// completions are by the names that use lines have for arguments, and so are those by
// files, where nothing else fits.
var (
	completions = map[string]completion{
		"RUN": (*app).completeRun, "RUN|DIR": (*app).completeRun, "GATE": (*app).completeGate, "ACTION": (*app).completeAction,
		"ITEM": (*app).completeItem, "ID": (*app).completeTask, "VERDICT": completeVerdict, "TYPE": completeType, "URI": completeTools(shownName), "SERVER/TOOL": completeTools(tipstaff.ToolInfo.Name),
	}
	fileCompletions = map[string]cobra.ShellCompDirective{
		"DIR": cobra.ShellCompDirectiveFilterDirs, "DEST": cobra.ShellCompDirectiveFilterDirs, "RUN|DIR": cobra.ShellCompDirectiveFilterDirs,
		"FILE": cobra.ShellCompDirectiveDefault, "OLD": cobra.ShellCompDirectiveDefault, "NEW": cobra.ShellCompDirectiveDefault,
	}
)

func (a *app) completeRun(ctx context.Context, _ []string, typed string) (ids []string) {
	svc, err := a.open(ctx, toRead)
	if err != nil || typed != "" && !looksLikeRun(typed) || typed == "@" {
		return nil
	}
	page, _ := svc.List(ctx, tipstaff.ListRequest{Prefix: typed})
	for _, r := range page.Runs {
		ids = append(ids, cobra.CompletionWithDesc(r.ID.String(), clean(r.Status+" "+nameOf(r))))
	}
	return ids
}

func (a *app) completeGate(ctx context.Context, before []string, _ string) (keys []string) {
	for _, g := range a.openGates(ctx, before[0]) {
		keys = append(keys, cobra.CompletionWithDesc(g.Key, clean(g.Question)))
	}
	return keys
}

func (a *app) completeAction(ctx context.Context, before []string, _ string) []string {
	for _, g := range a.openGates(ctx, before[0]) {
		if g.Key == before[1] || g.ID.String() == before[1] {
			return g.Available()
		}
	}
	return nil
}

func (a *app) openGates(ctx context.Context, ref string) []tipstaff.Gate {
	svc, id, err := a.openRun(ctx, ref, toRead)
	if err != nil {
		return nil
	}
	run, _ := svc.Get(ctx, id)
	return run.OpenGates
}

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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
	var req tipstaff.ListRequest
	for {
		page, err := svc.List(ctx, req)
		if err != nil {
			return tipstaff.ID{}, err
		}
		for _, r := range page.Runs {
			if r.Lineage == nil || r.Lineage.Relation != dispatched {
				return r.ID, nil
			}
		}
		if page.Next.IsZero() {
			return tipstaff.ID{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run yet").
				WithHint("start one: tipstaff run plan.yaml")
		}
		req.Before = page.Next
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

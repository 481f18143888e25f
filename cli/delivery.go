package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// showDelivery shows where the delivery of a run stands.
func (o *showOptions) showDelivery(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	now, err := svc.Get(ctx, run)
	if err != nil {
		return err
	}
	s, err := tipstaff.DeliveryView(ctx, svc, now, o.present())
	if err != nil {
		return err
	}
	return o.print(s, func() {
		for _, l := range s.Lines() {
			fmt.Fprintln(o.out, l)
		}
	})
}

// wholeDiff is the longest patch that is printed.
const wholeDiff = 2_000_000

// showDiff prints what a run has changed: to a pipe as git reads it.
func (o *showOptions) showDiff(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	req := tipstaff.DiffRequest{Run: run, Mode: tipstaff.DiffFull, Path: o.path, Stage: o.stage, Max: wholeDiff}
	if o.stat {
		req.Mode = tipstaff.DiffStat
	}
	below := ""
	if o.path != "" {
		below = "at or below " + clean(o.path)
	}
	d, err := tipstaff.Diff(ctx, svc, req)
	switch {
	case err != nil:
		return err
	case o.json:
		return o.writeJSON(d)
	case !d.Found && o.stage != "":
		return tipstaff.Errorf(tipstaff.InvalidArgument, "run %s has no difference of %s", run, o.stage).WithHint("a stage is named with its visit, as work#2; only those that a worker has worked at have one")
	case !d.Found:
		fmt.Fprintln(o.err, "the run has recorded no difference")
		return nil
	case len(d.Files) == 0:
		fmt.Fprintln(o.err, tipstaff.Joined(" ", "nothing has changed", below))
		return nil
	case o.stat:
		for _, f := range d.Files {
			fmt.Fprintln(o.out, clean(f.String()))
		}
		fmt.Fprintln(o.out, tipstaff.CountOfChanges(len(d.Files), d.Added, d.Removed))
		return nil
	}
	text := d.Text
	if o.env.StdoutTTY {
		text = patchText(text, o.env.colored(true))
	}
	if _, err := io.WriteString(o.out, text); err != nil {
		return err
	}
	if d.Truncated {
		fmt.Fprintln(o.err, "warning: the patch is cut, for it is too long; --path selects a part of it, and the worktree has all of it")
	}
	return nil
}

// patchText is a patch for a terminal: in its colours, with nothing in it that acts.
func patchText(patch string, colored bool) string {
	var b strings.Builder
	for l := range strings.Lines(patch) {
		shown := span{text: cleanText(strings.TrimSuffix(l, "\n"))}
		switch {
		case strings.HasPrefix(l, "diff "), strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "):
			shown.color = bold
		case strings.HasPrefix(l, "@@"):
			shown.color = blue
		case strings.HasPrefix(l, "+"):
			shown.color = green
		case strings.HasPrefix(l, "-"):
			shown.color = red
		}
		fmt.Fprintln(&b, line{shown}.text(colored))
	}
	return b.String()
}

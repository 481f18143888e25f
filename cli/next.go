package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
)

// invocation is a command line that can be pasted into the same shell.
func (a *app) invocation(words ...string) string {
	line := tipstaff.CommandLine(words...)
	if a.workspace != "" {
		line += " --workspace " + tipstaff.ShellWord(a.workspace)
	}
	if a.store != "" {
		line += " --store " + tipstaff.ShellWord(a.store)
	}
	if a.engine != "" {
		line += " --engine " + tipstaff.ShellWord(a.engine)
	}
	if a.serverFlag != "" {
		line += " --server " + tipstaff.ShellWord(a.serverFlag)
	}
	return line
}

func (a *app) resumeLine(run tipstaff.ID) string { return a.invocation("resume", run.String()) }

// decideLines are the commands that answer g, one for each action that can be taken.
func (a *app) decideLines(run tipstaff.ID, g tipstaff.Gate) []string {
	var lines []string
	for _, action := range g.Available() {
		lines = append(lines, a.decideLine(run, g, action))
	}
	return lines
}

// decideLine is the command that takes an action at g.
func (a *app) decideLine(run tipstaff.ID, g tipstaff.Gate, action string) string {
	return a.invocation(tipstaff.DecideCommand(run, g, action)...)
}

// sayNext tells on standard error what brings a run on, if it has not ended.
func (a *app) sayNext(ctx context.Context, svc tipstaff.Service, r tipstaff.Run, d tipstaff.Driven) {
	switch {
	case r.State.Terminal():
	case d.Waits():
		a.saySteps(ctx, svc, r, d.WakeAt)
	case d.Reason != string(tipstaff.Integrity): // which says itself what to do first
		reason := ""
		if d.Reason != "" {
			reason = " (" + clean(d.Reason) + ")"
		}
		fmt.Fprintf(a.err, "interrupted%s; to go on:\n  %s\n", reason, a.resumeLine(r.ID))
	}
}

// saySteps tells what brings a waiting run on, as commands: what it, and the runs that
// it has started, ask, and how it is resumed.
func (a *app) saySteps(ctx context.Context, svc tipstaff.Service, r tipstaff.Run, wake time.Time) {
	w, asked := a.err, false
	for _, who := range append([]tipstaff.Run{r}, openBelow(ctx, svc, r)...) {
		for _, g := range who.OpenGates {
			asked = true
			at := clean(g.Place())
			if who.ID != r.ID {
				at += " of " + clean(nameOf(who))
			}
			fmt.Fprintf(w, "waiting: %s asks: %s\n", at, clean(g.Question))
			a.printSubject(w, who.ID, g)
		}
	}
	switch {
	case asked:
		fmt.Fprintln(w, "then:")
	case wake.After(time.Now()): // else it is due
		fmt.Fprintf(w, "sleeping until %s, then:\n", wake.UTC().Format(time.RFC3339))
	default:
		fmt.Fprintln(w, "to go on:")
	}
	fmt.Fprintf(w, "  %s\n", a.resumeLine(r.ID))
}

// openBelow are the runs that r has started, and those in turn, that have not
// ended. What cannot be read is left out: it is only a help.
func openBelow(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) (open []tipstaff.Run) {
	if r.Lineage == nil {
		return nil
	}
	for _, id := range r.Lineage.Children {
		child, err := svc.Get(context.WithoutCancel(ctx), id)
		if err == nil && !child.State.Terminal() {
			open = append(append(open, child), openBelow(ctx, svc, child)...)
		}
	}
	return open
}

// topRun is the run that a person has started and that r works for: r itself,
// or the one that dispatched it.
func topRun(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) tipstaff.Run {
	for r.Lineage != nil && r.Lineage.Relation == dispatched {
		parent, err := svc.Get(ctx, r.Lineage.Parent)
		if err != nil || parent.State.Terminal() {
			return r
		}
		r = parent
	}
	return r
}

// nameOf is what a person calls a run.
func nameOf(r tipstaff.Run) string { return cmp.Or(r.Title, r.Program.Name, r.Program.Kind) }

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type showOptions struct {
	*app
	ref string

	graph, gate              string
	checkpoints, transitions bool
}

func newShow(a *app) *cobra.Command {
	o := &showOptions{app: a}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: state, gates, bounds, outputs",
		Example: `  tipstaff show @
  tipstaff show @ --json
  tipstaff show @ --gate root/ok
  tipstaff show @ --transitions
  tipstaff show @ --graph mermaid`,
		Args:              needs("RUN"),
		ValidArgsFunction: completed(a, completeRun),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if cmd.Flags().Changed("graph") && !slices.Contains(graphFormats, o.graph) {
				return &usageError{message: fmt.Sprintf("a pipeline is drawn as %s, not as %q", strings.Join(graphFormats, " or "), o.graph)}
			}
			chosen := 0
			for _, name := range []string{"graph", "checkpoints", "transitions", "gate"} {
				if cmd.Flags().Changed(name) {
					chosen++
				}
			}
			if chosen > 1 {
				return &usageError{message: "only one of --graph, --checkpoints, --transitions and --gate can be shown at once"}
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.graph, "graph", "", "draw the pipeline with how often its edges were taken, as `mermaid` or dot")
	cmd.Flags().BoolVar(&o.checkpoints, "checkpoints", false, "list the checkpoints of a pipeline")
	cmd.Flags().BoolVar(&o.transitions, "transitions", false, "list the transitions of a pipeline")
	cmd.Flags().StringVar(&o.gate, "gate", "", "show everything that an open `gate` asks about, given by its id or key")
	return cmd
}

func (o *showOptions) run(ctx context.Context) error {
	svc, err := o.open(ctx, true)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	switch {
	case o.graph != "":
		return o.showGraph(ctx, svc, id)
	case o.checkpoints:
		return o.showCheckpoints(ctx, svc, id)
	case o.transitions:
		return o.showTransitions(ctx, svc, id)
	}
	run, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	if o.gate != "" {
		return o.showGate(run)
	}
	if o.json {
		return o.writeJSON(filled(run))
	}
	o.printFields(runFields(run))
	o.printGates(run)
	return o.printNext(ctx, svc, run)
}

// printNext says how a run goes on that nobody drives.
func (o *showOptions) printNext(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) error {
	var doubts []string
	switch {
	case r.Status == tipstaff.StatusInterrupted:
		var err error
		if doubts, err = tipstaff.Doubts(ctx, svc, r.ID); err != nil {
			return err
		}
		fmt.Fprintln(o.out, "\ninterrupted; to go on:")
	case r.Condition != tipstaff.Waiting || r.Status == tipstaff.StatusQueued:
		return nil
	case len(r.OpenGates) > 0:
		fmt.Fprintln(o.out, "\nthen:")
	default:
		fmt.Fprintln(o.out, "\nto go on:")
	}
	o.printResume(doubts, started(ctx, svc, r).ID)
	return nil
}

func runFields(r tipstaff.Run) []field {
	fields := []field{
		{"run", r.ID.String()},
		{"title", r.Title},
		{"program", programText(r.Program)},
		{"state", string(r.State)},
		{"status", r.Status},
		{"outcome", r.Outcome},
		{"step", r.Step},
		{"created", timeText(r.CreatedAt)},
		{"updated", timeText(r.UpdatedAt)},
		{"ended", timeText(r.EndedAt)},
		{"owner", ownerText(r.Owner)},
		{"from", lineageText(r.Lineage)},
	}
	if r.Error != nil {
		fields = append(fields, field{"reason", failureText(r, tipstaff.Driven{})})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		fields = append(fields, field{"input", name + " = " + string(r.Inputs[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Bounds)) {
		b := r.Bounds[name]
		text := boundText(name, b.Used, b)
		if b.Reserved > 0 {
			text += " (" + tipstaff.FormatBound(name, b.Reserved) + " reserved)"
		}
		fields = append(fields, field{"bound", text})
	}
	if string(r.Outputs) != "null" {
		fields = append(fields, field{"outputs", string(r.Outputs)})
	}
	return append(fields, field{"lifecycle", r.Lifecycle}, field{"seq", fmt.Sprint(r.HeadSeq)}, field{"head", r.Head})
}

func programText(p tipstaff.Program) string {
	revision := ""
	if p.Revision > 1 {
		revision = fmt.Sprintf("revision %d", p.Revision)
	}
	return tipstaff.Joined("  ", tipstaff.Joined(" ", p.Kind, p.Name), revision, p.Digest)
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func ownerText(w *tipstaff.Owner) string {
	if w == nil {
		return ""
	}
	life := "alive"
	if !w.Alive {
		life = "gone"
	}
	return fmt.Sprintf("%s, process %d, %s", w.Kind, w.Pid, life)
}

func lineageText(l *tipstaff.Lineage) string {
	if l == nil || l.Parent.IsZero() {
		return ""
	}
	text := l.Relation + " of " + l.Parent.String()
	if l.Seq > 0 {
		text += fmt.Sprintf(" at %d", l.Seq)
	}
	return text
}

// printGates prints open gates with the commands that answer them.
func (o *showOptions) printGates(r tipstaff.Run) {
	for _, g := range r.OpenGates {
		o.printGate(pendingGate{Run: r.ID, Title: nameOf(r), Gate: g})
	}
}

// showGate shows everything that a gate asks about.
func (o *showOptions) showGate(r tipstaff.Run) error {
	i := slices.IndexFunc(r.OpenGates, func(g tipstaff.Gate) bool { return g.Key == o.gate || g.ID.String() == o.gate })
	if i < 0 {
		return &tipstaff.Error{Code: tipstaff.GateNotFound, Message: fmt.Sprintf("run %s has no open gate %s", r.ID, o.gate), Hint: "tipstaff show " + r.ID.String() + " lists those that are open"}
	}
	g := r.OpenGates[i]
	shown := tipstaff.WholeSubject(g)
	g.Shown = &shown
	if o.json {
		return o.writeJSON(pendingGate{Run: r.ID, Title: nameOf(r), Gate: g})
	}
	fmt.Fprintf(o.out, "%s\n", clean(g.Question))
	for _, l := range shown.Lines {
		fmt.Fprintf(o.out, "  %s\n", l)
	}
	fmt.Fprintf(o.out, "digest: %s\n", clean(g.Digest))
	for _, l := range o.decideLines(r.ID, g) {
		fmt.Fprintf(o.out, "  %s\n", l)
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type decideOptions struct {
	*app
	ref, gate, action      string
	answer, feedback, note string
}

func newDecide(a *app) *cobra.Command {
	o := &decideOptions{app: a}
	cmd := &cobra.Command{
		Use:   "decide [RUN GATE ACTION]",
		Short: "Answer a gate, or list what waits for an answer",
		Long: `Answer a gate with one of the actions it offers. GATE is its id or its key; of
several gates with one key it is the open one, else the one decided last. The same
answer again is the same decision; another one is refused. A decision starts
nothing: tipstaff resume does.

Without arguments, list the gates of all runs that wait, oldest first, and the
calls in doubt that interrupted runs will ask about.`,
		Example: `  tipstaff decide
  tipstaff decide @ root/ok approve --note "read it twice"
  tipstaff decide @ root/go/in_doubt use_result --answer '{"exit_code": 0}'`,
		Args:              noneOr(needs("RUN", "GATE", "ACTION")),
		ValidArgsFunction: completed(a, completeRun, completeGate, completeAction),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return o.list(cmd.Context())
			}
			o.ref, o.gate, o.action = args[0], args[1], args[2]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.answer, "answer", "", "the answer: `JSON`, @FILE, or - for standard input")
	cmd.Flags().StringVar(&o.feedback, "feedback", "", "`text` for whoever works on")
	cmd.Flags().StringVar(&o.note, "note", "", "why: `text` for the record")
	return cmd
}

func noneOr(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return check(cmd, args)
		}
		for _, name := range []string{"answer", "feedback", "note"} {
			if cmd.Flags().Changed(name) {
				return &usageError{message: "--" + name + " needs RUN, GATE and ACTION", hint: "usage: " + cmd.UseLine()}
			}
		}
		return nil
	}
}

func (o *decideOptions) run(ctx context.Context) error {
	answer, err := o.argument("--answer", o.answer)
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, false)
	if err != nil {
		return err
	}
	id, err := resolve(ctx, svc, o.ref)
	if err != nil {
		return err
	}
	req := tipstaff.DecideRequest{Run: id, Gate: o.gate, Action: o.action, Answer: answer, Feedback: o.feedback, Note: o.note}
	decided, err := svc.Decide(ctx, req)
	if err != nil {
		return err
	}
	return o.print(ctx, svc, decided)
}

// print shows the stored decision: with --json its canonical bytes, equal
// however often it is sent.
func (o *decideOptions) print(ctx context.Context, svc tipstaff.Service, d tipstaff.Decided) error {
	if o.json {
		return o.writeLine(d.Raw)
	}
	again := ""
	if d.Replayed {
		again = " (already decided so)"
	}
	fmt.Fprintf(o.out, "decided %s: %s%s\n", clean(d.Decision.Path), clean(d.Decision.Action), again)
	if d.Run.Condition == tipstaff.Waiting || d.Run.Condition == tipstaff.Interrupted {
		top := started(ctx, svc, d.Run)
		o.saySteps(o.err, top, openBelow(ctx, svc, top), time.Time{})
	}
	return nil
}

// pendingGate is a gate that waits for an answer, with its run.
type pendingGate struct {
	Run   tipstaff.ID `json:"run_id"`
	Title string      `json:"title"`
	tipstaff.Gate
}

// mayWait are the statuses of runs that can have an open gate: a living run too,
// while its other branches work.
var mayWait = []string{"running", "awaiting_decision", "awaiting_phase_handoff", "awaiting_delivery", "interrupted"}

func (o *decideOptions) list(ctx context.Context) error {
	svc, err := o.open(ctx, true)
	if err != nil {
		return err
	}
	gates, err := pendingGates(ctx, svc)
	if err != nil {
		return err
	}
	for _, g := range gates {
		if !o.json {
			o.printGate(g)
		} else if err := o.writeJSON(g); err != nil {
			return err
		}
	}
	if o.json {
		return nil
	}
	doubted := false
	err = eachRun(ctx, svc, []string{tipstaff.StatusInterrupted}, func(r tipstaff.Run) error {
		doubts, err := tipstaff.Doubts(ctx, svc, r.ID)
		if len(doubts) > 0 {
			doubted = true
			fmt.Fprintf(o.out, "\n%s  interrupted  %s\n", r.ID, clean(nameOf(r)))
			o.printResume(doubts, started(ctx, svc, r).ID)
		}
		return err
	})
	if len(gates) == 0 && !doubted && err == nil {
		fmt.Fprintln(o.err, "nothing waits for a decision")
	}
	return err
}

// printResume says how a run goes on, and what it will ask first: about calls in
// doubt.
func (a *app) printResume(doubts []string, run tipstaff.ID) {
	for _, path := range doubts {
		fmt.Fprintf(a.out, "  %s is in doubt: it was sent, and nobody knows what became of it; the run asks when it is resumed\n", clean(path))
	}
	fmt.Fprintf(a.out, "  %s\n", a.resumeLine(run))
}

// pendingGates are the open gates of all runs, oldest first.
func pendingGates(ctx context.Context, svc tipstaff.Service) ([]pendingGate, error) {
	var gates []pendingGate
	err := eachRun(ctx, svc, mayWait, func(r tipstaff.Run) error {
		run, err := svc.Get(ctx, r.ID) // a list need not carry gates
		if err != nil {
			return err
		}
		for _, g := range run.OpenGates {
			gates = append(gates, pendingGate{Run: run.ID, Title: nameOf(run), Gate: g})
		}
		return nil
	})
	slices.SortStableFunc(gates, func(a, b pendingGate) int { return a.OpenedAt.Compare(b.OpenedAt) })
	return gates, err
}

// printGate shows a gate and the commands that answer it.
func (a *app) printGate(g pendingGate) {
	fmt.Fprintf(a.out, "\n%s  %s  %s\n", g.Run, clean(g.Key), clean(tipstaff.Joined("  ", string(g.Kind), g.Title)))
	fmt.Fprintf(a.out, "  %s\n", clean(g.Question))
	a.printSubject(a.out, g.Run, g.Gate)
	for _, l := range a.decideLines(g.Run, g.Gate) {
		fmt.Fprintf(a.out, "  %s\n", l)
	}
}

// printSubject shows what a gate asks about, and where the rest is of what was cut.
func (a *app) printSubject(w io.Writer, run tipstaff.ID, g tipstaff.Gate) {
	shown := tipstaff.Subject(g)
	for _, l := range shown.Lines {
		fmt.Fprintf(w, "    %s\n", l)
	}
	if !shown.Whole {
		fmt.Fprintf(w, "  everything: %s\n", a.invocation("show", run.String(), "--gate", typable(g)))
	}
}

// typable is how a gate is named on a command line: by its key, unless that cannot be
// shown and so not be typed.
func typable(g tipstaff.Gate) string {
	if clean(g.Key) != g.Key {
		return g.ID.String()
	}
	return g.Key
}

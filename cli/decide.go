package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newDecide(a *app) *cobra.Command {
	var (
		req    tipstaff.DecideRequest
		answer string
		page   tipstaff.PendingRequest
		after  string
		resume bool
	)
	cmd := &cobra.Command{
		Use:   "decide [RUN GATE ACTION]",
		Short: "Answer a gate, or list what waits for an answer",
		Long: `Answer a gate with one of the actions it offers. GATE is its id or its key; of
several gates with one key it is the open one, else the one decided last. The same
answer again is the same decision; another one is refused. A decision starts
nothing: tipstaff resume does, and so does --resume, after the decision.

Without arguments, list the gates of all runs that wait, oldest first, a page at a
time, and then the calls in doubt that interrupted runs will ask about.`,
		Example: `  tipstaff decide
  tipstaff decide @ root/ok approve --note "read it twice"
  tipstaff decide @ root/ok approve --resume
  tipstaff decide @ root/go/in_doubt use_result --answer '{"exit_code": 0}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if flags := given(cmd, "limit", "after"); len(flags) > 0 {
					return misuse(cmd, "--%s is for the list of what waits", flags[0])
				}
				req.Gate, req.Action = args[1], args[2]
				return a.decide(cmd.Context(), args[0], req, answer, resume)
			}
			if flags := given(cmd, "answer", "feedback", "note", "resume"); len(flags) > 0 {
				return misuse(cmd, "--%s needs RUN, GATE and ACTION", flags[0])
			}
			if after != "" {
				var err error
				if page.After, err = tipstaff.ParseID(after); err != nil {
					return &usageError{message: "--after: " + err.Error()}
				}
			}
			if page.Limit < 1 {
				return &usageError{message: "--limit is at least 1"}
			}
			return a.listGates(cmd.Context(), page)
		},
	}
	cmd.Flags().StringVar(&answer, "answer", "", "the answer: `JSON` or text, @FILE, or - for standard input")
	cmd.Flags().StringVar(&req.Feedback, "feedback", "", "`text` for whoever works on")
	cmd.Flags().StringVar(&req.Note, "note", "", "why: `text` for the record")
	cmd.Flags().BoolVar(&resume, "resume", false, "then drive the run on, as tipstaff resume does")
	cmd.Flags().IntVar(&page.Limit, "limit", 50, "of the list, how many gates")
	cmd.Flags().StringVar(&after, "after", "", "of the list, only what comes after this `gate`, given by its id")
	return cmd
}

// decide shows the stored decision: with --json its canonical bytes, equal however
// often it is sent.
func (a *app) decide(ctx context.Context, ref string, req tipstaff.DecideRequest, answer string, resume bool) (err error) {
	if req.Answer, err = a.answer(req.Action, answer); err != nil {
		return err
	}
	if resume {
		if err := a.mustTrust(); err != nil {
			return err
		}
	}
	svc, id, err := a.openRun(ctx, ref, toWrite)
	if err != nil {
		return err
	}
	req.Run = id
	d, err := svc.Decide(ctx, req)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.writeLine(d.Raw); err != nil || !resume {
			return err
		}
	}
	if resume {
		return a.goOn(ctx, svc, d)
	}
	again := ""
	if d.Replayed {
		again = " (already decided so)"
	}
	fmt.Fprintf(a.out, "decided %s: %s%s\n", clean(cmp.Or(d.Decision.Path, req.Gate)), clean(d.Decision.Action), again)
	if next := d.Decision.FollowupRunID; !next.IsZero() {
		fmt.Fprintf(a.out, "followed up by %s, with what is to be corrected\n", next)
		fmt.Fprintf(a.err, "to go on:\n  %s\n", a.resumeLine(next))
		return nil
	}
	if d.Run.Condition == tipstaff.Waiting || d.Run.Condition == tipstaff.Interrupted {
		a.saySteps(ctx, svc, topRun(ctx, svc, d.Run), time.Time{})
	}
	return nil
}

// goOn drives a run on that was decided about. A decision may have ended it: then that is
// the answer.
func (a *app) goOn(ctx context.Context, svc tipstaff.Service, d tipstaff.Decided) error {
	run := topRun(ctx, svc, d.Run)
	if next := d.Decision.FollowupRunID; !next.IsZero() {
		var err error
		if run, err = svc.Get(ctx, next); err != nil {
			return err
		}
	}
	if run.State.Terminal() {
		a.conclude(ctx, svc, run, run.Rest())
		return status(exitOfRun(run))
	}
	if run.Condition == tipstaff.Running { // whoever drives it takes the decision by itself
		return a.watch(ctx, run.ID.String())
	}
	return (&resumeOptions{app: a}).run(ctx, run.ID.String())
}

// answer reads an answer as it is typed. To a question it may be any text, and by how much
// a bound is extended need not be JSON either.
func (a *app) answer(action, text string) (json.RawMessage, error) {
	if text == "" || action != "answer" && action != "extend" {
		return a.argument("--answer", text)
	}
	raw, err := a.flagValue(text)
	if err != nil {
		return nil, err
	}
	return tipstaff.TypedValue(string(raw)), nil
}

// pendingGate is a gate that waits for an answer, with its run.
type pendingGate struct {
	Run   tipstaff.ID `json:"run_id"`
	Title string      `json:"title"`
	tipstaff.Gate
}

// listGates prints a page of what waits for an answer, oldest first, and on the last page
// calls in doubt.
func (a *app) listGates(ctx context.Context, req tipstaff.PendingRequest) error {
	svc, err := a.open(ctx, toRead)
	if err != nil {
		return err
	}
	page, err := a.control(svc).Pending(ctx, req)
	if err != nil {
		return err
	}
	for _, p := range page.Decisions {
		if err := a.print(p, func() { a.printGate(pendingGate{Run: p.Run, Title: p.Title, Gate: p.Gate}) }); err != nil {
			return err
		}
	}
	if page.Truncated {
		words := []string{"decide"}
		if req.Limit != 50 {
			words = append(words, "--limit", fmt.Sprint(req.Limit))
		}
		fmt.Fprintf(a.err, "%d wait in all; more: %s\n", page.Total, a.invocation(append(words, "--after", page.Next.String())...))
		return nil
	}
	if a.json {
		return nil
	}
	none := page.Total == 0
	for r, err := range allRuns(ctx, svc, []string{tipstaff.StatusInterrupted}) {
		if len(r.Doubts) > 0 {
			none = false
			fmt.Fprintf(a.out, "\n%s  interrupted  %s\n", r.ID, clean(nameOf(r)))
			a.printResume(r.Doubts, topRun(ctx, svc, r).ID)
		}
		if err != nil {
			return err
		}
	}
	if none {
		fmt.Fprintln(a.err, "nothing waits for a decision")
	}
	return nil
}

// printResume says how a run goes on, and what it will ask first: about calls in
// doubt.
func (a *app) printResume(doubts []string, run tipstaff.ID) {
	for _, path := range doubts {
		fmt.Fprintf(a.out, "  %s\n", doubtText(path))
	}
	fmt.Fprintf(a.out, "  %s\n", a.resumeLine(run))
}

func doubtText(path string) string {
	return clean(path) + " is in doubt: it was sent, and nobody knows what became of it; the run asks when it is resumed"
}

// printGate shows a gate and the commands that answer it.
func (a *app) printGate(g pendingGate) {
	fmt.Fprintf(a.out, "\n%s  %s  %s\n  %s\n", g.Run, clean(g.Key), clean(tipstaff.Joined("  ", string(g.Kind), g.Title)), clean(g.Question))
	a.printSubject(a.out, g.Run, g.Gate)
}

// printSubject shows what a gate asks about, where the rest is of what was cut, and
// the commands that answer it.
func (a *app) printSubject(w io.Writer, run tipstaff.ID, g tipstaff.Gate) {
	shown := tipstaff.Subject(g)
	for _, l := range shown.Lines {
		fmt.Fprintf(w, "    %s\n", l)
	}
	if !shown.Whole {
		fmt.Fprintf(w, "  everything: %s\n", a.invocation("show", run.String(), "--gate", g.Typable()))
	}
	if g.Kind == tipstaff.Delivery || g.Changed != nil {
		fmt.Fprintf(w, "  the changes: %s\n", a.invocation("show", run.String(), "--diff"))
	}
	io.WriteString(w, indented(a.decideLines(run, g)))
}

// typable is how a gate is named on a command line: by its key, unless that cannot be
type cancelOptions struct {
	*app
	hard   bool
	grace  time.Duration
	reason string
}

func newCancel(a *app) *cobra.Command {
	o := &cancelOptions{app: a}
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run for good",
		Long: `End a run for good. A process that drives it is asked to stop and given time to
let calls end that must not be broken off; a run that nobody drives ends at once. A
process of the run's own that has not ended by then is killed, with all that it has
started. --hard gives no time.`,
		Example: `  tipstaff cancel @ --reason "wrong branch"
  tipstaff cancel @ --hard`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why: `text` for the record")
	cmd.Flags().BoolVar(&o.hard, "hard", false, "kill its process at once; also one in the foreground")
	cmd.Flags().DurationVar(&o.grace, "grace", 0, "how long it may take, from 1s to 5m (default 10s)")
	cmd.Args = atMostOne(needs("RUN"), "hard", "grace")
	return cmd
}

func (o *cancelOptions) run(ctx context.Context, ref string) error {
	if o.grace != 0 && (o.grace < time.Second || o.grace > 5*time.Minute) {
		return &usageError{message: fmt.Sprintf("--grace %s is not between 1s and 5m", o.grace)}
	}
	svc, id, err := o.openRun(ctx, ref, toWrite)
	if err != nil {
		return err
	}
	req := tipstaff.CancelRequest{Run: id, Reason: o.reason, Hard: o.hard, Grace: o.grace}
	if o.grace > 0 {
		req.Wait = o.grace + 5*time.Second
	}
	c, err := svc.Cancel(ctx, req)
	switch {
	case err != nil:
		return err
	case c.How == tipstaff.CancelDone:
		return tipstaff.Errorf(tipstaff.RunEnded, "run %s has ended", id).WithCommand("`tipstaff fork` makes a new run from an ended one")
	case c.State == tipstaff.Completed || c.State == tipstaff.Failed:
		return tipstaff.Errorf(tipstaff.RunEnded, "run %s was not cancelled: it %s first", id, c.State)
	}
	return o.print(filled(c.Run), func() {
		switch {
		case c.State != tipstaff.Cancelled:
			fmt.Fprintf(o.out, "asked %s to cancel; it has not settled yet\n", id)
			fmt.Fprintf(o.err, "to see it end:\n  %s\n", o.invocation("watch", id.String()))
		case c.Forced:
			fmt.Fprintf(o.out, "cancelled %s; its process was killed\n", id)
		default:
			fmt.Fprintf(o.out, "cancelled %s\n", id)
		}
	})
}

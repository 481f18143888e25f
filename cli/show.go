package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// filled has empty lists where a run has none, so that scripts need not ask.
func filled(r tipstaff.Run) tipstaff.Run {
	if r.OpenGates == nil {
		r.OpenGates = []tipstaff.Gate{}
	}
	if r.Bounds == nil {
		r.Bounds = map[string]tipstaff.BoundStatus{}
	}
	return r
}

// turnText is who answers a turn, and in which session; "": it is none.
func turnText(t *tipstaff.TurnStatus) string {
	if t == nil {
		return ""
	}
	return clean(fmt.Sprintf("(%s, %s, session %s)", t.Agent, t.Model, t.Session))
}

type showOptions struct {
	*app
	graph, gate                          string
	digest, file                         string // of an artifact, and where it is written
	checkpoints, transitions, transcript bool
	delivery, diff, stat                 bool
	path, stage                          string // of a difference; the stage also of the evidence
	metrics, diagnose                    bool
	evidence, severity                   string // a slice of the evidence, and how bad its findings are at least
	limit, offset                        int    // of the lists of the evidence
}

// Drawings of pipelines.
var graphFormats = []string{"mermaid", "dot"}

func newShow(a *app) *cobra.Command {
	o := &showOptions{app: a}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: state, gates, bounds, outputs",
		Example: `  tipstaff show @
  tipstaff show @ --json
  tipstaff show @ --gate root/ok
  tipstaff show @ --transitions
  tipstaff show @ --transcript
  tipstaff show @ --diagnose
  tipstaff show @ --metrics
  tipstaff show @ --evidence errors
  tipstaff show @ --delivery
  tipstaff show @ --diff --path src | git apply --stat
  tipstaff show @ --graph mermaid
  tipstaff show @ --artifact sha256:… -o screenshot.png`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("evidence") {
				o.evidence = cmp.Or(o.evidence, tipstaff.SliceAll)
			}
			if cmd.Flags().Changed("graph") && !slices.Contains(graphFormats, o.graph) {
				return &usageError{message: fmt.Sprintf("a pipeline is drawn as %s, not as %q", strings.Join(graphFormats, " or "), o.graph)}
			}
			if len(given(cmd, "graph", "checkpoints", "transitions", "transcript", "gate", "artifact", "delivery", "diff", "metrics", "evidence", "diagnose")) > 1 {
				return &usageError{message: "only one of --graph, --checkpoints, --transitions, --transcript, --gate, --artifact, --delivery, --diff, --metrics, --evidence and --diagnose can be shown at once"}
			}
			if flags := given(cmd, "stat", "path"); len(flags) > 0 && !o.diff {
				return &usageError{message: "--" + flags[0] + " is for --diff"}
			}
			if flags := given(cmd, "severity", "limit", "offset"); len(flags) > 0 && o.evidence == "" {
				return &usageError{message: "--" + flags[0] + " is for --evidence"}
			}
			if o.stage != "" && !o.diff && o.evidence == "" {
				return &usageError{message: "--stage is for --diff and --evidence"}
			}
			if o.file != "" && o.digest == "" {
				return &usageError{message: "--output is for --artifact"}
			}
			return nil
		},
		Args: func(cmd *cobra.Command, args []string) error { return needs("RUN")(cmd, o.takeSlice(args)) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), o.takeSlice(args)[0]) },
	}
	cmd.Flags().StringVar(&o.graph, "graph", "", "draw the pipeline with how often its edges were taken, as `mermaid` or dot")
	cmd.Flags().BoolVar(&o.checkpoints, "checkpoints", false, "list the checkpoints of a pipeline")
	cmd.Flags().BoolVar(&o.transitions, "transitions", false, "list the transitions of a pipeline")
	cmd.Flags().BoolVar(&o.transcript, "transcript", false, "print what agents said, with their tool calls; of a turn, the whole conversation up to its end")
	cmd.Flags().BoolVar(&o.delivery, "delivery", false, "show where the delivery of what the run has changed stands")
	cmd.Flags().BoolVar(&o.diff, "diff", false, "print what the run has changed, as a patch")
	cmd.Flags().BoolVar(&o.stat, "stat", false, "of --diff, only the files and how many lines")
	cmd.Flags().StringVar(&o.path, "path", "", "of --diff, only this `file`, or those below this folder")
	cmd.Flags().StringVar(&o.stage, "stage", "", "of --diff, what a `stage` has left, as work#2, or a step of a plan, by its path; of --evidence, what happened there")
	cmd.Flags().BoolVar(&o.metrics, "metrics", false, "show what the run has used, by step and by agent")
	cmd.Flags().BoolVar(&o.diagnose, "diagnose", false, "show what is the matter with the run, and what can be done")
	cmd.Flags().StringVar(&o.evidence, "evidence", "", "show what is recorded of the run: all, or one `slice` of "+strings.Join(tipstaff.EvidenceSlices(), ", "))
	cmd.Flags().Lookup("evidence").NoOptDefVal = tipstaff.SliceAll
	cmd.Flags().StringVar(&o.severity, "severity", "", "of --evidence, only findings that are at least so bad: `P0` to P3")
	cmd.Flags().IntVar(&o.limit, "limit", 0, "of --evidence, how many items of each list are shown; 100 by default")
	cmd.Flags().IntVar(&o.offset, "offset", 0, "of --evidence, how many items of each list are left out before")
	cmd.Flags().StringVar(&o.gate, "gate", "", "show everything that a `gate` asks about, given by its id or key")
	cmd.Flags().StringVar(&o.digest, "artifact", "", "write out what the run keeps under a `digest`: an image or another result that is not text, a document")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write the artifact to a `file`")
	return cmd
}

// given are those of the flags that the command line names.
func given(cmd *cobra.Command, flags ...string) []string {
	return slices.DeleteFunc(flags, func(name string) bool { return !cmd.Flags().Changed(name) })
}

// takeSlice takes the slice of the evidence from the arguments, and leaves the rest: the value
// of a flag that may stand alone is an argument, unless an equals sign ties it to the flag.
func (o *showOptions) takeSlice(args []string) []string {
	if o.evidence == "" || len(args) != 2 {
		return args
	}
	ref, slice := args[0], args[1]
	if !looksLikeRun(ref) {
		ref, slice = slice, ref
	}
	o.evidence = slice
	return []string{ref}
}

func (o *showOptions) run(ctx context.Context, ref string) error {
	svc, id, err := o.openRun(ctx, ref, toRead)
	if err != nil {
		return err
	}
	switch {
	case o.graph != "":
		drawn, err := svc.Graph(ctx, id, o.graph)
		if err == nil {
			_, err = o.out.Write(drawn)
		}
		return err
	case o.digest != "":
		return o.artifact(ctx, svc, id)
	case o.metrics:
		return o.showMetrics(ctx, svc, id)
	case o.evidence != "":
		return o.showEvidence(ctx, svc, id)
	case o.diagnose:
		return o.showDiagnosis(ctx, svc, id)
	case o.delivery:
		return o.showDelivery(ctx, svc, id)
	case o.diff:
		return o.showDiff(ctx, svc, id)
	case o.checkpoints:
		list, err := svc.Checkpoints(ctx, id)
		if err != nil {
			return err
		}
		return printTable(o.app, list, "CHECKPOINT\tSTAGE\tTURN\tITERATION\tSEQ\tCREATED\tLEFT\tLABELS", func(c tipstaff.Checkpoint) string {
			left := ""
			if c.Left {
				left = "left"
			}
			return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s", clean(c.ID), clean(c.Stage), c.Turn, c.Iteration, c.Seq, timeText(c.CreatedAt),
				left, clean(strings.Join(c.Labels, ", ")))
		})
	case o.transitions:
		list, err := tipstaff.Transitions(ctx, svc, id)
		if err != nil {
			return err
		}
		return printTable(o.app, list, "SEQ\tTURN\tITERATION\tFROM\tTO\tREASON\tRULE\tEDGE\tBY\tLEFT", func(t tipstaff.StageTransition) string {
			return fmt.Sprintf("%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s", t.Seq, t.Turn, t.Iteration, clean(t.From), clean(t.To), clean(t.Reason),
				orBlank(int64(t.Rule)), orBlank(t.EdgeCount), clean(t.By), clean(t.Left))
		})
	}
	if o.json && o.gate == "" && !o.transcript {
		got, err := o.control(svc).Status(ctx, tipstaff.StatusRequest{Run: id, Include: []string{tipstaff.IncludeInputs}})
		got.Run = filled(got.Run)
		return orWrite(o.app, got, err)
	}
	run, err := svc.Get(ctx, id)
	switch {
	case err != nil:
		return err
	case o.gate != "":
		return o.showGate(ctx, svc, run)
	case o.transcript:
		return o.printConversation(ctx, svc, run)
	}
	workers, err := o.workerFields(ctx, svc, run.ID)
	if err != nil {
		return err
	}
	o.printFields(append(runFields(run), workers...)...)
	for _, g := range run.OpenGates {
		o.printGate(pendingGate{Run: run.ID, Title: nameOf(run), Gate: g})
	}
	return o.printNext(ctx, svc, run)
}

// workerFields are the invocations of a run's workers, as the live tree shows them.
func (o *showOptions) workerFields(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) (fields []field, err error) {
	sessions := o.session.Sessions()
	if sessions == nil {
		return nil, nil
	}
	list, err := sessions.WorkerSessions(ctx, tipstaff.SessionQuery{Run: run.String(), All: true})
	if err != nil || len(list) == 0 { // then its records need not be read
		return nil, err
	}
	v := newView(run, "", nil)
	for ev, err := range svc.Events(ctx, tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			return nil, err
		}
		v.Apply(&ev)
	}
	for _, n := range v.Invocations() {
		line := row{state: n.Effective(), node: n}.line(v, unlimited, time.Now())
		fields = append(fields, field{"worker", line.text(false)})
	}
	return fields, nil
}

// unlimited is a width at which nothing is left out.
const unlimited = 1 << 10

func orBlank(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
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
	if t := r.Turn; t != nil {
		fields = slices.Insert(fields, 3, field{"session", fmt.Sprintf("%s, turn %d", t.Session, t.Number)}, field{"agent", t.Agent}, field{"model", t.Model})
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
		if r.Program.Kind == tipstaff.ProgramPipeline {
			text = ofPipeline(text)
		}
		if b.Reserved > 0 {
			text += " (" + tipstaff.AmountText(name, b.Reserved) + " reserved)"
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

// showGate shows everything that a gate asks about.
func (o *showOptions) showGate(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) error {
	g, err := svc.Gate(ctx, r.ID, o.gate)
	if tipstaff.CodeOf(err) == tipstaff.GateNotFound {
		return tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %s", r.ID, clean(o.gate)).WithHint("tipstaff show %s lists those that are open", r.ID)
	}
	if err != nil {
		return err
	}
	return o.print(pendingGate{Run: r.ID, Title: nameOf(r), Gate: g}, func() {
		fmt.Fprintf(o.out, "%s\n%sdigest: %s\n", clean(g.Question), indented(g.Shown.Lines), clean(g.Digest))
		if slices.ContainsFunc(r.OpenGates, func(open tipstaff.Gate) bool { return open.ID == g.ID }) {
			io.WriteString(o.out, indented(o.decideLines(r.ID, g)))
		}
	})
}

func newEvents(a *app) *cobra.Command {
	var req tipstaff.EventsRequest
	cmd := &cobra.Command{
		Use:     "events RUN",
		Short:   "Print a run's records",
		Long:    "Print a run's records in order. With --json they are the stored bytes, one record a line.",
		Example: "  tipstaff events @ --after 12 --follow\n  tipstaff events @ --json | jq .kind",
		PreRunE: func(*cobra.Command, []string) error { return checkAfter(req.After) },
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			svc, id, err := a.openRun(ctx, args[0], toRead)
			if err != nil {
				return err
			}
			req.Run = id
			for ev, err := range svc.Events(ctx, req) {
				if err == nil {
					err = a.writeEvent(ev)
				}
				if err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		},
	}
	cmd.Flags().Int64Var(&req.After, "after", 0, "only records after this `seq`")
	cmd.Flags().BoolVar(&req.Follow, "follow", false, "go on until the run has ended or nobody drives it")
	return cmd
}

func checkAfter(seq int64) error {
	if seq < 0 {
		return &usageError{message: "--after cannot be negative", hint: "0 is before the first record"}
	}
	return nil
}

func (a *app) writeEvent(ev tipstaff.Event) error {
	switch {
	case a.json:
		return a.writeLine(ev.Stored())
	case ev.Seq == 0: // told, not recorded
		return nil
	}
	_, err := fmt.Fprintln(a.out, recordLine(ev))
	return err
}

func newWatch(a *app) *cobra.Command {
	var (
		req     tipstaff.WatchRequest
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "watch RUN",
		Short: "Follow a run, whoever drives it",
		Long: `Follow a run until it has ended or waits. The exit code is the one its own
process would give: 0 completed, 1 failed, 4 waiting, 5 bound exceeded,
8 cancelled. To stop watching does nothing to the run.

With --until, say nothing before it happens, and then what did: next_event, any
later record; stage_change or step_change, the run works elsewhere; gate_or_end, it
asks or has ended; end. Whatever is waited for, a run that has ended, that nobody
drives any more, or that asks, is told at once. The exit code is 0 if what was waited
for came while the run goes on, and 4 if nothing came in time.`,
		Example: `  tipstaff watch @
  tipstaff watch @ --until end --timeout 10m
  tipstaff watch @ --until next_event --after 12 --json`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if flags := given(cmd, "after", "timeout"); len(flags) > 0 && req.Until == "" {
				return &usageError{message: "--" + flags[0] + " is for --until"}
			}
			if req.TimeoutS = int(timeout / time.Second); timeout%time.Second != 0 || req.TimeoutS < 1 || req.TimeoutS > 3600 {
				return &usageError{message: fmt.Sprintf("--timeout is %s: it is from 1s to 1h, in whole seconds", timeout)}
			}
			if req.Until != "" && !slices.Contains(tipstaff.WatchModes(), req.Until) {
				return &usageError{message: fmt.Sprintf("--until is %q: it is one of %s", req.Until, strings.Join(tipstaff.WatchModes(), ", "))}
			}
			return checkAfter(req.After)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if req.Until != "" {
				return a.watchUntil(cmd.Context(), args[0], req)
			}
			return a.watch(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&req.Until, "until", "", "wait for one thing alone, a `mode`: "+strings.Join(tipstaff.WatchModes(), ", "))
	cmd.Flags().DurationVar(&timeout, "timeout", 45*time.Second, "of --until, how long")
	cmd.Flags().Int64Var(&req.After, "after", 0, "of --until, only what comes after this `seq`")
	return cmd
}

// watchUntil waits for one thing, and says what happened.
func (a *app) watchUntil(ctx context.Context, ref string, req tipstaff.WatchRequest) error {
	svc, id, err := a.openRun(ctx, ref, toRead)
	if err != nil {
		return err
	}
	req.Run = id
	got, err := a.control(svc).Watch(ctx, req, nil)
	if err != nil {
		return err
	}
	err = a.print(got, func() {
		fmt.Fprintf(a.out, "%s  %s  %s\nseq: %d\n", got.Trigger.Kind, clean(got.Status), clean(got.Trigger.Reason), got.Last)
		for _, e := range got.Summary.Last {
			fmt.Fprintf(a.out, "  %s\n", clean(tipstaff.Joined("  ", fmt.Sprint(e.Seq), string(e.Kind), e.Path, e.Text)))
		}
	})
	if err != nil {
		return err
	}
	switch got.Trigger.Kind {
	case tipstaff.UntilEvent, tipstaff.UntilStage, tipstaff.UntilStep:
		return nil
	}
	run, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	if !a.json {
		a.sayNext(ctx, svc, run, run.Rest())
	}
	return status(exitOfRun(run))
}

func (a *app) watch(ctx context.Context, ref string) error {
	svc, id, err := a.openRun(ctx, ref, toRead)
	if err != nil {
		return err
	}
	before, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	s := tipstaff.Started{Run: id}
	if before.Program.Kind == tipstaff.ProgramPipeline { // whose stages appear as they start
		s.Outline = &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: before.Program.Name}
	}
	f := a.newFollower(svc, &s, nameOf(before), 0)
	if _, err := f.show(ctx, false); err != nil {
		return err
	}
	f.paint()
	run, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	a.conclude(ctx, svc, run, run.Rest())
	return status(exitOfRun(run))
}

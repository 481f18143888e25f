package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// present tells whether a directory is there; nil: the files of a server are elsewhere.
func (a *app) present() func(path string) bool {
	if a.server != "" {
		return nil
	}
	return func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// control answers what surfaces ask of runs.
func (a *app) control(svc tipstaff.Service) tipstaff.Control {
	return tipstaff.Control{Runs: svc, Now: time.Now, Present: a.present()}
}

// showMetrics shows what a run has used.
func (o *showOptions) showMetrics(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	m, err := tipstaff.Metrics(ctx, svc, run, time.Now())
	if err != nil || o.json {
		return orWrite(o.app, m, err)
	}
	exact := ""
	if !m.Exact {
		exact = "not everything was told: what is missing is counted as it was reserved"
	}
	duration := func(s float64) string { return human(time.Duration(s * float64(time.Second))) }
	o.printFields(field{"wall", duration(m.WallS)}, field{"active", duration(m.ActiveS)}, field{"waiting", duration(m.WaitingS)}, field{"inexact", exact})
	total := tipstaff.MetricRow{Name: "total", Metric: m.Metric}
	for _, t := range []struct {
		head string
		rows []tipstaff.MetricRow
	}{{"STEP", m.Steps}, {"AGENT", m.Agents}} {
		var rows []tipstaff.MetricRow
		for _, r := range t.rows {
			if r.Name == "" {
				r.Name = "(none)"
			}
			rows = append(rows, r)
			for _, p := range r.Parts {
				p.Name = "  of which " + p.Name
				rows = append(rows, p)
			}
		}
		fmt.Fprintln(o.out)
		if err := printTable(o.app, append(rows, total), t.head+"\tMODEL CALLS\tTOOL CALLS\tINVOCATIONS\tTOKENS IN\tOUT\tCACHED\tCOST\tRETRIES\tGATES", metricLine); err != nil {
			return err
		}
	}
	return nil
}

func metricLine(r tipstaff.MetricRow) string {
	cost := tipstaff.CostText(r.CostUSD, 0)
	if !r.Exact {
		cost = "~" + cost
	}
	if r.HeldUSD > 0 {
		cost += " + $" + r.HeldUSD.String() + " held"
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%d", clean(r.Name), r.ModelCalls, r.ToolCalls, r.Invocations, r.TokensIn, r.TokensOut, r.TokensCached, cost, r.Retries, r.Gates)
}

// orWrite prints v as JSON, unless it could not be had.
func orWrite(a *app, v any, err error) error {
	if err != nil {
		return err
	}
	return a.writeJSON(v)
}

// showEvidence shows what is recorded of a run.
func (o *showOptions) showEvidence(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	req := tipstaff.EvidenceRequest{Run: run, Slice: o.evidence, SeverityMin: o.severity, Limit: o.limit, Offset: o.offset}
	if o.stage != "" {
		req.Stages = []string{o.stage}
	}
	e, err := tipstaff.Evidence(ctx, svc, req, time.Now(), o.present())
	if err != nil || o.json {
		return orWrite(o.app, e, err)
	}
	o.printPlan(e.Plan)
	printSlice(o, "steps", e.Steps, "PATH\tAGENT\tCLASS\tATTEMPTS\tOUTCOME\tSTARTED\tTOOK\tRESULT", func(s tipstaff.EvidenceStep) []string {
		return []string{s.Path, s.Agent, string(s.Class), orBlank(s.Attempts), tipstaff.Joined(" ", s.Outcome, s.ErrorCode), timeText(s.StartedAt), milliseconds(s.DurationMs), s.ResultDigest}
	})
	printSlice(o, "findings", e.Findings, "ID\tSEVERITY\tSTATUS\tWHERE\tTITLE\tREQUIRED FIX", func(f tipstaff.EvidenceFinding) []string {
		return []string{f.ID, f.Severity, f.Status, tipstaff.Joined(":", f.File, orBlank(f.Line)), f.Title, f.RequiredFix}
	})
	printSlice(o, "commands", e.Commands, "PATH\tOUTCOME\tEXIT\tTOOK\tCOMMAND", func(c tipstaff.EvidenceCommand) []string {
		exit := ""
		if c.ExitCode != nil {
			exit = fmt.Sprint(*c.ExitCode)
		}
		return []string{c.Path, c.Outcome, exit, milliseconds(c.DurationMs), strings.Join(c.Argv, " ")}
	})
	printSlice(o, "artifacts", e.Artifacts, "NAME\tKIND\tPATH\tDIGEST", func(f tipstaff.EvidenceFile) []string { return []string{f.Name, f.Kind, f.Path, f.Digest} })
	printSlice(o, "errors", e.Errors, "SEQ\tPATH\tCODE\tMESSAGE", func(w tipstaff.EvidenceError) []string {
		return []string{fmt.Sprint(w.Seq), w.Path, w.Code, w.Message}
	})
	o.printDecisions(e.Decisions)
	printSlice(o, "bounds", e.Bounds, "BOUND\tUSED\tLIMIT\tRESERVED\tWARNED\tEXCEEDED\tRAISED BY", func(b tipstaff.EvidenceBound) []string {
		var raised []string
		for _, x := range b.Extensions {
			raised = append(raised, x.By)
		}
		used := b.Used
		if b.Held != "" {
			used += " + " + b.Held + " held"
		}
		return []string{b.Name, used, b.Limit, b.Reserved, timeText(b.WarnedAt), timeText(b.ExceededAt), strings.Join(raised, ", ")}
	})
	if d := e.Delivery; d != nil {
		fmt.Fprintln(o.out)
		for _, l := range d.Lines() {
			fmt.Fprintln(o.out, l)
		}
		o.printFields(field{"delivered", timeText(d.AppliedAt)}, field{"follows up", d.FollowupOf})
	}
	if v := e.Verification; v != nil {
		printSlice(o, "checks", &v.Checks, "CHECK\tCURRENT\tEXIT\tCOMMAND\tTREE", func(c tipstaff.EvidenceCheck) []string {
			return []string{c.Name, fmt.Sprint(c.Current), tipstaff.Joined(" ", fmt.Sprint(c.ExitCode), c.Code), strings.Join(c.Argv, " "), c.Tree}
		})
		o.printFields(field{"seq", fmt.Sprint(v.HeadSeq)}, field{"head", v.HeadHash}, field{"envelopes", fmt.Sprint(v.Envelopes)}, field{"key", v.KeyID})
	}
	return nil
}

func milliseconds(ms int64) string { return human(time.Duration(ms) * time.Millisecond) }

// printSlice prints a list of the evidence below its name, with how many there are.
func printSlice[T any](o *showOptions, name string, l *tipstaff.EvidenceList[T], head string, row func(T) []string) {
	if l == nil {
		return
	}
	switch shown := len(l.Items); {
	case l.Total == 0:
		fmt.Fprintf(o.out, "\n%s: none\n", name)
		return
	case shown < l.Total:
		fmt.Fprintf(o.out, "\n%s: %d of %d, from %d; --limit and --offset select others\n", name, shown, l.Total, o.offset+1)
	default:
		fmt.Fprintf(o.out, "\n%s: %d\n", name, l.Total)
	}
	if len(l.Items) == 0 {
		return
	}
	_ = printTable(o.app, l.Items, head, func(item T) string { // as text it only writes to an output, which keeps its error
		cells := row(item)
		for i := range cells {
			cells[i] = clean(cells[i])
		}
		return strings.Join(cells, "\t")
	})
}

func (o *showOptions) printPlan(p *tipstaff.EvidencePlan) {
	if p == nil {
		return
	}
	fields := []field{{"program", programText(p.Program)}, {"summary", p.Summary}, {"stages", strings.Join(p.Stages, ", ")}}
	for _, n := range p.Nodes {
		fields = append(fields, field{"node", tipstaff.Joined("  ", n.Path, n.Kind, n.Label)})
	}
	fields = append(fields, field{"tools", strings.Join(p.Tools, ", ")}, field{"deliver", string(p.Deliver)})
	o.printFields(fields...)
}

func (o *showOptions) printDecisions(d *tipstaff.EvidenceDecisions) {
	if d == nil {
		return
	}
	printSlice(o, "decisions", &d.EvidenceList, "GATE\tKIND\tOPENED\tWAITED\tDECISION\tBY", func(g tipstaff.EvidenceDecision) []string {
		action, by := g.Closed, ""
		if g.Decision != nil {
			action, by = tipstaff.Joined(": ", g.Decision.Action, tipstaff.Joined(" ", g.Decision.Feedback, g.Decision.Note)), tipstaff.Joined(" ", g.Decision.DecidedBy, g.Decision.OnBehalfOf, g.Decision.Via)
		} else if action == "" {
			action = "(open)"
		}
		return []string{g.Key, string(g.Kind), timeText(g.OpenedAt), milliseconds(int64(g.WaitedS * 1000)), action, by}
	})
	for _, w := range d.Waivers {
		fmt.Fprintf(o.out, "waived: %s by %s: %s\n", clean(strings.Join(w.FindingIDs, ", ")), clean(w.Actor), clean(w.Reason))
	}
	for _, h := range d.Overridden {
		fmt.Fprintf(o.out, "went on past a rejection: %s#%d by %s\n", clean(h.Stage), h.Visit, clean(tipstaff.Joined(": ", h.Actor, h.Note)))
	}
}

// showDiagnosis shows what is the matter with a run, and what can be done about it.
func (o *showOptions) showDiagnosis(ctx context.Context, svc tipstaff.Service, run tipstaff.ID) error {
	d, err := tipstaff.Diagnose(ctx, svc, run, time.Now(), o.present())
	if err != nil || o.json {
		return orWrite(o.app, d, err)
	}
	worktree := d.Facts.Worktree
	if p := d.Facts.Present; p != nil && !*p {
		worktree += "  (gone)"
	}
	fields := []field{{"condition", d.Condition}, {"reason", d.Reason}, {"status", d.Status}, {"control", tipstaff.Joined(", ", d.Control, d.ControlReason)},
		{"owner", ownerText(d.Facts.Owner)}, {"worktree", worktree}, {"provider", d.Facts.Provider}}
	for _, path := range d.Facts.Doubts {
		fields = append(fields, field{"in doubt", path})
	}
	if !d.Recommended.IsZero() {
		fields = append(fields, field{"look at", d.Recommended.String()})
	}
	o.printFields(fields...)
	var lines []string
	get := readOnce(ctx, svc)
	for _, c := range d.Next {
		for _, command := range o.commandsOf(get, c) {
			lines = append(lines, command.line+"  # "+clean(command.why))
		}
	}
	o.printCommands("next:", lines)
	return nil
}

func (a *app) printCommands(head string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(a.out, "\n%s\n%s", head, indented(lines))
	}
}

// readOnce reads each run once: every action of every gate asks for its run.
func readOnce(ctx context.Context, svc tipstaff.Service) func(tipstaff.ID) (tipstaff.Run, error) {
	seen := map[tipstaff.ID]tipstaff.Run{}
	return func(id tipstaff.ID) (tipstaff.Run, error) {
		if r, ok := seen[id]; ok {
			return r, nil
		}
		r, err := svc.Get(ctx, id)
		if err == nil {
			seen[id] = r
		}
		return r, err
	}
}

// command is a command line, and what it is for.
type command struct{ line, why string }

// commandsOf are the command lines that do what a call does: of a decision one for each action.
func (a *app) commandsOf(get func(tipstaff.ID) (tipstaff.Run, error), c tipstaff.NextCall) (all []command) {
	run, _ := c.Args["run_id"].(tipstaff.ID)
	switch c.Tool {
	case tipstaff.ToolGateDecide, tipstaff.ToolHandoff, tipstaff.ToolDelivery:
		asks, err := get(run)
		for _, g := range asks.OpenGates {
			if err != nil || g.ID != c.Args["gate_id"].(tipstaff.ID) {
				continue
			}
			for _, action := range g.Available() {
				all = append(all, command{a.decideLine(run, g, action), g.Effect(action)})
			}
		}
		return all
	}
	if line := a.commandOf(get, c); line != "" {
		all = append(all, command{line, c.Why})
	}
	return all
}

// commandOf is a call that decides nothing as a command line; "": there is no such command.
func (a *app) commandOf(get func(tipstaff.ID) (tipstaff.Run, error), c tipstaff.NextCall) string {
	run, _ := c.Args["run_id"].(tipstaff.ID)
	show := func(flags ...string) string { return a.invocation(append([]string{"show", run.String()}, flags...)...) }
	switch c.Tool {
	case tipstaff.ToolRunStart:
		from := c.Args["fork_of"].(tipstaff.ID)
		if c.Kind == tipstaff.ReadyCall {
			return a.invocation("fork", from.String())
		}
		// Only those of a pipeline can be raised by a fork.
		if failed, err := get(from); err == nil && failed.Program.Kind == tipstaff.ProgramPipeline {
			return a.invocation("fork", from.String(), "--raise", tipstaff.BoundField(c.Missing[0].Choices[0])+"=N")
		}
	case tipstaff.ToolRunResume:
		return a.resumeLine(run)
	case tipstaff.ToolRunCancel:
		return a.invocation("cancel", run.String())
	case tipstaff.ToolRunStatus:
		return show()
	case tipstaff.ToolRunEventsTail:
		return a.invocation("events", run.String(), "--after", fmt.Sprint(c.Args["after_seq"]))
	case tipstaff.ToolRunWatch:
		return a.invocation("watch", run.String())
	case tipstaff.ToolRunEvidence:
		return show("--evidence", c.Args["slice"].(string))
	case tipstaff.ToolRunVerify:
		return a.invocation("verify", run.String())
	case tipstaff.ToolRunDiff:
		return show("--diff")
	case tipstaff.ToolDeliveryGate:
		return show("--delivery")
	}
	return ""
}

// printNext ends what is shown of a run with what can be done next.
func (o *showOptions) printNext(ctx context.Context, svc tipstaff.Service, r tipstaff.Run) error {
	d, err := tipstaff.DiagnoseRun(ctx, svc, r, time.Now(), o.present())
	if err != nil {
		return err
	}
	head, asks := "next:", false
	switch d.Condition {
	case tipstaff.DiagnosisDecision, tipstaff.DiagnosisDelivery:
		head, asks = "then:", true
	case tipstaff.DiagnosisResumeReady:
		head = "to go on:"
	case tipstaff.DiagnosisInterrupted:
		head = "interrupted; to go on:"
	case tipstaff.DiagnosisUnreadable, tipstaff.DiagnosisStalled, tipstaff.DiagnosisSuperseded, tipstaff.DiagnosisBlockedWorktree, tipstaff.DiagnosisReplayMismatch:
		head = clean(strings.ReplaceAll(d.Condition, "_", " ")+": "+d.Reason) + "\n" + head
	}
	var lines []string
	get := readOnce(ctx, svc)
	for _, path := range d.Facts.Doubts {
		lines = append(lines, doubtText(path))
	}
	for _, c := range d.Next {
		// What answers the run's own gates stands below them, and what comes then is to resume it.
		if asks && (c.Args["run_id"] == r.ID || c.Tool == tipstaff.ToolRunResume) {
			continue
		}
		for _, command := range o.commandsOf(get, c) {
			lines = append(lines, command.line)
		}
	}
	if asks && r.Condition != tipstaff.Running && r.Status != tipstaff.StatusQueued {
		lines = append(lines, o.resumeLine(topRun(ctx, svc, r).ID))
	}
	o.printCommands(head, lines)
	return nil
}

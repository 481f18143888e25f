package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// diagnosed is a run that something is the matter with.
type diagnosed struct {
	condition string
	make      func(asker) tipstaff.ID
	outcome   string // of run_resume
	code      string // by what that is blocked
	// live says that a process belongs to the run, which no copy of the folder has: everything
	// is asked in one place. release lets the process go on before the calls are made.
	live    bool
	release func(asker)
	daemon  bool // which is asked, and has its own runs alone
}

// parks is a run of a program that waits.
func parks(file string) func(asker) tipstaff.ID {
	return func(a asker) tipstaff.ID { return a.parked(file) }
}

// diagnoses are runs in every condition, by what has happened to them.
var diagnoses = map[string]diagnosed{
	"a record was changed": {condition: tipstaff.DiagnosisUnreadable, outcome: tipstaff.ResumeBlocked, code: "program_unreadable", make: func(a asker) tipstaff.ID {
		return a.changed(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), '"completed"', '"completes"') AS BLOB) WHERE kind = 'plan.step'`)
	}},
	"an unknown record":   {condition: tipstaff.DiagnosisUnreadable, outcome: tipstaff.ResumeBlocked, code: "format_newer", make: asker.newer},
	"its program is gone": {condition: tipstaff.DiagnosisUnreadable, outcome: tipstaff.ResumeBlocked, code: "program_unreadable", make: asker.programless},

	"question":      {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("question.yaml")},
	"approval":      {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("approval.yaml")},
	"clarification": {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("clarification.yaml")},
	"confirmation":  {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("confirmation.yaml")},
	"in doubt":      {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: asker.doubted},
	"bound":         {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("bound.yaml")},
	"handoff":       {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeUndecided, make: parks("handoff.yaml")},
	"one of two is decided": {condition: tipstaff.DiagnosisDecision, outcome: tipstaff.ResumeLaunched, make: func(a asker) tipstaff.ID {
		return a.decided(a.parked("two.yaml"), "approve")
	}},
	"delivery": {condition: tipstaff.DiagnosisDelivery, outcome: tipstaff.ResumeUndecided, make: parks("delivery.yaml")},

	"its process stands still": {condition: tipstaff.DiagnosisStalled, outcome: tipstaff.ResumeRunning, live: true, make: asker.stalled},
	"driven": {condition: tipstaff.DiagnosisActive, outcome: tipstaff.ResumeRunning, live: true,
		make:    func(a asker) tipstaff.ID { run, _ := a.underWay(); return run },
		release: func(a asker) { a.Write("enough", "") }},
	"followed up": {condition: tipstaff.DiagnosisSuperseded, outcome: tipstaff.ResumeSuperseded, make: func(a asker) tipstaff.ID {
		return a.decided(a.parked("delivery.yaml"), "fix", "--feedback", "more")
	}},
	"its worktree is gone":  {condition: tipstaff.DiagnosisBlockedWorktree, outcome: tipstaff.ResumeBlocked, code: tipstaff.BlockWorktree, make: asker.homeless},
	"its program has moved": {condition: tipstaff.DiagnosisReplayMismatch, outcome: tipstaff.ResumeBlocked, code: string(tipstaff.ReplayMismatch), make: asker.mismatched},
	"decided": {condition: tipstaff.DiagnosisResumeReady, outcome: tipstaff.ResumeLaunched, make: func(a asker) tipstaff.ID {
		return a.decided(a.parked("question.yaml"), "approve")
	}},
	"killed":      {condition: tipstaff.DiagnosisInterrupted, outcome: tipstaff.ResumeLaunched, make: asker.killed},
	"a draft":     {condition: tipstaff.DiagnosisNotStarted, outcome: tipstaff.ResumeDraft, live: true, daemon: true, make: asker.drafted},
	"spent":       {condition: tipstaff.DiagnosisBoundExceeded, outcome: tipstaff.ResumeTerminal, make: parks("spends.yaml")},
	"no provider": {condition: tipstaff.DiagnosisProviderPressure, outcome: tipstaff.ResumeTerminal, make: func(a asker) tipstaff.ID { return a.rests(a.started(map[string]any{"message": "hello"})) }},
	"failed":      {condition: tipstaff.DiagnosisFailed, outcome: tipstaff.ResumeTerminal, make: parks("fails.yaml")},
	"cancelled":   {condition: tipstaff.DiagnosisCancelled, outcome: tipstaff.ResumeTerminal, make: asker.cancelled},
	"completed":   {condition: tipstaff.DiagnosisCompleted, outcome: tipstaff.ResumeTerminal, make: parks("works.yaml")},
	"delivered": {condition: tipstaff.DiagnosisCompleted, outcome: tipstaff.ResumeTerminal, make: func(a asker) tipstaff.ID {
		run := a.decided(a.parked("delivery.yaml"), "skip")
		a.tools.call("", "run_resume", map[string]any{"run_id": run})
		return a.rests(run)
	}},
}

// constants are the values of the constants in a file of the root package whose names begin so.
func constants(t *testing.T, file, prefix string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../"+file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) && len(v.Values) == 1 {
			name, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// A run in every condition is diagnosed as such; every call that is said to be ready succeeds
// as it stands, on a copy of its own; and a resume comes to what was diagnosed, with a process
// only where one was launched. A condition or an outcome without a run fails the test.
func TestDiagnosesOfRealRuns(t *testing.T) {
	t.Parallel()
	var conditions, outcomes []string
	for _, c := range diagnoses {
		conditions, outcomes = append(conditions, c.condition), append(outcomes, c.outcome)
	}
	for _, all := range []struct{ made, known []string }{
		{conditions, constants(t, "diagnose.go", "Diagnosis")}, {outcomes, constants(t, "control.go", "Resume")},
	} {
		slices.Sort(all.made)
		if made := slices.Compact(all.made); !slices.Equal(made, all.known) {
			t.Errorf("there are runs for %q, of %q", made, all.known)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(diagnoses)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diagnoses[name].check(t)
		})
	}
}

func (c diagnosed) check(t *testing.T) {
	w := newWorkspace(t, conditions, long)
	w.git()
	w.Env = append(w.Env, "XDG_STATE_HOME="+w.Path("state"))
	w.endLaunched()
	original := asker{w, w.overStdio(t, "2026-07-28", "--decide")}
	run := c.make(original)
	w.Check(original.tools.Close())
	copied := func() asker {
		if c.daemon {
			site := w.serves()
			t.Cleanup(func() { site.Signal(syscall.SIGTERM) })
			return asker{w, w.connectMCP(t, &mcp.StreamableClientTransport{Endpoint: "http://" + site.addr + "/mcp", HTTPClient: &http.Client{Transport: bearing{site.token}}}, "2026-07-28")}
		}
		at := w
		if !c.live {
			at = copyOf(t, w)
			at.Env = w.Env
			at.endLaunched()
		}
		return asker{at, at.overStdio(t, "2026-07-28", "--decide")}
	}
	first := copied()
	d := first.diagnosis(run)
	if d.Condition != c.condition || d.Reason == "" || len(d.Next) == 0 {
		t.Fatalf("it is diagnosed as %+v", d)
	}
	c.resumes(first, run, d)
	if c.release != nil {
		c.release(first)
	}
	for _, next := range d.Next {
		if next.Kind != tipstaff.ReadyCall {
			continue
		}
		at := first
		if !c.live {
			at = copied()
		}
		at.tools.sent(next)
		if !c.live {
			w.Check(at.tools.Close())
		}
	}
}

func (a asker) diagnosis(run tipstaff.ID) (d tipstaff.Diagnosis) {
	a.Helper()
	res, err := a.tools.CallTool(a.tools.Context(), &mcp.CallToolParams{Name: "run_diagnose", Arguments: map[string]any{"run_id": run}})
	a.Check(err)
	raw, err := json.Marshal(res.StructuredContent)
	a.Check(err)
	if res.IsError || json.Unmarshal(raw, &d) != nil {
		a.Fatalf("%s", raw)
	}
	return d
}

// resumes asks for the run to go on. Nothing changes unless a process was launched, and the
// diagnosis has said so before.
func (c diagnosed) resumes(a asker, run tipstaff.ID, d tipstaff.Diagnosis) {
	a.Helper()
	count := func() (records, launches int) {
		return a.count(`SELECT count(*) FROM records`), a.count(`SELECT count(*) FROM records WHERE kind = 'run.launched'`)
	}
	before, launched := count()
	processes := len(a.executing())
	got := a.tools.call("", "run_resume", map[string]any{"run_id": run})
	launches := got.Outcome == tipstaff.ResumeLaunched
	if got.Outcome != c.outcome || got.Code != c.code || (got.Pid != 0) != launches || (len(got.Argv) > 0) != launches {
		a.Errorf("a resume came to %+v", got)
	}
	proposed := slices.ContainsFunc(d.Next, func(n tipstaff.NextCall) bool {
		return n.Tool == tipstaff.ToolRunResume && n.Args["run_id"] == run.String()
	})
	if proposed != launches {
		a.Errorf("it is proposed to resume it: %t; that came to %s", proposed, got.Outcome)
	}
	if (c.outcome == tipstaff.ResumeSuperseded) != (got.Recommended != tipstaff.ID{} && got.Recommended == d.Recommended) {
		a.Errorf("recommended is %s, and %s", got.Recommended, d.Recommended)
	}
	after, now := count()
	if launches != (now > launched) || !launches && (after != before || len(a.executing()) != processes) {
		a.Errorf("%s: %d records were added, %d of them launches; %d processes execute, %d did before", got.Outcome, after-before, now-launched, len(a.executing()), processes)
	}
}

// drafted is a run that a daemon was told of, and that nobody has accepted.
func (a asker) drafted() tipstaff.ID {
	a.Helper()
	site := a.serves("--pipelines", a.Dir)
	defer func() { site.Signal(syscall.SIGTERM); site.Wait() }()
	conn, err := grpc.NewClient(site.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	a.Check(err)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(a.tools.Context(), "authorization", "Bearer "+site.token)
	env, err := pb.NewCoreServiceClient(conn).CreateEnvelope(ctx, &pb.CreateEnvelopeRequest{RawInput: "hello",
		Pipeline: &pb.PipelineConfig{Source: &pb.PipelineConfig_Name{Name: "confirmation"}}})
	a.Check(err)
	run, err := tipstaff.ParseID(env.RunId)
	a.Check(err)
	return run
}

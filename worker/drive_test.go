package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// work drives an Assignment over the memory log, with invocations that come out as a test
// says.
type work struct {
	log     *flow.Mem
	a       Assignment
	results []any // Result or error, in the order of invocations
	made    []string
	inputs  []Input
	out     Output
}

const workRun = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func newWork(results ...any) *work {
	b := &work{log: flow.NewMem(), results: results}
	b.a = Assignment{Settled: Settled{Worker: "w", Type: "claude", Posture: Auto, Preamble: "PREAMBLE\n", Review: tipstaff.ReviewNone}}
	b.a.Name, b.a.Description = "Mend it", "Mend the thing."
	return b
}

func (b *work) job() flow.Job {
	act := flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		l := a.Local.(*Local)
		var in Input
		if err := json.Unmarshal(a.Input, &in); err != nil {
			return flow.Done{}, err
		}
		b.inputs = append(b.inputs, in)
		b.made = append(b.made, fmt.Sprintf("%s %s s%d i%d: %s", a.Path, strings.TrimPrefix(a.Name, "worker."), l.Session, l.Iteration, l.Prompt))
		if len(b.results) == 0 {
			return flow.Done{}, errors.New("no more results")
		}
		r := b.results[0]
		b.results = b.results[1:]
		if err, ok := r.(error); ok {
			return flow.Done{}, err
		}
		return flow.Done{Value: flow.JSON(r)}, nil
	}}
	return flow.Job{Run: workRun, Root: "root", Input: json.RawMessage("{}"), Owner: flow.Owner{Kind: "test", Pid: 1},
		Acts: map[string]flow.Activity{SpawnActivity: act, ResumeActivity: act,
			TaskActivity: {Run: func(context.Context, flow.Attempt) (flow.Done, error) {
				return flow.Done{Value: json.RawMessage(`"010"`)}, nil
			}}},
		Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			out, err := Drive(fc.At("work"), b.a)
			b.out = out
			return flow.JSON(out), err
		},
		Finish: func(flow.Outcome) ([]flow.Draft, error) { return nil, nil },
	}
}

// drive takes the work as far as it goes, and then once more over its records alone.
func (b *work) drive(t *testing.T) flow.Outcome {
	t.Helper()
	out, err := flow.New(b.log, nil).Drive(t.Context(), b.job())
	if err != nil {
		t.Fatal(err)
	}
	live := b.out
	h, err := b.log.Load(t.Context(), workRun)
	if err != nil {
		t.Fatal(err)
	}
	job := b.job()
	job.Acts = nil
	again, err := flow.Replay(h).Drive(t.Context(), job)
	if err != nil || again.Status != out.Status || string(flow.JSON(b.out)) != string(flow.JSON(live)) {
		t.Errorf("over its records: %v %+v %v, not %v", again.Status, b.out, err, out.Status)
	}
	return out
}

// ends drives work that is to come to an end of this kind.
func (b *work) ends(t *testing.T, want flow.Status, code string) {
	t.Helper()
	out := b.drive(t)
	var failed *flow.Error
	if errors.As(out.Err, &failed); out.Status != want || code != "" && (failed == nil || failed.Code != code) {
		t.Fatalf("%v: %v, want %v %s", out.Status, out.Err, want, code)
	}
}

// decide answers the gate at a path.
func (b *work) decide(t *testing.T, key string, d flow.Decision) tipstaff.GateOpened {
	t.Helper()
	for _, r := range slices.Backward(b.log.Records(workRun)) {
		if r.Kind != flow.KindGateOpened || r.Path != key {
			continue
		}
		opened, err := flow.ReadOpened(r.Kind, r.Body)
		if err == nil {
			d.By, d.Via = "ann", "command"
			err = b.log.Decide(workRun, opened.Gate, d)
		}
		if err != nil {
			t.Fatal(err)
		}
		return opened
	}
	t.Fatalf("there is no gate %s", key)
	return tipstaff.GateOpened{}
}

// moves are those of the task that the flow itself made.
func (b *work) moves() (moves []string) {
	for _, r := range b.log.Records(workRun) {
		if r.Kind == string(tipstaff.KindTaskStatus) {
			var m tipstaff.TaskMoved
			_ = json.Unmarshal(r.Body, &m)
			moves = append(moves, fmt.Sprintf("%s>%s %d", m.From, m.To, m.Iteration))
		}
	}
	return moves
}

func workDone(text string) Result {
	return Result{Outcome: Reported, SessionID: "s", Text: text, Report: Report{Status: tipstaff.TaskNeedsReview, Reason: "done"}, Steps: 2, ToolCalls: 3}
}

func TestWorkThatIsReportedIsDone(t *testing.T) {
	b := newWork(workDone("It is mended."))
	b.ends(t, flow.Completed, "")
	if len(b.made) != 1 || !strings.HasPrefix(b.made[0], "root/work/worker#1 spawn s1 i1: PREAMBLE\n") || !strings.Contains(b.made[0], "Mend the thing.") {
		t.Errorf("%q", b.made)
	}
	if b.out.Text != "It is mended." || b.out.Usage.LLMCalls != 2 || b.out.Usage.ToolCalls != 3 {
		t.Errorf("%+v", b.out)
	}
	if got := b.moves(); !slices.Equal(got, []string{"needs_review>completed 1"}) {
		t.Errorf("moves %q", got)
	}
}

func TestAQuestionIsAnsweredAndTheSessionGoesOn(t *testing.T) {
	b := newWork(Result{Outcome: Paused, SessionID: "s", Report: Report{Status: tipstaff.TaskPaused, Question: "Which one?", Options: []string{"a", "b"}}}, workDone("Took a."))
	b.ends(t, flow.ParkedRun, "")
	opened := b.decide(t, "root/work/worker#1/question", flow.Decision{Action: "answer", Answer: json.RawMessage(`"a, please"`)})
	if !strings.Contains(string(opened.Subject), "Which one?") {
		t.Errorf("asked about %s", opened.Subject)
	}
	b.ends(t, flow.Completed, "")
	if !strings.HasPrefix(b.made[1], "root/work/worker#2 resume s1 i1: You asked:\n\n> Which one?\n") || !strings.Contains(b.made[1], "a, please") {
		t.Errorf("%q", b.made[1])
	}
}

func TestAQuestionThatIsDeniedEndsTheWork(t *testing.T) {
	b := newWork(Result{Outcome: Paused, SessionID: "s", Report: Report{Status: tipstaff.TaskPaused, Question: "Which one?"}})
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/worker#1/question", flow.Decision{Action: "deny"})
	b.ends(t, flow.Failed, "gate_denied")
	if got := b.moves(); !slices.Equal(got, []string{"paused>abandoned 1"}) {
		t.Errorf("moves %q", got)
	}
}

func TestEveryRequestIsDecidedBeforeTheWorkerGoesOn(t *testing.T) {
	request := func(tool, digest string) Request {
		return Request{Tool: tool, ArgsDigest: digest, Args: json.RawMessage(`{"command":"ls"}`), Class: "once", Rule: "r"}
	}
	b := newWork(Result{Outcome: Approval, SessionID: "s", CLIVersion: "2.1", Pending: []Request{request("worker-claude/Bash", "sha256:1"), request("worker-claude/Edit", "sha256:2"), request("worker-claude/Bash", "sha256:3")}},
		workDone("ok"))
	b.ends(t, flow.ParkedRun, "")
	if got := b.moves(); !slices.Equal(got, []string{"in_progress>paused 1"}) {
		t.Errorf("moves %q", got)
	}
	b.decide(t, "root/work/worker#1/approval#1", flow.Decision{Action: "allow"})
	b.decide(t, "root/work/worker#1/approval#2", flow.Decision{Action: "deny", Note: "not that file"})
	b.ends(t, flow.ParkedRun, "")
	if len(b.made) != 1 {
		t.Fatalf("it went on before all was decided: %q", b.made)
	}
	b.decide(t, "root/work/worker#1/approval#3", flow.Decision{Action: "allow_all"})
	b.ends(t, flow.Completed, "")
	want := []Grant{{Tool: "worker-claude/Bash", ArgsDigest: "sha256:1"}, {Tool: "worker-claude/Bash", ArgsDigest: "sha256:3", All: true, Class: "once"}}
	if !reflect.DeepEqual(b.inputs[1].Grants, want) {
		t.Errorf("granted %+v", b.inputs[1].Grants)
	}
	if !strings.Contains(b.made[1], "not that file") || !strings.Contains(b.made[1], "sha256:2") {
		t.Errorf("told %q", b.made[1])
	}
}

func TestAWorkerThatSaysNothingIsAskedOnce(t *testing.T) {
	silent := Result{Outcome: NoReport, SessionID: "s", Text: "I am done."}
	b := newWork(silent, workDone("Reported."))
	b.ends(t, flow.Completed, "")
	if !strings.Contains(b.made[1], "resume") || !strings.HasSuffix(b.made[1], textNudge) {
		t.Errorf("%q", b.made[1])
	}
	b = newWork(silent, silent)
	b.ends(t, flow.Failed, "worker_no_report")
	if len(b.made) != 2 {
		t.Errorf("%q", b.made)
	}
}

func TestEveryOutcome(t *testing.T) {
	for _, c := range []struct {
		res  Result
		code string // of the failure; "": it is done
		runs int
	}{
		{Result{Outcome: StartFailed}, "worker_start_failed", 1},
		{Result{Outcome: ChannelFailed}, "worker_channel", 1},
		{Result{Outcome: Orphan}, "worker_orphan", 1},
		{Result{Outcome: Limit, Which: "wall"}, "worker_limit", 1},
		{Result{Outcome: Limit, Which: "cost_usd", Bound: "cost_usd"}, "bound_exceeded", 1},
		{Result{Outcome: SessionConflict}, "worker_session_conflict", 2},
		{Result{Outcome: SessionLost}, "worker_session_lost", 1},
		{Result{Outcome: Empty}, "worker_empty", 1},
		{Result{Outcome: Failed}, "worker_error", 1},
		{Result{Outcome: Exited, Exit: tipstaff.WorkerExit{Code: 3}}, "worker_exit", 1},
		{Result{Outcome: Truncated}, "worker_truncated", 1},
		{Result{Outcome: Denied}, "worker_denied", 1},
		{Result{Outcome: Orphan, Report: Report{Status: tipstaff.TaskNeedsReview}}, "worker_orphan", 1},
		{Result{Outcome: Reported, Bound: "model_calls", Report: Report{Status: tipstaff.TaskNeedsReview}}, "bound_exceeded", 1},
		{Result{Outcome: Failed, Report: Report{Status: tipstaff.TaskNeedsReview}}, "", 1},
		{Result{Outcome: Exited, Report: Report{Status: tipstaff.TaskNeedsReview}}, "", 1},
		{Result{Outcome: Truncated, Report: Report{Status: tipstaff.TaskNeedsReview}}, "", 1},
	} {
		b := newWork(c.res, c.res)
		want := flow.Failed
		if c.code == "" {
			want = flow.Completed
		}
		b.ends(t, want, c.code)
		if len(b.made) != c.runs {
			t.Errorf("%s: %q", c.res.Outcome, b.made)
		}
		if moves := b.moves(); c.code != "" && (len(moves) == 0 || !strings.HasSuffix(moves[len(moves)-1], "abandoned 1")) {
			t.Errorf("%s: moves %q", c.res.Outcome, moves)
		}
		if moves := b.moves(); slices.Contains(moves, "needs_review>paused 1") {
			t.Errorf("%s: what was reported does not stay so: %q", c.res.Outcome, moves)
		}
	}
}

// What the run had left was reached, but part of its bound is held for invocations that
// were lost: the worker goes on, and the next invocation asks for more before it begins.
func TestAWorkerGoesOnWhereKillsHadLeftTooLittle(t *testing.T) {
	stopped := Result{Outcome: Limit, Which: "cost_usd", Bound: "cost_usd", Held: true, SessionID: "s"}
	b := newWork(stopped, Result{Outcome: Reported, SessionID: "s", Report: Report{Status: tipstaff.TaskNeedsReview}})
	b.ends(t, flow.Completed, "")
	if len(b.made) != 2 || !strings.Contains(b.made[1], "resume") || !strings.HasSuffix(b.made[1], textStopped) {
		t.Errorf("invocations %q", b.made)
	}
	b = newWork(stopped, &flow.Error{Code: flow.CodeBoundExceeded, Bound: "cost_usd", NotSent: true}) // nobody gave more
	b.ends(t, flow.Failed, flow.CodeBoundExceeded)
}

func TestWhatIsRefusedBeforeItStartsHasItsOwnCode(t *testing.T) {
	b := newWork(&flow.Error{Code: "worker_unavailable", Message: "no claude on PATH", NotSent: true})
	b.ends(t, flow.Failed, "worker_unavailable")
	b = newWork(&flow.Error{Code: flow.CodeBoundExceeded, Bound: "cost_usd", NotSent: true})
	b.ends(t, flow.Failed, flow.CodeBoundExceeded)
}

func TestAFailureAsksWhereItIsToldTo(t *testing.T) {
	exited := Result{Outcome: Exited, SessionID: "s", Exit: tipstaff.WorkerExit{Code: 3}, StderrTail: "boom"}
	b := newWork(exited, exited, exited, workDone("At last."))
	b.a.OnFailure = AskOnFailure
	b.ends(t, flow.ParkedRun, "")
	opened := b.decide(t, "root/work/worker#1/failure", flow.Decision{Action: "retry", Answer: json.RawMessage(`{"text":"Try the other way."}`)})
	if !strings.Contains(string(opened.Subject), "boom") {
		t.Errorf("asked about %s", opened.Subject)
	}
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/worker#2/failure", flow.Decision{Action: "retry", Answer: json.RawMessage(`{"fresh":true}`)})
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/worker#3/failure", flow.Decision{Action: "retry"})
	b.ends(t, flow.Completed, "")
	for i, want := range []string{"worker#1 spawn s1", "worker#2 resume s1 i1: Try the other way.", "worker#3 spawn s2 i1: PREAMBLE", "worker#4 resume s2"} {
		if !strings.Contains(b.made[i], want) {
			t.Errorf("invocation %d is %q, want %q", i+1, b.made[i], want)
		}
	}
}

func TestAPersonRejectsAndThenApproves(t *testing.T) {
	b := newWork(workDone("First."), workDone("Second."))
	b.a.Review, b.a.MaxIterations = tipstaff.ReviewPerson, 1
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/review#1", flow.Decision{Action: tipstaff.ActionRetry, Feedback: "Mind the  spaces.\nAll of them."})
	b.ends(t, flow.ParkedRun, "")
	if !strings.Contains(b.made[1], "worker#2 resume s1 i2:") || !strings.Contains(b.made[1], "Mind the  spaces.\nAll of them.") {
		t.Errorf("the feedback is not told word for word: %q", b.made[1])
	}
	b.decide(t, "root/work/review#2", flow.Decision{Action: tipstaff.ActionContinue})
	b.ends(t, flow.Completed, "")
	if got := b.moves(); !slices.Equal(got, []string{"needs_review>in_progress 2", "needs_review>completed 2"}) {
		t.Errorf("moves %q", got)
	}
}

func TestAPersonHalts(t *testing.T) {
	b := newWork(workDone("First."))
	b.a.Review = tipstaff.ReviewPerson
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/review#1", flow.Decision{Action: tipstaff.ActionHalt})
	out := b.drive(t)
	var halted *Halted
	if !errors.As(out.Err, &halted) || halted.Decision.By != "ann" {
		t.Errorf("%v: %v", out.Status, out.Err)
	}
}

func TestARoleReviews(t *testing.T) {
	verdict := func(v string) Result {
		r := workDone("Judged.")
		r.Report.Verdict = &Verdict{Verdict: v, Summary: "the " + v + " one", Findings: json.RawMessage(`[{"title":"x"}]`)}
		return r
	}
	b := newWork(workDone("First."), verdict("rejected"), workDone("Second."), verdict("approved"))
	b.a.Review, b.a.Reviewer = "reviewer", &Settled{Worker: "r", Type: "codex", Posture: ReadOnly, Preamble: "REVIEW\n"}
	b.ends(t, flow.Completed, "")
	for i, want := range []string{"root/work/worker#1 spawn", "root/work/review#1/worker#1 spawn s1 i1: REVIEW", "root/work/worker#2 resume s1 i2", "root/work/review#2/worker#1 spawn"} {
		if !strings.HasPrefix(b.made[i], want) {
			t.Errorf("invocation %d is %q, want %q", i+1, b.made[i], want)
		}
	}
	if !strings.Contains(b.made[2], "the rejected one") || !strings.Contains(b.made[2], `"title":"x"`) {
		t.Errorf("the worker is told %q", b.made[2])
	}
}

func TestAReviewerWithoutAVerdictLeavesItToAPerson(t *testing.T) {
	for name, review := range map[string]Result{"none": workDone("Hm."), "it fails": {Outcome: Exited}} {
		b := newWork(workDone("First."), review)
		b.a.Review, b.a.Reviewer = "reviewer", &Settled{Worker: "r", Type: "codex"}
		b.ends(t, flow.ParkedRun, "")
		b.decide(t, "root/work/review#1", flow.Decision{Action: tipstaff.ActionContinue})
		b.ends(t, flow.Completed, "")
		if b.out.Text != "First." {
			t.Errorf("%s: %+v", name, b.out)
		}
	}
}

func TestIterationsEnd(t *testing.T) {
	rejected := workDone("Judged.")
	rejected.Report.Verdict = &Verdict{Verdict: tipstaff.VerdictRejected}
	b := newWork(workDone("1"), rejected, workDone("2"), rejected)
	b.a.Review, b.a.Reviewer, b.a.MaxIterations = "reviewer", &Settled{Worker: "r"}, 2
	out := b.drive(t)
	var failed *flow.Error
	if !errors.As(out.Err, &failed) || failed.Code != flow.CodeBoundExceeded || failed.Bound != "task.iterations" {
		t.Fatalf("%v", out.Err)
	}
	b = newWork(workDone("1"), rejected, workDone("2"), rejected)
	b.a.Review, b.a.Reviewer, b.a.MaxIterations, b.a.OnBound = "reviewer", &Settled{Worker: "r"}, 1, AskOnBound
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/limit#1", flow.Decision{Action: "extend", Answer: json.RawMessage(`{"task.iterations":1}`)})
	b.ends(t, flow.ParkedRun, "")
	b.decide(t, "root/work/limit#2", flow.Decision{Action: "stop"})
	b.ends(t, flow.Failed, flow.CodeBoundExceeded)
}

func TestASessionIsKeptForTheNextVisit(t *testing.T) {
	b := newWork(workDone("First visit."))
	b.a.Keep = true
	b.ends(t, flow.Completed, "")
	kept := b.out.Kept
	if kept == nil || kept.Path != "root/work" || len(b.moves()) != 0 {
		t.Fatalf("kept %+v, moves %q", kept, b.moves())
	}
	b = newWork(workDone("Second visit."))
	b.a.Keep, b.a.Kept, b.a.Description = true, kept, "Again, please."
	b.ends(t, flow.Completed, "")
	if b.made[0] != "root/work/worker#1 resume s1 i2: Again, please." {
		t.Errorf("%q", b.made[0])
	}
}

func TestWhatIsGivenForAnInvocationInDoubt(t *testing.T) {
	for answer, want := range map[string]Output{
		`{"text":"It was done."}`:                         {Text: "It was done."},
		`{"data":{"n":1},"text":"x"}`:                     {Text: "x", Data: json.RawMessage(`{"n":1}`)},
		`{"verdict":{"verdict":"approved","summary":""}}`: {Verdict: &Verdict{Verdict: "approved"}},
	} {
		b := newWork(errors.New("the connection broke"))
		b.ends(t, flow.ParkedRun, "")
		b.decide(t, "root/work/worker#1/in_doubt", flow.Decision{Action: "use_result", Answer: json.RawMessage(answer)})
		b.ends(t, flow.Completed, "")
		if b.out.Text != want.Text || string(b.out.Data) != string(want.Data) || (b.out.Verdict == nil) != (want.Verdict == nil) {
			t.Errorf("%s: %+v", answer, b.out)
		}
	}
}

// A result that cannot be read fails no task for good: what was done stays, and the run goes
// on once the program is mended.
func TestAResultThatCannotBeReadIsMisuse(t *testing.T) {
	for name, path := range map[string]string{TaskActivity: "root/work/task", SpawnActivity: "root/work/worker#1"} {
		t.Run(name, func(t *testing.T) {
			b := newWork()
			job := b.job()
			job.Acts[name] = flow.Activity{Run: func(context.Context, flow.Attempt) (flow.Done, error) {
				return flow.Done{Value: json.RawMessage(`7`)}, nil
			}}
			out, err := flow.New(b.log, nil).Drive(t.Context(), job)
			if m := (*flow.Misuse)(nil); err != nil || out.Status != flow.Interrupted || out.Reason != "misuse" || !errors.As(out.Err, &m) || m.Path != path {
				t.Errorf("%s %s: %v %v", out.Status, out.Reason, out.Err, err)
			}
		})
	}
}

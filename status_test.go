package tipstaff

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

func TestStatusTable(t *testing.T) {
	now := dawn.Add(time.Hour)
	alive := &Owner{Kind: "foreground", Pid: 7, Alive: true, HeartbeatAt: now}
	dead := &Owner{Kind: "foreground", Pid: 7, HeartbeatAt: now.Add(-time.Minute)}
	open := func(kinds ...GateKind) (gates []Gate) {
		for _, k := range kinds {
			gates = append(gates, Gate{Kind: k})
		}
		return gates
	}
	expired := []Gate{{Kind: Question, ExpiresAt: now}}
	for _, c := range []struct {
		name      string
		state     State
		facts     Facts
		owned     Kind
		open      []Gate
		condition Condition
		status    string
	}{
		{"completed", Completed, Facts{}, KindRunResumed, nil, "", "completed"},
		{"failed", Failed, Facts{}, KindRunStarted, nil, "", "failed"},
		{"cancelled", Cancelled, Facts{}, KindRunParked, nil, "", "cancelled"},
		{"ended, and its owner still lives", Completed, Facts{Owner: alive}, KindRunStarted, nil, "", "completed"},
		{"ended, with a gate that nobody closed", Failed, Facts{}, KindRunParked, open(Question), "", "failed"},
		{"a draft", Drafting, Facts{}, "", nil, "", "drafting"},
		{"a draft that is being drafted", Drafting, Facts{Owner: alive}, KindRunStarted, nil, Running, "running"},
		{"a draft that is being launched", Drafting, Facts{Launching: true}, "", nil, Running, "running"},
		{"a draft whose owner died", Drafting, Facts{Owner: dead}, KindRunStarted, nil, Interrupted, "interrupted"},

		{"a living owner", Executing, Facts{Owner: alive}, KindRunStarted, nil, Running, "running"},
		{"a living owner with open gates", Executing, Facts{Owner: alive}, KindRunStarted, open(Handoff), Running, "running"},
		{"a launch that is pending", Executing, Facts{Launching: true}, KindRunParked, nil, Running, "running"},
		{"a living owner before the queue", Executing, Facts{Owner: alive, Queued: &Queued{Place: 1}}, KindRunStarted, nil, Running, "running"},

		{"queued", Executing, Facts{Queued: &Queued{Place: 1}}, "", nil, Waiting, "queued"},
		{"queued before its gates", Executing, Facts{Queued: &Queued{Place: 1}}, KindRunParked, open(Question), Waiting, "queued"},

		{"a handoff", Executing, Facts{}, KindRunParked, open(Question, Delivery, Handoff), Waiting, "awaiting_phase_handoff"},
		{"a delivery", Executing, Facts{}, KindRunParked, open(Question, Delivery), Waiting, "awaiting_delivery"},
		{"a question", Executing, Facts{}, KindRunParked, open(Question), Waiting, "awaiting_decision"},
		{"an approval", Executing, Facts{}, KindRunParked, open(Approval), Waiting, "awaiting_decision"},
		{"a clarification", Clarifying, Facts{}, KindRunParked, open(Clarification), Waiting, "awaiting_decision"},
		{"a confirmation", Proposed, Facts{}, KindRunParked, open(Confirmation), Waiting, "awaiting_decision"},
		{"in doubt", Executing, Facts{}, KindRunParked, open(InDoubt), Waiting, "awaiting_decision"},
		{"a bound", Executing, Facts{}, KindRunParked, open(Bound), Waiting, "awaiting_decision"},
		{"a gate whose owner died", Executing, Facts{Owner: dead}, KindRunStarted, open(Question), Waiting, "awaiting_decision"},

		{"queued by a daemon that is gone", Executing, Facts{}, KindRunQueued, nil, Waiting, "awaiting_resume"},
		{"queued by a daemon that is gone, with a gate", Executing, Facts{}, KindRunQueued, open(Question), Waiting, "awaiting_decision"},
		{"never launched", Executing, Facts{}, "", nil, Waiting, "awaiting_resume"},
		{"parked, all decided", Executing, Facts{}, KindRunParked, nil, Waiting, "awaiting_resume"},
		{"parked, its gate expired", Executing, Facts{}, KindRunParked, expired, Waiting, "awaiting_resume"},

		{"its owner died", Executing, Facts{Owner: dead}, KindRunStarted, nil, Interrupted, "interrupted"},
		{"its owner died after a resume", Executing, Facts{Owner: dead}, KindRunResumed, nil, Interrupted, "interrupted"},
		{"found interrupted", Executing, Facts{}, KindRunInterrupted, nil, Interrupted, "interrupted"},
		{"interrupted, its gate expired", Executing, Facts{}, KindRunInterrupted, expired, Interrupted, "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.State = c.state
			got := Status(c.facts, &Fold{Owned: c.owned}, c.open, now)
			if got.Condition != c.condition || got.Status != c.status || got.State != c.state {
				t.Errorf("%s, condition %q, status %q; want condition %q, status %q", got.State, got.Condition, got.Status, c.condition, c.status)
			}
		})
	}
}

func TestDecisionState(t *testing.T) {
	now := dawn
	gate := Gate{Kind: Question, ExpiresAt: now.Add(time.Second)}
	for _, c := range []struct {
		name string
		fold Fold
		open []Gate
		now  time.Time
		want string
	}{
		{"no gate ever", Fold{}, nil, now, "none"},
		{"one is undecided", Fold{Opened: 2, Decided: 1}, []Gate{gate}, now, "missing"},
		{"all are decided", Fold{Opened: 1, Decided: 1}, nil, now, "recorded"},
		{"it expired", Fold{Opened: 1}, []Gate{gate}, now.Add(time.Second), "recorded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Status(Facts{State: Executing}, &c.fold, c.open, c.now)
			if got.DecisionState != c.want {
				t.Errorf("%s, want %s", got.DecisionState, c.want)
			}
			if (len(got.OpenGates) > 0) != (c.want == "missing") {
				t.Errorf("open gates %v", got.OpenGates)
			}
		})
	}
}

func TestStatusShowsWhatTheFoldHolds(t *testing.T) {
	j := story()
	now := j[24].At.Add(time.Hour)
	got := Status(Facts{ID: testID(1), Name: "notes", Head: "sha256:h"}, j.fold(), nil, now)
	want := Run{
		ID: testID(1), Title: "Notes", User: "ada", State: Completed, Status: "completed", Outcome: "success",
		Program: Program{Kind: "plan", Name: "notes", Digest: "sha256:p"}, Step: "root/go",
		CreatedAt: j[0].At, UpdatedAt: j[24].At, EndedAt: j[24].At, HeadSeq: 25, Head: "sha256:h", Origin: "foreground",
		Control: InspectAlone, ControlReason: ForegroundRun, OpenGates: []Gate{}, DecisionState: "recorded",
		Bounds: BoundsStatus{
			"tool_calls": {Limit: 2, Limited: true, Used: 2},
			"cost_usd":   {Limit: 1e9, Limited: true},
			"wall_time":  {Limit: 60_000, Limited: true, Used: 13_000},
			"agent_hops": {},
			"iterations": {},
		},
		Lifecycle: Lifecycle(j),
		Life:      j.fold().life("", now),
		Artifacts: []EvidenceFile{{Name: "outputs", Kind: "outputs", Digest: "sha256:o"}},
	}
	a, _ := json.MarshalIndent(got, "", " ")
	b, _ := json.MarshalIndent(want, "", " ")
	if string(a) != string(b) {
		t.Errorf("got %s\nwant %s", a, b)
	}
}

func TestStatusCountsTimeAndHops(t *testing.T) {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{}`)
	j.add(KindPlanStep, "root/a", 1, `{"status":"started"}`)
	j.add(KindPlanStep, "root/b", 1, `{"status":"started"}`)
	j.add(KindFollowupCreated, "", 0, `{}`)
	j.add(KindEffectIntended, "root/a/model#1", 1, `{"reserve":{"tokens":500}}`)
	f := j.fold()
	started, last := j[4].At, j[len(j)-1].At
	later := started.Add(30 * time.Second)

	living := Status(Facts{Owner: &Owner{Alive: true}}, f, nil, later)
	dead := Status(Facts{Owner: &Owner{}}, f, nil, later)
	if got := living.Bounds[BoundWallTime].Used; got != 30_000 {
		t.Errorf("a run that is driven has used %d ms", got)
	}
	if got, want := dead.Bounds[BoundWallTime].Used, last.Sub(started).Milliseconds(); got != want {
		t.Errorf("a run whose owner died has used %d ms, want %d", got, want)
	}
	if hops, rounds := living.Bounds[BoundAgentHops].Used, living.Bounds[BoundIterations].Used; hops != 2 || rounds != 1 {
		t.Errorf("hops %d and iterations %d", hops, rounds)
	}
	if got := living.Bounds[BoundTokens]; got != (BoundStatus{Reserved: 500}) {
		t.Errorf("tokens %+v", got)
	}
}

// The bounds that a pipeline watches over itself stay as they were set, whatever the
// engine says of its own.
func TestStatusShowsTheBoundsThatAPipelineWatchesOver(t *testing.T) {
	var j records
	j.add(KindIntentDraft, "", 0, `{"program_kind":"pipeline","program_digest":"sha256:p","inputs":{},"bounds":{"iterations":3,"stages":4,"tool_calls":2},`+
		`"pipeline":{"envelope_id":"env_1","request_id":"req_1","thread_id":"t","version":1},"rollback":{"counters":{"current_stage_number":2}}}`)
	j.add(KindRunStarted, "", 1, `{"kind":"foreground","epoch":1,"pid":7}`)
	want := func(when string, iterations, stages, calls, round int64) {
		t.Helper()
		got := Status(Facts{}, j.fold(), nil, time.Now()).Bounds
		if got[BoundIterations].Limit != iterations || got[BoundStages].Limit != stages || got[BoundToolCalls].Limit != calls || got[BoundStages].Used != round {
			t.Errorf("%s: %+v, want at most %d iterations, %d rounds, of which this is %d, and %d calls", when, got, iterations, stages, round, calls)
		}
	}
	want("a run that went back", 3, 4, 2, 2)
	j.add(KindTurnMerged, "", 1, `{"version":2,"stage_number":3}`)
	j.add(KindRunContinued, "", 1, `{"state":{},"used":{},"limit":{"tool_calls":5},"wall_ms":0}`)
	want("once its history began afresh", 3, 4, 5, 3)
	for i, c := range []struct {
		answer             string
		iterations, stages int64
	}{
		{`{"max_stages":1}`, 3, 5}, {`{"iterations":2}`, 5, 5}, {`{"max_iterations":1}`, 6, 5},
	} {
		gate := fmt.Sprintf("G%d", i)
		j.add(KindPolicyGate, "a#1/bound", 0, `{"gate":"`+gate+`","gate_kind":"bound","actions":["extend","stop"],"deny":"stop"}`)
		j.add(KindPolicyGateResolve, "a#1/bound", 0, `{"gate":"`+gate+`","action":"extend","answer":`+c.answer+`,"via":"command"}`)
		j.add(KindGateTaken, "a#1/bound", 1, `{"gate":"`+gate+`","seq":9}`)
		want("extended by "+c.answer, c.iterations, c.stages, 5, 3)
	}
}

// A fold may serve many who ask: none of them can change it for the others.
func TestStatusSharesNothingWithTheFold(t *testing.T) {
	fold := Fold{
		Failure: &Failure{Reason: "r"}, Pipeline: &PipelineStatus{Version: 1},
		Lineage: &Lineage{Relation: "fork", Children: []ID{NewID(dawn)}},
		Ledger:  Ledger{Limit: flow.Use{BoundTokens: 7}, Used: flow.Use{BoundTokens: 1}},
	}
	before, err := json.Marshal(fold)
	if err != nil {
		t.Fatal(err)
	}
	run := Status(Facts{}, &fold, nil, dawn)
	run.Error.Reason, run.Pipeline.Version, run.Lineage.Relation, run.Lineage.Children[0] = "", 2, "", ID{}
	clear(run.Bounds)
	if after, err := json.Marshal(fold); err != nil || string(after) != string(before) {
		t.Errorf("the fold was %s and is %s (%v)", before, after, err)
	}
}

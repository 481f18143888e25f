package tipstaff

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// reviewed is a pipeline whose critic objects twice, with everything that evidence tells of.
func reviewed() records {
	var j records
	finding := func(visit int64, id, severity, title string) string {
		return body(FindingRecorded{Stage: "critic", Visit: visit, StageFinding: StageFinding{ID: id, Severity: severity, Title: title}})
	}
	j.add(KindIntentDraft, "", 0, `{"program_kind":"pipeline","program_digest":"sha256:q","bounds":{"tool_calls":2},"title":"Review","pipeline":{},"followup":{"parent_run_id":"P"}}`)
	j.add(KindRunStarted, "", 1, `{}`)
	j.add(KindWorktreeCreated, "deliver", 1, `{"path":"/w","branch":"b","base":"c0"}`)
	j.add(KindStageStarted, "work#1", 1, `{"stage":"work","visit":1,"attempt":1}`)
	j.add(KindEffectIntended, "work#1/tool#1.1", 1, `{"name":"tool.call","class":"once","attempt":1,"input":{"uri":"mcp://builtin/exec@1.0.0","args":{"argv":["sh","`+strings.Repeat("x", 600)+`"],"cwd":"src"}}}`)
	j.add(KindEffectFinished, "work#1/tool#1.1", 1, `{"name":"tool.call","attempt":1,"value":{"structured":{"exit_code":0}},"ms":12}`)
	j.add(KindEffectIntended, "work#1/tool#1.2", 1, `{"name":"tool.call","class":"once","attempt":1,"input":{"args":{"argv":["false"]}}}`)
	j.add(KindEffectFinished, "work#1/tool#1.2", 1, `{"name":"tool.call","attempt":1,"error":{"code":"tool_error","message":"false ended","detail":{"output":{"exit_code":1}},"answered":true}}`)
	j.add(KindEffectFailed, "work#1/model#1", 1, `{"name":"model.call","attempt":1,"error":{"code":"rate_limited","message":"wait","after_ms":60000}}`)
	j.add(KindAgentToolCallRequest, "work#1/worker#1", 1, body(AgentToolCallRequest{ID: "t1", Arguments: json.RawMessage(`{"command":"go test ./..."}`), Facts: json.RawMessage(`{}`), Inside: Inside{Invocation: "I"}}))
	j.add(KindAgentToolCallResult, "work#1/worker#1", 1, body(AgentToolCallResult{ID: "t1", IsError: true, DurationMS: 3, Inside: Inside{Invocation: "I"}}))
	j.add(KindTaskOutput, "work#1/worker#1", 1, body(TaskBrought{Output: TaskOutput{Kind: "file", Path: "a.txt", SHA256: "sha256:a"}}))
	j.add(KindWorkerEnded, "work#1/worker#1", 1, body(WorkerEnded{Invocation: "I", Outcome: "limit", Which: "wall"}))
	j.add(KindStageFinished, "work#1", 1, `{"stage":"work","visit":1,"outcome":"success","attempts":2,"duration_ms":4000,"output":{}}`)
	j.add(KindStageStarted, "critic#1", 1, `{"stage":"critic","visit":1,"attempt":1}`)
	j.add(KindStageFinished, "critic#1", 1, `{"stage":"critic","visit":1,"outcome":"success","attempts":1}`)
	j.add(KindFindingRecorded, "critic#1", 1, finding(1, "critic#1.f1", "P1", "It leaks"))
	j.add(KindFindingRecorded, "critic#1", 1, finding(1, "critic#1.f2", "P2", "It creaks"))
	j.add(KindPolicyGate, "critic#1/handoff", 0, opens(31, Handoff, nil, ActionRetry))
	j.add(KindPolicyGateResolve, "critic#1/handoff", 0, resolves(31, ActionRetry))
	j.add(KindStageFinished, "critic#2", 1, `{"stage":"critic","visit":2,"outcome":"success","attempts":1}`)
	j.add(KindFindingRecorded, "critic#2", 1, finding(2, "critic#2.f1", "P2", "it  CREAKS"))
	j.add(KindFindingRecorded, "critic#2", 1, finding(2, "critic#2.f2", "", "It squeaks"))
	j.add(KindWaiverRecorded, "critic#2", 1, body(WaiverRecorded{Waiver: Waiver{Stage: "critic", Visit: 2, FindingIDs: []string{"critic#2.f2"}, Reason: "so be it", Actor: "ada"}}))
	j.add(KindHandoffOverridden, "critic#2", 1, body(HandoffOverridden{Stage: "critic", Visit: 2, Action: ActionContinue, Actor: "ada"}))
	j.add(KindBoundWarned, "work#1", 1, body(BoundWarned{Bound: BoundToolCalls, Limit: 2, Used: 2}))
	j.add(KindBoundRefused, "work#1", 1, body(BoundRefused{Bound: BoundToolCalls, Limit: 2, Used: 2}))
	j.add(KindPolicyGate, "work#1/bound", 0, opens(32, Bound, nil, "extend", "stop"))
	j.add(KindPolicyGateResolve, "work#1/bound", 0, resolves(32, "extend"))
	j.add(KindBoundExtended, "work#1/bound", 1, body(BoundExtended{Bound: BoundToolCalls, By: 3, Gate: testID(32).String()}))
	j.add(KindCheckFinished, "deliver", 1, body(CheckFinished{Receipt{Name: "old", Argv: []string{"true"}, Tree: "t0"}}))
	j.add(KindCheckFinished, "deliver", 1, body(CheckFinished{Receipt{Name: "test", Argv: []string{"go", "test"}, Tree: "t1", ExitCode: 1, Output: "sha256:out"}}))
	j.add(KindDiffRecorded, "deliver", 1, body(DiffRecorded{Base: "c0", Tree: "t1", Patch: "sha256:patch", Files: 1}))
	j.add(KindPolicyGate, "ask", 0, opens(33, Question, nil, "approve", "deny"))
	j.add(KindDeliveryCommitted, "deliver", 1, body(DeliveryCommitted{Branch: "refs/heads/x", Commit: "c1"}))
	j.add(KindIntentFail, "", 0, `{"reason":"stage_error","code":"provider_auth","message":"no key"}`)
	return j
}

func evidenceOf(t *testing.T, p *project, req EvidenceRequest) RunEvidence {
	t.Helper()
	req.Run = testID(1)
	got, err := Evidence(t.Context(), p, req, p.now, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestEverySliceOfTheEvidence(t *testing.T) {
	p := newProject()
	p.blobs["sha256:q"] = `{"name":"review","agents":[{"name":"work"},{"name":"critic"}],"deliver":{"base":"HEAD"}}`
	j := reviewed()
	p.add(1, j)
	e := evidenceOf(t, p, EvidenceRequest{})
	if e.HeadSeq != int64(len(j)) {
		t.Errorf("up to %d", e.HeadSeq)
	}
	if e.Plan.Kind != "pipeline" || !slices.Equal(e.Plan.Stages, []string{"work", "critic"}) || e.Plan.Summary != "Review: 2 stages" || e.Plan.Bounds[BoundToolCalls] != 2 || string(e.Plan.Deliver) != `{"base":"HEAD"}` {
		t.Errorf("plan %+v", e.Plan)
	}
	if s := e.Steps.Items; len(s) != 3 || s[0].Path != "work#1" || s[0].Agent != "work" || s[0].Attempts != 2 || s[0].Outcome != "success" || s[0].DurationMs != 4000 ||
		s[0].ResultDigest != flow.Digest([]byte("{}")) || !s[0].StartedAt.Equal(j[3].At) || s[2].Path != "critic#2" {
		t.Errorf("steps %+v", s)
	}
	var statuses []string
	for _, f := range e.Findings.Items {
		latest := " earlier"
		if f.Latest {
			latest = " latest"
		}
		statuses = append(statuses, f.ID+" "+f.Status+latest)
	}
	if want := []string{"critic#1.f1 fixed earlier", "critic#1.f2 open earlier", "critic#2.f1 open latest", "critic#2.f2 waived latest"}; !slices.Equal(statuses, want) {
		t.Errorf("findings %q", statuses)
	}
	var commands []string
	for _, c := range e.Commands.Items {
		exit := "?"
		if c.ExitCode != nil {
			exit = string(rune('0' + *c.ExitCode))
		}
		commands = append(commands, strings.Join([]string{c.Path, c.Argv[0], c.Outcome, exit}, " "))
	}
	if want := []string{"work#1/tool#1.1 sh ok 0", "work#1/tool#1.2 false tool_error 1", "work#1/worker#1 go test ./... error ?", "deliver true ok 0", "deliver go exit 1"}; !slices.Equal(commands, want) {
		t.Errorf("commands %q", commands)
	}
	if c := e.Commands.Items[0]; len(c.Argv[1]) != 512+len("…") || c.Cwd != "src" || c.DurationMs != 12 {
		t.Errorf("command %+v", c)
	}
	if want := []EvidenceFile{{"a.txt", "file", "sha256:a", "work#1/worker#1"}, {"test", "check_output", "sha256:out", "deliver"}, {"diff.patch", "diff", "sha256:patch", "deliver"}}; !slices.Equal(e.Artifacts.Items, want) {
		t.Errorf("artifacts %+v", e.Artifacts.Items)
	}
	reset := j[8].At.Add(time.Minute)
	wrong := []EvidenceError{
		{Code: "tool_error", Message: "false ended", Path: "work#1/tool#1.2", Seq: 8},
		{Code: "rate_limited", Message: "wait", Path: "work#1/model#1", Seq: 9, Retryable: true, Provider: &ProviderPressure{Kind: "limit", ResetAt: reset}},
		{Code: "worker_limit", Message: "the invocation ended: limit (wall)  0 steps", Path: "work#1/worker#1", Seq: 13},
		{Code: "provider_auth", Message: "no key", Seq: int64(len(j)), Provider: &ProviderPressure{Kind: "access"}},
	}
	if !reflect.DeepEqual(e.Errors.Items, wrong) {
		t.Errorf("errors %+v", e.Errors.Items)
	}
	d := e.Decisions
	if len(d.Items) != 3 || d.Items[0].Decision.Action != ActionRetry || d.Items[0].WaitedS != 1 || d.Items[2].Closed != "run_ended" || d.Items[2].Decision != nil || d.Items[2].WaitedS != 2 {
		t.Errorf("decisions %+v", d.Items)
	}
	if len(d.Waivers) != 1 || d.Waivers[0].Reason != "so be it" || len(d.Overridden) != 1 {
		t.Errorf("waivers %+v, overridden %+v", d.Waivers, d.Overridden)
	}
	i := slices.IndexFunc(e.Bounds.Items, func(b EvidenceBound) bool { return b.Name == BoundToolCalls })
	if b := e.Bounds.Items[i]; b.Limit != "2" || !b.WarnedAt.Equal(j[25].At) || !b.ExceededAt.Equal(j[26].At) || len(b.Extensions) != 1 || b.Extensions[0].By != "3" || b.Extensions[0].Decision.Action != "extend" {
		t.Errorf("bound %+v", b)
	}
	if v := e.Delivery; v.Outcome != DeliveredCommitted || v.Worktree.Path != "/w" || *v.Worktree.Present || !v.AppliedAt.Equal(j[34].At) || v.FollowupOf != "P" {
		t.Errorf("delivery %+v", v)
	}
	if v := e.Verification; len(v.Checks.Items) != 2 || v.Checks.Items[0].Current || !v.Checks.Items[1].Current || v.HeadHash != p.runs[testID(1)].Head || v.Envelopes != 7 {
		t.Errorf("verification %+v", v)
	}
}

func TestEvidenceOfAPlan(t *testing.T) {
	p := newProject()
	p.blobs["sha256:p"] = `{"kind":"plan","root":{"kind":"sequential","children":[{"id":"read","kind":"tool_call","tool":"mcp://s/t@1.0.0"},{"kind":"gate","question":"Go?"}]}}`
	j := accepted()
	j.add(KindRunStarted, "", 1, `{}`)
	j.add(KindEffectIntended, "root/read", 1, `{"name":"tool.call","class":"read","attempt":1,"input":{"args":{}}}`)
	j.add(KindEffectFinished, "root/read", 1, `{"name":"tool.call","attempt":1,"error":{"code":"tool_error","message":"no"}}`)
	j.add(KindPlanStep, "root/read", 1, `{"node":"read","status":"failed","error":{"reason":"tool_error","code":"tool_error","message":"no"}}`)
	j.add(KindPlanStep, "root/write", 1, `{"node":"write","status":"refused","error":{"reason":"refused","code":"denied","message":"by rule"}}`)
	j.add(KindEffectFinished, "root/task", 1, `{"name":"worker.task","attempt":1}`)
	j.add(KindStageRetrying, "work#1", 1, `{"stage":"work","code":"tool_error","error":"again"}`)
	j.add(KindStageRetrying, "work#1", 1, `{"stage":"work","code":"tool_error","error":"again"}`)
	j.add(KindEffectIntended, "root/go", 1, `{"name":"tool.call","class":"once","attempt":1,"input":{"args":{"argv":["go"]}}}`)
	j.add(KindPolicyGate, "root/1", 0, body(GateOpened{Gate: testID(9).String(), Kind: string(Question), ExpiresAt: flow.Time{Time: dawn.Add(time.Minute)}}))
	j.add(KindRunInterrupted, "", 0, `{"reason":"owner_died"}`)
	p.add(1, j)
	e := evidenceOf(t, p, EvidenceRequest{})
	if want := []EvidenceNode{{"root", "sequential", ""}, {"root/read", "tool_call", "mcp://s/t@1.0.0"}, {"root/1", "gate", "Go?"}}; !slices.Equal(e.Plan.Nodes, want) || !slices.Equal(e.Plan.Gates, []string{"Go?"}) || len(e.Plan.Tools) != 1 {
		t.Errorf("plan %+v", e.Plan)
	}
	var steps []string
	for _, s := range e.Steps.Items {
		steps = append(steps, strings.Join([]string{s.Path, string(s.Class), s.Outcome, s.ErrorCode}, " "))
	}
	if want := []string{"root/read read failed tool_error", "root/write  refused denied", "root/go once started "}; !slices.Equal(steps, want) {
		t.Errorf("steps %q", steps)
	}
	var wrong []string
	for _, w := range e.Errors.Items {
		wrong = append(wrong, w.Code)
	}
	if want := []string{"tool_error", "denied", "tool_error", "tool_error", "owner_died"}; !slices.Equal(wrong, want) {
		t.Errorf("errors %q: each is to be told once, attempts each for itself", wrong)
	}
	if c := e.Commands.Items; len(c) != 1 || c[0].Outcome != StepStarted {
		t.Errorf("commands %+v", c)
	}
	if g := e.Decisions.Items[0]; g.Closed != "expiry" || g.WaitedS != 46 {
		t.Errorf("decision %+v", g)
	}
}

func TestEmptySlicesAreThere(t *testing.T) {
	p := newProject()
	delete(p.blobs, "sha256:p")
	p.add(1, accepted())
	for _, slice := range EvidenceSlices() {
		text, err := json.Marshal(evidenceOf(t, p, EvidenceRequest{Slice: slice}))
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		if len(members) != 3 || members[slice] == nil || string(members["head_seq"]) != "4" || strings.Contains(string(text), ":null") {
			t.Errorf("%s: %s", slice, text)
		}
		if list := members[slice]; slices.Contains([]string{SliceSteps, SliceFindings, SliceCommands, SliceArtifacts, SliceErrors}, slice) && string(list) != `{"items":[],"total":0}` {
			t.Errorf("%s: %s", slice, list)
		}
	}
}

func TestEvidenceIsFiltered(t *testing.T) {
	p := newProject()
	p.add(1, reviewed())
	ids := func(req EvidenceRequest) (ids []string, total int) {
		l := evidenceOf(t, p, req).Findings
		for _, f := range l.Items {
			ids = append(ids, f.ID)
		}
		return ids, l.Total
	}
	for name, c := range map[string]struct {
		req   EvidenceRequest
		want  []string
		total int
	}{
		"by severity":            {EvidenceRequest{SeverityMin: "P1"}, []string{"critic#1.f1"}, 1},
		"to the least severe":    {EvidenceRequest{SeverityMin: "P3"}, []string{"critic#1.f1", "critic#1.f2", "critic#2.f1"}, 3},
		"by stage":               {EvidenceRequest{Stages: []string{"critic"}}, []string{"critic#1.f1", "critic#1.f2", "critic#2.f1", "critic#2.f2"}, 4},
		"by visit":               {EvidenceRequest{Stages: []string{"critic#2"}, SeverityMin: "P2"}, []string{"critic#2.f1"}, 1},
		"by what only begins so": {EvidenceRequest{Stages: []string{"crit"}}, nil, 0},
		"a page":                 {EvidenceRequest{Limit: 2, Offset: 1}, []string{"critic#1.f2", "critic#2.f1"}, 4},
		"after the last":         {EvidenceRequest{Offset: 4}, nil, 4},
	} {
		c.req.Slice = SliceFindings
		if got, total := ids(c.req); !slices.Equal(got, c.want) || total != c.total {
			t.Errorf("%s: %q of %d", name, got, total)
		}
	}
	e := evidenceOf(t, p, EvidenceRequest{Stages: []string{"work"}})
	if e.Steps.Total != 1 || e.Commands.Total != 3 || e.Artifacts.Total != 1 || e.Errors.Total != 3 || e.Decisions.Total != 1 {
		t.Errorf("steps %d, commands %d, artifacts %d, errors %d, decisions %d", e.Steps.Total, e.Commands.Total, e.Artifacts.Total, e.Errors.Total, e.Decisions.Total)
	}
	for name, req := range map[string]EvidenceRequest{"slice": {Slice: "step"}, "severity": {SeverityMin: "P4"}, "limit": {Limit: 1001}, "negative limit": {Limit: -1}, "offset": {Offset: -1}} {
		req.Run = testID(1)
		if _, err := Evidence(t.Context(), p, req, p.now, nil); CodeOf(err) != InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package tipstaff

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// started is a run that was driven once.
func started() records {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{"epoch":1}`)
	return j
}

// working is one that works in a worktree.
func working() records {
	j := started()
	j[0].Body = json.RawMessage(strings.Replace(string(j[0].Body), `{`, `{"files":{"mode":"worktree"},`, 1))
	j.add(KindWorktreeCreated, "deliver", 1, `{"path":"/w","branch":"b","base":"c0"}`)
	return j
}

// parked is a run that waits at a gate.
func parked(j records, kind GateKind, subject any, actions ...string) records {
	key := map[GateKind]string{Delivery: "delivery#1", Handoff: "critic#1/handoff"}[kind]
	if key == "" {
		key = "root/ok"
	}
	j.add(KindPolicyGate, key, 0, opens(40, kind, subject, actions...))
	j.add(KindRunParked, "", 1, body(RunParked{Gates: []string{testID(40).String()}}))
	return j
}

func ends(j records, kind Kind, text string) records {
	j.add(kind, "", 0, text)
	return j
}

// calls are the tools of calls, with what of their arguments matters; a question mark says
// that something is missing. Of what is left to a person it is the gate.
func calls(next []NextCall) (all []string) {
	for _, c := range next {
		text := c.Tool
		if c.Kind == PersonCall {
			text = "person " + c.Gate.String()[24:]
		}
		for _, name := range []string{"action", "slice", "mode", "until"} {
			if v, ok := c.Args[name].(string); ok {
				text += " " + v
			}
		}
		for _, m := range c.Missing {
			text += Joined("=", " ?"+m.Name, strings.Join(m.Choices, ","))
		}
		_, shown := c.Args["subject_digest"]
		if decides := scopeOf[c.Tool] == ScopeDecide; decides != shown || decides && c.Kind != InputRequired {
			text += " BAD"
		}
		if (c.Kind == InputRequired) != (len(c.Missing) > 0) || c.Why == "" {
			text += " BAD"
		}
		all = append(all, text)
	}
	return all
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func TestDiagnoses(t *testing.T) {
	alive := func(silent time.Duration) func(*projectRun) {
		return func(r *projectRun) {
			r.Owner = &Owner{Kind: "foreground", Pid: 7, Alive: true, HeartbeatAt: dawn.Add(time.Hour - silent)}
		}
	}
	delivery := DeliverySubject{Commit: "c1", Blocked: []BlockedAction{{DeliverApply, BlockDirty, "changes"}}}
	follow := parked(working(), Delivery, delivery, DeliverFix)
	follow.add(KindPolicyGateResolve, "delivery#1", 0, resolves(40, DeliverFix))
	follow.add(KindFollowupCreated, "", 0, body(FollowupCreated{Child: testID(2).String()}))
	follow.add(KindIntentAttest, "", 0, `{"outcome":"success"}`)
	asked := parked(started(), Question, nil, "approve", "deny")
	answered := ends(parked(started(), Question, nil, "approve", "deny"), KindPolicyGateResolve, resolves(40, "approve"))
	two := parked(started(), Question, nil, "approve")
	two.add(KindPolicyGate, "root/two", 0, opens(41, Question, nil, "approve"))
	two.add(KindPolicyGateResolve, "root/two", 0, resolves(41, "approve"))
	doubt := started()
	doubt.add(KindEffectIntended, "root/send", 1, `{"name":"tool.call","class":"once","attempt":1}`)
	doubt.add(KindRunInterrupted, "", 0, `{"reason":"owner_died"}`)
	var draft records
	draft.add(KindIntentDraft, "", 0, `{"program_kind":"pipeline","origin":"foreground","pipeline":{},"hold":true}`)
	changed := ends(started(), KindIntentAttest, `{"outcome":"success"}`)
	diff := started()
	diff.add(KindDiffRecorded, "deliver", 1, body(DiffRecorded{Tree: "t", Files: 1}))
	diff.add(KindIntentAttest, "", 0, `{"outcome":"success"}`)

	for _, c := range []struct {
		name      string
		of        records
		with      func(*projectRun)
		condition string
		reason    string // a part of it
		next      []string
	}{
		{"the head does not fit", changed, func(r *projectRun) { r.Head = "sha256:0" }, DiagnosisUnreadable, "do not lead to its head", []string{"run_verify"}},
		{"a record was changed", changed, func(r *projectRun) { r.broken = malformed(&Error{Message: "no JSON"}) }, DiagnosisUnreadable, "no JSON", []string{"run_verify"}},
		{"a newer format", changed, func(r *projectRun) { r.failing = Errorf(FormatNewer, "record 9 is of an unknown kind") }, DiagnosisUnreadable, "unknown kind", []string{"run_verify"}},
		{"its program is gone", ends(records{}, KindIntentDraft, `{"program_digest":"sha256:gone"}`), nil, DiagnosisUnreadable, "sha256:gone", []string{"run_verify"}},
		{"a question", asked, nil, DiagnosisDecision, "What now?", []string{"gate_decide ?action=approve,deny"}},
		{"a question of a living run", asked, alive(0), DiagnosisDecision, "", []string{"gate_decide ?action=approve,deny"}},
		{"one of two is decided", two, nil, DiagnosisDecision, "", []string{"gate_decide ?action=approve", "run_resume"}},
		{"a handoff", parked(started(), Handoff, nil, ActionRetry, ActionHalt), nil, DiagnosisDecision, "", []string{"phase_handoff_decide ?action=retry_feedback,halt ?feedback"}},
		{"a bound", parked(started(), Bound, nil, "extend", "stop"), nil, DiagnosisDecision, "", []string{"gate_decide ?action=extend,stop ?answer"}},
		{"a delivery", parked(working(), Delivery, delivery, DeliverApprove, DeliverApply, DeliverFix), nil, DiagnosisDelivery, "",
			[]string{"delivery_gate", "delivery_decide ?action=approve,fix ?feedback"}},
		{"silent", started(), alive(31 * time.Second), DiagnosisStalled, "process 7", []string{"run_events_tail", "run_cancel hard"}},
		{"driven", started(), alive(30 * time.Second), DiagnosisActive, "running", []string{"run_watch"}},
		{"launched", started(), func(r *projectRun) { r.Launching = true }, DiagnosisActive, "", []string{"run_watch"}},
		{"queued", accepted(), func(r *projectRun) { r.Queued = &Queued{Place: 1} }, DiagnosisActive, "queued", []string{"run_watch"}},
		{"followed up", follow, nil, DiagnosisSuperseded, testID(2).String(), []string{"run_resume"}},
		{"its worktree is gone", ends(working(), KindRunInterrupted, `{"reason":"owner_died"}`), nil, DiagnosisBlockedWorktree, "/w", []string{"run_diff", "run_evidence delivery"}},
		{"its worktree is not needed any more", ends(ends(working(), KindDeliveryCommitted, `{"branch":"b"}`), KindRunInterrupted, `{"reason":"owner_died"}`), nil, DiagnosisInterrupted, "", []string{"run_resume", "run_evidence errors"}},
		{"its program differs", ends(started(), KindRunInterrupted, `{"reason":"replay_mismatch"}`), nil, DiagnosisReplayMismatch, "", []string{"run_evidence errors", "run_verify"}},
		{"all is decided", answered, nil, DiagnosisResumeReady, "", []string{"run_resume"}},
		{"it sleeps", ends(started(), KindRunParked, `{"wake_at":"2026-11-15T12:00:00Z"}`), nil, DiagnosisResumeReady, "until 2026-11-15T12:00:00Z", []string{"run_status"}},
		{"it has slept", ends(started(), KindRunParked, `{"wake_at":"2026-11-15T00:00:00Z"}`), nil, DiagnosisResumeReady, "", []string{"run_resume"}},
		{"interrupted", doubt, nil, DiagnosisInterrupted, "owner_died", []string{"run_resume", "run_evidence errors"}},
		{"a draft", draft, nil, DiagnosisNotStarted, "", []string{"run_status"}},
		{"too much", ends(started(), KindIntentFail, `{"reason":"bound_exceeded","code":"bound_exceeded","bound":"tool_calls","message":"2 of 2"}`), nil, DiagnosisBoundExceeded, "tool_calls", []string{"run_evidence bounds", "run_start ?bounds=tool_calls"}},
		{"no key", ends(started(), KindIntentFail, `{"reason":"step_error","code":"provider_auth","message":"no"}`), nil, DiagnosisProviderPressure, "provider_auth", []string{"run_evidence errors", "run_start"}},
		{"failed", ends(started(), KindIntentFail, `{"reason":"step_error","code":"tool_error","message":"no"}`), nil, DiagnosisFailed, "tool_error: no", []string{"run_evidence errors", "run_start"}},
		{"cancelled", ends(started(), KindIntentCancel, `{"reason":"enough"}`), nil, DiagnosisCancelled, "enough", []string{"run_evidence decisions"}},
		{"completed", changed, nil, DiagnosisCompleted, "success", []string{"run_evidence all"}},
		{"completed with changes", diff, nil, DiagnosisCompleted, "", []string{"run_evidence all", "run_diff"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject()
			p.add(2, accepted())
			if r := p.add(1, slices.Clone(c.of)); c.with != nil {
				c.with(r)
			}
			ctx := WithCaller(t.Context(), Caller{Surface: "cli"})
			got, err := Diagnose(ctx, p, testID(1), p.now, func(string) bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			if run, err := p.Get(ctx, testID(1)); err == nil {
				short, err := DiagnoseRun(ctx, p, run, p.now, func(string) bool { return false })
				if text(short) != text(got) || err != nil {
					t.Errorf("by its status: %s, %v; by its records: %s", text(short), err, text(got))
				}
			}
			if got.Condition != c.condition || !strings.Contains(got.Reason, c.reason) || !slices.Equal(calls(got.Next), c.next) {
				t.Errorf("%s (%s), next %q; want %s (%s), next %q", got.Condition, got.Reason, calls(got.Next), c.condition, c.reason, c.next)
			}
			for _, call := range got.Next {
				about, forks := call.Args["run_id"], call.Args["fork_of"]
				if want := map[bool]ID{true: testID(2), false: testID(1)}[c.condition == DiagnosisSuperseded]; about != want && forks != want {
					t.Errorf("%s is about %v %v", call.Tool, about, forks)
				}
			}
		})
	}
}

// A run that waits for one that it has dispatched has its decisions, and is the one to resume.
func TestDiagnosisOfDispatchedRuns(t *testing.T) {
	p := newProject()
	parent := started()
	parent.add(KindIntentDispatch, "root/child", 0, body(IntentDispatch{Child: testID(2)}))
	parent.add(KindRunParked, "", 1, `{}`)
	p.add(1, parent)
	child := parked(started(), Question, nil, "approve")
	child[0].Body = json.RawMessage(strings.Replace(string(child[0].Body), `{`, `{"parent":{"run":"`+testID(1).String()+`","relation":"dispatch"},`, 1))
	p.add(2, child)
	ctx := WithCaller(t.Context(), Caller{Surface: "cli"})
	got, err := Diagnose(ctx, p, testID(1), p.now, nil)
	if err != nil || got.Condition != DiagnosisDecision || got.Recommended != testID(2) || !slices.Equal(calls(got.Next), []string{"gate_decide ?action=approve"}) || got.Next[0].Args["run_id"] != testID(2) {
		t.Errorf("%+v, %v", got, err)
	}
	p.add(2, ends(child, KindPolicyGateResolve, resolves(40, "approve")))
	for n := byte(1); n <= 2; n++ {
		got, err = Diagnose(ctx, p, testID(n), p.now, nil)
		if err != nil || got.Condition != DiagnosisResumeReady || len(got.Next) != 1 || got.Next[0].Args["run_id"] != testID(1) {
			t.Errorf("run %d: %+v, %v", n, got, err)
		}
	}
}

// A run that asks can go on before it is answered if what it waited for has come.
func TestDiagnosisAfterADispatchedRun(t *testing.T) {
	for name, c := range map[string]struct {
		child records // nil: it was announced and not made yet
		want  []string
	}{
		"it has ended since":     {ends(ends(parked(started(), Question, nil), KindPolicyGateResolve, resolves(40, "deny")), KindIntentAttest, `{}`), []string{"gate_decide ?action=approve", "run_resume"}},
		"it had ended before":    {ends(started(), KindIntentAttest, `{}`), []string{"gate_decide ?action=approve"}},
		"it waits for nobody":    {ends(started(), KindRunParked, `{}`), []string{"gate_decide ?action=approve", "run_resume"}},
		"it waits for an answer": {parked(started(), Question, nil, "deny"), []string{"gate_decide ?action=approve", "gate_decide ?action=deny"}},
		"it is not there":        {nil, []string{"gate_decide ?action=approve", "run_resume"}},
	} {
		p := newProject()
		parent := started()
		parent.add(KindIntentDispatch, "root/child", 0, body(IntentDispatch{Child: testID(2)}))
		p.add(1, parked(parent, Question, nil, "approve"))
		if c.child != nil {
			p.add(2, c.child)
		}
		got, err := Diagnose(WithCaller(t.Context(), Caller{Surface: "cli"}), p, testID(1), p.now, nil)
		if err != nil || got.Condition != DiagnosisDecision || !slices.Equal(calls(got.Next), c.want) {
			t.Errorf("%s: %s, next %q, %v", name, got.Condition, calls(got.Next), err)
		}
	}
}

// A follow-up works where its parent did.
func TestWorktreeOfAFork(t *testing.T) {
	p := newProject()
	p.add(1, working())
	fork := started()
	fork[0].Body = json.RawMessage(strings.Replace(string(fork[0].Body), `{`, `{"files":{"mode":"worktree"},"fork_of":{"run":"`+testID(1).String()+`","seq":6,"hash":"sha256:`+strings.Repeat("0", 64)+`"},`, 1))
	p.add(2, ends(fork, KindRunInterrupted, `{"reason":"owner_died"}`))
	ctx := WithCaller(t.Context(), Caller{Surface: "cli"})
	for present, want := range map[bool]string{true: DiagnosisInterrupted, false: DiagnosisBlockedWorktree} {
		got, err := Diagnose(ctx, p, testID(2), p.now, func(path string) bool { return present && path == "/w" })
		if err != nil || got.Condition != want {
			t.Errorf("present %v: %+v, %v", present, got, err)
		}
	}
	before := slices.Clone(fork) // the worktree was made
	before[0].Body = json.RawMessage(strings.Replace(string(fork[0].Body), `"seq":6`, `"seq":5`, 1))
	p.add(3, ends(before, KindRunInterrupted, `{"reason":"owner_died"}`))
	if got, err := Diagnose(ctx, p, testID(3), p.now, func(string) bool { return false }); err != nil || got.Condition != DiagnosisInterrupted {
		t.Errorf("it will have a worktree of its own: %+v, %v", got, err)
	}
	if got, err := Diagnose(ctx, p, testID(2), p.now, nil); err != nil || got.Condition != DiagnosisInterrupted || got.Facts.Present != nil {
		t.Errorf("nobody can tell: %+v, %v", got, err)
	}
}

// What a caller may not do is not proposed.
func TestDiagnosisForItsCaller(t *testing.T) {
	p := newProject()
	one := parked(started(), Question, nil, "approve")
	one.add(KindPolicyGate, "root/two", 0, opens(41, Question, nil, "approve"))
	one.add(KindPolicyGateResolve, "root/two", 0, resolves(41, "approve"))
	p.add(1, one)
	own := slices.Clone(one)
	own[0].Body = json.RawMessage(strings.Replace(string(own[0].Body), "foreground", "supervisor", 1))
	p.add(2, own)
	all, decides := []string{"gate_decide ?action=approve", "run_resume"}, []string{"gate_decide ?action=approve"}
	person := []string{"person " + testID(40).String()[24:], "run_watch decision"}
	for _, c := range []struct {
		name    string
		run     byte
		caller  Caller
		control string
		want    []string
	}{
		{"command line", 1, Caller{Surface: "cli"}, InspectAlone, all},
		{"http", 1, Caller{Surface: "http", Scopes: DefaultScopes()}, InspectAlone, all},
		{"decides", 1, Caller{Surface: "http", Scopes: []string{ScopeRead, ScopeDecide}}, InspectAlone, decides},
		{"reads", 1, Caller{Surface: "http", Scopes: []string{ScopeRead}}, InspectAlone, person},
		{"mcp at a person's run", 1, Caller{Surface: "mcp", Scopes: DefaultScopes()}, InspectAlone, person},
		{"stdio at a person's run", 1, Caller{Surface: "stdio", Scopes: DefaultScopes()}, InspectAlone, person},
		{"stdio that decides", 2, Caller{Surface: "stdio", Scopes: DefaultScopes()}, Controllable, all},
		{"stdio", 2, Caller{Surface: "stdio", Scopes: []string{ScopeRead, ScopeRun, ScopeSubmit}}, Controllable, append(slices.Clone(person), "run_resume")},
		{"mcp", 2, Caller{Surface: "mcp", Scopes: []string{ScopeRead, ScopeRun}}, Controllable, append(slices.Clone(person), "run_resume")},
	} {
		got, err := Diagnose(WithCaller(t.Context(), c.caller), p, testID(c.run), p.now, nil)
		if err != nil || got.Control != c.control || !slices.Equal(calls(got.Next), c.want) {
			t.Errorf("%s: %s, next %q, %v", c.name, got.Control, calls(got.Next), err)
		}
	}
	if _, err := Diagnose(t.Context(), p, testID(9), p.now, nil); CodeOf(err) != RunNotFound {
		t.Errorf("a run that is not there: %v", err)
	}
	p.runs[testID(1)].broken = Errorf(StoreUnavailable, "the disk is gone")
	if _, err := Diagnose(t.Context(), p, testID(1), p.now, nil); CodeOf(err) != StoreUnavailable {
		t.Errorf("what cannot be read now is nothing that is the matter with the run: %v", err)
	}
}

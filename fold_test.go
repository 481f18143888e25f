package tipstaff

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var dawn = time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)

// records makes those of one run, one a second.
type records []Event

func (j *records) add(kind Kind, path string, epoch int64, body string) {
	seq := int64(len(*j) + 1)
	*j = append(*j, Event{
		V: 1, Seq: seq, Kind: kind, At: dawn.Add(time.Duration(seq) * time.Second),
		Run: testID(1), Path: path, Epoch: epoch, Body: json.RawMessage(body),
	})
}

func (j records) fold() *Fold {
	var f Fold
	for i := range j {
		f.Apply(&j[i])
	}
	return &f
}

// accepted is the opening of every run of a given program.
func accepted() records {
	var j records
	j.add(KindIntentDraft, "", 0, `{"program_kind":"plan","program_digest":"sha256:p","inputs":{},`+
		`"bounds":{"tool_calls":2,"cost_usd":"1.00","wall_time":"1m"},"user":"ada","origin":"foreground","title":"Notes"}`)
	j.add(KindIntentCompiled, "", 0, `{"intent_hash":"sha256:i","program_digest":"sha256:p","attempts":0}`)
	j.add(KindIntentAccept, "", 0, `{"intent_hash":"sha256:i","program_digest":"sha256:p","revision":1,"via":"command"}`)
	j.add(KindPlanProposed, "", 0, `{"intent_hash":"sha256:i","program_digest":"sha256:p","revision":1}`)
	return j
}

// story is one whole run: a read, a gate, a call that a crash leaves in doubt and
// that a person then accounts for.
func story() records {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{"kind":"foreground","epoch":1,"pid":7}`)
	j.add(KindEffectIntended, "root/read", 1, `{"name":"tool.call","class":"read","attempt":1,"reserve":{"tool_calls":1}}`)
	j.add(KindEffectFinished, "root/read", 1, `{"name":"tool.call","attempt":1,"value":{"text":"hi"},"ms":3}`)
	j.add(KindPlanStep, "root/read", 1, `{"node":"read","status":"completed"}`)
	j.add(KindPolicyGate, "root/ok", 0, `{"gate":"G1","gate_kind":"question","actions":["approve","deny"],"deny":"deny"}`)
	j.add(KindRunParked, "", 1, `{"gates":["G1"],"wall_ms":4500}`)
	j.add(KindPolicyGateResolve, "root/ok", 0, `{"gate":"G1","action":"approve","via":"command"}`)
	j.add(KindRunResumed, "", 2, `{"epoch":2}`)
	j.add(KindGateTaken, "root/ok", 2, `{"gate":"G1","seq":11}`)
	j.add(KindPlanStep, "root/ok", 2, `{"node":"ok","status":"completed"}`)
	j.add(KindEffectIntended, "root/go", 2, `{"name":"tool.call","class":"once","attempt":1,"reserve":{"tool_calls":1}}`)
	j.add(KindRunInterrupted, "", 0, `{"reason":"exited:137","pid":7,"found_by":"resume"}`)
	j.add(KindRunResumed, "", 3, `{"epoch":3}`)
	j.add(KindPolicyGate, "root/go/in_doubt", 0, `{"gate":"G2","gate_kind":"in_doubt","actions":["retry","use_result","fail"]}`)
	j.add(KindRunParked, "", 3, `{"gates":["G2"],"wall_ms":9000}`)
	j.add(KindPolicyGateResolve, "root/go/in_doubt", 0, `{"gate":"G2","action":"use_result","answer":{"exit_code":0},"via":"command"}`)
	j.add(KindRunResumed, "", 4, `{"epoch":4}`)
	j.add(KindGateTaken, "root/go/in_doubt", 4, `{"gate":"G2","seq":20}`)
	j.add(KindEffectFinished, "root/go", 4, `{"name":"tool.call","attempt":1,"value":{"exit_code":0},"by":"local:cli"}`)
	j.add(KindPlanStep, "root/go", 4, `{"node":"go","status":"completed"}`)
	j.add(KindIntentAttest, "", 0, `{"outcome":"success","outputs_digest":"sha256:o"}`)
	return j
}

func TestFoldOfOneRunRecordByRecord(t *testing.T) {
	j := story()
	type want struct {
		step         string
		used, held   int64 // tool_calls
		open         int
		owned        Kind
		wall         int64
		state        State
		opened, told int
	}
	for seq, w := range map[int]want{
		1:  {state: Drafting},
		4:  {state: Executing},
		6:  {step: "root/read", held: 1, owned: KindRunStarted, state: Executing},
		7:  {step: "root/read", used: 1, owned: KindRunStarted, state: Executing},
		9:  {step: "root/ok", used: 1, open: 1, owned: KindRunStarted, state: Executing, opened: 1},
		10: {step: "root/ok", used: 1, open: 1, owned: KindRunParked, wall: 4500, state: Executing, opened: 1},
		11: {step: "root/ok", used: 1, owned: KindRunParked, wall: 4500, state: Executing, opened: 1, told: 1},
		15: {step: "root/go", used: 1, held: 1, owned: KindRunResumed, wall: 4500, state: Executing, opened: 1, told: 1},
		16: {step: "root/go", used: 1, held: 1, owned: KindRunInterrupted, wall: 7500, state: Executing, opened: 1, told: 1},
		18: {step: "root/go", used: 1, held: 1, open: 1, owned: KindRunResumed, wall: 7500, state: Executing, opened: 2, told: 1},
		23: {step: "root/go", used: 2, owned: KindRunResumed, wall: 9000, state: Executing, opened: 2, told: 2},
		25: {step: "root/go", used: 2, owned: KindRunResumed, wall: 13000, state: Completed, opened: 2, told: 2},
	} {
		f := j[:seq].fold()
		got := want{f.Step, f.Ledger.Used[BoundToolCalls], f.Ledger.Reserved(BoundToolCalls), len(f.Gates), f.Owned, f.WallMs, f.State, f.Opened, f.Decided}
		if got != w {
			t.Errorf("after record %d:\ngot  %+v\nwant %+v", seq, got, w)
		}
	}
	f := j.fold()
	if f.Outcome != "success" || f.Failure != nil || !f.Ended.Equal(j[24].At) || !f.Created.Equal(j[0].At) {
		t.Errorf("the end: %+v", f)
	}
	if f.User != "ada" || f.Origin != "foreground" || f.Title != "Notes" || f.Program != (Program{Kind: "plan", Digest: "sha256:p"}) {
		t.Errorf("the beginning: %+v", f)
	}
	if !maps.Equal(f.Steps, map[string]int{"completed": 3}) {
		t.Errorf("steps %v", f.Steps)
	}
	if f.Lifecycle != Lifecycle(j) {
		t.Errorf("lifecycle %s", f.Lifecycle)
	}
}

func TestLedgerFold(t *testing.T) {
	limits := map[string]int64{"tool_calls": 2, "cost_usd": 1_000_000_000, "wall_time": 60_000}
	raised := func(by int64) map[string]int64 {
		m := maps.Clone(limits)
		m["tool_calls"] += by
		return m
	}
	intended := func(j *records, path, reserve string) {
		j.add(KindEffectIntended, path, 1, `{"attempt":1,"reserve":`+reserve+`}`)
	}
	boundGate := func(j *records, resolve string, taken bool) {
		j.add(KindPolicyGate, "a/bound#1", 0, `{"gate":"B","gate_kind":"bound"}`)
		j.add(KindPolicyGateResolve, "a/bound#1", 0, resolve)
		if taken {
			j.add(KindGateTaken, "a/bound#1", 1, `{"gate":"B","seq":6}`)
		}
	}
	for _, c := range []struct {
		name              string
		write             func(*records)
		limit, used, held map[string]int64
	}{
		{"an attempt holds", func(j *records) { intended(j, "a", `{"tool_calls":1}`) },
			nil, nil, map[string]int64{"tool_calls": 1}},
		{"branches hold together", func(j *records) { intended(j, "a", `{"tool_calls":1}`); intended(j, "b", `{"tool_calls":2}`) },
			nil, nil, map[string]int64{"tool_calls": 3}},
		{"a lost attempt is charged", func(j *records) { intended(j, "a", `{"tool_calls":1}`); intended(j, "a", `{"tool_calls":1}`) },
			nil, map[string]int64{"tool_calls": 1}, map[string]int64{"tool_calls": 1}},
		{"a failed attempt is settled, not lost", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectFailed, "a", 1, `{"attempt":1,"use":{"tokens":7}}`)
			intended(j, "a", `{"tokens":100}`)
		}, nil, map[string]int64{"tokens": 7}, map[string]int64{"tokens": 100}},
		{"what was not reported is charged as reserved", func(j *records) {
			intended(j, "a", `{"tokens":100,"model_calls":1}`)
			j.add(KindEffectFinished, "a", 1, `{"use":{"tokens":7}}`)
		}, nil, map[string]int64{"tokens": 7, "model_calls": 1}, nil},
		{"more than reserved may be reported", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectFinished, "a", 1, `{"use":{"tokens":150,"cost_usd":5}}`)
		}, nil, map[string]int64{"tokens": 150, "cost_usd": 5}, nil},
		{"zero is a report", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectFinished, "a", 1, `{"use":{"tokens":0}}`)
		}, nil, map[string]int64{"tokens": 0}, nil},
		{"a refusal costs nothing", func(j *records) {
			j.add(KindEffectFinished, "a", 1, `{"error":{"code":"bound_exceeded","bound":"tool_calls"},"wanted":{"tool_calls":9}}`)
		}, nil, nil, nil},
		{"a suspended attempt goes on holding", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectSuspended, "a", 1, `{"attempt":1}`)
		}, nil, nil, map[string]int64{"tokens": 100}},
		{"an attempt under way holds more", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindBoundReserved, "a", 1, `{"by":{"tokens":30,"model_calls":1}}`)
		}, nil, nil, map[string]int64{"tokens": 130, "model_calls": 1}},
		{"a suspended attempt that held nothing may hold more", func(j *records) {
			j.add(KindEffectSuspended, "a", 1, `{"attempt":1}`)
			j.add(KindBoundReserved, "a", 1, `{"by":{"tokens":30}}`)
		}, nil, nil, map[string]int64{"tokens": 30}},
		{"a lost attempt is charged with what it was granted", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindBoundReserved, "a", 1, `{"by":{"tokens":30}}`)
			intended(j, "a", `{"tokens":100}`)
		}, nil, map[string]int64{"tokens": 130}, map[string]int64{"tokens": 100}},
		{"what nobody is about to use is not held", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectFinished, "a", 1, `{"use":{"tokens":7}}`)
			j.add(KindBoundReserved, "a", 1, `{"by":{"tokens":30}}`)
			j.add(KindBoundReserved, "b", 1, `{"by":{"tokens":30}}`)
		}, nil, map[string]int64{"tokens": 7}, nil},
		{"what was in flight at the end is charged", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindIntentFail, "", 1, `{"reason":"bound_exceeded"}`)
		}, nil, map[string]int64{"tokens": 100}, nil},
		{"what was suspended at the end is not", func(j *records) {
			intended(j, "a", `{"tokens":100}`)
			j.add(KindEffectSuspended, "a", 1, `{"attempt":1}`)
			j.add(KindIntentFail, "", 1, `{"reason":"bound_exceeded"}`)
		}, nil, nil, nil},
		{"an extension that is taken raises", func(j *records) {
			boundGate(j, `{"gate":"B","action":"extend","answer":{"tool_calls":3},"via":"command"}`, true)
		},
			raised(3), nil, nil},
		{"an extension that is not taken does not", func(j *records) { boundGate(j, `{"gate":"B","action":"extend","answer":{"tool_calls":3}}`, false) },
			nil, nil, nil},
		{"stop raises nothing", func(j *records) { boundGate(j, `{"gate":"B","action":"stop"}`, true) },
			nil, nil, nil},
		{"a superseded gate raises nothing", func(j *records) {
			boundGate(j, `{"gate":"B","action":"extend","answer":{"tool_calls":3},"via":"superseded"}`, true)
		},
			nil, nil, nil},
		{"an extension limits nothing that had no limit", func(j *records) {
			boundGate(j, `{"gate":"B","action":"extend","answer":{"tokens":3,"tool_calls":-1}}`, true)
		},
			nil, nil, nil},
		{"an extension by a gate of another kind raises nothing", func(j *records) {
			j.add(KindPolicyGate, "a", 0, `{"gate":"Q","gate_kind":"question"}`)
			j.add(KindPolicyGateResolve, "a", 0, `{"gate":"Q","action":"extend","answer":{"tool_calls":3}}`)
			j.add(KindGateTaken, "a", 1, `{"gate":"Q","seq":6}`)
		}, nil, nil, nil},
		{"a continued history carries", func(j *records) {
			intended(j, "a", `{"tool_calls":1}`)
			j.add(KindRunContinued, "", 1, `{"state":{},"used":{"tool_calls":5},"limit":{"tool_calls":9},"wall_ms":100}`)
		}, map[string]int64{"tool_calls": 9}, map[string]int64{"tool_calls": 5}, nil},
		{"a fork carries", func(j *records) {
			j.add(KindRunForked, "", 0, `{"from_run":"x","seq":3,"counters":{"tool_calls":5},"by":"local:cli"}`)
		}, nil, map[string]int64{"tool_calls": 5}, nil},
		{"an unreadable body changes nothing", func(j *records) {
			j.add(KindEffectIntended, "a", 1, `{"reserve":{"tool_calls":"many"}}`)
			j.add(KindEffectFinished, "a", 1, `{"use":[1]}`)
			j.add(KindRunContinued, "", 1, `7`)
		}, nil, nil, nil},
		{"counters only grow", func(j *records) {
			intended(j, "a", `{"tokens":-100}`)
			j.add(KindEffectFinished, "b", 1, `{"use":{"tokens":-5}}`)
		}, nil, nil, nil},
		{"counters do not overflow", func(j *records) {
			j.add(KindEffectFinished, "a", 1, `{"use":{"tokens":9223372036854775807}}`)
			j.add(KindEffectFinished, "b", 1, `{"use":{"tokens":9223372036854775807}}`)
		}, nil, map[string]int64{"tokens": 9223372036854775807}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := accepted()
			c.write(&j)
			f := j.fold()
			if c.limit == nil {
				c.limit = limits
			}
			if !maps.Equal(f.Ledger.Limit, c.limit) {
				t.Errorf("limit %v, want %v", f.Ledger.Limit, c.limit)
			}
			if !maps.Equal(f.Ledger.Used, c.used) {
				t.Errorf("used %v, want %v", f.Ledger.Used, c.used)
			}
			for _, name := range BoundNames() {
				if got := f.Ledger.Reserved(name); got != c.held[name] {
					t.Errorf("held %s: %d, want %d", name, got, c.held[name])
				}
			}
		})
	}
}

func TestWallTimeIsThatOfDrives(t *testing.T) {
	// One record a second. Records of epoch 0 are others', and may come much later.
	type rec struct {
		kind  Kind
		epoch int64
		body  string
	}
	for _, c := range []struct {
		name string
		recs []rec
		want int64
	}{
		{"to the park, as the owner measured", []rec{{KindRunStarted, 1, `{}`}, {KindClockRead, 1, `{}`}, {KindRunParked, 1, `{"wall_ms":1234}`}}, 1234},
		{"to the park, by the records if it does not say", []rec{{KindRunStarted, 1, `{}`}, {KindClockRead, 1, `{}`}, {KindRunParked, 1, `{}`}}, 2000},
		{"to the last record of a lost owner", []rec{{KindRunStarted, 1, `{}`}, {KindClockRead, 1, `{}`}, {KindRunCancelRequested, 0, `{}`}, {KindRunInterrupted, 0, `{}`}}, 1000},
		{"of a lost owner whom nobody reported", []rec{{KindRunStarted, 1, `{}`}, {KindClockRead, 1, `{}`}, {KindRunCancelRequested, 0, `{}`}, {KindRunResumed, 2, `{}`}, {KindRunInterrupted, 0, `{}`}}, 1000},
		{"on from a fresh history", []rec{{KindRunStarted, 1, `{}`}, {KindRunContinued, 1, `{"wall_ms":500}`}, {KindClockRead, 1, `{}`}, {KindRunInterrupted, 0, `{}`}}, 1500},
		{"on from a fork's source", []rec{{KindRunForked, 0, `{"wall_ms":500}`}, {KindRunStarted, 1, `{}`}, {KindClockRead, 1, `{}`}, {KindRunInterrupted, 0, `{}`}}, 1500},
		{"to the end that the owner wrote", []rec{{KindRunStarted, 1, `{}`}, {KindIntentAttest, 0, `{}`}}, 1000},
		{"not to a cancel that another wrote", []rec{{KindRunStarted, 1, `{}`}, {KindRunCancelRequested, 0, `{}`}, {KindIntentCancel, 0, `{}`}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := accepted()
			for _, r := range c.recs {
				j.add(r.kind, "", r.epoch, r.body)
			}
			if got := j.fold().WallMs; got != c.want {
				t.Errorf("%d ms, want %d", got, c.want)
			}
		})
	}
}

func TestFoldOfEnds(t *testing.T) {
	failedAt := func(path, status, message string) func(*records) {
		return func(j *records) {
			j.add(KindPlanStep, path, 1, `{"status":"`+status+`","error":{"reason":"tool_error","code":"exit_1","message":"`+message+`"}}`)
		}
	}
	fail := func(j *records) {
		j.add(KindIntentFail, "", 0, `{"reason":"tool_error","code":"exit_1","message":"no","bound":""}`)
	}
	for _, c := range []struct {
		name    string
		write   []func(*records)
		state   State
		failure Failure
	}{
		{"failed at a step", []func(*records){failedAt("root/a", "failed", "no"), fail}, Failed,
			Failure{Reason: "tool_error", Code: "exit_1", Message: "no", Path: "root/a"}},
		{"failed for another reason than the last bad step", []func(*records){failedAt("root/a", "failed", "continued"), fail}, Failed,
			Failure{Reason: "tool_error", Code: "exit_1", Message: "no"}},
		{"out of budget", []func(*records){func(j *records) {
			j.add(KindIntentFail, "", 0, `{"reason":"bound_exceeded","message":"tool_calls","bound":"tool_calls"}`)
		}}, Failed, Failure{Reason: "bound_exceeded", Message: "tool_calls", Bound: "tool_calls"}},
		{"cancelled", []func(*records){func(j *records) {
			j.add(KindIntentCancel, "", 0, `{"reason":"changed my mind","via":"command"}`)
		}}, Cancelled, Failure{Reason: "cancelled", Message: "changed my mind"}},
		{"failed without a readable reason", []func(*records){func(j *records) { j.add(KindIntentFail, "", 0, `[]`) }}, Failed, Failure{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := accepted()
			j.add(KindPolicyGate, "root/q", 0, `{"gate":"G","gate_kind":"question"}`)
			for _, w := range c.write {
				w(&j)
			}
			f := j.fold()
			if f.State != c.state || f.Failure == nil || *f.Failure != c.failure {
				t.Errorf("%s, %+v", f.State, f.Failure)
			}
			if f.Ended.IsZero() || len(f.Gates) != 0 {
				t.Errorf("ended %v, open gates %v", f.Ended, f.Gates)
			}
		})
	}
}

func TestFoldOfLineageAndRevision(t *testing.T) {
	parent := testID(9)
	for _, c := range []struct {
		draft string
		want  *Lineage
	}{
		{`{}`, nil},
		{`{"fork_of":{"run":"` + parent.String() + `","seq":12,"hash":"sha256:x"}}`, &Lineage{Parent: parent, Relation: "fork", Seq: 12}},
		{`{"parent":{"run":"` + parent.String() + `","relation":"dispatch"}}`, &Lineage{Parent: parent, Relation: "dispatch"}},
		{`{"parent":{"run":"` + parent.String() + `","relation":"rollback"},"fork_of":{"run":"` + parent.String() + `","seq":3}}`, &Lineage{Parent: parent, Relation: "rollback", Seq: 3}},
	} {
		var j records
		j.add(KindIntentDraft, "", 0, c.draft)
		got := j.fold().Lineage
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.draft, got, c.want)
		}
	}

	started := accepted()
	started.add(KindIntentDispatch, "root/a", 0, `{"child":"`+testID(1).String()+`","skill":"skill://a@1.0.0"}`)
	started.add(KindIntentDispatch, "root/b", 0, `{"child":"`+testID(2).String()+`","skill":"skill://b@1.0.0"}`)
	if got := started.fold().Lineage; got == nil || !slices.Equal(got.Children, []ID{testID(1), testID(2)}) {
		t.Errorf("its children are %+v", got)
	}

	j := accepted()
	j.add(KindIntentCorrect, "", 0, `{"material":true,"program_digest":"sha256:q","revision":2}`)
	if got := j.fold().Program.Digest; got != "sha256:p" {
		t.Errorf("a material correction is in force: %s", got)
	}
	j.add(KindPlanProposed, "", 0, `{"program_digest":"sha256:q","revision":2}`)
	if got := j.fold().Program.Digest; got != "sha256:q" {
		t.Errorf("a proposed program is not in force: %s", got)
	}
	j.add(KindIntentCorrect, "", 0, `{"material":false,"program_digest":"sha256:r","revision":3}`)
	if got := j.fold().Program.Digest; got != "sha256:r" {
		t.Errorf("a small correction is not in force: %s", got)
	}
}

func TestGatesBeforeAcceptanceAreCounted(t *testing.T) {
	var j records
	j.add(KindIntentDraft, "", 0, `{"program_kind":"plan"}`)
	j.add(KindIntentCompiled, "", 0, `{}`)
	j.add(KindIntentClarify, "", 0, `{"gate":"C","round":1}`)
	if f := j.fold(); f.Gates["C"] != Clarification || f.State != Clarifying {
		t.Errorf("%v in %s", f.Gates, f.State)
	}
	j.add(KindIntentAnswer, "", 0, `{"gate":"C","answers":{}}`)
	j.add(KindPolicyGate, "", 0, `{"gate":"D","gate_kind":"confirmation"}`)
	if f := j.fold(); len(f.Gates) != 1 || f.Gates["D"] != Confirmation || f.Decided != 1 {
		t.Errorf("%v, %d decided", f.Gates, f.Decided)
	}
	j.add(KindIntentAccept, "", 0, `{"gate":"D","program_digest":"sha256:p","bounds":{"tokens":5}}`)
	f := j.fold()
	if len(f.Gates) != 0 || f.Opened != 2 || f.Decided != 2 {
		t.Errorf("%v, %d opened, %d decided", f.Gates, f.Opened, f.Decided)
	}
	if f.Ledger.Limit[BoundTokens] != 5 {
		t.Errorf("the accepted bounds do not hold: %v", f.Ledger.Limit)
	}
}

func TestStepIsTheLeafAtWork(t *testing.T) {
	for path, want := range map[string]string{
		"root":                "root",
		"root/2/b":            "root/2/b",
		"root@2/read":         "root@2/read",
		"root/sum/model#1":    "root/sum",
		"root/sum/tool#2.1":   "root/sum",
		"critic#3/model#2":    "critic#3",
		"critic#3":            "critic#3",
		"critic#3/root/read":  "critic#3/root/read",
		"turn/model#12":       "turn",
		"a#1/b#2/c#3/model#4": "a#1",
	} {
		j := accepted()
		j.add(KindEffectIntended, path, 1, `{}`)
		if got := j.fold().Step; got != want {
			t.Errorf("a call at %s: step %s, want %s", path, got, want)
		}
	}
}

// someEvent draws records that a run might have, and some that none would.
func someEvent() *rapid.Generator[Event] {
	all := slices.Sorted(maps.Keys(kinds))
	kind := rapid.OneOf(
		rapid.SampledFrom(all),
		rapid.SampledFrom([]Kind{KindEffectIntended, KindEffectFinished, KindEffectFailed, KindPolicyGate,
			KindPolicyGateResolve, KindGateTaken, KindRunResumed, KindRunParked, KindRunInterrupted, KindPlanStep}),
	)
	name := rapid.SampledFrom(BoundNames())
	return rapid.Custom(func(t *rapid.T) Event {
		amounts := func(label string) string {
			b, _ := json.Marshal(rapid.MapOfN(name, rapid.Int64Range(-3, 1<<62), 0, 2).Draw(t, label))
			return string(b)
		}
		gate := rapid.SampledFrom([]string{"G1", "G2", ""}).Draw(t, "gate")
		body := fmt.Sprintf(`{"gate":%q,"gate_kind":%q,"action":%q,"answer":%s,"via":%q,"reserve":%s,"use":%s,"used":%s,"limit":%s,`+
			`"counters":%s,"wall_ms":%d,"status":%q,"error":{"reason":"r"},"program_digest":%q,"outcome":"partial","reason":"r",`+
			`"class":"once","invocation":%q,"path":"/w","dirty":1,"patch_digest":"sha256:d","files":{"mode":"worktree"},"subject":{"commit":"c","notices":[{"code":"n"}]}}`,
			gate, rapid.SampledFrom([]string{"bound", "question", "delivery", "in_doubt"}).Draw(t, "gate kind"),
			rapid.SampledFrom([]string{"extend", "stop"}).Draw(t, "action"), amounts("answer"),
			rapid.SampledFrom([]string{"command", "superseded"}).Draw(t, "via"),
			amounts("reserve"), amounts("use"), amounts("used"), amounts("limit"), amounts("counters"),
			rapid.Int64Range(-1, 10_000).Draw(t, "wall"), rapid.SampledFrom([]string{"started", "failed", "?"}).Draw(t, "status"),
			rapid.SampledFrom([]string{"", "sha256:p", "sha256:q"}).Draw(t, "digest"), rapid.SampledFrom([]string{"I1", "I2"}).Draw(t, "invocation"))
		return Event{
			Kind:  kind.Draw(t, "kind"),
			Run:   testID(1),
			At:    dawn.Add(time.Duration(rapid.IntRange(0, 100_000).Draw(t, "at")) * time.Millisecond),
			Path:  rapid.SampledFrom([]string{"", "root/a", "root/b/model#1", "root/a/bound#1"}).Draw(t, "path"),
			Epoch: rapid.Int64Range(0, 2).Draw(t, "epoch"),
			Body:  json.RawMessage(rapid.SampledFrom([]string{body, body, body, `{}`, `null`, `[`, `"x"`, ``}).Draw(t, "body")),
		}
	})
}

func TestFoldingInPiecesThroughJSONEqualsFoldingAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(someEvent(), 1, 40).Draw(t, "events")
		if rapid.Bool().Draw(t, "well begun") {
			events = append(accepted(), events...)
		}
		for i := range events {
			events[i].Seq = int64(i + 1)
		}
		cut := rapid.IntRange(0, len(events)).Draw(t, "cut")

		whole := records(events).fold()
		stored, err := json.Marshal(records(events[:cut]).fold())
		if err != nil {
			t.Fatal(err)
		}
		pieces := ReadFold(stored)
		for i := range events { // the first piece again: it is left out
			pieces.Apply(&events[i])
		}
		a, _ := json.Marshal(whole)
		b, _ := json.Marshal(pieces)
		if string(a) != string(b) {
			t.Fatalf("at once   %s\nin pieces %s", a, b)
		}
		for name, n := range whole.Ledger.Used {
			if n < 0 && !carried(events) {
				t.Fatalf("used %s is %d", name, n)
			}
		}
	})
}

// carried reports whether totals were taken over, which may say anything.
func carried(events []Event) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Kind == KindRunContinued || e.Kind == KindRunForked })
}

// A fold that other rules made is not believed.
func TestFoldOfOtherRulesIsMadeAnew(t *testing.T) {
	j := story()
	f := j.fold()
	for name, rules := range map[string]int{"before there were rules": 0, "later": foldRules + 1} {
		f.Rules = rules
		stored, _ := json.Marshal(f)
		if got := ReadFold(stored); got.Seq != 0 || got.State != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFoldDoesNotGrowWithRecords(t *testing.T) {
	j := accepted()
	j.add(KindRunStarted, "", 1, `{}`)
	size := func(f *Fold) int { b, _ := json.Marshal(f); return len(b) }
	f := j.fold()
	var small int
	for i := range 2000 {
		path := fmt.Sprintf("root/n%04d", i)
		for _, e := range []Event{
			{Kind: KindEffectIntended, Path: path, Body: json.RawMessage(`{"class":"once","reserve":{"tool_calls":1}}`)},
			{Kind: KindEffectFinished, Path: path, Body: json.RawMessage(`{"value":1}`)},
			{Kind: KindPolicyGate, Path: path, Body: json.RawMessage(`{"gate":"` + path + `","gate_kind":"bound"}`)},
			{Kind: KindPolicyGateResolve, Path: path, Body: json.RawMessage(`{"gate":"` + path + `","action":"extend","answer":{"tool_calls":1}}`)},
			{Kind: KindGateTaken, Path: path, Body: json.RawMessage(`{"gate":"` + path + `"}`)},
			{Kind: KindPlanStep, Path: path, Body: json.RawMessage(`{"status":"completed"}`)},
		} {
			e.Seq, e.At, e.Run = f.Seq+1, dawn, testID(1)
			f.Apply(&e)
		}
		if i == 10 {
			small = size(f)
		}
	}
	if grown := size(f) - small; grown > 40 { // counters with more digits
		t.Errorf("the fold grew by %d bytes", grown)
	}
}

// The fold knows which revision of the program is in force: a material correction
// is not, until somebody has accepted it, and one that was left aside never is.
func TestFoldKnowsTheRevisionInForce(t *testing.T) {
	j := story()[:4]
	for _, c := range []struct {
		kind     Kind
		body     string
		digest   string
		revision int
	}{
		{KindIntentCorrect, `{"program_digest":"sha256:q","revision":2,"material":false}`, "sha256:q", 2},
		{KindIntentCorrect, `{"program_digest":"sha256:r","revision":3,"material":true}`, "sha256:q", 2},
		{KindPlanProposed, `{"program_digest":"sha256:q","revision":2}`, "sha256:q", 2},
		{KindIntentCorrect, `{"program_digest":"sha256:r","revision":4,"material":true}`, "sha256:q", 2},
		{KindPlanProposed, `{"program_digest":"sha256:r","revision":4}`, "sha256:r", 4},
		{KindIntentCorrect, `{"program_digest":"sha256:s","revision":5,"material":true}`, "sha256:r", 4},
		{KindPlanProposed, `{"program_digest":"sha256:p","revision":1}`, "sha256:p", 0},
	} {
		j.add(c.kind, "", 0, c.body)
		if f := j.fold(); f.Program.Digest != c.digest || f.Program.Revision != c.revision {
			t.Errorf("after %s %s: %+v", c.kind, c.body, f.Program)
		}
	}
}

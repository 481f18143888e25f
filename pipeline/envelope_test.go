package pipeline

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
)

const loop = `name: loop
max_iterations: 2
max_cost_usd: "1.25"
agents:
  - {name: a, remote: {}, default_next: b}
  - {name: b, remote: {}, routing_rules: [{condition: again, value: true, target: a}]}
`

func TestANewEnvelopeHasEveryDefault(t *testing.T) {
	p := mustCheck(t, loop)
	created := time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.FixedZone("east", 7200))
	e := NewEnvelope(p, Input{EnvelopeID: "env_1", RequestID: "req_1", SessionID: "sess_1", RunID: "run_1", Goals: []string{"g"}, CreatedAt: created})
	var got map[string]any
	if err := json.Unmarshal(EncodeEnvelope(e), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"schema":      1.0,
		"envelope_id": "env_1", "request_id": "req_1", "session_id": "sess_1", "user_id": "anonymous", "run_id": "run_1", "thread_id": "run_1", "version": 1.0,
		"raw_input": "", "metadata": map[string]any{}, "received_at": "2026-05-04T01:02:01.123456789Z", "created_at": "2026-05-04T01:02:01.123456789Z",
		"pipeline": "loop", "pipeline_digest": p.Digest(), "stage_order": []any{},
		"current_stage": "start", "outputs": map[string]any{}, "prior": map[string]any{}, "epoch": 1.0, "frontier": []any{}, "active_stages": []any{},
		"completed_stages": []any{}, "failed_stages": map[string]any{}, "skipped_stages": map[string]any{},
		"iteration": 0.0, "llm_call_count": 0.0, "agent_hop_count": 0.0, "tool_call_count": 0.0, "tokens_in": 0.0, "tokens_out": 0.0, "cost_usd": "0.00",
		"wall_ms": 0.0, "edge_counts": []any{}, "visits": map[string]any{},
		"max_iterations": 2.0, "max_llm_calls": 10.0, "max_agent_hops": 21.0, "max_stages": 5.0, "max_tool_calls": 200.0, "max_tokens": 1e6,
		"max_cost_usd": "1.25", "max_wall_seconds": 3600.0,
		"terminated": false, "interrupts": []any{}, "interrupt_pending": false,
		"goals": []any{map[string]any{"name": "g", "status": "pending"}}, "current_stage_number": 1.0, "rounds": []any{}, "feedback": []any{}, "waivers": []any{},
		"errors": []any{}, "processing_history": []any{}, "history_total": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBoundsOfTheCallerStandInANewEnvelope(t *testing.T) {
	e := NewEnvelope(mustCheck(t, loop), Input{
		Bounds:    tipstaff.Bounds{tipstaff.BoundIterations: 1, tipstaff.BoundToolCalls: 900, tipstaff.BoundWallTime: 90_000},
		MaxStages: 3, Metadata: map[string]any{"a": int64(1)}, UserID: "ann", ThreadID: "t",
	})
	if e.MaxIterations != 1 || e.MaxToolCalls != 900 || e.MaxWallSeconds != 90 || e.MaxStages != 3 || e.MaxLLMCalls != 10 || e.UserID != "ann" || e.ThreadID != "t" {
		t.Errorf("%+v", e)
	}
	if draft := NewEnvelope(nil, Input{MaxStages: 9}); draft.MaxIterations != 3 || draft.MaxStages != 5 || draft.Pipeline != "" {
		t.Errorf("%+v", draft)
	}
}

func TestTheFirstEndingStands(t *testing.T) {
	e := NewEnvelope(mustCheck(t, loop), Input{})
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	e.Terminate(tipstaff.TerminalEdgeLimit, "one", first)
	before := EncodeEnvelope(e)
	e.Terminate(tipstaff.TerminalCompleted, "two", second)
	if !bytes.Equal(before, EncodeEnvelope(e)) || e.Outcome != tipstaff.OutcomeBound || !e.CompletedAt.Equal(first) {
		t.Errorf("%+v", e)
	}
}

// full is an Envelope in which every field that can be set is set, so that whoever
// forgets one is found out.
func full(t testing.TB) *Envelope {
	t.Helper()
	e := &Envelope{}
	fillIn(t, reflect.ValueOf(e).Elem(), 1)
	e.TerminalReason, e.Outcome = tipstaff.TerminalBreak, tipstaff.OutcomeCompleted
	return e
}

// fillIn sets everything below v to something that is not zero.
func fillIn(t testing.TB, v reflect.Value, n int) {
	t.Helper()
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 11, 15, 1, 2, 3, 1000*n+n, time.UTC)
		return
	case *any:
		*x = map[string]any{"whole": int64(1<<53 + 1), "float": 1.0, "exact": json.Number("1e400"), "list": []any{nil, []any{}, "x"}}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("é", n%5+1))
	case reflect.Int64:
		v.SetInt(int64(n) + 1<<53)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(t, v.Elem(), n+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillIn(t, v.Index(0), n+1)
		fillIn(t, v.Index(1), n+2)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"b", "a"} {
			value := reflect.New(v.Type().Elem()).Elem()
			fillIn(t, value, n+1)
			v.SetMapIndex(reflect.ValueOf(key), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillIn(t, v.Field(i), n+i)
			}
		}
	default:
		t.Fatalf("an Envelope holds a %s, which this test cannot set", v.Type())
	}
}

var sameEnvelope = cmp.Options{cmpopts.IgnoreUnexported(Envelope{}), cmpopts.EquateApproxTime(0)}

func TestStoredAndLoadedEnvelopesAreEqual(t *testing.T) {
	for name, e := range map[string]*Envelope{"full": full(t), "new": NewEnvelope(mustCheck(t, loop), Input{}), "zero": {}} {
		raw := EncodeEnvelope(e)
		back, err := DecodeEnvelope(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(e, back, sameEnvelope); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if len(raw) != e.Size() || len(raw) != back.Size() {
			t.Errorf("%s: %d bytes, but its size is %d and %d", name, len(raw), e.Size(), back.Size())
		}
		if e.DataDigest() != back.DataDigest() {
			t.Errorf("%s: the data digest changed", name)
		}
	}
}

func TestOtherStoredFormsAreRefused(t *testing.T) {
	raw := string(EncodeEnvelope(NewEnvelope(nil, Input{RawInput: "x"})))
	ended := full(t)
	ended.TerminalReason = "gave_up"
	contradicting := full(t)
	contradicting.Outcome = tipstaff.OutcomeFailed
	for name, src := range map[string]string{
		"another schema":    strings.Replace(raw, `"schema":1`, `"schema":2`, 1),
		"no schema":         strings.Replace(raw, `"schema":1,`, ``, 1),
		"a new field":       strings.Replace(raw, `"schema":1`, `"schedule":1,"schema":1`, 1),
		"a field less":      strings.Replace(raw, `"epoch":1,`, ``, 1),
		"a key twice":       strings.Replace(raw, `"epoch":1`, `"epoch":1,"epoch":1`, 1),
		"another order":     `{"wall_ms":0,` + strings.TrimSuffix(raw, `,"wall_ms":0}`)[1:] + "}",
		"spaces":            raw + " ",
		"another case":      strings.Replace(raw, `"raw_input"`, `"Raw_input"`, 1),
		"an unknown reason": string(EncodeEnvelope(ended)),
		"a wrong outcome":   string(EncodeEnvelope(contradicting)),
		"no JSON":           raw[:len(raw)/2],
		"a list":            "[]",
		"nothing":           "",
	} {
		if src == raw {
			t.Fatalf("%s: the test changes nothing", name)
		}
		if e, err := DecodeEnvelope([]byte(src)); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// dataFields are those that the data digest covers.
var dataFields = map[string]bool{
	"RawInput": true, "Metadata": true, "Pipeline": true, "PipelineDigest": true, "StageOrder": true,
	"CurrentStage": true, "Outputs": true, "Prior": true, "Epoch": true, "Frontier": true, "ActiveStages": true,
	"CompletedStages": true, "FailedStages": true, "SkippedStages": true,
	"Goals": true, "CurrentStageNumber": true, "Rounds": true, "Feedback": true, "Waivers": true,
}

func TestTheDataDigestCoversDataAndNothingElse(t *testing.T) {
	fields := reflect.VisibleFields(reflect.TypeFor[Envelope]())
	for _, f := range fields {
		if !f.IsExported() {
			continue
		}
		e := NewEnvelope(mustCheck(t, loop), Input{})
		before := e.DataDigest()
		fillIn(t, reflect.ValueOf(e).Elem().FieldByIndex(f.Index), 3)
		if changed := e.DataDigest() != before; changed != dataFields[f.Name] {
			t.Errorf("%s: digest changed: %v", f.Name, changed)
		}
	}
}

func TestTheDataDigestSeesReplacedSlots(t *testing.T) {
	e := NewEnvelope(mustCheck(t, loop), Input{})
	known := newSlots(e)
	seen := map[string]bool{known.digest(e): true}
	for i := range 100 { // many more than it keeps
		e.Outputs["a"] = map[string]any{"n": int64(i)}
		seen[known.digest(e)] = true
		if fresh := e.DataDigest(); !seen[fresh] {
			t.Fatalf("turn %d: anew it has another digest", i)
		}
	}
	if len(seen) != 101 {
		t.Errorf("%d digests", len(seen))
	}
	if n := len(known.outputs); n != len(e.Outputs) {
		t.Errorf("%d slots are remembered", n)
	}
}

// Whatever comes and goes, what is remembered of it is what would be found anew.
func TestTheDataDigestFollowsItsSlots(t *testing.T) {
	p := mustCheck(t, loop)
	rapid.Check(t, func(t *rapid.T) {
		e := NewEnvelope(p, Input{})
		known := newSlots(e)
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "ab", "a b", "\""})
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			slots, key := e.Outputs, keys.Draw(t, "key")
			if rapid.Bool().Draw(t, "prior") {
				slots = e.Prior
			}
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				delete(slots, key)
			case 1:
				slots[key] = nil
			default:
				slots[key] = map[string]any{"n": rapid.Int64().Draw(t, "n")}
			}
			if rapid.Bool().Draw(t, "asked") {
				if got, fresh := known.digest(e), e.DataDigest(); got != fresh {
					t.Fatalf("%s, anew %s", got, fresh)
				}
			}
		}
	})
}

package pb_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/pipeline"
)

// What a pipeline stores is what the wire shows: no member of an Envelope is lost or
// called by another name.
func TestTheWireHasAllThatAPipelineStores(t *testing.T) {
	var env pipeline.Envelope
	fill(reflect.ValueOf(&env).Elem())
	env.TerminalReason, env.Outcome = pipeline.ReasonHalted, pipeline.OutcomeCancelled
	env.Goals[0].Status = "satisfied"
	env.ProcessingHistory[0].Status = "skipped"
	env.Interrupts[0].Kind = "confirmation"
	env.Interrupts[0].Response.Kind = "confirmation"
	stored := pipeline.EncodeEnvelope(&env)

	var m pb.Envelope
	if err := pb.FromJSON(stored, &m); err != nil {
		t.Fatalf("%v\n%s", err, stored)
	}
	shown, err := pb.ToJSON(&m)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := json.Unmarshal(stored, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(shown, &got); err != nil {
		t.Fatal(err)
	}
	delete(want, "schema")
	if len(want) < 50 {
		t.Fatalf("only %d members are stored", len(want))
	}
	requirePart(t, "envelope", got, want)
}

// requirePart: got has all that want has, and may have more.
func requirePart(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name := range want {
			requirePart(t, path+"."+name, object[name], want[name])
		}
	case []any:
		list, _ := got.([]any)
		if len(list) != len(want) {
			t.Errorf("%s is %v, want %v", path, got, want)
			return
		}
		for i := range want {
			requirePart(t, fmt.Sprintf("%s[%d]", path, i), list[i], want[i])
		}
	default:
		if got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// fill sets everything that is stored to something that is not its zero value.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 10, 0, 0, 7, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf("text"))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(v.Field(i))
			}
		}
	default:
		panic("no value for a " + v.Type().String())
	}
}

// Both sides know the same reasons.
func TestPipelinesEndForReasonsOfTheWire(t *testing.T) {
	for _, reason := range []pipeline.Reason{
		pipeline.ReasonCompleted, pipeline.ReasonBreak, pipeline.ReasonIterations, pipeline.ReasonEdgeLimit, pipeline.ReasonVisits,
		pipeline.ReasonHops, pipeline.ReasonLLMCalls, pipeline.ReasonToolCalls, pipeline.ReasonTokens, pipeline.ReasonCost,
		pipeline.ReasonDeadline, pipeline.ReasonStages, pipeline.ReasonLLMFailed, pipeline.ReasonToolFailed, pipeline.ReasonStageFailed,
		pipeline.ReasonPolicy, pipeline.ReasonDenied, pipeline.ReasonDeadlock, pipeline.ReasonInternal, pipeline.ReasonCancelled,
		pipeline.ReasonHalted, pipeline.ReasonRolledBack,
	} {
		if got, err := pb.OutcomeOf(string(reason)); got != reason.Outcome() || err != nil {
			t.Errorf("%s: outcome %q, %v; a pipeline says %q", reason, got, err, reason.Outcome())
		}
	}
}

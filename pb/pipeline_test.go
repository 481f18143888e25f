package pb_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/pipeline"
)

// What a pipeline stores is what the wire shows: no member of an Envelope is lost or
// called by another name.
func TestTheWireHasAllThatAPipelineStores(t *testing.T) {
	var env pipeline.Envelope
	fill(reflect.ValueOf(&env).Elem())
	env.TerminalReason, env.Outcome = tipstaff.TerminalHalted, tipstaff.OutcomeCancelled
	env.Goals[0].Status = "satisfied"
	env.ProcessingHistory[0].Status = "skipped"
	env.Interrupts[0].Kind = "confirmation"
	env.Interrupts[0].Response.Kind = "confirmation"
	stored := pipeline.EncodeEnvelope(&env)

	m, err := pb.ReadEnvelope(stored)
	if err != nil {
		t.Fatalf("%v\n%s", err, stored)
	}
	if err := pb.Check(m); err != nil {
		t.Error(err)
	}
	var members map[string]any
	if err := json.Unmarshal(stored, &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "schema")
	if len(members) < 50 {
		t.Fatalf("only %d members are stored", len(members))
	}
	requireSet(t, m.ProtoReflect(), members)
}

// requireSet: every member of an object is a field that is set.
func requireSet(t *testing.T, m protoreflect.Message, object map[string]any) {
	t.Helper()
	for name, value := range object {
		fd := m.Descriptor().Fields().ByJSONName(name)
		if fd == nil {
			fd = m.Descriptor().Fields().ByTextName(name)
		}
		if fd == nil || !m.Has(fd) {
			t.Errorf("%s.%s is not set", m.Descriptor().Name(), name)
			continue
		}
		list, _ := value.([]any)
		inner, _ := value.(map[string]any)
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			requireSet(t, m.Get(fd).List().Get(0).Message(), list[0].(map[string]any))
		case inner != nil:
			requireSet(t, m.Get(fd).Message(), inner)
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

package tipstaff

import (
	"context"
	"iter"
	"reflect"
	"testing"
)

// recorded serves records as a Service does.
type recorded []Event

func (r recorded) Events(context.Context, EventsRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range r {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestDoubts(t *testing.T) {
	once := func(path string) Event {
		return Event{Kind: KindEffectIntended, Path: path, Body: []byte(`{"name":"tool.call","class":"once"}`)}
	}
	ended := func(kind Kind, path string) Event { return Event{Kind: kind, Path: path, Body: []byte(`{}`)} }
	asked := func(kind, path string) Event {
		return Event{Kind: KindPolicyGate, Path: path, Body: []byte(`{"gate_kind":"` + kind + `"}`)}
	}
	for name, c := range map[string]struct {
		log  recorded
		want []string
	}{
		"sent and not heard of":     {recorded{once("root/b"), once("root/a")}, []string{"root/a", "root/b"}},
		"may be sent again":         {recorded{{Kind: KindEffectIntended, Path: "root/a", Body: []byte(`{"class":"read"}`)}}, nil},
		"finished":                  {recorded{once("root/a"), ended(KindEffectFinished, "root/a")}, nil},
		"failed":                    {recorded{once("root/a"), ended(KindEffectFailed, "root/a")}, nil},
		"waits for a child":         {recorded{once("root/a"), ended(KindEffectSuspended, "root/a")}, nil},
		"another has finished":      {recorded{once("root/a"), ended(KindEffectFinished, "root/b")}, []string{"root/a"}},
		"asked about":               {recorded{once("root/a"), asked("in_doubt", "root/a/in_doubt")}, nil},
		"asked about something":     {recorded{once("root/a"), asked("question", "root/a")}, []string{"root/a"}},
		"asked about and sent anew": {recorded{once("root/a"), asked("in_doubt", "root/a/in_doubt"), once("root/a")}, []string{"root/a"}},
		"before the last segment":   {recorded{once("root/a"), ended(KindRunContinued, "")}, nil},
	} {
		got, err := Doubts(t.Context(), c.log, ID{})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

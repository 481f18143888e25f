package tipstaff

import (
	"maps"
	"slices"
	"testing"
)

func TestDoubts(t *testing.T) {
	once := func(path string) Event {
		return Event{Kind: KindEffectIntended, Path: path, Body: []byte(`{"name":"tool.call","class":"once"}`)}
	}
	ended := func(kind Kind, path string) Event { return Event{Kind: kind, Path: path, Body: []byte(`{}`)} }
	asked := func(kind, path string) Event {
		return Event{Kind: KindPolicyGate, Path: path, Body: []byte(`{"gate":"G","gate_kind":"` + kind + `"}`)}
	}
	for name, c := range map[string]struct {
		log  []Event
		want []string
	}{
		"sent and not heard of":     {[]Event{once("root/b"), once("root/a")}, []string{"root/a", "root/b"}},
		"may be sent again":         {[]Event{{Kind: KindEffectIntended, Path: "root/a", Body: []byte(`{"class":"read"}`)}}, nil},
		"finished":                  {[]Event{once("root/a"), ended(KindEffectFinished, "root/a")}, nil},
		"failed":                    {[]Event{once("root/a"), ended(KindEffectFailed, "root/a")}, nil},
		"waits for a child":         {[]Event{once("root/a"), ended(KindEffectSuspended, "root/a")}, nil},
		"another has finished":      {[]Event{once("root/a"), ended(KindEffectFinished, "root/b")}, []string{"root/a"}},
		"asked about":               {[]Event{once("root/a"), asked("in_doubt", "root/a/in_doubt")}, nil},
		"asked about something":     {[]Event{once("root/a"), asked("question", "root/a")}, []string{"root/a"}},
		"asked about and sent anew": {[]Event{once("root/a"), asked("in_doubt", "root/a/in_doubt"), once("root/a")}, []string{"root/a"}},
		"before the last segment":   {[]Event{once("root/a"), ended(KindRunContinued, "")}, nil},
	} {
		var f Fold
		for i, e := range c.log {
			e.Seq = int64(i + 1)
			f.Apply(&e)
		}
		if got := slices.Sorted(maps.Keys(f.Sent)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestLedgerOfTheLiveView(t *testing.T) {
	type rec struct {
		kind tipstaff.Kind
		path string
		body string
	}
	for _, c := range []struct {
		name string
		recs []rec
		want string
	}{
		{"what an attempt was granted while it runs", []rec{
			{"effect.intended", "a", `{"reserve":{"tokens":100}}`}, {"bound.reserved", "a", `{"by":{"tokens":30,"model_calls":1}}`},
		}, "model_calls 1, tokens 130"},
		{"what it then reports", []rec{
			{"effect.intended", "a", `{"reserve":{"tokens":100}}`}, {"bound.reserved", "a", `{"by":{"tokens":30,"model_calls":1}}`},
			{"effect.finished", "a", `{"use":{"tokens":7}}`},
		}, "model_calls 1, tokens 7"},
		{"what it was granted before it was lost", []rec{
			{"effect.intended", "a", `{}`}, {"bound.reserved", "a", `{"by":{"tokens":30}}`}, {"effect.intended", "a", `{}`},
			{"effect.finished", "a", `{"use":{"tokens":7}}`},
		}, "tokens 37"},
		{"what a fork's source had used", []rec{{"run.forked", "", `{"counters":{"tokens":5},"by":"local:cli"}`}}, "tokens 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newView(runA, "notes", nil)
			for i, r := range c.recs {
				v.Apply(&tipstaff.Event{Seq: int64(i + 1), Kind: r.kind, Path: r.path, Body: json.RawMessage(r.body)})
			}
			if got := strings.Join(v.bounds(0), ", "); got != c.want {
				t.Errorf("the view shows %q, want %q", got, c.want)
			}
		})
	}
}

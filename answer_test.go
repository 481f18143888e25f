package tipstaff_test

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestFullAnswer(t *testing.T) {
	bound := func(name string) tipstaff.Gate {
		return tipstaff.Gate{Kind: tipstaff.Bound, Subject: json.RawMessage(`{"bound":"` + name + `"}`)}
	}
	question := tipstaff.Gate{Kind: tipstaff.Clarification, Subject: json.RawMessage(`{"questions":[{"id":"file","prompt":"Which?","type":"text"}]}`)}
	for _, c := range []struct {
		name   string
		gate   tipstaff.Gate
		action string
		answer string
		want   string // "": it is refused
	}{
		{"a number", bound("steps"), "extend", `3`, `{"steps":3}`},
		{"a number as text", bound("tool_calls"), "extend", `"3"`, `{"tool_calls":3}`},
		{"none", bound("tool_calls"), "extend", `0`, ""},
		{"less than none", bound("tool_calls"), "extend", `-1`, ""},
		{"a part", bound("tool_calls"), "extend", `1.5`, ""},
		{"dollars", bound("cost_usd"), "extend", `0.5`, `{"cost_usd":500000000}`},
		{"whole dollars", bound("cost_usd"), "extend", `2`, `{"cost_usd":2000000000}`},
		{"dollars with their sign", bound("cost_usd"), "extend", `"$0.50"`, `{"cost_usd":500000000}`},
		{"a duration", bound("wall_time"), "extend", `"10m"`, `{"wall_time":600000}`},
		{"time without a unit", bound("wall_time"), "extend", `10`, ""},
		{"in the ledger's units", bound("cost_usd"), "extend", `{"cost_usd":500000000}`, `{"cost_usd":500000000}`},
		{"by bound, as documents write it", bound("cost_usd"), "extend", `{"cost_usd":"0.50","tool_calls":1}`, `{"cost_usd":500000000,"tool_calls":1}`},
		{"by field of a pipeline", bound("model_calls"), "extend", `{"max_llm_calls":2,"max_cost_usd":"0.50","max_wall_seconds":60,"max_stages":1}`, `{"cost_usd":500000000,"max_stages":1,"model_calls":2,"wall_time":60000}`},
		{"by both names", bound("model_calls"), "extend", `{"max_llm_calls":2,"model_calls":2}`, ""},
		{"by field, wrong", bound("wall_time"), "extend", `{"max_wall_seconds":"10m"}`, ""},
		{"by bound, wrong", bound("cost_usd"), "extend", `{"cost_usd":"much"}`, ""},
		{"another action", bound("steps"), "stop", `3`, `3`},
		{"the only question", question, "answer", `"a.md"`, `{"file":"a.md"}`},
		{"by question", question, "answer", `{"file":"a.md"}`, `{"file":"a.md"}`},
		{"no gate that is known", tipstaff.Gate{Kind: tipstaff.Question}, "answer", `"yes"`, `"yes"`},
	} {
		got, err := tipstaff.FullAnswer(c.gate, c.action, json.RawMessage(c.answer))
		if (err == nil) != (c.want != "") || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
		if err != nil && tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: the code is %s", c.name, tipstaff.CodeOf(err))
		}
	}
}

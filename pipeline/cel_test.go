package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// stage is a scope to evaluate in.
func stageScope(t testing.TB) *scope {
	p := mustCheck(t, loop)
	e := NewEnvelope(p, Input{RawInput: "do it", Goals: []string{"g"}, Metadata: map[string]any{"big": json.Number("1e400"), "id": json.Number("18446744073709551615"), "n": int64(1)}})
	e.Iteration = 2
	e.Visits["a"] = 3
	e.Outputs["a"] = map[string]any{"z": int64(1), "y": 2.0, "x": "text", "m": map[string]any{"k": []any{int64(1), nil}}}
	e.Outputs["b"] = map[string]any{"again": false}
	e.Prior["a"] = map[string]any{"old": true}
	return &scope{p: p, env: e, agent: p.Agent("b"), brought: map[string]any{"again": true, "risk": 3.5}, response: &Response{Action: "approve", Approved: new(true), Text: "yes"}, err: &StageError{Code: "timeout", Message: "late"}}
}

func evaluate(s *scope, source string) (any, error) {
	parts, err := compileText("${" + source + "}")
	if err != nil {
		return nil, err
	}
	return fill(parts, s)
}

func TestExpressionsSeeTheRun(t *testing.T) {
	s := stageScope(t)
	for source, want := range map[string]any{
		`input`:               "do it",
		`output.again`:        true,
		`output.risk > 3`:     true, // a float beside an int
		`outputs.b.again`:     true, // as the stage has just brought it
		`outputs.a.z == 1.0`:  true,
		`outputs.a.y == 2`:    true,
		`outputs["a"].x`:      "text",
		`prior.a.old`:         true,
		`metadata.n + 1`:      int64(2),
		`iteration`:           int64(2),
		`visits.a`:            int64(3),
		`visits.b`:            int64(0),
		`goals[0].status`:     "pending",
		`response.approved`:   true,
		`response.note`:       "",
		`response.data`:       nil,
		`error.code`:          "timeout",
		`has(output.nothing)`: false,
		`1 < 2.5`:             true,

		`outputs.a.m`:                        map[string]any{"k": []any{int64(1), nil}},
		`outputs.a.m.k`:                      []any{int64(1), nil},
		`{"a": [1u, 2.5], "b": {"c": null}}`: map[string]any{"a": []any{int64(1), 2.5}, "b": map[string]any{"c": nil}},
		`[outputs.a.m, output]`:              []any{map[string]any{"k": []any{int64(1), nil}}, map[string]any{"again": true, "risk": 3.5}},

		// Numbers that CEL cannot hold pass through unharmed.
		`metadata.big`:                 json.Number("1e400"),
		`metadata.id`:                  json.Number("18446744073709551615"),
		`metadata.id > 5`:              true,
		`metadata.big == metadata.big`: true,
		`metadata.big == 1.0`:          false,
	} {
		got, err := evaluate(s, source)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v (%v), not %#v", source, got, err, want)
		}
	}
}

func TestWhatNobodyCanSayIsAnError(t *testing.T) {
	s := stageScope(t)
	for source, want := range map[string]string{
		`output.nothing`:      "no such key: nothing",
		`outputs.c.x`:         "no such key: c",
		`output.risk + 1`:     "no such overload",
		`metadata.big > 1`:    "no such overload",
		`outputs.a.x > 1`:     "no such overload",
		`output.again.deeper`: "",
		`1 / (iteration - 2)`: "division by zero",
		`{1: "x"}`:            "not a string",
		`{"a": 1.0 / 0.0}`:    "no number in JSON",
		`b"bytes"`:            "no JSON value",
		`duration("1s")`:      "no JSON value",
	} {
		got, err := evaluate(s, source)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %v (%v)", source, got, err)
		}
	}
}

func TestCostIsLimited(t *testing.T) {
	s := stageScope(t)
	list := make([]any, 200)
	for i := range list {
		list[i] = int64(i)
	}
	s.env.Metadata["list"] = list
	if _, err := evaluate(s, `metadata.list.map(x, metadata.list.size())`); err != nil {
		t.Error(err)
	}
	_, err := evaluate(s, `metadata.list.all(a, metadata.list.all(b, metadata.list.all(c, a + b + c >= 0)))`)
	if err == nil || !strings.Contains(err.Error(), "cost limit") {
		t.Error(err)
	}
}

func TestObjectsIterateInKeyOrder(t *testing.T) {
	s := stageScope(t)
	object := map[string]any{}
	var keys []any
	for i := range 50 {
		key := fmt.Sprintf("k%02d", i)
		object[key] = int64(i)
		keys = append(keys, key)
	}
	s.env.Metadata["object"] = object
	literal := string(EncodeValue(object))
	for _, source := range []string{"metadata.object", literal, "{'o': " + literal + "}.o", "[" + literal + "][0]", "(iteration > 0 ? metadata.object : {})"} {
		for range 5 {
			got, err := evaluate(s, source+".map(k, k)")
			if err != nil || !reflect.DeepEqual(got, keys) {
				t.Fatalf("%.20s: %v %v", source, got, err)
			}
		}
	}
	got, err := evaluate(s, `{3: 'c', 1u: 'u', true: 't', 1: 'a', 's': 's', false: 'f'}.map(k, string(k))`)
	if want := []any{"false", "true", "1", "3", "s", "1"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

func TestRulesMatch(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - name: a
    output_key: slot
    remote: {}
    routing_rules:
      - {condition: n, value: 1, target: end}
      - {condition: gone, value: null, target: end}
      - {condition: none, value: null, target: end}
      - {condition: list, value: [1.0, {k: true}], target: end}
      - {when: 'output.n > 0 && outputs.slot.n == 1', target: end}
      - {when: 'output.missing == 1', target: end}
      - {when: 'output.word', target: end}
`)
	a := p.Agent("a")
	e := NewEnvelope(p, Input{})
	e.Outputs["slot"] = map[string]any{"n": 1.0, "none": nil, "word": "yes", "list": []any{int64(1), map[string]any{"k": true}}}
	want := []string{"true <nil>", "false <nil>", "true <nil>", "true <nil>", "true <nil>",
		`false when "output.missing == 1": no such key: missing`, `false when "output.word": it yields a string, not a boolean`}
	for i := range a.Rules {
		yes, err := a.Rules[i].matches(&scope{p: p, env: e, agent: a})
		if got := fmt.Sprint(yes, " ", err); got != want[i] {
			t.Errorf("rule %d: %s", i, got)
		}
	}
}

func TestTemplates(t *testing.T) {
	s := stageScope(t)
	for text, want := range map[string]any{
		"plain":                          "plain",
		"":                               "",
		"a ${input} b ${iteration}":      "a do it b 2",
		"${outputs.a.m}!":                `{"k":[1,null]}!`,
		"${outputs.a.y}":                 2.0,
		"${ outputs.a.y }":               2.0,
		" ${outputs.a.y}":                " 2.0",
		"$${input} $${":                  "${input} ${",
		"cost: $5 and $$ and $":          "cost: $5 and $$ and $",
		"$$${input}":                     "$${input}",
		`${"}" + '}' + """}""" + r"\"}x`: `}}}\x`,
		`${{"a": {"b": 1}}.a.b}`:         int64(1),
		"${input // a comment with }\n}": "do it",
		`${"\"}"}`:                       `"}`,
	} {
		parts, err := compileText(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := fill(parts, s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %#v (%v), not %#v", text, got, err, want)
		}
	}
	for _, text := range []string{"${", "${input", `${"}`, "${}", "${input} ${", "${input // }", "${nobody}", "${input}}${"} {
		if parts, err := compileText(text); err == nil {
			t.Errorf("%q is %v", text, parts)
		}
	}
}

func TestTemplatesOfObjects(t *testing.T) {
	p := mustCheck(t, `name: loop
agents:
  - {name: a, remote: {}}
  - name: b
    remote: {input: {text: "n = ${outputs.a.z}", value: "${outputs.a.z}", list: ["${output}", 1, 1.5, null, true], deep: {"k": "$${x}"}}}
`)
	s := stageScope(t)
	got, err := p.Agent("b").Remote.Input.value(s)
	want := map[string]any{
		"text": "n = 1", "value": int64(1), "deep": map[string]any{"k": "${x}"},
		"list": []any{map[string]any{"again": true, "risk": 3.5}, int64(1), 1.5, nil, true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v %v", got, err)
	}
	text, err := p.Agent("b").Remote.Input.text(s)
	if err != nil || text != string(EncodeValue(want)) {
		t.Errorf("%s %v", text, err)
	}
	if input, err := p.Agent("a").Remote.Input.value(s); err != nil || input != "do it" {
		t.Errorf("a remote stage gets %v (%v)", input, err)
	}
}

func TestRunsShareAPipeline(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - name: a
    remote: {input: "${metadata.n} of ${metadata.object.map(k, k)}"}
    routing_rules: [{when: "output.n == metadata.n", target: end}]
`)
	a := p.Agent("a")
	var wg sync.WaitGroup
	for n := range int64(100) {
		wg.Go(func() {
			e := NewEnvelope(p, Input{Metadata: map[string]any{"n": n, "object": map[string]any{"b": n, "a": n}}})
			s := &scope{p: p, env: e, agent: a, brought: map[string]any{"n": n}}
			text, err := a.Remote.Input.text(s)
			if want := fmt.Sprintf(`%d of ["a","b"]`, n); err != nil || text != want {
				t.Errorf("%q %v", text, err)
			}
			if yes, err := a.Rules[0].matches(s); !yes || err != nil {
				t.Errorf("run %d: %v %v", n, yes, err)
			}
		})
	}
	wg.Wait()
}

func TestControlIsReadStrictly(t *testing.T) {
	object, err := DecodeObject([]byte(`{"interrupt":{"kind":"question","question":"q","message":"m","data":{"n":1.0},"ttl_seconds":5},
		"break":true,"feedback":"f","satisfied_goals":["g"],"summary":"s","metadata":{"n":1,"f":1.0}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadControl(object)
	want := &Control{
		Interrupt: &InterruptRequest{Kind: "question", Question: "q", Message: "m", Data: map[string]any{"n": 1.0}, TTLSeconds: 5},
		Break:     true, Feedback: "f", SatisfiedGoals: []string{"g"}, Summary: "s", Metadata: map[string]any{"n": int64(1), "f": 1.0},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	for src, path := range map[string]string{
		`{"brake":true}`:                                      "_control.brake",
		`{"break":"yes"}`:                                     "_control.break",
		`{"satisfied_goals":[1]}`:                             "_control.satisfied_goals",
		`{"interrupt":{"kind":"shout"}}`:                      "_control.interrupt.kind",
		`{"interrupt":{}}`:                                    "_control.interrupt.kind",
		`{"interrupt":{"kind":"question","ttl":1}}`:           "_control.interrupt.ttl",
		`{"interrupt":{"kind":"question","ttl_seconds":-1}}`:  "_control.interrupt.ttl_seconds",
		`{"interrupt":{"kind":"question","ttl_seconds":1.5}}`: "_control.interrupt.ttl_seconds",
		`{"metadata":[]}`:                                     "_control.metadata",
	} {
		object, err := DecodeObject([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadControl(object); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", src, err)
		}
	}
	if c, err := ReadControl(nil); c != nil || err != nil {
		t.Errorf("%v %v", c, err)
	}
}

func TestOutputsAreChecked(t *testing.T) {
	p := mustCheck(t, `name: p
agents: [{name: a, remote: {}, required_output_fields: [x, y], output_schema: {type: object, properties: {x: {type: integer}}}}]
`)
	a := p.Agent("a")
	if err := a.checkOutput(map[string]any{"x": int64(1), "y": nil}, []byte(`{"x":1,"y":null}`)); err != nil {
		t.Error(err)
	}
	for want, output := range map[string]map[string]any{
		"has no x, y": {"z": nil}, "has no y": {"x": int64(1)}, "schema": {"x": "text", "y": nil},
	} {
		if err := a.checkOutput(output, EncodeValue(output)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", output, err)
		}
	}
}

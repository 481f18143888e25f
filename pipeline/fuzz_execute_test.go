package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
)

// A state that is restored is written down as the same again, whatever it says about
// stages that the pipeline does not have.
func FuzzRestore(f *testing.F) {
	p := loopOf(f, 1).p
	env := EncodeEnvelope(NewEnvelope(p, Input{RunID: theRun}))
	for _, seed := range []string{
		`"turn":3,"transitions":4,"parent":"cp_x_2","closed":["a"],"owed":1`,
		`"entries":{"b":{"feedback":"f","granted":true,"response":{"kind":"question","action":"answer"},"data":{"n":1.0}}}`,
		`"more_edges":[{"from":"b","to":"a","count":2}],"more_visits":{"a":1}`,
		`"entries":{"nobody":{}},"turn":-1`, `"entries":{"b":{"data":[1]}}`,
	} {
		f.Add([]byte(`{"schema":1,"envelope":` + string(env) + `,` + seed + `}`))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		first, err := Restore(state)
		if err != nil {
			return
		}
		again := func(s State) *executor {
			x := newExecutor(nil, p, &s, nil)
			x.restore()
			return x
		}
		x := again(first)
		second, err := Restore(stateOf(t, x.resumeLater()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		y := again(second)
		if diff := cmp.Diff(x.stages, y.stages, cmp.AllowUnexported(stageState{})); diff != "" {
			t.Errorf("the stages stand elsewhere: %s", diff)
		}
		if got, want := flow.JSON(y.pending), flow.JSON(x.pending); string(got) != string(want) {
			t.Errorf("pending is %s, not %s", got, want)
		}
	})
}

// Only a plain approval of something complete counts as one, and what people are
// shown can be signed.
func FuzzContract(f *testing.F) {
	for _, seed := range []string{
		`{"verdict":"approved"}`, `{"verdict":"approved","incomplete":[]}`, `{"verdict":"approved","incomplete":["x"]}`,
		`{"verdict":true,"findings":[{"severity":"P0","line":9007199254740993},"text",null,[1]]}`, `{"incomplete":{"a":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		output, err := DecodeObject(raw)
		if err != nil {
			return
		}
		c := contractOf(&visit{path: "a#1", output: output})
		list, isList := output["incomplete"].([]any)
		complete := output["incomplete"] == nil || isList && len(list) == 0
		if c.rejected() == (output["verdict"] == "approved" && complete) {
			t.Errorf("%s is rejected: %v", raw, c.rejected())
		}
		for _, finding := range c.findings {
			if finding.Line < 0 || finding.Line > maxSafe {
				t.Errorf("line %d cannot be signed", finding.Line)
			}
		}
	})
}

// A control part is taken out of the output, or the output is refused.
func FuzzControl(f *testing.F) {
	for _, seed := range []string{
		`{"x":1}`, `{"x":1,"_control":{"break":true}}`, `{"_control":{"interrupt":{"kind":"question","data":{"n":1.0},"ttl_seconds":5}}}`,
		`{"_control":{"metadata":{"n":9007199254740993}}}`, `{"_control":{"shout":1}}`, `{"_control":7}`, `{"_control":{"interrupt":{"kind":"x"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		given, err := DecodeObject(raw)
		if err != nil {
			return
		}
		v := &visit{agent: &Agent{Way: WayModel}}
		output, control, err := v.split(Result{Output: given})
		if err != nil {
			return
		}
		if _, left := output[controlKey]; left {
			t.Errorf("%s stays in the output", controlKey)
		}
		for key := range given {
			if _, kept := output[key]; !kept && key != controlKey {
				t.Errorf("%s is lost", key)
			}
		}
		if i := control.Interrupt; i != nil && gateActions[i.Kind] == nil {
			t.Errorf("an interrupt of kind %q", i.Kind)
		}
		if _, err := json.Marshal(control); err != nil {
			t.Error(err)
		}
	})
}

package runner

import (
	"encoding/json"
	"testing"
)

// Verifying leaves out what the memory signs for, and nothing that only looks
// like it.
func TestEvidenceOfTheMemoryStandsApart(t *testing.T) {
	for in, want := range map[string]string{
		`{"revision":1}`: `{"revision":1}`,
		`{"cortex":{"attest_seq":3,"learn_seq":4},"revision":1}`:       `{"revision":1}`,
		`{"cortex":{"attest_seq":3,"learn_seq":5},"revision":1}`:       `{"cortex":{"attest_seq":3,"learn_seq":5},"revision":1}`,
		`{"cortex":{"attest_seq":0,"learn_seq":1},"revision":1}`:       `{"cortex":{"attest_seq":0,"learn_seq":1},"revision":1}`,
		`{"cortex":{"attest_seq":3,"learn_seq":4,"x":1},"revision":1}`: `{"cortex":{"attest_seq":3,"learn_seq":4,"x":1},"revision":1}`,
		`{"cortex":{"attest_seq":3},"revision":1}`:                     `{"cortex":{"attest_seq":3},"revision":1}`,
		`{"cortex":null,"revision":1}`:                                 `{"cortex":null,"revision":1}`,
		`[]`:                                                           `[]`,
	} {
		if got := apart(json.RawMessage(in)); !sameJSON(got, json.RawMessage(want)) {
			t.Errorf("%s became %s", in, got)
		}
	}
}

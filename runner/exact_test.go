package runner

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff/canon"
)

// Whatever is put into an envelope comes back as it was given.
func TestExactValues(t *testing.T) {
	for _, raw := range []string{`1`, `1.0`, `-0.0`, `9007199254740993`, `1e400`, `0.1`, `1E2`, `"x"`, `null`, `[1,2.0]`, `{"a":1.50}`, `{"a":1}`,
		`{"$json":"1"}`, `{"$json":1}`, `{"$json":"1","b":2}`} {
		made, err := json.Marshal(map[string]exact{"v": exact(raw)})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := canon.Form(made)
		if err != nil {
			t.Errorf("%s cannot stand in an envelope: %v", raw, err)
			continue
		}
		var back map[string]exact
		if err := json.Unmarshal(stored, &back); err != nil || string(back["v"]) != raw {
			t.Errorf("%s came back as %s: %v", raw, back["v"], err)
		}
	}
}

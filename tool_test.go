package tipstaff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestCallProgramTakesNothingForAReference(t *testing.T) {
	for args, want := range map[string]string{
		``:             `{}`,
		` {} `:         `{}`,
		`{"a":"${x}"}`: `{"a":"$${x}"}`,
		`{"a":"$${x} ${","b":["${",{"c":"${y}"}]}`: `{"a":"$$${x} $${","b":["$${",{"c":"$${y}"}]}`,
		`{"n":12345678901234567890,"f":1.50}`:      `{"f":1.50,"n":12345678901234567890}`,
		`{"h":"<&>"}`:                              `{"h":"<&>"}`,
	} {
		src, err := CallProgram("mcp://desk/echo@1.0.0", json.RawMessage(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		var doc struct {
			Kind, Name string
			Tools      []string
			Root       struct {
				ID, Kind, Tool string
				Args           json.RawMessage
			}
			Outputs map[string]string
		}
		if err := json.Unmarshal(src, &doc); err != nil {
			t.Fatal(err)
		}
		if string(doc.Root.Args) != want {
			t.Errorf("%s became %s, want %s", args, doc.Root.Args, want)
		}
		if doc.Kind != "plan" || doc.Name != "call desk/echo" || doc.Root.Tool != "mcp://desk/echo@1.0.0" || doc.Outputs["output"] != "${call.output}" {
			t.Errorf("the plan is %s", src)
		}
	}
	for _, args := range []string{`[]`, `null`, `"a"`, `{`, `{} {}`, `{}x`} {
		if _, err := CallProgram("mcp://desk/echo@1.0.0", json.RawMessage(args)); CodeOf(err) != InvalidArgument {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestOnlyAWantOfALockCanBePinned: where something else is wrong as well, pinning
// would not help.
func TestOnlyAWantOfALockCanBePinned(t *testing.T) {
	refused := func(codes ...string) error {
		r := &ToolRefusal{}
		for i, code := range codes {
			r.Tools = append(r.Tools, RefusedTool{Server: fmt.Sprintf("s%d", i%2), Code: code})
		}
		return fmt.Errorf("no: %w", &Error{Code: Refused, Err: r})
	}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{nil, nil},
		{errors.New("other"), nil},
		{refused("unlocked_tool"), []string{"s0"}},
		{refused("unlocked_tool", "definition_changed", "unlocked_tool"), []string{"s0", "s1"}},
		{refused("unlocked_tool", "pin_mismatch"), nil},
		{refused("env_missing"), nil},
	} {
		if got := Pinnable(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

func fittingDefinition(t *testing.T, schema string) *Definition {
	t.Helper()
	raw := json.RawMessage(`{"name":"x","inputSchema":` + schema + `}`)
	d, err := define("s", "1.0.0", raw, workspace.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What was found to fit one definition says nothing about another, nor about
// other bytes.
func TestFittingArgumentsAreKnownByDefinitionAndBytes(t *testing.T) {
	number := fittingDefinition(t, `{"type":"object","properties":{"a":{"type":"number"}}}`)
	text := fittingDefinition(t, `{"type":"object","properties":{"a":{"type":"string"}}}`)
	f := newFitting()
	for range 2 {
		args, refused := f.arguments(number, json.RawMessage(`{ "a": 1.0 }`))
		if refused != nil || string(args) != `{"a":1}` {
			t.Errorf("%s %v", args, refused)
		}
		if _, refused := f.arguments(text, json.RawMessage(`{ "a": 1.0 }`)); refused == nil || refused.Code != CodeInvalidArguments {
			t.Errorf("another definition: %v", refused)
		}
		if _, refused := f.arguments(number, json.RawMessage(`{ "a": "1.0" }`)); refused == nil || refused.Code != CodeInvalidArguments {
			t.Errorf("other bytes: %v", refused)
		}
	}
	if len(f.known) != 1 {
		t.Errorf("%d are remembered: refusals must not be", len(f.known))
	}
}

func TestFittingArgumentsDoNotFillTheMemory(t *testing.T) {
	d := fittingDefinition(t, `{"type":"object"}`)
	f := newFitting()
	for i := range 100 {
		raw := fmt.Sprintf(`{"a":"%d%s"}`, i, strings.Repeat("x", 10_000))
		if _, refused := f.arguments(d, json.RawMessage(raw)); refused != nil {
			t.Fatal(refused)
		}
	}
	huge := fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", fittingSize))
	if _, refused := f.arguments(d, json.RawMessage(huge)); refused != nil {
		t.Fatal(refused)
	}
	total := 0
	for key, args := range f.known {
		total += len(key.args) + len(args)
	}
	if total > fittingSize || len(f.known) == 0 {
		t.Errorf("%d entries of %d bytes", len(f.known), total)
	}
}

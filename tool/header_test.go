package tool

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

func TestHeadersOfParameters(t *testing.T) {
	for name, c := range map[string]struct{ properties, fault string }{
		"none":                    {`{"a": {"type": "number"}}`, ""},
		"each type":               {`{"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "integer", "x-mcp-header": "B"}, "c": {"type": "boolean", "x-mcp-header": "C-c_1"}}`, ""},
		"one further down":        {`{"a": {"type": "object", "properties": {"b": {"type": "string", "x-mcp-header": "B"}}}}`, ""},
		"beside any value":        {`{"a": true, "b": {"type": "string", "x-mcp-header": "B"}}`, ""},
		"empty":                   {`{"a": {"type": "string", "x-mcp-header": ""}}`, "#/properties/a: x-mcp-header: it is not the name"},
		"no text":                 {`{"a": {"type": "string", "x-mcp-header": 1}}`, "it is not the name"},
		"null":                    {`{"a": {"type": "string", "x-mcp-header": null}}`, "it is not the name"},
		"a space":                 {`{"a": {"type": "string", "x-mcp-header": "My Region"}}`, `" Region" cannot stand`},
		"a colon":                 {`{"a": {"type": "string", "x-mcp-header": "Region:Primary"}}`, "cannot stand"},
		"a letter beyond ASCII":   {`{"a": {"type": "string", "x-mcp-header": "Région"}}`, "cannot stand"},
		"a line break":            {`{"a": {"type": "string", "x-mcp-header": "A\r\nB"}}`, "cannot stand"},
		"a number":                {`{"a": {"type": "number", "x-mcp-header": "A"}}`, "only a string"},
		"an object":               {`{"a": {"type": "object", "x-mcp-header": "A"}}`, "only a string"},
		"an array":                {`{"a": {"type": "array", "x-mcp-header": "A"}}`, "only a string"},
		"several types":           {`{"a": {"type": ["string", "null"], "x-mcp-header": "A"}}`, "only a string"},
		"no type":                 {`{"a": {"x-mcp-header": "A"}}`, "only a string"},
		"twice":                   {`{"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "A"}}`, "two parameters"},
		"twice, but for the case": {`{"a": {"type": "string", "x-mcp-header": "My"}, "b": {"type": "string", "x-mcp-header": "mY"}}`, "two parameters"},
		"twice, at two depths":    {`{"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "A"}}}}`, "#/properties/b/properties/c"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := json.RawMessage(`{"name": "t", "inputSchema": {"type": "object", "properties": ` + c.properties + `}}`)
			d, err := define("s", "1.0.0", raw, workspace.Tool{})
			if err == nil {
				err = d.usable()
			}
			switch {
			case c.fault == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("no word of %q: %v", c.fault, err)
			}
		})
	}
}

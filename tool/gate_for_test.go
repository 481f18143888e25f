package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

func entries() []tool.Entry {
	return []tool.Entry{
		{URI: "mcp://a/act@1.0.0", Server: "a", Name: "act", Version: "1.0.0", Raw: json.RawMessage(onceTool), Config: workspace.Tool{Timeout: time.Second}},
		{URI: "mcp://a/echo@1.0.0", Server: "a", Name: "echo", Version: "1.0.0", Raw: json.RawMessage(echoTool)},
		{URI: "mcp://b/act@2.0.0", Server: "b", Name: "act", Version: "2.0.0", Raw: json.RawMessage(onceTool), Config: workspace.Tool{Effect: flow.Idempotent}},
	}
}

func TestGateWithoutAManifest(t *testing.T) {
	g, err := tool.NewGateFor(entries(), rules(t, "all", "*/*", policy.Allow))
	if err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]flow.Class{"mcp://a/act@1.0.0": flow.Once, "mcp://a/echo@1.0.0": flow.Read, "mcp://b/act@2.0.0": flow.Idempotent} {
		v := g.Ask(tool.Request{URI: uri, Args: json.RawMessage(`{"to":"x"}`), Agent: true})
		if strings.Contains(uri, "echo") {
			v = g.Ask(tool.Request{URI: uri, Agent: true})
		}
		if v.Do != policy.Allow || v.Class != want {
			t.Errorf("%s: %v, class %s, %v", uri, v.Do, v.Class, v.Err)
		}
	}
	if v := g.Ask(tool.Request{URI: "mcp://b/echo@2.0.0", Agent: true}); v.Err == nil || v.Err.Code != tool.CodeUndeclared {
		t.Errorf("a tool that is not there: %+v", v)
	}
	d, err := g.Tools.Lookup("mcp://a/act@1.0.0")
	if err != nil || d.Timeout != time.Second || d.MaxResult != workspace.DefaultMaxResult {
		t.Errorf("got %+v, %v", d, err)
	}
	asking, err := tool.NewGateFor(entries(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := asking.Ask(tool.Request{URI: "mcp://a/echo@1.0.0", Agent: true}); v.Do != policy.Ask {
		t.Errorf("without a policy: %v, %v", v.Do, v.Err)
	}
}

func TestEntriesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*tool.Entry){
		"declared twice":              func(e *tool.Entry) { *e = entries()[1] },
		"pinned":                      func(e *tool.Entry) { e.URI = "mcp://a/act@latest" },
		"does not name":               func(e *tool.Entry) { e.Server = "b" },
		"its definition names":        func(e *tool.Entry) { e.Raw = json.RawMessage(echoTool) },
		"pin does not fit":            func(e *tool.Entry) { e.Version = "1.0.1" },
		"no input schema":             func(e *tool.Entry) { e.Raw = json.RawMessage(`{"name":"act"}`) },
		"input schema cannot be used": func(e *tool.Entry) { e.Raw = json.RawMessage(`{"name":"act","inputSchema":{"type":7}}`) },
		"annotations cannot be read":  func(e *tool.Entry) { e.Raw = json.RawMessage(`{"name":"act","inputSchema":{},"annotations":[]}`) },
	} {
		list := entries()
		change(&list[0])
		g, err := tool.NewGateFor(list, nil)
		if err == nil || g != nil {
			t.Errorf("%s: a gate was made", name)
			continue
		}
		contains(t, err.Error(), name)
	}
}

// TestHintsDecideWhatIsDestructive goes through every combination of the class and
// the two hints: absent, false, true.
func TestHintsDecideWhatIsDestructive(t *testing.T) {
	for _, class := range []flow.Class{flow.Read, flow.Idempotent, flow.Once} {
		for _, destructive := range []string{"", "false", "true"} {
			for _, open := range []string{"", "false", "true"} {
				hints := map[string]json.RawMessage{}
				if destructive != "" {
					hints["destructiveHint"] = json.RawMessage(destructive)
				}
				if open != "" {
					hints["openWorldHint"] = json.RawMessage(open)
				}
				raw := flow.JSON(map[string]any{"name": "t", "description": "says so", "inputSchema": map[string]any{}, "annotations": hints})
				g, err := tool.NewGateFor([]tool.Entry{{URI: "mcp://a/t@1.0.0", Server: "a", Name: "t", Version: "1.0.0", Raw: raw, Config: workspace.Tool{Effect: class}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				d := g.Tools.Definitions()[0]
				wantClass := class
				if destructive == "true" { // a hint that states once
					wantClass = flow.Once
				}
				if want := wantClass != flow.Read && destructive != "false"; d.Destructive() != want || d.Class != wantClass {
					t.Errorf("%s, destructive %q: class %s, %v", class, destructive, d.Class, d.Destructive())
				}
				if want := open != "false"; d.OpenWorld() != want {
					t.Errorf("open world %q: %v", open, d.OpenWorld())
				}
				if (d.Hints.Destructive == nil) != (destructive == "") || (d.Hints.OpenWorld == nil) != (open == "") || d.Description != "says so" {
					t.Errorf("absent and false are not kept apart: %+v", d.Hints)
				}
			}
		}
	}
}

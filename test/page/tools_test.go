package page_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/test/webtest"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// desk is a server with one tool, whose description is what says holds.
func desk(says *string) tool.Server {
	return tool.MCP(func(ctx context.Context) (mcp.Transport, error) {
		server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1.0.0"}, nil)
		server.AddTool(&mcp.Tool{Name: "echo", Description: *says, InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "said"}}}, nil
			})
		client, end := mcp.NewInMemoryTransports()
		_, err := server.Connect(ctx, end, nil)
		return client, err
	})
}

// The pages of tools and memory say what the services of both say, and change nothing: neither
// the lock, however the server has changed, nor the memory.
func TestToolsAndMemoryOnThePage(t *testing.T) {
	const once = "Says it again.\nOnce."
	says := once
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", "allowed_effects: [read]\nservers:\n  desk: {command: [desk], tools: {echo: {}}}\n")
		b.Config = func(c *runner.Config) {
			c.Servers = func(*workspace.Manifest, string, []string) map[string]tool.Server {
				return map[string]tool.Server{"desk": desk(&says)}
			}
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tools, memory, alice := b.Runner.Tools(), runner.Memory{Runner: b.Runner}, b.as("alice")
	pins, err := tools.Compare(alice, nil)
	check(err)
	check(tools.Pin(alice, pins))
	_, err = memory.Remember(alice, tipstaff.RememberRequest{Type: "fact", Text: "The desk is <b>blue</b>", Pinned: true, Importance: 8})
	check(err)
	if run := b.start("alice", `{kind: plan, version: 1, root: {id: say, kind: tool_call, tool: "mcp://desk/echo@1.0.0"}}`); run.State != tipstaff.Completed {
		t.Fatalf("the run is %s: %+v", run.Status, run.Error)
	}
	w := b.browser("alice")

	list := w.open("/ui/tools")
	list.says("desk", "echo", "locked", "read", "hints")
	if p := w.open("/ui/tools/desk/echo"); !p.shows("mcp://desk/echo@1.0.0") || !p.shows(once) || !p.shows("Remembered uses") || p.shows("None among the newest") {
		t.Errorf("the tool: %s", p.text())
	}
	w.get("/ui/tools/desk/nothing").answers(http.StatusBadRequest)

	lock := func() string {
		text, err := os.ReadFile(filepath.Join(b.Dir, "tipstaff.lock"))
		check(err)
		return string(text)
	}
	locked := lock()
	says = "Says it again.\nTwice. \u202e<script>x</script>"
	checked := w.post("/ui/tools/check", list.formOf("/ui/tools/check")).answers(http.StatusOK)
	for _, want := range []string{"definition_changed", "echo /description", "Says it again.", "- Once.", `+ Twice. \u202e<script>x</script>`, "Calls are refused until this is mended.", "tipstaff tools pin desk"} {
		if !checked.shows(want) {
			t.Errorf("the check does not say %q: %s", want, checked.text())
		}
	}
	if lock() != locked {
		t.Error("the page has written the lock")
	}
	report, err := tools.Verify(alice, false)
	check(err)
	if len(report.Findings) == 0 {
		t.Error("nothing is found")
	}
	for _, f := range report.Findings {
		if !checked.shows(f.Message) {
			t.Errorf("the page does not say %s", f.Message)
		}
	}
	w.post("/ui/tools/check", url.Values{}).answers(http.StatusForbidden) // without the token of forms

	remembered := w.open("/ui/memory")
	weights, err := memory.Weights(alice)
	check(err)
	for _, want := range []tipstaff.Billionths{weights.R, weights.A, weights.C, weights.D, weights.V} {
		remembered.says(want.String())
	}
	items, err := memory.Items(alice, tipstaff.MemoryQuery{})
	check(err)
	if len(items) < 2 {
		t.Errorf("only %d items are remembered", len(items))
	}
	for _, item := range items {
		if !remembered.shows(item.Text) {
			t.Errorf("%s is missing: %s", item.Item, remembered.text())
		}
		p := w.open("/ui/memory/" + strings.TrimPrefix(item.Item, "cortex://"))
		item, err = memory.Item(alice, item.Item)
		check(err)
		wants := []string{item.Item, item.Text, item.Factors.C.String(), item.Factors.D.String()}
		if item.Pinned { // others are worth a little less every second
			wants = append(wants, item.Score.String(), "pinned")
		}
		if !item.Run.IsZero() {
			wants = append(wants, item.Run.String())
		}
		for _, want := range wants {
			if !p.shows(want) {
				t.Errorf("%s does not say %q: %s", item.Item, want, p.text())
			}
		}
	}
	rebuilt, err := memory.Rebuild(alice, true)
	check(err)
	if p := w.open("/ui/memory?rebuild=check"); !p.shows(rebuilt.Head) || !p.shows("No problem was found.") || p.shows("does not hold") {
		t.Errorf("the rebuild: %s", p.text())
	}
	settings := b.browser("root").open("/ui/settings")
	settings.says("Version", "Key of the executor", b.Dir, "in the queue", "Live pages", "alice", "admin")
}

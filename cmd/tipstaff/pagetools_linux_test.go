package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

const deskDescription = "Says it again."

// The pages of tools and memory say what the commands say, and change nothing: neither the
// lock, however the server has changed, nor the memory.
func TestToolsAndMemoryOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, `-- tipstaff.yaml --
allowed_effects: [read]
servers:
  desk: {command: [toolserver, desk], tools: {echo: {}}}
-- desk.json --
{"version": "1.0.0", "tools": [{"name": "echo", "description": "`+deskDescription+`\nOnce.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]}
-- plan.yaml --
kind: plan
version: 1
root: {id: say, kind: tool_call, tool: "mcp://desk/echo@1.0.0"}
`)
	w.Must(0, "tools", "pin", "--yes")
	w.Must(0, "memory", "remember", "fact", "The desk is <b>blue</b>", "--pin", "--importance", "8")
	run := strings.TrimSpace(w.Must(0, "run", "plan.yaml", "--json").Out)
	if !strings.Contains(run, `"completed"`) {
		t.Fatal(run)
	}
	b := w.serves().browse(t)

	list := b.get("/ui/tools")
	for _, want := range []string{"desk", "echo", "locked", "read", "hints"} {
		if !list.says(want) {
			t.Errorf("the tools do not say %q: %s", want, list.text())
		}
	}
	if p := b.get("/ui/tools/desk/echo"); !p.says("mcp://desk/echo@1.0.0") || !p.says(deskDescription) || !p.says("Remembered uses") || p.says("None among the newest") {
		t.Errorf("the tool: %s", p.text())
	}
	if p := b.get("/ui/tools/desk/nothing"); p.status != http.StatusBadRequest {
		t.Errorf("a tool that is not declared is answered %d", p.status)
	}

	lock, script := w.Read("tipstaff.lock"), w.Read("desk.json")
	w.Write("desk.json", strings.Replace(script, "Once.", `Twice. \u202e<script>x</script>`, 1))
	checked := b.post("/ui/tools/check", list.form(t, "/check").fields)
	for _, want := range []string{"definition_changed", "echo /description", deskDescription, "- Once.", `+ Twice. \u202e<script>x</script>`, "Calls are refused until this is mended.", "tipstaff tools pin desk"} {
		if !checked.says(want) {
			t.Errorf("the check does not say %q: %s", want, checked.text())
		}
	}
	if w.Read("tipstaff.lock") != lock {
		t.Error("the page has written the lock")
	}
	var report tipstaff.ToolReport
	w.Check(json.Unmarshal([]byte(w.Must(3, "tools", "verify", "--json").Out), &report))
	for _, f := range report.Findings {
		if !checked.says(f.Message) {
			t.Errorf("the page does not say what the command does: %s", f.Message)
		}
	}

	memory := b.get("/ui/memory")
	var weights tipstaff.MemoryWeights
	w.Check(json.Unmarshal([]byte(w.Must(0, "memory", "weights", "--json").Out), &weights))
	for _, want := range []tipstaff.Billionths{weights.R, weights.A, weights.C, weights.D, weights.V} {
		if !memory.says(want.String()) {
			t.Errorf("the weight %s is missing: %s", want, memory.text())
		}
	}
	for line := range strings.Lines(w.Must(0, "memory", "list", "--json").Out) {
		var item tipstaff.MemoryItem
		w.Check(json.Unmarshal([]byte(line), &item))
		if !memory.says(item.Text) {
			t.Errorf("%s is missing: %s", item.Item, memory.text())
		}
		p := b.get("/ui/memory/" + strings.TrimPrefix(item.Item, "cortex://"))
		w.Check(json.Unmarshal([]byte(w.Must(0, "memory", "show", item.Item, "--json").Out), &item))
		wants := []string{item.Item, item.Text, item.Factors.C.String(), item.Factors.D.String()}
		if item.Pinned { // others are worth a little less every second
			wants = append(wants, item.Score.String(), "pinned")
		}
		if !item.Run.IsZero() {
			wants = append(wants, item.Run.String())
		}
		for _, want := range wants {
			if !p.says(want) {
				t.Errorf("%s does not say %q: %s", item.Item, want, p.text())
			}
		}
	}
	log := strings.Count(w.Must(0, "memory", "log", "--json").Out, "\n")
	var rebuilt tipstaff.MemoryReport
	w.Check(json.Unmarshal([]byte(w.Must(0, "memory", "rebuild", "--check", "--json").Out), &rebuilt))
	if p := b.get("/ui/memory?rebuild=check"); !p.says(rebuilt.Head) || !p.says("No problem was found.") || p.says("does not hold") || rebuilt.Seq != int64(log) {
		t.Errorf("the rebuild: %s", p.text())
	}

	for _, want := range []string{"Version", "Key of the executor", w.Path(".tipstaff"), "in the queue", "Live pages", "local", "admin"} {
		if p := b.get("/ui/settings"); !p.says(want) {
			t.Errorf("the settings do not say %q: %s", want, p.text())
		}
	}
	if p := b.get("/ui/settings"); p.says(b.token) {
		t.Error("the settings tell the token")
	}
	if p := b.post("/ui/tools/check", url.Values{}); p.status != http.StatusForbidden {
		t.Errorf("a check without the token of forms is answered %d", p.status)
	}
}

//go:build linux

package clis

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/clis/api"
)

// A program that delivers, from its start to a branch, with a step that Claude Code does.
func TestDelivery(t *testing.T) {
	installed(t)
	t.Parallel()
	t.Cleanup(func() { count("claude", !t.Failed()) })
	w := newWorkspace(t, claude{}, worker{posture: write}, script(api.Turn{Calls: []api.Call{api.WriteFile("made.txt", "by the model")}})...)
	w.Write("repo/plan.yaml", "kind: plan\nversion: 1\nname: make it\nroot: {kind: step, id: work, agent: w, prompt: \"Make made.txt.\"}\ndeliver: {}\n")
	w.must(4, "run", "plan.yaml").Says(t, "made.txt")
	var run struct {
		ID     string `json:"run_id"`
		Status string `json:"status"`
	}
	w.Check(json.Unmarshal([]byte(w.must(0, "ls", "--json").Out), &run))
	if run.Status != "awaiting_delivery" {
		t.Errorf("the run is %s", run.Status)
	}
	w.nothingLeft()
	w.must(0, "decide", run.ID, "delivery#1", "approve")
	w.must(0, "resume", run.ID)
	branch := "tipstaff/deliver/" + run.ID + "-make-it"
	show := exec.Command("git", "show", branch+":made.txt")
	show.Dir = w.Path("repo")
	if out, err := show.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "by the model" {
		t.Errorf("on branch %s the file is %q, %v", branch, out, err)
	}
	if got := w.Read("repo/made.txt"); got != "" {
		t.Errorf("the checkout has %q", got)
	}
	w.nothingLeft()
	w.must(0, "verify", run.ID)
	w.must(0, "replay", run.ID)
}

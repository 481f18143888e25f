package workspace_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// What init writes is valid, and what a folder without it has: tools that read, asked of
// nobody, and no others.
func TestStarter(t *testing.T) {
	models := []workspace.StarterModel{{Provider: "openai", Model: "o-1", Key: "O_KEY"}, {Provider: "anthropic", Model: "a-1", Key: "A_KEY"}}
	written, problems := workspace.Parse("tipstaff.yaml", workspace.Starter(models))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	implicit, err := workspace.Implicit(models)
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := implicit.Agent(""); a.Model != "openai" || !slices.Equal(a.Tools, []string{"builtin/*"}) {
		t.Errorf("the agent is %+v", a)
	}
	if m, _ := implicit.Model("anthropic"); m.Model != "a-1" || m.APIKey != "$env:A_KEY" {
		t.Errorf("the other model is %+v", m)
	}
	if !implicit.Allows(flow.Read) || implicit.Allows(flow.Idempotent) || implicit.Allows(flow.Once) {
		t.Errorf("effects %v", implicit.AllowedEffects)
	}
	// A run keeps that there was no file; all else is the same.
	frozen := string(implicit.Frozen())
	if got := strings.Replace(frozen, `"implicit":true,`, "", 1); got == frozen || got != string(written.Frozen()) {
		t.Errorf("frozen:\n%s\nwritten:\n%s", frozen, written.Frozen())
	}
	if again, err := workspace.ParseFrozen([]byte(frozen)); err != nil || !again.Implicit {
		t.Errorf("read again: %v", err)
	}
}

func TestNobodyWritesThatAManifestIsImplicit(t *testing.T) {
	if _, problems := workspace.Parse("tipstaff.yaml", []byte("implicit: true\n")); len(problems) != 1 || problems[0].Code != "field_unknown" {
		t.Errorf("%+v", problems)
	}
}

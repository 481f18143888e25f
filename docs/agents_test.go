package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/workspace"
)

var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// fieldNames are the names that a type's fields have in the manifest.
func fieldNames(v any) []string {
	var names []string
	t := reflect.TypeOf(v)
	for i := range t.NumField() {
		name := strings.NewReplacer("API", "Api", "URL", "Url", "HTTP", "Http", "TopP", "Top_p", "USD", "_usd").Replace(t.Field(i).Name)
		names = append(names, strings.ToLower(wordEnd.ReplaceAllString(name, "${1}_${2}")))
	}
	return names
}

func TestFieldsOfModelsAndAgentsAreListed(t *testing.T) {
	for heading, v := range map[string]any{"## Models": workspace.Model{}, "## Settings": workspace.Agent{}} {
		listed, real := firstColumn(section(t, "agents.md", heading)), fieldNames(v)
		slices.Sort(listed)
		slices.Sort(real)
		if !slices.Equal(listed, real) {
			t.Errorf("agents.md lists under %q\n%v, there are\n%v", heading, listed, real)
		}
	}
}

func TestPromptsAreListed(t *testing.T) {
	text := section(t, "agents.md", "## Prompts")
	for _, name := range prompts.Names() {
		if !strings.Contains(text, "| `"+string(name)+"` |") {
			t.Errorf("agents.md does not list %s", name)
		}
	}
	for _, v := range []any{prompts.SystemData{}, prompts.RouterData{}, prompts.RouterToolkit{}, prompts.StepData{}, prompts.StageData{},
		prompts.DraftData{}, prompts.DraftAnswer{}, prompts.DraftTool{}} {
		for i := range reflect.TypeOf(v).NumField() {
			if name := reflect.TypeOf(v).Field(i).Name; !strings.Contains(text, "`"+name+"`") {
				t.Errorf("agents.md does not say that templates may use %s (%T)", name, v)
			}
		}
	}
}

// TestThePlanInThePromptIsValid: models do as they are shown.
func TestThePlanInThePromptIsValid(t *testing.T) {
	_, rest, _ := strings.Cut(prompts.Default().Draft, "An example of the form")
	_, rest, _ = strings.Cut(rest, "\n\n")
	plan, _, found := strings.Cut(rest, "\n\n# Questions")
	if !found {
		t.Fatal("draft.md has no example")
	}
	home := t.TempDir()
	workspace := filepath.Join(newWorkspace(t, home), "examples")
	if err := os.WriteFile(filepath.Join(workspace, "drafted.json"), []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(binDir, "tipstaff"), "run", "drafted.json", "--dry-run")
	command.Dir, command.Env = workspace, environment(home)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

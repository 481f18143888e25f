package runner

import (
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

// What `apply` does with a change of a file follows from the rule that protects it: what is
// Tipstaff's or git's is never changed, about the rest somebody is asked, and what the manifest
// opens by name is a file like others.
func TestWhatApplyDoesWithProtectedFiles(t *testing.T) {
	m, problems := workspace.Parse("tipstaff.yaml", []byte(`
servers:
  wiki: {command: [sh, wiki/server.sh]}
  builtin: {roots: ["."], writable: [.vscode/tasks.json], tools: {read_file: {effect: read}}}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	dir := t.TempDir()
	there := []string{filepath.Join(dir, "bare/HEAD"), filepath.Join(dir, "bare/objects/x"), filepath.Join(dir, "bare/refs/x")}
	protects := applying(workspace.Protect(m, workspace.Around{Dir: dir, Env: func(string) string { return "" }}))(there)
	for path, want := range map[string]string{
		".tipstaff/journal":        "decides never",
		".git/config":              "decides never",
		"lib/.git/hooks/pre-push":  "decides never",
		"bare/config":              "decides never",
		"tipstaff.yaml":            "decides asks",
		"wiki/server.sh":           "decides asks",
		".github/workflows/ci.yml": "configuration asks",
		".vscode/settings.json":    "configuration asks",
		".vscode/tasks.json":       "configuration ",
		".worktreeinclude":         "decides asks",
		".lfsconfig":               "configuration asks",
		"sub/.gitattributes":       "configuration ",
		".gitmodules":              "configuration ",
		".vscode/.gitattributes":   "configuration asks",
		"src/main.go":              "",
	} {
		got := ""
		if of, found := protects(filepath.Join(dir, filepath.FromSlash(path))); found {
			got = of.Kind + " " + of.Apply
		}
		if got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
}

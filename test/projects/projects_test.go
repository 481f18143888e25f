//go:build unix

// Package projects has real projects worked on in worktrees: what they install comes from the
// registries of npm, PyPI and Go. It needs them, and is run by scripts/more.sh.
package projects

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

func TestMain(m *testing.M) { os.Exit(cmdtest.Main(m)) }

// project is one whose check needs what its set-up installs.
type project struct {
	name  string
	needs []string          // programs of the machine
	files map[string]string // that are committed
	lock  []string          // makes the rest of what is committed
	setup string            // as it stands in the program
	check string
	wrote string // a file that the worker writes, which the check reads
	text  string
	made  string // what the set-up makes, which git ignores
}

var projects = []project{
	{
		name: "node", needs: []string{"node", "npm"},
		files: map[string]string{
			"package.json": `{"name": "p", "version": "1.0.0", "private": true, "scripts": {"test": "node --test"}, "dependencies": {"is-odd": "3.0.1"}}`,
			".gitignore":   ".tipstaff\nnode_modules\n",
			"odd.test.js":  "const test = require('node:test'), assert = require('node:assert');\ntest('odd', () => assert.ok(require('is-odd')(require('./number.js'))));\n",
		},
		lock:  []string{"npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund"},
		setup: "[npm, ci, --no-audit, --no-fund]", check: "[npm, test]",
		wrote: "number.js", text: "module.exports = 3;\n", made: "node_modules",
	},
	{
		name: "python", needs: []string{"python3"},
		files: map[string]string{
			"requirements.txt": "pytest==8.4.2\n",
			".gitignore":       ".tipstaff\n.venv\n", // but not __pycache__, which the check leaves
			"test_number.py":   "import number\n\ndef test_number():\n    assert number.number == 3\n",
		},
		setup: "[python3, -m, venv, .venv], [sh, -c, .venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt]",
		check: "[sh, -c, .venv/bin/python -m pytest -q]",
		wrote: "number.py", text: "number = 3\n", made: ".venv",
	},
	{
		name: "go", needs: []string{"go"},
		files: map[string]string{
			"go.mod":         "module example.org/p\n\ngo 1.24\n\nrequire github.com/google/go-cmp v0.7.0\n",
			".gitignore":     ".tipstaff\n/vendor\n",
			"number_test.go": "package p\n\nimport (\n\t\"testing\"\n\n\t\"github.com/google/go-cmp/cmp\"\n)\n\nfunc TestNumber(t *testing.T) {\n\tif Number != 3 || cmp.Diff(Number, 3) != \"\" {\n\t\tt.Fatal(Number)\n\t}\n}\n",
		},
		lock:  []string{"go", "mod", "tidy"},
		setup: "[go, mod, vendor]", check: "[go, test, ./...]",
		wrote: "number.go", text: "package p\n\nconst Number = 3\n", made: "vendor",
	},
}

func TestRealProjectsAreSetUpAndChecked(t *testing.T) {
	if os.Getenv("TIPSTAFF_MORE") == "" {
		t.Skip("it installs packages from registries: make test-more runs it")
	}
	command, err := cmdtest.Command()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range projects {
		t.Run(p.name, func(t *testing.T) {
			for _, program := range p.needs {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(err)
				}
			}
			b := &bed{t: t, dir: filepath.Join(t.TempDir(), "project"), command: command}
			b.env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "TIPSTAFF_TRUST=1")
			b.make(p)
			said := b.run(4, command, "run", "work.yaml", "--unattended")
			for _, want := range []string{"deliver  check passed  clean", "deliver  check passed  again", "deliver  check passed  there  in the worktree"} {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			if strings.Contains(said, "is blocked") || strings.Contains(b.run(0, command, "show", "@", "--diff", "--stat"), p.made+"/") {
				t.Error(said)
			}
			b.run(0, command, "decide", "@", "delivery#1", "approve")
			b.run(0, command, "resume", "@", "--unattended")
			b.run(0, command, "verify", "@")
		})
	}
}

type bed struct {
	t            *testing.T
	dir, command string
	env          []string
}

// run is what a program says, which must end with a status.
func (b *bed) run(status int, argv ...string) string {
	b.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Env = b.dir, b.env
	out, err := c.CombinedOutput()
	if got := c.ProcessState.ExitCode(); got != status {
		b.t.Fatalf("%v: status %d, %v\n%s", argv, got, err, out)
	}
	return string(out)
}

func (b *bed) make(p project) {
	b.t.Helper()
	files := map[string]string{
		"tipstaff.yaml": "version: 1\nallowed_effects: [read, idempotent, once]\nworkers:\n  hand: {type: scripted, script: answers.yaml}\n" +
			"servers:\n  builtin: {programs: [npm, python3, go, sh], tools: {exec: {effect: once}}}\n" +
			"policy:\n  rules:\n    - {id: files, tool: \"worker-scripted/*\", do: allow}\n    - {id: checks, tool: builtin/exec, do: allow}\n",
		"answers.yaml": "version: 1\nanswers:\n  - {when: {step: 1}, calls: [{tool: worker-scripted/write_file, args: {path: " + p.wrote + ", content: " + quoted(p.text) + "}}]}\n" +
			"  - {when: {step: 2}, calls: [{tool: tipstaff/task_set_status, args: {status: needs_review, reason: it is written}}]}\n  - {when: {}, text: All done.}\n",
		"work.yaml": "kind: plan\nversion: 1\nname: work\nfiles: {setup: [" + p.setup + "]}\nroot: {kind: step, id: work, agent: hand, prompt: Write the number.}\n" +
			"deliver:\n  checks:\n    - {name: clean, run: " + p.check + "}\n    - {name: again, run: " + p.check + "}\n    - {name: there, run: " + p.check + ", in: worktree}\n",
	}
	for name, text := range p.files {
		files[name] = text
	}
	for name, text := range files {
		path := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	if len(p.lock) > 0 {
		b.run(0, p.lock...)
	}
	b.run(0, "git", "init", "-q", "-b", "main")
	b.run(0, "git", "add", "-A")
	b.run(0, "git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "first")
}

// quoted is a text as YAML has it on one line.
func quoted(text string) string {
	return `"` + strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(text) + `"`
}

package mcp

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pinnedTo is a plan for a version of its server.
func pinnedTo(version, plan string) string { return strings.ReplaceAll(plan, "VERSION", version) }

// install puts a package where a manifest of this workspace has it, in place of
// whatever was there, as an upgrade does. It returns the package's folder.
func (w *workspace) install(name string) string {
	w.Helper()
	modules, folder := w.Path("installed", "node_modules"), w.Path("installed", "server")
	w.Check(os.MkdirAll(w.Path("installed"), 0o755))
	if _, err := os.Lstat(modules); err != nil {
		w.Check(os.Symlink(w.modules, modules)) // what the package imports
	}
	w.Check(os.RemoveAll(folder))
	w.Check(os.CopyFS(folder, os.DirFS(w.folder(name))))
	return folder
}

// An upgrade may change what tools say of themselves and keep the version.
func TestUpgradeChangesDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.declare("command: " + w.commandAt(w.install(formerEverything)) + "\n    ignore: [\"installed/**\"]") // else it would not even be started
	w.files(`-- echo.yaml --
kind: plan
version: 1
root: {id: said, kind: tool_call, tool: "mcp://everything/echo@2.0.0", args: {message: hello}}
outputs: {said: "${said.output}"}
`).pin()
	var out struct{ Said string }
	w.outputs("echo.yaml", &out)
	before := w.Read("tipstaff.lock")

	w.install(everything)
	w.Must(1, "run", "echo.yaml", "--unattended").Says(t, "definition_changed")
	if sent := w.journal("effect.intended"); len(sent) > 0 {
		t.Error("it was sent all the same")
	}
	w.Must(3, "tools", "verify").Says(t, "echo")
	w.Must(3, "tools", "pin", "--check").Says(t, "echo")
	if w.Read("tipstaff.lock") != before {
		t.Error("the lock has changed")
	}
	w.pin()
	w.Must(0, "tools", "verify")
	w.outputs("echo.yaml", &out)
}

// One that reports another version is not the one that a plan names.
func TestUpgradeChangesTheVersion(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Write("tipstaff.yaml", "servers: {thinking: {command: "+w.commandAt(w.install(formerThinking))+", tools: {sequentialthinking: {}}}}\n")
	w.Write("former.yaml", pinnedTo("0.2.0", thoughts))
	w.Write("new.yaml", pinnedTo("2026.8.31", thoughts))
	w.pin()
	w.Must(3, "run", "new.yaml", "--unattended").Says(t, "pin_mismatch")
	var out struct{ Two int }
	w.outputs("former.yaml", &out)

	w.install(thinking)
	w.Must(3, "run", "former.yaml", "--unattended").Says(t, "package_changed") // it is not even started
	w.pin()
	w.Must(3, "run", "former.yaml", "--unattended").Says(t, "pin_mismatch")
	if w.outputs("new.yaml", &out); out.Two != 2 {
		t.Errorf("it remembers %d thoughts", out.Two)
	}
}

// Where the manifest says what the package's files are, another package is not
// even started: neither by a run nor by pin.
func TestUpgradeChangesThePackage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.Write("note.txt", "hello\n")
	w.Write("read.yaml", `kind: plan
version: 1
root: {id: note, kind: tool_call, tool: "mcp://files/read_text_file@0.2.0", args: {path: `+w.Path("note.txt")+`}}
outputs: {note: "${note.output.content}"}
`)
	declare := func(folder string) {
		w.Write("tipstaff.yaml", `servers:
  files:
    command: `+w.commandAt(folder, w.Dir)+`
    package: installed/server/dist
    package_digest: `+w.digest(filepath.Join(folder, "dist"))+`
    tools: {read_text_file: {}}
`)
	}
	declare(w.install(formerFilesystem))
	w.pin()
	var out struct{ Note string }
	w.outputs("read.yaml", &out)

	folder := w.install(filesystem)
	w.Must(3, "run", "read.yaml", "--unattended").Says(t, "package_changed")
	w.Must(3, "tools", "verify").Says(t, "package_changed")
	w.Must(3, "tools", "pin", "--yes").Says(t, "package_changed")
	declare(folder)
	w.Must(3, "run", "read.yaml", "--unattended")
	w.pin()
	if w.outputs("read.yaml", &out); out.Note != "hello\n" {
		t.Errorf("it reads %q", out.Note)
	}
}

// digest of a package, reckoned from what the manual says of it: of sorted lines
// with a path, whether it can be executed, and the SHA-256 of the file.
func (w *workspace) digest(folder string) string {
	w.Helper()
	var lines []string
	w.Check(fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		executable := "-"
		if info.Mode()&0o111 != 0 {
			executable = "x"
		}
		lines = append(lines, fmt.Sprintf("%s\x00%s\x00%x\n", name, executable, sha256.Sum256(data)))
		return nil
	}))
	slices.Sort(lines)
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
}

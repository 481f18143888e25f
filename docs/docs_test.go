// Package docs_test keeps the words true: it does what README.md and the pages of
// this folder tell their readers to do, and compares what comes out.
//
// Each page has a fresh git repository with a copy of examples/, and one shell
// with the built tipstaff on its PATH, in which its blocks run in order:
//
//   - console: lines that begin with "$ " are run. The lines after one, if any, are
//     its output, standard error included; … stands for what varies. A command
//     must succeed, unless the next one is echo $?.
//   - sh: run as a whole, must succeed. With a file name it is written there and not
//     run. With norun it is skipped: for make alone.
//   - yaml: with a file name it is written there. A whole plan must pass
//     tipstaff run --dry-run, unless it is marked faulty; a tipstaff.yaml must be
//     a valid manifest.
package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binDir holds the built command, and the server of the examples.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if given := os.Getenv("TIPSTAFF_BINARY"); given != "" {
		binDir = filepath.Dir(given) // make test has built both
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "tipstaff-docs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binDir = dir
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "../cmd/tipstaff", "../examples/fileserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does, whose work is used again
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "the command cannot be built:", err)
		return 1
	}
	return m.Run()
}

// pages are all that are executed.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../README.md", "../CONTRIBUTING.md", "../examples/README.md"}
	for _, pattern := range []string{"*.md", "howto/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Fatalf("no page is called docs/%s", pattern)
		}
		all = append(all, found...)
	}
	return all
}

func TestPages(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := blocksOf(string(text))
		if err != nil {
			t.Fatalf("%s: %v", page, err)
		}
		ran += len(blocks)
		t.Run(strings.TrimPrefix(page, "../"), func(t *testing.T) {
			t.Parallel()
			execute(t, page, blocks)
		})
	}
	if ran == 0 {
		t.Error("no page has a block")
	}
}

// limit is far above what any page takes: it ends one that hangs.
const limit = 3 * time.Minute

func execute(t *testing.T, page string, blocks []block) {
	side := t.TempDir() // beside the workspace, where pages do not look
	steps, err := stepsOf(blocks, side)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	workspace := newWorkspace(t, side)
	if err := os.WriteFile(filepath.Join(side, ".gitconfig"), []byte("[user]\nname = Ada\nemail = ada@example.com\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(side, "script"), script(t, steps, side), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", filepath.Join(side, "script"))
	shell.Dir, shell.Env = workspace, environment(side)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	if said, err := shell.CombinedOutput(); err != nil {
		t.Errorf("%s: the shell ended with %v: %s", page, err, said)
	}
	for i, s := range steps {
		check(t, page, s, filepath.Join(side, strconv.Itoa(i)))
	}
}

// newWorkspace is like a clone of this repository that holds the examples alone.
func newWorkspace(t *testing.T, home string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "--allow-empty", "-m", "Write \"Hello\""},
	} {
		git := exec.Command("git", args...)
		git.Dir, git.Env = dir, environment(home)
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

// script runs every step in one shell: a job, a folder or an exit code of one is
// there for the next.
func script(t *testing.T, steps []step, side string) []byte {
	t.Helper()
	var b strings.Builder
	b.WriteString("status=0\n")
	for i, s := range steps {
		name := filepath.Join(side, strconv.Itoa(i))
		if err := os.WriteFile(name+".sh", []byte(s.command+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "{ (exit $status); . '%[1]s.sh'; } >'%[1]s.out' 2>&1 </dev/null\nstatus=$?\necho $status >'%[1]s.status'\n", name)
	}
	b.WriteString("wait\n") // what was told to end writes to the workspace until it has
	return []byte(b.String())
}

// environment is that of a newcomer: nothing of whoever runs the tests.
func environment(home string) []string {
	return []string{
		"PATH=" + binDir + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + home, "TMPDIR=" + home, "TIPSTAFF_TRUST=1", // where a person would say yes
		"LC_ALL=C.UTF-8", "TZ=UTC",
	}
}

// jobNotice is what a shell says of a job that was killed.
var jobNotice = regexp.MustCompile(`(?m)^(.*: line \d+:\s+\d+ )?Killed\b.*\n`)

func check(t *testing.T, page string, s step, name string) {
	t.Helper()
	code, err := os.ReadFile(name + ".status")
	if err != nil {
		t.Errorf("%s:%d: never ran: %s", page, s.line, s.command)
		return
	}
	raw, err := os.ReadFile(name + ".out")
	if err != nil {
		t.Fatal(err)
	}
	out := jobNotice.ReplaceAllString(string(raw), "")
	if status := strings.TrimSpace(string(code)); status != "0" && !s.shown {
		t.Errorf("%s:%d: exit code %s: %s\n%s", page, s.line, status, s.command, out)
	}
	if s.want != nil && !matches(s.want, lines(out)) {
		t.Errorf("%s:%d: %s\nshown:\n  %s\nprinted:\n  %s", page, s.line, s.command,
			strings.Join(s.want, "\n  "), strings.Join(lines(out), "\n  "))
	}
}

// lines of output, without the empty one after the last line feed.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

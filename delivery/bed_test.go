package delivery

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runGit runs git for real, as package supervisor does for the product.
func runGit(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, bytes.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.Bytes(), &ExitError{exit.ExitCode(), complaint.String()}
	}
	return out.Bytes(), err
}

// bed is a user's repository with one commit, and a home of its own.
type bed struct {
	t    testing.TB
	home string
	dir  string // of the checkout
	git  *Git
}

func newBed(t testing.TB) *bed {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, home: filepath.Join(root, "home"), dir: filepath.Join(root, "project")}
	for _, dir := range []string{b.home, b.dir, filepath.Join(root, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.git = &Git{Run: runGit, Temp: filepath.Join(root, "tmp"), Env: func(name string) string {
		switch name {
		case "HOME":
			return b.home
		case "PATH":
			return os.Getenv("PATH")
		}
		return ""
	}}
	b.user("init", "-q", "-b", "main")
	b.user("config", "user.name", "Ada")
	b.user("config", "user.email", "ada@example.org")
	b.write("README", "first\nsecond\nthird\n")
	b.write("src/a.txt", "a\n")
	b.write("src/b.txt", "b\n")
	b.user("add", "-A")
	b.user("commit", "-q", "-m", "first")
	t.Cleanup(func() {
		if left, _ := os.ReadDir(b.git.Temp); len(left) > 0 && !t.Failed() {
			t.Errorf("%s was left behind", left[0].Name())
		}
	})
	return b
}

// user runs git as the user or an agent would, in the checkout.
func (b *bed) user(args ...string) string {
	b.t.Helper()
	return b.userIn(b.dir, args...)
}

func (b *bed) userIn(dir string, args ...string) string {
	b.t.Helper()
	out, err := runGit(context.Background(), dir, []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false"}, nil, args...) // nothing of it goes on in the background
	if err != nil {
		b.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (b *bed) write(name, text string) {
	b.t.Helper()
	writeFile(b.t, filepath.Join(b.dir, name), text)
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (b *bed) open() *Repo {
	b.t.Helper()
	r, err := Open(context.Background(), b.git, b.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// older is a repository as runs had it whose worktrees were the repository's own.
func older(r *Repo) *Repo {
	was := *r
	was.Own = nil
	return &was
}

// kept runs git where what is recorded of a worktree is seen too.
func (b *bed) kept(worktree string, args ...string) string {
	b.t.Helper()
	out, err := runGit(context.Background(), b.dir, []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + worktree + ".objects"}, nil, args...)
	if err != nil {
		b.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

const runID = "01KA0000000000000000000000"

// worktree makes one at HEAD.
func (b *bed) worktree(r *Repo) Worktree {
	b.t.Helper()
	base, err := r.Resolve(context.Background(), "HEAD")
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := r.AddWorktree(context.Background(), filepath.Join(filepath.Dir(b.dir), "state", runID), base)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bed) snapshot(r *Repo, w Worktree) Diff {
	b.t.Helper()
	d, err := r.Snapshot(context.Background(), w)
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

// summary is a diff in a few words.
func summary(d Diff) string {
	var words []string
	for _, f := range d.Files {
		word := f.Status[:1] + " " + f.Path
		if f.Old != "" {
			word += " from " + f.Old
		}
		if f.Binary {
			word += " binary"
		}
		if f.Untracked {
			word += " untracked"
		}
		if f.Submodule {
			word += " submodule"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

var someTime = time.Unix(1600000000, 0)

func mkfifo(b *bed, path string) { b.t.Helper(); must(b, syscall.Mkfifo(path, 0o600)) }

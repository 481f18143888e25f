package delivery

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWorktreeHasTheFilesOfItsBase(t *testing.T) {
	b := newBed(t)
	b.write("README", "not committed\n")
	b.write("new", "not committed\n")
	head, status := b.user("rev-parse", "HEAD"), b.user("status", "--porcelain")
	r := b.open()
	w := b.worktree(r)
	if got := readFile(t, filepath.Join(w.Path, "README")); got != "first\nsecond\nthird\n" {
		t.Errorf("README is %q", got)
	}
	if w.Branch != "refs/heads/tipstaff/run/"+runID || b.userIn(w.Path, "symbolic-ref", "HEAD") != w.Branch || b.userIn(w.Path, "rev-parse", "HEAD") != head {
		t.Errorf("%+v", w)
	}
	if got := b.userIn(w.Path, "status", "--porcelain"); got != "" {
		t.Errorf("git finds changes in a new worktree: %s", got)
	}
	if d := b.snapshot(r, w); len(d.Files) != 0 || len(d.Patch) != 0 || d.Tree != b.user("rev-parse", "HEAD^{tree}") {
		t.Errorf("so do we: %+v", d)
	}
	if b.user("status", "--porcelain") != status || b.user("symbolic-ref", "HEAD") != "refs/heads/main" {
		t.Error("the checkout was changed")
	}
	if dirty, err := r.Dirty(context.Background()); err != nil || strings.Join(dirty, " ") != "README new" {
		t.Errorf("dirty %v: %v", dirty, err)
	}
}

// After a crash the worktree is made anew, unless it was finished: then an agent may have
// worked there.
func TestWorktreeIsMadeOnce(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	writeFile(t, filepath.Join(w.Path, "work"), "done\n")
	b.worktree(r)
	if got := readFile(t, filepath.Join(w.Path, "work")); got != "done\n" {
		t.Error("work was lost")
	}
	if err := os.Remove(w.index()); err != nil { // as if it had never been finished
		t.Fatal(err)
	}
	writeFile(t, w.index()+".new.lock", "") // git was killed, too
	b.worktree(r)
	if _, err := os.Stat(filepath.Join(w.Path, "work")); err == nil {
		t.Error("what was left of a worktree that was never finished is still there")
	}
	if d := b.snapshot(r, w); len(d.Files) != 0 {
		t.Error(summary(d))
	}
}

func TestWorktreeIsRemoved(t *testing.T) {
	b := newBed(t)
	r := b.open()
	ctx := context.Background()
	refs := b.user("for-each-ref")
	w := b.worktree(r)
	writeFile(t, filepath.Join(w.Path, "cache", "deep", "file"), "x")
	if err := os.Chmod(filepath.Join(w.Path, "cache", "deep"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(w.Path, "cache"), 0); err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.index()+"-123/index", "of a snapshot that was killed")
	for range 2 { // the second time there is nothing
		if err := r.RemoveWorktree(ctx, w); err != nil {
			t.Fatal(err)
		}
	}
	if w.Present() || b.user("for-each-ref") != refs || strings.Contains(b.user("worktree", "list"), runID) {
		t.Errorf("something is left: %s", b.user("worktree", "list"))
	}
	if left, _ := filepath.Glob(w.Path + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// What the agent has committed to a branch of the user's repository stays.
	r = older(r)
	w = b.worktree(r)
	b.userIn(w.Path, "commit", "-q", "--allow-empty", "-m", "mine")
	mine := b.userIn(w.Path, "rev-parse", "HEAD")
	if err := r.RemoveWorktree(ctx, w); err != nil {
		t.Fatal(err)
	}
	if got := b.user("rev-parse", w.Branch); got != mine {
		t.Errorf("the agent's branch is at %s", got)
	}
}

func TestSnapshotFindsEveryChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bed, dir string)
		want   string // a summary
	}{
		{"a changed file", func(b *bed, dir string) { writeFile(b.t, dir+"/README", "first\nsecond\nlast\n") }, "m README"},
		{"one of the same size", func(b *bed, dir string) { writeFile(b.t, dir+"/src/a.txt", "x\n") }, "m src/a.txt"},
		{"a new file", func(b *bed, dir string) { writeFile(b.t, dir+"/new", "n\n") }, "a new untracked"},
		{"a new file that was added", func(b *bed, dir string) {
			writeFile(b.t, dir+"/new", "n\n")
			b.userIn(dir, "add", "new")
		}, "a new"},
		{"a removed file", func(b *bed, dir string) { remove(b, dir+"/README") }, "d README"},
		{"a moved file", func(b *bed, dir string) { must(b, os.Rename(dir+"/README", dir+"/LIESMICH")) }, "r LIESMICH from README untracked"},
		{"an ignored file", func(b *bed, dir string) {
			writeFile(b.t, dir+"/.gitignore", "*.log\n/out/\n")
			writeFile(b.t, dir+"/x.log", "x")
			writeFile(b.t, dir+"/out/y", "y")
		}, "a .gitignore untracked"},
		{"a name with a line break and one that is no text", func(b *bed, dir string) {
			writeFile(b.t, dir+"/a\nb \"c\"\t", "x\n")
			writeFile(b.t, dir+"/\xff", "x\n")
		}, "a a\nb \"c\"\t untracked, a \"\\xff\" untracked"},
		{"names that git takes for patterns or options", func(b *bed, dir string) {
			writeFile(b.t, dir+"/*", "1\n")
			writeFile(b.t, dir+"/:(top)", "2\n")
			writeFile(b.t, dir+"/--help", "3\n")
		}, "a * untracked, a --help untracked, a :(top) untracked"},
		{"a link", func(b *bed, dir string) { must(b, os.Symlink("/etc/passwd", dir+"/link")) }, "a link untracked"},
		{"a file that became a link", func(b *bed, dir string) {
			remove(b, dir+"/README")
			must(b, os.Symlink("src/a.txt", dir+"/README"))
		}, "t README"},
		{"a directory that became a link elsewhere", func(b *bed, dir string) {
			writeFile(b.t, b.home+"/a.txt", "secret\n")
			must(b, os.RemoveAll(dir+"/src"))
			must(b, os.Symlink(b.home, dir+"/src"))
		}, "a src untracked, d src/a.txt, d src/b.txt"},
		{"a file that became a directory", func(b *bed, dir string) {
			remove(b, dir+"/README")
			writeFile(b.t, dir+"/README/part", "p\n")
		}, "d README, a README/part untracked"},
		{"a directory that became a file", func(b *bed, dir string) {
			must(b, os.RemoveAll(dir+"/src"))
			writeFile(b.t, dir+"/src", "s\n")
		}, "a src untracked, d src/a.txt, d src/b.txt"},
		{"a file that became a pipe", func(b *bed, dir string) {
			remove(b, dir+"/README")
			must(b, syscall.Mkfifo(dir+"/README", 0o600))
		}, "d README"},
		{"a binary file", func(b *bed, dir string) { writeFile(b.t, dir+"/bin", "\x00\x01") }, "a bin binary untracked"},
		{"a mode", func(b *bed, dir string) { must(b, os.Chmod(dir+"/README", 0o755)) }, "m README"},
		{"commits of the agent's own", func(b *bed, dir string) {
			writeFile(b.t, dir+"/one", "1\n")
			b.userIn(dir, "add", "-A")
			b.userIn(dir, "commit", "-qm", "one")
			b.userIn(dir, "checkout", "-q", "--detach")
			writeFile(b.t, dir+"/two", "2\n")
		}, "a one, a two untracked"},
		{"what git was told to overlook", func(b *bed, dir string) {
			b.userIn(dir, "update-index", "--assume-unchanged", "README")
			b.userIn(dir, "update-index", "--skip-worktree", "src/a.txt")
			writeFile(b.t, dir+"/README", "hidden\n")
			writeFile(b.t, dir+"/src/a.txt", "hidden\n")
		}, "m README, m src/a.txt"},
		{"a repository begun in a directory", func(b *bed, dir string) {
			writeFile(b.t, dir+"/.gitignore", "*.log\n")
			writeFile(b.t, dir+"/sub/file", "x\n")
			writeFile(b.t, dir+"/sub/x.log", "x\n")
			b.userIn(dir+"/sub", "init", "-q")
			b.userIn(dir+"/sub", "add", "file")
			b.userIn(dir+"/sub", "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x")
			writeFile(b.t, dir+"/sub/deep/er", "x\n")
			b.userIn(dir+"/sub/deep", "init", "-q")
		}, "a .gitignore untracked, a sub/deep/er untracked, a sub/file untracked"},
		{"a repository in the place of a file", func(b *bed, dir string) {
			remove(b, dir+"/README")
			writeFile(b.t, dir+"/README/x", "x\n")
			b.userIn(dir+"/README", "init", "-q")
			b.userIn(dir+"/README", "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x")
		}, "d README, a README/x untracked"},
		{"a repository that the agent made a submodule", func(b *bed, dir string) {
			b.userIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", b.dir, "sub")
		}, "a .gitmodules, a sub submodule"},
		{"a worktree that the agent made a repository of its own", func(b *bed, dir string) {
			remove(b, dir+"/.git")
			b.userIn(dir, "init", "-q")
			writeFile(b.t, dir+"/new", "n\n")
		}, "a new untracked"},
		{"files of which our index says something else", func(b *bed, dir string) {
			writeFile(b.t, dir+"/../evil", "evil\n")
			blob := b.userIn(dir, "hash-object", "-w", "../evil")
			remove(b, dir+"/../evil")
			agent := func(args ...string) {
				_, err := runGit(context.Background(), dir, []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH"), "GIT_INDEX_FILE=" + dir + ".index"}, nil, args...)
				must(b, err)
			}
			agent("update-index", "--cacheinfo", "100644,"+blob+",README")
			agent("update-index", "--assume-unchanged", "README", "src/a.txt")
			writeFile(b.t, dir+"/src/a.txt", "hidden\n")
		}, "m src/a.txt"},
		{"our index is a link", func(b *bed, dir string) {
			must(b, os.Rename(dir+".index", dir+"/taken"))
			must(b, os.Symlink(dir+"/taken", dir+".index"))
		}, "a taken binary untracked"},
		{"an index that the agent has broken", func(b *bed, dir string) {
			writeFile(b.t, dir+".git/index", "no index")
			writeFile(b.t, dir+"/new", "n\n")
		}, "a new untracked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			r := b.open()
			w := b.worktree(r)
			c.change(b, w.Path)
			first := b.snapshot(r, w)
			if got := summary(first); got != c.want {
				t.Errorf("found %q, want %q\n%s", got, c.want, first.Patch)
			}
			if strings.Contains(string(first.Patch), "secret") {
				t.Errorf("a link was followed:\n%s", first.Patch)
			}
			second := b.snapshot(r, w)
			if second.Tree != first.Tree || !bytes.Equal(second.Patch, first.Patch) {
				t.Errorf("looking again finds %q", summary(second))
			}
			must(b, os.Remove(w.index())) // which only saves time
			if third := b.snapshot(r, w); third.Tree != first.Tree {
				t.Errorf("without what is known already %q is found", summary(third))
			}
		})
	}
}

func must(b *bed, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func remove(b *bed, path string) { b.t.Helper(); must(b, os.Remove(path)) }

func TestSubmoduleOfTheBase(t *testing.T) {
	b := newBed(t)
	other := newBed(t)
	b.user("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.dir, "sub")
	b.user("commit", "-qm", "with a submodule")
	r := b.open()
	w := b.worktree(r)
	if d := b.snapshot(r, w); len(d.Files) != 0 { // it is not filled
		t.Errorf("a new worktree: %s", summary(d))
	}
	b.userIn(w.Path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	writeFile(t, w.Path+"/sub/README", "dirty\n")
	if d := b.snapshot(r, w); len(d.Files) != 0 {
		t.Errorf("files of another repository: %s", summary(d))
	}
	b.userIn(w.Path+"/sub", "-c", "user.name=a", "-c", "user.email=b", "commit", "-qam", "x")
	if d := b.snapshot(r, w); summary(d) != "m sub submodule" {
		t.Errorf("another commit: %s", summary(d))
	}
	must(b, os.RemoveAll(w.Path+"/sub"))
	if d := b.snapshot(r, w); summary(d) != "d sub submodule" {
		t.Errorf("removed: %s", summary(d))
	}
}

func TestSnapshotOfAWorktreeThatIsGone(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	must(b, os.RemoveAll(w.Path))
	if _, err := r.Snapshot(context.Background(), w); !errors.Is(err, ErrWorktreeMissing) {
		t.Error(err)
	}
	must(b, os.Symlink(b.dir, w.Path)) // nor is a link to somewhere else one
	if _, err := r.Snapshot(context.Background(), w); !errors.Is(err, ErrWorktreeMissing) {
		t.Error(err)
	}
}

// The patch shows text as text whatever attributes the agent writes, and depends on
// nothing but the two trees.
func TestPatchIgnoresAttributes(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	writeFile(t, w.Path+"/README", "first\nsecond\nlast\n")
	plain := b.snapshot(r, w)
	writeFile(t, b.dir+"/.git/info/attributes", "* -diff\n")
	if d := b.snapshot(r, w); !bytes.Equal(d.Patch, plain.Patch) || !strings.Contains(string(d.Patch), "+last") {
		t.Errorf("%s", d.Patch)
	}
	writeFile(t, w.Path+"/.gitattributes", "* -diff -text binary\n")
	if d := b.snapshot(r, w); !strings.Contains(string(d.Patch), "+last") || d.Added != plain.Added+1 {
		t.Errorf("%s", d.Patch)
	}
}

func TestLargeFiles(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	size := 100 << 20
	if testing.Short() {
		size = 6 << 20
	}
	random := make([]byte, size)
	_, _ = rand.Read(random)
	must(b, os.WriteFile(w.Path+"/large.bin", random, 0o600))
	writeFile(t, w.Path+"/large.txt", strings.Repeat("a line of text\n", size/15))
	for i := range 8 { // together too much, each small enough to be shown
		writeFile(t, filepath.Join(w.Path, "many", string(rune('a'+i))), strings.Repeat("line "+string(rune('a'+i))+"\n", 3<<20/7))
	}
	d := b.snapshot(r, w)
	if len(d.Files) != 10 || !d.Files[0].Binary || !d.Files[1].Binary || d.Files[2].Binary || !d.Truncated || len(d.Patch) > maxPatch {
		t.Errorf("%s, %d bytes, truncated %v", summary(d), len(d.Patch), d.Truncated)
	}
	if !strings.Contains(string(d.Patch), "many/a") || strings.Contains(string(d.Patch), "many/h") {
		t.Error("the patch holds other files than the first that fit")
	}
	r = r.With(w)
	commit, err := r.Commit(context.Background(), Commit{Base: w.Base, Tree: d.Tree, Title: "large", At: time.Unix(1, 0)})
	must(b, err)
	if fit, err := r.Apply(context.Background(), w.Base, commit); fit != Fits || err != nil {
		t.Errorf("%s: %v", fit, err)
	}
	if got := readFile(t, b.dir+"/large.bin"); got != string(random) {
		t.Error("the file is another in the checkout")
	}
}

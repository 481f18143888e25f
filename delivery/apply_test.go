package delivery

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// made is a repository with a worktree in which an agent has worked, and the commit of it.
func made(t *testing.T, change func(b *bed, dir string)) (*bed, *Repo, Worktree, string) {
	t.Helper()
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	r = r.With(w)
	change(b, w.Path)
	d := b.snapshot(r, w)
	commit, err := r.Commit(context.Background(), Commit{Base: w.Base, Tree: d.Tree, Title: "A title\nwith a break",
		Trailers: []Trailer{{"Tipstaff-Run", runID}, {"Tipstaff-Program", "sha256:00\nForged: yes"}}, At: time.Unix(1700000000, 5)})
	must(b, err)
	return b, r, w, commit
}

func edit(b *bed, dir string) {
	writeFile(b.t, dir+"/README", "first\nsecond\nlast\n")
	writeFile(b.t, dir+"/src/new.txt", "n\n")
	remove(b, dir+"/src/b.txt")
}

func TestCommitIsThatOfTheUser(t *testing.T) {
	b, r, w, commit := made(t, edit)
	if got := b.kept(w.Path, "show", "-s", "--format=%an <%ae> %at|%cn <%ce> %ct|%P|%B", commit); got !=
		"Ada <ada@example.org> 1700000000|Ada <ada@example.org> 1700000000|"+w.Base+"|A title with a break\n\nTipstaff-Run: "+runID+"\nTipstaff-Program: sha256:00 Forged: yes\n" {
		t.Errorf("%q", got)
	}
	ctx := context.Background()
	must(b, r.Keep(ctx, runID, 1, commit))
	if got := b.user("for-each-ref", "--format=%(refname)", "refs/tipstaff"); got != "refs/tipstaff/base/"+runID {
		t.Errorf("beside the ref of the base there is %s", got)
	}
	before := b.user("status", "--porcelain") + b.user("rev-parse", "main", "HEAD") + b.user("ls-files", "-s")
	branch := Branch(runID, "A title")
	for range 2 { // after a crash
		must(b, r.Publish(ctx, branch, commit))
	}
	if b.user("rev-parse", "tipstaff/deliver/"+runID+"-a-title") != commit {
		t.Error("the branch is elsewhere")
	}
	if err := r.Publish(ctx, branch, w.Base); !errors.Is(err, ErrBranchExists) {
		t.Errorf("a branch was moved: %v", err)
	}
	if taken, err := r.BranchTaken(ctx, branch, w.Base); !taken || err != nil {
		t.Errorf("%v, %v", taken, err)
	}
	if taken, err := r.BranchTaken(ctx, branch, commit); taken || err != nil {
		t.Errorf("%v, %v", taken, err)
	}
	if b.user("status", "--porcelain")+b.user("rev-parse", "main", "HEAD")+b.user("ls-files", "-s") != before {
		t.Error("something of the user's was changed")
	}
}

func TestUserWithoutAName(t *testing.T) {
	b := newBed(t)
	b.user("config", "--unset", "user.name")
	b.user("config", "--unset", "user.email")
	r := b.open()
	w := b.worktree(r)
	commit, err := r.Commit(context.Background(), Commit{Base: w.Base, Tree: b.user("rev-parse", "HEAD^{tree}"), Title: "x", At: time.Unix(1, 0)})
	if must(b, err); b.user("show", "-s", "--format=%an <%ae>", commit) != "Tipstaff <tipstaff@localhost>" {
		t.Error(commit)
	}
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(b *bed)
		want   Fit
		names  string
		status string // afterwards, of git
	}{
		{"to the base", func(*bed) {}, Fits, "", " M README\n D src/b.txt\n?? src/new.txt"},
		{"beside changes elsewhere", func(b *bed) { b.write("src/a.txt", "mine\n") }, Fits, "", " M README\n M src/a.txt\n D src/b.txt\n?? src/new.txt"},
		{"after a commit elsewhere", func(b *bed) {
			b.write("src/a.txt", "mine\n")
			b.user("commit", "-qam", "mine")
		}, Fits, "", " M README\n D src/b.txt\n?? src/new.txt"},
		{"twice", func(b *bed) { edit(b, b.dir) }, Present, "", " M README\n D src/b.txt\n?? src/new.txt"},
		{"committed already", func(b *bed) {
			edit(b, b.dir)
			b.user("add", "-A")
			b.user("commit", "-qm", "the same")
		}, Present, "", ""},
		{"over changes", func(b *bed) { b.write("README", "mine\nsecond\nthird\n") }, Dirty, "README", " M README"},
		{"over staged changes", func(b *bed) {
			b.write("README", "first\nsecond\nthird\nmine\n")
			b.user("add", "README")
		}, Dirty, "README", "M  README"},
		{"over an untracked file", func(b *bed) { b.write("src/new.txt", "mine\n") }, Dirty, "src/new.txt", "?? src/new.txt"},
		{"over an ignored file", func(b *bed) {
			b.write(".git/info/exclude", "new.txt\n")
			b.write("src/new.txt", "mine\n")
		}, Conflict, "", ""},
		{"after a commit there", func(b *bed) {
			b.write("README", "all\nelse\n")
			b.user("commit", "-qam", "mine")
		}, Conflict, "", ""},
		{"half of it is there", func(b *bed) { b.write("README", "first\nsecond\nlast\n") }, Dirty, "README", " M README"},
		{"a link in the way", func(b *bed) {
			must(b, os.RemoveAll(b.dir+"/src"))
			must(b, os.Symlink(b.home, b.dir+"/src"))
			b.user("add", "-A")
			b.user("commit", "-qm", "a link")
		}, Conflict, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, r, w, commit := made(t, edit)
			c.before(b)
			staged, refs := b.user("ls-files", "-s"), b.user("for-each-ref")
			fit, names, err := r.Fit(context.Background(), w.Base, commit)
			if must(b, err); fit != c.want || strings.Join(names, " ") != c.names {
				t.Errorf("it would be %s %v", fit, names)
			}
			fit, err = r.Apply(context.Background(), w.Base, commit)
			if must(b, err); fit != c.want {
				t.Errorf("it was %s", fit)
			}
			if got := b.user("status", "--porcelain", "-uall"); got != c.status {
				t.Errorf("status\n%s\nwant\n%s", got, c.status)
			}
			if b.user("ls-files", "-s") != staged || b.user("for-each-ref") != refs {
				t.Error("the index or refs were changed")
			}
			if left, _ := os.ReadDir(b.home); len(left) > 0 {
				t.Errorf("something was written through a link: %v", left)
			}
			if fit == Fits {
				if fit, err = r.Apply(context.Background(), w.Base, commit); fit != Present || err != nil {
					t.Errorf("the second time it was %s: %v", fit, err)
				}
			}
		})
	}
}

// What is applied is what was committed, whatever became of the worktree since.
func TestApplyTakesTheCommit(t *testing.T) {
	b, r, w, commit := made(t, func(b *bed, dir string) {
		edit(b, dir)
		writeFile(b.t, dir+"/bin", "\x00\x01\x02")
		must(b, os.Symlink("README", dir+"/link"))
		writeFile(b.t, dir+"/with\nbreak", "x\n")
		must(b, os.Chmod(dir+"/src/a.txt", 0o755))
	})
	writeFile(t, w.Path+"/README", "edited since\n")
	must(b, os.RemoveAll(w.Path))
	fit, err := r.Apply(context.Background(), w.Base, commit)
	if must(b, err); fit != Fits || readFile(t, b.dir+"/README") != "first\nsecond\nlast\n" || readFile(t, b.dir+"/bin") != "\x00\x01\x02" || readFile(t, b.dir+"/with\nbreak") != "x\n" {
		t.Error(fit)
	}
	if target, err := os.Readlink(b.dir + "/link"); target != "README" {
		t.Error(err)
	}
	if info, err := os.Stat(b.dir + "/src/a.txt"); err != nil || info.Mode()&0o100 == 0 {
		t.Error("the mode is missing", err)
	}
}

// Settings of the user that concern the form of files hold.
func TestLineEndsAndIgnoredFilesOfTheUser(t *testing.T) {
	b := newBed(t)
	writeFile(t, filepath.Join(b.home, ".config/git/ignore"), "*.tmp\n")
	b.user("config", "core.autocrlf", "input")
	b.write(".git/info/exclude", "/private\n")
	r := b.open()
	w := b.worktree(r)
	writeFile(t, w.Path+"/README", "first\r\nsecond\r\nthird\r\n")
	writeFile(t, w.Path+"/x.tmp", "x")
	writeFile(t, w.Path+"/private", "x")
	if d := b.snapshot(r, w); summary(d) != "" {
		t.Errorf("%s\n%s", summary(d), d.Patch)
	}
}

func TestIndexInTwoParts(t *testing.T) {
	b := newBed(t)
	b.user("config", "core.splitIndex", "true")
	b.user("update-index", "--split-index")
	b.write("src/a.txt", "mine\n")
	if dirty, err := b.open().Dirty(context.Background()); err != nil || strings.Join(dirty, " ") != "src/a.txt" {
		t.Errorf("%v: %v", dirty, err)
	}
}

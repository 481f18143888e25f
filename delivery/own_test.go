package delivery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// walked is what lies below a directory: type, mode and content of each file, by name.
func walked(b *bed, dir string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	must(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = d.Type().String()
		if d.Type().IsRegular() {
			all[name] += fmt.Sprintf(" %x", sha256.Sum256([]byte(readFile(b.t, path))))
		}
		return nil
	}))
	return all
}

// others are the names in which two walks differ, what delivery writes left out: the ref that
// keeps the base, the branch and the objects of what is delivered.
func others(before, after map[string]string) (names []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		ours := strings.HasPrefix(name, "refs/tipstaff") || strings.HasPrefix(name, "refs/heads/tipstaff") || strings.HasPrefix(name, "objects/") && before[name] == ""
		if before[name] != after[name] && !ours {
			names = append(names, name)
		}
	}
	return names
}

// shut takes all rights to files and folders, in this order.
func shut(b *bed, paths ...string) {
	b.t.Helper()
	for _, path := range paths {
		must(b, os.Chmod(path, 0))
	}
}

// runs is what a run does with a repository from its second command on: the place is as it
// was recorded.
func (b *bed) runs(place Place, w Worktree, before map[string]string) (notices []tipstaff.Notice, d Diff) {
	b.t.Helper()
	ctx := context.Background()
	r, err := At(ctx, b.git, place)
	must(b, err)
	r = r.With(w)
	must(b, r.Restore(ctx, w))
	d = b.snapshot(r, w)
	commit, err := r.Commit(ctx, Commit{Base: w.Base, Tree: d.Tree, Title: "x", At: someTime})
	must(b, err)
	for name, was := range walked(b, place.Common) { // nobody has decided anything yet
		if was != before[name] && !strings.HasPrefix(name, "refs/tipstaff") {
			b.t.Errorf("of the user's repository %s has changed", name)
		}
	}
	must(b, r.Publish(ctx, Branch(filepath.Base(w.Path), "x"), commit))
	if _, err := r.Apply(ctx, w.Base, commit); err != nil {
		b.t.Error(err)
	}
	return r.Meddling(), d
}

// A worker can tell the repository of its worktree anything. None of it is run or obeyed by
// us, nothing waits, all of it is told and undone, and the user's repository stays as it was.
func TestNothingThatTheRunsRepositoryNamesIsRun(t *testing.T) {
	in := func(b *bed, w Worktree, args ...string) { b.userIn(w.Path, args...) }
	for _, c := range []struct {
		name    string
		plant   func(b *bed, w Worktree)
		control func(b *bed, w Worktree) // git itself springs the trap
		trap    string
		told    string
	}{
		{"hooks", func(b *bed, w Worktree) {
			must(b, os.MkdirAll(w.gitDir()+"/hooks", 0o700))
			for _, h := range []string{"reference-transaction", "post-index-change", "pre-commit"} {
				must(b, os.Symlink(b.trap(h), w.gitDir()+"/hooks/"+h))
			}
		}, func(b *bed, w Worktree) { in(b, w, "update-ref", "refs/heads/x", "HEAD") }, "reference-transaction",
			"hooks/post-index-change hooks/pre-commit hooks/reference-transaction"},
		{"a folder of hooks", func(b *bed, w Worktree) {
			in(b, w, "config", "core.hooksPath", filepath.Dir(b.trap("reference-transaction")))
		}, func(b *bed, w Worktree) { in(b, w, "update-ref", "refs/heads/x", "HEAD") }, "reference-transaction", "core.hookspath"},
		{"hooks by configuration", func(b *bed, w Worktree) {
			in(b, w, "config", "hook.evil.command", b.trap("hook"))
			in(b, w, "config", "hook.evil.event", "reference-transaction")
		}, func(b *bed, w Worktree) {
			if hooksByConfiguration(b) {
				in(b, w, "update-ref", "refs/heads/x", "HEAD")
			} else {
				b.mark("hook")
			}
		}, "hook", "hook.evil.command hook.evil.event"},
		{"fsmonitor", func(b *bed, w Worktree) { in(b, w, "config", "core.fsmonitor", b.trap("fsmonitor")) },
			func(b *bed, w Worktree) { in(b, w, "status") }, "fsmonitor", "core.fsmonitor"},
		{"filters", func(b *bed, w Worktree) {
			in(b, w, "config", "filter.evil.clean", b.trap("filter-clean"))
			writeFile(b.t, w.gitDir()+"/info/attributes", "* filter=evil\n")
		}, func(b *bed, w Worktree) { in(b, w, "add", "-A") }, "filter-clean", "filter.evil.clean info/attributes"},
		{"core.worktree", func(b *bed, w Worktree) { in(b, w, "config", "core.worktree", b.home) }, nil, "", "core.worktree"},
		{"an include", func(b *bed, w Worktree) {
			writeFile(b.t, b.home+"/more", "[core]\n\tfsmonitor = "+b.trap("fsmonitor")+"\n")
			in(b, w, "config", "include.path", b.home+"/more")
		}, func(b *bed, w Worktree) { in(b, w, "status") }, "fsmonitor", "include.path"},
		{"an include of a pipe", func(b *bed, w Worktree) {
			mkfifo(b, b.home+"/pipe")
			in(b, w, "config", "include.path", b.home+"/pipe")
		}, nil, "", "include.path"},
		{"a pipe for each file", func(b *bed, w Worktree) {
			for _, name := range []string{"config", "HEAD", "packed-refs", "index", "objects/info/alternates"} {
				must(b, os.RemoveAll(w.gitDir()+"/"+name))
				mkfifo(b, w.gitDir()+"/"+name)
			}
			must(b, os.MkdirAll(w.objects()+"/info", 0o700))
			mkfifo(b, w.objects()+"/info/alternates")
		}, nil, "", "the repository itself objects/info/alternates"},
		{"a pipe for the configuration", func(b *bed, w Worktree) {
			remove(b, w.gitDir()+"/config")
			mkfifo(b, w.gitDir()+"/config")
		}, nil, "", "config"},
		{"alternates", func(b *bed, w Worktree) {
			writeFile(b.t, w.gitDir()+"/objects/info/alternates", b.home+"\n")
			writeFile(b.t, w.objects()+"/info/alternates", b.home+"\n")
		}, nil, "", "objects/info/alternates objects/info/alternates"},
		{"configuration of the worktree alone, another common directory", func(b *bed, w Worktree) {
			writeFile(b.t, w.gitDir()+"/config.worktree", "[core]\n\tfsmonitor = "+b.trap("fsmonitor")+"\n")
			writeFile(b.t, w.gitDir()+"/commondir", b.dir+"/.git\n")
		}, nil, "", "commondir config.worktree"},
		{"a repository in the place of the link", func(b *bed, w Worktree) {
			remove(b, w.Path+"/.git")
			in(b, w, "init", "-q")
			in(b, w, "config", "core.fsmonitor", b.trap("fsmonitor"))
		}, func(b *bed, w Worktree) { in(b, w, "status") }, "fsmonitor", ".git"},
		{"the link leads to the user's repository", func(b *bed, w Worktree) {
			writeFile(b.t, w.Path+"/.git", "gitdir: "+b.dir+"/.git\n")
		}, nil, "", ".git"},
		{"the repository is a link to the user's", func(b *bed, w Worktree) {
			must(b, os.RemoveAll(w.gitDir()))
			must(b, os.Symlink(b.dir+"/.git", w.gitDir()))
		}, nil, "", "the repository itself"},
		{"a directory of it leads to the user's", func(b *bed, w Worktree) {
			must(b, os.RemoveAll(w.gitDir()+"/info"))
			must(b, os.Symlink(b.dir+"/.git/info", w.gitDir()+"/info"))
		}, nil, "", ""},
		{"a pipe for what is ignored", func(b *bed, w Worktree) {
			must(b, os.RemoveAll(w.gitDir()+"/info/exclude"))
			must(b, os.MkdirAll(w.gitDir()+"/info", 0o700))
			mkfifo(b, w.gitDir()+"/info/exclude")
		}, nil, "", "info/exclude"},
		{"too much of what is ignored", func(b *bed, w Worktree) {
			writeFile(b.t, w.gitDir()+"/info/exclude", "")
			must(b, os.Truncate(w.gitDir()+"/info/exclude", maxSmall+1))
		}, nil, "", "info/exclude"},
		{"a pipe for what is ignored, and no repository", func(b *bed, w Worktree) {
			must(b, errors.Join(os.Remove(w.gitDir()+"/HEAD"), os.RemoveAll(w.gitDir()+"/info/exclude")))
			mkfifo(b, w.gitDir()+"/info/exclude")
		}, nil, "", "the repository itself"},
		{"pipes in the place of folders", func(b *bed, w Worktree) {
			for _, name := range []string{"info", "objects/info"} {
				must(b, os.RemoveAll(w.gitDir()+"/"+name))
				mkfifo(b, w.gitDir()+"/"+name)
			}
		}, nil, "", "info/exclude objects/info/alternates"},
		{"no repository any more", func(b *bed, w Worktree) {
			must(b, errors.Join(os.RemoveAll(w.gitDir()), os.RemoveAll(w.objects())))
		}, nil, "", "the repository itself"},
		{"modes", func(b *bed, w Worktree) {
			writeFile(b.t, w.gitDir()+"/info/exclude", "*.tmp\n")
			writeFile(b.t, w.Path+"/left.tmp", "ignored there\n")
			writeFile(b.t, w.gitDir()+"/hooks/pre-commit", "#!/bin/sh\n")
			must(b, os.Chmod(w.gitDir()+"/packed-refs", 0o400))
			shut(b, w.Path, w.gitDir()+"/info/exclude", w.gitDir()+"/info", w.gitDir()+"/HEAD", w.gitDir()+"/config", w.gitDir()+"/index", w.gitDir()+"/hooks",
				w.gitDir()+"/objects/info", w.gitDir()+"/objects", w.gitDir()+"/refs/heads", w.gitDir(), w.objects())
		}, nil, "", "the worktree itself, whose mode was d--------- the repository itself, whose mode was d--------- HEAD, whose mode was ---------- config, whose mode was ---------- " +
			"hooks, whose mode was d--------- index, whose mode was ---------- info, whose mode was d--------- info/exclude, whose mode was ---------- " +
			"objects, whose mode was d--------- objects/info, whose mode was d--------- packed-refs, whose mode was -r-------- refs/heads, whose mode was d--------- " +
			"the recorded objects, whose mode was d--------- hooks/pre-commit"},
		{"pipes that git reads in the worktree", func(b *bed, w Worktree) {
			mkfifo(b, w.Path+"/.gitignore")
			mkfifo(b, w.Path+"/src/.gitattributes")
		}, nil, "", ".gitignore, a pipe that was removed src/.gitattributes, a pipe that was removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.write("src/.gitignore", "*.log\n")
			b.user("add", "-A")
			b.user("commit", "-qm", "more")
			place := b.open().Place
			before := walked(b, b.dir+"/.git")
			w := b.worktree(b.open())
			writeFile(t, w.Path+"/README", "first\nsecond\nlast\n")
			writeFile(t, w.Path+"/src/new.txt", "new\n")
			c.plant(b, w)
			b.sprung()
			if c.control != nil {
				c.control(b, w)
				if ran := b.sprung(); !slices.Contains(ran, c.trap) {
					t.Fatalf("git itself has run %v: the trap proves nothing", ran)
				}
			}
			began := time.Now()
			notices, d := b.runs(place, w, before)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			if ran := b.sprung(); len(ran) > 0 {
				t.Errorf("these were run: %v", ran)
			}
			if got := summary(d); !strings.HasPrefix(got, "m README, a src/new.txt") {
				t.Errorf("the difference is %q", got)
			}
			if left := others(before, walked(b, b.dir+"/.git")); len(left) > 0 {
				t.Errorf("of the user's repository these have changed: %v", left)
			}
			var told []string
			for _, n := range notices {
				if n.Code != RunRepositoryChanged {
					t.Errorf("%+v", n)
				}
				for name := range strings.SplitSeq(string(n.Detail), `"name":"`) {
					if name, _, ok := strings.Cut(name, `"`); ok && !strings.HasPrefix(name, "{") {
						told = append(told, name)
					}
				}
			}
			if got := strings.Join(told, " "); got != c.told {
				t.Errorf("told is %q, and should be %q", got, c.told)
			}
			if got := b.userIn(w.Path, "status", "--porcelain", "README"); !strings.Contains(got, "README") {
				t.Errorf("the worktree is no repository any more: %q", got)
			}
			if notices, _ := b.runs(place, w, walked(b, b.dir+"/.git")); len(notices) > 0 {
				t.Errorf("the second time there is still %+v", notices)
			}
		})
	}
}

// What git would wait for in the user's repository is named, and nobody waits for it.
func TestNobodyWaitsForPipes(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(b *bed) (path string)
		opens bool // the repository can be opened: what is there is read later
	}{
		"an include": {func(b *bed) string {
			mkfifo(b, b.home+"/pipe")
			b.user("config", "include.path", b.home+"/pipe")
			return b.home + "/pipe"
		}, false},
		"an include of an include": {func(b *bed) string {
			mkfifo(b, b.home+"/pipe")
			writeFile(b.t, b.home+"/more", "[includeIf \"gitdir:/nowhere/\"]\n\tpath = pipe\n")
			b.user("config", "include.path", "../../home/more")
			return b.home + "/pipe"
		}, false},
		"a ref": {func(b *bed) string {
			mkfifo(b, b.dir+"/.git/refs/heads/pipe")
			return b.dir + "/.git/refs/heads/pipe"
		}, true},
		"alternates": {func(b *bed) string {
			mkfifo(b, b.dir+"/.git/objects/info/alternates")
			return b.dir + "/.git/objects/info/alternates"
		}, true},
		"ignored files of the checkout": {func(b *bed) string {
			mkfifo(b, b.dir+"/src/.gitignore")
			return b.dir + "/src/.gitignore"
		}, true},
		"excluded files": {func(b *bed) string {
			must(b, os.MkdirAll(b.dir+"/.git/info", 0o700))
			_ = os.Remove(b.dir + "/.git/info/exclude")
			mkfifo(b, b.dir+"/.git/info/exclude")
			return b.dir + "/.git/info/exclude"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			place := b.open().Place
			path := c.plant(b)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			opened, err := Open(ctx, b.git, b.dir)
			if (err == nil) != c.opens || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("opened: %v", err)
			}
			if err == nil {
				_, err = opened.Fingerprint(ctx)
				var pipe *PipeError
				if newer := name == "a ref" && err == nil; !newer && (!errors.As(err, &pipe) || pipe.Path != path) { // git 2.55 opens no such ref
					t.Errorf("looked at: %v", err)
				}
			}
			r, err := At(ctx, b.git, place)
			must(b, err)
			changed, err := r.Meddled(ctx)
			if err != nil || (len(changed) == 0) != c.opens {
				t.Errorf("%v: %v", changed, err)
			}
		})
	}
}

// A call of git that lasts too long is ended, and says what sets the limit.
func TestGitHasALimit(t *testing.T) {
	b := newBed(t)
	r := b.open()
	b.git.Limit, b.git.LimitHint = 50*time.Millisecond, "another limit is set so"
	b.git.Run = func(ctx context.Context, _ string, _ []string, _ []byte, _ ...string) ([]byte, error) {
		<-ctx.Done()
		return nil, &ExitError{-1, "killed"}
	}
	_, err := r.Fingerprint(context.Background())
	var late *LimitError
	if !errors.As(err, &late) || !strings.Contains(err.Error(), "50ms; another limit is set so") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Fingerprint(ctx); errors.As(err, &late) {
		t.Errorf("who asked has gone: %v", err)
	}
}

// asksGit is what builds ask git, in a clean checkout: what has changed, where history ends,
// which version this is.
const asksGit = `set -ex
test -z "$(git status --porcelain)"
test "$(git rev-parse --show-object-format)" = $FORMAT
test "$(git diff --name-status HEAD~1 | tr '\t\n' '  ')" = "M README D src/b.txt A src/new.txt "
git log --stat -2 | grep -q README
test "$(git ls-files src)" = "$(printf 'src/a.txt\nsrc/new.txt')"
test "$(git tag)" = "$TAGS"
git describe --tags --always --dirty > version
grep -vq dirty version && test -s version
git rev-list HEAD | grep -q .`

// Each kind of repository, from the worktree to what is handed over.
func TestKindsOfRepositories(t *testing.T) {
	beside := func(b *bed, name string) string { return filepath.Join(filepath.Dir(b.dir), name) }
	local := func(path string) string { return "file://" + path }
	enter := func(b *bed, dir string) {
		b.dir = dir
		b.user("config", "user.name", "Ada")
		b.user("config", "user.email", "ada@example.org")
	}
	more := func(b *bed) {
		b.write("more/x.txt", "x\n")
		b.user("add", "-A")
		b.user("commit", "-qm", "more")
	}
	for name, prepare := range map[string]func(b *bed){
		"plain": func(*bed) {},
		"shallow": func(b *bed) {
			more(b)
			b.user("clone", "-q", "--depth=1", local(b.dir), beside(b, "clone"))
			enter(b, beside(b, "clone"))
		},
		"without its files": func(b *bed) {
			more(b)
			b.user("config", "uploadpack.allowFilter", "true")
			b.user("clone", "-q", "--filter=blob:none", local(b.dir), beside(b, "clone"))
			enter(b, beside(b, "clone"))
		},
		"without its trees": func(b *bed) {
			more(b)
			b.user("config", "uploadpack.allowFilter", "true")
			b.user("clone", "-q", "--filter=tree:0", local(b.dir), beside(b, "clone"))
			enter(b, beside(b, "clone"))
		},
		"SHA-256": func(b *bed) {
			b.user("init", "-q", "-b", "main", "--object-format=sha256", beside(b, "other"))
			enter(b, beside(b, "other"))
			b.write("README", "first\nsecond\nthird\n")
			b.write("src/a.txt", "a\n")
			b.write("src/b.txt", "b\n")
			more(b)
		},
		"a worktree": func(b *bed) {
			b.user("worktree", "add", "-q", "-b", "side", beside(b, "linked"))
			b.dir = beside(b, "linked")
			more(b)
		},
		"a worktree of a bare one": func(b *bed) {
			b.user("clone", "-q", "--bare", b.dir, beside(b, "bare.git"))
			b.userIn(beside(b, "bare.git"), "worktree", "add", "-q", beside(b, "linked"), "main")
			enter(b, beside(b, "linked"))
			more(b)
		},
		"a submodule": func(b *bed) {
			b.user("init", "-q", "-b", "main", beside(b, "super"))
			b.userIn(beside(b, "super"), "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", b.dir, "sub")
			enter(b, beside(b, "super/sub"))
		},
		"one with a submodule": func(b *bed) {
			b.user("clone", "-q", b.dir, beside(b, "other"))
			b.user("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", beside(b, "other"), "sub")
			more(b)
		},
		"objects of another": func(b *bed) {
			b.user("clone", "-q", "--shared", b.dir, beside(b, "clone"))
			enter(b, beside(b, "clone"))
			more(b)
		},
		"objects of another by a relative path": func(b *bed) {
			b.user("clone", "-q", "--shared", b.dir, beside(b, "clone"))
			writeFile(b.t, beside(b, "clone/.git/objects/info/alternates"), "../../../project/.git/objects\n")
			enter(b, beside(b, "clone"))
			more(b)
		},
		"a path with everything": func(b *bed) {
			must(b, os.Rename(b.dir, beside(b, `a:b "c" #d é`)))
			b.dir = beside(b, `a:b "c" #d é`)
		},
		"packed refs, tags and remotes": func(b *bed) {
			b.user("clone", "-q", b.dir, beside(b, "clone"))
			enter(b, beside(b, "clone"))
			b.user("tag", "-a", "-m", "one", "v1")
			b.user("tag", "v2")
			more(b)
			b.user("pack-refs", "--all")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			prepare(b)
			for _, action := range []string{"approve", "apply"} {
				p := playIn(b, &document.Deliver{Checks: []document.DeliverCheck{shellCheck("asks git", asksGit)}})
				p.programs = map[string]func(Command) (int, []byte, error){"sh": func(c Command) (int, []byte, error) {
					b.user("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now") // meanwhile
					c.Env = append(c.Env, "FORMAT="+p.spec.Place.Format, "TAGS="+b.user("tag"))
					return runShell(c)
				}}
				before := walked(b, p.spec.Place.Common)
				work := p.work
				p.work = func(dir string) {
					work(dir)
					if got := b.userIn(dir, "status", "--porcelain"); got != " M README\n D src/b.txt\n?? src/new.txt" {
						t.Errorf("in the worktree git says %q", got)
					}
					b.userIn(dir, "add", "-A")
					b.userIn(dir, "commit", "-qm", "its own")
					b.userIn(dir, "diff", "HEAD~1")
					if want := b.user("for-each-ref", "refs/tags", "refs/remotes"); b.userIn(dir, "for-each-ref", "refs/tags", "refs/remotes") != want {
						t.Errorf("its tags and remote branches are not %s", want)
					}
					if got := b.userIn(dir, "show", "-s", "--format=%an %ae"); got != "Ada ada@example.org" {
						t.Errorf("it commits as %s", got)
					}
					b.user("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
				}
				p.drive()
				s := p.subject("delivery#1")
				if s.Files != 3 || blocked(s) != "" {
					t.Fatalf("%d files, %+v\n%s", s.Files, s.Blocked, p.blobs[s.Checks[0].Output])
				}
				if action == "approve" {
					must(b, func() error { _, err := b.open().Look(context.Background(), s); return err }())
				} else if left := slices.DeleteFunc(others(before, walked(b, p.spec.Place.Common)), func(name string) bool {
					return strings.HasPrefix(name, "objects") || strings.HasPrefix(name, "refs") || name == "packed-refs" || strings.HasPrefix(name, "info") || strings.HasPrefix(name, "logs") || name == "gc.pid"
				}); len(left) > 0 && name != "a submodule" {
					t.Errorf("these have changed before anybody has decided: %v", left)
				}
				p.decide("delivery#1", action)
				if out := p.drive(); p.outcome.Status != map[string]string{"approve": "committed", "apply": "applied"}[action] {
					t.Fatalf("%+v %+v", p.outcome, out)
				}
				if action == "apply" {
					if got := b.user("status", "--porcelain"); got != " M README\n D src/b.txt\n?? src/new.txt" {
						t.Errorf("the checkout has %q", got)
					}
					continue
				}
				branch := strings.TrimPrefix(p.outcome.Branch, "refs/heads/")
				if got := b.user("diff", "--name-status", "HEAD", branch); got != "M\tREADME\nD\tsrc/b.txt\nA\tsrc/new.txt" {
					t.Errorf("the branch has %q", got)
				}
				if got := b.user("for-each-ref", "refs/tipstaff"); got != "" || exists(s.Worktree) || exists(s.Worktree+".git") || exists(s.Worktree+".objects") {
					t.Errorf("something is left: %s", got)
				}
				b.user("gc", "-q", "--prune=now")
				b.user("branch", "-q", "-D", branch)
			}
		})
	}
}

// Settings that start or redirect something count, by key and value, and those of everyday
// work do not. What is secret in them is not shown.
func TestGuardedSettings(t *testing.T) {
	b := newBed(t)
	b.user("config", "alias.old", "log")
	r := b.open()
	for _, c := range []struct{ key, value, shown string }{
		{"hook.evil.command", "/tmp/evil", `hook.evil.command = "/tmp/evil"`},
		{"core.hooksPath", "/tmp/evil", `core.hookspath = "/tmp/evil"`},
		{"core.fsmonitor", "/tmp/evil", "core.fsmonitor"},
		{"core.worktree", "..", "core.worktree"},
		{"core.attributesFile", "/tmp/a", "core.attributesfile"},
		{"core.sshCommand", "/tmp/a", "core.sshcommand"},
		{"include.path", "more", "include.path"},
		{"includeIf.gitdir:/x/.path", "more", "includeif.gitdir:/x/.path"},
		{"filter.x.clean", "cat", "filter.x.clean"},
		{"diff.x.textconv", "cat", "diff.x.textconv"},
		{"merge.x.driver", "cat", "merge.x.driver"},
		{"alias.status", "!true", "alias.status"},
		{"url.https://u:secret@h/.insteadOf", "https://g/", "url.https://…@h/.insteadof"},
		{"credential.helper", "!secret", "credential.helper"},
		{"gpg.program", "evil", "gpg.program"},
		{"submodule.x.update", "!evil", "submodule.x.update"},
		{"some.thing.command", "evil", "some.thing.command"},
		{"http.proxy", "http://u:secret@h", `http.proxy = "http://…@h"`},
		{"http.sslVerify", "false", "http.sslverify"},
		{"http.sslCAInfo", "/tmp/ca", "http.sslcainfo"},
		{"http.https://h/.sslCert", "/tmp/c", "http.https://h/.sslcert"},
		{"http.https://h/.followRedirects", "true", "http.https://h/.followredirects"},
		{"http.newThingOfTomorrow", "x", "http.newthingoftomorrow"},
		{"remote.origin.proxy", "http://h", "remote.origin.proxy"},
		{"lfs.url", "https://h/x", "lfs.url"},
		{"lfs.customtransfer.x.path", "evil", "lfs.customtransfer.x.path"},
		{"lfs.extension.x.clean", "evil", "lfs.extension.x.clean"},
		{"lfs.standaloneTransferAgent", "x", "lfs.standalonetransferagent"},
		{"interactive.diffFilter", "evil", "interactive.difffilter"},
		{"sendemail.smtpServer", "/tmp/evil", "sendemail.smtpserver"},
		{"sendemail.x.smtpPass", "secret", "sendemail.x.smtppass"},
		{"sendemail.toCmd", "evil", "sendemail.tocmd"},
		{"sendemail.smtpSSLCertPath", "", "sendemail.smtpsslcertpath"},
		{"imap.tunnel", "evil", "imap.tunnel"},
		{"init.templateDir", "/tmp/t", "init.templatedir"},
		{"gc.recentObjectsHook", "evil", "gc.recentobjectshook"},
		{"browser.x.path", "evil", "browser.x.path"},
		{"tar.x.command", "evil", "tar.x.command"},
		{"core.alternateRefsCommand", "evil", "core.alternaterefscommand"},
		{"fetch.bundleURI", "https://h", "fetch.bundleuri"},
		{"http.postBuffer", "1", ""},
		{"http.https://h/.extraHeader", "secret", ""},
		{"lfs.https://h/.access", "basic", ""},
		{"lfs.concurrentTransfers", "3", ""},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*", ""},
		{"remote.origin.partialCloneFilter", "blob:none", ""},
		{"remote.origin.pushurl", "https://h/x", ""},
		{"user.signingKey", "x", ""},
		{"sendemail.to", "list@example.org", ""},
		{"push.default", "simple", ""},
		{"branch.main.remote", "origin", ""},
		{"remote.origin.url", "https://h/x", ""},
		{"user.name", "Eve", ""},
		{"core.autocrlf", "false", ""},
		{"pull.rebase", "true", ""},
	} {
		b.user("config", c.key, c.value)
		changed, err := r.Meddled(context.Background())
		must(b, err)
		if got := strings.Join(changed, ", "); !strings.HasPrefix(got, c.shown) || (got == "") != (c.shown == "") || strings.Contains(got, "secret") {
			t.Errorf("%s: told is %q", c.key, got)
		}
		b.user("config", "--file", b.dir+"/.git/config", "--unset-all", c.key)
	}
	b.user("config", "alias.old", "!evil")
	if changed, err := r.Meddled(context.Background()); err != nil || strings.Join(changed, ", ") != `alias.old = "!evil"` {
		t.Errorf("%v: %v", changed, err)
	}
}

// While the configuration starts or redirects something else than when the run was
// made, nothing is written, and what differs is shown. Everyday settings may change.
func TestWritingWaitsForTheConfiguration(t *testing.T) {
	earlier := func(own *tipstaff.OwnRepository, guardsRemotes bool) {
		own.GuardRule, own.GuardsRemotes = 0, guardsRemotes
	}
	for _, c := range []struct {
		key, value, shown string
		made              func(*tipstaff.OwnRepository) // before something was noted; nil: now
	}{
		{"hook.evil.command", "/tmp/evil", `hook.evil.command = "/tmp/evil"`, nil},
		{"remote.origin.url", "https://h/x", "", nil},
		{"remote.origin.receivepack", "/tmp/evil", `remote.origin.receivepack = "/tmp/evil"`, nil},
		{"http.proxy", "http://h", `http.proxy = "http://h"`, nil},
		{"remote.origin.uploadpack", "/tmp/evil", "", func(own *tipstaff.OwnRepository) { earlier(own, false) }},
		{"remote.origin.vcs", "evil", `remote.origin.vcs = "evil"`, func(own *tipstaff.OwnRepository) { earlier(own, true) }},
		{"http.sslVerify", "false", "", func(own *tipstaff.OwnRepository) { earlier(own, true) }},
		{"alias.co", "!evil", `alias.co = "!evil"`, func(own *tipstaff.OwnRepository) { earlier(own, false) }},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, &document.Deliver{})
			if c.made != nil {
				c.made(p.spec.Place.Own)
			}
			p.drive()
			main, status := p.user("rev-parse", "main"), p.user("status", "--porcelain")
			p.user("config", c.key, c.value)
			p.decide("delivery#1", "approve")
			p.drive()
			if c.shown == "" {
				if p.outcome.Status != "committed" {
					t.Errorf("%+v", p.outcome)
				}
				return
			}
			s := p.subject("delivery#2")
			if blocked(s) != "approve:repository_changed apply:repository_changed" || !strings.Contains(s.Blocked[0].Reason, c.shown) || strings.Contains(s.Blocked[0].Reason, "secret") {
				t.Errorf("%+v", s.Blocked)
			}
			p.decide("delivery#2", "apply") // whoever decides so all the same
			p.drive()
			if s := p.subject("delivery#3"); !strings.Contains(blocked(s), "repository_changed") {
				t.Errorf("%+v", s.Blocked)
			}
			look := func() string {
				r, err := At(context.Background(), p.git, p.spec.Place)
				must(p.bed, err)
				now, err := r.Look(context.Background(), s)
				must(p.bed, err)
				s := s
				s.Blocked = now.Blocked
				return blocked(s)
			}
			if got := look(); got != "approve:repository_changed apply:repository_changed" {
				t.Errorf("now it is %q", got)
			}
			git := func(args ...string) string {
				out, err := runGit(context.Background(), filepath.Dir(p.dir), []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1",
					"GIT_DIR=" + p.dir + "/.git", "GIT_WORK_TREE=" + p.dir}, nil, args...)
				must(p.bed, err)
				return strings.TrimSuffix(string(out), "\n")
			}
			p.user("config", "--file", p.dir+"/.git/config", "--unset-all", c.key)
			if git("rev-parse", "main") != main || git("status", "--porcelain") != status || git("for-each-ref", "refs/heads/tipstaff") != "" {
				t.Error("something was written")
			}
			if got := look(); got != "" {
				t.Errorf("when it is as before it is %q", got)
			}
			p.decide("delivery#3", "approve")
			if p.drive(); p.outcome.Status != "committed" {
				t.Errorf("%+v", p.outcome)
			}
		})
	}
}

// A commit is in the name of whoever the user was when the run was made, whatever a worker
// writes into configurations.
func TestAuthorIsTheUserOfTheStart(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.work = func(dir string) {
		edit(p.bed, dir)
		for _, at := range []string{dir, p.dir} {
			p.userIn(at, "config", "user.name", "Eve")
			p.userIn(at, "config", "user.email", "eve@example.org")
		}
	}
	p.drive()
	p.decide("delivery#1", "approve")
	p.drive()
	if got := p.user("show", "-s", "--format=%an <%ae> %cn <%ce>", p.outcome.Commit); got != "Ada <ada@example.org> Ada <ada@example.org>" {
		t.Errorf("%q", got)
	}
}

// Changes of a file that the configuration includes count too.
func TestIncludedConfigurationIsGuarded(t *testing.T) {
	b := newBed(t)
	b.write("common.config", "[alias]\n\tco = checkout\n")
	b.user("config", "include.path", "../common.config")
	r := b.open()
	b.write("common.config", "[alias]\n\tco = checkout\n[pull]\n\trebase = true\n")
	if changed, err := r.Meddled(context.Background()); err != nil || len(changed) > 0 {
		t.Errorf("%v: %v", changed, err)
	}
	b.write("common.config", "[alias]\n\tco = !evil\n")
	if changed, err := r.Meddled(context.Background()); err != nil || strings.Join(changed, " ") != `alias.co = "!evil"` {
		t.Errorf("%v: %v", changed, err)
	}
	b.user("config", "--unset", "include.path")
	if changed, err := r.Meddled(context.Background()); err != nil || strings.Join(changed, ", ") != "alias.co (gone), include.path (gone)" {
		t.Errorf("%v: %v", changed, err)
	}
}

// A repository whose configuration leads to other files is not taken for a project's.
func TestCoreWorktreeIsNotFollowed(t *testing.T) {
	for _, to := range []string{"sibling", ".", "project/src"} {
		b := newBed(t)
		other := filepath.Join(filepath.Dir(b.dir), to)
		must(b, os.MkdirAll(other, 0o700))
		b.user("config", "core.worktree", other)
		if r, err := Open(context.Background(), b.git, b.dir); tipstaff.CodeOf(err) != tipstaff.NotAGitRepository || !strings.Contains(err.Error(), "core.worktree") {
			t.Errorf("%s: %+v, %v", to, r, err)
		}
	}
}

// What a worker did beside its worktree is told where nothing has changed, too.
func TestNoticesWithoutADifference(t *testing.T) {
	for name, deliver := range map[string]*document.Deliver{"delivered": {}, "not delivered": nil} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, deliver)
			p.produced.Notices = []tipstaff.Notice{{Code: RefsChanged, Message: "main was moved"}}
			p.work = func(dir string) { p.userIn(dir, "config", "core.fsmonitor", "evil") }
			if out := p.drive(); out.Err != nil || strings.Contains(p.kinds(), "policy.gate") {
				t.Fatalf("%+v: %s", out, p.kinds())
			}
			var codes []string
			for _, n := range p.view().Notices {
				codes = append(codes, n.Code)
			}
			if got := strings.Join(codes, " "); got != "refs_changed run_repository_changed" {
				t.Errorf("told is %q", got)
			}
			fold := new(tipstaff.Fold)
			for e, err := range p.Events(context.Background(), tipstaff.EventsRequest{}) {
				must(p.bed, err)
				fold.Apply(&e)
			}
			if len(fold.Warnings) != 2 || fold.Warnings[0].Code != RefsChanged || fold.Warnings[1].Code != RunRepositoryChanged {
				t.Errorf("the run's warnings are %+v", fold.Warnings)
			}
		})
	}
}

// What is recorded comes into the user's repository under its own names, or not at all.
func TestWhatIsRecordedCannotBeExchanged(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	r = r.With(w)
	writeFile(t, w.Path+"/README", "honest\n")
	d := b.snapshot(r, w)
	commit, err := r.Commit(context.Background(), Commit{Base: w.Base, Tree: d.Tree, Title: "x", At: someTime})
	must(b, err)
	honest, evil := b.kept(w.Path, "rev-parse", commit+":README"), ""
	writeFile(t, b.home+"/evil", "evil!!\n")
	evil = b.user("hash-object", "-w", b.home+"/evil")
	place := func(id string) string { return "/" + id[:2] + "/" + id[2:] }
	data := readFile(t, b.dir+"/.git/objects"+place(evil))
	remove(b, w.objects()+place(honest))
	writeFile(t, w.objects()+place(honest), data)
	if err := r.Publish(context.Background(), Branch(runID, "x"), commit); err == nil || !strings.Contains(err.Error(), "recorded") {
		t.Errorf("it was published: %v", err)
	}
	if got := b.user("for-each-ref", "refs/heads/tipstaff"); got != "" {
		t.Error(got)
	}
}

// The base of a run is there for as long as its worktree is, whatever the user removes.
func TestTheBaseIsKept(t *testing.T) {
	b := newBed(t)
	b.user("switch", "-q", "-c", "side")
	b.write("README", "first\nsecond\nmore\n")
	b.user("commit", "-qam", "of the base alone")
	r := b.open()
	w := b.worktree(r)
	b.user("switch", "-q", "main")
	b.user("branch", "-q", "-D", "side")
	b.user("reflog", "expire", "--expire=now", "--all")
	b.user("gc", "-q", "--prune=now")
	writeFile(t, w.Path+"/src/new.txt", "new\n")
	if got := b.userIn(w.Path, "log", "--format=%s"); got != "of the base alone\nfirst" {
		t.Errorf("the worktree's history is %q", got)
	}
	if d := b.snapshot(r, w); summary(d) != "a src/new.txt untracked" {
		t.Error(summary(d))
	}
	must(b, r.RemoveWorktree(context.Background(), w))
	if got := b.user("for-each-ref", "refs/tipstaff"); got != "" {
		t.Errorf("left is %s", got)
	}
}

// Where what was recorded is gone, a gate says that nothing can be handed over.
func TestLostRecordsBlock(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	s := p.subject("delivery#1")
	must(p.bed, errors.Join(os.RemoveAll(s.Worktree), os.RemoveAll(s.Worktree+".git"), os.RemoveAll(s.Worktree+".objects")))
	now, err := p.open().Look(context.Background(), s)
	must(p.bed, err)
	s.Blocked = now.Blocked
	if got := blocked(s); got != "approve:worktree_missing apply:worktree_missing fix:worktree_missing" {
		t.Error(got)
	}
}

// Runs that were made before worktrees had repositories of their own go on as they began.
func TestOlderWorktreesGoOn(t *testing.T) {
	for _, action := range []string{"approve", "apply"} {
		p := newPlay(t, &document.Deliver{})
		p.spec.Place.Own = nil
		p.work = func(dir string) {
			edit(p.bed, dir)
			if got := p.userIn(dir, "rev-parse", "--git-common-dir"); got != p.dir+"/.git" {
				t.Errorf("it is a worktree of %s", got)
			}
		}
		p.drive()
		s := p.subject("delivery#1")
		if !strings.Contains(p.user("worktree", "list"), runID) || p.user("rev-parse", "refs/tipstaff/"+runID+"/1") != s.Commit || exists(s.Worktree+".git") {
			t.Errorf("it is no worktree of git: %s", p.user("worktree", "list"))
		}
		p.decide("delivery#1", action)
		if p.drive(); p.outcome.Status != map[string]string{"approve": "committed", "apply": "applied"}[action] {
			t.Errorf("%+v", p.outcome)
		}
		r, err := At(context.Background(), p.git, p.spec.Place)
		must(p.bed, err)
		must(p.bed, r.RemoveWorktree(context.Background(), Worktree{Path: s.Worktree, Branch: s.WorktreeBranch, Base: s.Base}))
		if strings.Contains(p.user("for-each-ref"), "tipstaff/run/") || strings.Contains(p.user("worktree", "list"), runID) {
			t.Error("it is not removed")
		}
	}
}

package delivery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trap is a program that leaves a mark when it is run.
func (b *bed) trap(name string) string {
	b.t.Helper()
	path := filepath.Join(filepath.Dir(b.dir), "traps", name)
	writeFile(b.t, path, fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%q\ncase $0 in *filter*|*conv) cat;; *ssh|*gpg) exit 1;; esac\n", path+".ran"))
	must(b, os.Chmod(path, 0o700))
	return path
}

// mark leaves the mark of a trap that this version of git does not know how to spring.
func (b *bed) mark(name string) {
	writeFile(b.t, filepath.Join(filepath.Dir(b.dir), "traps", name+".ran"), "")
}

// hooksByConfiguration reports whether git has such hooks: it does since 2.54.
func hooksByConfiguration(b *bed) bool {
	var major, minor int
	_, err := fmt.Sscanf(b.user("version"), "git version %d.%d", &major, &minor)
	must(b, err)
	return major > 2 || major == 2 && minor >= 54
}

func (b *bed) sprung() (names []string) {
	marks, _ := filepath.Glob(filepath.Join(filepath.Dir(b.dir), "traps", "*.ran"))
	for _, m := range marks {
		names = append(names, strings.TrimSuffix(filepath.Base(m), ".ran"))
		must(b, os.Remove(m))
	}
	return names
}

// everything does all that this package does with a repository.
func (b *bed) everything(w Worktree) {
	b.t.Helper()
	ctx := context.Background()
	own := b.open()
	before := b.fingerprint(own)
	second, err := own.AddWorktree(ctx, w.Path+"2", w.Base)
	must(b, err)
	writeFile(b.t, second.Path+"/src/a.txt", "changed\n")
	for _, of := range []struct {
		w Worktree
		r *Repo
	}{{w, older(own)}, {second, own}} {
		w, r := of.w, of.r.With(of.w)
		must(b, r.Restore(ctx, w))
		d := b.snapshot(r, w)
		commit, err := r.Commit(ctx, Commit{Base: w.Base, Tree: d.Tree, Title: "x", At: time.Unix(1, 0)})
		must(b, err)
		must(b, r.Keep(ctx, filepath.Base(w.Path), 1, commit))
		must(b, r.Publish(ctx, Branch(filepath.Base(w.Path), "x"), commit))
		_, err = r.Apply(ctx, w.Base, commit)
		must(b, err)
	}
	_, err = own.Dirty(ctx)
	must(b, err)
	Compare(before, b.fingerprint(own))
	must(b, own.RemoveWorktree(ctx, second))
}

// An agent can write the repository's configuration, hooks and attributes. Nothing that it
// names there is run by us; that git itself would run it is shown each time, for else the
// trap would prove nothing.
func TestNothingThatTheRepositoryNamesIsRun(t *testing.T) {
	hooks := []string{"post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit", "applypatch-msg", "pre-applypatch", "post-applypatch",
		"pre-auto-gc", "prepare-commit-msg", "commit-msg", "post-rewrite", "fsmonitor-watchman"}
	filter := func(b *bed, attributes string) {
		for _, kind := range []string{"clean", "smudge"} {
			b.user("config", "filter.evil."+kind, b.trap("filter-"+kind))
		}
		writeFile(b.t, attributes, "* filter=evil\n")
	}
	addAndCheckout := func(b *bed, w Worktree) {
		writeFile(b.t, w.Path+"/src/a.txt", "more\n")
		b.userIn(w.Path, "add", "-A")
		remove(b, w.Path+"/README")
		b.userIn(w.Path, "checkout", "--", "README")
	}
	for _, c := range []struct {
		name  string
		plant func(b *bed, w Worktree)
		// control is what git would do; want are the traps that it springs.
		control func(b *bed, w Worktree)
		want    string
	}{
		{"hooks", func(b *bed, _ Worktree) {
			for _, h := range hooks {
				must(b, os.MkdirAll(b.dir+"/.git/hooks", 0o700))
				must(b, os.Symlink(b.trap(h), b.dir+"/.git/hooks/"+h))
			}
		}, func(b *bed, w Worktree) {
			b.user("worktree", "add", "-q", "--detach", w.Path+"3")
			b.user("update-ref", "refs/heads/x", "HEAD")
		}, "post-checkout post-index-change reference-transaction"},
		{"a folder of hooks", func(b *bed, _ Worktree) {
			for _, h := range hooks {
				b.user("config", "core.hooksPath", filepath.Dir(b.trap(h)))
			}
		}, func(b *bed, _ Worktree) { b.user("update-ref", "refs/heads/x", "HEAD") }, "reference-transaction"},
		{"hooks by configuration", func(b *bed, _ Worktree) {
			b.user("config", "hook.evil.command", b.trap("hook"))
			for _, h := range hooks {
				b.user("config", "--add", "hook.evil.event", h)
			}
		}, func(b *bed, _ Worktree) {
			if hooksByConfiguration(b) {
				b.user("update-ref", "refs/heads/x", "HEAD")
			} else {
				b.mark("hook")
			}
		}, "hook"},
		{"fsmonitor", func(b *bed, _ Worktree) { b.user("config", "core.fsmonitor", b.trap("fsmonitor")) },
			func(b *bed, w Worktree) { b.userIn(w.Path, "status") }, "fsmonitor"},
		{"filters by attributes in the worktree", func(b *bed, w Worktree) { filter(b, w.Path+"/.gitattributes") }, addAndCheckout, "filter-clean filter-smudge"},
		{"filters by attributes of the repository", func(b *bed, _ Worktree) { filter(b, b.dir+"/.git/info/attributes") }, addAndCheckout, "filter-clean filter-smudge"},
		{"filters by a file of attributes elsewhere", func(b *bed, _ Worktree) {
			b.user("config", "core.attributesFile", b.home+"/attributes")
			filter(b, b.home+"/attributes")
		}, addAndCheckout, "filter-clean filter-smudge"},
		{"filters by attributes of the user", func(b *bed, _ Worktree) { filter(b, b.home+"/.config/git/attributes") }, addAndCheckout, "filter-clean filter-smudge"},
		{"a filter of the user's own settings", func(b *bed, w Worktree) {
			b.user("config", "--global", "filter.evil.clean", b.trap("filter-clean"))
			writeFile(b.t, w.Path+"/.gitattributes", "* filter=evil\n")
		}, addAndCheckout, "filter-clean"},
		{"a filter that is included", func(b *bed, w Worktree) {
			writeFile(b.t, b.home+"/more", "[filter \"evil\"]\n\tclean = "+b.trap("filter-clean")+"\n")
			b.user("config", "include.path", b.home+"/more")
			writeFile(b.t, w.Path+"/.gitattributes", "* filter=evil\n")
		}, addAndCheckout, "filter-clean"},
		{"a filter of the worktree alone", func(b *bed, w Worktree) {
			b.user("config", "extensions.worktreeConfig", "true")
			b.userIn(w.Path, "config", "--worktree", "filter.evil.clean", b.trap("filter-clean"))
			writeFile(b.t, w.Path+"/.gitattributes", "* filter=evil\n")
		}, addAndCheckout, "filter-clean"},
		{"a long running filter", func(b *bed, w Worktree) {
			b.user("config", "filter.evil.process", b.trap("process"))
			writeFile(b.t, w.Path+"/.gitattributes", "* filter=evil\n")
		}, func(b *bed, w Worktree) {
			writeFile(b.t, w.Path+"/src/a.txt", "more\n")
			b.userIn(w.Path, "add", "-A")
		}, "process"},
		{"programs for differences", func(b *bed, w Worktree) {
			b.user("config", "diff.external", b.trap("external"))
			b.user("config", "diff.evil.command", b.trap("command"))
			b.user("config", "diff.txt.textconv", b.trap("textconv"))
			writeFile(b.t, w.Path+"/.gitattributes", "README diff=evil\n*.txt diff=txt\n")
			writeFile(b.t, b.dir+"/.git/info/attributes", "README diff=evil\n*.txt diff=txt\n")
		}, func(b *bed, w Worktree) {
			b.userIn(w.Path, "diff")
			b.userIn(w.Path, "-c", "diff.external=", "diff", "--no-ext-diff")
		}, "command external textconv"},
		{"signatures", func(b *bed, _ Worktree) {
			b.user("config", "commit.gpgSign", "true")
			b.user("config", "gpg.program", b.trap("gpg"))
		}, func(b *bed, _ Worktree) {
			_, err := runGit(context.Background(), b.dir, []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}, nil, "commit", "-q", "--allow-empty", "-m", "x")
			if err == nil {
				b.t.Error("git has not asked for a signature")
			}
		}, "gpg"},
		{"an object that is fetched when it is missing", func(b *bed, w Worktree) {
			b.user("config", "extensions.partialClone", "origin")
			b.user("config", "core.repositoryFormatVersion", "1")
			b.user("config", "remote.origin.promisor", "true")
			b.user("config", "remote.origin.url", "ssh://nowhere.invalid/x")
			b.user("config", "core.sshCommand", b.trap("ssh"))
			b.user("config", "credential.helper", "!"+b.trap("credential"))
		}, func(b *bed, _ Worktree) {
			_, err := runGit(context.Background(), b.dir, []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}, nil, "cat-file", "-p", strings.Repeat("1", 40))
			if err == nil {
				b.t.Error("an object that does not exist was found")
			}
		}, "ssh"},
		{"the configuration of a repository in the worktree", func(b *bed, w Worktree) {
			must(b, os.MkdirAll(w.Path+"/sub", 0o700))
			b.userIn(w.Path+"/sub", "init", "-q")
			writeFile(b.t, w.Path+"/sub/file", "x\n")
			b.userIn(w.Path+"/sub", "add", "file")
			b.userIn(w.Path+"/sub", "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x")
			b.userIn(w.Path+"/sub", "config", "core.fsmonitor", b.trap("fsmonitor"))
			b.userIn(w.Path+"/sub", "config", "filter.evil.clean", b.trap("filter-clean"))
			writeFile(b.t, w.Path+"/sub/.gitattributes", "* filter=evil\n")
			writeFile(b.t, w.Path+"/sub/file", "y\n")                            // of the same size: git has to read it
			b.userIn(w.Path, "-c", "advice.addEmbeddedRepo=false", "add", "sub") // a submodule now
		}, func(b *bed, w Worktree) { b.userIn(w.Path, "status") }, "filter-clean fsmonitor"},
		{"an editor, a pager, a shell", func(b *bed, _ Worktree) {
			for _, key := range []string{"core.editor", "core.pager", "core.askPass", "sequence.editor", "alias.status", "alias.apply", "pager.status", "core.alternateRefsCommand"} {
				b.user("config", key, b.trap(strings.ReplaceAll(key, ".", "-")))
			}
		}, func(b *bed, _ Worktree) { b.user("commit", "-q", "--allow-empty", "--allow-empty-message") }, "core-editor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			w := b.worktree(older(b.open())) // where git itself reads what is planted
			writeFile(t, w.Path+"/README", "first\nsecond\nlast\n")
			writeFile(t, w.Path+"/src/a.txt", "other\n")
			c.plant(b, w)
			b.sprung()
			b.everything(w)
			if ran := b.sprung(); len(ran) > 0 {
				t.Errorf("these were run: %v", ran)
			}
			c.control(b, w)
			if ran := strings.Join(b.sprung(), " "); ran != c.want {
				t.Errorf("git itself has run %q, and should have run %q: the trap proves nothing", ran, c.want)
			}
		})
	}
}

// Nothing of the environment changes what git does.
func TestEnvironmentIsOurs(t *testing.T) {
	b := newBed(t)
	for _, name := range []string{"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_TRACE", "GIT_EXEC_PATH"} {
		t.Setenv(name, b.home)
	}
	run := b.git.Run
	b.git.Run = func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
		for _, e := range env {
			if name, value, _ := strings.Cut(e, "="); name != "HOME" && value == b.home {
				t.Errorf("git %v gets %s", args, e)
			}
		}
		return run(ctx, dir, env, stdin, args...)
	}
	r, err := Open(context.Background(), b.git, b.dir)
	must(b, err)
	b.fingerprint(r)
}

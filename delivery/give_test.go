package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/filestamp"
)

// newGiving is a repository that ignores a few things, and a worktree of it.
func newGiving(t *testing.T) (*bed, *Repo, Worktree) {
	b := newBed(t)
	b.write(".gitignore", ".env*\ncerts/\nnode_modules/\n*.pem\nodd*\n")
	b.write("data/.gitkeep", "")
	b.user("add", "-A")
	b.user("commit", "-q", "-m", "ignore files")
	r := b.open()
	return b, r, b.worktree(r)
}

// told is what was given: files with their text, links with where they lead, what was left out.
func told(g given, dir string) string {
	var all []string
	for _, name := range g.Placed {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if to, err := os.Readlink(path); err == nil {
			all = append(all, name+" -> "+filepath.Base(to))
		} else if text, err := os.ReadFile(path); err == nil {
			all = append(all, name+"="+strings.TrimSpace(string(text)))
		}
	}
	for _, f := range g.LeftOut {
		all = append(all, "not "+f.Path+": "+f.Why)
	}
	return strings.Join(all, "; ")
}

func TestIgnoredFilesAreCopiedAndLinked(t *testing.T) {
	outside := func(b *bed) string { return filepath.Join(filepath.Dir(b.dir), "outside") }
	for _, c := range []struct {
		name       string
		copy, link []string
		make       func(b *bed)
		want       string
	}{
		{"a file", []string{".env.local"}, nil, func(b *bed) { b.write(".env.local", "A=1") }, ".env.local=A=1"},
		{"a pattern", []string{"certs/**", "**/*.pem"}, nil, func(b *bed) {
			b.write("certs/a/b.key", "k")
			b.write("src/x.pem", "p")
			b.write("src/y.txt", "not ignored")
		}, "certs/a/b.key=k; src/x.pem=p"},
		{"a folder", []string{"certs"}, nil, func(b *bed) { b.write("certs/a/b.key", "k") }, "certs/a/b.key=k"},
		{"a file of an ignored folder", []string{"certs/a/b.key"}, nil, func(b *bed) { b.write("certs/a/b.key", "k"); b.write("certs/c", "c") }, "certs/a/b.key=k"},
		{"a folder with a link", nil, []string{"node_modules"}, func(b *bed) { b.write("node_modules/x/index.js", "x") }, "node_modules -> node_modules"},
		{"folders with a link", nil, []string{"*/node_modules", "node_modules"}, func(b *bed) { b.write("src/node_modules/x", "x"); b.write("node_modules/x", "x") },
			"node_modules -> node_modules; src/node_modules -> node_modules"},
		{"what is linked is not copied", []string{"node_modules/**"}, []string{"node_modules"}, func(b *bed) { b.write("node_modules/x/index.js", "x") }, "node_modules -> node_modules"},
		{"a name with a line break", []string{"odd*"}, nil, func(b *bed) { b.write("odd\nname", "x") }, "odd\nname=x"},
		{"a name like a pattern", []string{"odd*"}, nil, func(b *bed) { b.write("odd[*]", "x") }, "odd[*]=x"},
		{"what is not there", []string{".env", "certs/**"}, []string{"node_modules"}, func(*bed) {},
			"not node_modules: the checkout does not have it; not .env: the checkout does not have it; not certs/**: no ignored file of the checkout has such a name"},
		{"what git does not ignore", []string{"notes.txt", "README"}, []string{"src"}, func(b *bed) { b.write("notes.txt", "n") },
			"not src: git does not ignore it: the worktree has it if it is committed; not notes.txt: git does not ignore it: the worktree has it if it is committed; not README: git does not ignore it: the worktree has it if it is committed"},
		{"a link out of the checkout", []string{".env*"}, []string{"node_modules"}, func(b *bed) {
			writeFile(b.t, outside(b)+"/secret", "s")
			must(b, os.Symlink(outside(b)+"/secret", b.dir+"/.env"))
			must(b, os.Symlink("../outside/secret", b.dir+"/.env.2"))
			b.write(".env.3", "fine")
			must(b, os.Symlink(outside(b), b.dir+"/certs"))
		}, ".env.3=fine; not node_modules: the checkout does not have it; not .env: it is a link that leads out of the checkout; not .env.2: it is a link that leads out of the checkout"},
		{"a link within the checkout", []string{".env*"}, nil, func(b *bed) {
			b.write(".env.real", "r")
			must(b, os.Symlink(".env.real", b.dir+"/.env.alias"))
		}, ".env.alias=r; .env.real=r"},
		{"a link into git", []string{".env*"}, nil, func(b *bed) {
			must(b, os.Symlink(".git/config", b.dir+"/.env"))
			must(b, os.Symlink("nowhere", b.dir+"/.env.2"))
			must(b, os.Symlink(".", b.dir+"/.env.3"))
		}, "not .env: it is a link into .git, .tipstaff or the checkout itself; not .env.2: it is a link that leads nowhere; not .env.3: it is a link into .git, .tipstaff or the checkout itself"},
		{"repositories and stores below", []string{"certs/**"}, nil, func(b *bed) {
			b.write("certs/.GIT/config", "x")
			b.write("certs/.tipstaff/keys", "x")
			b.write("certs/fine", "f")
		}, "certs/fine=f"},
		{"a pipe", []string{".env*"}, []string{"odd"}, func(b *bed) {
			mkfifo(b, b.dir+"/.env")
			b.write(".env.2", "x")
			l, err := net.Listen("unix", b.dir+"/.env.s")
			must(b, err)
			b.t.Cleanup(func() { _ = l.Close() })
		}, ".env.2=x; not odd: the checkout does not have it"},
		{"the include file", nil, nil, func(b *bed) {
			b.write(".worktreeinclude", "# what a worktree needs\n.env*\n!.env.no\n/src/*.txt\ncerts/\n")
			b.write(".env", "e")
			b.write(".env.no", "n")
			b.write("src/new.txt", "not ignored")
			b.write("certs/a/k", "k")
		}, ".env=e; certs/a/k=k"},
		{"an include file that is a pipe", nil, nil, func(b *bed) { mkfifo(b, b.dir+"/.worktreeinclude") }, "not .worktreeinclude: it is not read: it is no file, or longer than 64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, r, w := newGiving(t)
			c.make(b)
			var g given
			for range 2 { // whoever is killed meanwhile does it again
				var err error
				if g, err = r.give(context.Background(), w.Path, w.Base, document.Preparation{Copy: c.copy, Link: c.link}); err != nil {
					t.Fatal(err)
				}
			}
			if got := told(g, w.Path); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A workspace may be a folder of its repository: its include file counts, and those around it.
func TestIncludeFilesAroundTheWorkspace(t *testing.T) {
	b, r, w := newGiving(t)
	r.Prefix = "src/app"
	for name, text := range map[string]string{
		".worktreeinclude": "/certs/\n/src/top.pem\n", "src/.worktreeinclude": "/between.pem\n", "src/app/.worktreeinclude": "/x.pem\n.env*\n!.env.no\n",
		"src/other/.worktreeinclude": "*.pem\n", "certs/k": "k", "src/top.pem": "t", "src/between.pem": "b", "src/app/x.pem": "x", "src/app/deep/.env": "e", "src/app/.env.no": "n",
		"x.pem": "no", "between.pem": "no", "src/other/o.pem": "no", ".env": "no",
	} {
		b.write(name, text)
	}
	g, err := r.give(context.Background(), w.Path, w.Base, document.Preparation{})
	if want := "certs/k=k; src/app/deep/.env=e; src/app/x.pem=x; src/between.pem=b; src/top.pem=t"; err != nil || told(g, w.Path) != want {
		t.Errorf("got  %s (%v)\nwant %s", told(g, w.Path), err, want)
	}
}

// A committed link does not lead what is copied out of the worktree.
func TestCopiesStayInTheWorktree(t *testing.T) {
	b := newBed(t)
	b.write(".git/info/exclude", "certs/\n")
	outside := filepath.Join(filepath.Dir(b.dir), "outside")
	must(b, os.Mkdir(outside, 0o700))
	must(b, os.Symlink(outside, b.dir+"/certs"))
	b.user("add", "-f", "certs")
	b.user("commit", "-q", "-m", "a link")
	must(b, os.Remove(b.dir+"/certs"))
	b.write("certs/key", "k")
	b.user("rm", "-q", "--cached", "certs")
	r := b.open()
	w := b.worktree(r)
	if g, err := r.give(context.Background(), w.Path, w.Base, document.Preparation{Copy: []string{"certs/key"}}); err == nil {
		t.Errorf("it was copied: %+v", g)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%s was written outside", left[0].Name())
	}
	if _, err := os.Lstat(filepath.Join(w.Path, copying)); err == nil {
		t.Error("a half of it is left")
	}
}

func TestTooMuchIsNotCopied(t *testing.T) {
	b, r, w := newGiving(t)
	b.write(".env", "e")
	b.write("odd.bin", "")
	must(b, os.Truncate(b.dir+"/odd.bin", 2<<30))
	ctx, p := context.Background(), document.Preparation{Copy: []string{".env", "odd.bin"}}
	_, err := r.give(ctx, w.Path, w.Base, p)
	if err == nil || !strings.Contains(err.Error(), "odd.bin cannot be copied: with it there would be 2 files of 2048 MiB, and at most 10000 files of 1024 MiB in all are copied") {
		t.Error(err)
	}
	must(b, os.Truncate(b.dir+"/odd.bin", 1))
	writeFile(t, filepath.Join(w.Path, copying), "of somebody who was killed")
	g, err := r.give(ctx, w.Path, w.Base, p)
	if err != nil || g.Copied != 2 || g.Bytes != 2 {
		t.Errorf("%+v %v", g, err)
	}
}

// What was put into a worktree is never delivered, whatever a worker does to the ignore files.
func TestWhatWasGivenIsNotDelivered(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Copy: []string{".env"}, Link: []string{"ignored"}})
	p.write(".env", "SECRET=1")
	p.write("ignored/x", "x")
	p.work = func(dir string) {
		if readFile(t, dir+"/.env") != "SECRET=1" || readFile(t, dir+"/ignored/x") != "x" {
			t.Error("the files are not there")
		}
		edit(p.bed, dir)
		writeFile(t, dir+"/.gitignore", "")
		p.userIn(dir, "add", "-A")
	}
	p.drive()
	s := p.subject("delivery#1")
	if got := p.kept(s.Worktree, "ls-tree", "-r", "--name-only", s.Commit); got != ".gitignore\nREADME\nsrc/a.txt\nsrc/new.txt" {
		t.Errorf("delivered are %q", got)
	}
	if len(s.Obeyed) > 0 {
		t.Errorf("it is told as something of the worker's: %+v", s.Obeyed)
	}
}

// git calls a link that was given not untracked, though no line for folders names it: neither in
// the worktree nor where checks run, nor after a worker has spoiled what the repository ignores.
func TestGitIgnoresWhatWasGiven(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Copy: []string{"own.key"}, Link: []string{"ignored", "odd*"}}, shellCheck("clean", `test -z "$(git status --porcelain)" && test -L ignored && test -e own.key`))
	p.write(".gitignore", "ignored/\nodd*/\n")
	p.user("commit", "-qam", "folders")
	base, err := p.open().Resolve(t.Context(), "HEAD")
	must(p.bed, err)
	p.spec.Base = base
	p.write(".git/info/exclude", "own.key") // no line break at its end
	p.write("own.key", "k")
	p.write("ignored/x", "x")
	p.write("odd [x]\\?  /x", "x")
	p.work = func(dir string) {
		if target, err := os.Readlink(dir + "/odd [x]\\?  "); err != nil {
			t.Errorf("%q: %v", target, err)
		}
		if got := p.userIn(dir, "status", "--porcelain"); got != "" {
			t.Errorf("git says %q", got)
		}
		edit(p.bed, dir)
		p.userIn(dir, "add", "-A")
		must(p.bed, os.Remove(dir+".git/info/exclude"))
		mkfifo(p.bed, dir+".git/info/exclude")
	}
	p.drive()
	s := p.subject("delivery#1")
	if outcomes(s) != "clean passed" || len(s.Obeyed) > 0 || s.Files != 3 {
		t.Errorf("%s %+v %+v", outcomes(s), s.Obeyed, s.Paths)
	}
	if got := p.userIn(s.Worktree, "status", "--porcelain", "--", "ignored", "own.key"); got != "" {
		t.Errorf("with what was put back git says %q", got)
	}
}

// Names are recorded, in UTF-8. A file that cannot be known again by what is recorded of it is
// not put where it could be delivered.
func TestNamesThatCannotBeRecorded(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{Copy: []string{"ignored"}, Link: []string{"*.ignored"}})
	p.write("ignored/fine", "x")
	for _, name := range []string{"ignored/a\xffb.env", "c\xffd.ignored", "e\xff/f", "e\xff/g.ignored"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o700); err != nil {
			t.Skip("the file system has no such names: ", err)
		}
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte("SECRET=1"), 0o600); err != nil {
			t.Skip("the file system has no such names: ", err)
		}
	}
	must(p.bed, os.Symlink("e\xff/g.ignored", p.dir+"/h.ignored"))
	p.work = func(dir string) {
		if readFile(t, dir+"/ignored/fine") != "x" {
			t.Error("a file with another name is not there")
		}
		edit(p.bed, dir)
		writeFile(t, dir+"/.gitignore", "")
	}
	p.drive()
	s := p.subject("delivery#1")
	if got := p.kept(s.Worktree, "ls-tree", "-r", "--name-only", s.Commit); got != ".gitignore\nREADME\nsrc/a.txt\nsrc/new.txt" {
		t.Errorf("delivered are %q", got)
	}
	var told []string
	for _, r := range p.log.Records(runID) {
		if r.Kind == string(tipstaff.KindWorktreePrepared) {
			var body tipstaff.WorktreePrepared
			must(p.bed, json.Unmarshal(r.Body, &body))
			for _, f := range body.LeftOut {
				told = append(told, f.Path+": "+f.Why)
			}
		}
	}
	const why = ": its name is not UTF-8"
	if got, want := strings.Join(told, "; "), `"c\xffd.ignored"`+why+"; h.ignored"+why+`; "ignored/a\xffb.env"`+why; got != want {
		t.Errorf("told are %s\nwant %s", got, want)
	}
}

// What is linked can be changed through the link. Nobody relies on it then.
func TestChangedLinksAreTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *play, dir string)
		want   string
	}{
		{"nothing", func(*play, string) {}, "test passed"},
		{"a file", func(_ *play, dir string) { writeFile(t, dir+"/ignored/x", "y") }, "test failed"},
		{"a file, with its times", func(p *play, dir string) {
			info, err := os.Stat(dir + "/ignored/x")
			must(p.bed, err)
			writeFile(t, dir+"/ignored/x", "y")
			must(p.bed, os.Chtimes(dir+"/ignored/x", info.ModTime(), info.ModTime()))
		}, "test failed"},
		{"a new file", func(_ *play, dir string) { writeFile(t, dir+"/ignored/deep/new", "") }, "test failed"},
		{"a mode", func(p *play, dir string) { must(p.bed, os.Chmod(dir+"/ignored/x", 0o755)) }, "test failed"},
		{"all of it is gone", func(p *play, _ string) { must(p.bed, os.RemoveAll(p.dir+"/ignored")) }, "test failed"},
		{"a pipe", func(p *play, dir string) { mkfifo(p.bed, dir+"/ignored/pipe") }, "test failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newCleanPlay(t, document.Preparation{Link: []string{"ignored"}}, shellCheck("test", "test -e ignored/x"))
			p.write("ignored/x", "x")
			p.work = func(dir string) {
				edit(p.bed, dir)
				p.puts(dir, "tool", "")
				must(p.bed, os.Chmod(dir+"/tool", 0o755)) // which is named first, too
				c.change(p, dir)
			}
			p.spec.Release = nil
			p.drive()
			s := p.subject("delivery#1")
			if got := outcomes(s); got != c.want {
				t.Errorf("%s %+v", got, s.Checks)
			}
			if told := len(s.Notices) > 0 && s.Notices[0].Code == tipstaff.LinkedChanged; told != (c.want == "test failed") {
				t.Errorf("%+v", s.Notices)
			}
			lines := tipstaff.Subject(p.gate("delivery#1")).Lines
			if first := strings.HasPrefix(lines[0], "notice linked_changed: ignored, "); first != (c.want == "test failed") || strings.Count(strings.Join(lines, "\n"), "notice linked_changed: ") > 1 {
				t.Errorf("the gate begins with %q of %q", lines[0], lines)
			}
			if c.want == "test failed" && (s.Checks[0].Code != tipstaff.LinkedChanged || slices.Contains(p.ran, "sh")) {
				t.Errorf("%+v, ran %v", s.Checks, p.ran)
			}
		})
	}
}

// Why nothing is taken for a pattern is known, or the attempt has failed; git is asked once.
func TestWhyNothingIsTakenIsNotGuessed(t *testing.T) {
	for _, p := range []document.Preparation{{Copy: []string{"src"}}, {Link: []string{"src"}}} {
		b, r, w := newGiving(t)
		run, asked := b.git.Run, 0
		b.git.Run = func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
			if slices.Contains(args, "check-ignore") {
				asked++
				return nil, context.Canceled
			}
			return run(ctx, dir, env, stdin, args...)
		}
		if g, err := r.give(context.Background(), w.Path, w.Base, p); !errors.Is(err, context.Canceled) || asked != 1 {
			t.Errorf("%v, asked %d times: %+v", err, asked, g)
		}
	}
}

// What is linked may have no end: it is read as far as the limits go, and until nobody waits.
func TestLinkedFoldersWithoutEnd(t *testing.T) {
	b := newBed(t)
	w := Worktree{Linked: []tipstaff.LinkedFile{{Path: "large", Source: b.home}}}
	writeFile(t, b.home+"/large", "")
	ended, end := context.WithCancel(context.Background())
	end()
	if told, err := b.git.LinkedChanged(ended, w); !errors.Is(err, context.Canceled) || len(told) > 0 {
		t.Errorf("%v: %v", told, err)
	}
	if _, err := filestamp.Digest(ended, b.home+"/large", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("it was read: %v", err)
	}
	usual := maxLinkedBytes
	maxLinkedBytes = 1 << 20
	defer func() { maxLinkedBytes = usual }()
	must(b, os.Truncate(b.home+"/large", maxLinkedBytes+1))
	told, err := b.git.LinkedChanged(context.Background(), w)
	if must(b, err); len(told) != 1 || !strings.Contains(told[0].Message, "too large") {
		t.Errorf("%v", told)
	}
}

func TestPortsAreOfOneRun(t *testing.T) {
	b := newBed(t)
	state := filepath.Join(filepath.Dir(b.dir), "state")
	must(b, os.Mkdir(state, 0o700))
	var lock sync.Mutex
	e := Env{Git: b.git, Worktrees: state, Lock: func(context.Context, string) (func() error, error) {
		lock.Lock()
		return func() error { lock.Unlock(); return nil }, nil
	}}
	var all sync.Map
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			dir := filepath.Join(state, fmt.Sprint(i))
			ports, err := e.givePorts(t.Context(), dir, 3)
			again, errAgain := e.givePorts(t.Context(), dir, 3)
			if err != nil || errAgain != nil || len(ports) != 3 || !slices.Equal(ports, again) {
				t.Errorf("%v %v %v %v", ports, again, err, errAgain)
			}
			for _, p := range ports {
				if _, twice := all.LoadOrStore(p, i); twice {
					t.Errorf("%d was given twice", p)
				}
			}
		})
	}
	wg.Wait()
	ports, err := e.givePorts(t.Context(), filepath.Join(state, "held"), 1)
	must(b, err)
	must(b, os.Remove(filepath.Join(state, "held.ports")))
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	must(b, err)
	defer l.Close()
	if next, err := e.givePorts(t.Context(), filepath.Join(state, "held"), 1); err != nil || next[0] == ports[0] {
		t.Errorf("%v, where somebody listens: %v", next, err)
	}
}

func TestSubmodulesAreWritten(t *testing.T) {
	b := newBed(t)
	inner, outer := filepath.Join(filepath.Dir(b.dir), "inner"), filepath.Join(filepath.Dir(b.dir), "outer")
	for _, dir := range []string{inner, outer} {
		must(b, os.Mkdir(dir, 0o700))
		b.userIn(dir, "init", "-q", "-b", "main")
		b.userIn(dir, "config", "user.name", "Ada")
		b.userIn(dir, "config", "user.email", "ada@example.org")
		writeFile(t, dir+"/lib.txt", filepath.Base(dir))
		b.userIn(dir, "add", "-A")
		b.userIn(dir, "commit", "-q", "-m", "lib")
	}
	b.userIn(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "deep/inner")
	b.userIn(outer, "commit", "-q", "-m", "with inner")
	b.user("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", outer, "third/outer")
	b.user("commit", "-q", "-m", "with outer")
	r := b.open()
	w := b.worktree(r)
	ctx := context.Background()
	_, err := r.give(ctx, w.Path, w.Base, document.Preparation{Submodules: true})
	if err == nil || !strings.Contains(err.Error(), "submodule third/outer: submodule deep/inner: the checkout does not have it: `git submodule update --init --recursive`") {
		t.Fatal(err)
	}
	b.user("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	if _, err := r.give(ctx, w.Path, w.Base, document.Preparation{Submodules: true}); err != nil {
		t.Fatal(err)
	}
	if readFile(t, w.Path+"/third/outer/lib.txt") != "outer" || readFile(t, w.Path+"/third/outer/deep/inner/lib.txt") != "inner" {
		t.Error("other files")
	}
	d := b.snapshot(r, w)
	if len(d.Files) != 0 {
		t.Error(summary(d))
	}
	notDelivered := func(want string) {
		t.Helper()
		found, err := r.With(w).obeyed(ctx, w, Diff{Tree: d.Tree})
		must(b, err)
		var names []string
		for _, f := range found {
			names = append(names, f.Kind+" "+f.Path)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("named are %q, not %q", got, want)
		}
	}
	notDelivered("")
	writeFile(t, w.Path+"/third/outer/lib.txt", "changed")
	writeFile(t, w.Path+"/third/outer/new.txt", "new")
	writeFile(t, w.Path+"/third/outer/deep/inner/lib.txt", "changed")
	notDelivered("not_delivered third/outer/deep/inner/lib.txt, not_delivered third/outer/lib.txt, not_delivered third/outer/new.txt")
}

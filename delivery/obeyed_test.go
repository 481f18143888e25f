package delivery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// deciding protects a manifest, folders of ours and the configuration of a CI.
func deciding(path string) (Protected, bool) {
	switch {
	case path == ".tipstaff" || strings.HasPrefix(path, ".tipstaff/"):
		return Protected{"the state of runs", tipstaff.ObeyedDecides, tipstaff.ApplyNever}, true
	case path == "tipstaff.yaml":
		return Protected{"the manifest", tipstaff.ObeyedDecides, tipstaff.ApplyAsks}, true
	case strings.HasPrefix(path, ".github/workflows/"):
		return Protected{"what the CI runs", tipstaff.ObeyedElsewhere, tipstaff.ApplyAsks}, true
	case strings.HasPrefix(path, ".vscode/"):
		return Protected{"what an editor obeys, and writable", tipstaff.ObeyedElsewhere, ""}, true
	}
	return Protected{}, false
}

// changing is a play over a program that changes files, up to its gate.
func changing(t *testing.T, work func(p *play, dir string)) *play {
	p := newPlay(t, &document.Deliver{})
	p.protect = deciding
	p.work = func(dir string) { work(p, dir) }
	return p
}

func (p *play) puts(dir, name, text string) {
	p.t.Helper()
	writeFile(p.t, filepath.Join(dir, name), text)
}

// commits stages something in a worktree, and commits it.
func (p *play) commits(dir string, stage ...string) {
	p.t.Helper()
	p.userIn(dir, stage...)
	p.userIn(dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "mine")
}

func firsts(s tipstaff.DeliverySubject) (all []string) {
	for _, f := range s.Obeyed {
		all = append(all, f.Kind+" "+f.Path)
	}
	return all
}

// What is obeyed is in nobody's list of "and 4,803 more": whoever decides reads it first.
func TestTheGateNamesFirstWhatIsObeyed(t *testing.T) {
	p := changing(t, func(p *play, dir string) {
		for i := range 5000 {
			p.puts(dir, fmt.Sprintf("a/%02d/%d.txt", i%40, i), "x\n")
		}
		p.puts(dir, "tipstaff.yaml", "allowed_effects: [once]\n")
		p.puts(dir, ".github/workflows/ci.yml", "on: push\n")
		must(p.bed, os.Symlink("/etc", filepath.Join(dir, "etc")))
	})
	if out := p.drive(); out.Status != flow.ParkedRun {
		t.Fatalf("%s %v", out.Status, out.Err)
	}
	g := p.gate("delivery#1")
	lines := tipstaff.Subject(g).Lines
	for i, want := range []string{"tipstaff.yaml", "/etc", ".github/workflows/ci.yml"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q and does not name %s", i+1, lines[i], want)
		}
	}
	s := p.subject("delivery#1")
	listed, folders := len(s.Paths), 0
	for _, f := range s.Folders {
		folders += f.Files
	}
	if s.Files != 5003 || listed != maxListed || listed+folders != s.Files || len(s.Folders) == 0 || len(s.Folders) > maxFolders {
		t.Errorf("%d files: %d listed, %d in %d folders", s.Files, listed, folders, len(s.Folders))
	}
}

func TestWhatIsToBeKnownOfAChangedFile(t *testing.T) {
	for _, c := range []struct {
		name string
		work func(p *play, dir string)
		want string
	}{
		{"a file like others", func(p *play, dir string) { p.puts(dir, "src/c.txt", "c\n") }, ""},
		{"a file that decides is removed", func(p *play, dir string) {
			must(p.bed, os.Remove(filepath.Join(dir, "tipstaff.yaml")))
		}, "decides tipstaff.yaml"},
		{"it is moved away", func(p *play, dir string) {
			must(p.bed, os.Rename(filepath.Join(dir, "tipstaff.yaml"), filepath.Join(dir, "old.yaml")))
		}, "decides tipstaff.yaml"},
		{"our state", func(p *play, dir string) { p.puts(dir, ".tipstaff/x", "x\n") }, "decides .tipstaff/x"},
		{"a link inside", func(p *play, dir string) { must(p.bed, os.Symlink("a.txt", dir+"/src/l")) }, ""},
		{"a link to the folder above", func(p *play, dir string) { must(p.bed, os.Symlink("../README", dir+"/src/l")) }, ""},
		{"a link out", func(p *play, dir string) { must(p.bed, os.Symlink("../../x", dir+"/src/l")) }, "link src/l"},
		{"a link out and back", func(p *play, dir string) { must(p.bed, os.Symlink("../../project/README", dir+"/src/l")) }, "link src/l"},
		{"links that lead out together", func(p *play, dir string) {
			must(p.bed, os.MkdirAll(dir+"/a/b/c", 0o700))
			must(p.bed, os.Symlink("../../../src", dir+"/a/b/c/d"))
			must(p.bed, os.Symlink("a/b/c/d/../../../../etc/passwd", dir+"/e"))
		}, "link e"},
		{"a link to what decides", func(p *play, dir string) { must(p.bed, os.Symlink("../tipstaff.yaml", dir+"/src/l")) }, "link src/l"},
		{"a link with a line break", func(p *play, dir string) { must(p.bed, os.Symlink("/etc\nx", dir+"/l\nm")) }, "link l\nm"},
		{"a file becomes a link", func(p *play, dir string) {
			must(p.bed, os.Remove(dir+"/README"))
			must(p.bed, os.Symlink("/etc/passwd", dir+"/README"))
		}, "link README"},
		{"a new executable", func(p *play, dir string) {
			p.puts(dir, "tool", "#!/bin/sh\n")
			must(p.bed, os.Chmod(dir+"/tool", 0o755))
		}, "executable tool"},
		{"a file becomes one", func(p *play, dir string) { must(p.bed, os.Chmod(dir+"/README", 0o755)) }, "executable README"},
		{"another repository", func(p *play, dir string) {
			p.userIn(dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",lib")
			p.userIn(dir, "init", "-q", "lib")
			p.userIn(dir+"/lib", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
		}, "submodule lib"},
		{"a committed file that is ignored", func(p *play, dir string) {
			p.puts(dir, ".gitignore", "*.out\n")
			p.puts(dir, "a.out", "x\n")
			p.puts(dir, "b.out", "x\n")
			p.userIn(dir, "add", "-f", "a.out")
			p.userIn(dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "mine")
		}, "not_delivered a.out"},
		{"a committed file that is taken out of git again", func(p *play, dir string) {
			p.puts(dir, ".gitignore", "*.log\n")
			p.puts(dir, "left.log", "x\n")
			p.commits(dir, "add", "-f", "left.log")
			p.commits(dir, "rm", "-q", "--cached", "left.log")
		}, "not_delivered left.log"},
		{"a commit of another branch", func(p *play, dir string) {
			p.userIn(dir, "checkout", "-q", "-b", "feature")
			p.puts(dir, "feat.txt", "x\n")
			p.commits(dir, "add", "feat.txt")
			p.userIn(dir, "checkout", "-q", "-")
		}, "not_delivered feat.txt"},
		{"a commit without a branch", func(p *play, dir string) {
			p.userIn(dir, "checkout", "-q", "--detach")
			p.puts(dir, "a/b\nc", "x\n")
			p.commits(dir, "add", "-A")
			must(p.bed, os.Remove(dir+"/a/b\nc"))
		}, "not_delivered a/b\nc"},
		{"commits of what is delivered", func(p *play, dir string) {
			p.puts(dir, "feat.txt", "x\n")
			p.commits(dir, "add", "-A")
			p.commits(dir, "rm", "-q", "README")
			p.userIn(dir, "update-ref", "refs/heads/theirs", "refs/remotes/theirs")
		}, ""},
		{"many committed files", func(p *play, dir string) {
			for i := range maxCommitted + 2 {
				p.puts(dir, fmt.Sprintf("many/%02d", i), "x\n")
			}
			p.commits(dir, "add", "-A")
			must(p.bed, os.RemoveAll(dir+"/many"))
		}, "not_delivered many/00, not_delivered many/01, …, not_delivered many/49, not_delivered …"},
		{"commits that cannot be read", func(p *play, dir string) { mkfifo(p.bed, dir+".git/refs/heads/pipe") }, "not_delivered …"},
		{"a merge that adds a file", func(p *play, dir string) {
			p.userIn(dir, "checkout", "-q", "-b", "side")
			p.puts(dir, "also.txt", "so that something is delivered\n")
			p.commits(dir, "add", "-A")
			p.userIn(dir, "checkout", "-q", "-")
			p.userIn(dir, "merge", "-q", "--no-ff", "--no-commit", "side")
			p.puts(dir, "evil.txt", "x\n")
			p.commits(dir, "add", "-A")
			must(p.bed, os.Remove(dir+"/evil.txt"))
		}, "not_delivered evil.txt"},
		{"a file added to git that is a folder by now", func(p *play, dir string) {
			p.puts(dir, "x", "x\n")
			p.userIn(dir, "add", "x")
			must(p.bed, os.Remove(dir+"/x"))
			p.puts(dir, "x/y", "y\n")
		}, "not_delivered x"},
		{"files where a submodule has its place", func(p *play, dir string) { p.puts(dir, "sub/deep/x", "x\n") }, "not_delivered sub/deep/x"},
		{"a file under a filter", func(p *play, dir string) { p.puts(dir, "new.bin", "raw\n") }, "unfiltered new.bin"},
		{"a pointer under a filter", func(p *play, dir string) {
			p.puts(dir, "new.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("0", 64)+"\nsize 1\n")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := changing(t, func(p *play, dir string) {
				c.work(p, dir)
				p.puts(dir, "also.txt", "so that something is delivered\n")
			})
			p.bed.write("tipstaff.yaml", "allowed_effects: [read]\nservers: {}\n")
			p.bed.write(".gitattributes", "*.bin filter=lfs -text\n")
			p.user("add", "-A")
			p.user("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("2", 40)+",sub")
			p.user("commit", "-qm", "second")
			p.write("theirs.txt", "of somebody else\n")
			p.user("add", "theirs.txt")
			p.user("commit", "-qm", "third")
			p.user("update-ref", "refs/remotes/theirs", "HEAD")
			p.user("reset", "-q", "--hard", "HEAD~")
			base, err := p.open().Resolve(context.Background(), "HEAD")
			must(p.bed, err)
			p.spec.Base = base
			p.drive()
			found := firsts(p.subject("delivery#1"))
			if n := len(found); n > 5 {
				found = slices.Concat(found[:2], []string{"…"}, found[n-2:])
			}
			if got := strings.Join(found, ", "); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

// A pipe in the place of attributes, or of a submodule's repository, holds nobody up.
func TestNothingHangsAtWhatIsObeyed(t *testing.T) {
	p := changing(t, func(p *play, dir string) {
		mkfifo(p.bed, dir+"/.gitattributes")
		mkfifo(p.bed, dir+"/pipe")
		p.puts(dir, "also.txt", "x\n")
	})
	p.drive()
	if s := p.subject("delivery#1"); len(s.Obeyed) > 0 || s.Files != 1 {
		t.Errorf("%d files, %v", s.Files, firsts(s))
	}
}

// What decides is changed by `apply` only if whoever decides has said so of these files, and
// what runs keep there never.
func TestApplyAsksAboutWhatDecides(t *testing.T) {
	for _, c := range []struct {
		name, file, answer string
		blocked            string // at the gate
		want               string
		again              string // why it is asked once more
	}{
		{"said so", "tipstaff.yaml", `{"obeyed":true}`, "", tipstaff.DeliveredApplied, ""},
		{"nothing said", "tipstaff.yaml", "", "", "", tipstaff.BlockObeyed},
		{"said otherwise", "tipstaff.yaml", `{"obeyed":false}`, "", "", tipstaff.BlockObeyed},
		{"said something else", "tipstaff.yaml", `"obeyed"`, "", "", tipstaff.BlockObeyed},
		{"our state", ".tipstaff/x", `{"obeyed":true}`, "apply:protected_path", "", tipstaff.BlockProtected},
		{"a workflow", ".github/workflows/ci.yml", "", "", "", tipstaff.BlockObeyed},
		{"what may be written", ".vscode/tasks.json", "", "", tipstaff.DeliveredApplied, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := changing(t, func(p *play, dir string) { p.puts(dir, c.file, "x\n") })
			p.drive()
			s := p.subject("delivery#1")
			if blocked(s) != c.blocked {
				t.Errorf("blocked: %q", blocked(s))
			}
			before := p.user("status", "--porcelain", "--ignored")
			must(p.bed, p.log.Decide(runID, p.gate("delivery#1").ID.String(), flow.Decision{Action: tipstaff.DeliverApply, Answer: []byte(c.answer), By: "ada", Via: "command"}))
			p.drive()
			if c.want != "" {
				if p.outcome.Status != c.want {
					t.Errorf("%s, not %s", p.outcome.Status, c.want)
				}
				return
			}
			if notices := p.subject("delivery#2").Notices; len(notices) == 0 || !strings.Contains(notices[0].Message, c.again) {
				t.Errorf("asked once more, and said %v", notices)
			}
			if after := p.user("status", "--porcelain", "--ignored"); after != before {
				t.Errorf("the checkout was changed:\n%s", after)
			}
		})
	}
}

// An acceptance is of the files that the gate has named. What has come to be protected since then
// opens it again, and stands in its first lines, with the reason; what is protected no longer is
// named no more. What git has said of the worktree stays.
func TestAnAcceptanceIsOfWhatTheGateHasNamed(t *testing.T) {
	p := changing(t, func(p *play, dir string) {
		p.puts(dir, "tipstaff.yaml", "x\n")
		p.puts(dir, ".vscode/tasks.json", "{}\n")
		p.puts(dir, "bin/tool.sh", "x\n")
		must(p.bed, os.Symlink("bin/tool.sh", dir+"/tool"))
		p.puts(dir, ".gitignore", "*.out\n")
		p.puts(dir, "a.out", "x\n")
		p.userIn(dir, "add", "-f", "a.out")
	})
	p.drive()
	if got := strings.Join(firsts(p.subject("delivery#1")), ", "); got != "decides tipstaff.yaml, configuration .vscode/tasks.json, not_delivered a.out" {
		t.Errorf("named first are %s", got)
	}
	before := everything(p.bed, p.dir)
	accept := func(gate string) {
		must(p.bed, p.log.Decide(runID, p.gate(gate).ID.String(), flow.Decision{Action: tipstaff.DeliverApply, Answer: tipstaff.AcceptObeyed(), By: "ada", Via: "command"}))
		p.drive()
	}
	p.protect = func(path string) (Protected, bool) {
		switch {
		case path == "bin/tool.sh":
			return Protected{"a program that is started", tipstaff.ObeyedDecides, tipstaff.ApplyAsks}, true
		case strings.HasPrefix(path, ".vscode/"):
			return Protected{}, false
		}
		return deciding(path)
	}
	accept("delivery#1")
	if names := changedNames(before, everything(p.bed, p.dir)); p.outcome.Status != "" || len(names) > 0 {
		t.Fatalf("%+v has changed %v", p.outcome, names)
	}
	s := p.subject("delivery#2")
	if got := strings.Join(firsts(s), ", "); got != "decides bin/tool.sh, decides tipstaff.yaml, link tool, not_delivered a.out" {
		t.Errorf("named first are %s", got)
	}
	if lines := tipstaff.Subject(p.gate("delivery#2")).Lines; lines[0] != "decides  bin/tool.sh  added: a program that is started  (apply asks once more)" {
		t.Errorf("the first line is %q", lines[0])
	}
	if len(s.Notices) == 0 || !strings.Contains(s.Notices[0].Message, tipstaff.BlockObeyed+" (bin/tool.sh)") {
		t.Errorf("it does not say why it opens again: %+v", s.Notices)
	}
	accept("delivery#2")
	if p.outcome.Status != tipstaff.DeliveredApplied {
		t.Errorf("%+v", p.outcome)
	}
}

// What was recorded of a decision before acceptances were of named files goes on as it was meant.
func TestEarlierAcceptances(t *testing.T) {
	var d run
	d.diff.Obeyed = []tipstaff.ObeyedFile{{Path: "CLAUDE.md", Apply: tipstaff.ApplyAsks}, {Path: "x"}}
	if got := string(flow.JSON(d.applied(committed{Commit: "c"}, true))); !strings.HasSuffix(got, `"commit":"c","asks":true,"accepted":true}`) {
		t.Error(got)
	}
	if got := string(flow.JSON(d.applied(committed{Commit: "c", Names: true}, true))); !strings.HasSuffix(got, `"commit":"c","asks":true,"named":["CLAUDE.md"]}`) {
		t.Error(got)
	}
	if got := string(flow.JSON(d.applied(committed{Commit: "c", Names: true}, false))); !strings.HasSuffix(got, `"commit":"c","asks":true}`) {
		t.Error(got)
	}
}

func TestFoldersSayWhereFilesAre(t *testing.T) {
	var files []tipstaff.FileChange
	for i := range 300 {
		files = append(files, tipstaff.FileChange{Path: fmt.Sprintf("src/pkg/%c/%d.go", 'a'+i%3, i), Added: 2, Removed: 1})
	}
	files = append(files, tipstaff.FileChange{Path: "top.txt", Added: 1})
	var got []string
	for _, f := range folders(files) {
		got = append(got, fmt.Sprintf("%s %d +%d -%d", f.Path, f.Files, f.Added, f.Removed))
	}
	if want := "src/pkg/a 100 +200 -100, src/pkg/b 100 +200 -100, src/pkg/c 100 +200 -100,  1 +1 -0"; strings.Join(got, ", ") != want {
		t.Errorf("%q", strings.Join(got, ", "))
	}
	files = nil
	for i := range 1000 {
		files = append(files, tipstaff.FileChange{Path: fmt.Sprintf("%d/x", i)})
	}
	all, sum := folders(files), 0
	for _, f := range all {
		sum += f.Files
	}
	if len(all) != maxFolders || sum != 1000 || all[maxFolders-1].Path != "…" {
		t.Errorf("%d folders with %d files, the last %+v", len(all), sum, all[len(all)-1])
	}
	if got := folders(nil); len(got) > 0 {
		t.Errorf("of no files: %v", got)
	}
}

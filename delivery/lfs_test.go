package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// contents has git LFS keep the content of files of a play's repository, and commits pointers.
func contents(p *play, files map[string]string) {
	p.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	for name, text := range files {
		pointer := pointerOf(text)
		p.write(name, string(pointer.text()))
		writeFile(p.t, pointer.in(p.dir+"/.git/lfs/objects"), text)
	}
	p.user("add", "-A")
	p.user("commit", "-q", "-m", "large files")
	base, err := p.open().Resolve(p.t.Context(), "HEAD")
	must(p.bed, err)
	p.spec.Base = base
}

func pointerOf(text string) lfsPointer {
	sum := sha256.Sum256([]byte(text))
	return lfsPointer{hex.EncodeToString(sum[:]), int64(len(text))}
}

// A worktree has the contents that git LFS keeps; what is recorded, checked and delivered of it
// are pointers, and their new contents come with them.
func TestContentsOfLFS(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{LFS: true}, shellCheck("contents", `test "$(cat same.bin)" = same && test "$(cat changed.bin)" = mine && test "$(cat new/a.bin)" = new && test ! -e gone.bin`))
	contents(p, map[string]string{"same.bin": "same", "changed.bin": "theirs", "gone.bin": "gone"})
	p.work = func(dir string) {
		if got := readFile(t, dir+"/same.bin") + readFile(t, dir+"/changed.bin"); got != "sametheirs" {
			t.Errorf("the worktree has %q", got)
		}
		must(p.bed, os.WriteFile(dir+"/changed.bin", []byte("mine"), 0o600))
		must(p.bed, os.Remove(dir+"/gone.bin"))
		writeFile(t, dir+"/new/a.bin", "new")
		writeFile(t, dir+"/new/empty.bin", "")
		must(p.bed, os.Chmod(dir+"/new/a.bin", 0o755))
	}
	p.drive()
	s := p.subject("delivery#1")
	if blocked(s) != "" || outcomes(s) != "contents passed" || strings.Join(firsts(s), ", ") != "executable new/a.bin" {
		t.Errorf("%s %s %v %+v", blocked(s), outcomes(s), firsts(s), s.Checks)
	}
	var changed []string
	for _, f := range s.Paths {
		changed = append(changed, f.Status+" "+f.Path)
	}
	if got := strings.Join(changed, ", "); got != "modified changed.bin, deleted gone.bin, added new/a.bin, added new/empty.bin" {
		t.Error(got)
	}
	p.decide("delivery#1", "approve")
	p.drive()
	branch := strings.TrimPrefix(s.Branch, "refs/heads/")
	for name, text := range map[string]string{"same.bin": "same", "changed.bin": "mine", "new/a.bin": "new"} {
		want := pointerOf(text)
		if got := p.user("show", branch+":"+name); got != strings.TrimSpace(string(want.text())) {
			t.Errorf("%s of the branch is %q", name, got)
		}
		if got, err := os.ReadFile(want.in(p.dir + "/.git/lfs/objects")); string(got) != text {
			t.Errorf("the content of %s is %q: %v", name, got, err)
		}
	}
	if _, err := exec.LookPath("git-lfs"); err == nil {
		if out := p.user("lfs", "fsck", branch); !strings.Contains(out, "Git LFS fsck OK") {
			t.Error(out)
		}
	}
}

// `apply` writes contents, whatever the checkout has of a file that goes: the content, or a
// pointer that nobody has replaced. New ones are in the user's repository when the worktree has
// gone with what lay beside it.
func TestContentsOfLFSAreApplied(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{LFS: true})
	large := strings.Repeat("large ", 1000)
	was := map[string]string{"changed.bin": "theirs", "large.bin": large, "gone.bin": "gone", "pointer.bin": "pointer", "moved.bin": "moved", "started.bin": "started"}
	contents(p, was)
	for name, text := range was {
		if name != "pointer.bin" {
			p.write(name, text)
		}
	}
	p.work = func(dir string) {
		must(p.bed, os.WriteFile(dir+"/changed.bin", []byte("mine"), 0o600))
		must(p.bed, os.WriteFile(dir+"/large.bin", []byte(large+large), 0o600))
		must(p.bed, os.WriteFile(dir+"/pointer.bin", []byte("content"), 0o600))
		must(p.bed, os.Remove(dir+"/gone.bin"))
		must(p.bed, os.Rename(dir+"/moved.bin", dir+"/elsewhere.bin"))
		must(p.bed, os.Chmod(dir+"/started.bin", 0o755))
		writeFile(t, dir+"/new/a.bin", "new")
		writeFile(t, dir+"/README", "first\nsecond\nlast\n")
	}
	p.drive()
	s := p.subject("delivery#1")
	if blocked(s) != "" || s.Files != 8 {
		t.Fatalf("%s %+v", blocked(s), s.Paths)
	}
	p.decide("delivery#1", "apply")
	p.drive()
	if p.outcome.Status != tipstaff.DeliveredApplied {
		t.Fatalf("%+v", p.outcome)
	}
	must(p.bed, p.open().RemoveWorktree(t.Context(), Worktree{Path: s.Worktree, Branch: s.WorktreeBranch, Base: s.Base}))
	for name, text := range map[string]string{"changed.bin": "mine", "large.bin": large + large, "pointer.bin": "content", "elsewhere.bin": "moved", "started.bin": "started", "new/a.bin": "new"} {
		if got := readFile(t, p.dir+"/"+name); got != text {
			t.Errorf("%s is %.200q", name, got)
		}
		if got, err := os.ReadFile(pointerOf(text).in(p.dir + "/.git/lfs/objects")); string(got) != text {
			t.Errorf("the content of %s is %.200q: %v", name, got, err)
		}
	}
	if exists(p.dir+"/gone.bin") || exists(p.dir+"/moved.bin") {
		t.Error("what was removed is there")
	}
	if info, err := os.Stat(p.dir + "/started.bin"); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("it cannot be started: %v", err)
	}
	if got := readFile(t, p.dir+"/README"); got != "first\nsecond\nlast\n" {
		t.Errorf("README is %q", got)
	}
}

// What the user has changed is not lost, and what is applied already is found.
func TestContentsOfLFSThatTheUserHas(t *testing.T) {
	for text, want := range map[string]Fit{"theirs": Fits, "of the user": Dirty, "mine": Present, string(pointerOf("theirs").text()): Fits, string(pointerOf("else").text()): Dirty} {
		p := newCleanPlay(t, document.Preparation{LFS: true})
		contents(p, map[string]string{"a.bin": "theirs"})
		p.work = func(dir string) { must(p.bed, os.WriteFile(dir+"/a.bin", []byte("mine"), 0o600)) }
		p.drive()
		s := p.subject("delivery#1")
		p.write("a.bin", text)
		r := p.open().With(Worktree{Path: s.Worktree})
		if fit, names, err := r.Fit(t.Context(), s.Base, s.Commit); fit != want || err != nil {
			t.Errorf("over %q it is %s %v: %v", text, fit, names, err)
		}
	}
}

// A content that nobody has blocks `apply`, and says what to do; when somebody has brought it, no
// more. One that goes between the decision and the resume opens the gate again.
func TestApplyWithoutAContentOfLFS(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{LFS: true})
	contents(p, map[string]string{"a.bin": "text"})
	p.work = func(dir string) { writeFile(t, dir+"/b.bin", string(pointerOf("of somebody").text())) }
	p.drive()
	s := p.subject("delivery#1")
	if blocked(s) != "apply:"+tipstaff.BlockContents || !strings.Contains(s.Blocked[0].Reason, "b.bin: `git lfs fetch`") {
		t.Errorf("%+v", s.Blocked)
	}
	content := pointerOf("of somebody").in(p.dir + "/.git/lfs/objects")
	writeFile(t, content, "of somebody")
	now, err := p.open().Look(t.Context(), s)
	if must(p.bed, err); len(now.Blocked) > 0 {
		t.Errorf("%+v", now.Blocked)
	}
	p.decide("delivery#1", "apply")
	must(p.bed, os.Remove(content))
	before := everything(p.bed, p.dir)
	p.drive()
	again := p.subject("delivery#2")
	if blocked(again) != "apply:"+tipstaff.BlockContents || !strings.Contains(again.Notices[0].Message, tipstaff.BlockContents) {
		t.Errorf("%s %+v", blocked(again), again.Notices)
	}
	if names := changedNames(before, everything(p.bed, p.dir)); len(names) > 0 {
		t.Errorf("%v were changed", names)
	}
	writeFile(t, content, "of somebody")
	p.decide("delivery#2", "apply")
	if p.drive(); p.outcome.Status != tipstaff.DeliveredApplied || readFile(t, p.dir+"/b.bin") != "of somebody" {
		t.Errorf("%+v", p.outcome)
	}
}

// Without what git LFS keeps nobody begins to work.
func TestContentsThatTheCheckoutDoesNotHave(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"the checkout does not have what git LFS keeps of it: `git lfs fetch` there brings it": os.Remove,
		"does not hold what its name says": func(file string) error { return os.WriteFile(file, []byte("wrong"), 0o600) },
	} {
		p := newCleanPlay(t, document.Preparation{LFS: true})
		contents(p, map[string]string{"a.bin": "right"})
		must(p.bed, spoil(pointerOf("right").in(p.dir+"/.git/lfs/objects")))
		p.work = func(string) { t.Error("somebody has worked") }
		var failed *flow.Error
		if out := p.drive(); !errors.As(out.Err, &failed) || failed.Code != CodeSetup || !strings.Contains(failed.Message, "a.bin: ") || !strings.Contains(failed.Message, name) {
			t.Errorf("%+v", out)
		}
	}
}

// Contents may lie where the user has said, and a file that holds a pointer is one.
func TestWhereContentsLie(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{LFS: true})
	elsewhere := filepath.Join(filepath.Dir(p.dir), "elsewhere")
	p.user("config", "lfs.storage", elsewhere)
	p.spec.Place = p.open().Place
	contents(p, map[string]string{"a.bin": "text"})
	must(p.bed, os.Rename(p.dir+"/.git/lfs", elsewhere))
	p.work = func(dir string) {
		if got := readFile(t, dir+"/a.bin"); got != "text" {
			t.Errorf("the worktree has %q", got)
		}
		writeFile(t, dir+"/b.bin", string(pointerOf("of somebody").text()))
	}
	p.drive()
	if s := p.subject("delivery#1"); s.Files != 1 || len(s.Obeyed) != 0 {
		t.Errorf("%+v", s)
	}
}

// A credential in a content of git LFS is found, though the difference shows its pointer alone.
func TestACredentialInAContent(t *testing.T) {
	p := newCleanPlay(t, document.Preparation{LFS: true})
	contents(p, map[string]string{"a.bin": "right"})
	p.known = redact.New(map[string]string{"WORD": "hush-hush-hush"})
	p.work = func(dir string) { writeFile(t, dir+"/b.bin", strings.Repeat("x", 3000)+"hush-hush-hush") }
	p.drive()
	s := p.subject("delivery#1")
	if strings.Join(s.Secret, " ") != "b.bin" {
		t.Errorf("%v, %s", s.Secret, blocked(s))
	}
	if err := p.open().Publish(t.Context(), s.Branch, s.Commit); err == nil { // whoever decided it found a way around the gate
		t.Error("what was withheld is published")
	}
}

func FuzzPointer(f *testing.F) {
	f.Add(string(pointerOf("x").text()))
	f.Add(lfsVersion + "oid sha256:../../x\nsize 1\n")
	f.Add(lfsVersion + "ext-0-a sha256:00\noid sha256:00\nsize -1\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parsePointer([]byte(text))
		if !ok {
			return
		}
		if again, ok := parsePointer(p.text()); !ok || again != p {
			t.Errorf("%q is %+v, and that is %+v", text, p, again)
		}
		if rel, err := filepath.Rel("/dir", p.in("/dir")); err != nil || !filepath.IsLocal(rel) || strings.Count(rel, "/") != 2 {
			t.Errorf("%q leads to %s", text, p.in("/dir"))
		}
	})
}

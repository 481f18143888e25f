package delivery

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// mountSmall mounts a small file system at dir, or skips the test. full leaves so many bytes of it.
func mountSmall(b *bed, dir string) (full func(leave int64)) {
	b.t.Helper()
	must(b, os.MkdirAll(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		b.t.Skipf("needs a small file system to fill, and may not mount one: %v", err)
	}
	b.t.Cleanup(func() { must(b, unix.Unmount(dir, unix.MNT_DETACH)) })
	return func(leave int64) {
		b.t.Helper()
		name := filepath.Join(dir, "ballast")
		if git := filepath.Join(dir, ".git"); exists(git) {
			name = filepath.Join(git, "ballast")
		}
		must(b, os.RemoveAll(name))
		var stat unix.Statfs_t
		must(b, unix.Statfs(dir, &stat))
		must(b, os.WriteFile(name, make([]byte, int64(stat.Bavail)*stat.Bsize-leave), 0o600))
	}
}

const someRoom = 100 << 10

// megabyte is larger than what is left, also where git has compressed it.
func megabyte() string {
	var text strings.Builder
	for n := uint64(1); text.Len() < 1<<20; n++ {
		fmt.Fprintf(&text, "%016x\n", n*0x9e3779b97f4a7c15)
	}
	return text.String()
}

// The user's disk is full when something is to be handed over: nothing of the checkout has
// changed, the gate opens again and says where there is no room, and with room it is done.
func TestNoRoomForADelivery(t *testing.T) {
	for action, done := range map[string]string{"apply": tipstaff.DeliveredApplied, "approve": tipstaff.DeliveredCommitted} {
		for _, left := range []int64{0, someRoom} {
			t.Run(fmt.Sprint(action, " with ", left), func(t *testing.T) {
				b := newBed(t)
				disk := filepath.Join(filepath.Dir(b.dir), "disk")
				full := mountSmall(b, disk)
				b.user("clone", "-q", b.dir, disk)
				b.dir = disk
				p := playIn(b, &document.Deliver{})
				p.work = func(dir string) { edit(b, dir); writeFile(t, dir+"/z-large", megabyte()) }
				p.drive()
				full(left)
				before := everything(b, b.dir)
				p.decide("delivery#1", action)
				out := p.drive()
				changed := slices.DeleteFunc(changedNames(before, everything(b, b.dir)), func(name string) bool { return strings.HasPrefix(name, ".git/objects/") })
				if out.Status != flow.ParkedRun || p.outcome.Status != "" || len(changed) > 0 {
					t.Fatalf("%+v, %v: it has changed %v", out, p.outcome, changed)
				}
				s := p.subject("delivery#2")
				if said := s.Notices[0]; said.Code != CodeHindered || !strings.Contains(said.Message, "disk_full: ") || !strings.Contains(said.Message, "the disk is full at "+disk) {
					t.Errorf("the gate says %+v", s.Notices)
				}
				if left := changedNames(before, everything(b, b.dir)); slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "/tmp_") }) {
					t.Errorf("%v lies there", left)
				}
				must(b, os.Remove(filepath.Join(disk, ".git", "ballast")))
				p.decide("delivery#2", action)
				if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != done {
					t.Errorf("with room: %+v %+v", out, p.outcome)
				}
			})
		}
	}
}

// What cannot be put in its place for any other reason, in the middle of many files, leaves the
// checkout as it was, too, and so does a disk that is full only then.
func TestAnApplyThatFailsInTheMiddle(t *testing.T) {
	for name, fails := range map[string]error{tipstaff.BlockDisk: unix.ENOSPC, tipstaff.BlockUnwritable: unix.EACCES} {
		for at := 1; at < 6; at++ {
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				p := newPlay(t, &document.Deliver{})
				p.write("only/here.txt", "x\n")
				p.user("add", "-A")
				p.user("commit", "-qm", "more")
				p.spec.Base = p.user("rev-parse", "HEAD")
				p.work = func(dir string) {
					edit(p.bed, dir)
					remove(p.bed, dir+"/only/here.txt")
					writeFile(t, dir+"/a/b/c", "new\n")
				}
				p.drive()
				before, n := everything(p.bed, p.dir), 0
				renameFile = func(from, to string) error {
					if n++; n == at {
						return &os.LinkError{Op: "rename", Old: from, New: to, Err: fails}
					}
					return os.Rename(from, to)
				}
				t.Cleanup(func() { renameFile = os.Rename })
				p.decide("delivery#1", "apply")
				p.drive()
				if names := changedNames(before, everything(p.bed, p.dir)); n < at || p.outcome.Status != "" || len(names) > 0 {
					t.Errorf("%d: %+v has changed %v", n, p.outcome, names)
				}
				if said := p.subject("delivery#2").Notices[0]; said.Code != CodeHindered || !strings.Contains(said.Message, name+": ") {
					t.Errorf("the gate says %+v", said)
				}
				p.decide("delivery#2", "apply")
				if p.drive(); p.outcome.Status != tipstaff.DeliveredApplied || exists(p.dir+"/only") || !exists(p.dir+"/a/b/c") {
					t.Errorf("%+v", p.outcome)
				}
			})
		}
	}
}

// Of what could not be taken back a person is asked, and is told where the files lie that were
// there before. They go with the worktree, whatever becomes of the run.
func TestAnApplyThatCannotBeTakenBack(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	n := 0
	renameFile = func(from, to string) error {
		if n++; n > 2 {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.ENOSPC}
		}
		return os.Rename(from, to)
	}
	t.Cleanup(func() { renameFile = os.Rename })
	p.decide("delivery#1", "apply")
	p.drive()
	if g := p.gate("deliver/apply#1/in_doubt"); !strings.Contains(string(g.Subject), "could not be taken back") {
		t.Errorf("it is asked about %s", g.Subject)
	}
	kept, _ := filepath.Glob(p.dir + "/.git/tipstaff-apply-*/old/README")
	if len(kept) != 1 || readFile(t, kept[0]) != "first\nsecond\nthird\n" {
		t.Errorf("%v", kept)
	}
	other := p.dir + "/.git/tipstaff-apply-01KB0000000000000000000000-0123456789ab/old/README" // of another run
	writeFile(t, other, "mine")
	inCheckout := p.dir + "/.tipstaff-apply-" + runID + "-0123456789ab" // of a checkout on another disk than its repository
	writeFile(t, inCheckout+"/new/README", "x")
	s := p.subject("delivery#1")
	must(p.bed, p.open().RemoveWorktree(t.Context(), Worktree{Path: s.Worktree, Branch: s.WorktreeBranch, Base: s.Base}))
	if exists(kept[0]) || exists(filepath.Dir(filepath.Dir(kept[0]))) || exists(inCheckout) || !exists(other) {
		t.Errorf("left are %v %v, and of the other run %v", exists(kept[0]), exists(inCheckout), exists(other))
	}
}

// The disk is full where worktrees lie. What cannot be written is said, none of the checkout's
// files have changed, and a person who has made room has it tried again.
func TestNoRoomForAWorktree(t *testing.T) {
	for name, c := range map[string]struct {
		prepare document.Preparation
		room    int64
		full    func(p *play, full func(int64))
		says    string
		asks    string
	}{
		"for its files": {room: someRoom, full: func(p *play, full func(int64)) { full(someRoom) }, says: "large.txt", asks: "deliver/worktree/failure"},
		"for a copy": {document.Preparation{Copy: []string{"*.ignored"}}, 0, func(p *play, full func(int64)) {
			p.write("a.ignored", megabyte())
			full(1<<20 + 500<<10)
		}, "a.ignored cannot be copied: write ", "deliver/worktree/failure"},
		"for a clean checkout": {full: func(p *play, full func(int64)) {
			p.work = func(dir string) { edit(p.bed, dir); full(800 << 10) }
		}, says: "cannot be written", asks: "deliver/check#1/failure"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCleanPlay(t, c.prepare, shellCheck("test", "true"))
			p.write("large.txt", megabyte())
			p.user("add", "large.txt")
			p.user("commit", "-qm", "large")
			p.spec.Base = p.user("rev-parse", "HEAD")
			state := filepath.Join(filepath.Dir(p.dir), "state")
			full := mountSmall(p.bed, state)
			c.full(p, full)
			before := everything(p.bed, p.dir)
			out := p.drive()
			said := ""
			if out.Status == flow.ParkedRun {
				said = p.gate(c.asks).Question
			}
			if p.outcome.Status != "" || !strings.Contains(said, "The disk is full") || !strings.Contains(said, c.says) || !strings.Contains(said, state) {
				t.Errorf("%+v: it says %s", out, said)
			}
			changed := slices.DeleteFunc(changedNames(before, everything(p.bed, p.dir)), func(name string) bool { return strings.HasPrefix(name, ".git/refs/tipstaff") })
			if len(changed) > 0 {
				t.Errorf("the checkout: %v", changed)
			}
			for _, left := range []string{copying, "a.ignored"} {
				if exists(filepath.Join(state, runID, left)) {
					t.Errorf("%s lies there", left)
				}
			}

			p.decide(c.asks, "retry") // too early
			if out := p.drive(); out.Status != flow.ParkedRun || p.gate(c.asks+"#2").Question != said {
				t.Errorf("%+v: it asks %s", out, p.gate(c.asks+"#2").Question)
			}
			must(p.bed, os.Remove(filepath.Join(state, "ballast")))
			p.work = func(dir string) { writeFile(t, dir+"/README", "again\n") }
			p.decide(c.asks+"#2", "retry")
			if p.drive(); outcomes(p.subject("delivery#1")) != "test passed" || blocked(p.subject("delivery#1")) != "" {
				t.Errorf("with room again: %+v", p.subject("delivery#1"))
			}
		})
	}
}

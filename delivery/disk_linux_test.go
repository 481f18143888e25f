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

const (
	noRoom   = "No space left on device" // as git says it
	someRoom = 100 << 10
)

// megabyte is larger than what is left, also where git has compressed it.
func megabyte() string {
	var text strings.Builder
	for n := uint64(1); text.Len() < 1<<20; n++ {
		fmt.Fprintf(&text, "%016x\n", n*0x9e3779b97f4a7c15)
	}
	return text.String()
}

// The user's disk is full when something is to be handed over. What was not is said with the
// reason; of what may have been written in part a person is asked.
func TestNoRoomForADelivery(t *testing.T) {
	for action, want := range map[string]func(p *play, out flow.Outcome, changed []string){
		"apply": func(p *play, out flow.Outcome, changed []string) {
			changed = slices.DeleteFunc(changed, func(name string) bool {
				return slices.Contains([]string{"README", "src", "src/b.txt", "src/new.txt", "z-large"}, name)
			})
			if out.Status != flow.ParkedRun || p.outcome.Status != "" || len(changed) > 0 {
				t.Errorf("%+v, %v: it has changed %v", out, p.outcome, changed)
			}
			g := p.gate("deliver/apply#1/in_doubt")
			if g.Kind != tipstaff.InDoubt || !strings.Contains(string(g.Subject), noRoom) {
				t.Errorf("%s is asked about %s", g.Kind, g.Subject)
			}
		},
		"approve": func(p *play, out flow.Outcome, changed []string) {
			changed = slices.DeleteFunc(changed, func(name string) bool { return strings.HasPrefix(name, ".git/objects/") })
			if p.outcome.Status != "" || len(changed) > 0 {
				t.Errorf("%+v, %v: it has changed %v", out, p.outcome, changed)
			}
			if said := p.subject("delivery#2").Notices[0].Message; !strings.Contains(said, noRoom) || !strings.Contains(said, p.dir) {
				t.Errorf("it says %s", said)
			}
			if !exists(p.subject("delivery#1").Worktree) {
				t.Error("the worktree is gone")
			}
		},
	} {
		t.Run(action, func(t *testing.T) {
			b := newBed(t)
			disk := filepath.Join(filepath.Dir(b.dir), "disk")
			full := mountSmall(b, disk)
			b.user("clone", "-q", b.dir, disk)
			b.dir = disk
			p := playIn(b, &document.Deliver{})
			p.work = func(dir string) { edit(b, dir); writeFile(t, dir+"/z-large", megabyte()) }
			p.drive()
			if full(0); action == "apply" {
				full(someRoom)
			}
			before := everything(b, b.dir)
			p.decide("delivery#1", action)
			out := p.drive()
			want(p, out, changedNames(before, everything(b, b.dir)))
		})
	}
}

// The disk is full where worktrees lie. What cannot be written is said, none
// of the checkout's files have changed, and with room again all is made anew.
func TestNoRoomForAWorktree(t *testing.T) {
	for name, c := range map[string]struct {
		prepare document.Preparation
		room    int64
		full    func(p *play, full func(int64))
		says    string
	}{
		"for its files": {room: someRoom, full: func(p *play, full func(int64)) { full(someRoom) }, says: "large.txt"},
		"for a copy": {document.Preparation{Copy: []string{"*.ignored"}}, 0, func(p *play, full func(int64)) {
			p.write("a.ignored", megabyte())
			full(1<<20 + 500<<10)
		}, "a.ignored cannot be copied: write "},
		"for a clean checkout": {full: func(p *play, full func(int64)) {
			p.work = func(dir string) { edit(p.bed, dir); full(800 << 10) }
		}, says: noRoom},
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
			if out.Err != nil {
				said = out.Err.Error()
			} else {
				s := p.subject("delivery#1")
				said = fmt.Sprint(s.Checks, s.Notices)
			}
			if p.outcome.Status != "" || !strings.Contains(said, c.says) || c.says != noRoom && !strings.Contains(said, state) {
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

			must(p.bed, os.Remove(filepath.Join(state, "ballast")))
			again := playIn(p.bed, p.spec.Deliver)
			again.spec.Prepare, again.programs = c.prepare, p.programs
			again.work = func(dir string) { writeFile(t, dir+"/README", "again\n") }
			if again.drive(); outcomes(again.subject("delivery#1")) != "test passed" || blocked(again.subject("delivery#1")) != "" {
				t.Errorf("with room again: %+v", again.subject("delivery#1"))
			}
		})
	}
}

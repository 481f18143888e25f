package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// everything is all that lies in a folder: names, kinds, modes, and what files hold or where
// links lead.
func everything(b *bed, dir string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	must(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String()
		switch {
		case d.Type().IsRegular():
			all[name] += fmt.Sprintf(" %x", sha256.Sum256([]byte(readFile(b.t, path))))
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			must(b, err)
			all[name] += " " + target
		}
		return nil
	}))
	return all
}

// changedNames are the names in which two of these differ.
func changedNames(before, after map[string]string) (names []string) {
	for name, was := range before {
		if after[name] != was {
			names = append(names, name)
		}
	}
	for name := range after {
		if before[name] == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// What each action does in each state of the worktree and of the checkout, after the gate was
// shown. One that is refused has left every byte as it was, and the gate opens again.
func TestActionsInEachState(t *testing.T) {
	const dirty = "apply:" + tipstaff.BlockDirty
	stopped := func(file string, by ...string) func(p *play) { // at a conflict in a file
		return func(p *play) {
			p.user("checkout", "-q", "-b", "side")
			p.write(file, "side\n")
			p.user("commit", "-qam", "side")
			p.user("checkout", "-q", "main")
			p.write(file, "main\n")
			p.user("commit", "-qam", "main")
			if _, err := runGit(context.Background(), p.dir, []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH")}, nil, append(by, "side")...); err == nil {
				t.Errorf("%v went through", by)
			}
		}
	}
	trees := map[string]struct {
		change func(p *play, dir string)
		gone   bool // nothing can be corrected there
		lost   bool // nor handed over, until it is recorded again
	}{
		"there":  {func(*play, string) {}, false, false},
		"edited": {func(p *play, dir string) { p.puts(dir, "README", "edited since\n"); p.puts(dir, "later", "") }, false, false},
		"gone":   {func(p *play, dir string) { must(p.bed, os.RemoveAll(dir)) }, true, false},
		"gone with what was recorded": {func(p *play, dir string) {
			for _, end := range []string{"", ".git", ".objects", ".index"} {
				must(p.bed, os.RemoveAll(dir+end))
			}
		}, true, true},
	}
	checkouts := map[string]struct {
		before  func(p *play) // before the run
		change  func(p *play)
		blocked string // approve and apply, as the gate says
	}{
		"clean":                     {nil, func(*play) {}, ""},
		"dirty elsewhere":           {nil, func(p *play) { p.write("src/a.txt", "mine\n") }, ""},
		"dirty":                     {nil, func(p *play) { p.write("README", "mine\n") }, dirty},
		"a new file there":          {nil, func(p *play) { p.write("src/new.txt", "mine\n") }, dirty},
		"a merge elsewhere":         {nil, stopped("src/a.txt", "merge", "-q"), ""},
		"a merge":                   {nil, stopped("README", "merge", "-q"), dirty},
		"a rebase elsewhere":        {nil, stopped("src/a.txt", "rebase", "-q"), ""},
		"a rebase":                  {nil, stopped("README", "rebase", "-q"), dirty},
		"a branch without a commit": {nil, func(p *play) { p.user("checkout", "-q", "--orphan", "fresh") }, dirty},
		"a branch without a commit or files": {nil, func(p *play) {
			p.user("checkout", "-q", "--orphan", "fresh")
			p.user("rm", "-qrf", ".")
		}, "apply:" + tipstaff.BlockConflict},
		"detached": {nil, func(p *play) { p.user("checkout", "-q", "--detach") }, ""},
		"moved on": {nil, func(p *play) { p.write("README", "all\nelse\n"); p.user("commit", "-qam", "mine") }, "apply:" + tipstaff.BlockConflict},
		"a credential": {func(p *play) {
			p.known = redact.New(map[string]string{"API_KEY": apiKey})
			work := p.work
			p.work = func(dir string) { work(dir); p.puts(dir, "src/new.txt", apiKey) }
		}, func(*play) {}, "approve:" + tipstaff.BlockSecret + " apply:" + tipstaff.BlockSecret},
		"settings that start something": {nil, func(p *play) { p.user("config", "core.hooksPath", "/tmp/hooks") }, "approve:" + tipstaff.BlockRepository + " apply:" + tipstaff.BlockRepository},
	}
	for treeIs, tree := range trees {
		for checkoutIs, checkout := range checkouts {
			for _, action := range []string{tipstaff.DeliverApply, tipstaff.DeliverApprove, tipstaff.DeliverFix} {
				if testing.Short() && (treeIs != "there" && checkoutIs != "clean" && checkoutIs != "dirty" || action == tipstaff.DeliverFix && checkoutIs != "clean") {
					continue // none of these stands in the way of another
				}
				t.Run(action+", worktree "+treeIs+", checkout "+checkoutIs, func(t *testing.T) {
					t.Parallel()
					p := newPlay(t, &document.Deliver{})
					if checkout.before != nil {
						checkout.before(p)
					}
					p.drive()
					s := p.subject("delivery#1")
					tree.change(p, s.Worktree)
					checkout.change(p)
					expected := checkout.blocked
					if tree.lost && !strings.HasPrefix(expected, "approve:") { // what stands there comes first
						expected = "approve:" + tipstaff.BlockWorktree + " apply:" + tipstaff.BlockWorktree
					}
					if tree.gone {
						expected = strings.TrimPrefix(expected+" fix:"+tipstaff.BlockWorktree, " ")
					}
					r, err := At(context.Background(), p.git, p.spec.Place)
					must(p.bed, err)
					before := everything(p.bed, p.dir)
					now, err := r.Look(context.Background(), s)
					must(p.bed, err)
					if got := blocked(tipstaff.DeliverySubject{Blocked: now.Blocked}); got != expected {
						t.Errorf("blocked is %q, not %q", got, expected)
					}
					if names := changedNames(before, everything(p.bed, p.dir)); len(names) > 0 {
						t.Errorf("who looked has changed %v", names)
					}

					p.decide("delivery#1", action)
					p.drive()
					names := changedNames(before, everything(p.bed, p.dir))
					switch refused := strings.Contains(expected, action+":"); {
					case action == tipstaff.DeliverFix: // whether it can be decided is asked before
						if p.outcome.Status != tipstaff.DeliveredFollowedUp || len(names) > 0 {
							t.Errorf("%+v has changed %v", p.outcome, names)
						}
					case refused:
						g := p.subject("delivery#2")
						if p.outcome.Status != "" || blocked(g) != expected || len(g.Notices) == 0 || g.Notices[0].Code != CodeHindered || len(names) > 0 {
							t.Errorf("%+v has changed %v; the gate says %s, %+v", p.outcome, names, blocked(g), g.Notices)
						}
					case action == tipstaff.DeliverApply:
						if got := strings.TrimPrefix(strings.Join(names, " "), "src "); p.outcome.Status != tipstaff.DeliveredApplied || got != "README src/b.txt src/new.txt" {
							t.Errorf("%+v has changed %v", p.outcome, names)
						}
					default:
						names = slices.DeleteFunc(names, func(name string) bool {
							return strings.HasPrefix(name, ".git/refs/") || strings.HasPrefix(name, ".git/objects/")
						})
						if p.outcome.Status != tipstaff.DeliveredCommitted || len(names) > 0 || p.user("rev-parse", p.outcome.Branch) != s.Commit {
							t.Errorf("%+v has changed %v", p.outcome, names)
						}
						if exists(s.Worktree) != (treeIs == "edited") {
							t.Errorf("the worktree is there: %v", exists(s.Worktree))
						}
					}
				})
			}
		}
	}
}

// The checkout is somewhere else, or there is none: what is decided is not done, nothing is made
// where it was, and where it is now everything is as before. Back in its place it goes on.
func TestACheckoutThatIsElsewhere(t *testing.T) {
	for _, action := range []string{tipstaff.DeliverApply, tipstaff.DeliverApprove} {
		t.Run(action, func(t *testing.T) {
			p := newPlay(t, &document.Deliver{})
			p.drive()
			s := p.subject("delivery#1")
			before, moved := everything(p.bed, p.dir), p.dir+" of before"
			must(p.bed, os.Rename(p.dir, moved))
			if _, err := At(context.Background(), p.git, p.spec.Place); err == nil || !strings.Contains(err.Error(), p.dir) {
				t.Errorf("it is looked at: %v", err)
			}
			p.decide("delivery#1", action)
			out := p.drive()
			again := p.subject("delivery#2")
			if got := blocked(again); out.Status != flow.ParkedRun || got != "approve:"+tipstaff.BlockUnreadable+" apply:"+tipstaff.BlockUnreadable ||
				!strings.Contains(again.Blocked[0].Reason, p.dir) || !strings.Contains(again.Notices[0].Message, p.dir) {
				t.Errorf("%+v: %s, %+v", out, got, again.Notices)
			}
			if names := changedNames(before, everything(p.bed, moved)); len(names) > 0 || exists(p.dir) {
				t.Errorf("it has changed %v; something is where it was: %v", names, exists(p.dir))
			}
			if !exists(s.Worktree) {
				t.Error("the worktree is gone")
			}
			must(p.bed, os.Rename(moved, p.dir))
			p.decide("delivery#2", action)
			if action == tipstaff.DeliverApprove { // whose gate had no commit to show
				p.drive()
				p.decide("delivery#3", action)
			}
			if p.drive(); p.outcome.Status != map[string]string{tipstaff.DeliverApply: tipstaff.DeliveredApplied, tipstaff.DeliverApprove: tipstaff.DeliveredCommitted}[action] {
				t.Errorf("back in its place: %+v", p.outcome)
			}
		})
	}
}

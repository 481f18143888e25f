package delivery

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func (b *bed) fingerprint(r *Repo) *Fingerprint {
	b.t.Helper()
	f, err := r.Fingerprint(context.Background())
	must(b, err)
	return f
}

func TestChangesOfTheUsersRepositoryAreTold(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b *bed, worktree string)
		want   string // codes and what differs
	}{
		{"work in the worktree", func(b *bed, w string) {
			edit(b, w)
			b.userIn(w, "add", "-A")
			b.userIn(w, "commit", "-qm", "mine")
		}, ""},
		{"refs, a stash and settings of the worktree", func(b *bed, w string) {
			b.userIn(w, "tag", "v1")
			b.userIn(w, "branch", "main")
			b.userIn(w, "config", "alias.x", "!true")
			edit(b, w)
			b.userIn(w, "stash", "-q", "-u")
		}, ""},
		{"a look at the checkout", func(b *bed, _ string) {
			must(b, os.Chtimes(b.dir+"/README", someTime, someTime))
			b.user("status")
		}, ""},
		{"a moved branch", func(b *bed, w string) { b.user("update-ref", "refs/heads/side", "refs/heads/main~0") }, "refs_changed: refs/heads/side"},
		{"the branch that is checked out", func(b *bed, w string) {
			b.user("commit", "-q", "--allow-empty", "-m", "x")
		}, "checkout_changed: HEAD; refs_changed: refs/heads/main"},
		{"another branch", func(b *bed, _ string) { b.user("switch", "-qc", "other") }, "checkout_changed: HEAD; refs_changed: refs/heads/other"},
		{"a tag", func(b *bed, _ string) { b.user("tag", "v1") }, "refs_changed: refs/tags/v1"},
		{"a hook", func(b *bed, _ string) { b.write(".git/hooks/pre-commit", "#!/bin/sh\n") }, "repository_changed: hooks/pre-commit"},
		{"the configuration", func(b *bed, _ string) { b.user("config", "alias.x", "!true") }, "repository_changed: config"},
		{"attributes", func(b *bed, _ string) { b.write(".git/info/attributes", "* filter=x\n") }, "repository_changed: info/attributes"},
		{"an edited file", func(b *bed, _ string) { b.write("README", "x\n") }, "checkout_changed: README"},
		{"a file that was edited before", func(b *bed, _ string) { b.write("src/a.txt", "edited again\n") }, "checkout_changed: src/a.txt"},
		{"a new file", func(b *bed, _ string) { b.write("new/file", "x\n") }, "checkout_changed: new/file"},
		{"a staged file", func(b *bed, _ string) { b.user("add", "src/a.txt") }, "checkout_changed: src/a.txt"},
		{"a file that git shall overlook", func(b *bed, _ string) { b.user("update-index", "--assume-unchanged", "README") }, "checkout_changed: index"},
		{"a pipe for a hook", func(b *bed, _ string) { mkfifo(b, b.dir+"/.git/hooks/pre-push") }, "repository_changed: hooks/pre-push"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.write("src/a.txt", "edited\n")
			r := b.open()
			w := b.worktree(r)
			before := b.fingerprint(r)
			c.change(b, w.Path)
			var told []string
			for _, n := range Compare(before, b.fingerprint(r)) {
				var d Differences
				must(b, json.Unmarshal(n.Detail, &d))
				var names []string
				for _, item := range d.Items {
					names = append(names, item.Name)
					if !strings.Contains(n.Message, item.Name) {
						t.Errorf("%q does not name %s", n.Message, item.Name)
					}
				}
				told = append(told, n.Code+": "+strings.Join(names, " "))
			}
			if got := strings.Join(told, "; "); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

func TestRefsAreToldWithTheirValues(t *testing.T) {
	b := newBed(t)
	r := b.open()
	first := b.user("rev-parse", "HEAD")
	b.user("branch", "gone")
	before := b.fingerprint(r)
	b.user("commit", "-q", "--allow-empty", "-m", "x")
	b.user("branch", "-qD", "gone")
	second := b.user("rev-parse", "HEAD")
	notices := Compare(before, b.fingerprint(r))
	want := `{"items":[{"name":"refs/heads/gone","old":"` + first + `"},{"name":"refs/heads/main","old":"` + first + `","new":"` + second + `"}],"total":2}`
	if len(notices) != 2 || string(notices[1].Detail) != want {
		t.Errorf("%+v", notices)
	}
	if want := "refs/heads/gone (" + first[:12] + " → none), refs/heads/main (" + first[:12] + " → " + second[:12] + ")"; !strings.HasSuffix(notices[1].Message, want) {
		t.Error(notices[1].Message)
	}
}

// A hook may be of any size: of one that no hook is, the stamp is enough.
func TestALargeHookIsNotRead(t *testing.T) {
	b := newBed(t)
	hook := b.dir + "/.git/hooks/pre-commit"
	writeFile(t, hook, "")
	must(b, os.Truncate(hook, maxDigested+1))
	ended, end := context.WithCancel(context.Background())
	end()
	before, err := digestOf(ended, hook)
	must(b, err)
	must(b, os.Truncate(hook, maxDigested+2))
	if after, err := digestOf(ended, hook); err != nil || after == before {
		t.Errorf("%q, then %q: %v", before, after, err)
	}
}

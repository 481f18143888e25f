package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// evil is text that would act on a terminal, or turn what stands around it.
const evil = "\x1b]0;owned\a\x1b[2J\u009b2J\u202eevil\u2066\u200b"

// acts reports whether text would do so.
func acts(text string) bool {
	return strings.ContainsAny(text, "\a\u009b\u202e\u2066\u200b") || strings.Contains(text, "\x1b]0;")
}

// shell has a worker run a script in its directory. $top is the user's checkout.
func (f *fake) shell(script string) {
	c := exec.Command("sh", "-ec", script)
	c.Env = append(os.Environ(), "top="+filepath.Dir(f.dir), "HOME="+f.dir, "GIT_AUTHOR_NAME=w", "GIT_AUTHOR_EMAIL=w@example.com", "GIT_COMMITTER_NAME=w", "GIT_COMMITTER_EMAIL=w@example.com")
	out, err := c.CombinedOutput()
	if err != nil {
		f.note("%s: %v", out, err)
	}
	f.check(err)
}

// meddling is what a worker does in a shell, by the names of parts.
var meddling = map[string]string{
	"does all it can": `
		echo mine > own.txt; git add own.txt; git commit -qm "its own"
		mkdir sub; git -C sub init -q; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null
		ln -s /etc etc
		echo x > "$(printf 'a\nb')"
		echo x > "` + evil + `"
		git update-ref refs/heads/main HEAD
		git -C $top commit -q --allow-empty -m evil
		echo "# edited" >> $top/plan.yaml
		for repository in "$(git rev-parse --git-common-dir)" $top/.git; do
			mkdir -p "$repository/hooks"
			for hook in reference-transaction post-checkout post-index-change pre-commit post-commit; do
				printf '#!/bin/sh\necho %s >> "%s/planted"\n' $hook "$top" > "$repository/hooks/$hook"
				chmod 755 "$repository/hooks/$hook"
			done
			cp "$repository/hooks/pre-commit" "$repository/monitor"
			git config --file "$repository/config" core.fsmonitor "$repository/monitor"
			git config --file "$repository/config" filter.evil.clean "$repository/monitor"
			git config --file "$repository/config" hook.evil.command "$repository/monitor"
			git config --file "$repository/config" hook.evil.event reference-transaction
		done
		echo '* filter=evil' > .gitattributes`,
	"takes the branch":       `echo x > out.txt; git -C $top symbolic-ref refs/heads/tipstaff/deliver/$TIPSTAFF_RUN_ID-meddle refs/heads/main`,
	"deletes its worktree":   `rm -rf "$PWD"`,
	"leads its worktree off": `here=$PWD; cd /; rm -rf "$here"; ln -s "$top" "$here"; echo x > "$here/out.txt"`,
	"ruins the repository":   `echo x > out.txt; echo '[' >> $top/.git/config`,
	"ruins its own":          `echo x > out.txt; echo '[' >> "$(git rev-parse --git-common-dir)/config"`,
}

func init() {
	for part, script := range meddling {
		parts[part] = func(f *fake) {
			f.begin()
			f.shell(script)
			f.report()
			f.end()
		}
	}
}

// shownCommit is the commit that the gate of a delivery shows.
func (w *workspace) shownCommit(run string) string {
	_, after, _ := strings.Cut(w.Must(0, "show", run, "--delivery").Out, "\ncommit: ")
	commit, _, _ := strings.Cut(after, "\n")
	return commit + "\n"
}

// newMeddler is a workspace whose worker meddles, and whose changes are delivered.
func newMeddler(t *testing.T, part string) *workspace {
	w := newFake(t, part)
	w.Write("plan.yaml", w.Read("plan.yaml")+"name: meddle\ndeliver: {}\n")
	w.git()
	return w
}

// A worker does what it can to the user's repository: all of it is told, at each surface and
// in words that do nothing; nothing that it has planted runs, and what is published is what
// was shown.
func TestMeddlerIsTold(t *testing.T) {
	t.Parallel()
	w := newMeddler(t, "does all it can")
	base := strings.TrimSpace(w.gitSays("rev-parse", "main"))
	r := w.Must(4, "run", "plan.yaml", "--unattended")
	run := w.runs()[0]
	if got := strings.Join(w.outcomes(run), " "); got != "reported" {
		t.Errorf("the outcomes are %q", got)
	}
	moved := w.gitSays("rev-parse", "main")
	if strings.HasPrefix(moved, base) {
		t.Fatal("main was not moved: the worker proves nothing")
	}
	for _, args := range [][]string{{"decide"}, {"show", run}, {"show", run, "--gate", "delivery#1"}, {"show", run, "--delivery"}, {"show", run, "--diff", "--stat"}} {
		r.Out += w.Must(0, args...).Out
	}
	if acts(r.Out + r.Err) {
		t.Errorf("it acts on the terminal: %q", r.Out+r.Err)
	}
	for _, text := range []string{r.Err, w.Must(0, "show", run, "--delivery").Out} {
		for _, want := range []string{"refs_changed: refs of the repository changed meanwhile: refs/heads/main (" + base[:12] + " → " + moved[:12] + ")", "checkout_changed", "repository_changed", "hooks/post-checkout", "run_repository_changed", "approve is blocked, repository_changed", `core.fsmonitor = "`, `hook.evil.command = "`,
			`\u001b]0;owned\u0007\u001b[2J\u009b2J\u202eevil\u2066\u200b`, `a\nb`, "etc", "own.txt", "sub"} {
			if !strings.Contains(text, want) {
				t.Errorf("it lacks %s:\n%s", want, text)
			}
		}
	}
	if text := w.Must(0, "show", run, "--json").Out; !strings.Contains(text, `"name":"plan.yaml"`) || !strings.Contains(text, `"name":"config"`) || strings.Contains(text, "\x1b") {
		t.Errorf("%s", text)
	}
	shown := w.shownCommit(run)
	w.Must(3, "decide", run, "delivery#1", "approve")
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean", "hook.evil.command", "hook.evil.event"} {
		w.gitSays("config", "--unset", key)
	}
	w.Must(0, "decide", run, "delivery#1", "approve")
	w.Must(0, "resume", run, "--unattended")
	branch := "refs/heads/tipstaff/deliver/" + run + "-meddle"
	if got := w.gitSays("rev-parse", branch); got != shown {
		t.Errorf("%s was published, and %s shown", got, shown)
	}
	tree := w.gitSays("ls-tree", "-r", "-z", branch)
	for _, want := range []string{"120000 blob ", "\tetc\x00", "160000 commit ", "\tsub\x00", "\ta\nb\x00", "\t" + evil + "\x00", "\town.txt\x00"} {
		if !strings.Contains(tree, want) {
			t.Errorf("the tree lacks %q: %q", want, tree)
		}
	}
	if w.gitSays("rev-parse", branch+"^") != base+"\n" || w.gitSays("rev-parse", "main") != moved || w.gitSays("symbolic-ref", "HEAD") != "refs/heads/main\n" {
		t.Error("a branch of the user's was moved, or the commit has another parent")
	}
	if kept := w.gitSays("for-each-ref", "refs/heads/tipstaff/run/", "refs/tipstaff/"); kept != "" {
		t.Errorf("of the run there is still %s", kept)
	}
	if ran := w.Read("planted"); ran != "" {
		t.Errorf("what the worker has planted was run: %s", ran)
	}
	w.Must(0, "verify", run)
	w.nothingRuns()
}

// What cannot be delivered for what its worker did is told as that, and no ref of the
// user's is moved.
func TestMeddlerIsStopped(t *testing.T) {
	t.Parallel()
	for part, c := range map[string]struct {
		code int
		says string
	}{
		"takes the branch":       {4, "approve is blocked, branch_exists"},
		"deletes its worktree":   {1, "worktree_missing"},
		"leads its worktree off": {1, "worktree_missing"},
		"ruins the repository":   {4, "approve is blocked, repository_changed"},
		"ruins its own":          {4, "notice run_repository_changed: "},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newMeddler(t, part)
			refs := w.gitSays("for-each-ref", "refs/heads/main")
			config := w.Read(".git/config")
			r := w.Must(c.code, "run", "plan.yaml", "--unattended")
			run := w.runs()[0]
			if got := strings.Join(w.outcomes(run), " "); got != "reported" || !strings.Contains(r.Err+r.Out, c.says) {
				t.Errorf("the outcomes are %q: %v", got, r)
			}
			whole := part == "ruins its own"
			if strings.Contains(r.Err, "delivery#1 approve") != whole || strings.Contains(r.Err, "delivery#1 apply") != (whole || part == "takes the branch") {
				t.Errorf("what is blocked is offered, or what is not is not: %v", r)
			}
			w.Write(".git/config", config)
			if got := w.gitSays("for-each-ref", "refs/heads/main"); got != refs {
				t.Errorf("it was %s, and is %s", refs, got)
			}
			w.Must(0, "verify", run, "--open")
			w.nothingRuns()
		})
	}
}

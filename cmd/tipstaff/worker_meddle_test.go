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
		echo "# edited" >> $top/plan.yaml
		common=$(cd "$(git rev-parse --git-common-dir)" && pwd)
		mkdir -p "$common/hooks"
		for hook in reference-transaction post-checkout post-index-change pre-commit post-commit; do
			printf '#!/bin/sh\necho %s >> "%s/planted"\n' $hook "$top" > "$common/hooks/$hook"
			chmod 755 "$common/hooks/$hook"
		done
		cp "$common/hooks/pre-commit" "$common/monitor"
		git config core.fsmonitor "$common/monitor"
		git config filter.evil.clean "$common/monitor"
		echo '* filter=evil' > .gitattributes`,
	"takes the branch":       `echo x > out.txt; git symbolic-ref refs/heads/tipstaff/deliver/$TIPSTAFF_RUN_ID-meddle refs/heads/main`,
	"deletes its worktree":   `rm -rf "$PWD"`,
	"leads its worktree off": `here=$PWD; cd /; rm -rf "$here"; ln -s "$top" "$here"; echo x > "$here/out.txt"`,
	"ruins the repository":   `echo x > out.txt; echo '[' >> "$(git rev-parse --git-common-dir)/config"`,
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
		for _, want := range []string{"refs_changed: refs of the repository changed meanwhile: refs/heads/main (" + base[:12] + " → " + moved[:12] + ")", "checkout_changed", "repository_changed", "hooks/post-checkout",
			`\u001b]0;owned\u0007\u001b[2J\u009b2J\u202eevil\u2066\u200b`, `a\nb`, "etc", "own.txt", "sub"} {
			if !strings.Contains(text, want) {
				t.Errorf("it lacks %s:\n%s", want, text)
			}
		}
	}
	if text := w.Must(0, "show", run, "--json").Out; !strings.Contains(text, `"name":"plan.yaml"`) || !strings.Contains(text, `"name":"config"`) || strings.Contains(text, "\x1b") {
		t.Errorf("%s", text)
	}
	shown := w.gitSays("rev-parse", "refs/tipstaff/"+run+"/1")
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
	if kept := w.gitSays("for-each-ref", "refs/heads/tipstaff/run/"); !strings.Contains(kept, strings.TrimSpace(moved)) {
		t.Errorf("the worker's own commit is lost: %s", kept)
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
		"ruins the repository":   {1, "git_failed"},
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
			if strings.Contains(r.Err, "delivery#1 approve") || c.code == 4 && !strings.Contains(r.Err, "delivery#1 apply") {
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

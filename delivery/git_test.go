package delivery

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestOpenSaysWhatIsMissing(t *testing.T) {
	b := newBed(t)
	empty := filepath.Join(filepath.Dir(b.dir), "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := Open(ctx, b.git, empty); tipstaff.CodeOf(err) != tipstaff.NotAGitRepository {
		t.Errorf("a plain directory: %v", err)
	}
	if _, err := Open(ctx, b.git, filepath.Join(empty, "none")); tipstaff.CodeOf(err) != tipstaff.NotAGitRepository {
		t.Errorf("no directory: %v", err)
	}
	b.userIn(empty, "init", "-q")
	r, err := Open(ctx, b.git, empty)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(ctx, "HEAD"); tipstaff.CodeOf(err) != tipstaff.NoCommits {
		t.Errorf("no commits: %v", err)
	}
	for _, rev := range []string{"nothing", "--all", "HEAD:README", ""} {
		if _, err := b.open().Resolve(ctx, rev); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("Resolve(%q): %v", rev, err)
		}
	}
}

func TestOpenFindsTheRepositoryAroundAProject(t *testing.T) {
	b := newBed(t)
	r, err := Open(context.Background(), b.git, filepath.Join(b.dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	want := Place{Checkout: b.dir, Prefix: "src", GitDir: filepath.Join(b.dir, ".git"), Common: filepath.Join(b.dir, ".git"), Format: "sha1"}
	if r.Own == nil || r.Own.Name != "Ada" || r.Own.Email != "ada@example.org" {
		t.Errorf("%+v", r.Own)
	}
	if r.Own = nil; r.Place != want {
		t.Errorf("%+v", r.Place)
	}
	// A worktree of the user's own.
	other := filepath.Join(filepath.Dir(b.dir), "other")
	b.user("worktree", "add", "-q", other)
	if r, err = Open(context.Background(), b.git, other); err != nil {
		t.Fatal(err)
	}
	if r.Checkout != other || r.Common != want.Common || r.GitDir != filepath.Join(want.Common, "worktrees", "other") {
		t.Errorf("%+v", r.Place)
	}
	at, err := At(context.Background(), b.git, r.Place)
	if err != nil || at.name != "Ada" {
		t.Errorf("%+v: %v", at, err)
	}
	b.user("worktree", "remove", other)
	if _, err := At(context.Background(), b.git, r.Place); tipstaff.CodeOf(err) != tipstaff.NotAGitRepository {
		t.Errorf("a place that is gone: %v", err)
	}
}

// No ref of the user's is ever moved, by whatever name it is asked for.
func TestRefsOfTheUserAreRefused(t *testing.T) {
	b := newBed(t)
	r := b.open()
	ctx := context.Background()
	commit := b.user("rev-parse", "HEAD")
	before := b.user("for-each-ref")
	for _, ref := range []string{"refs/heads/main", "HEAD", "refs/heads/tipstaff", "refs/heads/tipstaffs/x", "refs/tags/v1", "refs/remotes/origin/main",
		"refs/heads/tipstaff/../main", "refs/tipstaff/../heads/main", "refs/heads/tipstaff/x\nupdate refs/heads/main", "refs/stash", ""} {
		if err := r.setRef(ctx, ref, commit, absent); err == nil {
			t.Errorf("%q was set", ref)
		}
	}
	if err := r.Publish(ctx, RunBranches+"x", commit); err == nil {
		t.Error("something else than a delivery was published")
	}
	if after := b.user("for-each-ref"); after != before {
		t.Errorf("refs are now\n%s", after)
	}
}

// A symbolic ref that an agent plants under one of our names leads nowhere.
func TestPlantedSymbolicRefsAreNotFollowed(t *testing.T) {
	b := newBed(t)
	r := b.open()
	ctx := context.Background()
	first := b.user("rev-parse", "HEAD")
	b.write("README", "else\n")
	b.user("commit", "-qam", "second")
	second := b.user("rev-parse", "HEAD")
	branch := Branch(runID, "Some Title")
	b.user("symbolic-ref", branch, "refs/heads/main")
	if err := r.Publish(ctx, branch, first); !errors.Is(err, ErrBranchExists) {
		t.Errorf("published: %v", err)
	}
	b.user("symbolic-ref", "refs/tipstaff/"+runID+"/1", "refs/heads/main")
	err := r.Keep(ctx, runID, 1, first)
	if main := b.user("rev-parse", "main"); main != second {
		t.Fatalf("main was moved to %s: %v", main, err)
	}
	b.user("symbolic-ref", "refs/tipstaff/"+runID+"/2", "refs/heads/new")
	err = r.Keep(ctx, runID, 2, first)
	if refs := b.user("for-each-ref", "refs/heads/new"); refs != "" {
		t.Errorf("%s: %v", refs, err)
	}
}

func TestSlug(t *testing.T) {
	for title, want := range map[string]string{
		"": "change", "…": "change", "Fix the Bug!": "fix-the-bug", "  a  --  b ": "a-b", "Größe": "gr-e", "../../heads/main": "heads-main",
		strings.Repeat("ab ", 30): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-a", strings.Repeat("x", 39) + " y": strings.Repeat("x", 39),
	} {
		if got := Slug(title); got != want || len(got) > 40 {
			t.Errorf("Slug(%q) = %q, want %q", title, got, want)
		}
	}
	if got := Branch("01X", "A b"); got != "refs/heads/tipstaff/deliver/01X-a-b" {
		t.Error(got)
	}
}

// movers are the words of git that move refs.
var movers = []string{"update-ref", "symbolic-ref", "push", "fetch", "merge", "rebase", "reset", "switch", "tag"}

// moving are the places of a file where git is told to move refs.
func moving(file *ast.File) (words []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if word, _ := strconv.Unquote(lit.Value); slices.Contains(movers, word) {
					words = append(words, word)
				}
			}
		}
		return true
	})
	return words
}

// One function moves refs.
func TestRefsMoveInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range moving(file) {
			if found++; name != "refs.go" || word != "update-ref" {
				t.Errorf("%s says %q", name, word)
			}
		}
	}
	if found != 1 {
		t.Errorf("refs are moved in %d places", found)
	}
	other, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x; func f() { r.onRefs(ctx, nil, "update-ref", "--stdin") }`, parser.SkipObjectResolution)
	if err != nil || len(moving(other)) != 1 {
		t.Errorf("a second place would not be found: %v", err)
	}
}

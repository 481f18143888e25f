package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Place is where a repository lies.
type Place = tipstaff.RepositoryPlace

// Repo is a user's repository, and what a run has of its own beside it.
//
// No command reads the repository's configuration but the two that find it and its
// settings: every other runs with a GIT_DIR of ours that is made for it (see scratch). So
// none of the programs that it may name is started, whatever they are called in this or a
// later version of git.
type Repo struct {
	Place
	// Protection is what `apply` does not change just so; nil: it changes every file.
	Protection Protection

	git      *Git
	passive  []setting // how files are read and written
	upstream []setting // what revisions may refer to
	name     string    // of the user
	email    string

	worktree string       // the one that it is seen with; "": none
	objects  string       // where new objects are put; "": in the repository
	meddling []Difference // what was found changed in the worktree's own repository
}

// passiveKeys are settings that change how files are read and written, and start nothing.
var passiveKeys = []string{"core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode",
	"core.sharedrepository", "core.excludesfile", "lfs.storage"}

// remoteKeys are what a run's own repository knows of the user's remotes: builds ask for it.
var remoteKeys = []string{"fetch", "partialclonefilter", "promisor", "url"}

// Open finds the repository of a directory.
func Open(ctx context.Context, g *Git, dir string) (*Repo, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "%s cannot be opened: %v", dir, err)
	}
	top, err := g.passable(ctx, dir)
	if err != nil {
		return nil, unusable(dir, err)
	}
	out, err := g.start(ctx, call{dir: dir, env: g.trusting(), reads: []string{filepath.Join(top, ".git")},
		args: append(overrides[:len(overrides):len(overrides)], "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir", "--show-object-format", "--show-prefix")})
	if err != nil {
		var exit *ExitError
		if !errors.As(err, &exit) {
			return nil, unusable(dir, err)
		}
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "%s has no git repository to work in: %s", dir, strings.TrimSpace(exit.Stderr)).
			WithHint("changes are made in a git worktree: make the directory a repository with a first commit, or let the program work without files")
	}
	lines := append(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), "")
	if len(lines) < 5 || len(lines) > 6 || lines[3] != "sha1" && lines[3] != "sha256" {
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "the repository of %q cannot be used: its path has a line break, or its format is unknown", dir)
	}
	r := &Repo{git: g, Place: Place{Checkout: lines[0], GitDir: lines[1], Common: lines[2], Format: lines[3], Prefix: strings.TrimSuffix(lines[4], "/")}}
	if r.Checkout != top {
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "core.worktree of the repository at %s leads to %s: nothing is changed there", top, r.Checkout).
			WithHint("take core.worktree out of its configuration, if you have not set it").WithCommand("git config --unset core.worktree")
	}
	own, err := r.configured(ctx)
	if err == nil {
		err = r.configure(ctx)
	}
	if err != nil {
		return nil, unusable(dir, err)
	}
	r.Own = &tipstaff.OwnRepository{Guard: guardOf(guardNow, own), GuardRule: guardNow, Name: r.name, Email: r.email}
	for _, s := range r.passive {
		r.Own.Settings = append(r.Own.Settings, tipstaff.GitSetting{Key: s.key, Value: s.value})
	}
	for _, s := range own {
		if section, rest, _ := strings.Cut(s.key, "."); section == "remote" && slices.Contains(remoteKeys, rest[strings.LastIndexByte(rest, '.')+1:]) {
			r.Own.Settings = append(r.Own.Settings, tipstaff.GitSetting{Key: s.key, Value: withoutCredentials(s.value)})
		}
	}
	return r, nil
}

// unusable is a repository that cannot be looked at. What ends ctx is no fault of it.
func unusable(dir string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return tipstaff.Errorf(tipstaff.NotAGitRepository, "the repository of %s cannot be used: %v", dir, err)
}

// passable finds the directory around another that has a repository, and makes sure that
// git can read the repository's configuration without waiting for anything. "": there is
// none, which git says better.
func (g *Git) passable(ctx context.Context, dir string) (top string, err error) {
	for top = dir; ; top = filepath.Dir(top) {
		at, err := gitDirOf(top)
		switch {
		case ignoreMissing(err) != nil:
			return "", err
		case err != nil && top == filepath.Dir(top):
			return "", nil
		case err != nil:
			continue
		}
		common, err := readSmall(filepath.Join(at, "commondir"))
		if err != nil {
			return "", err
		}
		r := Repo{git: g, Place: Place{GitDir: at, Common: at}}
		if to := strings.TrimSpace(string(common)); filepath.IsAbs(to) {
			r.Common = to
		} else if to != "" {
			r.Common = filepath.Join(at, to)
		}
		if _, err := readSmall(filepath.Join(at, "HEAD")); err != nil {
			return "", err
		}
		_, err = r.configured(ctx)
		return top, err
	}
}

// gitDirOf is where the repository of a directory lies: in it, or where its file .git says.
func gitDirOf(dir string) (string, error) {
	at := filepath.Join(dir, ".git")
	if info, err := os.Stat(at); err != nil || info.IsDir() {
		return at, err
	}
	text, err := readSmall(at)
	if err != nil {
		return "", err
	}
	to := strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return to, nil
}

// At is the repository at a recorded place.
func At(ctx context.Context, g *Git, p Place) (*Repo, error) {
	for _, dir := range []string{p.Checkout, p.Common} {
		if _, err := os.Stat(dir); err != nil {
			return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "the repository is no longer at %s", dir)
		}
	}
	r := &Repo{git: g, Place: p}
	if p.Own == nil {
		if _, err := r.configured(ctx); err != nil { // it is not read if git would wait for it
			return nil, err
		}
		return r, r.configure(ctx)
	}
	r.name, r.email = p.Own.Name, p.Own.Email
	for _, s := range p.Own.Settings {
		if slices.Contains(passiveKeys, s.Key) {
			r.passive = append(r.passive, setting{s.Key, s.Value})
		}
	}
	return r, nil
}

// configure reads the settings that are taken over, the user's own among them. Nothing is
// started by reading them.
func (r *Repo) configure(ctx context.Context) error {
	out, err := r.git.start(ctx, call{dir: r.Common, env: r.git.trusting("GIT_DIR=" + r.GitDir), reads: r.dirs(),
		args: []string{"config", "--null", "--list"}})
	if err != nil {
		return err
	}
	last := map[string]string{}
	for _, s := range listed(out) {
		last[s.key] = s.value
		if section, rest, _ := strings.Cut(s.key, "."); section == "branch" && (strings.HasSuffix(rest, ".merge") || strings.HasSuffix(rest, ".remote")) ||
			section == "remote" && strings.HasSuffix(rest, ".fetch") {
			r.upstream = append(r.upstream, s)
		}
	}
	for _, key := range passiveKeys {
		if value, ok := last[key]; ok && key != "core.excludesfile" {
			r.passive = append(r.passive, setting{key, value})
		}
	}
	r.name, r.email = cmp.Or(last["user.name"], "Tipstaff"), cmp.Or(last["user.email"], "tipstaff@localhost")
	excludes := last["core.excludesfile"]
	home := r.git.Env("HOME")
	switch {
	case strings.HasPrefix(excludes, "~/"):
		excludes = filepath.Join(home, excludes[2:])
	case excludes == "":
		excludes = filepath.Join(cmp.Or(r.git.Env("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "git", "ignore")
	}
	r.passive = append(r.passive, setting{"core.excludesfile", excludes})
	return nil
}

// With is the repository as a run sees it that works in a worktree: what is recorded of a
// worktree with a repository of its own is kept beside it.
func (r *Repo) With(w Worktree) *Repo {
	if r.worktree == w.Path {
		return r
	}
	with := *r
	with.worktree, with.meddling = w.Path, nil
	if r.Own != nil {
		with.objects = w.objects()
	}
	return &with
}

// dirs are the directories of git that commands of ours read.
func (r *Repo) dirs() []string {
	dirs := slices.Compact([]string{r.GitDir, r.Common})
	if r.objects != "" {
		dirs = append(dirs, r.objects)
	}
	return dirs
}

func (r *Repo) hexLen() int {
	if r.Format == "sha256" {
		return 64
	}
	return 40
}

func (r *Repo) isID(s string) bool {
	return len(s) == r.hexLen() && strings.Trim(s, "0123456789abcdef") == ""
}

// Resolve is the commit that a revision names.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	out, err := r.onRefs(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if id := strings.TrimSpace(string(out)); err == nil && r.isID(id) {
		return id, nil
	}
	var exit *ExitError
	switch {
	case err == nil:
		return "", fmt.Errorf("git names the commit %q at %s", out, r.Checkout)
	case !errors.As(err, &exit):
		return "", err
	case rev == "HEAD" && exit.Code != 1: // it is 1 where nothing is wrong but that there is no commit
		return "", fmt.Errorf("no commit can be read at %s: %w", r.Checkout, err)
	case rev == "HEAD":
		return "", tipstaff.Errorf(tipstaff.NoCommits, "the repository at %s has no commit yet", r.Checkout).WithHint("a worktree begins at a commit: make the first one")
	}
	return "", tipstaff.Errorf(tipstaff.InvalidArgument, "%q names no commit of the repository at %s", rev, r.Checkout)
}

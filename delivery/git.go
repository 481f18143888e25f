package delivery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
)

// Git is how git is run.
type Git struct {
	// Run runs git in a directory with exactly this environment and returns what it
	// printed. If git ran and failed, the error is an [*ExitError].
	Run func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error)
	// Env is the environment of the user. PATH and TMPDIR are handed on, HOME and
	// XDG_CONFIG_HOME say where the user's own settings of git are; nothing else of it
	// reaches git.
	Env func(name string) string
	// Temp is where scratch directories are made; "": the system's place for those.
	Temp string

	indexes sync.Map // digests of our indexes of worktrees, as they were last written, by path
}

// ExitError is git's own failure.
type ExitError struct {
	Code   int
	Stderr string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("git ended with status %d: %s", e.Code, cmp.Or(strings.TrimSpace(e.Stderr), "it said nothing"))
}

// Place is where a repository lies.
type Place = tipstaff.RepositoryPlace

// Repo is a user's repository.
//
// Every command that reads or writes files, or makes objects, runs with a GIT_DIR of
// ours that is made for it (see scratch): none of the repository's configuration is
// read there, so none of the programs that it may name is started, whatever they are
// called in this or a later version of git. From the configuration come only the few
// settings of passive.
type Repo struct {
	Place
	git     *Git
	passive []setting
	name    string // of the user
	email   string
}

type setting struct{ key, value string }

// passiveKeys are settings that change how files are read and written, and start nothing.
var passiveKeys = []string{"core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode",
	"core.sharedrepository", "core.excludesfile"}

// overrides stand before the repository's configuration, for commands that must read it.
var overrides = []string{
	"-c", "core.hooksPath=" + os.DevNull,
	"-c", "core.fsmonitor=false",
	"-c", "core.untrackedCache=false",
	"-c", "core.splitIndex=false",
	"-c", "core.pager=cat",
	"-c", "core.editor=:",
	"-c", "core.askPass=",
	"-c", "core.sshCommand=false",
	"-c", "credential.helper=",
	"-c", "diff.external=",
	"-c", "gpg.program=false",
	"-c", "commit.gpgSign=false",
	"-c", "submodule.recurse=false",
	"-c", "protocol.allow=never",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
}

// environment is all that git gets.
func (g *Git) environment(more ...string) []string {
	env := []string{
		"PATH=" + g.Env("PATH"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", // nor does an older git fetch what a partial clone has not
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_PAGER=cat",
		"GIT_EDITOR=:",
	}
	if dir := g.Env("TMPDIR"); dir != "" {
		env = append(env, "TMPDIR="+dir)
	}
	return append(env, more...)
}

// Open finds the repository of a directory.
func Open(ctx context.Context, g *Git, dir string) (*Repo, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "%s cannot be opened: %v", dir, err)
	}
	home := []string{"HOME=" + g.Env("HOME")} // for safe.directory, which only the user's own settings can have
	if x := g.Env("XDG_CONFIG_HOME"); x != "" {
		home = append(home, "XDG_CONFIG_HOME="+x)
	}
	trusting := func(env []string) []string {
		kept := env[:0]
		for _, e := range env {
			if !strings.HasPrefix(e, "GIT_CONFIG_") {
				kept = append(kept, e)
			}
		}
		return append(kept, home...)
	}
	ask := func(args ...string) (string, error) {
		out, err := g.Run(ctx, dir, trusting(g.environment()), nil, append(overrides[:len(overrides):len(overrides)], args...)...)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	said, err := ask("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir", "--show-object-format", "--show-prefix")
	if err != nil {
		var exit *ExitError
		if !errors.As(err, &exit) {
			return nil, err
		}
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "%s has no git repository to work in: %s", dir, strings.TrimSpace(exit.Stderr)).
			WithHint("changes are made in a git worktree: make the directory a repository with a first commit, or let the program work without files")
	}
	lines := append(strings.Split(said, "\n"), "")
	if len(lines) < 5 || len(lines) > 6 || lines[3] != "sha1" && lines[3] != "sha256" {
		return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "the repository of %q cannot be used: its path has a line break, or its format is unknown", dir)
	}
	r := &Repo{git: g, Place: Place{Checkout: lines[0], GitDir: lines[1], Common: lines[2], Format: lines[3], Prefix: strings.TrimSuffix(lines[4], "/")}}
	if err := r.configure(ask); err != nil {
		return nil, err
	}
	return r, nil
}

// At is the repository at a recorded place.
func At(ctx context.Context, g *Git, p Place) (*Repo, error) {
	for _, dir := range []string{p.Checkout, p.Common} {
		if _, err := os.Stat(dir); err != nil {
			return nil, tipstaff.Errorf(tipstaff.NotAGitRepository, "the repository is no longer at %s", dir)
		}
	}
	r := &Repo{git: g, Place: p}
	return r, r.configure(func(args ...string) (string, error) {
		env := []string{"PATH=" + g.Env("PATH"), "LC_ALL=C", "HOME=" + g.Env("HOME"), "XDG_CONFIG_HOME=" + g.Env("XDG_CONFIG_HOME"), "GIT_DIR=" + p.GitDir}
		out, err := g.Run(ctx, p.Common, env, nil, args...)
		return strings.TrimSuffix(string(out), "\n"), err
	})
}

// configure reads the settings that are taken over. Nothing is started by reading them.
func (r *Repo) configure(ask func(...string) (string, error)) error {
	pattern := "^(" + strings.ReplaceAll(strings.Join(passiveKeys, "|"), ".", `\.`) + `|user\.name|user\.email)$`
	said, err := ask("config", "-z", "--get-regexp", pattern)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == 1 { // there are none
		said, err = "", nil
	}
	if err != nil {
		return err
	}
	last := map[string]string{}
	for entry := range strings.SplitSeq(said, "\x00") {
		if key, value, ok := strings.Cut(entry, "\n"); ok {
			last[key] = value
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

// scratch is a git directory of ours for a few commands: no refs, no hooks, no
// attributes, our configuration.
type scratch struct {
	repo *Repo
	dir  string
	env  []string
}

// scratch makes one. With a work tree its commands read and write files there, with an
// index they use that file.
func (r *Repo) scratch(worktree, index string) (*scratch, error) {
	dir, err := os.MkdirTemp(r.git.Temp, "tipstaff-git-")
	if err != nil {
		return nil, err
	}
	s := &scratch{repo: r, dir: dir}
	if err := s.fill(worktree); err != nil {
		s.close()
		return nil, err
	}
	s.env = r.git.environment("HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_DIR="+dir, "GIT_OBJECT_DIRECTORY="+filepath.Join(r.Common, "objects"))
	if worktree != "" {
		s.env = append(s.env, "GIT_WORK_TREE="+worktree)
	}
	if index != "" {
		s.env = append(s.env, "GIT_INDEX_FILE="+index)
	}
	return s, nil
}

func (s *scratch) fill(worktree string) error {
	var config strings.Builder
	version, bare := 0, worktree == ""
	if s.repo.Format != "sha1" {
		version = 1
	}
	fmt.Fprintf(&config, "[core]\n\trepositoryformatversion = %d\n\tbare = %v\n\tlogallrefupdates = false\n\tbigFileThreshold = %d\n\tsafecrlf = false\n", version, bare, bigFile)
	fmt.Fprintf(&config, "\thooksPath = %s\n\tattributesFile = %s\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n", os.DevNull, os.DevNull)
	if version == 1 {
		fmt.Fprintf(&config, "[extensions]\n\tobjectFormat = %s\n", s.repo.Format)
	}
	for _, p := range s.repo.passive {
		section, key, _ := strings.Cut(p.key, ".")
		fmt.Fprintf(&config, "[%s]\n\t%s = %s\n", section, key, quoted(p.value))
	}
	if err := os.Mkdir(filepath.Join(s.dir, "refs"), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(s.dir, "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "config"), []byte(config.String()), 0o600); err != nil {
		return err
	}
	// What the user ignores in this repository alone. A worker's own files are named there too.
	if err := os.Symlink(filepath.Join(s.repo.Common, "info", "exclude"), filepath.Join(s.dir, "info", "exclude")); err != nil {
		return err
	}
	return s.setHead(strings.Repeat("0", s.repo.hexLen()))
}

// setHead says which commit is checked out, for commands that compare with it.
func (s *scratch) setHead(commit string) error {
	return os.WriteFile(filepath.Join(s.dir, "HEAD"), []byte(commit+"\n"), 0o600)
}

func (s *scratch) close() { _ = os.RemoveAll(s.dir) } // what is left lies where the system cleans up

// run runs a command in a directory; "": the scratch directory.
func (s *scratch) run(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	return s.repo.git.Run(ctx, cmp.Or(dir, s.dir), s.env, stdin, args...)
}

// quoted is a value for a configuration file.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", "").Replace(value) + `"`
}

func (r *Repo) hexLen() int {
	if r.Format == "sha256" {
		return 64
	}
	return 40
}

// own runs a command on the repository itself: on its refs and its list of worktrees,
// never on files.
func (r *Repo) own(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return r.git.Run(ctx, r.Common, r.git.environment("HOME="+os.DevNull, "GIT_DIR="+r.GitDir), stdin,
		append(overrides[:len(overrides):len(overrides)], args...)...)
}

// Resolve is the commit that a revision names.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	out, err := r.own(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if id := strings.TrimSpace(string(out)); err == nil && r.isID(id) {
		return id, nil
	}
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if rev == "HEAD" {
		return "", tipstaff.Errorf(tipstaff.NoCommits, "the repository at %s has no commit yet", r.Checkout).WithHint("a worktree begins at a commit: make the first one")
	}
	return "", tipstaff.Errorf(tipstaff.InvalidArgument, "%q names no commit of the repository at %s", rev, r.Checkout)
}

func (r *Repo) isID(s string) bool {
	return len(s) == r.hexLen() && strings.Trim(s, "0123456789abcdef") == ""
}

// Prefixes of the refs that are ours.
const (
	RunBranches     = "refs/heads/tipstaff/run/"     // of worktrees
	DeliverBranches = "refs/heads/tipstaff/deliver/" // what was approved
	hidden          = "refs/tipstaff/"               // what was shown to a decider
)

// absent is the old value of a ref that must not exist.
const absent = "absent"

// errRefHeld is a ref that has another value than was expected.
var errRefHeld = errors.New("the ref has another value")

// setRef is the one place where refs change. It sets one of ours from an old value
// ([absent]: it must not exist), or deletes it (value ""), and refuses all others. A ref
// that is there with the new value already is left as it is.
func (r *Repo) setRef(ctx context.Context, ref, value, old string) error {
	ours := strings.HasPrefix(ref, "refs/heads/tipstaff/") || strings.HasPrefix(ref, hidden)
	if !ours || strings.Contains(ref, "..") || strings.ContainsAny(ref, "\x00\n ") {
		return fmt.Errorf("%q is not a ref of Tipstaff: nothing was changed", ref)
	}
	if value != "" && !r.isID(value) || old != absent && !r.isID(old) {
		return fmt.Errorf("%s cannot be set from %q to %q: these are no object names", ref, old, value)
	}
	zero := strings.Repeat("0", r.hexLen())
	var script bytes.Buffer
	script.WriteString("option no-deref\n") // a planted symbolic ref would lead to one of the user's
	if old == absent {
		old = zero
	}
	if value == "" {
		fmt.Fprintf(&script, "delete %s %s\n", ref, old)
	} else {
		fmt.Fprintf(&script, "update %s %s %s\n", ref, value, old)
	}
	_, err := r.own(ctx, script.Bytes(), "update-ref", "--stdin")
	var exit *ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if now, err := r.refValue(ctx, ref); err != nil || now == value { // it was done before
		return err
	}
	return fmt.Errorf("%w: %s: %s", errRefHeld, ref, strings.TrimSpace(exit.Stderr))
}

// replaceRef sets a ref whatever it was: what an attempt has left that was broken off.
func (r *Repo) replaceRef(ctx context.Context, ref, value string) error {
	err := r.setRef(ctx, ref, value, absent)
	if !errors.Is(err, errRefHeld) {
		return err
	}
	now, err := r.refValue(ctx, ref)
	if err != nil {
		return err
	}
	return r.setRef(ctx, ref, value, now)
}

// refValue is what a ref holds, "" if there is none. A symbolic ref is none of ours, and
// has a value that no object has.
func (r *Repo) refValue(ctx context.Context, ref string) (string, error) {
	out, err := r.own(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname) %(symref)", ref)
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(out), "\n") {
		fields := strings.Split(line, " ")
		if fields[0] != ref { // the pattern also matches what lies below
			continue
		}
		if fields[2] != "" {
			return "ref: " + fields[2], nil
		}
		return fields[1], nil
	}
	return "", nil
}

package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/filestamp"
)

// scratch is a git directory of ours for a few commands: no refs, no hooks, no
// attributes, our configuration.
type scratch struct {
	repo  *Repo
	dir   string
	files string // the working tree; "": none
	env   []string

	objects string   // where new objects are put
	shared  []string // where others are
	reads   []string // directories of git that are read, too

	stood map[string]filestamp.Stamp // files of the checkout, before they were looked at
	large map[string]string          // those with a content that git LFS keeps, by its digest
}

// scratch makes one. With a work tree its commands read and write files there, with an
// index they use that file.
func (r *Repo) scratch(worktree, index string) (*scratch, error) {
	s, err := r.bareScratch(worktree, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(filepath.Join(s.dir, "refs"), 0o700), s.setHead("ref: refs/heads/none")); err != nil {
		s.close()
		return nil, err
	}
	if index != "" {
		s.env = append(s.env, "GIT_INDEX_FILE="+index)
	}
	return s, nil
}

// bareScratch makes one that has neither refs nor HEAD yet.
func (r *Repo) bareScratch(worktree string, more []setting) (*scratch, error) {
	dir, err := os.MkdirTemp(r.git.Temp, "tipstaff-git-")
	if err != nil {
		return nil, err
	}
	s := &scratch{repo: r, dir: dir, files: worktree}
	if err := s.fill(more); err != nil {
		s.close()
		return nil, err
	}
	users, kept := filepath.Join(r.Common, "objects"), r.objects
	if !exists(kept) { // a worktree that was removed: what was published is in the repository
		kept = ""
	}
	s.env, s.objects = r.git.environment("HOME="+dir, "XDG_CONFIG_HOME="+dir, "GIT_DIR="+dir), cmp.Or(kept, users)
	if kept != "" {
		s.shared = []string{users}
	}
	if worktree != "" {
		s.env = append(s.env, "GIT_WORK_TREE="+worktree)
	}
	return s, nil
}

// alternate is a path in a list of object directories.
func alternate(path string) string {
	if strings.ContainsAny(path, ":\"#\n") {
		return strconv.Quote(path)
	}
	return path
}

func (s *scratch) fill(more []setting) error {
	r := s.repo
	settings := []setting{{"core.bare", strconv.FormatBool(s.files == "")}, {"core.logallrefupdates", "false"}, {"core.bigfilethreshold", strconv.Itoa(bigFile)},
		{"core.safecrlf", "false"}, {"core.hookspath", os.DevNull}, {"core.attributesfile", os.DevNull}, {"gc.auto", "0"}, {"maintenance.auto", "false"}}
	for _, p := range r.passive {
		if p.key != "core.excludesfile" || !waits(p.value) {
			settings = append(settings, p)
		}
	}
	if err := os.Mkdir(filepath.Join(s.dir, "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "config"), r.config(append(settings, more...)), 0o600); err != nil {
		return err
	}
	// What the user ignores in this repository alone, and the files of its own that a worker has
	// in the worktree.
	exclude, err := readSmall(filepath.Join(r.Common, "info", "exclude"))
	if own := r.ownExclude(); err == nil && own != "" && s.files != r.Checkout {
		var more []byte
		more, err = readSmall(own)
		exclude = slices.Concat(exclude, []byte("\n"), more)
	}
	if err := errors.Join(err, os.WriteFile(filepath.Join(s.dir, "info", "exclude"), exclude, 0o600)); err != nil {
		return err
	}
	return s.take(filepath.Join(r.Common, "shallow"), "shallow") // where history ends
}

// format are the settings that say how a repository with others is laid out.
func (r *Repo) format(others []setting) []setting {
	switch {
	case r.Format != "sha1":
		return []setting{{"core.repositoryformatversion", "1"}, {"extensions.objectformat", r.Format}}
	case slices.ContainsFunc(others, func(s setting) bool { return strings.HasPrefix(s.key, "extensions.") }):
		return []setting{{"core.repositoryformatversion", "1"}}
	}
	return []setting{{"core.repositoryformatversion", "0"}}
}

// config is a configuration with these settings, in a file's words.
func (r *Repo) config(settings []setting) []byte {
	var b strings.Builder
	put := func(s setting, value string) {
		section, rest, _ := strings.Cut(s.key, ".")
		at := strings.LastIndexByte(rest, '.')
		if at >= 0 {
			section = fmt.Sprintf(`%s "%s"`, section, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(rest[:at]))
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, rest[at+1:], value)
	}
	for _, s := range r.format(settings) {
		put(s, s.value)
	}
	for _, s := range settings {
		put(s, quoted(s.value))
	}
	return []byte(b.String())
}

// quoted is a value for a configuration file.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", "").Replace(value) + `"`
}

// take copies a small file of the repository, if it is there. What git would wait for is not.
func (s *scratch) take(from, to string) error {
	data, err := readSmall(from)
	if err != nil || len(data) == 0 {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, to), data, 0o600)
}

// setHead says which commit is checked out, or which branch that may have none yet, for commands
// that compare with it.
func (s *scratch) setHead(at string) error {
	return os.WriteFile(filepath.Join(s.dir, "HEAD"), []byte(at+"\n"), 0o600)
}

func (s *scratch) close() { _ = os.RemoveAll(s.dir) } // what is left lies where the system cleans up

// run runs a command in a directory; "": the scratch directory.
func (s *scratch) run(ctx context.Context, dir string, stdin []byte, args ...string) ([]byte, error) {
	env := append(slices.Clip(s.env), "GIT_OBJECT_DIRECTORY="+s.objects)
	if len(s.shared) > 0 {
		var list []string
		for _, path := range s.shared {
			list = append(list, alternate(path))
		}
		env = append(env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+strings.Join(list, ":"))
	}
	out, err := s.repo.git.start(ctx, call{dir: cmp.Or(dir, s.dir), env: env, stdin: stdin, args: args, reads: append(s.repo.dirs(), s.reads...), files: s.files})
	return out, full(err, s.objects, s.files, s.dir)
}

// apart has new objects put where only this scratch directory sees them, and the index too.
func (s *scratch) apart() error {
	s.shared = append([]string{s.objects}, s.shared...)
	s.objects = filepath.Join(s.dir, "objects")
	return os.Mkdir(s.objects, 0o700)
}

// mirror is a scratch directory whose refs, and their logs, are those of the user's
// repository. Its configuration is ours all the same: what reads and moves refs starts no
// hook, by whatever way hooks are configured.
func (r *Repo) mirror() (*scratch, error) {
	s, err := r.bareScratch("", append(r.refStorage(), r.upstream...))
	if err != nil {
		return nil, err
	}
	links := map[string]string{"refs": filepath.Join(r.Common, "refs"), "packed-refs": filepath.Join(r.Common, "packed-refs"), "reftable": filepath.Join(r.Common, "reftable"),
		"logs/refs": filepath.Join(r.Common, "logs", "refs"), "logs/HEAD": filepath.Join(r.GitDir, "logs", "HEAD")}
	err = os.Mkdir(filepath.Join(s.dir, "logs"), 0o700)
	for name, to := range links {
		if _, there := os.Lstat(to); there == nil || name == "packed-refs" {
			err = errors.Join(err, os.Symlink(to, filepath.Join(s.dir, name)))
		}
	}
	head, there := os.Readlink(filepath.Join(r.GitDir, "HEAD")) // as old versions of git had it
	if there == nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.dir, "HEAD"), []byte("ref: "+head+"\n"), 0o600))
	} else {
		err = errors.Join(err, s.take(filepath.Join(r.GitDir, "HEAD"), "HEAD"))
	}
	for _, name := range []string{"FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		err = errors.Join(err, s.take(filepath.Join(r.GitDir, name), name))
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// refStorage says how the repository keeps its refs, where that is not in files.
func (r *Repo) refStorage() []setting {
	if info, err := os.Stat(filepath.Join(r.Common, "reftable")); err == nil && info.IsDir() {
		return []setting{{"extensions.refstorage", "reftable"}}
	}
	return nil
}

// onRefs runs a command on the refs of the user's repository, never on files.
func (r *Repo) onRefs(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	users := *r
	users.objects, users.worktree = "", "" // what a worker has written there matters not
	s, err := users.mirror()
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.run(ctx, "", stdin, args...)
}

// exists reports whether there is something at a path, links not followed.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

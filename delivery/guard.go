package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A person decides that something is handed over to a repository that they trust. Whoever
// has meanwhile told git there to start something, or to look elsewhere, has made another
// of it. So the settings that do so are noted when a run is made, and nothing is written
// while they are others.

// guardedSections are those of which every key counts.
var guardedSections = []string{"alias", "credential", "diff", "difftool", "filter", "gpg", "hook", "include", "includeif", "merge", "mergetool",
	"pager", "protocol", "sequence", "ssh", "trailer", "uploadpack", "url"}

// harmlessCore are the keys of core that neither start nor redirect anything.
var harmlessCore = []string{"abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "compression", "deltabasecachelimit", "eol", "filemode",
	"fsync", "fsyncmethod", "hidedotfiles", "ignorecase", "ignorestat", "logallrefupdates", "longpaths", "loosecompression", "multipackindex",
	"packedgitlimit", "packedgitwindowsize", "precomposeunicode", "preloadindex", "protecthfs", "protectntfs", "quotepath", "repositoryformatversion",
	"safecrlf", "sharedrepository", "sparsecheckout", "sparsecheckoutcone", "splitindex", "symlinks", "trustctime", "untrackedcache", "warnambiguousrefs", "whitespace"}

// starters are last parts of keys, in any section, whose values are commands.
var starters = []string{"askpass", "cmd", "command", "editor", "helper", "pager", "program", "sshcommand"}

// remoteStarters are the last parts of keys of a remote that name a program.
var remoteStarters = []string{"receivepack", "uploadpack", "vcs"}

// guarded reports whether a key of git's configuration may start or redirect something.
// branch, user and most of remote change in everyday work, and are not among them.
func guarded(key string) bool {
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	switch section {
	case "branch", "user":
		return false
	case "remote":
		return slices.Contains(remoteStarters, name)
	case "core":
		return !slices.Contains(harmlessCore, name)
	case "submodule":
		return name == "update" || name == "url"
	}
	return slices.Contains(guardedSections, section) || slices.Contains(starters, name)
}

// setting is one entry of git's configuration.
type setting struct{ key, value string }

// maxIncludes is how many files a configuration may consist of.
const maxIncludes = 64

// configured are the settings of a repository of the user's, with those of the files that
// it includes under whatever condition. It reads files alone, and no more than they may have.
func (r *Repo) configured(ctx context.Context) (all []setting, err error) {
	todo := slices.Compact([]string{filepath.Join(r.Common, "config"), filepath.Join(r.Common, "config.worktree"), filepath.Join(r.GitDir, "config.worktree")})
	seen := map[string]bool{}
	for len(todo) > 0 {
		file := todo[0]
		if todo = todo[1:]; seen[file] {
			continue
		}
		if seen[file] = true; len(seen) > maxIncludes {
			return nil, fmt.Errorf("the configuration of %s includes more than %d files", r.Common, maxIncludes)
		}
		listed, err := r.git.settingsIn(ctx, file)
		if err != nil {
			return nil, err
		}
		for _, s := range listed {
			if section, _, _ := strings.Cut(s.key, "."); (section == "include" || section == "includeif") && strings.HasSuffix(s.key, ".path") {
				todo = append(todo, r.git.included(file, s.value))
			}
		}
		all = append(all, listed...)
	}
	return all, nil
}

// settingsIn are the settings of one file, without those that it includes.
func (g *Git) settingsIn(ctx context.Context, file string) (all []setting, err error) {
	if data, err := readSmall(file); err != nil || len(data) == 0 {
		return nil, err
	}
	out, err := g.start(ctx, call{dir: filepath.Dir(file), env: g.environment("HOME="+os.DevNull, "GIT_DIR="+os.DevNull),
		args: []string{"config", "--file", file, "--no-includes", "--null", "--list"}})
	if err != nil {
		return nil, fmt.Errorf("the configuration %s cannot be read: %w", file, err)
	}
	return listed(out), nil
}

// listed is what `git config --null --list` prints.
func listed(out []byte) (all []setting) {
	for _, entry := range split(out) {
		key, value, _ := strings.Cut(entry, "\n")
		all = append(all, setting{key, value})
	}
	return all
}

// included is the path of a file that another includes.
func (g *Git) included(by, path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(g.Env("HOME"), rest)
	}
	if name, rest, ok := strings.Cut(strings.TrimPrefix(path, "~"), "/"); ok && strings.HasPrefix(path, "~") {
		if of, err := user.Lookup(name); err == nil {
			return filepath.Join(of.HomeDir, rest)
		}
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(by), path)
}

var credentials = regexp.MustCompile(`//[^/@\s]*@`)

// withoutCredentials is a text without what stands in its URLs for a user.
func withoutCredentials(text string) string { return credentials.ReplaceAllString(text, "//…@") }

// guardOf is the guarded part of a configuration: a digest of the values of each key.
func guardOf(all []setting) map[string]string {
	values := map[string][]string{}
	for _, s := range all {
		if guarded(s.key) {
			name := withoutCredentials(s.key)
			values[name] = append(values[name], s.key+"\n"+s.value)
		}
	}
	guard := map[string]string{}
	for name, all := range values {
		guard[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, "\x00"))))[:16]
	}
	return guard
}

// Meddled are the settings of the repository that start or redirect something and are not
// as they were when the run was made, each with what it is now. Of those that were not noted
// yet when it was made nobody can tell.
func (r *Repo) Meddled(ctx context.Context) (changed []string, err error) {
	if r.Own == nil {
		return nil, nil
	}
	all, err := r.configured(ctx)
	if err != nil {
		return []string{err.Error()}, ctx.Err()
	}
	now := guardOf(all)
	if !r.Own.GuardsRemotes {
		maps.DeleteFunc(now, func(name, _ string) bool { return strings.HasPrefix(name, "remote.") })
	}
	for _, d := range differing(r.Own.Guard, now, true) {
		if d.New == "" {
			changed = append(changed, d.Name+" (gone)")
		} else {
			changed = append(changed, d.Name+shownValue(all, d.Name))
		}
	}
	return changed, nil
}

// shownValue is what a key is set to, where that is no secret.
func shownValue(all []setting, name string) string {
	if section, _, _ := strings.Cut(name, "."); section == "credential" || section == "url" {
		return ""
	}
	last := ""
	for _, s := range all {
		if s.key == name {
			last = s.value
		}
	}
	return fmt.Sprintf(" = %q", cut([]byte(withoutCredentials(last)), 100))
}

// MeddledError is a repository that is not written, because of the settings named.
type MeddledError struct{ Changed []string }

func (e *MeddledError) Error() string { return meddledReason(e.Changed) }

func meddledReason(changed []string) string {
	return "the git configuration of the repository has changed since the run was made: " + some(changed) +
		"; restore it, or take the change with show --diff and git apply"
}

// write is the one way to the user's repository and checkout. f is called if nothing is in
// its way.
func (r *Repo) write(ctx context.Context, f func() error) error {
	changed, err := r.Meddled(ctx)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return &MeddledError{changed}
	}
	return f()
}

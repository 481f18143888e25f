package delivery

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// A person decides that something is handed over to a repository that they trust. Whoever
// has meanwhile told git there to start something, or to look elsewhere, has made another
// of it. So the settings that do so are noted when a run is made, and nothing is written
// while they are others.

// Versions of the rule that says which settings these are. A run is held to that of its start:
// what was not noted then nobody can compare.
const (
	guardRemotes = 1 // programs that remotes name, too
	guardClasses = 2 // whatever names a program, a server or a certificate
	guardNow     = guardClasses
)

// guardOfRun is the version that a run was made under.
func guardOfRun(own *tipstaff.OwnRepository) int {
	if own.GuardRule == 0 && own.GuardsRemotes {
		return guardRemotes
	}
	return own.GuardRule
}

// guardedSections are those of which every key counts.
var guardedSections = []string{"alias", "credential", "diff", "difftool", "filter", "gpg", "hook", "include", "includeif", "merge", "mergetool",
	"pager", "protocol", "sequence", "ssh", "trailer", "uploadpack", "url"}

// harmless are, of sections whose other keys count, those that neither start nor redirect
// anything.
var harmless = map[string][]string{
	"core": {"abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "compression", "deltabasecachelimit", "eol", "filemode",
		"fsync", "fsyncmethod", "hidedotfiles", "ignorecase", "ignorestat", "logallrefupdates", "longpaths", "loosecompression", "multipackindex",
		"packedgitlimit", "packedgitwindowsize", "precomposeunicode", "preloadindex", "protecthfs", "protectntfs", "quotepath", "repositoryformatversion",
		"safecrlf", "sharedrepository", "sparsecheckout", "sparsecheckoutcone", "splitindex", "symlinks", "trustctime", "untrackedcache", "warnambiguousrefs", "whitespace"},
	"http": {"extraheader", "lowspeedlimit", "lowspeedtime", "maxrequests", "minsessions", "noepsv", "postbuffer", "useragent", "version"},
	"lfs": {"access", "activitytimeout", "allowincompletepush", "batch", "concurrenttransfers", "contenttype", "defaulttokenttl", "dialtimeout", "fetchexclude",
		"fetchinclude", "fetchrecentalways", "fetchrecentcommitsdays", "fetchrecentrefsdays", "fetchrecentremoterefs", "keepalive", "lockignoredfiles", "locksverify",
		"maxretries", "maxretrydelay", "pruneoffsetdays", "pruneremotetocheck", "pruneverifyremotealways", "repositoryformatversion", "setlockablereadonly",
		"skipdownloaderrors", "tlstimeout"},
}

// starters are last parts of keys, in any section, whose values are commands: of the first
// version of the rule.
var starters = []string{"askpass", "cmd", "command", "editor", "helper", "pager", "program", "sshcommand"}

// remoteStarters are the last parts of keys of a remote that name a program.
var remoteStarters = []string{"receivepack", "uploadpack", "vcs"}

// classes are how the last parts of keys end whose values name a program, a server or a
// certificate, in whatever section: there are many, and new ones come. Such keys of no section
// that is known are those of other programs which keep settings there.
var classes = []string{"askpass", "browser", "cainfo", "capath", "cert", "certificate", "cmd", "command", "driver", "editor", "filter", "helper", "hook", "host", "httpd",
	"pager", "path", "program", "proxy", "server", "socketdir", "sslverify", "templatedir", "textconv", "tunnel", "uri", "viewer"}

// guarded reports whether a key of git's configuration may start or redirect something.
// branch, user and most of remote change in everyday work, and are not among them.
func guarded(rule int, key string) bool {
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	inClass := rule >= guardClasses && slices.ContainsFunc(classes, func(end string) bool { return strings.HasSuffix(name, end) })
	switch section {
	case "branch", "user":
		return false
	case "remote": // a partial clone's filter starts nothing
		return rule >= guardRemotes && slices.Contains(remoteStarters, name) || inClass && name != "partialclonefilter"
	case "core":
		return !slices.Contains(harmless[section], name)
	case "http", "lfs":
		return rule >= guardClasses && !slices.Contains(harmless[section], name) || slices.Contains(starters, name)
	case "sendemail":
		inClass = inClass || rule >= guardClasses && strings.HasPrefix(name, "smtp")
	case "submodule":
		return name == "update" || name == "url"
	}
	return inClass || slices.Contains(guardedSections, section) || slices.Contains(starters, name)
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
func guardOf(rule int, all []setting) map[string]string {
	values := map[string][]string{}
	for _, s := range all {
		if guarded(rule, s.key) {
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
	for _, d := range differing(r.Own.Guard, guardOf(guardOfRun(r.Own), all), true) {
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
	if section, _, _ := strings.Cut(name, "."); section == "credential" || section == "url" || strings.HasSuffix(name, "pass") || strings.HasSuffix(name, "password") {
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

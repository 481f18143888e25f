package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Code makes digests of the code that is started in a workspace.
type Code struct {
	dir    string
	state  string                        // what is kept for the user; "": nothing is
	opened func(path, build string) bool // files that runs may write although they are code
	known  *digests
}

// NewCode makes digests of the code of a workspace. They are kept in the folder state of what is
// kept for the user; "": nowhere.
func NewCode(m *workspace.Manifest, dir, state string) *Code {
	return &Code{dir, state, m.Opened, newDigests(state, dir)}
}

// Environment has Python, which a command of the workspace's own may start, keep what it has
// compiled outside of the workspace: what lies there would run in the place of the code that has
// a digest. Where nothing is kept for the user it is kept nowhere.
func (c *Code) Environment(of workspace.Command) []string {
	const name = "PYTHONPYCACHEPREFIX"
	if _, set := of.Env[name]; set || !of.RunsCode(c.dir) {
		return nil
	}
	if c.state == "" {
		return []string{name + "=" + os.DevNull}
	}
	return []string{name + "=" + filepath.Join(c.state, "pycache")}
}

// digests are those of the files that a command may load, by path.
func (c *Code) digests(of workspace.Command, beside bool) (map[string]string, error) {
	files, err := of.Code(c.dir, beside, c.opened)
	if err != nil {
		return nil, err
	}
	return c.known.of(c.dir, files)
}

// Accepts refuses a command whose code is not what the lock holds. Of what has no digests in it
// nothing is known.
func (l *Lock) Accepts(c *Code, of workspace.Command) *flow.Error {
	held := l.Code(of)
	if len(held.Files) == 0 && !held.Beside {
		return nil
	}
	now, err := c.digests(of, held.Beside)
	if err != nil {
		return refusal(CodePackageChanged, nil, "the code of %s cannot be digested: %v", of.Called(), err)
	}
	remedy := "look at it, then `tipstaff tools pin " + of.Label() + "`"
	if of.Former {
		remedy = workspace.FileName + " has it started otherwise by now: start a new run"
	}
	differs := func(path, what string) *flow.Error {
		file := detail{"file": path}
		for member, digest := range map[string]string{"accepted": held.Files[path], "digest": now[path]} {
			if digest != "" {
				file[member] = digest
			}
		}
		how := of.Called() + " may load"
		if named, err := of.Code(c.dir, false, c.opened); err == nil {
			if _, is := named[path]; is {
				how = "the command of " + of.Called() + " names"
			}
		}
		return refusal(CodePackageChanged, file, "the file %s, which %s, %s: %s", path, how, what, remedy)
	}
	paths := sortedKeys(now)
	if i := slices.IndexFunc(paths, func(path string) bool { return held.Files[path] != "" && held.Files[path] != now[path] }); i >= 0 {
		return differs(paths[i], "has changed since it was accepted")
	}
	if i := slices.IndexFunc(paths, func(path string) bool { return held.Files[path] == "" }); i >= 0 {
		return differs(paths[i], "is new, and nobody has accepted it yet")
	}
	for _, path := range sortedKeys(held.Files) {
		if now[path] == "" && held.Beside && !of.Former {
			return differs(path, "is gone, or does not count any more")
		}
	}
	return nil
}

// Holds reports whether the lock is to hold the code of a command: of programs on PATH only where
// somebody has asked for it, by name.
func (l *Lock) Holds(of workspace.Command) bool { return !of.OnPath() || l.Code(of).Beside }

// Unheld are the files that a command may load and of which the lock has no digest, because it is
// older than these digests or nobody has accepted the code yet.
func (l *Lock) Unheld(c *Code, of workspace.Command) ([]string, error) {
	held := l.Code(of)
	if held.Beside || !l.Holds(of) || of.Kind == workspace.KindServer && l.Servers[of.Name].Tools == nil { // which is told of its tools
		return nil, nil
	}
	now, err := c.digests(of, true)
	return slices.DeleteFunc(sortedKeys(now), func(path string) bool { return held.Files[path] != "" }), err
}

// Stale are the workers and programs of the lock that the manifest does not have started any more.
func (l *Lock) Stale(m *workspace.Manifest) (list []workspace.Command) {
	for _, name := range sortedKeys(l.Workers) {
		list = append(list, workspace.Command{Kind: workspace.KindWorker, Name: name})
	}
	for _, name := range sortedKeys(l.Programs) {
		list = append(list, workspace.Command{Kind: workspace.KindProgram, Name: name})
	}
	declared := m.Commands()
	return slices.DeleteFunc(list, func(c workspace.Command) bool {
		return slices.ContainsFunc(declared, func(d workspace.Command) bool { return c.Label() == d.Label() })
	})
}

// WithCode is the lock with the code of a worker or a program as it is now, and what is another
// in it. What runs no code of the workspace is taken out.
func (l *Lock) WithCode(c *Code, of workspace.Command) (*Lock, []tipstaff.PinChange, error) {
	held, now := l.Code(of), LockedCode{}
	files, err := c.digests(of, true)
	if err != nil {
		return l, nil, err
	}
	if len(files) > 0 || of.RunsCode(c.dir) {
		now = LockedCode{files, true}
	}
	next := *l
	if of.Kind == workspace.KindWorker {
		next.Workers = with(l.Workers, of.Name, now, now.Beside)
	} else {
		next.Programs = with(l.Programs, of.Name, now, now.Beside)
	}
	return &next, held.changes(of.Label(), now), nil
}

// PackageDigest is the digest of a file, or of a folder and everything in it:
// that of its lines, sorted, each the path of a file with slashes, NUL, x if the
// file may be executed and else -, NUL, the file's SHA-256 in hex, and a line
// feed. Symbolic links are refused: they would lead out of what is digested. The
// path itself may be one.
func PackageDigest(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return builtin.FileDigest(path)
	}
	lines, err := folderLines(path)
	if err != nil {
		return "", err
	}
	slices.Sort(lines)
	return flow.Digest([]byte(strings.Join(lines, ""))), nil
}

func folderLines(root string) (lines []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is a link or no plain file: a package holds plain files alone", name)
		}
		digest, err := builtin.FileDigest(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		mode := "-"
		if info.Mode()&0o111 != 0 {
			mode = "x"
		}
		lines = append(lines, filepath.ToSlash(name)+"\x00"+mode+"\x00"+strings.TrimPrefix(digest, "sha256:")+"\n")
		return nil
	})
	return lines, err
}

// checkPackage compares what is about to be started with the manifest's digest.
func checkPackage(c workspace.Server, dir, program string) *flow.Error {
	if c.PackageDigest == "" {
		return nil
	}
	path := packagePath(c, dir, program)
	found, err := PackageDigest(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusal(CodePackageChanged, nil, "the package %s does not exist", path)
	case err != nil:
		return refusal(CodePackageChanged, nil, "the package %s cannot be digested: %v", path, err)
	case found != c.PackageDigest:
		return refusal(CodePackageChanged, detail{"accepted": c.PackageDigest, "digest": found},
			"the package %s is not the one that was accepted: its digest is %s", path, found)
	}
	return nil
}

// packagePath is the file or folder that a server's package is: the one that is
// named, else the program.
func packagePath(c workspace.Server, dir, program string) string {
	switch {
	case c.Package == "":
		return program
	case filepath.IsAbs(c.Package):
		return c.Package
	}
	return filepath.Join(dir, c.Package)
}

// fetchers are programs that get what they run from elsewhere, some of them only
// when their first argument says so.
var fetchers = map[string][]string{
	"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "pipx": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"}, "uv": {"tool"},
	"docker": {"run"}, "podman": {"run"},
}

// Unpinned are the servers, sorted, of which nothing says what will be started the
// next time: their program fetches it, and no package is named whose digest could
// be compared. What they list is still held to the lock.
func Unpinned(m *workspace.Manifest) []string {
	var list []string
	if m == nil {
		return nil
	}
	for _, name := range sortedKeys(m.Servers) {
		if c := m.Servers[name]; c.Package == "" && fetches(c.Command) {
			list = append(list, name)
		}
	}
	return list
}

func fetches(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	words, ok := fetchers[filepath.Base(argv[0])]
	return ok && (words == nil || len(argv) > 1 && slices.Contains(words, argv[1]))
}

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// ruleOutside is a guard that no policy declares: a worker changes files in its directory
// alone, and not those that are protected there.
const ruleOutside = "builtin/outside"

// Protected says why no run writes a file, by its absolute path, whose links it follows; false:
// it may.
type Protected func(path string) (why string, protected bool)

// outside says why a call changes a file that it must not; "": it does not.
func outside(typ, tool, dir string, args json.RawMessage, protected Protected) string {
	name := typeOf(typ).edits[tool]
	if name == "" {
		return ""
	}
	var members map[string]json.RawMessage
	var path string
	if json.Unmarshal(args, &members) != nil || json.Unmarshal(members[name], &path) != nil || path == "" {
		return fmt.Sprintf("%s changes a file, and its argument %s names none", tool, name)
	}
	return Outside(dir, path, protected)
}

// Outside says why a worker does not change a file; "": it may. A relative path begins at the
// directory of the worker.
func Outside(dir, path string, protected Protected) string {
	if strings.HasPrefix(path, "~") { // some tools take it for the home folder
		return fmt.Sprintf("%s begins with ~: name a file below %s", tipstaff.Quote(path, 200), dir)
	}
	home, err := resolve(dir)
	if err != nil {
		return fmt.Sprintf("the directory cannot be resolved: %v", err)
	}
	if !filepath.IsAbs(path) {
		path = home + string(filepath.Separator) + path // not joined: a .. after a link leads elsewhere
	}
	real, err := resolve(path)
	if err != nil {
		return fmt.Sprintf("%s cannot be resolved: %v", tipstaff.Quote(path, 200), err)
	}
	rel, err := filepath.Rel(home, real)
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	switch {
	case err != nil || first == "..":
		return fmt.Sprintf("%s lies outside of %s", tipstaff.Quote(real, 200), dir)
	case strings.EqualFold(first, ".git"): // file systems that ignore case have one of them
		return fmt.Sprintf("%s belongs to git", tipstaff.Quote(real, 200))
	}
	if protected == nil {
		return ""
	}
	if why, is := protected(path); is {
		return fmt.Sprintf("%s: %s", tipstaff.Quote(rel, 200), why)
	}
	return ""
}

// mostLinks on one path are followed.
const mostLinks = 64

// resolve is where an absolute path leads, links followed also where their target does not
// exist yet: writing to such a link makes the target.
func resolve(path string) (string, error) {
	const separator = string(filepath.Separator)
	if !filepath.IsAbs(path) {
		return "", errors.New("the path is not absolute")
	}
	rest := strings.Split(path, separator)
	at := separator
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		case err != nil:
			return "", err
		}
		if links++; links > mostLinks {
			return "", errors.New("too many links")
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = separator
		}
		rest = append(strings.Split(target, separator), rest...)
	}
	return at, nil
}

// Edits are the tools that change files of a type of CLIs that asks before each call, with the
// argument that is the path.
func Edits(typ string) map[string]string {
	if t := typeOf(typ); t.hook {
		return maps.Clone(t.edits)
	}
	return nil
}

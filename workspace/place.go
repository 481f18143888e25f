package workspace

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where a path leads.
type place struct {
	named     string // what is written if a link there is replaced
	real      string // what is written if it is followed
	hardLinks uint64 // names of the file that is there; 0: there is none
	folders   []visited
}

// visited is a folder on the way.
type visited struct {
	path string
	stat unix.Stat_t
}

// mostLinks on one path are followed.
const mostLinks = 64

// follow is where a path leads, links followed also where their target does not exist yet:
// writing to such a link makes the target. base is a folder without links in its path.
func follow(base, path string) (place, error) {
	const separator = "/"
	at, rest := separator, path
	if strings.HasPrefix(path, base) && len(path) > len(base) && path[len(base)] == '/' {
		at, rest = base, path[len(base)+1:]
	}
	p := place{folders: make([]visited, 0, 8)}
	straight := true // path[:len(at)] is at
	first := visited{path: at}
	if unix.Lstat(at, &first.stat) == nil {
		p.folders = append(p.folders, first)
	}
	for links := 0; ; {
		name, more, last := rest, "", true
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			name, more, last = rest[:i], rest[i+1:], strings.Trim(rest[i+1:], "/.") == "" && !strings.Contains(rest[i+1:], "..")
		}
		switch name {
		case "", ".":
		case "..":
			at, straight = filepath.Dir(at), false
		default:
			next := visited{}
			if end := len(at) + 1 + len(name); straight && len(at) > 1 && end <= len(path) && path[len(at)+1:end] == name && path[:len(at)] == at {
				next.path = path[:end]
			} else {
				next.path = join(at, name)
			}
			if last && p.named == "" {
				p.named = next.path
			}
			err := unix.Lstat(next.path, &next.stat)
			switch {
			case err == unix.ENOENT || err == unix.ENOTDIR:
				p.hardLinks = 0
			case err != nil:
				return p, &fs.PathError{Op: "lstat", Path: next.path, Err: err}
			case next.stat.Mode&unix.S_IFMT == unix.S_IFLNK:
				if links++; links > mostLinks {
					return p, &fs.PathError{Op: "follow", Path: path, Err: unix.ELOOP}
				}
				straight = false
				target, err := os.Readlink(next.path)
				if err != nil {
					return p, err
				}
				if filepath.IsAbs(target) {
					at = separator
				}
				rest = target + separator + more
				continue
			case next.stat.Mode&unix.S_IFMT == unix.S_IFDIR:
				p.folders = append(p.folders, next)
			default:
				p.hardLinks = uint64(next.stat.Nlink)
			}
			at = next.path
		}
		if rest = more; rest == "" {
			p.real = at
			p.named = cmp.Or(p.named, at)
			return p, nil
		}
	}
}

// leads is where an absolute path leads. A part of it that cannot be followed keeps its name.
func leads(path string) place {
	p, err := follow("/", path)
	if err != nil && path != "/" {
		at := join(leads(filepath.Dir(path)).real, filepath.Base(path))
		p = place{named: at, real: at}
	}
	return p
}

func join(dir, name string) string {
	if dir == "/" {
		return dir + name
	}
	return dir + "/" + name
}

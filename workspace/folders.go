package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff/filestamp"
)

// folderFacts remembers what folders hold: whether one is a workspace, or a repository that
// is no .git, is looked at again when the folder has changed.
type folderFacts struct {
	mu     sync.Mutex
	known  map[string]folderFact
	inners map[string]innerFact // of workspaces in this one, by folder
}

// innerFact is what the manifest of a workspace in this one protects.
type innerFact struct {
	manifest   filestamp.Stamp // zero: there is none
	protection *Protection
}

// folderFact is what one folder holds.
type folderFact struct {
	stamp     filestamp.Stamp
	workspace bool
	has       uint8 // bits of repositoryNames
}

// repositoryNames are what git finds a repository by, whatever its folder is called.
var repositoryNames = []string{"HEAD", "objects", "refs", "commondir"}

const (
	hasHead = 1 << iota
	hasObjects
	hasRefs
	hasCommon
)

// mostFolders are remembered.
const mostFolders = 10_000

func (f *folderFacts) of(v visited) folderFact {
	stamp := filestamp.Stamp{Changed: v.stat.Ctim.Nano(), Device: int64(v.stat.Dev), Inode: int64(v.stat.Ino)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fact, ok := f.known[v.path]; ok && fact.stamp == stamp {
		return fact
	}
	settled := stamp.Settled()
	fact := folderFact{stamp: stamp, workspace: isWorkspace(v.path), has: repositoryNamesIn(v.path)}
	delete(f.known, v.path)
	delete(f.inners, v.path)
	if settled && len(f.known) < mostFolders {
		f.known[v.path] = fact
	}
	return fact
}

// repository reports whether a path below a folder belongs to a repository that the folder
// is, or would make it one.
func (f folderFact) repository(folder, path string) bool {
	if !inside(folder, path) || len(path) == len(folder) {
		return false
	}
	first, _, _ := strings.Cut(below(folder, path), "/")
	return isRepository(f.has | repositoryBits[fold(first)])
}

// isRepository reports whether git takes a folder for a repository that has these names.
func isRepository(has uint8) bool {
	return has&hasHead != 0 && (has&hasObjects != 0 && has&hasRefs != 0 || has&hasCommon != 0)
}

// repositoryBits are the bits of repositoryNames, folded.
var repositoryBits = func() map[string]uint8 {
	bits := map[string]uint8{}
	for i, name := range repositoryNames {
		bits[fold(name)] = 1 << i
	}
	return bits
}()

// repositoryNamesIn are the bits of the names that a folder has.
func repositoryNamesIn(folder string) (has uint8) {
	for i, name := range repositoryNames {
		if exists(join(folder, name)) {
			has |= 1 << i
		}
	}
	return has
}

// repositories are the folders, as places says, that git would take for repositories if these
// files were there beside what is: none of them alone need make a folder one.
func repositories(paths []string, place func(path string) string) map[string]bool {
	has, spelled := map[string]uint8{}, map[string]map[string]bool{}
	for _, path := range paths {
		for i := 0; i < len(path); {
			end := len(path)
			if n := strings.IndexByte(path[i:], '/'); n >= 0 {
				end = i + n
			}
			if bit := repositoryBits[fold(path[i:end])]; bit != 0 {
				folder := path[:max(i-1, 0)]
				at := place(folder)
				if has[at] |= bit; spelled[at] == nil {
					spelled[at] = map[string]bool{}
				}
				spelled[at][folder] = true
			}
			i = end + 1
		}
	}
	var found map[string]bool
	for at, bits := range has {
		for folder := range spelled[at] {
			bits |= repositoryNamesIn(folder)
		}
		if isRepository(bits) {
			if found == nil {
				found = map[string]bool{}
			}
			found[at] = true
		}
	}
	return found
}

// inner is the protection of another workspace in a folder.
func (f *folderFacts) inner(dir string, a Around) *Protection {
	fact := innerFact{}
	info, err := os.Stat(join(dir, FileName))
	if err == nil {
		fact.manifest = filestamp.Of(info)
	}
	f.mu.Lock()
	had, ok := f.inners[dir]
	f.mu.Unlock()
	if ok && had.manifest == fact.manifest {
		return had.protection
	}
	keep := err != nil || fact.manifest.Settled()
	fact.protection = nestedIn(dir, f, a)
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.known[dir]; ok && keep { // it is looked at again when the folder has changed
		f.inners[dir] = fact
	}
	return fact.protection
}

// nestedIn is what the manifest of another workspace protects, as far as it can be read.
func nestedIn(dir string, f *folderFacts, a Around) *Protection {
	var m *Manifest
	if src, ok := smallFile(filepath.Join(dir, FileName)); ok {
		m = Salvage(Beside(dir), src)
	}
	p := Protect(m, Around{Dir: dir, Env: a.Env})
	p.nested, p.folders = true, f
	p.build()
	return p
}

func isWorkspace(dir string) bool {
	return exists(join(dir, ownFolder)) || exists(join(dir, FileName))
}

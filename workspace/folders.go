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
	fact := folderFact{stamp: stamp, workspace: isWorkspace(v.path)}
	for i, name := range repositoryNames {
		if exists(join(v.path, name)) {
			fact.has |= 1 << i
		}
	}
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
	has := f.has
	for i, name := range repositoryNames {
		if strings.EqualFold(first, name) {
			has |= 1 << i
		}
	}
	return has&hasHead != 0 && (has&hasObjects != 0 && has&hasRefs != 0 || has&hasCommon != 0)
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

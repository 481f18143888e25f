package workspace

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Around is what a workspace stands in, for [Protect].
type Around struct {
	Dir   string   // the workspace
	State string   // what is kept for the user; "": nothing is
	Named []string // absolute paths that a command line names in the place of the manifest
	Env   func(string) string
}

// Protection is what runs may not write in a workspace: what decides about them, code that
// is started, and what others obey. Whoever writes for a run asks it: built-in tools,
// what workers are allowed, exec for the folder it is started in, and who applies changes.
// It is made once for a run, when it is first asked.
type Protection struct {
	m      *Manifest
	around Around
	build  func()

	// Made by build:
	dir       string           // the workspace, links followed
	state     string           // likewise, folded
	names     map[string]named // at any depth
	root      string           // dir, folded
	paths     map[string]named // folded absolute paths: these and what is below them
	above     map[string]named // folders that these lie in, which nothing takes the place of
	code      named            // all code in the workspace; rule 0: it is not protected
	codeEvery named            // code wherever a program may be started
	builds    map[string]named // names of files that such programs are told by, at any depth
	linked    []string         // patterns, folded, of what worktrees have a link to, and what is in it
	outer     []*Protection    // of workspaces that this one lies in
	hard      []string         // files and folders whose files have no other name
	writable  []string         // patterns
	folders   *folderFacts     // what is known of folders
	nested    bool             // it is that of a workspace in, or around, another

	repositories map[string]bool // folded: folders that a change would make repositories

	copy     string // a copy of the workspace that is written in; "": the workspace itself
	reviewed bool   // a person sees what is written before it is in the workspace
}

// Finding is why something is not written.
type Finding struct {
	Rule Rule
	Why  string

	opens bool   // servers.builtin.writable may allow it
	build string // the name that it has to say for that; "": as the rule says
	told  bool   // nobody refuses it
}

// Protect is what runs may not write. m is the manifest as it stands; nil: there is none.
func Protect(m *Manifest, a Around) *Protection {
	p := &Protection{m: m.orNone(), around: a}
	if p.around.Env == nil {
		p.around.Env = os.Getenv
	}
	p.build = sync.OnceFunc(p.make)
	return p
}

// Copy is the same for a copy of the workspace in dir: a worktree, which has all of its files
// under other paths, and which a person looks at before anything comes out of it.
func (p *Protection) Copy(dir string) *Protection {
	p.build()
	q := *p
	q.copy, q.reviewed = leads(dir).real, true
	return &q
}

// Reviewed is the same for changes that a person has looked at.
func (p *Protection) Reviewed() *Protection {
	p.build()
	q := *p
	q.reviewed = true
	return &q
}

// Making is the same for a change that has these files come to be, absolute paths: beside what is
// there they may make a folder a repository, though none of them does alone.
func (p *Protection) Making(paths []string) *Protection {
	p.build()
	q := *p
	q.repositories = repositories(paths, p.folded)
	return &q
}

// Protected says why nothing of a run writes a file, or makes one in its place; false: it may.
func (p *Protection) Protected(path string) (why string, protected bool) {
	f := p.find(path, false).closed
	return f.Why, f.Rule != 0
}

// Unwritable is Protected for the tool that writes files: it puts a new file in the place of
// what is there, also of a link, and may be narrowed further.
func (p *Protection) Unwritable(path string) (why string, unwritable bool) {
	is := p.find(path, true)
	switch {
	case is.closed.Rule != 0 || len(p.writable) == 0:
		return is.closed.Why, is.closed.Rule != 0
	case !p.matches(is.place.named):
		return "servers.builtin.writable does not name it: " + strings.Join(p.writable, ", "), true
	}
	return "", false
}

// Hidden says why no tool reads what is at a path.
func (p *Protection) Hidden(path string) (why string, hidden bool) {
	p.build()
	place, err := follow(p.base(), p.absolute(path))
	if err != nil {
		return "", false // it cannot be opened either
	}
	for part := range strings.SplitSeq(fold(p.within(place.real)), "/") {
		if part == ownFolder {
			return whyOwn, true
		}
	}
	if p.kept(place.real, false) || place.hardLinks > 1 && sameIn(filepath.Join(p.dir, ownFolder), place.real) {
		return whyOwn, true
	}
	return "", false
}

// Change is Protected, with the rule, for a file that is about to be changed by somebody who asks
// whether it may: also one that servers.builtin.writable opens is found. Of several findings it
// is the one of the strictest rule. opened are also files that runs write, and that are told.
func (p *Protection) Change(path string) (f Finding, opened, found bool) {
	is := p.find(path, true)
	return is.all, is.closed.Rule == 0, is.all.Rule != 0
}

// findings are the strictest of one path. Rule 0: there is none.
type findings struct {
	place  place
	all    Finding
	closed Finding // of those that servers.builtin.writable does not open
}

// heed takes another finding if it is stricter.
func (f *Finding) heed(other Finding) {
	if f.Rule == 0 || other.Rule < f.Rule || other.Rule == f.Rule && f.opens && !other.opens {
		*f = other
	}
}

// find looks at a path as it is written if a link there is replaced, and, unless it is, where
// that leads.
func (p *Protection) find(path string, replaced bool) (is findings) {
	p.build()
	place, err := follow(p.base(), p.absolute(path))
	if err != nil {
		is.all = Finding{Rule: RuleOwn, Why: "where it leads cannot be found out: " + err.Error()}
		is.closed = is.all
		return is
	}
	if replaced && place.real != place.named {
		place.real, place.hardLinks = place.named, 0
	}
	is.place = place
	look := func(f Finding) {
		is.all.heed(f)
		if !f.told && (!f.opens || !p.opened(place, f)) {
			is.closed.heed(f)
		}
	}
	p.at(place.named, p.reviewed, look)
	if place.real != place.named {
		p.at(place.real, p.reviewed, look)
	}
	if p.inRepository(place.named) || p.inRepository(place.real) {
		look(Finding{Rule: RuleOwn, Why: whyGit})
	}
	for _, of := range place.folders {
		facts := p.folders.of(of)
		if facts.repository(of.path, place.named) || facts.repository(of.path, place.real) {
			look(Finding{Rule: RuleOwn, Why: whyGit})
		}
		if facts.workspace && of.path != p.dir && of.path != p.copy && !p.nested {
			inner := p.folders.inner(of.path, p.around)
			inner.at(place.named, p.reviewed, look)
			inner.at(place.real, p.reviewed, look)
		}
	}
	otherName := Finding{Rule: RuleObeyed, Why: "it is another name of a file that no run writes"}
	strict := is.closed.Rule != 0 && is.closed.Rule <= otherName.Rule // whole folders are not looked through for nothing
	if place.hardLinks > 1 && !strict && slices.ContainsFunc(p.hard, func(path string) bool { return sameIn(path, place.real) }) {
		look(otherName)
	}
	return is
}

// inRepository reports whether a path lies in a folder that the change makes a repository.
func (p *Protection) inRepository(path string) bool {
	if len(p.repositories) == 0 {
		return false
	}
	for at := filepath.Dir(p.folded(path)); ; at = filepath.Dir(at) {
		if p.repositories[at] {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// at looks at one path, links in it followed, for who writes it as reviewed says.
func (p *Protection) at(path string, reviewed bool, look func(Finding)) {
	folded := p.folded(path)
	within := below(p.root, folded)
	for i := 0; i < len(within); {
		end := len(within)
		if n := strings.IndexByte(within[i:], '/'); n >= 0 {
			end = i + n
		}
		p.name(within[i:end], look)
		if n, ok := p.builds[within[i:end]]; ok && !reviewed {
			look(Finding{Rule: n.rule, Why: n.why, opens: true, build: within[i:end]})
		}
		if end < len(within) && pairs[within[i:end]] {
			next := len(within)
			if n := strings.IndexByte(within[end+1:], '/'); n >= 0 {
				next = end + 1 + n
			}
			p.name(within[i:next], look)
		}
		i = end + 1
	}
	if p.kept(path, true) {
		look(Finding{Rule: RuleOwn, Why: whyOwn})
	}
	if n, ok := p.above[folded]; ok {
		look(Finding{Rule: n.rule, Why: n.why})
	}
	for at := folded; ; {
		if n, ok := p.paths[at]; ok {
			look(Finding{Rule: n.rule, Why: n.why})
		}
		i := strings.LastIndexByte(at, '/')
		if i <= 0 {
			break
		}
		at = at[:i]
	}
	p.codeAt(folded, reviewed, look)
	p.linkedAt(folded, look)
	for _, outer := range p.outer {
		outer.at(p.original(path), reviewed, look)
	}
}

// name looks at a name, or at two of a path.
func (p *Protection) name(name string, look func(Finding)) {
	if n, ok := p.names[name]; ok {
		look(Finding{Rule: n.rule, Why: n.why, opens: n.rule == RuleSetting})
	}
	if settingKinds[filepath.Ext(name)] {
		look(Finding{Rule: RuleSetting, Why: whySetting, opens: true})
	}
	if why, ok := told[name]; ok {
		look(Finding{Rule: RuleSetting, Why: why, told: true})
	}
}

// codeAt looks whether a file is code that something loads because it is there. What a
// program such as make does in the workspace is what a person looks for who looks at a
// change.
func (p *Protection) codeAt(folded string, reviewed bool, look func(Finding)) {
	if p.code.rule == 0 && p.codeEvery.rule == 0 || !isCode(folded) {
		return
	}
	if inside(p.root, folded) && p.code.rule != 0 {
		look(Finding{Rule: p.code.rule, Why: p.code.why, opens: true})
	}
	if p.codeEvery.rule != 0 && !reviewed {
		look(Finding{Rule: p.codeEvery.rule, Why: p.codeEvery.why, opens: true})
	}
}

// linkedAt looks whether a pattern of what is linked names a file, or a folder that it lies in.
func (p *Protection) linkedAt(folded string, look func(Finding)) {
	if len(p.linked) == 0 || folded == p.root || !inside(p.root, folded) {
		return
	}
	within := below(p.root, folded)
	if slices.ContainsFunc(p.linked, func(pattern string) bool { return document.MatchPath(pattern, within) }) {
		look(Finding{Rule: RuleLinked, Why: whyLinked})
	}
}

// opened reports whether servers.builtin.writable allows what a finding refuses: an entry
// that matches, and that names what is opened. A wildcard names nothing.
func (p *Protection) opened(place place, f Finding) bool {
	opens := func(path string) bool {
		return slices.ContainsFunc(p.writable, func(glob string) bool { return p.match(glob, path) && f.openedBy(glob) })
	}
	return len(p.writable) > 0 && opens(place.named) && (place.real == place.named || opens(place.real))
}

// openedBy reports whether a pattern names what is protected: one of the names of settings, the
// name of a file that a program is told by, or the kind of a file.
func (f Finding) openedBy(glob string) bool {
	parts := strings.Split(fold(glob), "/")
	switch {
	case f.build != "":
		return slices.Contains(parts, f.build)
	case f.Rule == RuleCode:
		ext := filepath.Ext(parts[len(parts)-1])
		return kinds[ext]
	}
	for i, part := range parts {
		if settings[part] || settingKinds[filepath.Ext(part)] || i > 0 && settings[parts[i-1]+"/"+part] {
			return true
		}
	}
	return false
}

func (p *Protection) matches(path string) bool {
	return slices.ContainsFunc(p.writable, func(glob string) bool { return p.match(glob, path) })
}

func (p *Protection) match(glob, path string) bool {
	path = p.original(path)
	if !filepath.IsAbs(glob) {
		path = below(p.dir, path)
	}
	return document.MatchPath(glob, path)
}

// Opened reports whether runs may write a file of the workspace although it is code; or, if build
// is the name of a file that a program is told by, although that is in its path.
func (m *Manifest) Opened(path, build string) bool {
	f := Finding{Rule: RuleCode, build: build}
	return slices.ContainsFunc(m.orNone().Servers[builtin.Name].Writable, func(glob string) bool { return document.MatchPath(glob, path) && f.openedBy(glob) })
}

// Idle are the entries of servers.builtin.writable that open nothing, each with why.
func (p *Protection) Idle() (list []string) {
	if len(p.m.Servers[builtin.Name].Writable) == 0 {
		return nil
	}
	p.build()
	for _, glob := range p.writable {
		sample := strings.ReplaceAll(strings.ReplaceAll(glob, "**", "x"), "*", "x")
		if why, protected := p.Protected(strings.NewReplacer("?", "x", "[", "", "]", "").Replace(sample)); protected {
			list = append(list, glob+": "+why)
		}
	}
	return list
}

// base is the folder that is written in.
func (p *Protection) base() string { return cmp.Or(p.copy, p.dir) }

func (p *Protection) absolute(path string) string {
	p.build()
	if filepath.IsAbs(path) {
		return path
	}
	return p.base() + "/" + path // not joined: a .. after a link leads elsewhere
}

// within is a path as it is seen from the folder that is written in, if it lies there.
func (p *Protection) within(path string) string { return below(p.base(), path) }

// original is a path in the workspace, of one in the copy, which may be spelled otherwise.
func (p *Protection) original(path string) string {
	switch {
	case p.copy == "":
	case inside(p.copy, path):
		return p.dir + path[len(p.copy):]
	case inside(fold(p.copy), fold(path)): // which has as many parts
		parts := strings.Split(path, "/")[strings.Count(p.copy, "/")+1:]
		return strings.Join(append([]string{p.dir}, parts...), "/")
	}
	return path
}

// folded is a path in the workspace, folded, of one in the copy, too.
func (p *Protection) folded(path string) string {
	path = p.original(path)
	if inside(p.dir, path) { // which is folded already
		return p.root + fold(path[len(p.dir):])
	}
	return fold(path)
}

// kept reports whether a path lies in the folder of what is kept for the user, and in none of
// the worktrees there, or would take its place.
func (p *Protection) kept(path string, writing bool) bool {
	if p.state == "" {
		return false
	}
	path = fold(path)
	return writing && inside(path, p.state) || inside(p.state, path) && !inWorktree(filepath.Join(p.state, builtin.WorktreesFolder), path)
}

// inWorktree reports whether a path lies in a worktree, or is their folder. Under a worktree's
// name with an ending lies what git knows of it.
func inWorktree(worktrees, path string) bool {
	of, _, _ := strings.Cut(below(worktrees, path), "/")
	return path == worktrees || inside(worktrees, path) && !strings.Contains(of, ".")
}

// inside reports whether a path is dir, or lies in it.
func inside(dir, path string) bool {
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/' || dir == "/")
}

// below is a path as it is seen from a folder, if it lies in it.
func below(folder, path string) string {
	if inside(folder, path) && len(path) > len(folder) {
		return strings.TrimPrefix(path[len(folder):], "/")
	}
	return path
}

// sameIn reports whether a path is a file, or a folder that holds it.
func sameIn(path, file string) bool {
	info, err := os.Lstat(file)
	if err != nil {
		return false
	}
	found := false
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, werr error) error { // what cannot be read is passed over
		if werr != nil || d.IsDir() || at == file {
			return nil
		}
		if other, err := d.Info(); err == nil && os.SameFile(info, other) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// make reads everything that protection rests on.
func (p *Protection) make() {
	dir, err := filepath.Abs(cmp.Or(p.around.Dir, "."))
	if err != nil {
		dir = p.around.Dir
	}
	p.dir = leads(dir).real
	p.root = fold(p.dir)
	p.names, p.builds, p.paths, p.above = map[string]named{}, map[string]named{}, map[string]named{}, map[string]named{}
	if p.folders == nil {
		p.folders = &folderFacts{known: map[string]folderFact{}, inners: map[string]innerFact{}}
	}
	p.obeyed(dir)
	p.started(dir)
	p.links(dir)
	p.writable = p.m.Servers[builtin.Name].Writable
	if p.nested { // the names below hold there, too
		return
	}
	for name := range settings {
		if _, ok := p.names[name]; !ok {
			p.names[name] = named{RuleSetting, whySetting}
		}
	}
	maps.Copy(p.names, decisive)
	if p.around.State != "" {
		p.state = fold(leads(p.around.State).real)
	}
	for _, path := range gitObeys(p.dir, p.around.Env) {
		p.protect(path, named{RuleOwn, "git is told to obey " + below(p.dir, path) + ", so no run writes it"})
	}
	p.hard = append(p.hard, filepath.Join(p.dir, ownFolder), filepath.Join(p.dir, FileName), filepath.Join(p.dir, lockFile),
		filepath.Join(p.dir, gitFolder, "config"), filepath.Join(p.dir, gitFolder, "hooks"))
	for up := filepath.Dir(p.dir); up != filepath.Dir(up); up = filepath.Dir(up) {
		if isWorkspace(up) {
			other := nestedIn(up, p.folders, p.around)
			other.code, other.codeEvery = named{}, named{} // the code there ends where another workspace begins
			p.outer = append(p.outer, other)
		}
	}
}

// obeyed adds what decides about runs by being named.
func (p *Protection) obeyed(dir string) {
	list := slices.Concat(p.m.Obeys(), []string{skillsFolder})
	if !p.nested {
		list = slices.Concat(list, p.around.Named, ServedBy(filepath.Join(dir, ownFolder)))
	}
	for _, path := range list {
		path = absoluteIn(dir, path)
		p.protect(path, named{RuleObeyed, "the manifest runs or obeys " + below(dir, path) + ", so no run writes it"})
	}
}

// skillsFolder is where a workspace has its skills.
const skillsFolder = "skills"

// started adds the code that the manifest has started.
func (p *Protection) started(dir string) {
	for _, c := range p.m.Commands() {
		s := c.started(dir)
		if c.Package != "" && filepath.Clean(c.Package) != "." {
			s.paths = append(s.paths, c.Package)
		}
		p.starts(s, c)
	}
}

// starts protects what one command runs.
func (p *Protection) starts(c started, of Command) {
	by := of.String()
	for _, path := range slices.Concat(c.paths, c.kept) {
		path = absoluteIn(c.dir, path)
		p.protect(path, named{RuleCode, "the manifest runs or obeys " + below(c.dir, path) + " (" + by + "), so no run writes it"})
	}
	for _, name := range c.build {
		if of.Kind == KindProgram { // as code that it finds: see codeEvery
			p.builds[fold(name)] = named{RuleCode, by + " is told by such files what to start, so no run writes them unless servers.builtin.writable names them"}
		} else {
			p.names[fold(name)] = named{RuleCode, by + " is told by such files what to start, so no run writes them"}
		}
	}
	if !c.kinds {
		return
	}
	why := named{RuleCode, by + " may load any code in the folder that it is started in, so no run writes it: give what is started a folder of its own, or name these files in servers.builtin.writable"}
	if c.runs {
		p.codeEvery = why
	} else {
		p.code = why
	}
}

// links adds what worktrees have a link to. A file there may have other names, as package
// managers give them: a change by such a name is told, for the digest is another.
func (p *Protection) links(dir string) {
	if p.m.Worktree == nil {
		return
	}
	for _, pattern := range p.m.Worktree.Link {
		if document.LiteralPath(pattern) {
			p.put(absoluteIn(dir, pattern), named{RuleLinked, whyLinked})
		} else {
			p.linked = append(p.linked, fold(pattern)+"/**")
		}
	}
}

// protect protects a path, and the file there by whatever name.
func (p *Protection) protect(path string, why named) {
	p.hard = append(p.hard, path)
	p.put(path, why)
}

// put protects a path, as it is written and as links lead, and the folders that it lies in.
func (p *Protection) put(path string, why named) {
	place := leads(path)
	for _, at := range []string{place.real, place.named} {
		at = fold(at)
		if was, ok := p.paths[at]; !ok || why.rule < was.rule {
			p.paths[at] = why
		}
		for up := filepath.Dir(at); up != filepath.Dir(up); up = filepath.Dir(up) {
			if was, ok := p.above[up]; !ok || why.rule < was.rule {
				p.above[up] = why
			}
		}
	}
}

package document

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Files says where a program works. It is a word, or an object that says what is made ready
// in a worktree.
type Files struct {
	Mode    string // "": not said
	Prepare Preparation
}

// ReadDocument implements [Reader].
func (x *Files) ReadDocument(f *Fields, name string, v *Value) {
	if v.Kind != Object {
		x.Mode = f.Word(name, "", FilesWorktree, FilesCheckout, FilesNone)
		return
	}
	x.Mode = FilesWorktree
	f.inner(name, v, func(f *Fields) { f.Decode(&x.Prepare) })
}

// Wanted reports whether the program works on files.
func (x Files) Wanted() bool { return x.Mode != "" && x.Mode != FilesNone }

// Preparation is what a worktree is given beside the files of its commit, before anybody
// works there.
type Preparation struct {
	Copy       []string  `json:"copy,omitempty" doc:""`                // patterns of ignored files of the checkout
	Link       []string  `json:"link,omitempty" doc:""`                // the same, of files and folders that stay where they are
	Setup      []Command `json:"setup,omitempty" doc:""`               // in their order
	Teardown   []Command `json:"teardown,omitempty" doc:""`            // when the worktree goes
	Submodules bool      `json:"submodules,omitempty" doc:""`          // their files are written, too
	LFS        bool      `json:"lfs,omitempty" doc:""`                 // files have the contents that git LFS keeps of them
	Ports      int       `json:"ports,omitempty" doc:",min=1,max=100"` // how many free ports it has of its own
}

// Limits of a preparation.
const (
	maxPatterns = 200
	maxCommands = 50
)

// IsZero reports whether nothing is made ready.
func (p Preparation) IsZero() bool {
	return len(p.Copy)+len(p.Link)+len(p.Setup)+len(p.Teardown)+p.Ports == 0 && !p.Submodules && !p.LFS
}

// With is both: what p says first, and what more says beside it.
func (p Preparation) With(more Preparation) Preparation {
	return Preparation{
		Copy: union(p.Copy, more.Copy), Link: union(p.Link, more.Link),
		Setup: slices.Concat(p.Setup, more.Setup), Teardown: slices.Concat(more.Teardown, p.Teardown),
		Submodules: p.Submodules || more.Submodules, LFS: p.LFS || more.LFS, Ports: max(p.Ports, more.Ports),
	}
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// CheckDocument implements [Checker].
func (p *Preparation) CheckDocument(f *Fields) {
	for _, name := range []string{"copy", "link"} {
		items := itemsOf(f.Get(name))
		if len(items) > maxPatterns {
			f.Report(CodeLimit, items[maxPatterns].At, name, "%s has %d patterns: %d are the most", name, len(items), maxPatterns)
		}
		for _, item := range items {
			if why := placeFault(item.Text); item.Kind == Text && why != "" {
				f.Report(CodeFieldInvalid, item.At, name, "%q cannot be a pattern of %s: %s", Brief(item.Text), name, why)
			}
		}
	}
	for _, name := range []string{"setup", "teardown"} {
		if items := itemsOf(f.Get(name)); len(items) > maxCommands {
			f.Report(CodeLimit, items[maxCommands].At, name, "%s has %d commands: %d are the most", name, len(items), maxCommands)
		}
	}
}

// placeFault is why a pattern names nothing that a worktree can be given.
func placeFault(p string) string {
	if why := PatternFault(p); why != "" {
		return why
	}
	for segment := range strings.SplitSeq(p, "/") {
		if OwnFolder(segment) {
			return segment + " is never copied or linked"
		}
	}
	if path.Clean(p) == "**" || path.Clean(p) == "*" {
		return "it matches everything, and so builds, caches and logs; name what is needed"
	}
	return ""
}

// OwnFolder reports whether a file or folder of this name belongs to git or to Tipstaff, at
// whatever depth it lies. File systems that fold case know it by others, too.
func OwnFolder(name string) bool {
	name = strings.ToLower(name)
	return name == ".git" || name == ".tipstaff"
}

// Command is a program with its arguments, and how long it may take. It is written as a list,
// or as an object with run and timeout.
type Command struct {
	Run     []string `json:"run" doc:",required"`
	Timeout Duration `json:"timeout,omitempty" doc:",min=1ms,max=24h"`
}

// DefaultSetupTimeout is how long a set-up may take that says nothing else: most of them
// install things.
const DefaultSetupTimeout = 20 * time.Minute

// Limit is how long it may take.
func (c Command) Limit() time.Duration {
	if c.Timeout == 0 {
		return DefaultSetupTimeout
	}
	return time.Duration(c.Timeout)
}

// ReadDocument implements [Reader].
func (c *Command) ReadDocument(f *Fields, name string, v *Value) {
	run := v
	if v.Kind == Object {
		f.inner(name, v, func(f *Fields) {
			type plain Command // which does not read itself
			f.Decode((*plain)(c))
		})
		if run = v.Get("run"); run == nil || run.Kind != List {
			return
		}
	} else {
		f.list(reflect.ValueOf(&c.Run).Elem(), name, v, tag{})
		if v.Kind != List {
			return
		}
	}
	if len(run.Items) == 0 || len(c.Run) > 0 && c.Run[0] == "" {
		f.Report(CodeFieldInvalid, run.At, name, "%s is empty; it names a program and its arguments", name)
	}
}

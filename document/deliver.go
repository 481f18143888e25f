package document

import (
	"cmp"
	"path"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Where a program works.
const (
	FilesWorktree = "worktree" // of its own
	FilesCheckout = "checkout" // the user's
	FilesNone     = "none"
)

// Deliver says what of the worktree is handed over at the end of a program, and after
// which checks. The block is the same in plans and pipelines.
type Deliver struct {
	Base      string         `doc:"base"`       // a revision
	Paths     []string       `doc:"paths"`      // patterns of what may change; nil: everything
	Release   string         `doc:"release"`    // CEL over outputs and waivers; "": there is none
	CorrectAt string         `doc:"correct_at"` // where a follow-up begins: a stage, or a leaf of a plan; "": at the start
	Checks    []DeliverCheck `doc:"checks"`
}

// DeliverCheck is a command that must succeed on what is delivered.
type DeliverCheck struct {
	Name     string        `doc:"name,required" json:"name"`
	Run      []string      `doc:"run,required" json:"run"`
	Timeout  time.Duration `doc:"timeout" json:"timeout,omitempty"`
	Required bool          `json:"required"`
	In       string        `doc:"in,in=|clean|worktree" json:"in,omitempty"` // where it runs; "": in a clean checkout
}

// DefaultCheckTimeout is how long a check may take that says nothing else.
const DefaultCheckTimeout = 10 * time.Minute

// CheckDocument fills in defaults and checks what a tag cannot say.
func (d *Deliver) CheckDocument(f *Fields) {
	d.Base = cmp.Or(d.Base, "HEAD")
	for _, item := range itemsOf(f.Get("paths")) {
		if why := PatternFault(item.Text); item.Kind == Text && why != "" {
			f.Report(CodeFieldInvalid, item.At, "paths", "%q cannot be a pattern of paths: %s", Brief(item.Text), why)
		}
	}
	names := map[string]bool{}
	for _, item := range itemsOf(f.Get("checks")) {
		name := item.Get("name")
		if name == nil || name.Kind != Text {
			continue
		}
		if names[name.Text] {
			f.Report(CodeFieldInvalid, name.At, "checks", "two checks are called %q", Brief(name.Text))
		}
		names[name.Text] = true
	}
}

func itemsOf(v *Value) []*Value {
	if v == nil || v.Kind != List {
		return nil
	}
	return v.Items
}

// PatternFault is why a text is no pattern for [MatchPath] that is relative to a folder; "": it is one.
func PatternFault(p string) string {
	switch {
	case p == "":
		return "it is empty"
	case strings.HasPrefix(p, "/"), strings.HasPrefix(p, "./"), strings.HasSuffix(p, "/"):
		return "it is relative to the project, like src/**"
	}
	for segment := range strings.SplitSeq(p, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return "a bracket is not closed"
		}
		if segment == "" || segment == "." || segment == ".." || segment != "**" && strings.Contains(segment, "**") {
			return "each of its parts is a name, a pattern of a name, or **"
		}
	}
	return ""
}

// CheckDocument: a check that says nothing else is required.
func (c *DeliverCheck) CheckDocument(f *Fields) {
	c.Required = f.Boolean("required", true)
	if c.In == tipstaff.InClean { // which is the default
		c.In = ""
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultCheckTimeout)
	if v := f.Get("name"); v != nil && v.Kind == Text && !IsName(c.Name) {
		f.Report(CodeFieldInvalid, v.At, "name", "%q cannot name a check: 1 to 64 of A-Z, a-z, 0-9, _ and -", Brief(c.Name))
	}
	if v := f.Get("run"); v != nil && v.Kind == List && (len(v.Items) == 0 || len(c.Run) > 0 && c.Run[0] == "") {
		f.Report(CodeFieldInvalid, v.At, "run", "run is empty; it names a program and its arguments")
	}
}

// CheckFiles checks that what a program delivers, and where it works, fit together.
func CheckFiles(f *Fields, files string, d *Deliver) {
	if d == nil || files == "" || files == FilesWorktree {
		return
	}
	if m := f.Value.Member("files"); m != nil {
		f.Report(CodeFieldInvalid, m.At, "files", "files is %s, but deliver needs a worktree", files)
	}
}

package tipstaff

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// delivery is what would be handed over: files and commit first, then what is known of
// them. Before all that stands what puts it in question.
func (s *shower) delivery(d DeliverySubject) {
	linked, others := aboutLinks(d.Notices)
	s.told(linked)
	s.obeyed(d.Obeyed)
	s.changes(d.Files, d.Added, d.Removed, d.Paths)
	s.folders(d.Folders)
	s.field(0, "base", d.Base)
	s.field(0, "commit", d.Commit)
	s.field(0, "approve makes the branch", strings.TrimPrefix(d.Branch, "refs/heads/"))
	s.field(0, "apply changes the checkout", d.Checkout)
	s.field(0, "worktree", there(d.Worktree, d.Present))
	s.receipts(d.Checks, d.Tree)
	if d.Release != ReleaseNone {
		s.field(0, "release", strings.TrimSuffix(d.Release+": "+d.ReleaseReason, ": "))
	}
	s.named("outside the paths of the delivery", d.ScopeViolations)
	for i, f := range d.Findings {
		name := joinNames("findings", strconv.Itoa(i))
		s.value(0, name, "finding of "+f.Stage, quote(strings.TrimSpace(f.Severity+" "+f.Title)))
	}
	s.told(others)
	s.blocked(d.Blocked)
	s.field(0, "default", d.DefaultAction)
	s.field(0, "tree", d.Tree)
	s.field(0, "digest of the difference", d.Patch)
}

// changes are the first of so many files that have changed.
func (s *shower) changes(files int, added, removed int64, first []FileChange) {
	s.field(0, "changed", CountOfChanges(files, added, removed))
	size := 0
	for _, f := range first {
		size += len(f.Path) + len(f.Old)
	}
	s.each(1, "files", size, len(first), func(i int) {
		f := first[i]
		s.Parts = append(s.Parts, ShownPart{Name: joinNames("files", strconv.Itoa(i)), Text: f.Path, Bytes: len(f.Path)})
		s.line(1, f.String())
	}, func(i int) int { return len(first[i].Path) + len(first[i].Old) })
	if more := files - len(first); more > 0 {
		s.line(1, fmt.Sprintf("… and %d more files, which the whole difference has …", more))
		s.Whole = false
	}
}

var obeyedText = map[string]string{
	ObeyedDecides: "decides", ObeyedElsewhere: "is obeyed", ObeyedLeaves: "leads elsewhere", ObeyedStarted: "can be started",
	ObeyedRepository: "another repository", ObeyedLeftOut: "not delivered", ObeyedRaw: "not filtered",
}

// String says first what is to be known of the file.
func (f ObeyedFile) String() string {
	text := cmp.Or(obeyedText[f.Kind], f.Kind) + "  " + obeyedName(f.Path) + "  " + f.Reason
	switch f.Apply {
	case ApplyNever:
		text += "  (apply never changes it)"
	case ApplyAsks:
		text += "  (apply asks once more)"
	}
	return text
}

// obeyedName is a path in quotes where it could look like what is said of it, or like two.
func obeyedName(path string) string {
	if ShellWord(path) == path {
		return path
	}
	return strconv.Quote(path)
}

// obeyed are the files that are named first, all of them.
func (s *shower) obeyed(files []ObeyedFile) {
	for _, f := range files {
		s.line(0, f.String())
	}
}

// folders say where the files are that were not listed.
func (s *shower) folders(folders []FolderChange) {
	for _, f := range folders {
		s.line(2, fmt.Sprintf("%s  %s", cmp.Or(f.Path, "at the top"), CountOfChanges(f.Files, f.Added, f.Removed)))
	}
}

// CountOfChanges says how much has changed.
func CountOfChanges(files int, added, removed int64) string {
	return fmt.Sprintf("%s, +%d −%d lines", Plural(files, "file"), added, removed)
}

// String is a file with what has become of it.
func (f FileChange) String() string {
	text := fmt.Sprintf("%-8s %s", f.Status, f.Path)
	if f.Old != "" {
		text += " (was " + f.Old + ")"
	}
	switch {
	case f.Submodule:
		text += "  submodule"
	case f.Binary:
		text += "  binary"
	default:
		text += fmt.Sprintf("  +%d −%d", f.Added, f.Removed)
	}
	if f.Untracked {
		text += "  (not added to git)"
	}
	return text
}

func (s *shower) receipts(checks []Receipt, tree string) {
	for _, c := range checks {
		how := fmt.Sprintf("exit %d", c.ExitCode)
		switch {
		case c.Code != "":
			how = c.Code + ": " + c.Message
		case c.ExitCode == 0 && !c.Passed(tree):
			how = "passed, but on another tree"
		case c.ExitCode == 0:
			how = "passed"
		}
		if c.In == InWorktree {
			how += "  (in the worktree, with what lies there)"
		}
		if !c.Required {
			how += "  (not required)"
		}
		s.line(0, fmt.Sprintf("check %s: %s  %s", c.Name, strings.Join(c.Argv, " "), how))
	}
}

func (s *shower) named(what string, names []string) {
	if len(names) > 0 {
		s.line(0, what)
	}
	for _, n := range names {
		s.line(1, n)
	}
}

// aboutLinks are the notices that what is linked has changed, and the others.
func aboutLinks(notices []Notice) (linked, others []Notice) {
	for _, n := range notices {
		if n.Code == LinkedChanged {
			linked = append(linked, n)
		} else {
			others = append(others, n)
		}
	}
	return linked, others
}

func (s *shower) told(notices []Notice) {
	for _, n := range notices {
		s.line(0, "notice "+n.Code+": "+n.Message)
	}
}

func (s *shower) blocked(actions []BlockedAction) {
	for _, b := range actions {
		s.line(0, fmt.Sprintf("%s is blocked, %s: %s", b.Action, b.Code, b.Reason))
	}
}

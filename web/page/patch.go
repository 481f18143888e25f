package page

import (
	"fmt"
	"strings"
)

const (
	patchLines = 4000 // that are shown of a patch
	patchOpen  = 400  // lines of a file that is shown unfolded
)

// patch is a unified difference as it is shown.
type patch struct {
	Files          []patchFile
	Added, Removed int
	Cut            bool // it is longer than what is shown
}

// patchFile is what has changed in one file.
type patchFile struct {
	Name           string
	Added, Removed int
	Lines          []patchLine
}

// Open reports whether it is short enough to be shown unfolded.
func (f patchFile) Open() bool { return len(f.Lines) <= patchOpen }

// patchLine is one line. Old and New are its numbers in both files, 0 where it has none.
type patchLine struct {
	Class    string // added, removed, place, note or ""
	Old, New int
	Text     string
}

// readPatch reads at most so many lines of a unified difference. What it does not understand
// is shown as it stands.
func readPatch(text string, most int) *patch {
	p := &patch{}
	var r patchReader
	lines := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(p.Files) == 0 || strings.HasPrefix(line, "diff --git ") {
			name := strings.TrimPrefix(line, "diff --git ")
			if _, to, ok := strings.Cut(name, " b/"); ok {
				name = to
			}
			p.Files, r = append(p.Files, patchFile{Name: name}), patchReader{}
			if strings.HasPrefix(line, "diff --git ") {
				continue
			}
		}
		if lines++; lines > most {
			p.Cut = true
			break
		}
		f := &p.Files[len(p.Files)-1]
		l := r.line(line)
		switch l.Class {
		case "added":
			f.Added++
			p.Added++
		case "removed":
			f.Removed++
			p.Removed++
		}
		f.Lines = append(f.Lines, l)
	}
	return p
}

// patchReader knows where in a hunk it is: a removed line may itself begin with "--".
type patchReader struct {
	old, new         int // of the next line
	oldLeft, newLeft int // lines of the hunk that are to come
}

func (r *patchReader) line(line string) patchLine {
	if r.oldLeft <= 0 && r.newLeft <= 0 {
		return r.outside(line)
	}
	l := patchLine{Text: line}
	switch {
	case strings.HasPrefix(line, "+"):
		l.Class, l.New = "added", r.new
		r.new, r.newLeft = r.new+1, r.newLeft-1
	case strings.HasPrefix(line, "-"):
		l.Class, l.Old = "removed", r.old
		r.old, r.oldLeft = r.old+1, r.oldLeft-1
	case strings.HasPrefix(line, `\`):
		l.Class = "note"
	default:
		l.Old, l.New = r.old, r.new
		r.old, r.new, r.oldLeft, r.newLeft = r.old+1, r.new+1, r.oldLeft-1, r.newLeft-1
	}
	return l
}

// outside reads a line between hunks.
func (r *patchReader) outside(line string) patchLine {
	ranges, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return patchLine{Class: "note", Text: line}
	}
	ranges, _, _ = strings.Cut(ranges, " @@")
	before, after, _ := strings.Cut(ranges, " +")
	r.old, r.oldLeft = hunkRange(before)
	r.new, r.newLeft = hunkRange(after)
	return patchLine{Class: "place", Text: line}
}

// hunkRange reads "12,3", or "12", which is one line.
func hunkRange(text string) (from, many int) {
	if n, _ := fmt.Sscanf(text, "%d,%d", &from, &many); n < 2 {
		many = 1
	}
	return from, many
}

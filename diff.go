package tipstaff

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// DiffRequest asks for the changes of a run.
type DiffRequest struct {
	Run   ID     `json:"run_id"`
	Mode  string `json:"mode,omitempty"`      // stat, preview or full; "": stat
	Path  string `json:"path,omitempty"`      // a file, else all below it; by its old or new name; "": all
	Stage string `json:"stage,omitempty"`     // <stage>#<visit>; "": the newest that is recorded
	Max   int    `json:"max_bytes,omitempty"` // of the text; 0: 200,000
}

// DiffOf is what has changed.
type DiffOf struct {
	Found     bool         `json:"found"`
	Stage     string       `json:"stage,omitempty"` // that has left it; "": it is that of the end
	Base      string       `json:"base,omitempty"`
	Tree      string       `json:"tree,omitempty"`
	Patch     string       `json:"patch_digest,omitempty"`
	Files     []FileChange `json:"files"`
	Added     int64        `json:"added"`
	Removed   int64        `json:"removed"`
	Text      string       `json:"text,omitempty"` // of preview and full: a unified diff
	Truncated bool         `json:"truncated,omitempty"`
}

// Modes of a [DiffRequest].
const (
	DiffStat    = "stat"
	DiffPreview = "preview" // the first lines of each file
	DiffFull    = "full"
)

const (
	previewLines   = 40
	defaultDiffMax = 200_000
	largestDiffMax = 2_000_000
)

// DiffReader is the part of [Reader] that Diff needs.
type DiffReader interface {
	EventReader
	Artifact(ctx context.Context, run ID, digest string) ([]byte, error)
}

// Diff is what a run, or one of its stages, has changed.
func Diff(ctx context.Context, r DiffReader, req DiffRequest) (DiffOf, error) {
	d := DiffOf{Files: []FileChange{}}
	switch req.Mode {
	case "":
		req.Mode = DiffStat
	case DiffStat, DiffPreview, DiffFull:
	default:
		return d, Errorf(InvalidArgument, "%q is no mode of a difference: it is stat, preview or full", req.Mode)
	}
	if req.Max == 0 {
		req.Max = defaultDiffMax
	}
	if req.Max < 1 || req.Max > largestDiffMax {
		return d, Errorf(InvalidArgument, "max_bytes is %d; it must be from 1 to 2,000,000", req.Max)
	}
	var recorded DiffRecorded
	for e, err := range r.Events(ctx, EventsRequest{Run: req.Run}) {
		if err != nil {
			return d, err
		}
		if b := BodyOf[DiffRecorded](&e); e.Kind == KindDiffRecorded && (req.Stage == "" || b.Stage == req.Stage) {
			recorded, d.Found = b, true
		}
	}
	if !d.Found {
		return d, nil
	}
	d.Stage, d.Base, d.Tree, d.Patch = recorded.Stage, recorded.Base, recorded.Tree, recorded.Patch
	list, err := r.Artifact(ctx, req.Run, recorded.List)
	if err != nil {
		return d, err
	}
	var all []FileChange
	if err := json.Unmarshal(list, &all); err != nil {
		return d, Errorf(Integrity, "the list of changed files of run %s cannot be read", req.Run)
	}
	selects := selection(all, req.Path)
	shown := map[string]bool{}
	for _, f := range all {
		if selects(f) {
			d.Files, shown[f.Path] = append(d.Files, f), true
			d.Added, d.Removed = d.Added+f.Added, d.Removed+f.Removed
		}
	}
	if req.Mode == DiffStat || len(d.Files) == 0 {
		return d, nil
	}
	patch, err := r.Artifact(ctx, req.Run, recorded.Patch)
	if err != nil {
		return d, err
	}
	d.text(patch, all, shown, req, recorded.Truncated)
	return d, nil
}

// selection tells which files a path means: the one of that name, else those below it.
func selection(all []FileChange, path string) func(FileChange) bool {
	if path == "" {
		return func(FileChange) bool { return true }
	}
	exact := func(f FileChange) bool { return f.Path == path || f.Old == path }
	for _, f := range all {
		if exact(f) {
			return exact
		}
	}
	below := strings.TrimSuffix(path, "/") + "/"
	return func(f FileChange) bool { return strings.HasPrefix(f.Path, below) || strings.HasPrefix(f.Old, below) }
}

// text takes the parts of the patch that are asked for. A patch has the files in the order
// of the list, as far as it goes.
func (d *DiffOf) text(patch []byte, all []FileChange, shown map[string]bool, req DiffRequest, short bool) {
	var out bytes.Buffer
	parts := PatchParts(patch)
	for _, f := range all {
		n := min(f.PatchParts(), len(parts))
		part := bytes.Join(parts[:n], nil)
		parts = parts[n:]
		if !shown[f.Path] {
			continue
		}
		d.Truncated = d.Truncated || n == 0 && short // it is among what was left out
		if req.Mode == DiffPreview {
			lines := bytes.SplitAfterN(part, []byte("\n"), previewLines+1)
			if len(lines) > previewLines && len(lines[previewLines]) > 0 {
				part, d.Truncated = bytes.Join(lines[:previewLines], nil), true
			}
		}
		out.Write(part)
	}
	text := out.String()
	if len(text) > req.Max {
		text, d.Truncated = head(text, req.Max), true
	}
	d.Text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(d.Text) > req.Max {
		d.Text = head(d.Text, req.Max)
	}
}

// PatchParts are the parts of a patch, one for each file; for one that became a link, or was
// one, two: what it was goes, and what it is comes.
func PatchParts(patch []byte) (parts [][]byte) {
	for mark := []byte("\ndiff --git "); len(patch) > 0; {
		n := bytes.Index(patch, mark)
		if n < 0 {
			return append(parts, patch)
		}
		parts, patch = append(parts, patch[:n+1]), patch[n+1:]
	}
	return parts
}

// PatchParts is how many parts of a patch are about the file.
func (f FileChange) PatchParts() int {
	if f.Status == FileRetyped {
		return 2
	}
	return 1
}

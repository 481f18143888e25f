package page

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

const (
	imageMost = 8 << 20
	filesPage = 200
)

// filesOf is what a run keeps.
type filesOf struct {
	*runView
	Files []tipstaff.EvidenceFile
	Total int
	Next  int // where the next page begins; 0: there is none
}

// files lists the program, the frozen documents, and what the run has brought forth.
func (v *view) files() error {
	offset, err := v.number("from", 0)
	if err != nil {
		return err
	}
	page := filesOf{runView: v.about()}
	if offset == 0 {
		if page.Files, err = v.documents(); err != nil {
			return err
		}
	}
	kept, err := v.kept(offset, filesPage)
	if err != nil {
		return err
	}
	page.Files, page.Total = append(page.Files, kept.Items...), kept.Total
	if next := offset + len(kept.Items); next < kept.Total {
		page.Next = next
	}
	return v.show("files", "Files · "+nameOf(v.run), page)
}

// documents are the program and what was frozen with it.
func (v *view) documents() (all []tipstaff.EvidenceFile, err error) {
	if v.run.Program.Digest != "" {
		all = append(all, tipstaff.EvidenceFile{Name: v.run.Program.Kind + ".json", Kind: "program", Digest: v.run.Program.Digest})
	}
	first, err := v.block(0, 1)
	if err != nil || len(first) == 0 {
		return all, err
	}
	draft := tipstaff.BodyOf[tipstaff.IntentDraft](&first[0])
	frozen := make([]tipstaff.EvidenceFile, 0, len(draft.Frozen))
	for name, digest := range draft.Frozen {
		frozen = append(frozen, tipstaff.EvidenceFile{Name: name, Kind: "frozen", Digest: digest})
	}
	slices.SortFunc(frozen, func(a, b tipstaff.EvidenceFile) int { return strings.Compare(a.Name, b.Name) })
	return append(all, frozen...), nil
}

// kept is a page of the artifacts of a run.
func (v *view) kept(offset, limit int) (tipstaff.EvidenceList[tipstaff.EvidenceFile], error) {
	got, err := v.s.control.Evidence(v.ctx(), tipstaff.EvidenceRequest{Run: v.run.ID, Slice: tipstaff.SliceArtifacts, Offset: offset, Limit: limit})
	if err != nil || got.Artifacts == nil {
		return tipstaff.EvidenceList[tipstaff.EvidenceFile]{}, err
	}
	return *got.Artifacts, nil
}

// fileOf is one stored document.
type fileOf struct {
	*runView
	tipstaff.EvidenceFile
	Size  int
	Shown string // text, or "" where it is shown otherwise
	From  int    // the first byte that is shown
	Next  int    // where the next part begins; 0: this is the last
	Image bool
	Patch *patch
}

// file shows a document or hands it out. It is asked for through a run, which must refer to it.
func (v *view) file() error {
	digest := v.r.PathValue("digest")
	data, err := v.s.control.Runs.Artifact(v.ctx(), v.run.ID, digest)
	if err != nil {
		return err
	}
	image := imageType(data)
	if image != "" && v.r.FormValue("image") != "" {
		return v.hand(image, "inline", "image", data)
	}
	page := fileOf{runView: v.about(), EvidenceFile: tipstaff.EvidenceFile{Name: "document", Digest: digest}, Size: len(data), Image: image != ""}
	if page.EvidenceFile, err = v.named(page.EvidenceFile); err != nil {
		return err
	}
	if v.r.FormValue("raw") != "" {
		return v.download(page.Name, data)
	}
	from, err := v.number("from", 0)
	if err != nil {
		return err
	}
	page.fill(data, min(from, len(data)))
	return v.show("file", page.Name+" · "+nameOf(v.run), page)
}

// named finds what the run calls a document.
func (v *view) named(f tipstaff.EvidenceFile) (tipstaff.EvidenceFile, error) {
	all, err := v.documents()
	if err != nil {
		return f, err
	}
	kept, err := v.kept(0, 1000)
	if err != nil {
		return f, err
	}
	for _, known := range append(all, kept.Items...) {
		if known.Digest == f.Digest {
			return known, nil
		}
	}
	return f, nil
}

// fill decides how the document is shown.
func (f *fileOf) fill(data []byte, from int) {
	if f.Image || !isText(data) {
		return
	}
	if from == 0 && (f.Kind == "diff" || bytes.HasPrefix(data, []byte("diff --git "))) {
		f.Patch = readPatch(string(data[:textEnd(data, shownBytes)]), patchLines)
		f.Patch.Cut = f.Patch.Cut || len(data) > shownBytes
		return
	}
	var pretty bytes.Buffer
	if from == 0 && len(data) <= shownBytes && json.Valid(data) && json.Indent(&pretty, data, "", "  ") == nil && pretty.Len() <= 2*shownBytes {
		f.Shown = pretty.String()
		return
	}
	for from > 0 && from < len(data) && !utf8.RuneStart(data[from]) {
		from++
	}
	end := from + textEnd(data[from:], shownBytes)
	f.Shown, f.From = string(data[from:end]), from
	if end < len(data) {
		f.Next = end
	}
}

// isText reports whether the beginning of a document can be read by people.
func isText(data []byte) bool {
	start := data[:textEnd(data, shownBytes)]
	return utf8.Valid(start) && bytes.IndexByte(start, 0) < 0
}

// textEnd is the end of at most so many bytes that splits no character.
func textEnd(data []byte, most int) int {
	if len(data) <= most {
		return len(data)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(data[end]) {
		end--
	}
	return end
}

// imageType is the type of an image that may be shown, by its first bytes; "": it may not be.
func imageType(data []byte) string {
	if len(data) > imageMost {
		return ""
	}
	if t := http.DetectContentType(data); slices.Contains(imageTypes, t) {
		return t
	}
	return ""
}

// imageTypes are those of images that may be shown.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// download hands bytes out as a file that no browser opens.
func (v *view) download(name string, data []byte) error {
	return v.hand("application/octet-stream", "attachment", name, data)
}

// hand answers with stored content. Whatever it is, nothing in it can run or load anything.
func (v *view) hand(kind, disposition, name string, data []byte) error {
	h := v.w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", disposition+`; filename="`+safeName(name)+`"`)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, err := v.w.Write(data)
	if err != nil {
		v.s.o.Log.DebugContext(v.ctx(), "a download was broken off", "error", err.Error())
	}
	return nil
}

// safeName rebuilds a file name from letters that mean nothing to any system.
func safeName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	safe := strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, name)
	if safe = strings.TrimLeft(safe, "."); safe == "" {
		return "file"
	}
	return safe[:min(100, len(safe))]
}

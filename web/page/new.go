package page

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

// newPages start programs.
var newPages = pages{
	"GET /ui/new":  (*view).newRun,
	"POST /ui/new": (*view).startRun,
}

const (
	newLooked  = 200  // runs that are looked at for known pipelines
	newKnown   = 20   // pipelines that are offered
	newOutline = 1000 // lines of a program that are shown
)

// newPage starts a program, after it was checked.
type newPage struct {
	Typed   url.Values
	Key     string
	Scope   string // that is missing; "": none is
	Known   []tipstaff.Run
	Sent    *sent
	Checked *tipstaff.Validated // nil: it was not, or it cannot be run
	Seen    string              // the digest of what was checked
	Outline []subjectRow
	More    int // lines of it that are not shown
	Tools   []newTool
	Fields  []field
	Command string
}

// newTool is a tool that a program calls.
type newTool struct{ URI, Class string }

// ProgramField and FileField are where the program comes from.
func (p *newPage) ProgramField() field {
	return field{Name: "program", Label: "Document", Kind: "program", Hint: "a plan or a pipeline, in YAML or JSON"}
}
func (p *newPage) FileField() field {
	return field{Name: "file", Label: "or a file", Kind: "file", Hint: "takes the place of the text"}
}

// Value is what a field holds.
func (p *newPage) Value(name string) string { return p.Typed.Get(name) }

// Bounds are those that a run would have.
func (p *newPage) Bounds() (all []bound) {
	for _, name := range slices.Sorted(maps.Keys(p.Checked.Bounds)) {
		all = append(all, bound{Name: words(name), Limit: tipstaff.AmountText(name, p.Checked.Bounds[name])})
	}
	return all
}

// newRun shows the form; of a run that is named, with its program and inputs.
func (v *view) newRun() error {
	page, err := v.newPage(url.Values{})
	if err != nil {
		return err
	}
	if of := v.r.FormValue("run"); of != "" {
		if err := v.again(page, of); err != nil {
			return err
		}
	}
	return v.show("new", "New run", page)
}

func (v *view) newPage(in url.Values) (*newPage, error) {
	page := &newPage{Typed: in, Key: cmp.Or(in.Get("key"), rand.Text())}
	if !v.signed.May(tipstaff.ScopeSubmit) {
		page.Scope = tipstaff.ScopeSubmit
	}
	runs, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Kind: tipstaff.ProgramPipeline, Limit: newLooked})
	known := map[string]bool{}
	for _, r := range runs.Runs {
		if d := r.Program.Digest; d != "" && !known[d] && len(page.Known) < newKnown {
			known[d] = true
			page.Known = append(page.Known, r)
		}
	}
	return page, err
}

// again fills the form with the program and the inputs of a run, and checks them.
func (v *view) again(page *newPage, of string) error {
	run, err := v.runCalled(of)
	if err != nil {
		return err
	}
	text, err := v.programText(run)
	if err != nil {
		return err
	}
	page.Typed.Set("program", text)
	if run.Title != "" {
		page.Typed.Set("title", run.Title)
	}
	return v.checkRun(page, run.Inputs)
}

// startRun checks a program and, if it is the one that was checked before, starts it.
func (v *view) startRun() error {
	if err := v.needs(tipstaff.ScopeSubmit); err != nil {
		return err
	}
	in := typedIn(v.r.PostForm)
	if err := v.uploaded(in); err != nil {
		return err
	}
	page, err := v.newPage(in)
	if err != nil {
		return err
	}
	if err := v.checkRun(page, nil); err != nil {
		return err
	}
	if page.Checked == nil || in.Get("start") == "" || in.Get("seen") != page.Seen {
		return v.show("new", "New run", page)
	}
	inputs, err := page.inputs()
	if err == nil {
		var to string
		to, err = v.once(in, func() (string, error) {
			program, err := json.Marshal(in.Get("program"))
			if err != nil {
				return "", err
			}
			got, err := v.s.control.Submit(v.ctx(), tipstaff.Submission{Program: program, Inputs: inputs, Title: in.Get("title")})
			return "/ui/runs/" + got.Run.String(), err
		})
		if err == nil {
			return v.redirect(to)
		}
	}
	if page.Sent, err = v.notDone(err); err != nil {
		return err
	}
	if page.Sent.Field == "" { // a problem names the input that it is about
		page.Sent.Field = page.fieldOf(page.Sent.Problems)
	}
	return v.show("new", "New run", page)
}

// uploaded takes the program from a file, if one was sent.
func (v *view) uploaded(in url.Values) error {
	if v.r.MultipartForm == nil || len(v.r.MultipartForm.File["file"]) == 0 {
		return nil
	}
	given := v.r.MultipartForm.File["file"][0]
	if given.Size == 0 {
		return nil
	}
	f, err := given.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return &problem{status: http.StatusBadRequest, title: "The file cannot be read", text: "A program is text in UTF-8, as YAML or JSON."}
	}
	in.Set("program", strings.ReplaceAll(string(text), "\r\n", "\n"))
	in.Set("name", path.Base(given.Filename))
	return nil
}

// strange is what a name of a file in a command does not have.
var strange = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// file is what the program is called in the command that does the same.
func (p *newPage) File() string {
	return cmp.Or(strings.TrimLeft(strange.ReplaceAllString(p.Typed.Get("name"), "_"), "-"), programFile)
}

// checkRun says what would be run. had are inputs that the form is to hold; nil: those that were
// typed.
func (v *view) checkRun(page *newPage, had map[string]json.RawMessage) error {
	text := page.Typed.Get("program")
	if strings.TrimSpace(text) == "" {
		page.Sent = &sent{Title: "Nothing was checked", Text: "a program is needed, as text or as a file", Code: tipstaff.InvalidArgument, Field: "program"}
		v.status = http.StatusBadRequest
		return nil
	}
	start := tipstaff.StartRequest{Program: []byte(text), Name: page.File(), NoFiles: true}
	got, err := v.s.control.Runs.Validate(v.ctx(), tipstaff.ValidateRequest{Start: &start, Ask: true})
	if err != nil {
		page.Sent, err = v.notDone(err)
		if page.Sent != nil {
			page.Sent.Title = "It cannot be run"
		}
		return err
	}
	page.Checked, page.Seen = &got, programDigest(page.Typed)
	page.Outline = subjectRows(tipstaff.ShownOutline(got.Outline))
	if n := len(page.Outline) - newOutline; n > 0 {
		page.Outline, page.More = page.Outline[:newOutline], n
	}
	page.tools(got.Outline)
	page.ask(had)
	page.Command = commandLine(page.command()...)
	return nil
}

// tools collects the tools that a program names, each once.
func (p *newPage) tools(o *tipstaff.Outline) {
	if t := (newTool{o.Label, o.Class}); o.Class != "" && !slices.Contains(p.Tools, t) {
		p.Tools = append(p.Tools, t)
	}
	for _, c := range o.Children {
		p.tools(c)
	}
}

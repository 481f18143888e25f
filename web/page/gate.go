package page

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// gatePages show gates.
var gatePages = pages{
	"GET /ui/runs/{run}/gates/{gate}":           (*view).gate,
	"POST /ui/runs/{run}/gates/{gate}/decision": (*view).decide,
}

// gatePage is one gate, open or closed.
type gatePage struct {
	Run     tipstaff.Run
	Gate    tipstaff.Gate
	Subject []subjectRow
	Cut     []tipstaff.ShownPart // of the subject, what is not shown in full
	All     bool                 // nothing is cut because everything was asked for
	Diff    *patch               // of a delivery
	Form    *gateForm            // nil: it cannot be decided any more
	Closed  *tipstaff.EvidenceDecision
	Sent    *sent          // a decision that was not taken
	Next    *tipstaff.Gate // that the same asker has open instead
	Done    string         // recorded, or again
	Expired bool           // and nobody has written so yet
}

// subjectRow is a line of a subject, or a block of somebody's text.
type subjectRow struct {
	Depth int
	Name  string
	Text  string
	Block []string
	Left  bool // it says how much was left out here
}

// gate shows one gate.
func (v *view) gate() error {
	page, err := v.gateOf()
	if err != nil {
		return err
	}
	page.Done = v.r.FormValue("done")
	return v.showGate(page)
}

func (v *view) showGate(page *gatePage) error {
	return v.show("gate", cut(page.Gate.Question, 60)+" · "+nameOf(page.Run), page)
}

// gateOf gathers what there is to say of the gate that the address names.
func (v *view) gateOf() (*gatePage, error) {
	run, err := v.find()
	if err != nil {
		return nil, err
	}
	return v.gateAt(run, v.r.PathValue("gate"))
}

// gateAt is a gate as a page shows it, or a part of one.
func (v *view) gateAt(run tipstaff.Run, gate string) (*gatePage, error) {
	all := v.r.FormValue("whole") != ""
	if v.r.FormValue("part") == "" {
		return v.gatePage(run, gate, all)
	}
	g, err := v.s.control.Runs.Gate(v.ctx(), run.ID, gate)
	if err != nil {
		return nil, err
	}
	page := &gatePage{Run: run, Gate: g, All: all} // what becomes of it, not what it is about
	return page, v.state(page)
}

// gatePage is a gate of a run; all: nothing of what it asks about is cut.
func (v *view) gatePage(run tipstaff.Run, gate string, all bool) (*gatePage, error) {
	g, err := v.s.control.Runs.Gate(v.ctx(), run.ID, gate)
	if err != nil {
		return nil, err
	}
	page := &gatePage{Run: run, Gate: g, All: all}
	shown := tipstaff.Subject(g)
	if page.All {
		shown = tipstaff.WholeSubject(g)
	}
	page.Subject = subjectRows(shown.Lines)
	for _, part := range shown.Parts {
		if part.Cut > 0 {
			page.Cut = append(page.Cut, part)
		}
	}
	if g.Kind == tipstaff.Delivery {
		mode := tipstaff.DiffPreview
		if page.All {
			mode = tipstaff.DiffFull
		}
		diff, err := v.s.control.Diff(v.ctx(), tipstaff.DiffRequest{Run: run.ID, Mode: mode})
		if err != nil {
			return nil, err
		}
		if diff.Text != "" {
			page.Diff = readPatch(diff.Text, len(diff.Text)) // all of it: it is to be approved
		}
	}
	return page, v.state(page)
}

// state finds out whether a gate is open, and what became of one that is not.
func (v *view) state(page *gatePage) error {
	for _, open := range page.Run.OpenGates {
		switch {
		case open.ID == page.Gate.ID && !open.Expired(v.now):
			page.Form = v.form(page)
			return nil
		case open.ID == page.Gate.ID:
			page.Expired = true
		case asker(open.Path) == asker(page.Gate.Path):
			page.Next = &open
		}
	}
	if page.Expired {
		return nil
	}
	for offset := 0; ; {
		got, err := v.s.control.Evidence(v.ctx(), tipstaff.EvidenceRequest{Run: page.Run.ID, Slice: tipstaff.SliceDecisions, Limit: 1000, Offset: offset})
		if err != nil {
			return err
		}
		items := got.Decisions.Items
		if i := slices.IndexFunc(items, func(d tipstaff.EvidenceDecision) bool { return d.Gate == page.Gate.ID.String() }); i >= 0 {
			page.Closed = &items[i]
			return nil
		}
		if offset += len(items); len(items) == 0 || offset >= got.Decisions.Total {
			return nil
		}
	}
}

// asker is who asks at a path, in whichever revision of a plan.
func asker(path string) string {
	root, rest, _ := strings.Cut(path, "/")
	root, _, _ = strings.Cut(root, "@")
	return root + "/" + rest
}

// subjectRows lays the lines of a subject out. A bar before a line is what no text of others
// can bring along, so that a block holds such text and nothing else.
func subjectRows(lines []string) (rows []subjectRow) {
	for _, line := range lines {
		rest := strings.TrimLeft(line, " ")
		row := subjectRow{Depth: min((len(line)-len(rest))/2, 8)}
		text, foreign := strings.CutPrefix(rest, "| ")
		switch last := len(rows) - 1; {
		case foreign && last >= 0 && rows[last].Block != nil && rows[last].Depth == row.Depth:
			rows[last].Block = append(rows[last].Block, text)
			continue
		case foreign:
			row.Block = []string{text}
		case strings.HasPrefix(rest, "… ") && strings.HasSuffix(rest, " left out …"):
			row.Text, row.Left = rest, true
		default:
			var named bool
			if row.Name, row.Text, named = strings.Cut(rest, ": "); !named {
				row.Name = strings.TrimSuffix(rest, ":")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Principal is who closed the gate.
func (p *gatePage) Principal() string {
	if p.Closed == nil || p.Closed.Decision == nil {
		return ""
	}
	return cmp.Or(p.Closed.Decision.OnBehalfOf, "local:cli")
}

// Asking is the gate as the inbox shows it.
func (p *gatePage) Asking() tipstaff.InboxGate { return tipstaff.AskingGate(p.Run, p.Gate) }

// Whole is the address of the gate with nothing cut.
func (p *gatePage) Whole() string { return p.address() + "?whole=1" }

func (p *gatePage) address() string {
	return "/ui/runs/" + p.Run.ID.String() + "/gates/" + p.Gate.ID.String()
}

// decide takes a decision, and shows the gate with it. One that cannot be taken is answered
// with the form as it was sent.
func (v *view) decide() error {
	page, err := v.gateOf()
	if err != nil {
		return err
	}
	if err := v.needs(tipstaff.ScopeDecide); err != nil {
		return err
	}
	in := typedIn(v.r.PostForm)
	d := decisionOf(page, in)
	if page.Form != nil { // what is closed only compares
		page.Form.Typed = in
		if d.wrong != nil {
			return v.refused(page, d, d.wrong)
		}
		if in.Get("confirmed") == "" {
			return v.confirm(page, d)
		}
	}
	if err := v.s.decided.take(v.signed, v.now); err != nil {
		return v.refused(page, d, err)
	}
	to, err := v.once(in, func() (string, error) {
		got, err := v.s.control.Answer(v.ctx(), tipstaff.Answer{Resume: in.Get("resume") != "" && v.signed.May(tipstaff.ScopeRun), DecideRequest: d.DecideRequest})
		switch {
		case err != nil && len(got.Raw) > 0: // it is recorded, and only going on has failed
			return page.address() + "?done=stays", nil
		case got.Replayed:
			return backTo(in, page.address()+"?done=again"), err
		}
		return backTo(in, page.address()+"?done=recorded"), err
	})
	if err != nil {
		return v.refused(page, d, err)
	}
	return v.redirect(to)
}

package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Measures of a timeline.
const (
	timelineWidth  = 800
	timelineLabels = 230 // for the names, at the left
	timelineTop    = 32  // for breaks, marks and the axis
	timelineRow    = 24
	timelineTicks  = 6
	timelineName   = 26 // characters
)

// timelinePage is a run over time.
type timelinePage struct {
	*runView
	query tipstaff.TimelineQuery
}

// drawnTime is a timeline, for a template.
type drawnTime struct {
	Width, Height int
	From, To      time.Time
	Real          bool
	Summary       string
	Ticks         []tick
	Breaks        []drawnBreak
	Marks         []drawnMark
	Rows          []drawnRow
	Links         []timeLink
	Before, After int
	Error         string
}

// tick is a moment on the axis.
type tick struct {
	X, Text string
	At      time.Time
	Form    string // how exactly it is told
}

// drawnBreak is a stretch in which nobody drove the run.
type drawnBreak struct {
	X, W  string
	Text  string
	Class string
	Link  string // the break alone, by the clock
	From  time.Time
	To    time.Time
}

// drawnMark is something that concerns the whole run.
type drawnMark struct {
	X    string
	Kind string
	Text string
	Line string // its path, through all rows
	Seq  int64
	At   time.Time
}

// drawnRow is a row with its bars.
type drawnRow struct {
	Path, Name, What, Title string
	State                   mark
	X, Y, Base              int
	Bars                    []drawnBar
	Below                   int
	From, To                time.Time
	Zoom                    string
}

// drawnBar is an attempt, or several.
type drawnBar struct {
	X, W, Y, H string
	Class      string
	Title      string
	Text       string // of attempts that failed, their code
	Jagged     string // the open end of one that nobody has seen; "": it is known
	Barred     string // the dot of a refusal; "": it is none
}

// timeLink is a button that moves the window.
type timeLink struct {
	Title, To string
	Chosen    bool
}

// timeline is a run over time.
func (v *view) timeline() error {
	p, err := v.runView()
	if err != nil {
		return err
	}
	q := v.r.URL.Query()
	page := &timelinePage{runView: p, query: tipstaff.TimelineQuery{Real: q.Get("scale") == "real", Width: timelineWidth}}
	for name, at := range map[string]*time.Time{"from": &page.query.From, "to": &page.query.To} {
		if text := q.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return tipstaff.Errorf(tipstaff.InvalidArgument, "%s is not a time like 2026-01-31T12:00:00Z", name)
			}
		}
	}
	if page.query.Skip, err = v.number("skip", 0); err != nil {
		return err
	}
	page.query.Lost = p.at == 0 && p.Run.Condition == tipstaff.Interrupted
	return v.show("timeline", "Timeline · "+nameOf(v.run), page)
}

// Time draws the timeline.
func (p *timelinePage) Time() (d drawnTime) {
	var t tipstaff.Timeline
	err := p.fold(func(f *fold) error { t = f.view.Timeline(p.query, p.now(f)); return nil })
	if err != nil {
		return drawnTime{Error: p.failed(err)}
	}
	d = drawnTime{Width: timelineLabels + timelineWidth + 20, Height: timelineTop + timelineRow*len(t.Rows) + 8,
		From: t.From, To: t.To, Real: p.query.Real, Before: t.Before, After: t.After}
	d.Summary = fmt.Sprintf("%s, %s, nobody drove it %s", tipstaff.Plural(len(t.Rows), "row"), took(t.To.Sub(t.From)), tipstaff.Plural(len(t.Breaks), "time"))
	for _, b := range t.Breaks {
		d.Breaks = append(d.Breaks, p.drawBreak(b))
	}
	for _, m := range t.Marks {
		d.Marks = append(d.Marks, drawMark(m, d.Height))
	}
	for i, r := range t.Rows {
		d.Rows = append(d.Rows, p.drawRow(r, i))
	}
	d.Ticks, d.Links = ticks(&t), p.links(&t)
	return d
}

// place is an x on the drawing.
func place(x float64) string { return length(x + timelineLabels) }

func length(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// breakWords say why nobody drove a run, by the mark that a break begins with.
var breakWords = map[string]string{
	"": "not started", tipstaff.MarkPark: "waited", tipstaff.MarkKill: "killed", tipstaff.MarkInterrupt: "interrupted", tipstaff.MarkEnd: "ended",
}

func (p *timelinePage) drawBreak(b tipstaff.Break) drawnBreak {
	text := breakWords[b.Why] + ", " + took(b.Idle)
	if b.Why == tipstaff.MarkPark {
		text = "‖ waited " + took(b.Idle)
		if len(b.For) > 0 {
			text += " for " + strings.Join(b.For, ", ")
		}
	}
	if b.Why == tipstaff.MarkKill {
		text = "⚡ " + text
	}
	if b.Count > 1 {
		text += fmt.Sprintf(" (%d times)", b.Count)
	}
	around := max(b.Idle/10, time.Second)
	return drawnBreak{X: place(b.X), W: length(max(b.Width, 1)), Text: printed(text, 200), Class: b.Why, From: b.From, To: b.To,
		Link: p.to(b.From.Add(-around), b.To.Add(around), true, 0)}
}

func drawMark(m tipstaff.Mark, height int) drawnMark {
	x := m.X + timelineLabels
	d := drawnMark{X: length(x), Kind: m.Kind, Seq: m.Seq, At: m.At, Text: words(m.Kind)}
	if m.Count > 1 {
		d.Text += fmt.Sprintf(" and %d more", m.Count-1)
	}
	if m.Kind != tipstaff.MarkKill {
		d.Line = fmt.Sprintf("M%s 18V%d", length(x), height)
		return d
	}
	var b strings.Builder // a jagged line
	fmt.Fprintf(&b, "M%s 18", length(x))
	for y, side := 26, 3; y < height; y, side = y+8, -side {
		fmt.Fprintf(&b, "L%s %d", length(x+float64(side)), y)
	}
	d.Line = b.String()
	return d
}

func (p *timelinePage) drawRow(r tipstaff.TimelineRow, i int) drawnRow {
	top := timelineTop + i*timelineRow
	d := drawnRow{Path: r.Path, Name: printed(r.Name, max(6, timelineName-2*min(r.Depth, 8))), What: r.What, State: stateOf(r.State), X: 4 + 12*min(r.Depth, 8), Y: top, Base: top + 16, Below: r.Below}
	d.Title = printed(tipstaff.Joined(" · ", r.Path, r.What, d.State.Word), 200)
	for _, b := range r.Bars {
		d.Bars = append(d.Bars, drawBar(b, top))
		if d.From.IsZero() || b.From.Before(d.From) {
			d.From = b.From
		}
		if b.To.After(d.To) {
			d.To = b.To
		}
	}
	around := max(d.To.Sub(d.From)/10, 10*time.Millisecond)
	d.Zoom = p.to(d.From.Add(-around), d.To.Add(around), p.query.Real, 0)
	return d
}

func drawBar(b tipstaff.Bar, top int) drawnBar {
	m := stateOf(b.State)
	width := max(b.Width, 2)
	d := drawnBar{X: place(b.X), W: length(width), Y: strconv.Itoa(top + 6), H: "12", Class: m.Class, Text: b.Code}
	d.Title = m.Word + ", " + took(b.To.Sub(b.From)) + " from " + clock{b.From}.Text()
	if b.Code != "" {
		d.Title += ", " + b.Code
	}
	if b.Count > 1 {
		d.Title += fmt.Sprintf(", %d together", b.Count)
		d.Class += " dense"
	}
	d.Title = printed(d.Title, 200)
	end := b.X + width + timelineLabels
	switch {
	case b.Wait:
		d.Class, d.Y, d.H, d.Title = "between", strconv.Itoa(top+11), "2", "waited "+took(b.To.Sub(b.From))+" for the next attempt"
	case b.Open:
		d.Class += " open"
		d.Jagged = fmt.Sprintf("M%s %dl4 3l-4 3l4 3l-4 3z", length(end), top+6)
	case b.State == tipstaff.NodeRefused:
		d.Barred = fmt.Sprintf("M%s %dh8", length(b.X+timelineLabels-4), top+12)
	case b.State == tipstaff.NodeCancelled:
		d.Class += " hollow"
	}
	return d
}

// Link is the address of its panel.
func (r drawnRow) Link(run tipstaff.ID, at *atBar) string { return nodeLink(run, r.Path, at) }

// Key tells the row from others on the page.
func (r drawnRow) Key() string { return keyOf(r.Path) }

// ticks are moments at even distances.
func ticks(t *tipstaff.Timeline) (all []tick) {
	step := float64(t.Width) / timelineTicks
	nearest := t.To.Sub(t.From) // of two ticks
	for i := range timelineTicks {
		nearest = min(nearest, t.At(step*float64(i+1)).Sub(t.At(step*float64(i))))
	}
	format, form := "15:04:05", "second"
	switch {
	case t.To.Sub(t.From) > 24*time.Hour:
		format, form = "2 Jan 15:04:05", "day"
	case nearest < 2*time.Second:
		format, form = "15:04:05.000", "millisecond"
	}
	for i := range timelineTicks {
		x := step * float64(i)
		all = append(all, tick{place(x), t.At(x).UTC().Format(format), t.At(x), form})
	}
	return all
}

// links move the window: every zoom is an address.
func (p *timelinePage) links(t *tipstaff.Timeline) []timeLink {
	w, real := float64(t.Width), p.query.Real
	whole := p.query.From.IsZero() && p.query.To.IsZero()
	span := t.To.Sub(t.From)
	l := []timeLink{
		{Title: "Time driven", To: p.to(p.query.From, p.query.To, false, 0), Chosen: !real},
		{Title: "Clock", To: p.to(p.query.From, p.query.To, true, 0), Chosen: real},
		{Title: "All", To: p.to(time.Time{}, time.Time{}, real, 0), Chosen: whole},
		{Title: "Zoom in", To: p.to(t.At(w/4), t.At(w*3/4), real, 0)},
	}
	if !whole {
		l = append(l, timeLink{Title: "Zoom out", To: p.to(t.From.Add(-span/2), t.To.Add(span/2), real, 0)},
			timeLink{Title: "Earlier", To: p.to(t.From.Add(-span/2), t.To.Add(-span/2), real, 0)},
			timeLink{Title: "Later", To: p.to(t.From.Add(span/2), t.To.Add(span/2), real, 0)})
	}
	if t.Before > 0 {
		l = append(l, timeLink{Title: "Rows above", To: p.to(p.query.From, p.query.To, real, max(0, t.Before-len(t.Rows)))})
	}
	if t.After > 0 {
		l = append(l, timeLink{Title: "Rows below", To: p.to(p.query.From, p.query.To, real, t.Before+len(t.Rows))})
	}
	return l
}

// to is the address of a window.
func (p *timelinePage) to(from, to time.Time, real bool, skip int) string {
	scale := ""
	if real {
		scale = "real"
	}
	return address(p.v.r.URL.Path, "at", digits(p.at), "scale", scale, "from", clock{from}.ISO(), "to", clock{to}.ISO(), "skip", digits(int64(skip)))
}

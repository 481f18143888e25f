package tipstaff

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// drive is a stretch of time in which somebody drove the run.
type drive struct {
	from, to time.Time // to is zero: it goes on
	how      string    // it ended, as a [Break] says it
	asked    []string  // what it was parked for
}

// Mark is something that concerns the run as a whole or, with a count above one, several
// such that are near each other.
type Mark struct {
	At    time.Time
	Kind  string
	Seq   int64 // of the record that says so
	X     float64
	Count int
}

// Kinds of marks.
const (
	MarkStart      = "start"
	MarkPark       = "park"
	MarkResume     = "resume"
	MarkKill       = "kill" // at the last sign of life
	MarkInterrupt  = "interrupt"
	MarkCorrection = "correction"
	MarkRollback   = "rollback"
	MarkCancel     = "cancel_request"
	MarkEnd        = "end"
)

// applyDrive follows who drove the run when. last is the last record of the drive under
// way.
func (v *View) applyDrive(e *Event, last time.Time) {
	mark := func(at time.Time, kind string) {
		v.marks = append(v.marks, Mark{At: at, Kind: kind, Seq: e.Seq, Count: 1})
	}
	stop := func(at time.Time, how string, asked []string) bool {
		if !v.drivenNow() {
			return false
		}
		d := &v.drives[len(v.drives)-1]
		d.to, d.how, d.asked, v.lastSeen = at, how, asked, at
		return true
	}
	lose := func() {
		if stop(last, MarkKill, nil) {
			v.breakSpans(last)
			mark(last, MarkKill)
		}
	}
	switch e.Kind {
	case KindRunStarted, KindRunResumed:
		lose()
		kind := MarkResume
		if len(v.drives) == 0 {
			kind = MarkStart
		}
		v.drives = append(v.drives, drive{from: e.At})
		mark(e.At, kind)
	case KindRunParked:
		if stop(e.At, MarkPark, v.asked()) {
			mark(e.At, MarkPark)
		}
	case KindRunInterrupted:
		if e.Epoch == 0 { // others say so: its owner was found dead
			lose()
		} else if stop(e.At, MarkInterrupt, nil) {
			v.breakSpans(e.At)
			mark(e.At, MarkInterrupt)
		}
	case KindRunContinued:
		v.segment++
	case KindIntentCorrect:
		mark(e.At, MarkCorrection)
	case KindTransition:
		if BodyOf[Transitioned](e).Reason == TransitionRollback {
			mark(e.At, MarkRollback)
		}
	case KindRunCancelRequested:
		mark(e.At, MarkCancel)
	case KindIntentAttest, KindIntentFail, KindIntentCancel:
		at := e.At
		if e.Kind == KindIntentCancel && v.drivenNow() { // which anyone may have written, later
			at = last
		}
		v.endSpans(at)
		stop(at, MarkEnd, nil)
		mark(e.At, MarkEnd)
	}
}

func (v *View) drivenNow() bool { return len(v.drives) > 0 && v.drives[len(v.drives)-1].to.IsZero() }

// maxAskers is how many who ask a break names.
const maxAskers = 3

// asked are who asks at the gates that are open.
func (v *View) asked() (names []string) {
	for s := range v.open {
		if s.Kind != SpanGate || s.State != NodeWaiting {
			continue
		}
		name := lastSegment(s.Path)
		if n := v.home(s.Path); n != nil {
			name = n.Name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names[:min(len(names), maxAskers)]
}

// TimelineQuery selects what a [Timeline] shows.
type TimelineQuery struct {
	From, To time.Time // zero: from the first record, up to now or the end
	Real     bool      // the axis is the clock; else the time that the run was driven
	Lost     bool      // its owner is gone, which nobody has recorded yet
	Width    int       // pixels; 0 is 1000
	Skip     int       // rows before the first
}

// Limits of what a timeline shows at once.
const (
	timelineRows  = 200
	timelineMarks = 1500
	timelineNear  = 2.0  // pixels: what is closer is one mark
	breakWidth    = 14.0 // pixels, of idle time that is folded
)

// Timeline is a run drawn over time: what happened in a window of it, in the order of the
// tree. Places are in pixels from the left.
type Timeline struct {
	From, To time.Time
	Width    int
	Breaks   []Break // in which nobody drove it
	Marks    []Mark
	Rows     []TimelineRow
	Before   int // rows that were skipped
	After    int // rows that do not fit

	scale float64 // pixels for a nanosecond
	idle  []Break // the same, one by one
	lost  time.Time
}

// Break is a stretch of time in which nobody drove the run, or several that are near each
// other.
type Break struct {
	From, To time.Time
	Idle     time.Duration
	Why      string   // the mark it begins with; "": the run had not started
	For      []string // who asked
	X, Width float64
	Count    int
}

// TimelineRow is a node, a call, a visit of a stage or a gate.
type TimelineRow struct {
	Path, Name string
	What       string // what is called; of a gate its kind, of a node that or its kind
	Depth      int
	State      NodeState
	Seq        int64 // of its first record; 0: it is a node without one
	Bars       []Bar
	Below      int // rows below it that are not shown

	sums bool // its bars are those of what is below it
}

// Bar is an attempt or, with a count above one, several that are near each other.
type Bar struct {
	From, To time.Time // To is the end of the window where it goes on
	X, Width float64
	State    NodeState // the worst of them
	Code     string    // of its error, where another attempt followed
	Open     bool      // nobody knows how it ended
	Wait     bool      // between two attempts
	Count    int
}

// Timeline draws what happened in a window of time. It changes nothing.
func (v *View) Timeline(q TimelineQuery, now time.Time) Timeline {
	t := Timeline{Width: q.Width}
	if t.Width <= 0 {
		t.Width = 1000
	}
	t.window(v, q, now)
	all := slices.Concat(v.marks, t.Marks)
	t.Marks = nil
	for _, m := range all {
		if !m.At.Before(t.From) && !m.At.After(t.To) {
			m.X = t.X(m.At)
			t.Marks = append(t.Marks, m)
		}
	}
	slices.SortStableFunc(t.Marks, func(a, b Mark) int { return cmp.Compare(a.X, b.X) })
	for _, n := range v.Roots {
		t.node(v, n, 0)
	}
	t.fit(q.Skip)
	return t
}

// window finds the breaks and the scale.
func (t *Timeline) window(v *View, q TimelineQuery, now time.Time) {
	end := v.At
	if !v.State.Terminal() && now.After(end) {
		end = now
	}
	t.From, t.To = q.From, q.To
	if t.From.IsZero() {
		t.From = v.Created
	}
	if t.To.IsZero() || t.To.After(end) {
		t.To = end
	}
	if t.To.Before(t.From) {
		t.To = t.From
	}
	rest := Break{From: v.Created}
	for _, d := range v.drives {
		t.rested(rest, d.from)
		rest = Break{From: d.to, Why: d.how, For: d.asked}
	}
	if v.drivenNow() {
		if rest.Why, rest.For, rest.From = MarkKill, nil, end; q.Lost {
			rest.From, t.lost = v.DriveTo, v.DriveTo
			t.Marks = append(t.Marks, Mark{At: t.lost, Kind: MarkKill, Seq: v.Seq, Count: 1})
		}
	}
	t.rested(rest, end)

	driven, pixels, each := t.To.Sub(t.From), float64(t.Width), 0.0
	if len(t.idle) > 0 && !q.Real {
		each = min(breakWidth, pixels/3/float64(len(t.idle)))
		for _, b := range t.idle {
			driven -= b.Idle
			pixels -= each
		}
	}
	t.scale = pixels / float64(max(1, driven))
	x, at := 0.0, t.From
	for i := range t.idle {
		b := &t.idle[i]
		b.X, b.Width = x+float64(b.From.Sub(at))*t.scale, each
		if q.Real {
			b.Width = float64(b.Idle) * t.scale
		}
		x, at = b.X+b.Width, b.To
	}
	for _, b := range t.idle {
		if last := len(t.Breaks) - 1; last >= 0 && b.X-t.Breaks[last].X-t.Breaks[last].Width < timelineNear && (b.Why == t.Breaks[last].Why || len(t.idle) > timelineRows) {
			had := &t.Breaks[last]
			had.To, had.Width, had.Idle, had.Count = b.To, b.X+b.Width-had.X, had.Idle+b.Idle, had.Count+1
			continue
		}
		t.Breaks = append(t.Breaks, b)
	}
}

// rested adds what of a break is in the window.
func (t *Timeline) rested(b Break, to time.Time) {
	b.To, b.Count = to, 1
	if b.From.Before(t.From) {
		b.From = t.From
	}
	if n := len(t.idle); n > 0 && b.From.Before(t.idle[n-1].To) { // whatever the records say, no moment is left out twice
		b.From = t.idle[n-1].To
	}
	if b.To.After(t.To) {
		b.To = t.To
	}
	if b.Idle = b.To.Sub(b.From); b.Idle > 0 {
		t.idle = append(t.idle, b)
	}
}

// X is where a moment stands; one outside of the window, at its edge.
func (t *Timeline) X(at time.Time) float64 {
	if at.Before(t.From) {
		at = t.From
	} else if at.After(t.To) {
		at = t.To
	}
	i, _ := slices.BinarySearchFunc(t.idle, at, func(b Break, at time.Time) int { return b.From.Compare(at) })
	if i == 0 {
		return float64(at.Sub(t.From)) * t.scale
	}
	b := t.idle[i-1]
	if at.Before(b.To) {
		return b.X + b.Width*float64(at.Sub(b.From))/float64(b.Idle)
	}
	return b.X + b.Width + float64(at.Sub(b.To))*t.scale
}

// At is the moment that stands at a place: the inverse of X.
func (t *Timeline) At(x float64) time.Time {
	i, _ := slices.BinarySearchFunc(t.idle, x, func(b Break, x float64) int { return cmp.Compare(b.X, x) })
	if i == 0 {
		return t.From.Add(time.Duration(x / t.scale))
	}
	b := t.idle[i-1]
	if x < b.X+b.Width {
		return b.From.Add(time.Duration((x - b.X) / b.Width * float64(b.Idle)))
	}
	return b.To.Add(time.Duration((x - b.X - b.Width) / t.scale))
}

// node adds the rows of a node and of all below it that are in the window.
func (t *Timeline) node(v *View, n *Node, depth int) {
	at := len(t.Rows)
	row := TimelineRow{Path: n.Path, Name: n.Name, What: cmp.Or(n.Label, n.Kind), Depth: depth, State: v.shown(n, n.Effective())}
	below := map[string][]*Span{} // by the path of the span above them; "": the node
	for _, s := range n.spans {
		if s.Kind != SpanVisit && v.unvisited(s.Path) == n.Path {
			row.Seq = cmp.Or(row.Seq, s.First)
			row.Bars = append(row.Bars, t.bars(s)...)
			continue
		}
		if s.to != 0 && s.more == nil && s.to < t.From.UnixNano() || s.from > t.To.UnixNano() {
			continue
		}
		up := parentPath(s.Path)
		for up != "" && (v.spans[up] == nil || v.home(up) != n || v.unvisited(up) == n.Path && v.spans[up].Kind != SpanVisit) {
			up = parentPath(up)
		}
		below[up] = append(below[up], s)
	}
	row.sums = len(row.Bars) == 0
	t.Rows = append(t.Rows, row)
	t.under(below, "", depth+1)
	for _, c := range n.Children {
		t.node(v, c, depth+1)
	}
	t.close(at)
}

// under adds the rows of spans below a path.
func (t *Timeline) under(below map[string][]*Span, path string, depth int) {
	for _, s := range below[path] {
		at := len(t.Rows)
		t.Rows = append(t.Rows, TimelineRow{Path: s.Path, Name: lastSegment(s.Path), What: s.Name, Depth: depth, State: s.State, Seq: s.First, Bars: t.bars(s)})
		if s.Path != "" {
			t.under(below, s.Path, depth+1)
		}
		t.close(at)
	}
}

// close ends the row at a place, to which all that follow belong: without a bar of its own
// it shows theirs, and where there is none, it is not in the window.
func (t *Timeline) close(at int) {
	row := &t.Rows[at]
	if row.sums {
		for _, r := range t.Rows[at+1:] {
			if r.Depth == row.Depth+1 {
				row.Bars = append(row.Bars, r.Bars...)
			}
		}
	}
	if len(row.Bars) == 0 && len(t.Rows) == at+1 {
		t.Rows = t.Rows[:at]
	}
}

// bars are the attempts of a span, and what was waited between them.
func (t *Timeline) bars(s *Span) (bars []Bar) {
	add := func(b Bar) {
		if b.To.Before(b.From) { // the drive that it was part of had ended
			b.To = b.From
		}
		if b.To.Before(t.From) || b.From.After(t.To) {
			return
		}
		b.X, b.Count = t.X(b.From), 1
		b.Width = t.X(b.To) - b.X
		bars = append(bars, b)
	}
	var ended, due time.Time
	wait := func(next time.Time) {
		if !ended.IsZero() && next.After(ended) {
			add(Bar{From: ended, To: next, Wait: true, State: NodePending})
		}
	}
	for _, y := range s.More().Tries {
		wait(y.From)
		b := Bar{From: y.From, To: y.To, State: NodeFailed, Code: y.Code}
		if y.Code == "" { // its drive ended first
			b.State, b.Open = s.brokenState(), true
		}
		add(b)
		ended, due = y.To, y.Next
	}
	if s.from == 0 { // the next attempt has not begun
		wait(due)
		return bars
	}
	b := Bar{From: s.Started(), To: s.Ended(), State: s.State, Open: s.broken}
	switch {
	case s.to != 0:
	case s.calling && !t.lost.IsZero():
		b.To, b.State, b.Open = t.lost, s.brokenState(), true
	default:
		b.To = t.To
	}
	wait(b.From)
	add(b)
	return bars
}

// fit folds and cuts rows, and merges what is near, until the limits hold.
func (t *Timeline) fit(skip int) {
	var at [64]int // rows by depth
	for _, r := range t.Rows {
		at[min(r.Depth, len(at)-1)]++
	}
	deepest, sum := 0, at[0]
	for deepest+1 < len(at) && (sum <= 1 || sum+at[deepest+1] <= timelineRows) { // one row would say little
		deepest++
		sum += at[deepest]
	}
	rows := t.Rows[:0:0]
	for _, r := range t.Rows {
		if r.Depth > deepest {
			rows[len(rows)-1].Below++
			continue
		}
		rows = append(rows, r)
	}
	t.Before = min(max(0, skip), len(rows))
	rows = rows[t.Before:]
	t.After = max(0, len(rows)-timelineRows)
	t.Rows = rows[:len(rows)-t.After]
	for near := timelineNear; ; near *= 2 {
		n := len(t.Marks)
		t.Marks = merged(t.Marks, near)
		for i := range t.Rows {
			t.Rows[i].Bars = mergedBars(t.Rows[i].Bars, near)
			n += len(t.Rows[i].Bars)
		}
		if n <= timelineMarks || near > float64(2*t.Width) {
			return
		}
	}
}

// markRank says which of two marks that are near each other is shown.
var markRank = []string{MarkKill, MarkEnd, MarkRollback, MarkCorrection, MarkCancel, MarkInterrupt, MarkPark, MarkStart, MarkResume}

// merged makes one of marks that are near each other.
func merged(marks []Mark, near float64) []Mark {
	var out []Mark
	for _, m := range marks {
		if last := len(out) - 1; last >= 0 && m.X-out[last].X < near {
			count := out[last].Count + m.Count
			if slices.Index(markRank, m.Kind) < slices.Index(markRank, out[last].Kind) {
				out[last] = m
			}
			out[last].Count = count
			continue
		}
		out = append(out, m)
	}
	return out
}

// barRank orders states from the worst.
var barRank = []NodeState{NodeFailed, NodeRefused, NodeUncertain, NodeCancelled, NodeWaiting, NodeRunning, NodeDone, NodeSkipped, NodePending}

// mergedBars makes one of bars that are near each other. What is waited between attempts
// separates nothing.
func mergedBars(bars []Bar, near float64) []Bar {
	slices.SortStableFunc(bars, func(a, b Bar) int { return cmp.Or(cmp.Compare(a.X, b.X), a.From.Compare(b.From)) })
	var out, waits []Bar
	for _, b := range bars {
		if b.Wait {
			waits = append(waits, b)
			continue
		}
		last := len(out) - 1
		if last < 0 || b.X-out[last].X-out[last].Width >= near {
			out = append(out, b)
			continue
		}
		had := &out[last]
		if b.To.After(had.To) {
			had.To = b.To
		}
		had.Width = max(had.Width, b.X+b.Width-had.X)
		had.Count, had.Code, had.Open = had.Count+b.Count, cmp.Or(had.Code, b.Code), had.Open || b.Open
		if slices.Index(barRank, b.State) < slices.Index(barRank, had.State) {
			had.State = b.State
		}
	}
	for _, w := range waits { // those that are in none of them
		i := sort.Search(len(out), func(i int) bool { return out[i].X > w.X })
		if w.Width >= near && (i == 0 || w.X > out[i-1].X+out[i-1].Width-near) {
			out = slices.Insert(out, i, w)
		}
	}
	return out
}

package page

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// atBar says that a run is shown as of a record, and leads to other records.
type atBar struct {
	Seq, Head int64
	Path      string     // of the view
	Rest      []hidden   // what else the address says
	query     url.Values // all of it
}

// hidden is a parameter that a form keeps.
type hidden struct{ Name, Value string }

// moment is the record that an address asks for; 0: the run as it is now.
func (v *view) moment(r tipstaff.Run) (int64, error) {
	text := v.r.URL.Query().Get("at")
	if text == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 1 || seq > r.HeadSeq {
		return 0, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no record %s: the run has records 1 to %d", tipstaff.Quote(text, 20), r.HeadSeq)
	}
	return seq, nil
}

// atBar is the bar of a view that is shown as of a record.
func (v *view) atBar(seq, head int64) *atBar {
	b := &atBar{Seq: seq, Head: head, Path: v.r.URL.Path, query: v.r.URL.Query()}
	b.query.Del("part")
	if path := b.query.Get("path"); path != "" {
		b.query.Set("path", keyOf(path))
	}
	for _, name := range []string{"path", "scale", "from", "to", "skip"} {
		if value := b.query.Get(name); value != "" {
			b.Rest = append(b.Rest, hidden{name, value})
		}
	}
	return b
}

// Text is the record for addresses.
func (b *atBar) Text() string { return strconv.FormatInt(b.Seq, 10) }

// To is the address of the same view as of another record; 0: as it is now.
func (b *atBar) To(seq int64) string {
	q := url.Values{}
	for name, values := range b.query {
		q[name] = values
	}
	q.Del("at")
	if seq > 0 {
		q.Set("at", strconv.FormatInt(min(max(seq, 1), b.Head), 10))
	}
	if len(q) == 0 {
		return b.Path
	}
	return b.Path + "?" + q.Encode()
}

// Fork is the address that forks the run at this record.
func (b *atBar) Fork() string {
	parts := strings.SplitN(b.Path, "/", 5) // /ui/runs/{run}/…
	return strings.Join(parts[:4], "/") + "/fork?" + query("at", b.Text())
}

// Before and After are the records beside this one; 0: there is none.
func (b *atBar) Before() int64 { return b.Seq - 1 }

func (b *atBar) After() int64 {
	if b.Seq >= b.Head {
		return 0
	}
	return b.Seq + 1
}

// asOf is a run as its records up to one tell it. Who was alive then is not recorded: what
// was driven was running.
func asOf(r tipstaff.Run, f *fold) tipstaff.Run {
	facts := tipstaff.Facts{ID: r.ID, Name: r.Program.Name, Launching: f.view.Driven()}
	return tipstaff.Status(facts, &f.view.Fold, f.gates(), f.view.At)
}

// gates are the open ones, as far as the fold knows them.
func (f *fold) gates() (open []tipstaff.Gate) {
	for _, n := range f.view.Roots {
		n.Walk(func(n *tipstaff.Node) {
			for _, s := range n.Spans() {
				more := s.More()
				if s.Kind != tipstaff.SpanGate || s.State != tipstaff.NodeWaiting {
					continue
				}
				if id, err := tipstaff.ParseID(more.Gate); err == nil {
					open = append(open, tipstaff.Gate{ID: id, Kind: tipstaff.GateKind(s.Name), Key: s.Path, Path: n.Path, Question: more.Question, OpenedAt: s.Started(), OpenedSeq: s.First})
				}
			}
		})
	}
	return open
}

package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

var (
	rowKey     = regexp.MustCompile(`<tr data-key="(\d+)"`)
	partDigest = regexp.MustCompile(`^<div id="part-([a-z-]+)" data-v="([0-9a-f]{16})">`)
)

// seqsIn are the numbers of the records in some rows.
func seqsIn(html string) (all []int) {
	for _, m := range rowKey.FindAllStringSubmatch(html, -1) {
		n, _ := strconv.Atoi(m[1])
		all = append(all, n)
	}
	return all
}

// decide answers the open gate of a run, as somebody at a terminal does.
func (b *bed) decide(run tipstaff.Run, action string) {
	b.Helper()
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	if _, err := b.Runner.Decide(local, tipstaff.DecideRequest{Run: run.ID, Gate: run.OpenGates[0].ID.String(), Action: action, Note: "at the terminal"}); err != nil {
		b.Fatal(err)
	}
}

// resume drives a run on to where it rests.
func (b *bed) resume(run tipstaff.ID) tipstaff.Run {
	b.Helper()
	if _, err := b.Control().Continue(b.as("alice"), tipstaff.Continuation{Run: run}); err != nil {
		b.Fatal(err)
	}
	return b.Rest(run.String())
}

// reader is a page that follows a journal over a network that cuts every stream after so many
// events. It does what the script in a browser does.
type reader struct {
	*browser
	page  string
	has   map[string]string // digests of the parts
	html  map[string]string
	order []string // the part that was brought up to date longest ago first
	after int
	rows  []int
	seen  int // events
}

// connect takes that many events, or up to the beat that says that there is no more yet; false:
// the run has ended.
func (r *reader) connect(events int) bool {
	r.Helper()
	var parts []string
	for _, name := range r.order {
		if v := r.has[name]; v != "" {
			name += "~" + v
		}
		parts = append(parts, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.Addr+"/ui/stream?"+url.Values{"page": {r.page}, "parts": {strings.Join(append(parts, "journal-rows"), ",")}, "after": {strconv.Itoa(r.after)}}.Encode(), nil)
	if err != nil {
		r.Fatal(err)
	}
	f := r.read(req)
	defer f.body.Close()
	if f.status == http.StatusNoContent {
		return false
	}
	for range events {
		e, ok := f.next()
		if !ok {
			r.Fatalf("the stream ends by itself: %d, %v", f.status, f.lines.Err())
		}
		r.seen++
		switch e.event {
		case "rows":
			r.rows = append(r.rows, seqsIn(e.data)...)
			if r.after, err = strconv.Atoi(e.id); err != nil {
				r.Fatalf("rows come as %q", e.id)
			}
		case "part":
			m := partDigest.FindStringSubmatch(e.data)
			if m == nil {
				r.Fatalf("a part is %s", e.data)
			}
			if r.has[m[1]] == m[2] {
				r.Errorf("the same bytes of %s are sent again", m[1])
			}
			r.has[m[1]], r.html[m[1]] = m[2], inside(e.data)
			for i, name := range r.order {
				if name == m[1] {
					r.order = append(append(r.order[:i:i], r.order[i+1:]...), name)
				}
			}
		case "beat":
			return true
		case "end":
			return false
		}
	}
	return true
}

// Whatever is lost at whichever event, parts and rows are in the end those of a fresh page, and
// no row comes twice.
func TestAStreamThatIsCutAfterEveryEvent(t *testing.T) {
	b := newBed(t)
	for _, events := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(events), func(t *testing.T) {
			gate := strings.Replace(webtest.Gated(fmt.Sprintf("cut%d.txt", events)), `{id: write`, `{id: ok2, kind: gate, question: "Really?"}, {id: write`, 1)
			run := b.start("alice", gate)
			r := &reader{browser: b.browser("alice"), page: "/ui/runs/" + run.ID.String() + "/journal", has: map[string]string{}, html: map[string]string{}, order: []string{"header"}}
			first := r.open(r.page).body
			r.rows = seqsIn(first)
			r.after = r.rows[len(r.rows)-1]
			for step := range 12 {
				switch step {
				case 3, 6:
					b.decide(run, "approve")
				case 4, 7:
					run = b.resume(run.ID)
				}
				if !r.connect(events) {
					break
				}
			}
			if !run.State.Terminal() {
				t.Fatalf("the run is %s", run.State)
			}
			if r.connect(1) {
				t.Error("the run has ended, and is followed")
			}
			// What was cut off is asked for once more.
			last := r.open(fmt.Sprintf("%s?part=journal-rows&after=%d", r.page, r.after))
			r.rows = append(r.rows, seqsIn(last.body)...)
			for i, seq := range r.rows {
				if seq != i+1 {
					t.Fatalf("the rows are %v", r.rows)
				}
			}
			if fresh := seqsIn(r.open(r.page).body); fmt.Sprint(fresh) != fmt.Sprint(r.rows) || int64(len(r.rows)) != run.HeadSeq {
				t.Errorf("the rows are %v, a fresh page has %v", r.rows, fresh)
			}
			if r.seen < 4 {
				t.Errorf("only %d events came", r.seen)
			}
		})
	}
}

// What a page that was away for long has missed comes as the rows that fit, and a reader that
// comes back by itself repeats where it was.
func TestRowsGoOnWhereTheyEnded(t *testing.T) {
	b := newBed(t)
	run := b.start("alice", webtest.Gated("rows.txt"))
	w := b.browser("alice")
	page := "/ui/runs/" + run.ID.String() + "/journal"
	to := "http://" + w.Addr + "/ui/stream?" + url.Values{"page": {page}, "parts": {"header,journal-rows"}, "after": {"1"}}.Encode()
	ask := func(last string) frame {
		req, err := http.NewRequest("GET", to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		f := w.read(req)
		defer f.body.Close()
		e, _ := f.next()
		return e
	}
	if e := ask(""); e.event != "rows" || seqsIn(e.data)[0] != 2 || e.id != fmt.Sprint(run.HeadSeq) {
		t.Errorf("after 1 come %v as %s", seqsIn(e.data), e.id)
	}
	if e := ask("3"); e.event != "rows" || seqsIn(e.data)[0] != 4 {
		t.Errorf("after 3 come %v", seqsIn(e.data))
	}
	if e := ask(fmt.Sprint(run.HeadSeq)); e.event != "part" {
		t.Errorf("after the head comes %+v", e)
	}
	narrow := w.open(page + "?kind=gates&part=journal-rows&after=0")
	if got := seqsIn(narrow.body); len(got) != 1 || narrow.header.Get("Tipstaff-Seq") != fmt.Sprint(run.HeadSeq) {
		t.Errorf("of the gates there are %v, up to %s", got, narrow.header.Get("Tipstaff-Seq"))
	}
	for _, bad := range []string{"-1", "x"} {
		if p := w.get("/ui/stream?" + url.Values{"page": {page}, "parts": {"header"}, "after": {bad}}.Encode()); p.status != http.StatusBadRequest {
			t.Errorf("after %s is answered %d", bad, p.status)
		}
	}
}

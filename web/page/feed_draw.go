package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

const (
	journalRows = "journal-rows"   // the part that goes on by cursor
	seqHeader   = "Tipstaff-Seq"   // of a part that goes on by cursor: the record up to which it is
	finalHeader = "Tipstaff-Final" // of a run that has ended: nothing more is to come
)

// version is a part as it was drawn, ready to be sent.
type version struct {
	digest string
	frame  []byte
}

// rowsFrame are rows of a journal after one record and up to another.
type rowsFrame struct {
	after, to int64
	frame     []byte // nil: none of these records is shown
}

// draw is the page as it stands now; nil: as it stood before.
func (f *feed) draw(old *drawing, woken bool) *drawing {
	d := *old
	d.next = make(chan struct{})
	fail := func(err error) *drawing {
		d.err = err
		return &d
	}
	stood, status := f.stands, f.status
	if err := f.look(&d); err != nil {
		return fail(err)
	}
	if woken || f.stands != stood {
		d.parts = maps.Clone(old.parts)
		if d.parts == nil {
			d.parts = map[string]version{}
		}
		for _, name := range f.parts {
			if name == journalRows {
				continue
			}
			html, err := f.part(f.ctx, name, nil)
			if err != nil {
				return fail(err)
			}
			if html != nil {
				d.parts[name] = newVersion(name, d.seq, html.Bytes())
			}
		}
		if from := max(old.seq, old.rows.to); from > 0 && d.seq > from && f.tails() {
			rows, err := f.rowsAfter(f.ctx, from)
			if err != nil {
				return fail(err)
			}
			d.rows = rows
		}
	}
	if !f.say(old, &d, f.status != status) && d.seq == old.seq && d.final == old.final && d.waiting == old.waiting && maps.EqualFunc(d.parts, old.parts, sameVersion) {
		return nil
	}
	return &d
}

func sameVersion(a, b version) bool { return a.digest == b.digest }

// look finds out what the page is drawn of. Lists, and short runs that are driven, change with
// the time; gates expire by themselves.
func (f *feed) look(d *drawing) error {
	now := f.s.now()
	if now.Sub(f.counted) >= lookEvery || f.run.IsZero() {
		inbox, err := f.s.control.Runs.Inbox(f.ctx, tipstaff.InboxRequest{Limit: 1})
		if err != nil {
			return err
		}
		d.waiting, f.counted = inbox.Total, now
	}
	if f.stands = now.String(); f.run.IsZero() {
		return nil
	}
	r, err := f.s.control.Runs.Get(f.ctx, f.run)
	if err != nil {
		return err
	}
	d.seq, f.status, d.final = r.HeadSeq, r.Status, r.State.Terminal()
	if r.HeadSeq > shortRun || r.Condition != tipstaff.Running {
		expired := 0
		for _, g := range r.OpenGates {
			if g.Expired(now) {
				expired++
			}
		}
		f.stands = fmt.Sprint(r.Status, r.HeadSeq, expired)
	}
	return nil
}

// tails reports whether rows of the journal are sent as they come.
func (f *feed) tails() bool { return strings.Contains(","+f.key.parts+",", ","+journalRows+",") }

// rowsAfter are the rows of the journal after a record.
func (f *feed) rowsAfter(ctx context.Context, after int64) (rowsFrame, error) {
	html, err := f.part(ctx, journalRows, url.Values{"after": {strconv.FormatInt(after, 10)}})
	if err != nil || html == nil {
		return rowsFrame{after: after, to: after}, err
	}
	to, err := strconv.ParseInt(html.header.Get(seqHeader), 10, 64)
	if err != nil {
		return rowsFrame{}, fmt.Errorf("rows of a journal without their last record: %w", err)
	}
	rows := rowsFrame{after: after, to: to}
	if bytes.Contains(html.Bytes(), []byte("<tr")) {
		rows.frame = frameOf("rows", to, html.Bytes())
	}
	return rows, nil
}

// part has a page draw one of its parts; nil: it has no such part.
func (f *feed) part(ctx context.Context, name string, with url.Values) (*capture, error) {
	at := *f.page
	q := at.Query()
	for name, values := range with {
		q[name] = values
	}
	q.Set("part", name)
	at.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	w := &capture{header: http.Header{}, status: http.StatusOK}
	f.s.mux.ServeHTTP(w, r)
	switch w.status {
	case http.StatusOK:
		return w, nil
	case http.StatusNotFound:
		return nil, nil
	}
	return nil, fmt.Errorf("part %s of a page is answered %d", name, w.status)
}

// capture is an answer that is kept.
type capture struct {
	bytes.Buffer
	header http.Header
	status int
}

func (d *capture) Header() http.Header    { return d.header }
func (d *capture) WriteHeader(status int) { d.status = status }

func newVersion(name string, seq int64, html []byte) version {
	sum := sha256.Sum256(html)
	v := version{digest: hex.EncodeToString(sum[:8])}
	v.frame = frameOf("part", seq, fmt.Appendf(nil, "<div id=\"part-%s\" data-v=\"%s\">\n%s</div>", name, v.digest, html))
	return v
}

// frameOf is an event of a stream.
func frameOf(event string, seq int64, data []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", event)
	if seq > 0 {
		fmt.Fprintf(&b, "id: %d\n", seq)
	}
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimSuffix(line, []byte("\n")))
	}
	b.WriteByte('\n')
	return b.Bytes()
}

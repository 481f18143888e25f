package page

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	partsMost = 8 // of one page

	beatEvery  = 15 * time.Second
	frameTime  = 30 * time.Second // for a reader to take a frame
	streamPath = "/ui/stream"
)

// live is one tab that follows a page. It knows what it has sent and holds no queue: who reads
// slowly skips drawings, keeps nobody waiting, and arrives at the last one.
type live struct {
	*view
	page  *url.URL
	run   tipstaff.ID       // that the page is of; zero: of none
	names []string          // of the parts, in the order in which they are sent
	has   map[string]string // the digest of each part that the page shows
	after int64             // the record up to which it has the rows of a journal
	said  int
	told  int // how many gates wait, as it was told
	out   *http.ResponseController
	more  chan []byte // frames of other sources
}

// liveSources send frames of their own along with the parts of a page, until ctx ends. A frame
// that is not taken at once may be dropped.
var liveSources = []func(ctx context.Context, l *live, frames chan<- []byte){tellLive}

var (
	partName = regexp.MustCompile(`^([a-z][a-z-]{0,30})(?:~([0-9a-f]{16}))?$`)
	runPath  = regexp.MustCompile(`^/ui/runs/([0-9A-Z]{26})(/|$)`)
)

// stream sends the parts of a page whenever they change, until its run has ended.
func (v *view) stream() error {
	if err := v.checkPart(); err != nil {
		return err
	}
	l, err := v.newLive()
	if err != nil {
		return err
	}
	over, err := l.over()
	if err != nil {
		return err
	}
	if over || l.page.Query().Get("at") != "" {
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	leave, err := v.s.streams.enter(v.signed)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := context.WithCancel(v.ctx())
	defer stop()
	f := v.s.feeds.enter(v.s, v.signed, l.page, l.names, l.run)
	defer v.s.feeds.leave(f)
	for _, from := range liveSources {
		go from(ctx, l, l.more)
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	if l.write([]byte("retry: 2000\n")) == nil {
		l.follow(f)
	}
	return nil
}

// newLive reads what is asked for: a page, its parts with the digests of those that it shows,
// and the record up to which it has the rows.
func (v *view) newLive() (*live, error) {
	q := v.r.URL.Query()
	l := &live{view: v, has: map[string]string{}, out: http.NewResponseController(v.w), more: make(chan []byte)}
	page, err := url.Parse(q.Get("page"))
	if err != nil || page.Host != "" || page.Scheme != "" || local(page.Path) != page.Path || page.Path == streamPath {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "page is not the address of a page")
	}
	l.page = page
	for _, text := range strings.Split(q.Get("parts"), ",") {
		m := partName.FindStringSubmatch(text)
		if m == nil || len(l.names) == partsMost {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "parts are not names of parts")
		}
		l.names = append(l.names, m[1])
		l.has[m[1]] = m[2]
	}
	after := q.Get("after")
	if id := v.r.Header.Get("Last-Event-ID"); id != "" {
		after = id // a reader that comes back by itself repeats its first address
	}
	if after != "" {
		if l.after, err = strconv.ParseInt(after, 10, 64); err != nil || l.after < 0 {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "after is not the number of a record")
		}
	}
	if m := runPath.FindStringSubmatch(page.Path); m != nil {
		if l.run, err = tipstaff.ParseID(m[1]); err != nil {
			return nil, tipstaff.Errorf(tipstaff.RunNotFound, "there is no run %s", tipstaff.Quote(m[1], 40))
		}
	}
	return l, nil
}

// over reports whether the run of the page has ended, for whom it may be shown to.
func (l *live) over() (bool, error) {
	if l.run.IsZero() {
		return false, nil
	}
	r, err := l.s.control.Runs.Get(l.ctx(), l.run)
	return err == nil && r.State.Terminal(), err
}

// follow sends until the run has ended, the session is over, or somebody has gone.
func (l *live) follow(f *feed) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	d := f.newest.Load()
	if l.said = d.said; d.parts == nil { // nobody else follows this page: it is being drawn
		select {
		case <-d.next:
			d = f.newest.Load()
		case <-l.ctx().Done():
			return
		}
	}
	l.told = -1 // so that it begins with a beat, once it has what it lacks
	for {
		if d.err != nil || l.s.session(l.r) == nil || l.send(f, d) != nil {
			return
		}
		if d.final {
			_ = l.write(frameOf("end", d.seq, []byte("{}")))
			return
		}
		select {
		case <-d.next:
			d = f.newest.Load()
		case frame := <-l.more:
			if l.write(frame) != nil {
				return
			}
		case <-beat.C:
			l.told = -1
		case <-l.ctx().Done():
			return
		}
	}
}

// send sends what differs from what was sent. Rows come first: the number of a part promises
// those up to it.
func (l *live) send(f *feed, d *drawing) error {
	for f.tails() && l.after < d.seq {
		rows, err := d.rows, error(nil)
		if rows.after != l.after || rows.to == 0 {
			rows, err = f.rowsAfter(f.ctx, l.after)
		}
		if err == nil && rows.frame != nil {
			err = l.write(rows.frame)
		}
		if err != nil {
			return err
		}
		if l.after = rows.to; rows.to == rows.after {
			break // the page has no rows
		}
	}
	for _, name := range l.names {
		part, drawn := d.parts[name]
		if !drawn || part.digest == l.has[name] {
			continue
		}
		if err := l.write(bytes.ReplaceAll(part.frame, []byte(formMark), []byte(l.signed.form()))); err != nil {
			return err
		}
		l.has[name] = part.digest
	}
	if d.said > l.said {
		l.said = d.said
		if err := l.write(frameOf("say", 0, []byte(d.say))); err != nil {
			return err
		}
	}
	if d.waiting != l.told {
		l.told = d.waiting
		return l.beat()
	}
	return nil
}

// pulse is what a page is told now and then: that the server is there, of which version it is,
// and how many gates wait.
type pulse struct {
	Now     string `json:"now"`
	User    string `json:"user"`
	Assets  string `json:"assets"`
	Waiting int    `json:"waiting"`
	Form    string `json:"form"` // what forms carry
}

// beat tells that the stream lives.
func (l *live) beat() error {
	data, err := json.Marshal(pulse{clock{l.s.now()}.ISO(), l.signed.User, assets(), l.told, l.signed.form()})
	if err != nil {
		return err
	}
	return l.write(frameOf("beat", 0, data))
}

// write sends a frame to a reader who has so much time to take it.
func (l *live) write(frame []byte) error {
	if err := l.ctx().Err(); err != nil {
		return err
	}
	if err := l.out.SetWriteDeadline(time.Now().Add(frameTime)); err != nil {
		return err
	}
	if _, err := l.w.Write(frame); err != nil {
		return err
	}
	return l.out.Flush()
}

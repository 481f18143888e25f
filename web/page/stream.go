package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	streamsOfSession = 8
	streamsInAll     = 200
	partsMost        = 8 // of one page

	partEvery  = 200 * time.Millisecond // the least between two versions of a part
	lookEvery  = 2 * time.Second        // for what writes nothing, like a process that was killed
	beatEvery  = 15 * time.Second
	frameTime  = 30 * time.Second // for a reader to take a frame
	shortRun   = 2000             // records up to which a run that is driven is drawn anew every look
	streamPath = "/ui/stream"
)

// streams counts who follows.
type streams struct {
	mu  sync.Mutex
	all int
	of  map[[nonceSize]byte]int
}

// enter takes a place for a stream of a session.
func (s *streams) enter(of *session) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= streamsInAll || s.of[of.nonce] >= streamsOfSession {
		return nil, &problem{status: http.StatusTooManyRequests, title: "Too many pages are live", text: "This one asks now and then."}
	}
	if s.of == nil {
		s.of = map[[nonceSize]byte]int{}
	}
	s.all++
	s.of[of.nonce]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[of.nonce]--; s.of[of.nonce] == 0 {
			delete(s.of, of.nonce)
		}
	}, nil
}

// count is how many there are.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// live is one tab that follows a page. It holds the newest version of each part and no queue:
// who reads slowly skips versions, keeps nobody waiting, and arrives at the last one.
type live struct {
	*view
	page    *url.URL
	parts   []string
	run     tipstaff.ID // that the page is of; zero: of none
	sent    map[string][]byte
	out     *http.ResponseController
	changed chan struct{} // signalled, coalesced
}

var (
	partName = regexp.MustCompile(`^[a-z][a-z-]{0,30}$`)
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
		v.w.WriteHeader(http.StatusNoContent) // which has a browser not come back
		return nil
	}
	leave, err := v.s.streams.enter(v.signed)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := context.WithCancel(v.ctx())
	defer stop()
	v.r = v.r.WithContext(ctx)
	defer l.listen()()
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	if l.write("retry: 2000\n\n") == nil && l.beat() == nil {
		l.follow()
	}
	return nil
}

// newLive reads what is asked for.
func (v *view) newLive() (*live, error) {
	q := v.r.URL.Query()
	l := &live{view: v, sent: map[string][]byte{}, out: http.NewResponseController(v.w), changed: make(chan struct{}, 1)}
	page, err := url.Parse(q.Get("page"))
	if err != nil || page.Host != "" || page.Scheme != "" || local(page.Path) != page.Path || page.Path == streamPath {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "page is not the address of a page")
	}
	l.page, l.parts = page, strings.Split(q.Get("parts"), ",")
	for _, name := range l.parts {
		if !partName.MatchString(name) || len(l.parts) > partsMost {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "parts are not names of parts")
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

// wake says that something has changed.
func (l *live) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// listen wakes whenever the runs of a list, or the one of the page, stand elsewhere.
func (l *live) listen() (stop func()) {
	if !l.run.IsZero() {
		go l.followRun()
		return func() {}
	}
	if l.s.control.Follow == nil {
		return func() {}
	}
	changed, stop := l.s.control.Follow()
	go func() {
		for {
			select {
			case <-l.ctx().Done():
				return
			case _, ok := <-changed:
				if !ok {
					return
				}
				l.wake()
			}
		}
	}()
	return stop
}

// followRun wakes at every record that is written from now on.
func (l *live) followRun() {
	r, err := l.s.control.Runs.Get(l.ctx(), l.run)
	if err != nil {
		return // the next look says so
	}
	for _, err := range l.s.control.Runs.Events(l.ctx(), tipstaff.EventsRequest{Run: l.run, After: r.HeadSeq, Follow: true, Stay: true}) {
		if err != nil {
			return
		}
		l.wake()
	}
	l.wake()
}

// follow sends until the run has ended, the session is over, or somebody has gone.
func (l *live) follow() {
	beat, look := time.NewTicker(beatEvery), time.NewTicker(lookEvery)
	defer beat.Stop()
	defer look.Stop()
	shown := ""
	for woken := true; ; {
		stands, final, err := l.stands()
		if err != nil {
			return
		}
		if woken || stands != shown {
			if err := l.send(); err != nil {
				return
			}
			shown = stands
		}
		if final {
			_ = l.write("event: end\ndata: {}\n\n")
			return
		}
		if !l.pause(partEvery) {
			return
		}
		woken = false
		select {
		case <-l.changed:
			woken = true
		case <-look.C:
		case <-beat.C:
			if l.beat() != nil {
				return
			}
		case <-l.ctx().Done():
			return
		}
	}
}

// stands is what tells whether a page must be drawn anew although nobody has said so. Lists
// and short runs that are driven change with the time.
func (l *live) stands() (text string, final bool, err error) {
	if l.run.IsZero() {
		return l.s.now().String(), false, nil
	}
	r, err := l.s.control.Runs.Get(l.ctx(), l.run)
	if err != nil {
		return "", false, err
	}
	text = fmt.Sprint(r.Status, r.HeadSeq)
	if r.HeadSeq <= shortRun && r.Condition == tipstaff.Running {
		text = l.s.now().String()
	}
	return text, r.State.Terminal(), nil
}

// pause waits, and reports whether anybody is still there.
func (l *live) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx().Done():
		return false
	}
}

// send sends the parts that differ from what was sent.
func (l *live) send() error {
	for _, name := range l.parts {
		html, err := l.draw(name)
		if err != nil {
			return err
		}
		if html == nil || bytes.Equal(html, l.sent[name]) {
			continue
		}
		var frame strings.Builder
		frame.WriteString("event: part\n")
		fmt.Fprintf(&frame, "data: <div id=\"part-%s\">\n", name)
		for line := range strings.Lines(strings.ReplaceAll(string(html), "\r", "\n")) {
			frame.WriteString("data: " + strings.TrimSuffix(line, "\n") + "\n")
		}
		frame.WriteString("data: </div>\n\n")
		if err := l.write(frame.String()); err != nil {
			return err
		}
		l.sent[name] = html
	}
	return nil
}

// draw has a page draw one of its parts, for the session as it is now; nil: it has no such
// part.
func (l *live) draw(name string) ([]byte, error) {
	at := *l.page
	q := at.Query()
	q.Set("part", name)
	at.RawQuery = q.Encode()
	r := l.r.Clone(l.ctx())
	r.URL, r.RequestURI, r.Pattern, r.Form = &at, at.RequestURI(), "", nil
	w := &capture{header: http.Header{}, status: http.StatusOK}
	l.s.mux.ServeHTTP(w, r)
	switch w.status {
	case http.StatusOK:
		return w.Bytes(), nil
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

// beat tells that the stream lives, and of which version the server is.
func (l *live) beat() error {
	data, err := json.Marshal(map[string]string{"now": clock{l.s.now()}.ISO(), "assets": assets()})
	if err != nil {
		return err
	}
	return l.write("event: beat\ndata: " + string(data) + "\n\n")
}

// write sends a text to a reader who has so much time to take it.
func (l *live) write(text string) error {
	if err := l.ctx().Err(); err != nil {
		return err
	}
	if err := l.out.SetWriteDeadline(time.Now().Add(frameTime)); err != nil {
		return err
	}
	if _, err := l.w.Write([]byte(text)); err != nil {
		return err
	}
	return l.out.Flush()
}

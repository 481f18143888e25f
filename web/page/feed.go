package page

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	partEvery = 200 * time.Millisecond // the least between two versions of a part
	lookEvery = 2 * time.Second        // for what writes nothing, like a process that was killed
	sayEvery  = 5 * time.Second        // the least between two sentences
	shortRun  = 2000                   // records up to which a run that is driven is drawn anew every look
)

// feeds are the pages that somebody follows. Each is drawn once for all who may see the same.
type feeds struct {
	mu  sync.Mutex
	all map[feedKey]*feed
}

// feedKey is what makes two streams the same: whose rights they have, and what they show.
type feedKey struct{ class, page, parts string }

// feed is a page that is drawn whenever it changes. It never waits for who reads it: it leaves
// the newest drawing, and each reader takes it when it can.
type feed struct {
	s       *Site
	key     feedKey
	page    *url.URL
	parts   []string
	run     tipstaff.ID // that the page is of; zero: of none
	ctx     context.Context
	stop    context.CancelFunc
	readers int // guarded by feeds.mu
	changed chan struct{}
	newest  atomic.Pointer[drawing]

	// What painting remembers from one drawing to the next.
	stands  string    // what the page was drawn of
	status  string    // of the run
	counted time.Time // when the gates that wait were
	saidAt  time.Time

	mu    sync.Mutex
	tally map[string]int // what has happened since the last sentence
}

// drawing is a page as it stood once. It does not change.
type drawing struct {
	seq     int64 // the head; 0: of a list
	parts   map[string]version
	rows    rowsFrame // those of the journal that came last
	said    int       // how many sentences there were
	say     string    // the last of them
	waiting int       // gates that wait for whoever has these rights
	final   bool
	err     error
	next    chan struct{} // closed when there is a newer one
}

// formMark stands for the token of the session in what is drawn for several. Nobody outside of
// this process knows it, so that no text of others holds it.
var formMark = rand.Text()

// drawnFor is the session that a page is drawn for, in a context.
type drawnFor struct{}

// enter is the feed of a page for who has the rights of a session.
func (k *feeds) enter(s *Site, of *session, page *url.URL, parts []string, run tipstaff.ID) *feed {
	sorted := slices.Sorted(slices.Values(parts))
	key := feedKey{fmt.Sprintf("%q %q %q", of.User, of.Principal, of.Scopes), page.RequestURI(), strings.Join(sorted, ",")}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.all[key]; f != nil {
		f.readers++
		return f
	}
	shared := *of
	shared.shared = true
	ctx, stop := context.WithCancel(tipstaff.WithCaller(context.WithValue(context.Background(), drawnFor{}, &shared), of.Caller))
	f := &feed{s: s, key: key, page: page, parts: sorted, run: run, ctx: ctx, stop: stop, readers: 1, changed: make(chan struct{}, 1), tally: map[string]int{}}
	f.newest.Store(&drawing{next: make(chan struct{})})
	if k.all == nil {
		k.all = map[feedKey]*feed{}
	}
	k.all[key] = f
	go f.listen()
	go f.paint()
	return f
}

// leave lets go of a feed. The last who leaves ends it.
func (k *feeds) leave(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.readers--; f.readers == 0 {
		k.remove(f)
	}
}

// end has nobody enter a feed any more that draws no longer.
func (k *feeds) end(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(f)
}

func (k *feeds) remove(f *feed) {
	f.stop()
	if k.all[f.key] == f {
		delete(k.all, f.key)
	}
}

// wake says that something has changed.
func (f *feed) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// listen wakes whenever the runs of a list, or the one of the page, stand elsewhere.
func (f *feed) listen() {
	if !f.run.IsZero() {
		f.followRun()
		return
	}
	if session, is := chatOf(f.page.Path); is {
		f.s.eachTurn(f.ctx, session, f.wake, f.hear)
		return
	}
	if f.s.control.Follow == nil {
		return
	}
	changed, stop := f.s.control.Follow()
	defer stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case _, ok := <-changed:
			if !ok {
				return
			}
			f.wake()
		}
	}
}

// followRun wakes at every record that is written from now on.
func (f *feed) followRun() {
	r, err := f.s.control.Runs.Get(f.ctx, f.run)
	if err != nil {
		return // the next look says so
	}
	_ = f.hear(r.ID, r.HeadSeq) // the next look says what is the matter
}

// hear wakes at every record of a run after one, until it has ended.
func (f *feed) hear(run tipstaff.ID, after int64) error {
	for e, err := range f.s.control.Runs.Events(f.ctx, tipstaff.EventsRequest{Run: run, After: after, Follow: true, Stay: true}) {
		if err != nil {
			return err
		}
		if e.Seq > 0 { // what is told beside the records changes no part
			f.count(&e)
			f.wake()
		}
	}
	f.wake()
	return nil
}

// paint draws the page whenever it changes, until its run has ended or nobody is left.
func (f *feed) paint() {
	defer f.s.feeds.end(f)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for woken := true; ; {
		began := time.Now()
		next := f.draw(f.newest.Load(), woken)
		if next != nil {
			close(f.newest.Swap(next).next)
			if next.final || next.err != nil {
				return
			}
		}
		// What takes long to draw is drawn less often: others have work to do as well.
		if !f.pause(max(partEvery, 3*time.Since(began))) {
			return
		}
		woken = false
		select {
		case <-f.changed:
			woken = true
		case <-look.C:
		case <-f.ctx.Done():
			return
		}
	}
}

// pause waits, and reports whether anybody is still there.
func (f *feed) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.ctx.Done():
		return false
	}
}

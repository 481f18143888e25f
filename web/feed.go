package web

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	// buffered is how many records are kept for each follower of a run that does not keep up.
	// All share them, so that it is enough to keep mostBuffered for a crowd.
	buffered      = 256
	mostBuffered  = 16 * buffered
	bufferedBytes = 16 << 20 // of one run, beyond the first 256

	// Waking a follower takes time from the run that it follows: a crowd is woken less often.
	// A few hear of everything at once.
	few        = 16
	wakeEach   = 500 * time.Microsecond
	mostSilent = 500 * time.Millisecond
)

// feeds read the journals of runs that somebody follows: each run once, however many do.
type feeds struct {
	runs tipstaff.Reader

	mu    sync.Mutex
	open  map[tipstaff.ID]*feed
	users map[string]int // streams of each

	subscribers, sent, dropped atomic.Int64
}

// feed is what was written in a run of late. Writing to it never waits for a reader.
type feed struct {
	feeds *feeds
	run   tipstaff.ID
	stop  context.CancelFunc

	mu     sync.Mutex
	frames []frame
	first  int64 // number of frames[0], counted from the beginning of the feed
	bytes  int
	last   int64 // seq of the last record that was read
	over   bool  // nothing follows

	joined   *batch // that was taken last: a crowd takes the same
	readers  int
	more     chan struct{} // closed when there is something new
	woken    time.Time     // when that was done last
	sleeping bool          // it will be done when a timer fires
}

// frame is one event as it is sent.
type frame struct {
	seq   int64 // 0: it is not recorded
	final bool  // the run has ended with it
	text  []byte
}

// frameOf writes an event. Neither kinds nor records have line breaks in them.
func frameOf(e *tipstaff.Event) frame {
	var b bytes.Buffer
	if e.Seq > 0 {
		fmt.Fprintf(&b, "id: %d\n", e.Seq)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Kind, e.Stored())
	return frame{e.Seq, e.Kind.Terminal(), b.Bytes()}
}

// follow is the feed of a run, with one reader more; nil: nobody follows it. begin has it
// followed then, from its last records on, so that those who come next find them here. It is
// read on behalf of the first, who may.
func (f *feeds) follow(ctx context.Context, run tipstaff.ID, begin bool, head int64) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.open[run]
	if of == nil && !begin {
		return nil
	}
	if of == nil {
		if f.open == nil {
			f.open = map[tipstaff.ID]*feed{}
		}
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		of = &feed{feeds: f, run: run, stop: stop, last: max(head-buffered, 0), more: make(chan struct{})}
		f.open[run] = of
		go of.read(reading)
	}
	of.mu.Lock()
	of.readers++
	of.mu.Unlock()
	f.subscribers.Add(1)
	return of
}

// leave is for a reader that goes. The last one closes the feed.
func (f *feed) leave() {
	f.feeds.mu.Lock()
	defer f.feeds.mu.Unlock()
	f.feeds.subscribers.Add(-1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers--; f.readers == 0 {
		f.stop()
		if f.feeds.open[f.run] == f {
			delete(f.feeds.open, f.run)
		}
	}
}

// read follows the run until it has ended, or nobody is there to hear of it.
func (f *feed) read(ctx context.Context) {
	for e, err := range f.feeds.runs.Events(ctx, tipstaff.EventsRequest{Run: f.run, After: f.last, Follow: true, Stay: true}) {
		if err != nil {
			break
		}
		f.publish(frameOf(&e))
	}
	f.feeds.mu.Lock()
	if f.feeds.open[f.run] == f { // whoever comes now begins another
		delete(f.feeds.open, f.run)
	}
	f.feeds.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.wake()
}

func (f *feed) publish(e frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames, f.bytes = append(f.frames, e), f.bytes+len(e.text)
	f.last = max(f.last, e.seq)
	most := min(buffered*max(f.readers, 1), mostBuffered)
	drop := 0
	for n := len(f.frames); n-drop > most || f.bytes > bufferedBytes && n-drop > buffered; drop++ {
		f.bytes -= len(f.frames[drop].text)
		f.frames[drop].text = nil
	}
	f.frames, f.first = f.frames[drop:], f.first+int64(drop)
	if f.sleeping {
		return
	}
	pause := time.Duration(0)
	if f.readers > few {
		pause = min(time.Duration(f.readers)*wakeEach, mostSilent) - time.Since(f.woken)
	}
	if pause <= 0 {
		f.wake()
		return
	}
	f.sleeping = true
	time.AfterFunc(pause, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wake()
	})
}

// wake tells readers that there is something new.
func (f *feed) wake() {
	close(f.more)
	f.more, f.woken, f.sleeping = make(chan struct{}), time.Now(), false
}

// place is how far a reader has come: the last record that it has had and, once it reads from
// the feed, the number of the next frame.
type place struct {
	seq      int64
	next     int64
	attached bool
}

// batch is frames that are sent together. What it holds follows from its place in the feed
// alone, so that whoever is at that place can be sent it.
type batch struct {
	from, to int64 // numbers of its frames in the feed
	text     []byte
	records  int64
	last     int64 // seq of its last record; 0: it has none
	final    bool
}

// add puts a frame at the end.
func (b *batch) add(e frame) {
	b.text, b.final = append(b.text, e.text...), b.final || e.final
	if e.seq > 0 {
		b.records, b.last = b.records+1, e.seq
	}
}

// take is what a reader has not had yet. behind: the feed does not have it any more, or never
// had; the store does. Else, if there is nothing, more is closed when there is, or over says
// that there never will be. A reader who was told more than the feed has read, by the store or
// by another server, waits until the feed has come that far.
func (f *feed) take(p *place) (next *batch, behind, over bool, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.first + int64(len(f.frames))
	if p.attached && p.next < f.first {
		f.feeds.dropped.Add(end - p.next)
		p.attached = false
	}
	if !p.attached && p.seq > f.last {
		return nil, false, f.over, f.more
	}
	if !p.attached && !f.attach(p, end) {
		return nil, true, f.over, nil
	}
	if p.next == end {
		return nil, false, f.over, f.more
	}
	if b := f.joined; b == nil || b.from != p.next || b.to != end {
		f.joined = &batch{from: p.next, to: end}
		for _, e := range f.frames[p.next-f.first:] {
			f.joined.add(e)
		}
	}
	return f.joined, false, f.over, f.more
}

// attach finds the place in the feed of a reader who is not ahead of it: right behind the last
// record that it has had. It is not there if the feed begins later.
func (f *feed) attach(p *place, end int64) bool {
	if p.seq == f.last {
		p.next, p.attached = end, true
		return true
	}
	for i, e := range f.frames {
		if e.seq == p.seq+1 {
			p.next, p.attached = f.first+int64(i), true
			return true
		}
	}
	return false
}

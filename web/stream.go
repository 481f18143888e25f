package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	heartbeat = 15 * time.Second
	// chunk is how many bytes a reader must take within the time for a write.
	chunk = 64 << 10
	// What is read from the store at a time: records, and bytes.
	storedRecords = 1000
	storedBytes   = 1 << 20
)

// stream sends the records of a run as they are written, from the one after Last-Event-ID or
// else after the cursor, until the run has ended. It holds nothing up: what the reader does
// not take in time it is sent from the store.
func (c *call) stream(after int64) (any, error) {
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		seq, err := strconv.ParseInt(last, 10, 64)
		if err != nil || seq < 0 {
			return nil, refuse(http.StatusBadRequest, "Last-Event-ID is %s: it is the number of a record", tipstaff.Quote(last, 100))
		}
		after = seq
	}
	feed, err := c.join(after)
	if feed == nil || err != nil {
		return done{}, err
	}
	defer feed.leave()
	leave, err := c.s.feeds.enter(tipstaff.CallerFrom(c.ctx()).User)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, stop := c.s.untilStopped(c.ctx())
	defer stop()
	// Who does not take anything has a moment left when the server goes down.
	defer context.AfterFunc(c.s.serving, func() { _ = c.controller().SetWriteDeadline(time.Now().Add(time.Second / 2)) })()
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies are not to wait for more
	f := &follower{call: c, ctx: ctx, feed: feed, place: place{seq: after}}
	if f.write([]byte("retry: 2000\n\n")) == nil && c.r.Method != http.MethodHead {
		f.follow()
	}
	return done{}, nil
}

// join finds the feed of a run for a reader who may follow it; nil: there is nothing more to
// follow, which was answered. That many follow a run must not cost it much: who joins others
// is only looked at, where the run has something for them.
func (c *call) join(after int64) (*feed, error) {
	if c.s.serving.Err() != nil {
		return nil, errStopping
	}
	for _, err := range c.s.control.Runs.Events(c.ctx(), tipstaff.EventsRequest{Run: c.run, After: after, Limit: 1}) {
		if err != nil && tipstaff.CodeOf(err) != tipstaff.CursorBeyondHead {
			return nil, err
		}
		if err == nil {
			if feed := c.s.feeds.follow(c.ctx(), c.run, false, 0); feed != nil {
				return feed, nil
			}
		}
	}
	run, err := c.s.control.Runs.Get(c.ctx(), c.run)
	switch {
	case err != nil:
		return nil, err
	case run.State.Terminal() && after >= run.HeadSeq:
		c.w.WriteHeader(http.StatusNoContent)
		return nil, nil
	case after > run.HeadSeq:
		return nil, tipstaff.Errorf(tipstaff.CursorBeyondHead, "run %s has %d records: there is none after %d", run.ID, run.HeadSeq, after)
	}
	return c.s.feeds.follow(c.ctx(), c.run, true, run.HeadSeq), nil
}

// follower is one who reads a stream.
type follower struct {
	*call
	ctx  context.Context
	feed *feed
	place
}

// follow sends until the run has ended, or somebody has gone.
func (f *follower) follow() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		next, behind, over, more := f.feed.take(&f.place)
		var err error
		var final bool
		switch {
		case behind:
			had := f.seq
			if final, err = f.catchUp(); f.seq == had && over {
				return // the feed broke off
			}
		case next != nil:
			final, err = next.final, f.send(next)
			f.next = next.to
		case over:
			return
		default:
			select {
			case <-more:
			case <-beat.C:
				err = f.write([]byte(": still here\n\n"))
			case <-f.ctx.Done():
				return
			}
		}
		if final {
			_ = f.write([]byte("event: end\ndata: {}\n\n"))
		}
		if final || err != nil {
			return
		}
	}
}

// catchUp sends what the store has, a part of it.
func (f *follower) catchUp() (final bool, err error) {
	var next batch
	for e, err := range f.s.control.Runs.Events(f.ctx, tipstaff.EventsRequest{Run: f.run, After: f.seq, Limit: storedRecords}) {
		if err != nil {
			return false, err
		}
		if next.add(frameOf(&e)); len(next.text) >= storedBytes {
			break
		}
	}
	return next.final, f.send(&next)
}

// send writes a batch, so many bytes at a time.
func (f *follower) send(b *batch) error {
	for text := range slices.Chunk(b.text, chunk) {
		if err := f.write(text); err != nil {
			return err
		}
	}
	f.seq = max(f.seq, b.last)
	f.s.feeds.sent.Add(b.records)
	return nil
}

// write sends a text to a reader who has so much time to take it.
func (f *follower) write(text []byte) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	out := f.controller()
	if err := out.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := f.w.Write(text); err != nil {
		return err
	}
	return out.Flush()
}

// enter counts the streams of a user, who may have so many.
func (f *feeds) enter(user string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users = map[string]int{}
	}
	if f.users[user] >= maxStreams {
		return nil, tipstaff.Errorf(tipstaff.TooManyWatchers, "%s follows %d runs: that is the most", user, maxStreams)
	}
	f.users[user]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.users[user]--; f.users[user] == 0 {
			delete(f.users, user)
		}
	}, nil
}

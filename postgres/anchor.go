package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff/store/files"
)

// anchorer writes anchors after the commits that made them due. No step waits for it.
type anchorer struct {
	files.Anchors
	due   chan struct{} // holds a token while something may be due
	ended chan error
}

func newAnchorer(a files.Anchors) *anchorer {
	return &anchorer{Anchors: a, due: make(chan struct{}, 1), ended: make(chan error, 1)}
}

// anchorRetry is the time between two tries to write anchors.
const anchorRetry = 10 * time.Second

func (a *anchorer) run() {
	err := a.Write(context.Background(), true)
	for open := true; open; {
		var retry <-chan time.Time
		if err != nil {
			retry = time.After(anchorRetry)
		}
		select {
		case _, open = <-a.due:
		case <-retry:
		}
		err = a.Write(context.Background(), err != nil)
	}
	if err != nil {
		err = fmt.Errorf("%w: it is tried again by whoever next opens the store", err)
	}
	a.ended <- err
}

func (a *anchorer) kick() {
	select {
	case a.due <- struct{}{}:
	default:
	}
}

// close returns when what was due is written, or why it cannot be.
func (a *anchorer) close() error {
	close(a.due)
	return <-a.ended
}

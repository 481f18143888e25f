package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A connection that nobody uses gives its pages back, and reads on when it is needed.
func TestReadersRest(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	p := b.readers
	p.mu.Lock()
	p.linger = 20 * time.Millisecond
	p.mu.Unlock()
	for range 3 {
		if got := b.row(run).ID; got != run {
			t.Fatalf("run %s was asked for, and %s came", run, got)
		}
		resting := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.idle) == 1 && p.idle[0].rested && p.idle[0].recent == nil && p.timer == nil
		}
		for deadline := time.Now().Add(10 * time.Second); !resting(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the reader does not come to rest")
			}
		}
	}
}

// Readers that come and go while others are put to rest, and while the pool is closed.
func TestReadersRestAmongOthers(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	p := newPool(b.Store.dir.database())
	p.linger = time.Microsecond
	var reading sync.WaitGroup
	for range 2 * readers {
		reading.Go(func() {
			for {
				err := p.use(context.Background(), func(c *conn) error {
					row, err := readRun(context.Background(), c, run)
					if err == nil && row.ID != run {
						err = errors.New("another run came: " + row.ID)
					}
					return err
				})
				if err != nil {
					if !errors.Is(err, errClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	if err := p.close(); err != nil {
		t.Error(err)
	}
	reading.Wait()
	if p.rest(); len(p.idle) > 0 {
		t.Error("a closed pool has connections left")
	}
}

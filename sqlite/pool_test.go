package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// A connection that nobody uses gives its pages back, and reads on when it is needed.
func TestReadersRest(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	synctest.Test(t, func(t *testing.T) { // in which no time is lost by waiting
		p := newPool(b.Store.dir.database(), readOnly)
		for range 3 {
			err := p.use(context.Background(), func(c *conn) error {
				rows, err := c.lookUp(run, func(ctx context.Context) ([]flow.Row, error) {
					row, err := readRun(ctx, c, run)
					return []flow.Row{row}, err
				})
				if err == nil && rows[0].ID != run {
					t.Errorf("run %s was asked for, and %s came", run, rows[0].ID)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			c := p.idle[0]
			time.Sleep(linger - time.Nanosecond)
			synctest.Wait()
			p.mu.Lock() // the timer is yet to write
			if c.used.IsZero() || c.recent == nil {
				t.Error("it rests before its time")
			}
			p.mu.Unlock()
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !c.used.IsZero() || c.recent != nil || p.timer != nil {
				t.Errorf("it does not rest: used %s, remembers %d, timer %v", c.used, len(c.recent), p.timer)
			}
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
}

// Readers that come and go while others are put to rest, and while the pool is closed.
func TestReadersRestAmongOthers(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	p := newPool(b.Store.dir.database(), readOnly)
	p.linger = time.Microsecond
	var reading, enough sync.WaitGroup
	enough.Add(2 * readers)
	for range 2 * readers {
		reading.Go(func() {
			for n := 0; ; n++ {
				if n == 100 {
					enough.Done()
				}
				err := p.use(context.Background(), func(c *conn) error {
					row, err := readRun(context.Background(), c, run)
					if err == nil && row.ID != run {
						err = errors.New("another run came: " + row.ID)
					}
					return err
				})
				if err != nil {
					if n < 100 || !errors.Is(err, errClosed) {
						t.Error(n, err)
					}
					return
				}
			}
		})
	}
	enough.Wait()
	if err := p.close(); err != nil {
		t.Error(err)
	}
	reading.Wait()
	if p.rest(); len(p.idle) > 0 {
		t.Error("a closed pool has connections left")
	}
}

package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// A connection that nobody uses gives its pages back, and reads on when it is needed.
func TestReadersRest(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	p := newPool(b.Store.dir.database())
	p.linger = 20 * time.Millisecond
	for range 3 {
		err := p.use(context.Background(), func(c *conn) error {
			if c.rested {
				t.Error("a connection at rest was lent")
			}
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
		resting := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.idle[0].rested && p.idle[0].recent == nil && p.timer == nil
		}
		for deadline := time.Now().Add(time.Minute); !resting(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the reader does not come to rest")
			}
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// Readers that come and go while others are put to rest, and while the pool is closed.
func TestReadersRestAmongOthers(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	p := newPool(b.Store.dir.database())
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

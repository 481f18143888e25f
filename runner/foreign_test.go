package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
)

// readings is a store that notes which records are read, and can be deaf: nothing is told of
// what others write.
type readings struct {
	flow.Store
	deaf bool

	mu   sync.Mutex
	read map[int64]int // how often a record was
}

func (s *readings) Records(ctx context.Context, run string, after int64, limit int) ([]flow.Stored, error) {
	list, err := s.Store.Records(ctx, run, after, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		s.read[r.Seq]++
	}
	return list, err
}

func (s *readings) Follow(run string) (changed <-chan struct{}, stop func()) {
	if s.deaf {
		return nil, func() {}
	}
	return s.Store.Follow(run)
}

// Whoever follows a run from elsewhere sees what is written soon, also where it is not told
// of it, and reads no record twice.
func TestFollowersElsewhereSeeWhatIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		deaf  bool
		gates int
		limit time.Duration // of half of the records
	}{
		"told":     {false, 8, 250 * time.Millisecond},
		"not told": {true, 3, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			var children []string
			for i := range c.gates {
				children = append(children, fmt.Sprintf("{id: g%d, kind: gate, question: Go?}", i))
			}
			run, _ := b.run("root: {kind: parallel, children: [" + strings.Join(children, ", ") + "]}\n")
			head := b.get(run).HeadSeq

			other, err := sqlite.Open(filepath.Join(b.dir, ".tipstaff"), nil)
			b.check(err)
			store := &readings{Store: other, deaf: c.deaf, read: map[int64]int{}}
			config := b.Runner.Config
			config.Store = store
			ctx, cancel := context.WithCancel(cli())
			seen := make(chan time.Time)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for _, err := range runner.New(config).Events(ctx, tipstaff.EventsRequest{Run: run, After: head, Follow: true, Stay: true}) {
					if err != nil {
						return
					}
					select {
					case seen <- time.Now():
					case <-ctx.Done():
						return
					}
				}
			}()
			var late []time.Duration
			for i := range c.gates {
				_, err := b.decide(run, fmt.Sprintf("root/g%d", i), "approve")
				b.check(err)
				written := time.Now()
				select {
				case at := <-seen:
					late = append(late, max(0, at.Sub(written)))
				case <-time.After(30 * time.Second):
					t.Fatalf("decision %d is not seen", i)
				}
			}
			cancel()
			<-ended
			b.check(other.Close())
			slices.Sort(late)
			if half := late[len(late)/2]; half > c.limit {
				t.Errorf("half of the records are seen after %v; all: %v", half, late)
			}
			for seq, n := range store.read {
				if n != 1 || seq <= head {
					t.Errorf("record %d was read %d times", seq, n)
				}
			}
			if len(store.read) != c.gates {
				t.Errorf("%d records were read", len(store.read))
			}
		})
	}
}

package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// Steps of one run, and of 200 at once, beside bare inserts of the same bytes over the same
// kind of connection.
func BenchmarkSteps(b *testing.B) {
	record, hash := make([]byte, 400), make([]byte, 32)
	bare := func(b *testing.B) *conn {
		c, err := connect(b.Context(), config(b, address(b)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.close() })
		if err := c.script(`CREATE SCHEMA bare; CREATE TABLE bare.records (run bigint, seq bigint, kind text, bytes bytea, hash bytea, PRIMARY KEY (run, seq))`); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.script(`DROP SCHEMA bare CASCADE`) })
		return c
	}
	const insert = `INSERT INTO bare.records VALUES (?, ?, ?, ?, ?)`
	b.Run("bare/1", func(b *testing.B) {
		c := bare(b)
		for i := range b.N {
			if err := c.now(insert, int64(1), int64(i), "effect.finished", record, hash); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare/200", func(b *testing.B) {
		c := bare(b)
		for i := 0; i < b.N; i += 200 {
			_ = c.Exec(`BEGIN`)
			for k := range 200 {
				_ = c.Exec(insert, int64(k), int64(i), "effect.finished", record, hash)
			}
			if err := c.now(`COMMIT`); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, runs := range []int{1, 200} {
		b.Run(fmt.Sprint("steps/", runs), func(b *testing.B) {
			s := open(b, address(b), &Options{Folder: b.TempDir(), UserKey: true, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return true }}})
			b.Cleanup(func() { _ = s.Close() })
			var leases []flow.Lease
			for range runs {
				id := tipstaff.NewID(time.Now()).String()
				if err := s.Create(b.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, storetest.Begun(s.Keys())); err != nil {
					b.Fatal(err)
				}
				l, err := s.Acquire(b.Context(), id, flow.Owner{Kind: "daemon"})
				if err != nil {
					b.Fatal(err)
				}
				leases = append(leases, l)
			}
			b.ResetTimer()
			var all sync.WaitGroup
			for _, l := range leases {
				all.Go(func() {
					for i := range max(1, b.N/runs) {
						if err := appendTo(s, l, fmt.Sprint("p", i)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
		})
	}
}

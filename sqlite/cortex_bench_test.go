package sqlite

import (
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// What it costs a leaf to be remembered: a call's record and the leaf's own, with
// and without what the memory keeps beside it, for many runs at once.
func BenchmarkLeaves(b *testing.B) {
	for name, remembered := range map[string]bool{"forgotten": false, "remembered": true} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, nil)
			leases := make(chan flow.Lease, manyRuns)
			for range manyRuns {
				leases <- s.MustAcquire(s.MustCreateDraft())
			}
			settled(b, s)
			b.SetParallelism(manyRuns / 2)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				l := <-leases
				defer func() { leases <- l }()
				for pb.Next() {
					end := storetest.LeafEnd("root/a")
					if !remembered {
						end.Memo = nil
					}
					if err := storetest.AppendErr(s, l, storetest.Step("root/a"), end); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

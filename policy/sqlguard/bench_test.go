package sqlguard

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff/policy"
)

func BenchmarkSQLGuard(b *testing.B) {
	args := json.RawMessage(`{"sql": "WITH o AS (SELECT id, total FROM orders WHERE placed > '2026-01-01') SELECT c.name, sum(o.total) FROM o JOIN customers c ON c.id = o.id GROUP BY c.name ORDER BY 2 DESC LIMIT 10"}`)
	for _, dialect := range sqlDialects {
		b.Run(dialect, func(b *testing.B) {
			g := sqlGuardOf(b, policy.GuardConfig{Arg: "/sql", Dialect: dialect})
			if f := g.Find(args); f.Class != "read" {
				b.Fatalf("%s", f.Facts)
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Find(args)
			}
		})
	}
}

//go:build postgres

package plan

import (
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow/simtest"
	"github.com/tipstaff/tipstaff/test/pgtest"
)

// It has a file of its own, and a build tag, so that the other tests of this package do not
// link the drivers of a database and of a bucket.
func TestSimulatedInPostgres(t *testing.T) {
	simtest.Simulate(t, pgtest.Ground(t), simulated, 20*time.Second)
}

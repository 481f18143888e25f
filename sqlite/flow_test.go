package sqlite

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// TestFlow runs the suite that every log passes. On a disk it takes minutes, so
// it is asked for, as `make test` does: TIPSTAFF_FLOWTEST=sqlite go test -run TestFlow,
// with -short for fewer rounds.
func TestFlow(t *testing.T) {
	if !strings.Contains(os.Getenv("TIPSTAFF_FLOWTEST"), "sqlite") {
		t.Skip("TIPSTAFF_FLOWTEST does not name sqlite")
	}
	flowtest.RunStore(t, func(t *testing.T) flowtest.Bed {
		b := newBench(t, &Options{Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return true }}})
		return sampled{&storetest.Bed{Store: b.Store.Store, Again: func() *store.Store {
			b.reopen(&b.db.opts)
			return b.Store.Store
		}}}
	})
}

// sampled says that short tests try a fifth of the places of a sweep: on a disk all
// take minutes, and flowtest itself tries all, in memory.
type sampled struct{ *storetest.Bed }

func (sampled) Every() int { return 10 }

package store_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// Who begins to listen while a transaction is under way cannot see what it has written, and
// hears of it.
func TestWhoComesDuringACommitHearsOfIt(t *testing.T) {
	const run = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	m, keys := newMemory(), newKeyring(t)
	m.rules = store.New(m, keys, &store.Options{})
	m.inbox, _ = m.rules.OpenInbox(m)
	changed := map[string]<-chan struct{}{}
	m.commit = func() {
		m.commit = nil
		for _, of := range []string{run, ""} { // the run, and the list of runs
			heard, stop := m.rules.Follow(of)
			t.Cleanup(stop)
			changed[of] = heard
		}
	}
	known := tipstaff.RunKeys{User: keys.Public[journal.User], Executor: keys.Public[journal.Executor]}
	if err := m.rules.Create(t.Context(), flow.NewRun{ID: run}, storetest.Begun(known)); err != nil || len(changed) == 0 {
		t.Fatalf("%v, %v", changed, err)
	}
	for of, heard := range changed {
		select {
		case <-heard:
		default:
			t.Errorf("who follows %q heard nothing", of)
		}
	}
}

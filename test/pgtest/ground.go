// Package pgtest has the simulator of package simtest work on a store in Postgres.
package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/simtest"
	"github.com/tipstaff/tipstaff/postgres"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// Ground is a store of the test's own, in the server that TIPSTAFF_POSTGRES names. Whoever
// holds a run there counts as dead, so that who acquires it gets it.
func Ground(t *testing.T) simtest.Ground {
	t.Helper()
	server := os.Getenv("TIPSTAFF_POSTGRES")
	if server == "" {
		t.Skip("TIPSTAFF_POSTGRES names no server: make test-scale starts one")
	}
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	q.Set("search_path", fmt.Sprintf("simulated%d", os.Getpid()))
	at.RawQuery = q.Encode()
	dead := store.Options{Alive: func(flow.Owner, time.Time) bool { return false }}
	s, err := postgres.Open(t.Context(), at.String(), &postgres.Options{Folder: t.TempDir(), UserKey: true, Options: dead})
	if err != nil {
		t.Fatal(err)
	}
	ground := simtest.Outside(t, &storetest.Bed{Store: s.Store, Real: true})
	t.Cleanup(func() { _ = s.Close() })
	return ground
}

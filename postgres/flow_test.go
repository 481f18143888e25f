package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

var schemas atomic.Int64

// server is the address that TIPSTAFF_POSTGRES names.
func server(t testing.TB) string {
	t.Helper()
	server := os.Getenv("TIPSTAFF_POSTGRES")
	if server == "" {
		t.Skip("TIPSTAFF_POSTGRES names no server: make test-scale starts one")
	}
	return server
}

// address is that of a store of its own there.
func address(t testing.TB) string {
	t.Helper()
	server := server(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t%d_%d", os.Getpid(), schemas.Add(1))
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		c, err := connect(context.Background(), config(t, server))
		if err != nil {
			t.Error(err)
			return
		}
		if err := c.script(`DROP SCHEMA IF EXISTS ` + quoted(name) + ` CASCADE`); err != nil {
			t.Error(err)
		}
		_ = c.close()
	})
	return u.String()
}

func open(t testing.TB, at string, o *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFlow runs the suite that every log passes.
func TestFlow(t *testing.T) {
	server(t)
	flowtest.RunStore(t, func(t *testing.T) flowtest.Bed {
		at := address(t)
		o := &Options{Folder: t.TempDir(), UserKey: true, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return true }}}
		s := open(t, at, o)
		t.Cleanup(func() { _ = s.Close() })
		return sampled{&storetest.Bed{Store: s.Store, Again: func() *store.Store {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = open(t, at, o)
			return s.Store
		}}}
	})
}

// TestRules runs the suite that every store passes.
func TestRules(t *testing.T) {
	server(t)
	storetest.Rules(t, func(t testing.TB) func(*store.Options) (storetest.Opened, error) {
		at, folder := address(t), t.TempDir()
		return func(o *store.Options) (storetest.Opened, error) {
			opts := &Options{Folder: folder, UserKey: true}
			if o != nil {
				opts.Options = *o
			}
			s, err := Open(t.Context(), at, opts)
			if err != nil {
				return storetest.Opened{}, err
			}
			return storetest.Opened{Store: s.Store, DB: s.db, Close: s.Close}, nil
		}
	})
}

// sampled says that short tests try some of the places of a sweep.
type sampled struct{ *storetest.Bed }

func (sampled) Every() int { return 10 }

func config(t testing.TB, at string) *pgconn.Config {
	t.Helper()
	c, err := pgconn.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

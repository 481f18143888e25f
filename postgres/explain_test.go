package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// What a server answers is told as what it means for whoever uses the store, with what to do.
func TestWhatAServerAnswersIsExplained(t *testing.T) {
	db := &database{name: "postgres://user@host/name", format: 4}
	w := &writer{db: db}
	for name, c := range map[string]struct {
		answer pgconn.PgError
		is     error
		says   string
		fault  store.Fault
	}{
		"no connection is left":     {pgconn.PgError{Code: "53300"}, flow.ErrStoreDown, "raise its max_connections, or have fewer servers", store.Passing},
		"the disk is full":          {pgconn.PgError{Code: "53100"}, flow.ErrStoreFull, "make space on the server", store.Full},
		"a newer version came":      {pgconn.PgError{Code: "23502", TableName: "marks"}, store.ErrNewer, "newer format than 4", store.Broken},
		"somebody else was faster":  {pgconn.PgError{Code: "40001"}, flow.ErrStoreBusy, "try again", store.Passing},
		"it may be read alone":      {pgconn.PgError{Code: "25006"}, flow.ErrReadOnly, "the right to write", store.Passing},
		"it shuts down":             {pgconn.PgError{Code: "57P01"}, flow.ErrStoreDown, "what was acknowledged is safe", store.Passing},
		"a row lacks another value": {pgconn.PgError{Code: "23502", TableName: "runs"}, nil, "", store.Ordinary},
	} {
		err := db.explain(&c.answer)
		switch {
		case c.is == nil: // it is told as it is
			if err != error(&c.answer) {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), db.name):
			t.Errorf("%s: %v", name, err)
		}
		if fault := w.Fault(&c.answer); fault != c.fault {
			t.Errorf("%s: it is a fault %d, want %d", name, fault, c.fault)
		}
	}
}

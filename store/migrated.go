package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// ErrNewer is a store that a later version of this program has brought to its own format. It
// can be read as far as that goes, never written.
var ErrNewer = errors.New("format_newer")

// Newer says of a store in a place that it has a format which this program does not know.
func Newer(place string, has, known int64) error {
	return fmt.Errorf("%w: %w: %s has format %d, this program knows %d: use the newer program to write", flow.ErrReadOnly, ErrNewer, place, has, known)
}

// Overtaken says of an open store that it was brought to a format which this program does not
// know. What was written before is in it.
func Overtaken(place string, known int64) error {
	return fmt.Errorf("%w: %w: %s was brought to a newer format than %d by a newer Tipstaff while it was open here: its runs are interrupted, nothing that was recorded is lost; go on with the newer program",
		flow.ErrReadOnly, ErrNewer, place, known)
}

// Migration is a change of a store's format.
type Migration struct {
	At        time.Time
	From, To  int64
	ByVersion string // of the program
}

// MigratedTable is where migrations are noted. A store that was never migrated need not have it.
const MigratedTable = `CREATE TABLE IF NOT EXISTS migrated (at bigint NOT NULL, was bigint NOT NULL, now bigint NOT NULL, version text NOT NULL)`

// Note enters a migration in the transaction that makes it.
func (m Migration) Note(c Conn) error {
	return c.Exec(`INSERT INTO migrated (at, was, now, version) VALUES (?, ?, ?, ?)`, m.At.UnixNano(), m.From, m.To, m.ByVersion)
}

// Migrations tells of those that a store has been through. there is a query for whether it has
// the table; copies is where copies from before are kept, "": nowhere.
func (x *Examination) Migrations(ctx context.Context, q Querier, there, copies string) {
	n, err := Number(ctx, q, there)
	if err != nil || n == 0 {
		x.Query(err)
		return
	}
	remedy := "none is needed"
	if copies != "" {
		remedy += ": a copy of the store as it was before is in " + copies
	}
	x.Query(q.Query(ctx, func(r Row) error {
		x.add(tipstaff.SeverityNote, "migrated", x.Place, remedy, "it was brought from format %d to %d at %s by Tipstaff %s", r.Int(1), r.Int(2), r.Time(0).Format(time.RFC3339), r.Text(3))
		return nil
	}, `SELECT at, was, now, version FROM migrated ORDER BY at`))
}

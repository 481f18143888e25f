package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tipstaff/tipstaff/store"
)

// writeLaunch brings supervisor.json of a run up to what is stored.
func (db *database) writeLaunch(ctx context.Context, run string) error {
	text, err := db.rules.SupervisorFile(ctx, run)
	if err != nil || text == nil {
		return err
	}
	name := db.dir.at("runs", run, "supervisor.json")
	if there, err := os.ReadFile(name); err == nil && bytes.Equal(there, text) {
		return nil
	}
	for _, dir := range []string{db.dir.at("runs"), db.dir.at("runs", run)} { // one level at a time, as for envelopes
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := writeFile(name, text, 0o600); err != nil {
		return fmt.Errorf("%w: it is written again when the store is next opened", err)
	}
	return nil
}

// restoreLaunches writes those that are missing, or that are not what is stored.
func (db *database) restoreLaunches(ctx context.Context) error {
	var runs []string
	errs := []error{db.Query(ctx, func(r store.Row) error { runs = append(runs, r.Text(0)); return nil }, `SELECT id FROM runs WHERE launch IS NOT NULL`)}
	for _, run := range runs {
		errs = append(errs, db.writeLaunch(ctx, run))
	}
	return errors.Join(errs...)
}

package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// writeLaunch brings supervisor.json of a run up to what is stored. Another process may be
// at it as well: whoever has written looks whether there is news meanwhile.
func (db *database) writeLaunch(ctx context.Context, run string) error {
	name := db.dir.at("runs", run, "supervisor.json")
	for {
		text, err := db.rules.SupervisorFile(ctx, run)
		if err != nil || text == nil {
			return err
		}
		if there, err := os.ReadFile(name); err == nil && bytes.Equal(there, text) {
			return nil
		}
		if err := db.dir.writeSupervisorFile(run, name, text); err != nil {
			return fmt.Errorf("%w: it is written again when the store is next opened", err)
		}
	}
}

func (f folder) writeSupervisorFile(run, name string, text []byte) error {
	for _, dir := range []string{f.at("runs"), f.at("runs", run)} { // one level at a time, as for envelopes
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return files.Write(name, text, 0o600)
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

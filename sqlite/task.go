package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/store"
)

// task is the folder with the files of a task.
func (f folder) task(id string) string { return f.at("tasks", id) }

// writeTask brings the files of a task up to what is stored. Another process may be at it
// as well: whoever has written looks whether there is news meanwhile.
func (db *database) writeTask(ctx context.Context, id string) error {
	for written := int64(0); ; {
		t, err := db.rules.Task(ctx, id)
		if err != nil || t.Revision == written {
			return err
		}
		log, err := db.rules.TaskLog(ctx, id)
		if err == nil {
			err = db.dir.project("tasks", t.ID, t.Files(log))
		}
		if err != nil {
			return fmt.Errorf("%w: the files of task %s are written again when the store is next opened", err, id)
		}
		written = t.Revision
	}
}

// restoreTasks writes the files of tasks whose document is missing or older than what is
// stored.
func (db *database) restoreTasks(ctx context.Context) error {
	stored := map[string]int64{}
	errs := []error{db.Query(ctx, func(r store.Row) error { stored[r.Text(0)] = r.Int(1); return nil }, `SELECT id, revision FROM tasks`)}
	for id, revision := range stored {
		doc, err := os.ReadFile(filepath.Join(db.dir.task(id), tipstaff.TaskFile))
		if err != nil || !bytes.Contains(doc, fmt.Appendf(nil, "\nrevision: %d\n", revision)) {
			errs = append(errs, db.writeTask(ctx, id))
		}
	}
	return errors.Join(errs...)
}

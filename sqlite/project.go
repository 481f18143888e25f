package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// project writes those files of a run or a task that are not what follows from the store.
// Decisions that are there stay: if one differs, that is for verify to report.
func (f folder) project(kind, id string, contents map[string][]byte) error {
	for name, content := range contents {
		kept := strings.HasPrefix(name, "decisions/")
		name = filepath.Join(f.at(kind, id), filepath.FromSlash(name))
		if there, err := os.ReadFile(name); err == nil && (kept || bytes.Equal(there, content)) {
			continue
		}
		// One level at a time, as for envelopes.
		dirs := []string{filepath.Dir(name)}
		for dir := dirs[0]; dir != f.at(kind); {
			dir = filepath.Dir(dir)
			dirs = append(dirs, dir)
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := os.Mkdir(dirs[i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		if err := files.Write(name, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ProjectRun writes files of a run that follow from the store, by their names in its folder,
// and links the envelopes there.
func (s *Store) ProjectRun(run string, contents map[string][]byte) error {
	if s.db.writer == nil {
		return nil // whoever may only read writes nothing
	}
	err := s.db.dir.project("runs", run, contents)
	if err != nil {
		return explain(string(s.db.dir), err)
	}
	if err := os.Symlink(filepath.Join("..", "..", "journal", run), s.db.dir.at("runs", run, "journal")); err != nil && !errors.Is(err, fs.ErrExist) {
		return explain(string(s.db.dir), err)
	}
	return nil
}

// Unprojected are runs at rest whose evidence is not written, or was removed.
func (s *Store) Unprojected(ctx context.Context) (runs []string, err error) {
	if s.db.writer == nil {
		return nil, nil
	}
	err = s.db.Query(ctx, func(r store.Row) error {
		id := r.Text(0)
		if _, err := os.Lstat(s.db.dir.at("runs", id, tipstaff.EvidenceName)); errors.Is(err, fs.ErrNotExist) {
			runs = append(runs, id)
		}
		return ctx.Err()
	}, `SELECT id FROM runs WHERE owned = 'run.parked' OR state IN ('completed', 'failed', 'cancelled')`)
	return runs, err
}

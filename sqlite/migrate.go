package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/store"
)

//go:embed migrations/*.sql
var embedded embed.FS

// applicationID marks the file as ours, for file(1) and for us: "tips".
const applicationID = 0x74697073

// schema is the list of migrations in the order of their numbers. The format of
// a file is the count of those it has seen.
type schema []string

func loadSchema(files fs.FS) (list schema, err error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted, and numbered from 0001
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if !strings.HasPrefix(filepath.Base(name), fmt.Sprintf("%04d_", i+1)) {
			return nil, fmt.Errorf("migration %s should be number %d", name, i+1)
		}
		sql, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		list = append(list, string(sql))
	}
	return list, nil
}

// Format is the newest format of a store, to which one is brought when it is opened to write.
func Format() int {
	names, _ := fs.Glob(embedded, "migrations/*.sql") // fails only for a pattern that is malformed
	return len(names)
}

// apply brings the file to the newest format, forward only, in one transaction: a
// process that is killed leaves the format before or the newest. A file that was in use
// is copied first, and keeps when this was, and which version of the program did it.
func (list schema) apply(c *conn, dir folder, version string) error {
	have, err := c.number(context.Background(), `PRAGMA user_version`)
	newest := int64(len(list))
	if err != nil || have >= newest {
		return err
	}
	if have > 0 {
		name := fmt.Sprintf("format-%d-%s.db", have, time.Now().UTC().Format("20060102T150405.000000000"))
		err := os.MkdirAll(dir.backups(), 0o700)
		if err == nil {
			err = vacuumInto(c, filepath.Join(dir.backups(), name))
		}
		if err != nil {
			return fmt.Errorf("copying the store before its format changes from %d to %d: %w", have, newest, err)
		}
	}
	steps := strings.Join(list[have:], "\n;\n")
	err = c.script(fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n;PRAGMA application_id = %d;\nPRAGMA user_version = %d;", steps, applicationID, newest))
	if err == nil && have > 0 {
		if err = c.script(store.MigratedTable); err == nil {
			err = store.Migration{At: time.Now(), From: have, To: newest, ByVersion: version}.Note(c)
		}
	}
	if err == nil {
		err = c.script(`COMMIT`)
	}
	if err != nil {
		_ = c.script(`ROLLBACK`) // fails if SQLite has rolled back by itself
		return fmt.Errorf("changing the format from %d to %d: %w", have, newest, err)
	}
	return nil
}

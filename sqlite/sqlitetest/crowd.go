// Package sqlitetest fills the store of a workspace with more runs than a test could start.
package sqlitetest

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	_ "modernc.org/sqlite" // its driver
)

// Crowd adds copies of two runs to the store of a workspace: of one that has ended, which get
// ids that begin with 01, and of one that asks at a gate, which get ids that begin with 02 and
// gates that begin with 03. Every other is alice's, the rest are bob's; of a
// hundred gates one has expired. The gate that was copied asks no more.
func Crowd(workspace string, done string, ended int, asks, gate string, asking int) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(workspace, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	exec := func(query string, args ...any) {
		if err != nil {
			return
		}
		if _, err = tx.Exec(query, args...); err != nil {
			err = fmt.Errorf("%s: %w", query, err)
		}
	}
	const columns = `kind, origin, title, program, base, base_seq, created, state, epoch, owned, cont, cancel, correction, env, envs, head, head_hash, wake_at, updated`
	copies := func(of string, kind int, n int, fold string) {
		exec(fmt.Sprintf(`WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < %d)
			INSERT INTO runs (id, user, fold, %s) SELECT printf('0%d%%024d', x), CASE x %% 2 WHEN 0 THEN 'alice' ELSE 'bob' END,
			json_set(%s, '$.user', CASE x %% 2 WHEN 0 THEN 'alice' ELSE 'bob' END), %s FROM i, runs WHERE id = ?`, n, columns, kind, fold, columns), of)
	}
	copies(asks, 2, asking, fmt.Sprintf(`replace(fold, '%s', printf('03%%024d', x))`, gate))
	copies(done, 1, ended, "fold")
	exec(`INSERT INTO records (run, seq, kind, bytes, hash) SELECT new.n, k.seq, k.kind,
		CAST(replace(CAST(k.bytes AS TEXT), ?, '03' || substr(new.id, 3)) AS BLOB), k.hash
		FROM runs new JOIN runs old ON old.id = ? JOIN gates g ON g.run = old.n JOIN records k ON k.run = old.n AND k.seq = g.opened WHERE new.id LIKE '02%'`, gate, asks)
	exec(`INSERT INTO gates (run, id, user, kind, key, opened, opened_at, expires_at) SELECT new.n, '03' || substr(new.id, 3), new.user, g.kind, g.key, g.opened, g.opened_at,
		CASE WHEN new.n % 100 = 0 THEN 1 END FROM runs new JOIN runs old ON old.id = ? JOIN gates g ON g.run = old.n WHERE new.id LIKE '02%'`, asks)
	exec(`UPDATE gates SET decided = 1 WHERE id = ?`, gate)
	exec(`INSERT INTO run_search (run, text) SELECT n, id FROM runs WHERE n NOT IN (SELECT run FROM run_search)`)
	exec(`UPDATE runs SET ended = updated WHERE state = 'completed'`)
	if err != nil {
		return err
	}
	return tx.Commit()
}

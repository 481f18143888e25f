package runner_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Whoever looks at runs writes nothing, also where there is something to be done: a gate has
// expired, and nobody has denied it. Another connection of the database knows whether
// anything was written, whatever it was.
func TestLookingWritesNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ended, _ := b.run(`root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
	waits, _ := b.run(`root: {id: ok, kind: gate, question: "Now?", expires: 1h}`)
	b.ahead.Store(int64(2 * time.Hour))
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(10000)")
	b.check(err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	version := func() (v int64) {
		b.check(db.QueryRow(`PRAGMA data_version`).Scan(&v))
		return v
	}
	b.check(b.store.Flush(t.Context()))
	before := version()
	for name, look := range map[string]func(tipstaff.ID) error{
		"get":    func(run tipstaff.ID) error { _, err := b.Get(cli(), run); return err },
		"events": func(run tipstaff.ID) error { b.events(run); return nil },
		"verify": func(run tipstaff.ID) error {
			_, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true})
			return err
		},
		"list":        func(tipstaff.ID) error { _, err := b.List(cli(), tipstaff.ListRequest{}); return err },
		"inbox":       func(tipstaff.ID) error { _, err := b.Inbox(cli(), tipstaff.InboxRequest{}); return err },
		"checkpoints": func(run tipstaff.ID) error { _, _ = b.Checkpoints(cli(), run); return nil }, // of a plan there are none
	} {
		for _, run := range []tipstaff.ID{ended, waits} {
			b.check(look(run))
			if now := version(); now != before {
				t.Errorf("%s has written something", name)
				before = now
			}
		}
	}
}

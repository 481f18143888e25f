package main

import (
	"database/sql"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/journal"
)

// asked is a plan whose effect depends on one decision.
const asked = `-- asked.yaml --
kind: plan
version: 1
tools: ["mcp://builtin/exec@1.0.0"]
root:
  kind: sequential
  children:
    - {id: ok, kind: gate, question: "Pay Alice 10?"}
    - {id: pay, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo paid >> paid.txt"]}}
`

// refused is a run whose one question was answered with deny.
func refused(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t, manifest, asked)
	w.Must(4, "run", "asked.yaml", "--unattended")
	w.Must(0, "decide", "@", "root/ok", "deny")
	return w
}

// count is a number that the store tells.
func (w *workspace) count(query string) (n int) {
	w.Helper()
	db := w.openWritable(10 * time.Second)
	defer db.Close()
	w.Check(db.QueryRow(query).Scan(&n))
	return n
}

const approveInstead = `CAST(replace(CAST(bytes AS TEXT), '"action":"deny"', '"action":"approve"') AS BLOB)`

// TestChangedRecordsAreNotObeyed changes the rows of a run that waits to be resumed.
// Nothing is done with what does not fit, and nothing is written.
func TestChangedRecordsAreNotObeyed(t *testing.T) {
	t.Parallel()
	original := refused(t)
	attacks := map[string]func(w *workspace){
		"a decision": func(w *workspace) {
			w.sql(`UPDATE records SET bytes = ` + approveInstead + ` WHERE kind = 'policy.gate.resolve'`)
		},
		"a decision, and the chain after it": func(w *workspace) {
			b := w.openBook()
			b.state = "executing"
			b.edit(b.at("policy.gate.resolve"), `"deny"`, `"approve"`)
			b.forge(nil, nil)
		},
		"an acceptance, and the chain after it": func(w *workspace) {
			b := w.openBook()
			b.state = "executing"
			b.edit(b.at("intent.accept"), `"via":"command"`, `"via":"http"`)
			b.forge(nil, nil)
		},
		"a plain record": func(w *workspace) {
			w.sql(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), '"wall_ms"', '"wall_mS"') AS BLOB) WHERE kind = 'run.parked'`)
		},
		"a hash":               func(w *workspace) { w.sql(`UPDATE records SET hash = zeroblob(32) WHERE kind = 'run.parked'`) },
		"the last hash":        func(w *workspace) { w.sql(`UPDATE records SET hash = zeroblob(32) WHERE kind = 'policy.gate.resolve'`) },
		"the kind of a record": func(w *workspace) { w.sql(`UPDATE records SET kind = 'run.interrupted' WHERE kind = 'run.parked'`) },
		"a record is gone":     func(w *workspace) { w.sql(`DELETE FROM records WHERE kind = 'run.parked'`) },
		"the end is gone":      func(w *workspace) { w.sql(`DELETE FROM records WHERE kind = 'policy.gate.resolve'`) },
		"the end is gone and the row says so": func(w *workspace) {
			w.sql(`DELETE FROM records WHERE kind = 'policy.gate.resolve'`)
			w.sql(`UPDATE runs SET head = head - 1`)
		},
		"the state":                      func(w *workspace) { w.sql(`UPDATE runs SET state = 'proposed'`) },
		"the hash that the row has":      func(w *workspace) { w.sql(`UPDATE runs SET head_hash = zeroblob(32)`) },
		"signed again by a stranger":     func(w *workspace) { w.signAnew(false) },
		"signed again by one made known": func(w *workspace) { w.signAnew(true) },
	}
	for name, change := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			change(w)
			before := w.count(`SELECT count(*) FROM records`)
			r := w.Run("resume", "@", "--unattended")
			if want := 6; r.Code != want && !(name == "signed again by one made known" && r.Code == 3) {
				t.Errorf("want exit code %d\n%v", want, r)
			}
			if strings.Contains(r.Err, "unexpected") || !strings.Contains(r.Err, "run") {
				t.Errorf("the message says nothing\n%v", r)
			}
			if _, err := os.Stat(w.Path("paid.txt")); err == nil {
				t.Errorf("the call was made\n%v", r)
			}
			if after := w.count(`SELECT count(*) FROM records`); after != before {
				t.Errorf("%d records were %d", after, before)
			}
		})
	}
}

// signAnew has somebody approve with other keys than the run's, who may have made
// them known to the store.
func (w *workspace) signAnew(known bool) {
	w.Helper()
	b := w.openBook()
	b.state = "executing"
	keys := map[string]*journal.PrivateKey{}
	for _, name := range []string{"user", "executor"} {
		key, err := journal.GenerateKey()
		w.Check(err)
		keys[name] = key
		if pub := key.Public(); known {
			w.sql(`INSERT INTO keys (id, name, public) VALUES (?, ?, ?)`, pub.ID().String(), name, pub[:])
		}
	}
	user, executor := w.keys()
	b.edit(0, user.Public().String(), keys["user"].Public().String())
	b.edit(0, executor.Public().String(), keys["executor"].Public().String())
	b.edit(b.at("policy.gate.resolve"), `"deny"`, `"approve"`)
	b.forge(keys["user"], keys["executor"])
}

// TestChangedQuestionsAreNotDecided: nobody signs a decision of something else than
// was asked, and no decision is taken twice.
func TestChangedQuestionsAreNotDecided(t *testing.T) {
	t.Parallel()
	t.Run("another question", func(t *testing.T) {
		t.Parallel()
		w := newWorkspace(t, manifest, asked)
		w.Must(4, "run", "asked.yaml", "--unattended")
		w.sql(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'Pay Alice 10?', 'Pay Alice 1?') AS BLOB) WHERE kind = 'policy.gate'`)
		w.Must(6, "decide", "@", "root/ok", "approve")
	})
	t.Run("a decided one passes for open", func(t *testing.T) {
		t.Parallel()
		w := refused(t)
		w.sql(`UPDATE gates SET decided = 0`)
		w.Must(6, "decide", "@", "root/ok", "approve")
		w.Must(1, "resume", "@", "--unattended") // by the record: it was denied
		w.Must(0, "verify", "@")
	})
	t.Run("the decision kept beside the gate is another", func(t *testing.T) {
		t.Parallel()
		w := refused(t)
		w.sql(`UPDATE gates SET decision = ?, decided = 3`, []byte(`{"gate":"x","action":"approve","via":"command"}`))
		w.Must(6, "decide", "@", "root/ok", "approve")
		w.Must(1, "resume", "@", "--unattended")
		if _, err := os.Stat(w.Path("paid.txt")); err == nil {
			t.Error("the call was made")
		}
	})
}

// TestForksOfChangedRuns: what a fork inherits is checked when it is made, and again
// when it is driven.
func TestForksOfChangedRuns(t *testing.T) {
	t.Parallel()
	original := newWorkspace(t, manifest, asked)
	original.Must(4, "run", "asked.yaml", "--unattended")
	original.Must(0, "decide", "@", "root/ok", "deny")
	original.Must(1, "resume", "@", "--unattended")
	taken := 0
	for _, r := range original.journal("@") {
		if r.Kind == "gate.taken" {
			taken = int(r.Seq)
		}
	}
	source := original.show("@").ID
	at := []string{"fork", source, "--at", strconv.Itoa(taken)}
	const change = `UPDATE records SET bytes = ` + approveInstead + ` WHERE kind = 'policy.gate.resolve' AND run = 1`

	t.Run("before", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.sql(change)
		w.Must(6, at...)
		if n := w.count(`SELECT count(*) FROM runs`); n != 1 {
			t.Errorf("%d runs, want the one", n)
		}
	})
	t.Run("after", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.Must(0, at...)
		w.sql(change)
		w.Must(6, "resume", "@", "--unattended")
	})
	t.Run("after, and chained again", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.Must(0, at...)
		w.rechain(1, change)
		w.Must(6, "resume", "@", "--unattended")
	})
	t.Run("another base", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.Must(0, at...)
		w.sql(`UPDATE runs SET base_seq = 4 WHERE n = 2`)
		w.Must(6, "resume", "@", "--unattended")
	})
	t.Run("not at all", func(t *testing.T) {
		t.Parallel()
		w := copyOf(t, original)
		w.Must(0, at...)
		w.Must(1, "resume", "@", "--unattended")
		w.Must(0, "verify", "@")
	})
}

// rechain changes rows of a run and makes all hashes fit again.
func (w *workspace) rechain(run int, change string) {
	w.Helper()
	w.sql(change)
	db := w.openWritable(10 * time.Second)
	defer db.Close()
	rows, err := db.Query(`SELECT bytes FROM records WHERE run = ? ORDER BY seq`, run)
	w.Check(err)
	var hashes []journal.Hash
	var head journal.Hash
	for rows.Next() {
		var raw sql.RawBytes
		w.Check(rows.Scan(&raw))
		head = head.Next(raw)
		hashes = append(hashes, head)
	}
	w.Check(rows.Err())
	w.Check(rows.Close())
	for i, h := range hashes {
		_, err := db.Exec(`UPDATE records SET hash = ? WHERE run = ? AND seq = ?`, h[:], run, i+1)
		w.Check(err)
	}
	_, err = db.Exec(`UPDATE runs SET head_hash = ? WHERE n = ?`, head[:], run)
	w.Check(err)
}

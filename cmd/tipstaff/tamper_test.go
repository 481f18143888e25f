package main

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/journal"
)

// sql changes the store behind the command's back.
func (w *workspace) sql(statement string, args ...any) {
	w.Helper()
	db := w.openWritable(10 * time.Second)
	defer db.Close()
	_, err := db.Exec(statement, args...)
	w.Check(err)
}

// openWritable opens the store for transactions that lock it from their beginning,
// and wait for a lock of others so long.
func (w *workspace) openWritable(wait time.Duration) *sql.DB {
	w.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(%d)", w.Path(".tipstaff", "tipstaff.db"), wait.Milliseconds()))
	w.Check(err)
	return db
}

// book is a run's journal in the hands of someone who changes it.
type book struct {
	*workspace
	records []journal.Record
	state   string // what the run's row is to say
}

// openBook reads the journal of the newest run.
func (w *workspace) openBook() *book {
	w.Helper()
	b := &book{workspace: w, state: "completed"}
	for line := range strings.Lines(w.Must(0, "events", "@", "--json").Out) {
		raw := []byte(strings.TrimSuffix(line, "\n"))
		r, err := journal.Parse(raw)
		w.Check(err)
		r.Body = bytes.Clone(r.Body)
		b.records = append(b.records, r)
	}
	return b
}

// at is the index of the first record of a kind, at a path if one is given.
func (b *book) at(kind string, path ...string) int {
	b.Helper()
	i := slices.IndexFunc(b.records, func(r journal.Record) bool {
		return r.Kind == kind && (len(path) == 0 || r.Path == path[0])
	})
	if i < 0 {
		b.Fatalf("the run has no %s %v", kind, path)
	}
	return i
}

// edit replaces a text in the body of a record.
func (b *book) edit(i int, from, to string) {
	b.Helper()
	if !bytes.Contains(b.records[i].Body, []byte(from)) {
		b.Fatalf("%q is not in %s", from, b.records[i].Body)
	}
	b.records[i].Body = bytes.Replace(b.records[i].Body, []byte(from), []byte(to), 1)
}

// remove takes records out.
func (b *book) remove(from, to int) { b.records = slices.Delete(b.records, from, to) }

// repeat puts a record in once more, behind itself.
func (b *book) repeat(i int) { b.records = slices.Insert(b.records, i, b.records[i]) }

// forge stores the records as a run would have: numbered, chained, signed with
// these keys. A nil key leaves the signatures as they were.
func (b *book) forge(user, executor *journal.PrivateKey) {
	b.Helper()
	var head, prev journal.Hash
	var rows [][]byte
	var hashes []journal.Hash
	for i, r := range b.records {
		r.Seq = int64(i + 1)
		var raw []byte
		if journal.IsEnvelope(r.Kind) {
			r.Head, r.Prev = head.String(), prev.String()
			raw = b.seal(r, user, executor)
			prev = journal.Sum(raw)
		} else {
			raw = r.AppendTo(nil)
		}
		head = head.Next(raw)
		rows, hashes = append(rows, raw), append(hashes, head)
	}
	b.store(rows, hashes, prev)
}

func (b *book) seal(r journal.Record, user, executor *journal.PrivateKey) []byte {
	b.Helper()
	key := executor
	if r.From == journal.User {
		key = user
	}
	if key == nil { // the old signature under the new bytes
		other, err := journal.GenerateKey()
		b.Check(err)
		raw, err := other.Seal(r)
		b.Check(err)
		was, err := journal.Parse(raw)
		b.Check(err)
		raw = bytes.Replace(raw, []byte(was.Key), []byte(r.Key), 1)
		return bytes.Replace(raw, []byte(was.Sig), []byte(r.Sig), 1)
	}
	raw, err := key.Seal(r)
	b.Check(err)
	return raw
}

// store replaces the run's rows, and what its own row says of the head.
func (b *book) store(rows [][]byte, hashes []journal.Hash, env journal.Hash) {
	b.Helper()
	db := b.openWritable(10 * time.Second)
	defer db.Close()
	tx, err := db.Begin()
	b.Check(err)
	defer tx.Rollback()
	var run int64
	b.Check(tx.QueryRow(`SELECT n FROM runs WHERE id = ?`, b.records[0].Run).Scan(&run))
	_, err = tx.Exec(`DELETE FROM records WHERE run = ?`, run)
	b.Check(err)
	for i, raw := range rows {
		_, err := tx.Exec(`INSERT INTO records (run, seq, kind, bytes, hash) VALUES (?, ?, ?, ?, ?)`, run, i+1, b.records[i].Kind, raw, hashes[i][:])
		b.Check(err)
	}
	last := hashes[len(hashes)-1]
	_, err = tx.Exec(`UPDATE runs SET state = ?, head = ?, head_hash = ?, env = ? WHERE n = ?`, b.state, len(rows), last[:], env[:], run)
	b.Check(err)
	b.Check(tx.Commit())
	b.Check(os.RemoveAll(b.Path(".tipstaff", "journal"))) // a thorough forger
	b.Check(os.RemoveAll(b.Path(".tipstaff", "runs", b.records[0].Run, "decisions")))
}

// keys are the store's own.
func (w *workspace) keys() (user, executor *journal.PrivateKey) {
	w.Helper()
	load := func(name string) *journal.PrivateKey {
		seed, err := hex.DecodeString(strings.TrimSpace(w.Read(filepath.Join(".tipstaff", "keys", name+".key"))))
		w.Check(err)
		key, err := journal.NewPrivateKey(seed)
		w.Check(err)
		return key
	}
	return load("user"), load("executor")
}

// found checks that verify ends with the code and names a fault.
func (w *workspace) found(code int, faults ...string) {
	w.Helper()
	r := w.Run("verify", "@", "--json")
	var report struct {
		Integrity, Conformance struct{ Problems []struct{ Code string } }
	}
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil {
		w.Fatalf("no report: %v\n%v", err, r)
	}
	if r.Code != code {
		w.Errorf("want exit code %d\n%v", code, r)
	}
	problems := report.Integrity.Problems
	if code == 7 {
		problems = report.Conformance.Problems
	}
	for _, p := range problems {
		if slices.Contains(faults, p.Code) {
			return
		}
	}
	w.Errorf("none of %v is named\n%v", faults, r)
}

// fixture is a finished run of the plan work, made once and copied by each attack.
func fixture(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t, manifest, work)
	w.Must(0, "run", "work.yaml", "--yes", "--unattended")
	w.Must(0, "verify", "@")
	return w
}

// TestAnyEditIsFound changes the rows of a finished run in every way that comes to
// mind, without the keys.
func TestAnyEditIsFound(t *testing.T) {
	t.Parallel()
	original := fixture(t)
	const records = `run = (SELECT max(n) FROM runs)`
	attacks := map[string]struct {
		do     func(w *workspace)
		faults []string
	}{
		"a byte of a plain record": {func(w *workspace) {
			w.sql(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'first\n', 'First\n') AS BLOB) WHERE kind = 'effect.finished' AND ` + records)
		}, []string{"hash"}},
		"a byte of an envelope": {func(w *workspace) {
			w.sql(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), '"partial"', '"success"') AS BLOB) WHERE kind = 'intent.attest' AND ` + records)
		}, []string{"hash", "signature_invalid"}},
		"a byte of a hash":            {func(w *workspace) { w.sql(`UPDATE records SET hash = zeroblob(32) WHERE seq = 7 AND ` + records) }, []string{"hash"}},
		"a record is deleted":         {func(w *workspace) { w.sql(`DELETE FROM records WHERE seq = 9 AND ` + records) }, []string{"gap"}},
		"the first record is deleted": {func(w *workspace) { w.sql(`DELETE FROM records WHERE seq = 1 AND ` + records) }, []string{"gap"}},
		"the last record is deleted":  {func(w *workspace) { w.sql(`DELETE FROM records WHERE kind = 'intent.attest' AND ` + records) }, []string{"unterminated", "truncated"}},
		"all but ten are deleted":     {func(w *workspace) { w.sql(`DELETE FROM records WHERE seq > 10 AND ` + records) }, []string{"unterminated", "truncated"}},
		"a record is no JSON":         {func(w *workspace) { w.sql(`UPDATE records SET bytes = 'x' WHERE seq = 6 AND ` + records) }, []string{"malformed"}},
		"a record is empty":           {func(w *workspace) { w.sql(`UPDATE records SET bytes = x'' WHERE seq = 6 AND ` + records) }, []string{"malformed"}},
		"the state is another":        {func(w *workspace) { w.sql(`UPDATE runs SET state = 'failed'`) }, []string{"state_mismatch"}},
		"the head is another":         {func(w *workspace) { w.sql(`UPDATE runs SET head = head - 1`) }, []string{"truncated"}},
		"the head's hash is another":  {func(w *workspace) { w.sql(`UPDATE runs SET head_hash = zeroblob(32)`) }, []string{"truncated"}},
		"the keys are forgotten":      {func(w *workspace) { w.sql(`DELETE FROM keys`); w.replaceKeys() }, []string{"unknown_key"}},
		"two records change places":   {func(w *workspace) { w.swap(8, 9) }, []string{"gap"}},
		"a record stands there twice": {func(w *workspace) { w.insertAfter(8) }, []string{"gap"}},
		"a blob is changed":           {func(w *workspace) { w.eachBlob(func(name string) { w.Write(name, "{}") }) }, []string{"blob_mismatch"}},
		"a blob is gone":              {func(w *workspace) { w.eachBlob(func(name string) { w.Check(os.Remove(w.Path(name))) }) }, []string{"blob_missing"}},
		"an envelope file is changed": {func(w *workspace) { w.Write(w.envelopeFile("intent.accept"), "{}") }, []string{"projection_mismatch"}},
		"an envelope file is no one's": {func(w *workspace) {
			w.Write(filepath.Join(filepath.Dir(w.envelopeFile("intent.accept")), "000099-intent.fail.json"), "{}")
		}, []string{"projection_mismatch"}},
		"edited and chained again": {func(w *workspace) {
			b := w.openBook()
			b.edit(b.at("effect.finished", "root/first"), `first\n`, `First\n`)
			b.forge(nil, nil)
		}, []string{"signature_invalid"}},
		"cut short and chained again": {func(w *workspace) {
			b := w.openBook()
			b.remove(b.at("effect.intended", "root/last"), b.at("intent.attest"))
			b.forge(nil, nil)
		}, []string{"signature_invalid"}},
		"signed again by a stranger": {func(w *workspace) {
			b := w.openBook()
			user, err := journal.GenerateKey()
			w.Check(err)
			executor, err := journal.GenerateKey()
			w.Check(err)
			ownUser, ownExecutor := w.keys()
			b.edit(0, ownUser.Public().String(), user.Public().String())
			b.edit(0, ownExecutor.Public().String(), executor.Public().String())
			b.forge(user, executor)
		}, []string{"unknown_key"}},
		"accepted by the executor": {func(w *workspace) {
			b := w.openBook()
			_, executor := w.keys()
			b.forge(executor, executor)
		}, []string{"wrong_principal"}},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			attack.do(w)
			w.found(6, attack.faults...)
		})
	}
}

// replaceKeys gives the store new keys, which have signed nothing of the run.
func (w *workspace) replaceKeys() {
	w.Helper()
	w.Check(os.RemoveAll(w.Path(".tipstaff", "keys")))
}

func (w *workspace) swap(a, b int) {
	w.Helper()
	w.sql(`UPDATE records SET seq = 1000000 WHERE seq = ?`, a)
	w.sql(`UPDATE records SET seq = ? WHERE seq = ?`, a, b)
	w.sql(`UPDATE records SET seq = ? WHERE seq = 1000000`, b)
}

// insertAfter repeats a record and moves those behind it.
func (w *workspace) insertAfter(seq int) {
	w.Helper()
	w.sql(`UPDATE records SET seq = seq + 1000001 WHERE seq > ?`, seq)
	w.sql(`INSERT INTO records SELECT run, seq + 1, kind, bytes, hash FROM records WHERE seq = ?`, seq)
	w.sql(`UPDATE records SET seq = seq - 1000000 WHERE seq > 1000000`)
}

func (w *workspace) eachBlob(do func(name string)) {
	w.Helper()
	names, err := filepath.Glob(w.Path(".tipstaff", "blobs", "*", "*"))
	w.Check(err)
	if len(names) == 0 {
		w.Fatal("there are no blobs")
	}
	for _, name := range names {
		rel, err := filepath.Rel(w.Dir, name)
		w.Check(err)
		do(rel)
	}
}

// envelopeFile is the file of the first envelope of a kind.
func (w *workspace) envelopeFile(kind string) string {
	w.Helper()
	names, err := filepath.Glob(w.Path(".tipstaff", "journal", "*", "*-"+kind+".json"))
	w.Check(err)
	if len(names) == 0 {
		w.Fatalf("there is no file of %s", kind)
	}
	rel, err := filepath.Rel(w.Dir, names[0])
	w.Check(err)
	return rel
}

// TestForgedByTheOwner changes a finished run with the real keys. Its bytes are in
// order, so integrity has nothing to say; but the plan would have done otherwise.
func TestForgedByTheOwner(t *testing.T) {
	t.Parallel()
	original := fixture(t)
	attacks := map[string]func(b *book){
		"another result":      func(b *book) { b.edit(b.at("effect.finished", "root/first"), `first\n`, `First\n`) },
		"another step status": func(b *book) { b.edit(b.at("plan.step", "root/last"), `"completed"`, `"failed"`) },
		"other arguments":     func(b *book) { b.edit(b.at("effect.intended", "root/last"), `echo last`, `echo lost`) },
		"another outcome":     func(b *book) { b.edit(b.at("intent.attest"), `"partial"`, `"success"`) },
		"a step left out": func(b *book) {
			b.remove(b.at("effect.intended", "root/look"), b.at("effect.intended", "root/last"))
		},
		"an effect left out":     func(b *book) { i := b.at("effect.finished", "root/look"); b.remove(i, i+1) },
		"no intent first":        func(b *book) { i := b.at("effect.intended", "root/first"); b.remove(i, i+1) },
		"a step twice":           func(b *book) { b.repeat(b.at("plan.step", "root/look")) },
		"a decision taken twice": func(b *book) { b.repeat(b.at("gate.taken")) },
		"a gate opened twice":    func(b *book) { b.repeat(b.at("policy.gate")) },
		"decided twice":          func(b *book) { b.repeat(b.at("policy.gate.resolve")) },
		"another question":       func(b *book) { b.edit(b.at("policy.gate"), `Go on?`, `Stop?`) },
		"never accepted":         func(b *book) { i := b.at("intent.accept"); b.remove(i, i+1); b.state = "proposed" },
		"another decision":       func(b *book) { b.edit(b.at("policy.gate.resolve"), `"approve"`, `"deny"`) },
		"another attempt":        func(b *book) { b.edit(b.at("effect.finished", "root/1/flaky"), `"attempt":3`, `"attempt":2`) },
		"less was used":          func(b *book) { b.edit(b.at("intent.attest"), `"tool_calls":10`, `"tool_calls":9`) },
		"another count":          func(b *book) { b.edit(b.at("intent.attest"), `"completed":8`, `"completed":9`) },
		"a larger bound":         func(b *book) { b.edit(b.at("intent.draft"), `"tool_calls":200`, `"tool_calls":999`) },
		"nothing reserved": func(b *book) {
			b.edit(b.at("effect.intended", "root/last"), `"reserve":{"tool_calls":1}`, `"reserve":{}`)
		},
		"another error":       func(b *book) { b.edit(b.at("effect.finished", "root/1/flaky"), `missing.txt`, `another.txt`) },
		"an epoch that falls": func(b *book) { b.records[b.at("effect.finished", "root/first")].Epoch = 7 },
		"ended before it ran": func(b *book) { b.remove(b.at("run.started"), b.at("intent.attest")) },
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := copyOf(t, original)
			b := w.openBook()
			attack(b)
			b.forge(w.keys())
			w.found(7, "replay_mismatch", "outcome", "evidence", "engine_rule", "not_accepted", "invalid_transition")
			w.Must(7, "replay", "@")
		})
	}
	t.Run("nothing changed", func(t *testing.T) { // or the forger is a bad one
		t.Parallel()
		w := copyOf(t, original)
		w.openBook().forge(w.keys())
		w.Must(0, "verify", "@")
	})
}

// A run that has not ended has no last word that is signed; what is missing at its
// end is seen all the same.
func TestOpenRunCutShort(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, work)
	w.Must(4, "run", "work.yaml", "--unattended")
	w.Must(0, "verify", "@", "--open")
	w.sql(`DELETE FROM records WHERE kind = 'run.parked'`)
	w.Must(6, "verify", "@", "--open").Says(t, "truncated")
}

// Envelope files are for people. Where they are missing they come back, as they
// were.
func TestFilesComeBack(t *testing.T) {
	t.Parallel()
	w := fixture(t)
	before := w.tree(".tipstaff/journal")
	if len(before) < 7 {
		t.Fatalf("there are %d envelope files", len(before))
	}
	w.Check(os.RemoveAll(w.Path(".tipstaff", "journal")))
	w.Must(0, "verify", "@")
	w.Must(0, "ls")
	if diff := cmp.Diff(before, w.tree(".tipstaff/journal")); diff != "" {
		t.Errorf("they came back otherwise (-before +after):\n%s", diff)
	}

	changed := w.envelopeFile("intent.accept")
	w.Write(changed, "changed")
	w.Check(os.Remove(w.Path(w.envelopeFile("plan.proposed"))))
	w.Must(0, "ls")
	if w.Read(changed) != "changed" {
		t.Error("a file that differs was overwritten: what was done to it is gone")
	}
	before[changed] = "changed"
	if diff := cmp.Diff(before, w.tree(".tipstaff/journal")); diff != "" {
		t.Errorf("beside a changed file a missing one does not come back (-want +got):\n%s", diff)
	}
	w.found(6, "projection_mismatch")
}

// tree is the content of every file below a folder; links are left out.
func (w *workspace) tree(dir string) map[string]string {
	w.Helper()
	files := map[string]string{}
	w.Check(filepath.WalkDir(w.Path(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(w.Dir, name)
		if err == nil {
			files[rel] = w.Read(rel)
		}
		return err
	}))
	return files
}

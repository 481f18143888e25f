package page_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/journal"
)

// corpusCase is one of the corpus of package journal.
type corpusCase struct {
	Name, Keys, Needs string
	Changes           []struct{ Op string }
	Faults            []struct {
		Code, File string
		Seq        int64
	}
}

// The check that runs in browsers finds in the corpus of damaged exports what every verifier
// must. Two things are the server's part: the fields of bodies and the list of kinds; an
// unfinished run is no fault here.
func TestTheBrowsersCheckAgreesOnTheCorpus(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not on PATH: the check that runs in browsers is not compared")
		}
	}
	const corpus = "../../journal/corpus"
	text, err := os.ReadFile(filepath.Join(corpus, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []corpusCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	if out, err := exec.Command("python3", "-B", filepath.Join(corpus, "apply.py"), made).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	folders := map[string][]string{} // by the folder of trusted keys
	wants := map[string][]string{}
	for _, c := range cases {
		if c.Needs != "" || slices.ContainsFunc(c.Changes, func(o struct{ Op string }) bool { return o.Op == "link" || o.Op == "fifo" }) {
			continue // what no tar of the page can hold
		}
		if c.Keys == "" {
			c.Keys = "keys"
		}
		folders[c.Keys] = append(folders[c.Keys], filepath.Join(made, c.Name))
		wants[c.Name] = []string{}
		for _, f := range c.Faults {
			if f.Code != "body" && f.Code != "unknown_kind" && f.Code != "unterminated" {
				wants[c.Name] = append(wants[c.Name], fmt.Sprintf("%s %d %s", f.Code, f.Seq, f.File))
			}
		}
	}
	found := 0
	for keys, dirs := range folders {
		out, err := exec.Command("node", append([]string{"--no-warnings", "browser/corpus.mjs", filepath.Join(corpus, keys)}, dirs...)...).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			var got struct {
				Name        string
				Found, Bare []string // with WebCrypto and without
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			found++
			want := wants[got.Name]
			if !slices.Equal(got.Found, want) {
				t.Errorf("%s: %q, want %q", got.Name, got.Found, want)
			}
			unsigned := slices.DeleteFunc(slices.Clone(want), func(f string) bool {
				return got.Name == "sig-of-other-bytes" && strings.HasPrefix(f, "signature_invalid")
			})
			if got.Bare != nil && !slices.Equal(got.Bare, unsigned) {
				t.Errorf("%s without WebCrypto: %q, want %q", got.Name, got.Bare, unsigned)
			}
		}
	}
	if found != len(wants) || found < 100 {
		t.Errorf("%d of %d cases were looked at", found, len(wants))
	}
}

const browserRoute = `
kind: pipeline
version: 1
name: route
agents:
  - {name: a, stage_order: 1, default_next: b, scripted: {answers: [{output: {n: 1}}]}}
  - {name: b, stage_order: 2, default_next: c, scripted: {answers: [{output: {n: 2}}]}}
  - {name: c, stage_order: 3, scripted: {answers: [{output: {n: 3}}]}}
`

// shelf is the store of a daemon in the hands of somebody who changes it.
type shelf struct {
	*ground
	db *sql.DB
}

// driven is a run that has ended, and its records.
func (s *shelf) driven() (run string, records []journal.Record) {
	s.Helper()
	cmd := exec.Command(s.binary, "run", "route.yaml", "--input", `raw_input="x"`, "--json")
	cmd.Dir = s.dir
	if out, err := cmd.Output(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	rows, err := s.db.Query(`SELECT bytes FROM records WHERE run = (SELECT max(n) FROM runs) ORDER BY seq`)
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		err := rows.Scan(&raw)
		if err == nil {
			records = append(records, journal.Record{})
			records[len(records)-1], err = journal.Parse(raw)
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	return records[0].Run, records
}

func (s *shelf) exec(statement string, args ...any) {
	s.Helper()
	if _, err := s.db.Exec(statement, args...); err != nil {
		s.Fatal(err)
	}
}

// signAnew stores records as the run itself would have, with its own keys.
func (s *shelf) signAnew(records []journal.Record) {
	s.Helper()
	key := func(name string) *journal.PrivateKey {
		text, err := os.ReadFile(filepath.Join(s.dir, ".tipstaff", "keys", name+".key"))
		if err != nil {
			s.Fatal(err)
		}
		seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			s.Fatal(err)
		}
		k, err := journal.NewPrivateKey(seed)
		if err != nil {
			s.Fatal(err)
		}
		return k
	}
	keys := map[string]*journal.PrivateKey{"user": key("user"), "executor": key("executor")}
	var head, prev journal.Hash
	for _, r := range records {
		raw := r.AppendTo(nil)
		if journal.IsEnvelope(r.Kind) {
			r.Head, r.Prev = head.String(), prev.String()
			var err error
			if raw, err = keys[string(r.From)].Seal(r); err != nil {
				s.Fatal(err)
			}
			prev = journal.Sum(raw)
		}
		head = head.Next(raw)
		s.exec(`UPDATE records SET bytes = ?, hash = ? WHERE seq = ? AND run = (SELECT n FROM runs WHERE id = ?)`, raw, head[:], r.Seq, r.Run)
	}
	s.exec(`UPDATE runs SET head_hash = ?, env = ? WHERE id = ?`, head[:], prev[:], records[0].Run)
	if err := os.RemoveAll(filepath.Join(s.dir, ".tipstaff", "journal", records[0].Run)); err != nil { // a thorough forger
		s.Fatal(err)
	}
}

// seqOf is the number of the first record of a kind.
func seqOf(records []journal.Record, kind string) int64 {
	return records[slices.IndexFunc(records, func(r journal.Record) bool { return r.Kind == kind })].Seq
}

func TestBrowserProof(t *testing.T) {
	g := newGround(t)
	if err := os.WriteFile(filepath.Join(g.dir, "route.yaml"), []byte(browserRoute), 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.dir, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &shelf{g, db}
	type tried struct {
		Name    string   `json:"name"`
		Run     string   `json:"run"`
		Records int      `json:"records"`
		Browser []string `json:"browser"` // what it names; nil: it holds
		Server  []string `json:"server"`
		CLI     []string `json:"cli"`    // of what was downloaded
		Python  string   `json:"python"` // the same
	}
	var all []tried
	run, records := s.driven()
	all = append(all, tried{Name: "good", Run: run, Records: len(records), CLI: []string{"integrity: ok", "conformance: ok"}, Python: "ok"})

	end := func() int64 { return records[len(records)-1].Seq } // which is signed, with the chain before it
	run, records = s.driven()
	seq := seqOf(records, "stage.finished")
	s.exec(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), '"n":1', '"n":7') AS BLOB) WHERE seq = ? AND run = (SELECT n FROM runs WHERE id = ?)`, seq, run)
	all = append(all, tried{Name: "changed", Run: run, Records: len(records), Browser: []string{fmt.Sprintf("Record %d", end()), "head"}, Server: []string{fmt.Sprintf("Record %d", seq), "hash"},
		CLI: []string{fmt.Sprintf("seq %d: head", end()), fmt.Sprintf("seq %d: replay_mismatch", seq)}, Python: fmt.Sprintf("head\t%d", end())})

	run, records = s.driven()
	seq = seqOf(records, "stage.finished")
	s.exec(`DELETE FROM records WHERE seq = ? AND run = (SELECT n FROM runs WHERE id = ?)`, seq, run)
	all = append(all, tried{Name: "dropped", Run: run, Records: len(records) - 1, Browser: []string{fmt.Sprintf("Record %d", seq+1), "gap"}, Server: []string{fmt.Sprintf("Record %d", seq+1), "gap"},
		CLI: []string{fmt.Sprintf("seq %d: gap", seq+1)}, Python: fmt.Sprintf("gap\t%d", seq+1)})

	run, records = s.driven()
	seq = 1 + int64(slices.IndexFunc(records, func(r journal.Record) bool {
		return r.Kind == "transition" && bytes.Contains(r.Body, []byte(`"to":"b"`))
	}))
	at := &records[seq-1]
	at.Body = bytes.Replace(at.Body, []byte(`"to":"b"`), []byte(`"to":"c"`), 1)
	s.signAnew(records)
	all = append(all, tried{Name: "signed-anew", Run: run, Records: len(records), Server: []string{"Integrity holds", "Conformance does not hold", fmt.Sprintf("Record %d", seq)},
		CLI: []string{"integrity: ok", fmt.Sprintf("seq %d: replay_mismatch", seq)}, Python: "ok"})

	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := filepath.Abs("../../journal/testdata/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	g.script("proof.mjs", "TIPSTAFF_RUNS="+string(text), "TIPSTAFF_VERIFIER="+verifier)
}

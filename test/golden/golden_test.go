//go:build unix

// Package golden holds journals that earlier versions have made, and a test that this
// one still verifies, replays and resumes them. README.md says how a generation is added.
package golden

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// TestMain lets more tests run at once than there are processors: much of the time they
// wait for processes.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(cmdtest.Main(m))
}

// The journals of every generation verify, replay and go on as they would have.
func TestGolden(t *testing.T) {
	manifests, err := filepath.Glob("v*/manifest.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there is no generation: %v", err)
	}
	for _, file := range manifests {
		g := readGeneration(t, filepath.Dir(file))
		for _, name := range slices.Sorted(maps.Keys(g.Workspaces)) {
			t.Run(g.dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := g.unpack(t, name, 2*time.Minute)
				w.allFrozen()
				w.bites()
				for _, e := range w.runs {
					w.goesOn(e)
				}
				w.keptRecords()
				w.Must(0, "memory", "rebuild", "--check")
			})
		}
		t.Run(g.dir+"/exports", func(t *testing.T) {
			t.Parallel()
			g.exports(t)
		})
	}
}

// The same holds of journals that were copied to a database: they export the very bytes
// that were frozen, and go on as they would have.
func TestGoldenInPostgres(t *testing.T) {
	server := os.Getenv("TIPSTAFF_POSTGRES")
	if server == "" {
		t.Skip("TIPSTAFF_POSTGRES names no server: make test-scale starts one")
	}
	manifests, err := filepath.Glob("v*/manifest.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there is no generation: %v", err)
	}
	for _, file := range manifests {
		g := readGeneration(t, filepath.Dir(file))
		for i, name := range slices.Sorted(maps.Keys(g.Workspaces)) {
			t.Run(g.dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := g.unpack(t, name, 2*time.Minute)
				w.Must(0, "ls") // which brings the store to the newest format
				address, err := url.Parse(server)
				w.Check(err)
				address.RawQuery = url.Values{"search_path": {fmt.Sprintf("golden%d_%s_%d", os.Getpid(), g.dir, i)}}.Encode()
				w.Must(0, "store", "copy", ".", address.String())
				w.Check(os.Rename(w.Path(".tipstaff", "tipstaff.db"), w.Path("copied.db"))) // nobody reads it by mistake
				w.Env = append(w.Env, "TIPSTAFF_STORE="+address.String())
				w.allFrozen()
				for _, e := range w.runs {
					w.goesOn(e)
				}
				w.exportsKept()
				w.Must(0, "memory", "rebuild", "--check")
			})
		}
	}
}

// workspace is one that was frozen, in a folder of this test.
type workspace struct {
	*cmdtest.Folder
	runs   []expectation
	frozen map[string]frozen // by name
}

func (g *generation) unpack(t *testing.T, name string, patience time.Duration) *workspace {
	t.Helper()
	w := &workspace{cmdtest.New(t, cmdtest.Released, patience), g.Workspaces[name], map[string]frozen{}}
	w.Check(untar(filepath.Join(g.dir, name+".tar.bz2"), w.Dir))
	w.Env = append(w.Env, g.Env[name]...)
	w.Check(os.Mkdir(w.Path("exported"), 0o755))
	for _, e := range w.runs {
		w.frozen[e.Name] = g.frozen[name+" "+e.Name]
	}
	return w
}

// shown is what show and ls tell of a run.
type shown struct {
	Run                    string `json:"run_id"`
	State, Status, Outcome string
	Outputs                map[string]any
	Error                  struct{ Reason string }
}

// allFrozen checks runs that nothing has happened to since.
func (w *workspace) allFrozen() {
	w.Helper()
	for _, e := range w.runs {
		w.asFrozen(e)
	}
	w.statuses()
}

// asFrozen checks a run that nothing has happened to since: not a byte of it differs.
// Replay is verify --open that also prints, so a run that has not ended is not verified
// a second time.
func (w *workspace) asFrozen(e expectation) {
	w.Helper()
	f := w.frozen[e.Name]
	if e.ended() {
		w.Must(0, e.verify(f.run)...)
	}
	w.Must(0, "replay", f.run)
	w.Must(0, "export", f.run, "exported/"+e.Name)
	w.hasRecords(e, "exported/"+e.Name)
}

// statuses checks what the list of runs says of those that have not ended.
func (w *workspace) statuses() {
	w.Helper()
	status := map[string]string{}
	for line := range strings.Lines(w.Must(0, "ls", "--json").Out) {
		var s shown
		w.Check(json.Unmarshal([]byte(line), &s))
		status[s.Run] = s.Status
	}
	for _, e := range w.runs {
		if got := status[w.frozen[e.Name].run]; !e.ended() && got != e.Status {
			w.Errorf("%s is %s, not %s", e.Name, got, e.Status)
		}
	}
}

// hasRecords checks that an export has the frozen records, and nothing after them but
// what is added to a run that was killed.
func (w *workspace) hasRecords(e expectation, dir string) {
	w.Helper()
	f := w.frozen[e.Name]
	lines := bytes.SplitAfter([]byte(w.Read(dir+"/records.ndjson")), []byte("\n"))
	lines = lines[:len(lines)-1] // after the last newline is nothing
	if len(lines) < f.seq {
		w.Fatalf("%s has %d records, not %d", dir, len(lines), f.seq)
	}
	w.areFrozen(e, lines[:f.seq])
	after := lines[f.seq:]
	if e.Killed != "" {
		if len(after) != 1 || !bytes.Contains(after[0], []byte(`"kind":"`+e.Killed+`"`)) {
			w.Errorf("%s was killed; after its frozen records come %q", e.Name, after)
		}
		return
	}
	var head struct {
		Seq  int
		Hash string
	}
	w.Check(json.Unmarshal([]byte(w.Read(dir+"/head.json")), &head))
	if head.Seq != f.seq || head.Hash != f.head || len(after) > 0 {
		w.Errorf("%s ends with record %d, %s, not with %d, %s", e.Name, head.Seq, head.Hash, f.seq, f.head)
	}
}

// areFrozen checks that lines are the frozen records of a run.
func (w *workspace) areFrozen(e expectation, lines [][]byte) {
	w.Helper()
	want := w.frozen[e.Name].sum
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(bytes.Join(lines, nil))); got != want {
		w.Errorf("the records of %s are not those that were frozen: %s, not %s", e.Name, got, want)
	}
}

// store opens the database behind the command's back.
func (w *workspace) store() *sql.DB {
	w.Helper()
	db, err := sql.Open("sqlite", "file:"+w.Path(".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(10000)")
	w.Check(err)
	return db
}

// bites changes one byte of a record of the first run, which verify must find, and
// puts it right again.
func (w *workspace) bites() {
	w.Helper()
	db := w.store()
	defer db.Close()
	e := w.runs[0]
	f := w.frozen[e.Name]
	const where = ` WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq = ?`
	var record []byte
	w.Check(db.QueryRow(`SELECT bytes FROM records`+where, f.run, f.seq/2).Scan(&record))
	put := func(b []byte) {
		_, err := db.Exec(`UPDATE records SET bytes = ?`+where, b, f.run, f.seq/2)
		w.Check(err)
	}
	changed := bytes.Clone(record)
	changed[len(changed)/2] ^= 1
	put(changed)
	w.Must(6, e.verify(f.run)...)
	put(record)
}

// keptRecords checks that whatever has happened since, the frozen records stand in the
// store as they were.
func (w *workspace) keptRecords() {
	w.Helper()
	db := w.store()
	defer db.Close()
	for _, e := range w.runs {
		f := w.frozen[e.Name]
		rows, err := db.Query(`SELECT bytes FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq <= ? ORDER BY seq`, f.run, f.seq)
		w.Check(err)
		var lines [][]byte
		for rows.Next() {
			var line []byte
			w.Check(rows.Scan(&line))
			lines = append(lines, append(line, '\n'))
		}
		w.Check(rows.Err())
		w.areFrozen(e, lines)
	}
}

// goesOn runs the commands of an entry and checks what has come of it.
func (w *workspace) goesOn(e expectation) {
	w.Helper()
	f := w.frozen[e.Name]
	for _, command := range e.Then {
		w.Must(int(command[0].(uint64)), w.arguments(command[1:])...)
	}
	run := f.run
	if e.Of != "" {
		run = e.Of
	}
	var s shown
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", run, "--json").Out), &s))
	maps.DeleteFunc(s.Outputs, func(name string, _ any) bool { _, told := e.End.Outputs[name]; return !told })
	if diff := cmp.Diff(plain(w, e.End), plain(w, end{s.State, s.Outcome, s.Error.Reason, s.Outputs})); diff != "" {
		w.Errorf("%s, %s, did not end as it must (-want +got):\n%s", e.Name, e.Is, diff)
	}
	for name, want := range e.Effects {
		if got := strings.Fields(w.Read("effects/" + name)); !slices.Equal(got, want) {
			w.Errorf("%s, %s, had the effects %v in %s, not %v", e.Name, e.Is, got, name, want)
		}
	}
	for name, other := range e.Same {
		if got := w.Read(name); got == "" || got != w.Read(other) {
			w.Errorf("%s: %s is not what %s is", e.Name, name, other)
		}
	}
	if len(e.Then) > 0 || !e.ended() {
		w.Must(0, "verify", run)
	}
}

// arguments are those of a command in the manifest, with its names replaced.
func (w *workspace) arguments(words []any) (args []string) {
	w.Helper()
	for _, word := range words {
		text := fmt.Sprint(word)
		if name, ok := strings.CutPrefix(text, "$"); ok {
			if text = w.frozen[name].run; text == "" {
				w.Fatalf("no run is called %s", name)
			}
		} else if file, ok := strings.CutPrefix(text, "<"); ok {
			text = strings.TrimSpace(w.Read(file))
		}
		args = append(args, text)
	}
	return args
}

// exports checks the exports that were frozen with the public keys alone, outside of any
// workspace, and that a changed byte is found.
func (g *generation) exports(t *testing.T) {
	w := &workspace{Folder: cmdtest.New(t, cmdtest.Released, 2*time.Minute), frozen: map[string]frozen{}}
	w.Check(untar(filepath.Join(g.dir, "exports.tar.bz2"), w.Dir))
	w.Check(os.Mkdir(w.Path("empty"), 0o755))
	seen := 0
	for workspace, runs := range g.Workspaces {
		for _, e := range runs {
			dir := workspace + "-" + e.Name
			if !slices.Contains(g.Exports, dir) {
				continue
			}
			seen++
			w.frozen[e.Name] = g.frozen[workspace+" "+e.Name]
			w.hasRecords(e, dir)
			verify := e.verify("./"+dir, "--workspace", "empty", "--key", "keys/"+workspace)
			w.Must(0, verify...)
			records := w.Read(dir + "/records.ndjson")
			w.Write(dir+"/records.ndjson", strings.Replace(records, `"seq":2,`, `"seq":3,`, 1))
			w.Must(6, verify...)
		}
	}
	if seen != len(g.Exports) {
		t.Errorf("%d of %d exports are of runs of the manifest", seen, len(g.Exports))
	}
}

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/store/storetest"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

var databases atomic.Int64

// database is the address of a store of its own on the server that TIPSTAFF_POSTGRES names.
func database(t testing.TB) string {
	t.Helper()
	server := os.Getenv("TIPSTAFF_POSTGRES")
	if server == "" {
		t.Skip("TIPSTAFF_POSTGRES names no server: make test-scale starts one")
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", fmt.Sprintf("c%d_%d", os.Getpid(), databases.Add(1)))
	u.RawQuery = q.Encode()
	return u.String()
}

// copyWays are the stores that a copy goes to.
var copyWays = map[string]func(*workspace) (address string, there *workspace){
	"folder": func(w *workspace) (string, *workspace) {
		there := emptyWorkspace(w)
		return there.Dir, there
	},
	"postgres": func(w *workspace) (string, *workspace) {
		address := database(w)
		there := &workspace{Folder: cmdtest.New(w, cmdtest.Released, patience)}
		there.Dir, there.Env = w.Dir, append(w.Env, "TIPSTAFF_STORE="+address)
		return address, there
	},
}

const large = `-- large.yaml --
kind: plan
version: 1
root: {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "head -c 300000 /dev/zero | tr '\\0' x"]}}
`

// Everything that a workspace holds is the same in its copy, and goes on there; and the
// same again in a copy of that.
func TestStoreCopy(t *testing.T) {
	t.Parallel()
	for name, way := range copyWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, work, small, large)
			w.Must(0, "run", "small.yaml")
			w.Must(0, "run", "large.yaml")
			w.Must(4, "run", "work.yaml", "--unattended")
			w.Must(0, "task", "new", "--name", "parse", "--description", "small.yaml")
			w.Must(0, "memory", "remember", "fact", "it rains on Mondays")
			to, there := way(w)
			w.Must(0, "store", "copy", ".", to).Says(t, "3 runs", "1 task", "every hash agrees", "resume them in only one of the two")
			same(t, w, there)
			w.Must(3, "store", "copy", ".", to) // it holds runs now

			// The run that waits is decided and goes on in the copy, and so does the memory.
			there.Write("tipstaff.yaml", w.Read("tipstaff.yaml"))
			there.Write("note.txt", "left\n")
			parked := there.runs()[0]
			there.Must(0, "decide", parked, there.show(parked).OpenGates[0].ID, "approve")
			there.Must(0, "resume", parked)
			there.Must(0, "verify", parked)
			there.Must(0, "memory", "remember", "fact", "and on Tuesdays")
			there.Must(0, "memory", "rebuild", "--check")
			there.Write("small.yaml", w.Read("small.yaml"))
			there.Must(0, "run", "small.yaml")
			if n := len(there.runs()); n != 4 || len(w.runs()) != 3 {
				t.Errorf("%d runs in the copy, %d in the source", n, len(w.runs()))
			}

			// And back.
			back := emptyWorkspace(t)
			from := to
			there.Must(0, "store", "copy", from, back.Dir).Says(t, "4 runs", filepath.Join(back.Dir, ".tipstaff", "keys"))
			same(t, there, back)
			back.Must(0, "doctor").Says(t, "nothing is wrong")
		})
	}
}

// same compares two workspaces as outsiders see them.
func same(t *testing.T, a, b *workspace) {
	t.Helper()
	for _, args := range [][]string{{"ls", "--json"}, {"memory", "log", "--json"}, {"memory", "list", "--json"}, {"memory", "weights", "--json"}, {"task", "list", "--json"}} {
		ra, rb := a.Run(args...), b.Run(args...)
		if ra.Out != rb.Out || ra.Code != rb.Code {
			t.Errorf("%v differs\n%v\n%v", args, ra, rb)
		}
	}
	for _, run := range a.runs() {
		da, db := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		a.Must(0, "export", run, da)
		b.Must(0, "export", run, db)
		if fa, fb := filesOf(t, da), filesOf(t, db); fa != fb {
			t.Errorf("the exports of %s differ\n%s\n%s", run, cmdtest.Clip(fa), cmdtest.Clip(fb))
		}
		if va, vb := a.Must(0, "verify", run, "--open"), b.Must(0, "verify", run, "--open"); va.Out != vb.Out {
			t.Errorf("verify differs\n%v\n%v", va, vb)
		}
	}
}

// filesOf is every file below a folder, with its name.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	var all bytes.Buffer
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, err := os.ReadFile(filepath.Join(dir, name))
			fmt.Fprintf(&all, "%s\n%s\n", name, text)
			return err
		}
		return err
	})
	if err != nil || all.Len() == 0 {
		t.Fatal(dir, err)
	}
	return all.String()
}

// A copy that is killed is there as a whole or not at all, and can be made again.
func TestKilledStoreCopy(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	for name, way := range copyWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, manifest, small, large)
			for range 5 {
				w.Must(0, "run", "large.yaml")
			}
			to, there := way(w)
			killed := 0
			for wait := 10 * time.Millisecond; ; wait += wait / 2 {
				p := w.Start("store", "copy", ".", to)
				select {
				case <-p.Ended:
					p.Must(0)
				case <-time.After(wait):
					if p.Kill() {
						killed++
					}
				}
				if n := len(there.runs()); n == 5 {
					break
				} else if n != 0 {
					t.Fatalf("killed after %v it has %d of 5 runs", wait, n)
				}
			}
			if killed == 0 {
				t.Error("none was killed")
			}
			same(t, w, there)
		})
	}
}

// What cannot be copied, or must not be, is refused, and nothing is left.
func TestStoreCopyRefuses(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small, work)
	nowhere := filepath.Join(t.TempDir(), "new", "copy")
	w.Must(3, "store", "copy", ".", nowhere).Says(t, "nothing to copy")
	w.Must(0, "run", "small.yaml")
	w.Must(2, "store", "copy", ".", "../"+filepath.Base(w.Dir)).Says(t, "the same store")
	taken := newWorkspace(t, manifest, small)
	taken.Must(0, "run", "small.yaml")
	w.Must(2, "store", "copy", ".", taken.Dir).Says(t, "are not those of the runs")
	taken.Must(0, "verify", "@")
	w.Must(2, "store", "copy", ".", nowhere, "--store", "x").Says(t, "--store does not apply")
	w.Must(3, "store", "copy", ".", "mysql://a:secret@b/c").Says(t, "postgres://")
	run := w.runs()[0]

	w.Write("long.yaml", strings.Replace(strings.TrimPrefix(small, "-- small.yaml --\n"), `json_query@1.0.0", args: {value: 1, expr: value + 1.0}`, `sleep@1.0.0", args: {duration: 5m}`, 1))
	p := w.Start("run", "long.yaml")
	w.Until("it to run", func() bool { r := w.runs(); return r[0] != run && w.show(r[0]).Status == "running" })
	w.Must(3, "store", "copy", ".", nowhere).Says(t, w.runs()[0], "being driven")
	p.Kill()
	w.Must(0, "ls") // finds it interrupted

	t.Run("other keys", func(t *testing.T) {
		from := database(t)
		w.Must(0, "store", "copy", ".", from)
		other := newWorkspace(t, manifest, small)
		other.Must(2, "store", "copy", from, nowhere).Says(t, "keys of the runs are not in", "--workspace")
		other.Must(0, "run", "small.yaml")
		other.Must(2, "store", "copy", from, nowhere).Says(t, "are not those of the runs")
		other.Must(0, "store", "copy", from, filepath.Join(t.TempDir(), "copy"), "--workspace", w.Dir)
		other.Must(3, "store", "copy", strings.Replace(from, "search_path=", "search_path=x", 1), nowhere, "--workspace", w.Dir).Says(t, "there is no store in schema xc")
	})
	w.sql(`UPDATE records SET bytes = CAST(replace(CAST(bytes AS TEXT), 'local', 'lokal') AS BLOB) WHERE run = 1 AND seq = 1`)
	w.Must(6, "store", "copy", ".", nowhere).Says(t, "record 1 of run "+run, "nothing was copied", "tipstaff verify")
	if _, err := os.Stat(filepath.Dir(nowhere)); err == nil {
		t.Error("it has left something")
	}
}

// A copy takes no more memory for more records. Text that Postgres cannot keep is no
// hindrance: rows are indices of records, whose bytes are the same.
func TestStoreCopyOfManyRecords(t *testing.T) {
	records := 5000
	if !testing.Short() {
		records = 100_000
	}
	for name, way := range copyWays {
		t.Run(name, func(t *testing.T) {
			w := emptyWorkspace(t)
			run := fillWithRecords(t, w.Path(".tipstaff"), records)
			to, there := way(w)
			stop, peak := make(chan struct{}), make(chan uint64)
			go func() {
				var m runtime.MemStats
				most := uint64(0)
				for {
					select {
					case <-stop:
						peak <- most
						return
					case <-time.After(5 * time.Millisecond):
						runtime.ReadMemStats(&m)
						most = max(most, m.HeapAlloc)
					}
				}
			}()
			begun := time.Now()
			made, err := copyStore(t.Context(), cli.OpenOptions{Workspace: w.Dir}, w.Dir, to)
			took := time.Since(begun)
			close(stop)
			most := <-peak
			t.Logf("%d records in %v, %d MiB of memory at most", made.Records, took.Round(time.Millisecond), most>>20)
			if err != nil || made.Records < int64(records) || most > 64<<20 {
				t.Errorf("%+v %v, %d MiB", made, err, most>>20)
			}
			if head := there.show(run).HeadSeq; head != made.Records {
				t.Errorf("the run ends at %d of %d", head, made.Records)
			}
		})
	}
}

// fillWithRecords makes a store with one run of so many records.
func fillWithRecords(t *testing.T, dir string, records int) string {
	t.Helper()
	s, err := sqlite.Open(dir, &sqlite.Options{UserKey: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := tipstaff.NewID(time.Now()).String()
	err = s.Create(t.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan", Title: "zero \x00 and \xff", Labels: map[string]string{"a\x00": "b"}}, storetest.Begun(s.Keys()))
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Acquire(t.Context(), id, flow.Owner{Kind: "foreground", Host: "nowhere", Pid: 1})
	for n := 0; n < records && err == nil; n += 500 {
		drafts := make([]flow.Draft, 500)
		for i := range drafts {
			drafts[i] = flow.Draft{Kind: "plan.step", Path: fmt.Sprint("root/", n+i), Body: flow.JSON(map[string]any{"node": strings.Repeat("x", 500)})}
		}
		done := make(chan error, 1)
		s.Append(l, drafts, func(err error) { done <- err })
		err = <-done
	}
	if err == nil {
		_, err = s.Park(l, flow.Parking{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// What doctor finds in a database: nothing, or the run and the blob that were changed, and
// owners and keys that have gone.
func TestDoctorOfADatabase(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small, large)
	address := database(t)
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip(err)
	}
	w.Env = append(w.Env, "TIPSTAFF_STORE="+address)
	w.Must(1, "doctor").Says(t, "error: unreadable: the store: there is no store in schema")
	w.Must(0, "run", "small.yaml")
	w.Must(0, "run", "large.yaml")
	w.Must(0, "doctor").Says(t, "nothing is wrong")
	w.Must(2, "backup", "copy").Says(t, "pg_dump", "pg_basebackup", ".tipstaff/keys")
	w.Write("long.yaml", strings.Replace(strings.TrimPrefix(small, "-- small.yaml --\n"), `json_query@1.0.0", args: {value: 1, expr: value + 1.0}`, `sleep@1.0.0", args: {duration: 5m}`, 1))
	p := w.Start("run", "long.yaml")
	w.Until("it to run", func() bool { r := w.runs(); return len(r) == 3 && w.show(r[0]).Status == "running" })
	p.Kill()
	w.Must(1, "doctor").Says(t, "warning: owner_gone: run ")
	w.Must(0, "ls") // finds it interrupted
	runs := w.runs()

	psql(t, address, `UPDATE runs SET queued = 1, host = 'elsewhere', updated = updated - 120000000000 WHERE n = 3`) // as a server leaves it that has no place
	w.Must(1, "doctor").Says(t, "warning: run_waits: run "+runs[0], "waited for a server", "tipstaff serve on elsewhere")
	psql(t, address, `UPDATE runs SET queued = 0, host = '' WHERE n = 3`)
	psql(t, address, `UPDATE records SET hash = sha256(hash) WHERE seq = 3 AND run = 1`)
	psql(t, address, `UPDATE blob_data SET data = data || '\x00' WHERE length(data) > 300000`)
	psql(t, address, `UPDATE runs SET head_hash = sha256(head_hash) WHERE n = 2`)
	w.Must(1, "doctor").Says(t, "error: run_damaged: run "+runs[2], "record 3", "error: run_damaged: run "+runs[1], "another hash", "error: blob_damaged: blob sha256:")
	w.Check(os.Rename(w.Path(".tipstaff", "keys", "user.key"), w.Path("user.key")))
	w.Must(1, "doctor").Says(t, "error: key_missing:")
}

package main

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// codesOf are the codes of what doctor finds, sorted, each once. It must exit 1 if it
// finds anything, name a place and a remedy each time, and change nothing.
func (w *workspace) codesOf() []string {
	w.Helper()
	before := w.untouched()
	r := w.Run("doctor", "--json")
	var codes []string
	for line := range strings.Lines(r.Out) {
		var d tipstaff.Diagnostic
		w.Check(json.Unmarshal([]byte(line), &d))
		if d.Where == "" || d.Message == "" || d.Remedy == "" || d.Severity != "error" && d.Severity != "warning" {
			w.Errorf("not a whole finding: %s", line)
		}
		codes = append(codes, d.Code)
	}
	if want := min(len(codes), 1); r.Code != want {
		w.Errorf("want exit code %d\n%v", want, r)
	}
	if after := w.untouched(); before != after {
		w.Errorf("doctor has changed the workspace from\n%s\nto\n%s", before, after)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// untouched lists every file with its size, mode and time, but for shared memory,
// which is no part of what is stored.
func (w *workspace) untouched() string {
	w.Helper()
	var b strings.Builder
	w.walk(".", func(name string, d fs.DirEntry) error {
		info, err := d.Info()
		if err == nil && !strings.HasSuffix(name, "-shm") && !d.IsDir() {
			b.WriteString(name + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	return b.String()
}

// patient is a workspace with an ended run and one that waits.
func patient(t *testing.T) *workspace {
	t.Helper()
	w := newWorkspace(t, manifest, work, small)
	w.Must(0, "run", "small.yaml")
	w.Must(4, "run", "work.yaml", "--unattended")
	return w
}

// one is a file of the store that matches.
func (w *workspace) one(pattern string) string {
	w.Helper()
	names, err := filepath.Glob(w.Path(".tipstaff", pattern))
	w.Check(err)
	if len(names) == 0 {
		w.Fatalf("no file is %s", pattern)
	}
	return names[0]
}

func (w *workspace) aged(name string) {
	w.Helper()
	w.Check(os.MkdirAll(filepath.Dir(name), 0o700))
	w.Check(os.WriteFile(name, []byte("left"), 0o600))
	old := time.Now().Add(-2 * time.Hour)
	w.Check(os.Chtimes(name, old, old))
}

// Each kind of damage is found, and nothing else; where a remedy is at hand, it
// helps.
func TestDoctorFindsDamage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(w *workspace)
		want   string           // codes
		cure   func(*workspace) // what the remedies say; nil: a backup is needed
	}{
		"nothing":         {func(*workspace) {}, "", nil},
		"nothing was run": {func(w *workspace) { w.Check(os.RemoveAll(w.Path(".tipstaff"))) }, "", nil},
		"pages":           {(*workspace).damage, "database_damaged", nil},
		"no database": {func(w *workspace) {
			w.Check(os.WriteFile(w.Path(".tipstaff", "tipstaff.db"), []byte(strings.Repeat("no database ", 1000)), 0o600))
			w.Check(os.RemoveAll(w.Path(".tipstaff", "tipstaff.db-wal")))
		}, "database_damaged", nil},
		"the database is gone": {func(w *workspace) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				w.Check(os.RemoveAll(w.Path(".tipstaff", "tipstaff.db"+suffix)))
			}
		}, "database_missing", nil},
		"another program's":    {func(w *workspace) { w.sql(`PRAGMA application_id = 1`) }, "unreadable", func(w *workspace) { w.sql(`PRAGMA application_id = 1953067123`) }},
		"a later version":      {func(w *workspace) { w.sql(`PRAGMA user_version = 999`) }, "format_newer", nil},
		"a file, not a folder": {func(w *workspace) { w.Check(os.RemoveAll(w.Path(".tipstaff"))); w.Write(".tipstaff", "") }, "not_a_folder", func(w *workspace) { w.Check(os.Remove(w.Path(".tipstaff"))) }},

		"a folder for everybody": {func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff"), 0o755)) }, "permissions", func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff"), 0o700)) }},
		"a key for everybody":    {func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff", "keys", "user.key"), 0o644)) }, "permissions", func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff", "keys", "user.key"), 0o600)) }},
		"keys for everybody":     {func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff", "keys"), 0o755)) }, "permissions", func(w *workspace) { w.Check(os.Chmod(w.Path(".tipstaff", "keys"), 0o700)) }},

		"a private key is gone": {func(w *workspace) { w.Check(os.Remove(w.Path(".tipstaff", "keys", "user.key"))) }, "key_missing", nil},
		"a public key is gone":  {func(w *workspace) { w.Check(os.Remove(w.Path(".tipstaff", "keys", "user.pub"))) }, "key_changed key_missing", func(w *workspace) { w.Must(0, "ls") }},
		"a key that is none": {func(w *workspace) {
			w.Check(os.WriteFile(w.Path(".tipstaff", "keys", "executor.key"), []byte("x"), 0o600))
		}, "key_unusable", nil},
		"another's key": {func(w *workspace) {
			w.Check(os.WriteFile(w.Path(".tipstaff", "keys", "executor.key"), []byte(hex.EncodeToString(make([]byte, 32))), 0o600))
		}, "key_foreign key_mismatch", nil},
		"keys made anew": {func(w *workspace) {
			w.Check(os.RemoveAll(w.Path(".tipstaff", "keys")))
			w.Must(0, "ls")
		}, "key_changed", nil},

		"an envelope file is gone": {func(w *workspace) { w.Check(os.Remove(w.one("journal/*/000001-intent.draft.json"))) }, "projection_missing", func(w *workspace) { w.Must(0, "ls") }},
		"an envelope file was being written": {func(w *workspace) { // by a process that was killed
			name := w.one("journal/*/000001-intent.draft.json")
			w.Check(os.Rename(name, filepath.Join(filepath.Dir(name), ".tmp-1234")))
		}, "projection_missing", func(w *workspace) { w.Must(0, "ls") }},
		"an envelope file differs": {func(w *workspace) {
			w.Check(os.WriteFile(w.one("journal/*/000001-intent.draft.json"), []byte("{}"), 0o600))
		}, "projection_differs", func(w *workspace) {
			w.Check(os.Remove(w.one("journal/*/000001-intent.draft.json")))
			w.Must(0, "ls")
		}},
		"a file too many": {func(w *workspace) {
			w.Check(os.WriteFile(w.one("journal/*/000001-intent.draft.json")+"x", []byte("{}"), 0o600))
		}, "projection_differs", nil},
		"a run that is unknown": {func(w *workspace) {
			w.Check(os.Mkdir(w.Path(".tipstaff", "journal", "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"), 0o700))
		}, "run_unknown", func(w *workspace) {
			w.Check(os.Remove(w.Path(".tipstaff", "journal", "01JCQ8R4T5V6W7X8Y9Z0A1B2C3")))
		}},
		"a blob is gone": {func(w *workspace) { w.Check(os.Remove(w.one("blobs/*/*"))) }, "blob_missing", nil},
		"a blob differs": {func(w *workspace) {
			name := w.one("blobs/*/*")
			data, err := os.ReadFile(name)
			w.Check(err)
			data[0] ^= 1
			w.Check(os.WriteFile(name, data, 0o600))
		}, "blob_damaged", nil},
		"a blob that nobody names": {func(w *workspace) { w.aged(w.Path(".tipstaff", "blobs", "ab", strings.Repeat("c", 62))) }, "blob_orphan", func(w *workspace) {
			w.Check(os.Remove(w.Path(".tipstaff", "blobs", "ab", strings.Repeat("c", 62))))
		}},
		"a file half written": {func(w *workspace) { w.aged(w.Path(".tipstaff", "keys", ".tmp-123")) }, "leftover", func(w *workspace) { w.Check(os.Remove(w.Path(".tipstaff", "keys", ".tmp-123"))) }},

		"records without a run":   {func(w *workspace) { w.sql(`DELETE FROM runs WHERE n = 1`) }, "reference run_unknown", nil},
		"a run without its head":  {func(w *workspace) { w.sql(`DELETE FROM records WHERE run = 1 AND seq > 3`) }, "reference run_set_back", nil},
		"a gate without a record": {func(w *workspace) { w.sql(`UPDATE gates SET opened = 1000`) }, "reference", nil},
		"a fork without a source": {func(w *workspace) { w.sql(`UPDATE runs SET base = 'nobody' WHERE n = 1`) }, "reference", nil},
		"a blob without a row":    {func(w *workspace) { w.sql(`DELETE FROM blobs WHERE digest = (SELECT digest FROM blob_refs LIMIT 1)`) }, "reference", nil},

		"a clock that was ahead": {func(w *workspace) { w.sql(`UPDATE runs SET updated = updated + 3600000000000 WHERE n = 1`) }, "clock", nil},
		"a disk with its own clock": {func(w *workspace) {
			ahead := time.Now().Add(time.Hour)
			w.Check(os.Chtimes(w.Path(".tipstaff", "tipstaff.db"), ahead, ahead))
		}, "clock", nil},
		"a manifest that is none": {func(w *workspace) { w.Write("tipstaff.yaml", "servers: 1\nnonsense: 2\n") }, "manifest", func(w *workspace) { w.Unpack(manifest) }},
		"a lock that is none":     {func(w *workspace) { w.Write("tipstaff.lock", "{") }, "lock", func(w *workspace) { w.Check(os.Remove(w.Path("tipstaff.lock"))) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := patient(t)
			c.damage(w)
			if got := strings.Join(w.codesOf(), " "); got != c.want {
				t.Errorf("doctor finds %q, want %q\n%v", got, c.want, w.Run("doctor"))
			}
			if c.cure == nil {
				return
			}
			c.cure(w)
			if got := w.codesOf(); len(got) > 0 {
				t.Errorf("after its remedy doctor still finds %v\n%v", got, w.Run("doctor"))
			}
		})
	}
}

// The runs of a process that was killed are found while nobody has taken notice, and
// a living one's are not.
func TestDoctorFindsDeadOwners(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	w.Must(0, "doctor")
	p.Kill()
	if got := w.codesOf(); !slices.Equal(got, []string{"owner_gone"}) {
		t.Errorf("doctor finds %v", got)
	}
	w.Must(0, "ls")
	if got := w.codesOf(); len(got) > 0 {
		t.Errorf("doctor still finds %v", got)
	}
}

func TestDoctorFindsAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	mountSmall(t, w.Path(".tipstaff"))
	w.Must(0, "run", "small.yaml")
	fill(t, w.Path(".tipstaff", "ballast"))
	if got := w.codesOf(); !slices.Equal(got, []string{"disk_space"}) {
		t.Errorf("doctor finds %v", got)
	}
}

// A damaged database says what to do, and that can be done.
func TestDamagedDatabaseIsRestored(t *testing.T) {
	t.Parallel()
	w := patient(t)
	run := w.show("@").ID
	w.Must(0, "backup", "copy")
	w.damage()
	w.Must(3, "decide", run, "root/1/ask", "approve").Says(t, "tipstaff doctor", "tipstaff backup")
	w.Must(1, "doctor").Says(t, "database_damaged", "tipstaff backup")
	w.Check(os.Rename(w.Path(".tipstaff"), w.Path("damaged")))
	w.Check(os.Rename(w.Path("copy", ".tipstaff"), w.Path(".tipstaff")))
	w.Must(0, "doctor")
	w.Must(0, "decide", run, "root/1/ask", "approve")
	w.Must(0, "resume", run, "--unattended")
	w.Must(0, "verify", run)
}

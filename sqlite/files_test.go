package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store/storetest"
)

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestEnvelopeFiles(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, storetest.Step("a"), storetest.Gate("G1", "root/ok"))
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"000001-intent.draft.json", "000002-intent.compiled.json", "000003-intent.accept.json", "000004-plan.proposed.json", "000007-policy.gate.json"}
	if got := names(t, b.db.dir.envelopes(run)); !slices.Equal(got, want) {
		t.Fatalf("files: %v", got)
	}
	// Missing files come back when the store is opened; changed ones stay, for
	// verify to report.
	changed := filepath.Join(b.db.dir.envelopes(run), want[1])
	if err := errors.Join(os.Remove(filepath.Join(b.db.dir.envelopes(run), want[2])), os.WriteFile(changed, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.reopen(nil)
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b.db.dir.envelopes(run)); !slices.Equal(got, want) {
		t.Fatalf("files after opening again: %v", got)
	}
	faults, err := journal.VerifyFiles(b.db.dir.envelopes(run), func(yield func([]byte, error) bool) {
		for _, r := range b.MustRecords(run) {
			if journal.IsEnvelope(r.Kind) && !yield(r.Bytes, nil) {
				return
			}
		}
	})
	if err != nil || len(faults) != 1 || faults[0].File != want[1] {
		t.Fatalf("faults: %v %v", faults, err)
	}
	if err := os.RemoveAll(b.db.dir.journal()); err != nil {
		t.Fatal(err)
	}
	b.MustVerify(run)
	if err := b.db.restore(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b.db.dir.envelopes(run)); !slices.Equal(got, want) {
		t.Fatalf("restored: %v", got)
	}
}

func TestNothingInTheFolderIsForVersionControl(t *testing.T) {
	b := newBench(t, nil)
	if got, err := os.ReadFile(filepath.Join(b.dir, ".gitignore")); err != nil || string(got) != "*\n" {
		t.Fatalf("%q %v", got, err)
	}
}

func TestKeyPermissions(t *testing.T) {
	b := newBench(t, nil)
	keys := b.Keys()
	b.shut()
	dir := folder(b.dir).keys()
	for name, mode := range map[string]os.FileMode{"": 0o700, "user.key": 0o600, "executor.key": 0o600} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Fatalf("%s: %v %v", path, info.Mode(), err)
		}
		if err := os.Chmod(path, mode|0o044); err != nil {
			t.Fatal(err)
		}
		_, err := Open(b.dir, &Options{UserKey: true})
		if err == nil || !strings.Contains(err.Error(), "chmod") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s readable by all: %v", path, err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	b.open(nil)
	if b.Keys() != keys {
		t.Error("other keys")
	}
}

// A secret is the store's own, and for one purpose.
func TestSecrets(t *testing.T) {
	b, other := newBench(t, nil), newBench(t, nil)
	secret := b.Secret("log")
	b.shut()
	b.open(nil)
	if !bytes.Equal(b.Secret("log"), secret) || len(secret) != 32 {
		t.Errorf("another secret of %d bytes after it was opened again", len(secret))
	}
	if bytes.Equal(b.Secret("mail"), secret) || bytes.Equal(other.Secret("log"), secret) {
		t.Error("the same secret for another purpose or store")
	}
	b.open(&Options{ReadOnly: true})
	if b.Secret("log") != nil {
		t.Error("a secret for one who may not sign")
	}
}

// Only a program that asked for the user's key can sign with it.
func TestUserKeyIsAskedFor(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	b.MustAppend(b.MustAcquire(run), storetest.Gate("G1", "root/ok"))
	b.shut()
	s, err := Open(b.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.use(s)
	if err := b.WriteDrafts(run, storetest.Resolve("G1", "approve", "command")); err == nil || !strings.Contains(err.Error(), "user's key") {
		t.Fatalf("signed as the user: %v", err)
	}
	d := storetest.Resolve("G1", "approve", "http")
	d.From = "executor"
	d.Body = []byte(strings.TrimSuffix(string(d.Body), "}") + `,"on_behalf_of":"token:me"}`)
	b.MustWrite(run, d)
	b.MustVerify(run)
}

// A run is signed by the keys it published, or not at all.
func TestLostKeys(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	old := b.Keys()
	b.shut()
	if err := os.Remove(filepath.Join(folder(b.dir).keys(), "executor.key")); err != nil {
		t.Fatal(err)
	}
	b.open(nobodyLives())
	if b.Keys().Executor == old.Executor || b.Keys().User != old.User {
		t.Fatal("the keys did not change as they should")
	}
	if _, err := b.Acquire(t.Context(), run, storetest.Me); !errors.Is(err, journal.ErrUnknownKey) || errors.Is(err, flow.ErrIntegrity) {
		t.Fatalf("driven with a key the run does not know: %v", err)
	}
	if err := b.WriteDrafts(run, storetest.Gate("G1", "root/ok")); !errors.Is(err, journal.ErrUnknownKey) {
		t.Fatalf("signed with a key the run does not know: %v", err)
	}
	b.MustVerify(run) // the old key is still known to the store
	b.MustVerify(b.MustCreate())
}

func TestReadOnly(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	writer := b.Store
	b.open(&Options{ReadOnly: true})
	changed, stop := b.Follow(run)
	defer stop()
	if _, err := writer.Acquire(t.Context(), run, storetest.Me); err != nil {
		t.Fatal(err)
	}
	<-changed
	b.MustVerify(run)
	if _, err := b.Acquire(t.Context(), run, storetest.Me); !errors.Is(err, flow.ErrReadOnly) {
		t.Errorf("acquire: %v", err)
	}
	if err := b.WriteDrafts(run); !errors.Is(err, flow.ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
	if b.Keys() != writer.Keys() {
		t.Error("other keys")
	}
	b.shut()
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), &Options{ReadOnly: true}); !errors.Is(err, flow.ErrReadOnly) {
		t.Errorf("a folder without a store: %v", err)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(file, ".tipstaff"), nil)
	if !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), file) {
		t.Fatalf("%v", err)
	}
}

// A backup taken while others write opens, verifies and is complete.
func TestBackupOfABusyStore(t *testing.T) {
	b := newBench(t, nil)
	value := `"` + strings.Repeat("x", 70<<10) + `"`
	var runs []string
	var busy errgroup.Group
	stop := make(chan struct{})
	for range 8 {
		run := b.MustCreate()
		runs = append(runs, run)
		l := b.MustAcquire(run)
		b.MustAppend(l, flow.Draft{Kind: "effect.finished", Path: "large", Body: storetest.Body(`{"value":%s}`, value)})
		busy.Go(func() error {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
					if err := storetest.AppendErr(b, l, storetest.Step(fmt.Sprint(n))); err != nil {
						return err
					}
				}
			}
		})
	}
	beside := filepath.Join(filepath.Dir(b.dir), "beside.yaml")
	if err := os.WriteFile(beside, []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "new", "backup")
	made, err := b.Backup(t.Context(), dest, "absent.yaml", "beside.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(dest, filepath.Base(b.dir))
	close(stop)
	if err := busy.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Backup(t.Context(), dest); err == nil {
		t.Error("a backup was written over another")
	}
	if copied, err := os.ReadFile(filepath.Join(dest, "beside.yaml")); err != nil || string(copied) != "a: b\n" || !slices.Equal(made.Files, []string{"beside.yaml"}) {
		t.Errorf("beside the store it has %q (%v), and says %v", copied, err, made.Files)
	}
	if left, err := os.ReadDir(filepath.Dir(dest)); err != nil || len(left) != 1 || made.Dir != dest {
		t.Errorf("beside %s there is %v (%v)", made.Dir, left, err)
	}
	copied := benchIn(t, dir)
	copied.open(nil)
	defer copied.shut()
	for _, run := range runs {
		copied.MustVerify(run)
		if row, err := copied.Run(t.Context(), run); err != nil || row.Owner != nil {
			t.Errorf("run %s of the copy belongs to %v (%v)", run, row.Owner, err)
		}
		copied.MustAcquire(run) // and whoever wants to can go on with it
	}
	if made.Runs != 8 || made.Blobs != 1 || made.Missing != 0 {
		t.Errorf("it says that it holds %+v", made)
	}
	if _, err := copied.Blob(t.Context(), journal.Sum([]byte(value)).String()); err != nil {
		t.Error(err)
	}
	if copied.Keys() != b.Keys() {
		t.Error("the copy has other keys")
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, "tipstaff.db": 0o600, "keys": 0o700, "keys/user.key": 0o600, "keys/executor.key": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", name, info.Mode(), err, want)
		}
	}
}

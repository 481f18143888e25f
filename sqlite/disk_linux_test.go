package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// smallDisk is a folder on a file system of that many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, 3<<20)
	b := benchIn(t, filepath.Join(disk, ".tipstaff"))
	o := &Options{FullLimit: 20 * time.Millisecond, FullPause: 5 * time.Millisecond}
	b.open(o)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	large := flow.Draft{Kind: "effect.finished", Path: "root/a", Body: storetest.Body(`{"value":%q}`, strings.Repeat("x", 40<<10))}
	acknowledged := 0
	var err error
	for err == nil {
		if err = storetest.AppendErr(b, l, large); err == nil {
			acknowledged++
		}
	}
	if !errors.Is(err, flow.ErrStoreFull) || !strings.Contains(err.Error(), b.dir) {
		t.Fatalf("the append that found no space: %v", err)
	}
	if acknowledged == 0 {
		t.Fatal("the disk was full before anything was written")
	}
	if err := storetest.AppendErr(b, l, large); !errors.Is(err, flow.ErrStoreFull) {
		t.Fatalf("the next append: %v", err)
	}
	if got := len(b.MustRecords(run)) - 5; got != acknowledged {
		t.Fatalf("%d were acknowledged, %d are there", acknowledged, got)
	}

	// With space again the same lease goes on, and what was refused was not stored.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	b.MustAppend(l, large)
	if got := len(b.MustRecords(run)) - 5; got != acknowledged+1 {
		t.Fatalf("%d were acknowledged, %d are there", acknowledged+1, got)
	}
	b.MustVerify(run)
	b.reopen(o)
	b.MustVerify(run)
	b.shut()
}

// A full disk is waited for: who has a result in memory need not lose it.
func TestFullDiskIsWaitedFor(t *testing.T) {
	disk := smallDisk(t, 3<<20)
	b := benchIn(t, filepath.Join(disk, ".tipstaff"))
	b.open(&Options{FullLimit: time.Minute, FullPause: time.Millisecond})
	defer b.shut()
	run := b.MustCreate()
	l := b.MustAcquire(run)
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 3<<20), 0o600) // as much as there is
	done := make(chan error, 1)
	b.Append(l, []flow.Draft{{Kind: "effect.finished", Body: storetest.Body(`{"value":%q}`, strings.Repeat("x", 60<<10))}}, func(err error) { done <- err })
	select {
	case err := <-done:
		t.Fatalf("the disk is full: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.MustVerify(run)
}

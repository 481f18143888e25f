package filestamp_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/filestamp"
)

// A file system that knows whole seconds alone gives two changes within one the same time.
func TestStampsOfFilesThatMayChangeAgain(t *testing.T) {
	second := time.Now().Truncate(time.Second)
	for _, c := range []struct {
		name    string
		changed time.Time
		settled bool
	}{
		{"just now", time.Now(), false},
		{"more than a second ago", second.Add(-time.Second - time.Nanosecond), true},
		{"within a whole second", second.Add(-time.Second), false},
		{"some whole seconds ago", second.Add(-5 * time.Second), true},
		{"unknown", time.Unix(0, 0), false},
	} {
		if got := (filestamp.Stamp{Changed: c.changed.UnixNano()}).Settled(); got != c.settled {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Who changes a file can put its size and its time back, and is found out.
func TestAChangeThatHidesItselfShows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	stamp := func() filestamp.Stamp {
		t.Helper()
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		return filestamp.Of(info)
	}
	if err := os.WriteFile(name, []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	was := stamp()
	for !was.Settled() {
		time.Sleep(time.Millisecond)
	}
	at := time.Unix(0, was.Modified)
	if err := errors.Join(os.WriteFile(name, []byte("two"), 0o644), os.Chtimes(name, at, at)); err != nil {
		t.Fatal(err)
	}
	is := stamp()
	if is == was || is.Modified != was.Modified || is.Size != was.Size {
		t.Errorf("%+v, and was %+v", is, was)
	}
}

//go:build unix

package filestamp

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

// A file may give way to a pipe at any moment, also between two looks at it.
func TestNobodyWaitsForAPipe(t *testing.T) {
	dir := t.TempDir()
	name, file, pipe := filepath.Join(dir, "name"), filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, name)); err != nil {
		t.Fatal(err)
	}
	var other *NotRegularError
	if _, err := Open(name); !errors.As(err, &other) {
		t.Error(err)
	}
	var over atomic.Bool
	exchanging := make(chan error, 1)
	go func() {
		for n := 0; !over.Load(); n++ {
			temp := filepath.Join(dir, "new")
			if err := errors.Join(os.Symlink([]string{file, pipe}[n%2], temp), os.Rename(temp, name)); err != nil {
				exchanging <- err
				return
			}
		}
		exchanging <- nil
	}()
	opened := 0
	for n := 0; n < 20_000; n++ {
		f, err := Open(name)
		switch {
		case err == nil:
			opened++
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		case !errors.As(err, &other):
			t.Fatal(err)
		}
	}
	over.Store(true)
	if err := <-exchanging; err != nil || opened == 0 {
		t.Errorf("%d were opened: %v", opened, err)
	}
}

// What is read is what a file was seen to have.
func TestAFileThatGrowsHasAnEnd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("text and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Digest(t.Context(), name, 4); err != nil || got != sha256.Sum256([]byte("text")) {
		t.Errorf("%x %v", got, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Digest(ended, name, 4); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

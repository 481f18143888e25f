package files

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

// Whoever waits for a lock can be stopped, and told why.
func TestWaitingForALockEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	stop(why)
	if _, err := Lock(ctx, name); !errors.Is(err, why) {
		t.Error(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = Lock(ctx, name); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		again, err := Lock(t.Context(), name)
		if err == nil {
			err = again()
		}
		waiting <- err
	}()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

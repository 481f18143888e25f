package cli

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// keyboard hears a terminal that is in raw mode. What comes is counted by pieces, so that
// whoever asks a question can tell what was typed before it.
type keyboard struct {
	typed tipstaff.Typed // what was not heard yet; nil: nobody can tell

	mu    sync.Mutex
	heard int // how many pieces were read
}

func newKeyboard(r io.Reader) *keyboard {
	k := new(keyboard)
	k.typed, _ = r.(tipstaff.Typed)
	return k
}

// count is the number of the last piece that was read.
func (k *keyboard) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.heard
}

// forget drops what nobody has heard yet. What was typed until now is in pieces up to the
// number that it returns.
func (k *keyboard) forget() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.typed != nil {
		k.typed.Drop()
	}
	return k.heard
}

// read reads the next piece. What is dropped is either read and counted by then, or never.
func (k *keyboard) read(ctx context.Context, r io.Reader, p []byte) (n, piece int, err error) {
	t, ok := r.(tipstaff.Typed)
	if !ok {
		n, err = r.Read(p)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.heard++
		return n, k.heard, err
	}
	for n == 0 && err == nil {
		if err = t.Wait(ctx); err != nil {
			break
		}
		k.mu.Lock()
		if n, err = t.Take(p); n > 0 {
			k.heard++
		}
		piece = k.heard
		k.mu.Unlock()
	}
	return n, piece, err
}

// escapeTime is how long an escape may be the beginning of a key.
const escapeTime = 50 * time.Millisecond

// hear hands over keys, with the number of the piece that completed them, until ctx or the
// input ends. It returns why.
func (k *keyboard) hear(ctx context.Context, r io.Reader, press func(keys []key, piece int)) error {
	type piece struct {
		keys []byte
		n    int
	}
	pieces := make(chan piece)
	failed := make(chan error, 1)
	go func() {
		for {
			p := make([]byte, 4096)
			n, number, err := k.read(ctx, r, p)
			if n > 0 {
				pieces <- piece{p[:n], number}
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	var keys keyDecoder
	last := 0
	for {
		var late <-chan time.Time
		if keys.waits() {
			late = time.After(escapeTime)
		}
		select {
		case p := <-pieces:
			last = p.n
			press(keys.feed(p.keys), last)
		case <-late:
			press(keys.pause(), last)
		case err := <-failed:
			return err
		}
	}
}

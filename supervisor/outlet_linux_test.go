package supervisor

import (
	"bytes"
	"io"
	"testing"
	"time"
)

// readLate is what a reader gets who comes after the time for reading is over.
func readLate(t *testing.T, c Command) (out []byte, err error) {
	t.Helper()
	p, err := Spawn(c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !within(time.Minute, p.Done()) {
		t.Fatal("it waits for a reader")
	}
	p.drain(-time.Hour)
	return io.ReadAll(p.Stdout())
}

// What a program has printed is there for a reader who comes late: on a machine that had
// something else to do, or was suspended. A git that says nothing would say another thing.
func TestWhatWasPrintedIsReadHoweverLate(t *testing.T) {
	for name, c := range map[string]Command{
		"alone":         script("printf 0123456789"),
		"with a reaper": reaped("printf 0123456789"),
		"much":          {Path: "/bin/sh", Args: []string{"sh", "-c", "head -c 500000 /dev/zero"}, Env: []string{"PATH=/bin:/usr/bin"}, WideOutput: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []byte("0123456789")
			if name == "much" {
				want = make([]byte, 500_000)
			}
			if out, err := readLate(t, c); err != nil || !bytes.Equal(out, want) {
				t.Errorf("%d bytes, %v", len(out), err)
			}
		})
	}
}

// One that goes on printing after the end of the program that has started it does not keep
// the reader for good.
func TestALateReaderComesToAnEnd(t *testing.T) {
	t.Parallel()
	r, err := Spawn(script("printf x; exec sleep 60")) // it stands for a descendant that nobody finds
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(r.Stdout(), first); err != nil {
		t.Fatal(err)
	}
	r.drain(-time.Hour)
	if n, err := r.Stdout().Read(first); n > 0 || err == nil || err == io.EOF {
		t.Errorf("of one that says nothing: %d bytes, %v", n, err)
	}
	p, err := Spawn(script("exec cat /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.drain(-time.Hour)
	if n, err := io.Copy(io.Discard, p.Stdout()); n > 2*maxPipe || err == nil {
		t.Errorf("of one that never ends: %d bytes, %v", n, err)
	}
}

package process

import (
	"io"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/worker"
)

// A program that prints and ends before anybody has read a byte.
func TestOutputIsReadAfterTheEnd(t *testing.T) {
	const size = 50_000 // fits into a pipe
	p, err := Workers{}.Start(worker.Program{Path: "/bin/sh", Args: []string{"sh", "-c", "head -c 50000 /dev/zero; echo no >&2; exit 3"}, Dir: t.TempDir(), Env: []string{"PATH=/bin:/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := p.Wait()
	if err := p.(workerProcess).Process.Stdout().SetReadDeadline(time.Now()); err != nil { // as if it were long ago
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	complaint, _ := io.ReadAll(p.Stderr())
	if len(out) != size || err != nil || string(complaint) != "no\n" || ended.Exit.Code != 3 {
		t.Errorf("%d bytes, %v, %q, %+v", len(out), err, complaint, ended)
	}
	if _, err := p.(workerProcess).Process.Stdout().Read(make([]byte, 1)); err == nil {
		t.Error("the pipe is still open")
	}
}

package process

import (
	"io"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/worker"
)

// A program that prints and ends before anybody has read a byte. Its pipe is a wide one:
// some CLIs lose what does not fit into it when they end.
func TestOutputIsReadAfterTheEnd(t *testing.T) {
	const size = 500_000
	p, err := Workers{}.Start(worker.Program{Path: "/bin/sh", Args: []string{"sh", "-c", "head -c 500000 /dev/zero; echo no >&2; exit 3"}, Dir: t.TempDir(), Env: []string{"PATH=/bin:/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Exited():
	case <-time.After(time.Minute):
		p.Stop(0)
		t.Fatal("it waits for a reader")
	}
	ended := p.Wait()
	out, err := io.ReadAll(p.Stdout())
	complaint, _ := io.ReadAll(p.Stderr())
	if len(out) != size || err != nil || string(complaint) != "no\n" || ended.Exit.Code != 3 {
		t.Errorf("%d bytes, %v, %q, %+v", len(out), err, complaint, ended)
	}
	if _, err := p.(workerProcess).Process.Stdout().Read(make([]byte, 1)); err == nil {
		t.Error("the pipe is still open")
	}
}

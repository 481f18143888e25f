package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// serverProcess is a process that a server, or what it started, runs in.
type serverProcess struct {
	pid     int
	command string
}

// servers are the living processes that were given this workspace as HOME, less
// the command itself; none on a system that does not show them. A dead one that
// nobody has waited for yet has no environment.
func (w *workspace) servers() []serverProcess {
	w.Helper()
	self, err := command()
	w.Check(err)
	tables, err := filepath.Glob("/proc/[0-9]*/environ")
	w.Check(err)
	var found []serverProcess
	for _, file := range tables {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00HOME="+w.Dir+"\x00")) {
			continue // it has gone, or is another's
		}
		dir := filepath.Dir(file)
		words, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(words) == 0 || bytes.HasPrefix(words, []byte(self+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		w.Check(err)
		found = append(found, serverProcess{pid, strings.Join(strings.Split(strings.Trim(string(words), "\x00"), "\x00"), " ")})
	}
	return found
}

// server is the process of the one that runs, which may yet have to start.
func (w *workspace) server() serverProcess {
	w.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		w.Skip("the processes of a workspace cannot be seen here")
	}
	var found []serverProcess
	w.Until("a server", func() bool {
		found = found[:0]
		for _, p := range w.servers() {
			if strings.HasPrefix(p.command, w.node) {
				found = append(found, p)
			}
		}
		return len(found) > 0
	})
	if len(found) > 1 {
		w.Fatalf("more than one server runs: %v", found)
	}
	return found[0]
}

func (p serverProcess) kill() error { return syscall.Kill(p.pid, syscall.SIGKILL) }

// end leaves nothing behind after a test that found something.
func end(left []serverProcess) {
	for _, p := range left {
		_ = p.kill() // it may have ended by itself
	}
}

// noServers checks that nothing runs any more.
func (w *workspace) noServers() {
	w.Helper()
	if left := w.servers(); len(left) > 0 {
		w.Errorf("left behind: %v", left)
	}
}

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// TestMain makes this test binary the command as well: where it is called
// tipstaff, it is tipstaff. So the scripts run the command under the race
// detector whenever the tests do.
func TestMain(m *testing.M) {
	tooltest.Main() // and where it is started as a server, it is one
	testscript.Main(tests{m}, map[string]func(){"tipstaff": main, "toolserver": toolServer, "agenthost": agentHost})
}

// tests are the tests between making and removing a folder for the binary. Most of
// the time they wait for processes, so more of them run at once than there are
// processors.
type tests struct{ *testing.M }

func (t tests) Run() int {
	dir, err := os.MkdirTemp("", "tipstaff-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // other users run it, too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return t.M.Run()
}

var binDir string

// command is the binary as it is released. Tests that start hundreds of
// processes, or kill them after milliseconds, use it in place of the test binary,
// which starts five times slower under the race detector.
var command = sync.OnceValues(func() (string, error) {
	name := filepath.Join(binDir, "tipstaff")
	build := exec.Command("go", "build", "-trimpath", "-o", name, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return name, nil
})

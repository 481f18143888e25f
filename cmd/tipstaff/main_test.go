package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tipstaff/tipstaff/test/cmdtest"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// TestMain makes this test binary the command as well: where it is called
// tipstaff, it is tipstaff. So the scripts run the command under the race
// detector whenever the tests do.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "claude" {
		atOnce(fakeClaude)()
	}
	tooltest.Main() // and where it is started as a server, it is one
	testscript.Main(tests{m}, map[string]func(){"tipstaff": main, "toolserver": atOnce(toolServer), "agenthost": atOnce(agentHost)})
}

// atOnce is a program that ends without the second that the race detector would wait
// before: what Tipstaff starts has no GORACE in its environment.
func atOnce(f func()) func() {
	return func() {
		f()
		syscall.Exit(0)
	}
}

// tests are the tests between making and removing a folder for the binary. Most of
// the time they wait for processes, so more of them run at once than there are
// processors.
type tests struct{ *testing.M }

func (t tests) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return cmdtest.Main(t.M)
}

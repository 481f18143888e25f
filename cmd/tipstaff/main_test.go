package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
		fakeClaude()
		return
	}
	tooltest.Main() // and where it is started as a server, it is one
	testscript.Main(tests{m}, map[string]func(){"tipstaff": main, "toolserver": toolServer, "agenthost": agentHost})
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

package mcp

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

func TestMain(m *testing.M) {
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(drive(scenario, os.Args[len(os.Args)-1]))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they wait for servers to start, most of the time
		panic(err)
	}
	os.Exit(cmdtest.Main(m))
}

// command is the binary: the one that the environment names, or one that is built.
var command = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(commandVariable); given != "" {
		return filepath.Abs(given)
	}
	return cmdtest.Command()
})

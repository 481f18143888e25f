package mcp

import (
	"flag"
	"os"
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

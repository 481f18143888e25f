//go:build linux

package clis

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

var record = flag.Bool("record", false, "write what the CLIs print to worker/testdata/streams")

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == channelCommand {
		os.Exit(serveChannel())
	}
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked { // they wait for programs to start, most of the time
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	code := cmdtest.Main(m)
	if err := summarize(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

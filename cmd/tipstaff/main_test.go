package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the command as well: where it is called
// tipstaff, it is tipstaff. So every script and every process that the tests
// start or kill is the real command, under the race detector if the tests are.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tipstaff": main})
}

package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	if scenario := os.Getenv(scenarioVariable); scenario != "" {
		os.Exit(drive(scenario, os.Args[len(os.Args)-1]))
	}
	os.Exit(run(m))
}

// run makes a folder for the command, which the tests build when they need it.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tipstaff-mcp-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

var binaries string

// command is the binary: the one that the environment names, or one that is built
// here and looks for races if these tests do.
var command = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(commandVariable); given != "" {
		return filepath.Abs(given)
	}
	file := filepath.Join(binaries, "tipstaff")
	args := []string{"build", "-o", file}
	if race { // as these tests are built, whose work is used again
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../../cmd/tipstaff")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
})

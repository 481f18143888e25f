//go:build unix

package cmdtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

var binaries string

// raceOptions is the variable with the options of the race detector. Programs that are compiled with it sleep
// for a second before they exit unless told otherwise.
const raceOptions = "GORACE"

// Main runs tests between making and removing a folder for the command that they build
// when they need it.
func Main(m interface{ Run() int }) int {
	dir, err := os.MkdirTemp("", "tipstaff-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users run it, too
	}
	if err == nil && os.Getenv(raceOptions) == "" {
		err = os.Setenv(raceOptions, "atexit_sleep_ms=0")
	}
	if err == nil {
		err = os.Setenv("TIPSTAFF_TRUST", "1") // nobody is asked about the folders of tests
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

// Command is the binary, compiled with the flags of the test: it looks for races if the
// test does.
var Command = sync.OnceValues(func() (string, error) {
	flags, env := BuildFlags()
	return build("tipstaff", env, flags...)
})

// Released is the binary as it is released: the one that TIPSTAFF_BINARY names, as in make
// test, or one that is built. Tests that start hundreds of processes, or kill them after
// milliseconds, use it: under the race detector they would take three times as long.
var Released = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("TIPSTAFF_BINARY"); given != "" {
		file := filepath.Join(binaries, "released")
		return file, copyFile(file, given)
	}
	return build("released", append(os.Environ(), "CGO_ENABLED=0"), "-trimpath")
})

func build(name string, env []string, flags ...string) (string, error) {
	file := filepath.Join(binaries, name)
	c := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w"}, flags...), "-o", file, "github.com/tipstaff/tipstaff/cmd/tipstaff")...)
	c.Env = env
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
}

// copyFile copies a program to where every user may run it. Another process does: what a
// test beside us starts in that moment would hold the file open for writing, and nobody
// could run it.
func copyFile(to, from string) error {
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return os.Chmod(to, 0o755)
}

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

// Main runs tests between making and removing a folder for the command that they build
// when they need it.
func Main(m interface{ Run() int }) int {
	dir, err := os.MkdirTemp("", "tipstaff-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // other users run it, too
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

// Command is the binary. It looks for races if the tests do: so it is made of what they
// are made of.
var Command = sync.OnceValues(func() (string, error) {
	args := []string{"build"}
	if race {
		args = append(args, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false") // as in the Makefile
	}
	return build("tipstaff", exec.Command("go", args...))
})

// Released is the binary as it is released. Tests that start hundreds of processes, or
// kill them after milliseconds, use it: under the race detector it starts five times
// slower.
var Released = sync.OnceValues(func() (string, error) {
	c := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build("released", c)
})

func build(name string, c *exec.Cmd) (string, error) {
	file := filepath.Join(binaries, name, "tipstaff")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	c.Args = append(c.Args, "-o", file, "github.com/tipstaff/tipstaff/cmd/tipstaff")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
}

package grpc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run makes a folder for the command, which the tests build when they need it.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tipstaff-grpc-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

var binaries string

// command is the binary, which looks for races if these tests do.
var command = sync.OnceValues(func() (string, error) {
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

// installed is the path of a program that scripts/rpc.sh has installed. Where it was
// not asked for, the test is skipped.
func installed(t testing.TB, name ...string) string {
	t.Helper()
	if os.Getenv("TIPSTAFF_RPC") == "" {
		t.Skip("TIPSTAFF_RPC is not set: make test-rpc installs the programs and runs this")
	}
	path, err := filepath.Abs(filepath.Join(append([]string{"../../.cache/rpc"}, name...)...))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run scripts/rpc.sh, which installs it", err)
	}
	return path
}

//go:build linux

package control

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

func TestMain(m *testing.M) { os.Exit(cmdtest.Main(m)) }

// cached is something below .cache, where scripts install.
func cached(t testing.TB, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"../../.cache"}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// asked skips the test where the programs were not asked for.
func asked(t testing.TB) {
	t.Helper()
	if os.Getenv("TIPSTAFF_CONTROL") == "" {
		t.Skip("TIPSTAFF_CONTROL is not set: make test-control installs the programs and runs this")
	}
}

// module is a file of a package of npm, which scripts/control.sh installs everywhere.
func module(t testing.TB, elem ...string) string {
	t.Helper()
	asked(t)
	path := cached(t, append([]string{"control", "node_modules"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run scripts/control.sh, which installs it", err)
	}
	return path
}

// perhaps is a program that a machine may lack: without it the test is skipped.
func perhaps(t testing.TB, path string) string {
	t.Helper()
	asked(t)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v: scripts/control.sh could not install it", err)
	}
	return path
}

// node is the one that npm brought, or the machine's own.
func node(t testing.TB) string {
	t.Helper()
	asked(t)
	path, err := exec.LookPath(cached(t, "control", "node_modules", ".bin", "node"))
	if err != nil {
		path, err = exec.LookPath("node")
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

//go:build linux

package clis

import (
	"os"
	"path/filepath"
	"testing"
)

// nodeModules is where scripts/clis.sh installs.
func nodeModules() string {
	dir, err := filepath.Abs("../../.cache/clis/node_modules")
	if err != nil {
		panic(err)
	}
	return dir
}

// program is a CLI's executable.
func program(name string) string { return filepath.Join(nodeModules(), ".bin", name) }

// installed skips the test where the CLIs were not asked for.
func installed(t testing.TB) {
	t.Helper()
	if os.Getenv("TIPSTAFF_CLIS") == "" {
		t.Skip("TIPSTAFF_CLIS is not set: make test-clis installs the CLIs and runs this")
	}
	for _, c := range clis {
		if _, err := os.Stat(program(c.name())); err != nil {
			t.Fatalf("%v: run scripts/clis.sh, which installs it", err)
		}
	}
}

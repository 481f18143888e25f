package grpc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

func TestMain(m *testing.M) { os.Exit(cmdtest.Main(m)) }

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

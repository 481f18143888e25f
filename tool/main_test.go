package tool_test

import (
	"os"
	"testing"

	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// TestMain makes this test binary a server as well.
func TestMain(m *testing.M) {
	tooltest.Main()
	os.Exit(m.Run())
}

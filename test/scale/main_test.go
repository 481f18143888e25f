package scale

import (
	"os"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

func TestMain(m *testing.M) { os.Exit(cmdtest.Main(m)) }

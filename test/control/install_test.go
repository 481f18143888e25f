//go:build linux

package control

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// Without npm make test-control fails and says why, and what runs after every change skips it
// and says why; it also says if nothing changed that these tests are about.
func TestWithoutNPM(t *testing.T) {
	s := cmdtest.NewScripts(t, "scripts/control.sh", "scripts/web.sh", "scripts/more.sh", "scripts/changed.sh", "test/control/package.json", "test/control/package-lock.json")
	if out := s.Run(1, "bash", "scripts/control.sh"); out != "there is no npm: the tests of the control plane against real programs cannot be run\n" {
		t.Errorf("scripts/control.sh says %q", out)
	}
	s.File("docs/a.md", "a\n")
	s.Commit()
	if out := s.Run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "skipped: the control plane: no file changed that matters to it") {
		t.Errorf("after a change of a document:\n%s", out)
	}
	for _, changed := range []string{"web/a.go", "mcpserver/a.go", "control_act.go", "test/control/a_test.go", "scripts/control.sh"} {
		s.File(changed, s.Read(changed)+"\n")
		s.Commit()
		out := s.Run(0, "bash", "scripts/more.sh", "--changed")
		if !strings.Contains(out, "more: the control plane\nthere is no npm: the tests of the control plane against real programs are skipped\n") || strings.Contains(out, "make test-control\n") {
			t.Errorf("after a change of %s:\n%s", changed, out)
		}
	}
}

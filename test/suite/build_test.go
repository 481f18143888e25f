//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// A large build says how much there is to do and, the next time, how long it will take; one that
// fails says why, and fails.
func TestBuildsSayHowFarTheyAre(t *testing.T) {
	t.Setenv("GO", "go")
	s := cmdtest.NewScripts(t, "scripts/build.sh")
	const many = `#!/bin/sh
case $1 in
list) i=0; while [ $i -lt 300 ]; do echo p/$i; i=$((i+1)); done ;;
build) echo p/1; echo p/2 ;;
esac
`
	s.File("bin/go", many)
	if out := s.Run(0, "scripts/build.sh", "bin/", "./cmd/tipstaff"); !strings.HasPrefix(out, "building tipstaff: 300 packages to compile\n") || !strings.Contains(out, "built in ") {
		t.Errorf("the first time it says\n%s", out)
	}
	if out := s.Run(0, "scripts/build.sh", "bin/", "./cmd/tipstaff"); !strings.HasPrefix(out, "building tipstaff: 300 packages to compile, about ") {
		t.Errorf("the second time it says\n%s", out)
	}
	s.File("bin/go", strings.Replace(many, "echo p/2", "echo '# p/2'; echo 'x.go:1:2: undefined: y'; exit 1", 1))
	if out := s.Run(1, "scripts/build.sh", "bin/", "./cmd/tipstaff"); !strings.Contains(out, "# p/2\nx.go:1:2: undefined: y\n") || strings.Contains(out, "built") {
		t.Errorf("of a fault it says\n%s", out)
	}
	s.File("bin/go", "#!/bin/sh\n")
	if out := s.Run(0, "scripts/build.sh", "bin/", "./cmd/tipstaff"); out != "" {
		t.Errorf("with nothing to compile it says\n%s", out)
	}
}

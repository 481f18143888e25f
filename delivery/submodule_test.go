package delivery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// A submodule that cannot be had ends the run before anybody works, with what is missing.
func TestASubmoduleThatCannotBeHad(t *testing.T) {
	const update = "git submodule update --init --recursive"
	for name, c := range map[string]struct {
		lose func(b *bed, inner string)
		says string
	}{
		"not written": {func(b *bed, _ string) { b.user("submodule", "deinit", "-q", "-f", "--all") }, update},
		"without its commit": {func(b *bed, inner string) {
			b.user("update-index", "--cacheinfo", "160000,"+b.user("rev-parse", "HEAD")+",third/inner")
			b.user("commit", "-qm", "one that is not there")
		}, update},
		"its repository is gone":      {func(b *bed, _ string) { must(b, os.RemoveAll(b.dir+"/.git/modules")) }, update},
		"its repository is elsewhere": {func(b *bed, inner string) { writeFile(b.t, b.dir+"/third/inner/.git", "gitdir: "+inner+"/.git\n") }, "outside that of the checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			inner := filepath.Join(filepath.Dir(b.dir), "inner")
			b.user("clone", "-q", b.dir, inner)
			b.user("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "third/inner")
			b.user("commit", "-qm", "with inner")
			c.lose(b, inner)
			p := playIn(b, &document.Deliver{})
			p.spec.Prepare = document.Preparation{Submodules: true}
			p.work = func(string) { t.Error("somebody worked") }
			before := everything(b, b.dir)
			out := p.drive()
			var failed *flow.Error
			if out.Status != flow.Failed || !errors.As(out.Err, &failed) || failed.Code != CodeSetup || !strings.Contains(failed.Message, "submodule third/inner") || !strings.Contains(failed.Message, c.says) {
				t.Errorf("%+v", out)
			}
			if got := p.kinds(); strings.Contains(got, "diff.recorded") {
				t.Error(got)
			}
			for _, changed := range changedNames(before, everything(b, b.dir)) {
				if !strings.HasPrefix(changed, ".git/refs/tipstaff") {
					t.Errorf("%s has changed", changed)
				}
			}
		})
	}
}

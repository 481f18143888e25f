package delivery

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/redact"
)

// A check and a set-up that print a key of several lines line by line tell none of them: neither
// the receipt nor the reason for a failure.
func TestACheckTellsNoLineOfAKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	writeFile(t, file, pemKey)
	tells := `while read -r line; do echo "said: $line" >&2; done < ` + file + `; exit 1`
	for name, c := range map[string]struct {
		prepare document.Preparation
		check   string
	}{
		"a check":  {check: tells},
		"a set-up": {document.Preparation{Setup: []document.Command{shellCommand(tells)}}, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newCleanPlay(t, c.prepare, shellCheck("tells", c.check))
			p.known = redact.New(map[string]string{"PEM": pemKey})
			out := p.drive()
			told := ""
			if out.Err != nil {
				told = out.Err.Error()
			}
			for _, blob := range p.blobs {
				told += string(blob)
			}
			for _, line := range strings.Split(pemKey, "\n")[1:3] {
				p.holdsNowhere(line)
				if strings.Contains(told, line) {
					t.Errorf("%s is told", line)
				}
			}
			if !strings.Contains(told, "said: $env:PEM") {
				t.Errorf("nothing was replaced in %s", told)
			}
		})
	}
}

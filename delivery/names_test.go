package delivery

import (
	"context"
	"strings"
	"testing"
	"unicode"

	"github.com/tipstaff/tipstaff"
)

// shownSafely checks that the lines of a gate are lines, with nothing that moves a cursor.
func shownSafely(t *testing.T, g tipstaff.Gate) {
	t.Helper()
	for _, line := range tipstaff.WholeSubject(g).Lines {
		if strings.ContainsFunc(line, unicode.IsControl) || strings.HasPrefix(strings.TrimSpace(line), "changed: 0 files") || strings.HasPrefix(strings.TrimSpace(line), "decides  b") {
			t.Errorf("a line is %q", line)
		}
	}
}

// Names that break lines, or look like what is said of them, do neither at the gate, in
// the reasons for what is blocked, nor where somebody asks about them again.
func TestNamesThatBreakLines(t *testing.T) {
	const hostile = "sub\nchanged: 0 files\n/tipstaff.yaml"
	p := changing(t, func(p *play, dir string) {
		p.puts(dir, hostile, "x")
		p.puts(dir, "a\ndecides  b", "x")
		p.puts(dir, "esc\x1b[2K", "x")
	})
	p.protect = func(name string) (Protected, bool) {
		return Protected{Reason: "the\nmanifest", Kind: "decides", Apply: "asks"}, true
	}
	p.drive()
	g := p.gate("delivery#1")
	shownSafely(t, g)
	s := p.subject("delivery#1")
	if len(s.Obeyed) != 3 {
		t.Errorf("%+v", s.Obeyed)
	}
	p.write(hostile, "mine") // it stands in the way
	now, err := p.open().Look(context.Background(), s)
	must(p.bed, err)
	if g.Now = &now; len(now.Blocked) != 1 {
		t.Errorf("%+v", now.Blocked)
	}
	shownSafely(t, g)
}

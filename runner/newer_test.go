package runner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// A run that a newer version has made, under rules that this one does not know, is shown and
// left as it is: driven under older rules it would do what they do not allow.
func TestARunOfNewerRulesIsLeftToNewerVersions(t *testing.T) {
	b := newBed(t)
	run := b.brokenOff(slow)
	b.forge(run, tipstaff.KindIntentDraft, `"rules":5`, `"rules":400`)
	before := b.kinds(run)
	for what, do := range map[string]func() error{
		"resume": func() error { _, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run}); return err },
		"cancel": func() error { _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); return err },
		"fork":   func() error { _, err := b.Fork(cli(), forking{Run: run}); return err },
	} {
		err := do()
		if wantCode(t, err, tipstaff.FormatNewer); err == nil || !strings.Contains(err.Error(), "under rules 400 of a newer version") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := b.TakeUp(cli(), b.Origin); n != 0 || err != nil {
		t.Errorf("who comes after its owner takes up %d, %v", n, err)
	}
	if now := b.kinds(run); !slices.Equal(now, before) {
		t.Errorf("recorded are %v, and were %v", now, before)
	}
	if got := b.get(run); got.Condition != tipstaff.Interrupted {
		t.Errorf("it is %s", got.Condition)
	}
	report, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true})
	b.check(err)
	if p := report.Conformance.Problems; !report.Integrity.OK || len(p) != 1 || !strings.Contains(p[0].Message, "newer version") {
		t.Errorf("it is judged %+v", report)
	}
}

package runner

import (
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A segment that went on by itself is complete, whatever was asked of the run
// meanwhile; one that a correction cut is not, and the next begins afresh.
func TestSegmentsThatWentOn(t *testing.T) {
	tr := &trace{events: []tipstaff.Event{{Kind: tipstaff.KindRunStarted}}}
	for i, kind := range []tipstaff.Kind{
		tipstaff.KindRunStarted, tipstaff.KindRunCancelRequested, tipstaff.KindRunContinued,
		tipstaff.KindRunCorrectionRequested, tipstaff.KindRunContinued,
		tipstaff.KindEffectFinished, tipstaff.KindRunContinued,
		tipstaff.KindEffectFinished,
	} {
		tr.records = append(tr.records, flow.Record{Seq: int64(i + 1), Draft: flow.Draft{Kind: string(kind)}})
	}
	want := []flow.Status{flow.Completed, "", flow.Completed, ""}
	all := tr.segments()
	if len(all) != len(want) {
		t.Fatalf("%d segments, want %d", len(all), len(want))
	}
	for i, h := range all {
		if h.Ended != want[i] || h.Segment != i {
			t.Errorf("segment %d is number %d and ended %q, want %q", i, h.Segment, h.Ended, want[i])
		}
	}
	if got := all[1].Records[1].Kind; got != string(tipstaff.KindRunCancelRequested) {
		t.Errorf("the second segment begins with %s, want the cancel that still holds", got)
	}
}

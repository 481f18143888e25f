package tipstaff_test

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// changes are differences that a run has recorded, in order.
type changes []tipstaff.DiffRecorded

func (c changes) Events(context.Context, tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		for i, b := range c {
			body, _ := json.Marshal(b)
			if !yield(tipstaff.Event{Kind: tipstaff.KindDiffRecorded, Seq: int64(i + 1), Body: body}, nil) {
				return
			}
		}
	}
}

func (changes) Artifact(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte("[]"), nil
}

// Whoever names no stage sees the newest difference that there is, also of a run that waits
// for a review or has failed: it has recorded none at its end.
func TestTheNewestDifferenceIsShown(t *testing.T) {
	first, second, end := tipstaff.DiffRecorded{Stage: "work#1", Tree: "1"}, tipstaff.DiffRecorded{Stage: "work#2", Tree: "2"}, tipstaff.DiffRecorded{Tree: "3"}
	for _, c := range []struct {
		recorded changes
		stage    string
		tree     string
		of       string
	}{
		{changes{first}, "", "1", "work#1"},
		{changes{first, second}, "", "2", "work#2"},
		{changes{first, second}, "work#1", "1", "work#1"},
		{changes{first, second, end}, "", "3", ""},
		{changes{first, second, end}, "work#2", "2", "work#2"},
		{changes{first}, "work#2", "", ""},
		{nil, "", "", ""},
	} {
		d, err := tipstaff.Diff(context.Background(), c.recorded, tipstaff.DiffRequest{Stage: c.stage})
		if err != nil || d.Tree != c.tree || d.Stage != c.of || d.Found != (c.tree != "") {
			t.Errorf("%v, %q: %+v %v", c.recorded, c.stage, d, err)
		}
	}
}

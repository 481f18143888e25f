package cortex

import (
	"slices"
	"testing"
	"time"
)

var (
	began = noon
	ended = noon.Add(time.Minute)
	older = Change{NewURI("fact", noon.Add(-time.Hour), 1), Standing{Created: noon.Add(-time.Hour), LastUse: noon.Add(-time.Hour), Importance: 5, Citations: 1}}
	gone  = Change{NewURI("fact", noon.Add(-time.Hour), 2), Standing{Created: noon.Add(-time.Hour), LastUse: noon.Add(-time.Hour), Forgotten: 9}}
	// Of the same millisecond as the run's beginning, one nanosecond before and after it.
	justBefore = Change{NewURI("fact", noon.Add(-1), 3), Standing{Created: noon.Add(-1), LastUse: noon.Add(-1)}}
	justAfter  = Change{NewURI("event", noon.Add(1), 4), Standing{Created: noon.Add(1), LastUse: noon.Add(1)}}
	own        = Change{NewURI("event", noon.Add(time.Second), 5), Standing{Created: noon.Add(time.Second), LastUse: noon.Add(time.Second)}}
	unknown    = NewURI("fact", noon.Add(-time.Hour), 6)
)

func stands(u URI) (Standing, bool, error) {
	for _, c := range []Change{older, gone, justBefore, justAfter, own} {
		if c.Item == u {
			return c.Standing, true, nil
		}
	}
	return Standing{}, false, nil
}

func end(outcome, reason string, cited ...URI) *Attest {
	a := &Attest{Began: Time(began), Cited: []string{}, CreatedBy: "executor", Outcome: outcome, Reason: reason}
	for _, u := range cited {
		a.Cited = append(a.Cited, u.String())
	}
	return a
}

func TestWhatAnEndSays(t *testing.T) {
	for _, c := range []struct {
		outcome, reason string
		delta           int
		why             string
		after           Standing
	}{
		{Success, "", 1, "", Standing{LastUse: ended, Citations: 2, Accesses: 1}},
		{Partial, "", 0, Neutral, Standing{LastUse: ended, Citations: 1}},
		{Cancelled, "", 0, Neutral, Standing{LastUse: ended, Citations: 1}},
		{Failure, "tool_error", 0, Neutral, Standing{LastUse: ended, Citations: 1}},
		{Failure, "factual_error", -1, "", Standing{LastUse: older.LastUse}},
		{Failure, "wrong_assumption", -1, "", Standing{LastUse: older.LastUse}},
		{Failure, "output_invalid", -1, "", Standing{LastUse: older.LastUse}},
		// A reason that blames counts for a failure alone.
		{Cancelled, "factual_error", 0, Neutral, Standing{LastUse: ended, Citations: 1}},
	} {
		learned, changes, err := Settle(7, ended, end(c.outcome, c.reason, older.Item), Cold, stands)
		if err != nil || len(changes) != 1 {
			t.Fatalf("%s %s: %d changes: %v", c.outcome, c.reason, len(changes), err)
		}
		if learned.Delta != c.delta || learned.Why != c.why || learned.Skipped != (c.why != "") || learned.SourceSeq != 7 || learned.Prev != Cold {
			t.Errorf("%s %s: %+v", c.outcome, c.reason, learned)
		}
		if moved := learned.New != Cold; moved != (c.delta != 0) {
			t.Errorf("%s %s: the weights became %v", c.outcome, c.reason, learned.New)
		}
		got := changes[0].Standing
		if !got.LastUse.Equal(c.after.LastUse) || got.Citations != c.after.Citations || got.Accesses != c.after.Accesses {
			t.Errorf("%s %s: the item became %+v", c.outcome, c.reason, got)
		}
	}
}

func TestCitationsDoNotFallBelowNone(t *testing.T) {
	_, changes, err := Settle(7, ended, end(Failure, "factual_error", justBefore.Item), Cold, stands)
	if err != nil || changes[0].Citations != 0 {
		t.Errorf("%+v: %v", changes, err)
	}
}

// The weights follow from the factors as they were before the item was bumped.
func TestLearningLooksBeforeTheBump(t *testing.T) {
	learned, _, err := Settle(7, ended, end(Success, "", older.Item), Cold, stands)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := Cold.learn(1, []Factors{older.Factors(ended)})
	if learned.New != want {
		t.Errorf("learned %v, want %v", learned.New, want)
	}
}

func TestWhatIsCounted(t *testing.T) {
	cited := []URI{older.Item, own.Item, older.Item, gone.Item, justAfter.Item, justBefore.Item, unknown}
	learned, changes, err := Settle(7, ended, end(Success, "", cited...), Cold, stands)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{older.Item.String(), justBefore.Item.String()}; !slices.Equal(learned.Counted, want) || len(changes) != 2 {
		t.Errorf("counted %v, want %v", learned.Counted, want)
	}
}

func TestNothingCounted(t *testing.T) {
	learned, changes, err := Settle(7, ended, end(Success, "", own.Item), Cold, stands)
	if err != nil || len(changes) > 0 || learned.Why != NothingCounted || learned.New != Cold || learned.Delta != 1 {
		t.Errorf("%+v, %v: %v", learned, changes, err)
	}
}

func TestDegenerate(t *testing.T) {
	ancient := noon.Add(-3000 * 24 * time.Hour)
	worthless := func(URI) (Standing, bool, error) { return Standing{Created: ancient, LastUse: ancient}, true, nil }
	learned, changes, err := Settle(7, ended, end(Success, "", NewURI("fact", ancient, 1)), Cold, worthless)
	if err != nil || learned.Why != Degenerate || learned.New != Cold || changes[0].Citations != 1 {
		t.Errorf("%+v, %v: %v", learned, changes, err)
	}
}

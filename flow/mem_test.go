package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// acquire gives a log in memory, with runs that somebody drives.
func acquire(t *testing.T, runs ...string) (*flow.Mem, map[string]flow.Lease) {
	t.Helper()
	log, leases := flow.NewMem(), map[string]flow.Lease{}
	for _, run := range runs {
		lease, err := log.Acquire(context.Background(), run, flow.Owner{})
		if err != nil {
			t.Fatal(err)
		}
		leases[run] = lease
	}
	return log, leases
}

func appended(log flow.Log, l flow.Lease, drafts ...flow.Draft) (err error) {
	err = errors.New("done was not called")
	log.Append(l, drafts, func(e error) { err = e })
	return err
}

func kindsOf(records []flow.Record) (kinds []string) {
	for _, r := range records {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// What a store writes to another run with a record is refused: nothing is stored.
func TestNothingIsWrittenBeside(t *testing.T) {
	log, leases := acquire(t, "run", "other")
	d := flow.Draft{Kind: "said", Beside: &flow.Beside{Run: "other", Write: func(flow.Tx) ([]flow.Draft, error) { return nil, nil }}}
	if appended(log, leases["run"], d) == nil || log.Write("run", d) == nil || len(log.Records("run")) != 1 {
		t.Errorf("it is taken: %v", kindsOf(log.Records("run")))
	}
}

// A run parks unless something is stored that it has not seen.
func TestMemParks(t *testing.T) {
	gate := flow.Draft{Kind: "policy.gate", Path: "g", Body: json.RawMessage(`{"gate":"G"}`)}
	for name, c := range map[string]struct {
		before func(*flow.Mem) error
		parks  bool
	}{
		"nothing":       {func(*flow.Mem) error { return nil }, true},
		"another's say": {func(m *flow.Mem) error { return m.Write("run", flow.Draft{Kind: "said"}) }, true},
		"a cancel":      {func(m *flow.Mem) error { return m.Write("run", flow.Draft{Kind: "run.cancel_requested"}) }, false},
		"a correction":  {func(m *flow.Mem) error { return m.Write("run", flow.Draft{Kind: "run.correction_requested"}) }, false},
		"a decision":    {func(m *flow.Mem) error { return m.Decide("run", "G", flow.Decision{Action: "go"}) }, false},
	} {
		log, leases := acquire(t, "run")
		if err := appended(log, leases["run"], gate); err != nil {
			t.Fatal(err)
		}
		if err := c.before(log); err != nil {
			t.Fatal(err)
		}
		parks, err := log.Park(leases["run"], flow.Parking{Gates: []string{"G", "H"}})
		if err != nil || parks != c.parks || slices.Contains(kindsOf(log.Records("run")), "run.parked") != c.parks {
			t.Errorf("%s: parked %v, %v: %v", name, parks, err, kindsOf(log.Records("run")))
		}
		want := error(nil)
		if parks {
			want = flow.ErrLeaseLost
		}
		if err := appended(log, leases["run"], flow.Draft{Kind: "said"}); !errors.Is(err, want) {
			t.Errorf("%s: what its owner writes then: %v", name, err)
		}
	}
}

// Only the owner of the last epoch appends, and nobody to a run that has ended.
func TestMemKeepsOthersOut(t *testing.T) {
	log, leases := acquire(t, "run")
	second, err := log.Acquire(context.Background(), "run", flow.Owner{})
	if err != nil {
		t.Fatal(err)
	}
	if err := appended(log, leases["run"], flow.Draft{Kind: "said"}); !errors.Is(err, flow.ErrLeaseLost) {
		t.Errorf("a former owner: %v", err)
	}
	if _, err := log.Park(leases["run"], flow.Parking{}); !errors.Is(err, flow.ErrLeaseLost) {
		t.Errorf("a former owner parks: %v", err)
	}
	gate := flow.Draft{Kind: "policy.gate", Path: "g", Body: json.RawMessage(`{"gate":"G"}`)}
	if err := appended(log, second, gate, flow.Draft{Kind: "intent.fail"}); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Acquire(context.Background(), "run", flow.Owner{}); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("acquired: %v", err)
	}
	for name, err := range map[string]error{"its owner": appended(log, second, flow.Draft{Kind: "said"}), "another": log.Write("run", flow.Draft{Kind: "said"}),
		"who decides": log.Decide("run", "G", flow.Decision{Action: "go"})} {
		if !errors.Is(err, flow.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h, err := log.Load(context.Background(), "run"); err != nil || h.Ended != flow.Failed || len(h.Records) != 4 {
		t.Errorf("%+v, %v", h, err)
	}
}

// A gate is decided once. The same decision again is no other one.
func TestMemDecides(t *testing.T) {
	log, leases := acquire(t, "run")
	if err := appended(log, leases["run"], flow.Draft{Kind: "policy.gate", Path: "g", Body: json.RawMessage(`{"gate":"G","digest":"D"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := log.Decide("run", "H", flow.Decision{Action: "go"}); err == nil {
		t.Error("a gate that does not exist was decided")
	}
	heard := 0
	stop := log.Watch("run", func(flow.Record) { heard++ })
	yes := flow.Decision{Action: "go", Answer: json.RawMessage(`1`), Feedback: "f", Note: "n", FailReason: "r", By: "user:ada", Via: "chat"}
	no := yes
	no.Action = "no"
	for _, c := range []struct {
		d    flow.Decision
		want error
	}{{yes, nil}, {yes, nil}, {no, flow.ErrDecided}} {
		if err := log.Decide("run", "G", c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.d.Action, err)
		}
	}
	closing := flow.Closing("G", "g", "D", "no", "expiry")
	if err := appended(log, leases["run"], closing); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := log.Write("run", flow.Draft{Kind: "said"}); err != nil {
		t.Fatal(err)
	}
	all := log.Records("run")
	want := `{"gate":"G","action":"go","answer":1,"feedback":"f","note":"n","subject_digest":"D","fail_reason":"r","via":"chat","on_behalf_of":"user:ada"}`
	if len(all) != 4 || string(all[2].Body) != want || all[2].Path != "g" || all[2].From != "user" || all[2].Epoch != 0 || heard != 1 {
		t.Errorf("heard %d, stored %v: %s", heard, kindsOf(all), all[2].Body)
	}
}

// unread is a log that can be written and not read.
type unread struct {
	*flow.Mem
	err error
}

func (u *unread) Load(context.Context, string) (flow.History, error) { return flow.History{}, u.err }

// A run that cannot be read is not driven, and does not look as if somebody did.
func TestARunThatCannotBeRead(t *testing.T) {
	log := &unread{flow.NewMem(), errors.New("torn")}
	out, err := flow.New(log, nil).Drive(context.Background(), asking(func(flow.Context) error {
		t.Error("it is driven")
		return nil
	}))
	if !errors.Is(err, log.err) || out.Status != flow.Interrupted || out.Reason != "load_failed" {
		t.Errorf("%+v %v", out, err)
	}
	all := log.Records("r")
	if last := all[len(all)-1]; last.Kind != "run.interrupted" || string(last.Body) != `{"reason":"load_failed","pid":0}` {
		t.Errorf("the last record is %s %s", last.Kind, last.Body)
	}
}

func TestGatesAreNamedByTheEngine(t *testing.T) {
	o := &flow.Options{NewID: func() string { return "G1" }}
	if out := drive(t, flow.New(flow.NewMem(), o), asking(func(fc flow.Context) error { return waits(fc, "g") })); !slices.Equal(out.Gates, []string{"G1"}) {
		t.Errorf("%+v", out)
	}
}

// A long run is read whole, and from its last segment on.
func TestMemKeepsLongRuns(t *testing.T) {
	log, leases := acquire(t, "run")
	drafts := slices.Repeat([]flow.Draft{{Kind: "said"}}, 3000)
	drafts[2500].Kind = "run.continued"
	if err := appended(log, leases["run"], drafts...); err != nil {
		t.Fatal(err)
	}
	h, err := log.Load(context.Background(), "run")
	if err != nil || h.Segment != 1 || len(h.Records) != 500 || h.Records[0].Kind != "run.continued" {
		t.Fatalf("%d records of segment %d, %v", len(h.Records), h.Segment, err)
	}
	all := log.Records("run")
	for i, r := range all {
		if r.Seq != int64(i+1) {
			t.Fatalf("record %d has the number %d", i+1, r.Seq)
		}
	}
	if len(all) != 3001 || h.Records[499].Seq != 3001 {
		t.Errorf("%d records, the last is %d", len(all), h.Records[499].Seq)
	}
}

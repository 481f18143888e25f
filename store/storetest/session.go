package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A turn is made only as the next of its session, whoever is faster.
func testSessionIsAChain(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	turn := func(session, after string) (string, error) {
		id := tipstaff.NewID(time.Now()).String()
		return id, b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "turn", Session: session, After: after}, Begun(b.Keys()))
	}
	first, err := turn("s", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, after := range map[string]string{"while the first runs": first, "as if there were none": "", "after another": tipstaff.NewID(time.Now()).String()} {
		if _, err := turn("s", after); !errors.Is(err, flow.ErrSessionBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := turn("t", ""); err != nil {
		t.Errorf("another session: %v", err)
	}
	rows, err := b.Runs(context.Background(), flow.Query{Session: "s"})
	if err != nil || len(rows) != 1 || rows[0].ID != first || rows[0].Session != "s" {
		t.Errorf("%+v %v", rows, err)
	}
}

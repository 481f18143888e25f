package sqlite

import (
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
)

// rows is how many items have one.
func (b *bench) rows() (n int64) {
	b.Helper()
	err := b.read(b.Context(), func(c *conn) (err error) {
		n, err = c.number(b.Context(), `SELECT count(*) FROM cortex_items`)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b *bench) leaves(l flow.Lease, n int) {
	b.Helper()
	drafts := make([]flow.Draft, n)
	for i := range drafts {
		drafts[i] = leafEnd(fmt.Sprintf("root/%d", i))
	}
	b.append(l, drafts...)
}

// Readers cannot tell whether an item has its row yet.
func TestFreshItemsAreThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	old := b.rememberFact("older than all of them")
	l := b.acquire(b.create())
	b.leaves(l, 3)
	if n := b.rows(); n != 1 {
		t.Fatalf("%d items have rows", n)
	}
	b.memorySound()
	all, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil || len(all) != 4 || all[0].Path != "root/2" || all[2].Path != "root/0" || all[3].Item != old {
		t.Errorf("listed: %+v, %v", all, err)
	}
	for _, c := range []struct {
		query tipstaff.MemoryQuery
		want  int
	}{{tipstaff.MemoryQuery{Limit: 2}, 2}, {tipstaff.MemoryQuery{Type: "event"}, 3}, {tipstaff.MemoryQuery{Type: "fact", Limit: 1}, 1}} {
		if some, err := b.MemoryItems(t.Context(), c.query); len(some) != c.want || err != nil {
			t.Errorf("%+v lists %+v, %v", c.query, some, err)
		}
	}
	if m := b.item(all[1].Item); m != all[1] {
		t.Errorf("looked up: %+v, want %+v", m, all[1])
	}
	found, err := b.Recollect(t.Context(), tipstaff.RecallRequest{Verb: "build"})
	if err != nil || len(found) != 4 {
		t.Errorf("recollected: %+v, %v", found, err)
	}
	b.append(l, terminals["completed"])
	if n := b.rows(); n != 4 {
		t.Errorf("after the end %d items have rows", n)
	}
	after, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{Type: "event"})
	if err != nil || len(after) != 3 || after[1] != all[1] {
		t.Errorf("listed: %+v, %v", after, err)
	}
	b.memorySound()
}

// A run that never ends leaves no more than so many of them.
func TestFreshItemsAreCopiedInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	l := b.acquire(b.create())
	b.leaves(l, freshLimit-1)
	if n := b.rows(); n != 0 {
		t.Errorf("%d have rows already", n)
	}
	b.leaves(l, 2)
	if n := b.rows(); n != freshLimit {
		t.Errorf("%d have rows", n)
	}
	b.memorySound()
}

// What a process leaves behind fresh is copied by whoever needs rows next.
func TestFreshItemsOfAnother(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(b *bench, event cortex.URI) error{
		"a fact is added":        func(b *bench, _ cortex.URI) error { b.rememberFact("a fact"); return nil },
		"the event is forgotten": func(b *bench, u cortex.URI) error { _, err := b.Forget(b.Context(), u, "local:cli"); return err },
		"it is cited": func(b *bench, u cortex.URI) error {
			b.write(b.create(), citing("completed", u.String()))
			return nil
		},
		"more happens": func(b *bench, _ cortex.URI) error { b.leaves(b.acquire(b.create()), freshLimit); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.leaves(b.acquire(b.create()), 2)
			other := &bench{TB: t, dir: b.dir}
			other.open(nil)
			defer other.shut()
			items, err := other.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
			if err != nil || len(items) != 2 {
				t.Fatalf("listed: %+v, %v", items, err)
			}
			u, err := cortex.ParseURI(items[0].Item)
			if err == nil {
				err = use(other, u)
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := b.rows(); n < 2 {
				t.Errorf("%d have rows", n)
			}
			b.rememberFact("by the first again")
			b.memorySound()
		})
	}
}

// An item that was used must have a row, even after the last that is there.
func TestLostRowIsNotTakenForFresh(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	l := b.acquire(b.create())
	b.leaves(l, 1)
	b.append(l, terminals["completed"])
	items, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	b.write(b.create(), citing("completed", items[0].Item))
	b.memorySound()
	b.sabotaged(`DELETE FROM cortex_items`, func(db *conn) {
		found, after := newDerivation(), newDerivation()
		if err := found.read(t.Context(), db); err != nil || found.report().OK() {
			t.Errorf("found: %+v, %v", found.report(), err)
		}
		rows, err := found.write(&tx{c: db})
		if err == nil {
			err = after.read(t.Context(), db)
		}
		if err != nil || rows != 1 || !after.report().OK() {
			t.Errorf("%d rows were put right: %+v: %v", rows, after.report(), err)
		}
	})
}

package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// Of many findings of one kind the first are listed and the others counted.
func TestExamineBoundsItsFindings(t *testing.T) {
	b := newBench(t, nil)
	b.MustCreate()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * store.BlobAge)
	for i := range store.MostAlike + 5 {
		name := filepath.Join(b.dir, "journal", fmt.Sprintf(".tmp-%d", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	var found []tipstaff.Diagnostic
	for _, d := range b.examine() {
		if d.Code == "leftover" {
			found = append(found, d)
		}
	}
	if len(found) != store.MostAlike+1 || !strings.HasPrefix(found[store.MostAlike].Message, "5 more") {
		t.Errorf("%d findings, the last %+v", len(found), found[len(found)-1])
	}
}

// A store that is written to while it is examined has nothing wrong with it.
func TestExamineABusyStore(t *testing.T) {
	b := newBench(t, nil)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				run := b.MustCreate()
				b.MustAppend(b.MustAcquire(run), storetest.Step("a"))
			}
		}
	}()
	for range 5 {
		if found := b.examine(); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	}
	close(stop)
	<-done
}

func (b *bench) examine() []tipstaff.Diagnostic {
	b.Helper()
	found, err := Examine(b.Context(), b.dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

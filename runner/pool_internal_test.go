package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// longLine is a queue of one user's runs, all but some of which were left to others.
type longLine struct {
	Pool
	rows    []flow.Row
	lines   int // how often a part of it was asked for
	claimed []int64
}

func (l *longLine) Lines(context.Context, string) ([]string, error) { return []string{"alice"}, nil }

func (l *longLine) Line(_ context.Context, _, _ string, after int64) (line []flow.Row, err error) {
	l.lines++
	for _, row := range l.rows {
		if row.N > after && len(line) < 1000 {
			line = append(line, row)
		}
	}
	return line, nil
}

func (l *longLine) Claim(_ context.Context, _, _ string, from int64) (string, int64, error) {
	l.claimed = append(l.claimed, from)
	return "", 0, nil
}

// hiccups is a store in which runs cannot be read. It counts how often that is tried.
type hiccups struct {
	nothing
	n   int
	err error
}

func (o *hiccups) Run(context.Context, string) (flow.Row, error) {
	o.n++
	return flow.Row{}, o.err
}

// However many runs wait that this server has left to others, a look at the queue costs nearly
// nothing. A run that comes back into the line is found at its old place, what waits no more is
// forgotten, and what could not be read is tried again after a pause that grows.
func TestRunsThatWereLeftCostLittle(t *testing.T) {
	const left = 10_000
	now := time.Now()
	line, store := &longLine{}, &hiccups{err: fmt.Errorf("the bucket has the hiccups")}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), []byte("allowed_effects: [read]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(Config{Store: store, Workspace: dir, Pool: line, Serves: true, MaxDriving: 4, Now: func() time.Time { return now }})
	r.here()
	for n := int64(1); n <= left; n++ {
		row := flow.Row{N: 2 * n, ID: fmt.Sprint("run", n)}
		line.rows = append(line.rows, row)
		r.decline("alice", row.ID, "it lacks something", true)
	}
	look := func() (lines, reads int) {
		before, read := line.lines, store.n
		if err := r.claim(context.Background()); err != nil {
			t.Fatal(err)
		}
		return line.lines - before, store.n - read
	}
	began := time.Now()
	first, _ := look()
	took := time.Since(began)
	began = time.Now()
	for range 20 {
		if lines, reads := look(); lines > 1 || reads > 0 {
			t.Fatalf("a look asks for %d parts of the line and reads %d runs, although nothing has changed", lines, reads)
		}
	}
	t.Logf("%d runs are left: the first look asks for %d parts of the line, in %v; a later one for one, in %v", left, first, took, time.Since(began)/20)

	back := flow.Row{N: 7, ID: "back"} // which nobody here has looked at
	line.rows = append(line.rows[:3:3], append([]flow.Row{back}, line.rows[3:]...)...)
	if _, reads := look(); reads > 0 {
		t.Error("it looks at the whole line at every pass")
	}
	now = now.Add(passEvery)
	if _, reads := look(); reads != 1 {
		t.Errorf("a run that has come back was read %d times, want once", reads)
	}
	if runs, why := r.Lacks(); runs != left+1 || len(why) != 2 {
		t.Errorf("it leaves %d runs to others, for %q", runs, why)
	}
	tries := store.n
	for range 10 * 60 { // ten minutes
		now = now.Add(time.Second)
		look()
	}
	if tries = store.n - tries; tries < 10 || tries > 20 {
		t.Errorf("in ten minutes it was tried %d times to read a run, want a pause that grows to a minute", tries)
	}

	line.rows = line.rows[:100]
	for range 4 { // one pass may have been under way
		now = now.Add(passEvery)
		look()
	}
	if n := len(r.unable.runs); n != 100 {
		t.Errorf("it remembers %d runs, of which 100 wait", n)
	}
	if len(line.claimed) > 0 {
		t.Errorf("it has taken runs that it cannot drive, from %v", line.claimed)
	}
}

package main

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// kills is how often processes are killed in all; the variable is for long soaks.
func kills(t *testing.T) int {
	text := os.Getenv("TIPSTAFF_KILLS")
	switch {
	case text == "" && testing.Short():
		return 8
	case text == "":
		return 60
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TIPSTAFF_KILLS=%s is no number of kills", text)
	}
	return n
}

// places is where a sweep over all places begins, counted from 0, and how far it steps. In
// short tests it takes every so many, from another one each time.
func places(t *testing.T, every int) (first, step int) {
	if !testing.Short() {
		return 0, 1
	}
	first = rand.IntN(every)
	t.Logf("every %d places, from %d on", every, first)
	return first, every
}

// TestKillAtRandom kills the process that drives a run, and those that decide its
// gates, at random moments, until runs have survived many kills.
func TestKillAtRandom(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killer{dice: rand.New(rand.NewPCG(seed, 1)), left: kills(t)}
	for k.left > 0 {
		k.workspace = newWorkspace(t, manifest, work)
		k.oneRun()
	}
	t.Logf("%d commands killed, %d ended by themselves; %d gates in doubt", k.killed, k.spared, k.doubts)
}

// killer drives runs with processes that it kills.
type killer struct {
	*workspace
	dice           *rand.Rand
	left           int // kills yet to come
	killed, spared int
	doubts         int
}

// oneRun starts a run and brings it to its end over as many dead processes as it
// takes.
func (k *killer) oneRun() {
	k.Helper()
	run := k.begin()
	for {
		r, ended := k.risk("resume", run, "--yes", "--unattended")
		switch {
		case !ended:
		case r.Code == 0:
			k.finished(run)
			return
		case r.Code == 3 && k.show(run).State == "completed": // the process before was killed after its last record
			k.finished(run)
			return
		case r.Code == 4:
			k.settleDoubts(run, k.insist)
		default:
			k.Fatalf("%v", r)
		}
	}
}

// begin starts runs until one has been recorded, and returns it.
func (k *killer) begin() string {
	k.Helper()
	for {
		r, ended := k.risk("run", "work.yaml", "--yes", "--unattended")
		if ended && r.Code != 0 {
			k.Fatalf("%v", r)
		}
		if runs := k.runs(); len(runs) == 1 {
			return runs[0]
		}
	}
}

// insist repeats a decision until it was made. A decision that is made already is
// given back as it is.
func (k *killer) insist(args ...string) {
	k.Helper()
	k.doubts++
	for {
		r, ended := k.risk(args...)
		if ended && r.Code != 0 {
			k.Fatalf("%v", r)
		}
		if ended {
			return
		}
	}
}

// risk runs a command that may be killed: after some time, or when it has written
// some records. It reports whether the command came to its end.
func (k *killer) risk(args ...string) (r cmdtest.Result, ended bool) {
	k.Helper()
	p := k.Start(args...)
	if k.left > 0 && k.dice.IntN(10) > 0 {
		if k.dice.IntN(2) == 0 {
			k.after(p, time.Duration(k.dice.IntN(250))*time.Millisecond)
		} else {
			k.afterRecords(p, int64(1+k.dice.IntN(12)))
		}
		if p.Kill() {
			k.left--
			k.killed++
			return cmdtest.Result{}, false
		}
	}
	k.spared++
	return p.Wait(), true
}

// after waits for a while, or for the end of the process.
func (k *killer) after(p *cmdtest.Process, d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.Ended:
	}
}

// afterRecords waits until the store has n more records, or for the end of the
// process.
func (k *killer) afterRecords(p *cmdtest.Process, n int64) {
	k.Helper()
	store := k.openReadOnly()
	defer store.Close()
	want := int64(-1)
	k.Until("records", func() bool {
		have := countRecords(store)
		if want < 0 {
			want = have + n
		}
		return have >= want || !p.Running()
	})
}

// countRecords is how many records the store has at this moment; 0 if it is yet to
// be made.
func countRecords(store *sql.DB) (n int64) {
	if err := store.QueryRow(`SELECT count(*) FROM records`).Scan(&n); err != nil {
		return 0
	}
	return n
}

func (w *workspace) openReadOnly() *sql.DB {
	w.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?mode=ro&_pragma=busy_timeout(5000)", w.Path(".tipstaff", "tipstaff.db")))
	w.Check(err)
	return db
}

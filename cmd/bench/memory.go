package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

const parkedBytes = 50e6 // that parked runs may add to an idle process

// usage is what a process holds when nothing is going on in it.
type usage struct {
	Heap     float64 // bytes
	Resident float64 // bytes; 0: this system does not say
}

// parkedUsage is what the child reports.
type parkedUsage struct {
	Idle, Parked usage
	Runs         int // fewer than asked for where they take too long
	Spent        time.Duration
}

// measureParked: a process that has driven many runs to a gate, all of which
// wait there for an answer.
func measureParked(ctx context.Context, b *bench) ([]row, error) {
	c, err := task{"park", filepath.Join(b.dir, "parked"), b.parked}.command(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.Output()
	if err != nil {
		return nil, explain(c, err)
	}
	var u parkedUsage
	if err := json.Unmarshal(out, &u); err != nil {
		return nil, err
	}
	what, idle, now := "resident", u.Idle.Resident, u.Parked.Resident
	if now == 0 {
		what, idle, now = "heap", u.Idle.Heap, u.Parked.Heap
	}
	runs := count(float64(u.Runs))
	return []row{
		{figure: "memory with " + runs + " parked runs", value: now, measured: megabytes(now) + " " + what,
			beside: fmt.Sprintf("idle %s: %+.1f MB; heap %s, idle %s", megabytes(idle), (now-idle)/1e6, megabytes(u.Parked.Heap), megabytes(u.Idle.Heap)),
			bound:  limit(fmt.Sprintf("+%g MB", parkedBytes/1e6), now-idle <= parkedBytes)},
		{figure: "starting and parking them", value: u.Spent.Seconds(), measured: count(float64(u.Runs)/u.Spent.Seconds()) + " runs/s",
			beside: fmt.Sprintf("%.1f s in all", u.Spent.Seconds())},
	}, nil
}

// parkRuns parks one run, and then all, and says what it held after each.
func parkRuns(ctx context.Context, t task, out io.Writer) error {
	b, err := newBed(t.Dir)
	if err != nil {
		return err
	}
	var u parkedUsage
	if _, err = b.park(ctx, 1); err == nil { // whatever is made once is there then
		u.Idle = idleUsage()
		start := time.Now()
		u.Runs, err = b.park(ctx, t.Runs)
		u.Spent = time.Since(start)
		u.Parked = idleUsage()
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(u)
}

// atOnce is how many runs are on their way to their gates at a time.
const atOnce = 200

// park makes runs, drives each until it waits, and returns how many when the
// files of their envelopes are written: nothing is under way then.
func (b *bed) park(ctx context.Context, runs int) (int, error) {
	program := func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		if err := takeStep(fc, 0); err != nil {
			return nil, err
		}
		return empty, ask(fc)
	}
	var turn, parked atomic.Int64
	start := time.Now()
	err := parallel(make([]struct{}, min(runs, atOnce)), func(*struct{}) error {
		for turn.Add(1) <= int64(runs) && time.Since(start) < patience { // the files follow behind
			run, err := b.create(ctx)
			if err != nil {
				return err
			}
			if err := drive(ctx, b.engine, flow.Job{Run: run, Owner: b.owner, Flow: program}, flow.ParkedRun); err != nil {
				return err
			}
			parked.Add(1)
		}
		return nil
	})
	return int(parked.Load()), errors.Join(err, b.Flush(ctx))
}

// idleFor is how long nothing must have gone on: readers of the store keep their pages
// for five seconds.
const idleFor = 6 * time.Second

// idleUsage collects garbage and gives back what it can first.
func idleUsage() usage {
	time.Sleep(idleFor)
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{Heap: float64(m.HeapInuse)}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if pages, err := strconv.Atoi(strings.Fields(string(statm))[1]); err == nil {
			u.Resident = float64(pages * os.Getpagesize())
		}
	}
	return u
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
)

const planOfBare = 0.25 // of bare SQLite, for a whole plan

type object = map[string]any

// toolCalls is a plan of n calls of one tool, one after the other.
func toolCalls(n int, uri string, args object) []byte {
	children := make([]object, n)
	for i := range children {
		children[i] = object{"id": fmt.Sprintf("s%d", i), "kind": "tool_call", "tool": uri, "args": args}
	}
	return planOf(2*n, object{"kind": "sequential", "children": children}) // a call that a crash cut off is charged, too
}

func planOf(calls int, root object) []byte {
	doc, err := json.Marshal(object{"kind": "plan", "version": 1, "name": "bench", "bounds": object{"tool_calls": calls}, "root": root})
	if err != nil {
		panic(err) // maps, numbers and strings can be encoded
	}
	return doc
}

func readCalls(n int) []byte {
	return toolCalls(n, "mcp://builtin/read_file@1.0.0", object{"path": "note.txt"})
}

// measurePlan: a plan from Start to its attestation, through gate, walker, MCP
// and journal.
func measurePlan(ctx context.Context, b *bench) (rows []row, err error) {
	ctx = localUser(ctx)
	w, err := freshWorkspace(ctx, filepath.Join(b.dir, "plan"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	plan := readCalls(b.calls)
	run, err := w.run(ctx, plan, succeeded)
	if err != nil {
		return nil, err
	}
	size, err := sizeOfStep(ctx, w, run)
	if err != nil {
		return nil, err
	}
	bare, err := newBare(filepath.Join(b.dir, "plan-bare.db"), size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	var s sides
	whole := func() (_ float64, err error) {
		start := time.Now()
		run, err = w.run(ctx, plan, succeeded)
		return float64(b.calls) / time.Since(start).Seconds(), err
	}
	for n := range turns(b.rounds) {
		if err := s.round(n, whole, func() (float64, error) { return repeat(b.round/2, bare.step) }); err != nil {
			return nil, err
		}
	}
	verified, err := verifyWhole(ctx, w, run)
	if err != nil {
		return nil, err
	}
	r := median(s.ratios)
	return []row{
		{figure: fmt.Sprintf("a whole plan of %s `builtin` calls", count(float64(b.calls))), value: median(s.ours), measured: count(median(s.ours)) + " calls/s",
			beside: fmt.Sprintf("bare SQLite %s/s: %s", count(median(s.peer)), times(r)),
			bound:  goal(fmt.Sprintf("≥ %g × bare SQLite", planOfBare), r >= planOfBare)},
		{figure: "`verify` of that run, integrity and conformance", value: verified.Seconds(), measured: milliseconds(verified)},
	}, nil
}

// sizeOfStep is the mean size of the records that hold a call's result.
func sizeOfStep(ctx context.Context, w *instance, run tipstaff.ID) (int, error) {
	total, n := 0, 0
	for e, err := range w.Events(ctx, tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			return 0, err
		}
		if e.Kind == kindOfStep {
			total, n = total+len(e.Raw), n+1
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("run %s has no step", run)
	}
	return total / n, nil
}

// verifyWhole also sees to it that what was measured is a run without fault.
func verifyWhole(ctx context.Context, w *instance, run tipstaff.ID) (time.Duration, error) {
	start := time.Now()
	report, err := w.Verify(ctx, tipstaff.VerifyRequest{Run: run})
	if err == nil && !(report.Integrity.OK && report.Conformance.OK) {
		err = fmt.Errorf("run %s does not verify: %v %v", run, report.Integrity.Problems, report.Conformance.Problems)
	}
	return time.Since(start), err
}

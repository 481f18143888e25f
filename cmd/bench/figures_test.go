package main

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEveryFigureIsTaken runs the whole program, briefly. It says nothing about
// speed; under the race detector it would take minutes.
func TestEveryFigureIsTaken(t *testing.T) {
	if os.Getenv("TIPSTAFF_MORE") == "" {
		t.Skip("TIPSTAFF_MORE is not set: make test-more runs this")
	}
	parent := t.TempDir()
	var out, progress bytes.Buffer
	b := &bench{effort: brief, progress: &progress, table: &out}
	err := b.report(localUser(t.Context()), parent, "")
	rows := b.rows
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for _, f := range figures {
		if !strings.Contains(progress.String(), f.name+" …") {
			t.Errorf("%s was not measured", f.name)
		}
	}
	if want := len(figures); len(rows) < want {
		t.Errorf("%d rows for %d figures", len(rows), want)
	}
	_, noStatus := os.Stat("/proc/self/status")
	for _, r := range rows {
		if noStatus != nil && r.measured == untold {
			continue
		}
		if !(r.value > 0) || math.IsInf(r.value, 0) {
			t.Errorf("%s: %v", r.figure, r.value)
		}
		if !slices.ContainsFunc(readTable(out.String()), func(read reading) bool { return read.figure == r.figure }) {
			t.Errorf("%s is not in the table:\n%s", r.figure, &out)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind: %v", left, err)
	}
}

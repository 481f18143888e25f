package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes this test binary the child as well: see child.go.
func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role))
	}
	os.Exit(m.Run())
}

// TestEveryFigureIsTaken runs the whole program, briefly. It says nothing about
// speed.
func TestEveryFigureIsTaken(t *testing.T) {
	parent := t.TempDir()
	var out, progress bytes.Buffer
	b := &bench{effort: brief, progress: &progress}
	rows, err := b.report(t.Context(), parent, "", &out)
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
	for _, r := range rows {
		if !(r.value > 0) || math.IsInf(r.value, 0) {
			t.Errorf("%s: %v", r.figure, r.value)
		}
		if !strings.Contains(out.String(), "| "+r.figure+" | "+r.measured+" |") {
			t.Errorf("%s is not in the table:\n%s", r.figure, &out)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind: %v", left, err)
	}
}

func TestOnlyRatiosFail(t *testing.T) {
	for _, c := range []struct {
		ok   verdict
		fail bool
	}{{ratio(0.5, 0.5), false}, {ratio(0.49, 0.5), true}, {absolute(true), false}, {absolute(false), false}, {noLimit, false}} {
		if rows := []row{{ok: kept}, {ok: c.ok}}; failed(rows) != c.fail {
			t.Errorf("%q: failed is %v", c.ok, !c.fail)
		}
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("of three: %v", m)
	}
	if m := median([]float64{8, 1, 5, 2}); m != 3.5 {
		t.Errorf("of four: %v", m)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567", -12345: "-12,345", -123: "-123"} {
		if got := count(n); got != want {
			t.Errorf("%v: %s, not %s", n, got, want)
		}
	}
}

func TestInvocation(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-h"}, 0, "-short"},
		{[]string{"-fast"}, 2, "not defined"},
		{[]string{"-run", "("}, 2, "missing closing"},
		{[]string{"-dir", filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: exit code %d: %s%s", c.args, code, &out, &errs)
		}
	}
}

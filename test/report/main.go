// Command report reads what go test -json writes. It prints what go test itself would
// print, and then which tests were skipped and why: go test tells that only together with
// everything else. It fails if a test has, or if there was none.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	r := report{out: os.Stdout, said: map[string]string{}, skipped: map[string][]string{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.skips()
	if r.failed || r.packages == 0 {
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

type report struct {
	out      io.Writer
	said     map[string]string   // output that is yet to be judged, by package and test
	skipped  map[string][]string // tests, by the reason
	packages int
	failed   bool
}

func (r *report) read(in io.Reader) error {
	for dec := json.NewDecoder(in); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("this is not the output of go test -json: %w", err)
		}
		r.take(e)
	}
}

func (r *report) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		r.said[key] += e.Output
		return
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "build-fail":
		r.failed = true
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	switch {
	case e.Test == "":
		r.endPackage(e)
	case e.Action == "fail":
		fmt.Fprint(r.out, r.said[key])
	case e.Action == "skip":
		why := reason(r.said[key])
		r.skipped[why] = append(r.skipped[why], e.Package[strings.LastIndex(e.Package, "/")+1:]+"."+e.Test)
	}
	delete(r.said, key)
}

// endPackage prints the line that says how the tests of a package went. Before it, of a
// package that failed, comes what the tests said that never ended.
func (r *report) endPackage(e event) {
	if e.Action == "skip" { // it has no tests
		return
	}
	r.packages++
	own := e.Package + " "
	if e.Action == "fail" {
		r.failed = true
		for key, said := range r.said {
			if strings.HasPrefix(key, own) && key != own {
				fmt.Fprint(r.out, said)
			}
		}
		fmt.Fprint(r.out, r.said[own])
		return
	}
	for line := range strings.Lines(r.said[own]) {
		if strings.HasPrefix(line, "ok") {
			fmt.Fprint(r.out, line)
		}
	}
}

var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason is the last line that a test has logged.
func reason(said string) string {
	lines := logged.FindAllStringSubmatch(said, -1)
	if len(lines) == 0 {
		return "no reason given"
	}
	return lines[len(lines)-1][1]
}

func (r *report) skips() {
	var lines []string
	for why, tests := range r.skipped {
		lines = append(lines, fmt.Sprintf("skipped: %s: %s\n", strings.Join(tests, ", "), why))
	}
	slices.Sort(lines)
	fmt.Fprint(r.out, strings.Join(lines, ""))
}

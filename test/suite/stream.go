package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// stream reads what go test -json writes. It prints what go test itself would print, counts, and
// remembers what was skipped.
type stream struct {
	out io.Writer
	of  int // how many packages there will be; 0: not known

	mu       sync.Mutex
	said     map[string]string   // output that is yet to be judged, by package and test
	running  map[string]bool     // packages
	skipped  map[string][]string // tests, by the reason
	faults   []string            // tests that failed, and packages that failed without one
	packages int                 // that have ended
	tests    int                 // that have passed, without subtests
	failed   int                 // likewise
	skips    int
	broken   bool // something failed that is no test: a build, a crash
}

func newStream(out io.Writer, of int) *stream {
	return &stream{out: out, of: of, said: map[string]string{}, running: map[string]bool{}, skipped: map[string][]string{}}
}

func (s *stream) read(in io.Reader) error {
	for dec := json.NewDecoder(in); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("this is not the output of go test -json: %w", err)
		}
		s.mu.Lock()
		s.take(e)
		s.mu.Unlock()
	}
}

func (s *stream) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "start":
		s.running[e.Package] = true
		return
	case "output":
		s.said[key] += e.Output
		return
	case "build-output":
		fmt.Fprint(s.out, e.Output)
		return
	case "build-fail":
		s.broken = true
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test == "" {
		s.endPackage(e)
	} else {
		s.endTest(e, s.said[key])
	}
	delete(s.said, key)
}

func (s *stream) endTest(e event, said string) {
	name := short(e.Package) + "." + e.Test
	top := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "fail":
		fmt.Fprint(s.out, said)
		if top {
			s.failed++
			s.faults = append(s.faults, name)
		}
	case "skip":
		why := reason(said)
		s.skipped[why] = append(s.skipped[why], name)
		if top {
			s.skips++
		}
	case "pass":
		if top {
			s.tests++
		}
	}
}

// endPackage prints the line that says how the tests of a package went. Before it, of a
// package that failed, comes what the tests said that never ended.
func (s *stream) endPackage(e event) {
	delete(s.running, e.Package)
	if e.Action == "skip" { // it has no tests
		return
	}
	s.packages++
	own := e.Package + " "
	if e.Action == "fail" {
		if !slices.ContainsFunc(s.faults, func(f string) bool { return strings.HasPrefix(f, short(e.Package)+".") }) {
			s.broken = true
			s.faults = append(s.faults, short(e.Package))
		}
		for _, key := range slices.Sorted(maps.Keys(s.said)) {
			if strings.HasPrefix(key, own) && key != own {
				fmt.Fprint(s.out, s.said[key])
			}
		}
		fmt.Fprint(s.out, s.said[own])
		return
	}
	for line := range strings.Lines(s.said[own]) {
		if strings.HasPrefix(line, "ok") {
			fmt.Fprint(s.out, s.place(), line)
		}
	}
}

// place tells how many packages are done of how many.
func (s *stream) place() string {
	if s.of == 0 {
		return ""
	}
	return fmt.Sprintf("[%*d/%d] ", len(fmt.Sprint(s.of)), s.packages, s.of)
}

// now says what runs at this moment.
func (s *stream) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.running))
	for i, name := range names {
		names[i] = short(name)
	}
	if len(names) == 0 {
		names = []string{"the compiler"}
	}
	return fmt.Sprintf("%d of %s done; now %s", s.packages, plural(s.of, "package"), strings.Join(names, ", "))
}

var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns the last line that a test has logged.
func reason(said string) string {
	lines := logged.FindAllStringSubmatch(said, -1)
	if len(lines) == 0 {
		return "no reason given"
	}
	return lines[len(lines)-1][1]
}

// printSkips prints a line for each reason for which tests were skipped.
func printSkips(out io.Writer, skipped map[string][]string) {
	var lines []string
	for why, tests := range skipped {
		const most = 6
		names := strings.Join(tests[:min(len(tests), most)], ", ")
		if len(tests) > most {
			names += fmt.Sprintf(" and %d more", len(tests)-most)
		}
		lines = append(lines, fmt.Sprintf("skipped: %s: %s\n", names, why))
	}
	slices.Sort(lines)
	fmt.Fprint(out, strings.Join(lines, ""))
}

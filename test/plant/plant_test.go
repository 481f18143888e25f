package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// The list must stay that of the code as it is: each text stands there once, each suite has
// the tests that it names, and each promise is still made.
func TestTheListFitsTheCode(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.id, func(t *testing.T) {
			text, err := b.planted(root)
			if err != nil {
				t.Fatal(err)
			}
			if original, err := os.ReadFile(filepath.Join(root, b.file)); err != nil || string(text) == string(original) {
				t.Errorf("it changes nothing: %v", err)
			}
			if !strings.Contains(words(section(t, b)), words(b.says)) {
				t.Errorf("%s does not say %q any more: name the sentence that the bug breaks", b.promise(), b.says)
			}
			if b.slip == "" || len(b.suites) == 0 {
				t.Error("it has no slip, or no suites")
			}
			for _, s := range b.suites {
				s.check(t)
			}
		})
	}
}

func TestTheListIsWhole(t *testing.T) {
	seen, of := map[string]bool{}, map[int]int{}
	for _, b := range bugs() {
		if seen[b.id] {
			t.Errorf("two bugs are called %s", b.id)
		}
		seen[b.id] = true
		of[b.guarantee]++
		if (b.guarantee == 0) != (b.page != "") {
			t.Errorf("%s: a page is named for promises that are no guarantee, and for no others", b.id)
		}
		last := -1
		for _, s := range b.suites {
			cost := slices.Index(levels, s.level)
			if cost < 0 || cost < last && s.level != simulator {
				t.Errorf("%s: %s of %s is not tried in the order of what suites cost", b.id, s.run, s.pkg)
			}
			last = max(last, cost)
		}
	}
	for n := 1; n <= 8; n++ {
		if of[n] < 2 {
			t.Errorf("guarantee %d has %d bugs: 2 are the least", n, of[n])
		}
	}
}

// words is a text with one space between its words, wherever its lines break.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// section is the part of the page that makes the promise.
func section(t *testing.T, b bug) string {
	t.Helper()
	page := b.page
	if page == "" {
		page = "guarantees.md"
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	if b.guarantee == 0 {
		return string(text)
	}
	for part := range strings.SplitSeq(string(text), "\n## ") {
		if strings.HasPrefix(part, string(rune('0'+b.guarantee))+". ") {
			return part
		}
	}
	t.Fatalf("docs/%s has no guarantee %d", page, b.guarantee)
	return ""
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// check reports names of tests that the suite's package does not have: it would be run
// without them, and find less than the list says.
func (s suite) check(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, s.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	pattern, _, _ := strings.Cut(s.run, "/")
	for want := range strings.SplitSeq(strings.Trim(pattern, "^()$"), "|") {
		if exact := regexp.MustCompile("^(" + want + ")$"); !slices.ContainsFunc(names, exact.MatchString) {
			t.Errorf("%s has no test %s", s.pkg, want)
		}
	}
}

// A list that is stale is told with the bug's text; a bug is planted in memory alone.
func TestStaleTextsAreFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nvar x, y = 1, 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, good := range map[string]bool{"x, y = 1, 1": true, "= 2": false, "1": false} {
		text, err := bug{file: "a.go", old: old, new: "x, y = 1, 2"}.planted(dir)
		switch {
		case (err == nil) != good:
			t.Errorf("%q: %v", old, err)
		case good && string(text) != "package a\n\nvar x, y = 1, 2\n":
			t.Errorf("%q gives %q", old, text)
		case !good && !strings.Contains(err.Error(), "stale"):
			t.Errorf("%q: %v", old, err)
		}
	}
	if _, err := (bug{file: "b.go"}).planted(dir); err == nil {
		t.Error("a file that is not there passes")
	}
}

// What go test says of one failing subtest, of a build that fails, and of nothing run.
func TestReportsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want report
	}{
		"fails": {`{"Action":"run","Test":"TestA/b"}
{"Action":"output","Test":"TestA/b","Output":"no\n"}
{"Action":"pass","Test":"TestA/a"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`, report{ran: 3, failed: "TestA/b"}},
		"dies": {`{"Action":"run","Test":"TestA"}
{"Action":"run","Test":"TestA/b"}
{"Action":"fail"}`, report{ran: 1, failed: "TestA/b"}},
		"broken": {`{"Action":"build-output","Output":"x.go:1: no\n"}
{"Action":"build-fail"}
{"Action":"fail"}`, report{broken: true, said: "x.go:1: no\n"}},
		"nothing": {`{"Action":"skip","Test":"TestA"}
{"Action":"output","Output":"PASS\n"}
{"Action":"pass"}`, report{said: "PASS\n"}},
	} {
		got, err := readReport(strings.NewReader(c.said))
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := readReport(strings.NewReader("go: no such module\n")); err == nil {
		t.Error("what is no JSON passes")
	}
}

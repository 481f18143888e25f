//go:build linux

package clis

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tally counts the cases of each CLI.
var tally = struct {
	sync.Mutex
	passed, all map[string]int
}{passed: map[string]int{}, all: map[string]int{}}

func count(cli string, passed bool) {
	tally.Lock()
	defer tally.Unlock()
	tally.all[cli]++
	if passed {
		tally.passed[cli]++
	}
}

// versions are those that clis.json lists.
func versions() (map[string]string, error) {
	text, err := os.ReadFile("clis.json")
	if err != nil {
		return nil, err
	}
	var listed map[string]struct{ Package, Version string }
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name, l := range listed {
		found[name] = l.Version
	}
	return found, nil
}

// summarize leaves the lines that make test-clis ends with, one per CLI.
func summarize() error {
	listed, err := versions()
	if err != nil || len(tally.all) == 0 {
		return err
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(tally.all)) {
		parts = append(parts, fmt.Sprintf("%s %s: %d of %d cases passed", name, listed[name], tally.passed[name], tally.all[name]))
	}
	return os.WriteFile(filepath.Join(nodeModules(), "..", "summary"), []byte(strings.Join(parts, "\n")+"\n"), 0o644)
}

// What is listed is what npm is told to install.
func TestVersionsAreThoseOfThePackage(t *testing.T) {
	text, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	listed, err := versions()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Values(listed)), slices.Sorted(maps.Values(manifest.Dependencies)); !slices.Equal(got, want) {
		t.Errorf("clis.json lists %q, package.json %q", got, want)
	}
}

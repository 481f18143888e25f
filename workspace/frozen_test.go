package workspace_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/workspace"
)

// TestFrozenFormStays: runs hold the digest of the manifest that they were started
// with, so that its frozen form never changes.
func TestFrozenFormStays(t *testing.T) {
	same := func(name string, m *workspace.Manifest) {
		want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		want = bytes.TrimSuffix(want, []byte("\n"))
		if got := m.Frozen(); !bytes.Equal(got, want) {
			t.Errorf("%s is frozen as\n%s\nand was\n%s", name, got, want)
		}
		back, err := workspace.ParseFrozen(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := back.Frozen(); !bytes.Equal(got, want) {
			t.Errorf("%s comes back as\n%s\nand was\n%s", name, got, want)
		}
	}
	documents, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(documents) == 0 {
		t.Fatal("there are no documents: ", err)
	}
	for _, document := range documents {
		src, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		m := parseIn(t, string(src))
		name := strings.TrimSuffix(filepath.Base(document), ".yaml")
		same(name, m)
		same(name+".within", m.Within("/srv/in", true))
		same(name+".outside", m.Within("/srv/out", false))
		same(name+".dispatch", m.WithSubDispatch())
	}
	var none *workspace.Manifest
	same("none.dispatch", none.WithSubDispatch())
}

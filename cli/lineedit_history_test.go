package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestHistoryIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "tipstaff", "history")
	h, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two\nlines", "two\nlines", " secret", "", "  ", "three"} {
		if err := h.add(text); err != nil {
			t.Fatal(err)
		}
	}
	again, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one", "two\nlines", "three"}; !slices.Equal(again.entries, want) || !slices.Equal(h.entries, want) {
		t.Errorf("kept %q, and at hand %q", again.entries, h.entries)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
}

func TestHistoryForgetsTheOldest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	var b strings.Builder
	for i := range maxHistory + 5 {
		fmt.Fprintf(&b, "\"%d\"\n", i)
	}
	b.WriteString("not JSON\n42\n\"\"\n")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.add("newest"); err != nil {
		t.Fatal(err)
	}
	if n := len(h.entries); n != maxHistory || h.entries[0] != "6" || h.entries[n-1] != "newest" {
		t.Errorf("%d entries, from %s to %s", n, h.entries[0], h.entries[n-1])
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\n"); n != maxHistory+1 {
		t.Errorf("the file has %d lines", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v %v", info.Mode(), err)
	}
}

func TestHistoryThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &lineHistory{file: filepath.Join(dir, "file", "history")}
	if err := h.add("one"); err == nil || !strings.Contains(err.Error(), "is not kept for the next time") {
		t.Errorf("it says %v", err)
	}
	if err := h.add("two"); err != nil {
		t.Errorf("it says so twice: %v", err)
	}
	if want := []string{"one", "two"}; !slices.Equal(h.entries, want) {
		t.Errorf("at hand is %q", h.entries)
	}
	if _, err := openHistory(dir); err == nil {
		t.Error("a folder was read")
	}
}

// FuzzHistory: what is read from a file is read again from what would be written.
func FuzzHistory(f *testing.F) {
	f.Add([]byte("\"one\"\n\"two\\nlines\"\n"))
	f.Add([]byte("\"\"\nnull\n42\n\"half"))
	f.Add([]byte("\"\\ud800\"\n\"\xff\"\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries := parseHistory(data)
		var b strings.Builder
		for _, text := range entries {
			if text == "" {
				t.Error("nothing was kept")
			}
			b.Write(append(jsonOf(text), '\n'))
		}
		if again := parseHistory([]byte(b.String())); !slices.Equal(again, entries) {
			t.Errorf("%q becomes %q", entries, again)
		}
	})
}

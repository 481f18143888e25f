package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
)

func (b *book) envelopes() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, r := range b.records {
			if parsed, err := Parse(r); err == nil && IsEnvelope(parsed.Kind) && !yield(r, nil) {
				return
			}
		}
	}
}

// projectFiles writes the envelope files of a book.
func projectFiles(t *testing.T, b *book) string {
	t.Helper()
	dir := t.TempDir()
	for e := range b.envelopes() {
		name, content, err := EnvelopeFile(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEnvelopeFile(t *testing.T) {
	b, _ := wholeRun(t)
	name, content, err := EnvelopeFile(b.records[atAccept])
	if err != nil || name != "000003-intent.accept.json" {
		t.Fatalf("%s, %v", name, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil || !bytes.Equal(compact.Bytes(), b.records[atAccept]) {
		t.Errorf("the file is not the envelope with white space: %v", err)
	}
	if !bytes.HasPrefix(content, []byte("{\n  \"at\": \"")) || !bytes.HasSuffix(content, []byte("\n}\n")) {
		t.Errorf("not indented: %s", content)
	}
	if _, _, err := EnvelopeFile(b.records[atStarted]); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("a plain record: %v", err)
	}
	if _, _, err := EnvelopeFile([]byte("{")); !errors.Is(err, ErrMalformed) {
		t.Errorf("no record: %v", err)
	}
}

func TestVerifyFiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, dir string) error
		want   string // the file that is named
	}{
		{"as written", func(*testing.T, string) error { return nil }, ""},
		{"one missing", func(_ *testing.T, dir string) error {
			return os.Remove(filepath.Join(dir, "000003-intent.accept.json"))
		}, ""},
		{"no folder", func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, ""},
		{"one being written", func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, ".000003-intent.accept.json.tmp"), nil, 0o600)
		}, ""},
		{"one altered", func(t *testing.T, dir string) error {
			path := filepath.Join(dir, "000011-policy.gate.resolve.json")
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, replaceIn(t, content, "approve", "deny"), 0o600)
		}, "000011-policy.gate.resolve.json"},
		{"one added", func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "000099-intent.accept.json"), []byte("{}\n"), 0o600)
		}, "000099-intent.accept.json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := wholeRun(t)
			dir := projectFiles(t, b)
			if err := tc.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			faults, err := VerifyFiles(dir, b.envelopes())
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" && len(faults) == 0 {
				return
			}
			if len(faults) != 1 || faults[0].Code != ErrProjectionMismatch || faults[0].File != tc.want {
				t.Errorf("got %v, want %s of %q", faults, ErrProjectionMismatch, tc.want)
			}
		})
	}
}

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// EnvelopeFile gives the name and the content under which an envelope is also
// kept as a file for people to read: <seq, 6 digits>-<kind>.json, indented. The
// file proves nothing; the envelope's bytes do.
func EnvelopeFile(envelope []byte) (name string, content []byte, err error) {
	r, err := Parse(envelope)
	if err != nil {
		return "", nil, err
	}
	if !IsEnvelope(r.Kind) {
		return "", nil, fmt.Errorf("%w: %q is no kind of envelope", ErrUnknownKind, r.Kind)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, envelope, "", "  "); err != nil {
		return "", nil, err
	}
	b.WriteByte('\n')
	return envelopeName(r.Seq, r.Kind), b.Bytes(), nil
}

// ParseEnvelopeName returns the number and kind of the envelope whose file has this name; 0: no
// envelope's file is called so.
func ParseEnvelopeName(name string) (seq int64, kind string) {
	number, kind, _ := strings.Cut(strings.TrimSuffix(name, ".json"), "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 1 || !IsEnvelope(kind) || name != envelopeName(seq, kind) {
		return 0, ""
	}
	return seq, kind
}

func envelopeName(seq int64, kind string) string { return fmt.Sprintf("%06d-%s.json", seq, kind) }

// VerifyFiles compares a folder of envelope files with the envelopes. One that
// differs, or that belongs to no envelope, is [ErrProjectionMismatch]; a missing
// one is no fault, for it can be written again. Names that begin with a dot are
// files still being written.
func VerifyFiles(dir string, envelopes iter.Seq2[[]byte, error]) ([]Fault, error) {
	strangers, err := fileNames(dir)
	if err != nil {
		return nil, err
	}
	var faults []Fault
	for envelope, err := range envelopes {
		if err != nil {
			return nil, err
		}
		name, content, err := EnvelopeFile(envelope)
		if err != nil {
			continue // a fault of the record, which its verifier names
		}
		delete(strangers.set, name)
		got, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !bytes.Equal(got, content):
			faults = append(faults, projection(name, "it differs from the envelope"))
		}
	}
	for _, name := range strangers.sorted {
		if strangers.set[name] {
			faults = append(faults, projection(name, "no envelope belongs to it"))
		}
	}
	return faults, nil
}

func projection(name, message string) Fault {
	return Fault{Code: ErrProjectionMismatch, File: name, Message: message}
}

type names struct {
	sorted []string
	set    map[string]bool
}

// fileNames lists a folder; one that does not exist is empty.
func fileNames(dir string) (names, error) {
	n := names{set: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			n.sorted = append(n.sorted, e.Name())
			n.set[e.Name()] = true
		}
	}
	return n, err
}

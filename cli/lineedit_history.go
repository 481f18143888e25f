package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxHistory is how many of a person's texts are kept.
const maxHistory = 1000

// lineHistory is what a person has entered at prompts, in a file of the user's
// own: one JSON string a line, oldest first. Several commands may add to it at
// once.
type lineHistory struct {
	file    string // "": nothing is kept
	entries []string
}

// openHistory reads the file. Lines that make no sense are left out, and what is
// more than is kept leaves the file.
func openHistory(file string) (*lineHistory, error) {
	h := &lineHistory{file: file}
	if file == "" {
		return h, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		h.file = ""
		return h, err
	}
	h.entries = parseHistory(data)
	if len(h.entries) <= maxHistory {
		return h, nil
	}
	h.entries = h.entries[len(h.entries)-maxHistory:]
	f, err := os.CreateTemp(filepath.Dir(h.file), ".history-*")
	if err != nil {
		return h, err
	}
	if err := writeHistory(f, h.entries...); err != nil {
		return h, errors.Join(err, os.Remove(f.Name()))
	}
	return h, os.Rename(f.Name(), h.file)
}

func parseHistory(data []byte) (entries []string) {
	for line := range bytes.Lines(data) {
		var text string
		if json.Unmarshal(line, &text) == nil && text != "" {
			entries = append(entries, text)
		}
	}
	return entries
}

// writeHistory adds texts to a file, which is closed then.
func writeHistory(f *os.File, texts ...string) error {
	var b bytes.Buffer
	for _, text := range texts {
		b.Write(append(jsonOf(text), '\n'))
	}
	err := f.Chmod(0o600) // also where it was there before
	if err == nil {
		_, err = f.Write(b.Bytes())
	}
	return errors.Join(err, f.Close())
}

// add keeps a text. One that begins with a blank, or is that of the last time, is
// not kept.
func (h *lineHistory) add(text string) error {
	n := len(h.entries)
	if strings.TrimSpace(text) == "" || text[0] == ' ' || n > 0 && h.entries[n-1] == text {
		return nil
	}
	h.entries = append(h.entries, text)
	if len(h.entries) > maxHistory {
		h.entries = h.entries[1:]
	}
	if h.file == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(h.file), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			err = writeHistory(f, text)
		}
	}
	if err != nil {
		h.file = ""
		return fmt.Errorf("what is typed is not kept for the next time: %w", err)
	}
	return nil
}

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

// historyFile is where texts are kept between invocations.
func (e *Env) historyFile() string {
	state := e.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := e.getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "tipstaff", "history")
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
	return h, h.rewrite()
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
	if err := h.append(text); err != nil {
		h.file = ""
		return fmt.Errorf("what is typed is not kept for the next time: %w", err)
	}
	return nil
}

func (h *lineHistory) append(text string) error {
	if err := os.MkdirAll(filepath.Dir(h.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil { // also where it was there before
		return errors.Join(err, f.Close())
	}
	_, err = f.Write(append(quoted(text), '\n'))
	return errors.Join(err, f.Close())
}

// rewrite replaces the file by what is kept.
func (h *lineHistory) rewrite() error {
	var b bytes.Buffer
	for _, text := range h.entries {
		b.Write(append(quoted(text), '\n'))
	}
	f, err := os.CreateTemp(filepath.Dir(h.file), ".history-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// Anchors writes where runs come to rest to a file outside the store.
type Anchors struct {
	Rules *store.Store
	File  func() (string, error)
	Lock  string // a file that is locked meanwhile
}

// Write appends what is due to the anchor file, and crosses it off when it is on the
// disk: a crash between the two repeats lines, and loses none. again: lines that an
// earlier try may have written are looked for first.
func (w Anchors) Write(ctx context.Context, again bool) (err error) {
	if due, err := w.Rules.AnchorsDue(ctx); err != nil || len(due) == 0 {
		return err
	}
	file, err := w.File()
	if err != nil {
		return err
	}
	if file == "" {
		return errors.New("there are anchors to be written and tipstaff.yaml names no anchor.file")
	}
	unlock, err := Lock(ctx, w.Lock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	due, err := w.Rules.AnchorsDue(ctx) // another process may have been faster
	if err != nil || len(due) == 0 {
		return err
	}
	missing := due
	if again {
		missing = slices.DeleteFunc(slices.Clone(due), func(a journal.Anchor) bool {
			known, err := journal.ReadAnchors(file, a.Run)
			return err == nil && slices.Contains(known[a.Seq], a.Hash)
		})
	}
	if err := appendAnchors(file, missing); err != nil {
		return fmt.Errorf("writing the anchor file: %w", err)
	}
	return w.Rules.AnchorsWritten(ctx, due)
}

// appendAnchors adds lines to a file that may only be added to. A line that somebody
// has not finished is ended first.
func appendAnchors(file string, list []journal.Anchor) error {
	if len(list) == 0 {
		return nil
	}
	var lines []byte
	if unfinished(file) {
		lines = append(lines, '\n')
	}
	for _, d := range list {
		lines = append(lines, d.Line()...)
	}
	_, before := os.Stat(file)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(lines)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && errors.Is(before, fs.ErrNotExist) {
		err = SyncDir(filepath.Dir(file))
	}
	return err
}

// unfinished reports whether a file ends within a line.
func unfinished(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	last := make([]byte, 1)
	if _, err := f.Seek(-1, io.SeekEnd); err != nil {
		return false // it is empty
	}
	n, _ := f.Read(last)
	return n == 1 && last[0] != '\n'
}

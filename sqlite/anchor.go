package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// anchorFormat is the format of the store that brought anchors.
const anchorFormat = 5

// anchorRetry is the time between two tries to write anchors.
const anchorRetry = 10 * time.Second

// projectAnchor learns from a plan in force whether its run is anchored, and of such
// a run notes where it comes to rest: parked, interrupted or ended.
func (t *tx) projectAnchor(st *runState, r flow.Record) error {
	switch kind := tipstaff.Kind(r.Kind); {
	case kind == tipstaff.KindPlanProposed && st.kind == "plan":
		anchor, err := t.w.s.asksForAnchor(r.Body)
		if err != nil || anchor == st.anchor {
			return err
		}
		st.anchor = anchor
		return t.exec(`UPDATE runs SET anchor = ? WHERE n = ?`, map[bool]int64{true: 1}[anchor], st.n)
	case st.anchor && (kind == tipstaff.KindRunParked || kind == tipstaff.KindRunInterrupted || kind.Terminal()):
		t.rested = true
		return t.exec(`INSERT INTO outbox (run, seq, hash, at) VALUES (?, ?, ?, ?)`, st.n, st.seq, st.hash[:], r.At.UnixNano())
	}
	return nil
}

// asksForAnchor reads the plan that a plan.proposed names. One that is not stored
// asks for nothing.
func (s *Store) asksForAnchor(proposed json.RawMessage) (bool, error) {
	var body struct {
		Program string `json:"program_digest"`
	}
	var doc struct {
		Intent struct {
			Anchor bool `json:"anchor"`
		} `json:"intent"`
	}
	if err := json.Unmarshal(proposed, &body); err != nil {
		return false, err
	}
	program, err := s.Blob(context.Background(), body.Program)
	if errors.Is(err, flow.ErrNoBlob) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(program, &doc)
	}
	return doc.Intent.Anchor, err
}

// anchor writes what is due, and has itself called again if it cannot. Lines that an
// earlier try may have written are looked for first.
func (f *filer) anchor(again bool) {
	f.anchoring, f.retry = f.s.writeAnchors(context.Background(), again), nil
	if f.anchoring != nil {
		f.retry = time.After(anchorRetry)
		f.anchoring = fmt.Errorf("%w: it is tried again, also by whoever next opens the store", f.anchoring)
	}
}

// due is a row of the outbox.
type due struct {
	n int64
	journal.Anchor
}

func (s *Store) outbox(ctx context.Context) (list []due, err error) {
	err = s.read(ctx, func(c *conn) error {
		if format, err := c.number(ctx, `PRAGMA user_version`); err != nil || format < anchorFormat {
			return err
		}
		return c.query(ctx, func(r row) error {
			d := due{n: r.int(0), Anchor: journal.Anchor{Run: r.text(1), Seq: r.int(2), At: r.time(4)}}
			copy(d.Hash[:], r.bytes(3))
			list = append(list, d)
			return nil
		}, `SELECT o.run, r.id, o.seq, o.hash, o.at FROM outbox o JOIN runs r ON r.n = o.run ORDER BY o.at, o.run, o.seq`)
	})
	return list, err
}

// writeAnchors appends what is in the outbox to the anchor file, and crosses it off
// when it is on the disk: a crash between the two repeats lines, and loses none.
func (s *Store) writeAnchors(ctx context.Context, again bool) (err error) {
	if list, err := s.outbox(ctx); err != nil || len(list) == 0 {
		return err
	}
	file, err := s.anchorFile()
	if err != nil {
		return err
	}
	if file == "" {
		return errors.New("there are anchors to be written and tipstaff.yaml names no anchor.file")
	}
	unlock, err := lockFile(s.dir.at("outbox.lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	list, err := s.outbox(ctx) // another process may have been faster
	if err != nil || len(list) == 0 {
		return err
	}
	missing := list
	if again {
		missing = slices.DeleteFunc(slices.Clone(list), func(d due) bool {
			known, err := journal.ReadAnchors(file, d.Run)
			return err == nil && slices.Contains(known[d.Seq], d.Hash)
		})
	}
	if err := appendAnchors(file, missing); err != nil {
		return fmt.Errorf("writing the anchor file: %w", err)
	}
	return s.do(ctx, &op{apply: func(t *tx) error {
		for _, d := range list {
			if err := t.exec(`DELETE FROM outbox WHERE run = ? AND seq = ?`, d.n, d.Seq); err != nil {
				return err
			}
		}
		return nil
	}})
}

func (s *Store) anchorFile() (string, error) {
	if s.opts.Anchor == nil {
		return "", nil
	}
	return s.opts.Anchor()
}

// appendAnchors adds lines to a file that may only be added to. A line that somebody
// has not finished is ended first.
func appendAnchors(file string, list []due) error {
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
		err = syncDir(filepath.Dir(file))
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

// checkAnchors compares what was loaded with the anchor file: a tail that nobody has
// signed can be cut off without a key, but not there. The last anchor covers all
// before it.
func (s *Store) checkAnchors(ctx context.Context, l *loading) error {
	file, err := s.anchorFile()
	if err != nil || file == "" {
		return err
	}
	anchors, unread := journal.ReadAnchors(file, l.row.ID)
	last, head := anchors.Last(), l.part.Head().Seq
	if last > head {
		return fmt.Errorf("%w: run %s ends at record %d, %s says that it had %d", flow.ErrIntegrity, l.row.ID, head, file, last)
	}
	if last == 0 {
		if unread == nil {
			unread = fmt.Errorf("%s does not name it", file)
		}
		return s.checkUnanchored(ctx, l, unread)
	}
	return s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error {
			for _, h := range anchors[last] {
				if !slices.Equal(h[:], r.bytes(0)) {
					return unsound(l.row.ID, last, fmt.Errorf("%s says that its hash is %s", file, h))
				}
			}
			return nil
		}, `SELECT hash FROM records WHERE run = ? AND seq = ?`, l.row.N, last)
	})
}

// checkUnanchored refuses a run that has come to rest, that is to be anchored and
// whose anchor is neither written nor waits to be.
func (s *Store) checkUnanchored(ctx context.Context, l *loading, why error) error {
	var missing int64
	err := s.read(ctx, func(c *conn) (err error) {
		missing, err = c.number(ctx, `SELECT count(*) FROM runs WHERE n = ? AND anchor = 1 AND owned IN ('run.parked', 'run.interrupted')
			AND NOT EXISTS (SELECT 1 FROM outbox WHERE run = n)`, l.row.N)
		return err
	})
	if err == nil && missing > 0 {
		err = fmt.Errorf("%w: run %s is anchored: %w", flow.ErrIntegrity, l.row.ID, why)
	}
	return err
}

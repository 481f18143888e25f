package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"net/url"
	"os"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite"
)

// bare is what the disk costs through SQLite alone: the driver, the pragmas and
// the table of the store, rows of the same size, and nothing else. It stands on
// the driver itself, as the store does; a pool would make it slower than it is.
type bare struct {
	conn                  driver.Conn
	begin, commit, insert driver.Stmt
	seq                   int64
	args                  []driver.NamedValue
}

const kindOfStep = "effect.finished"

func newBare(path string, recordSize int) (*bare, error) {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "foreign_keys(ON)", "cache_size(-16384)", "journal_mode(WAL)",
		"synchronous(FULL)", "wal_autocheckpoint(1000)"}}
	connector, err := sqlite3.NewConnector((&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	b := &bare{}
	if b.conn, err = connector.Connect(context.Background()); err != nil {
		return nil, err
	}
	_, err = b.conn.(driver.ExecerContext).ExecContext(context.Background(), `CREATE TABLE records (run INTEGER NOT NULL, seq INTEGER NOT NULL,
		kind TEXT NOT NULL, bytes BLOB NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID`, nil)
	for _, s := range []struct {
		stmt *driver.Stmt
		sql  string
	}{
		{&b.begin, `BEGIN IMMEDIATE`}, {&b.commit, `COMMIT`},
		{&b.insert, `INSERT INTO records (run, seq, kind, bytes, hash) VALUES (?, ?, ?, ?, ?)`},
	} {
		if err == nil {
			*s.stmt, err = b.conn.Prepare(s.sql)
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.conn.Close())
	}
	for i, v := range []any{int64(0), int64(0), kindOfStep, make([]byte, recordSize), make([]byte, 32)} {
		b.args = append(b.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return b, nil
}

func (b *bare) close() error {
	return errors.Join(b.insert.Close(), b.begin.Close(), b.commit.Close(), b.conn.Close())
}

func exec(s driver.Stmt, args []driver.NamedValue) error {
	_, err := s.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return err
}

// step inserts one row, which is a transaction of its own unless one is open.
func (b *bare) step() error { return b.stepOf(1) }

func (b *bare) stepOf(run int64) error {
	b.seq++
	b.args[0].Value, b.args[1].Value = run, b.seq
	return exec(b.insert, b.args)
}

// group commits in one transaction what many queue, as fast as they come.
func (b *bare) group(workers int, d time.Duration) (rate float64, err error) {
	type step struct {
		run  int64
		done chan error
	}
	queue := make(chan step, workers)
	var all sync.WaitGroup
	counts := make([]int, workers)
	start := time.Now()
	for i := range workers {
		all.Go(func() {
			s := step{int64(i), make(chan error, 1)}
			for time.Since(start) < d {
				queue <- s
				if <-s.done != nil {
					return
				}
				counts[i]++
			}
		})
	}
	go func() { all.Wait(); close(queue) }()
	batch := make([]step, 0, workers)
	for first := range queue {
		batch = append(batch[:0], first)
		for n := len(queue); n > 0; n-- {
			batch = append(batch, <-queue)
		}
		failure := exec(b.begin, nil)
		for _, s := range batch {
			if failure == nil {
				failure = b.stepOf(s.run)
			}
		}
		if failure == nil {
			failure = exec(b.commit, nil)
		}
		err = errors.Join(err, failure)
		for _, s := range batch {
			s.done <- failure
		}
	}
	spent, total := time.Since(start), 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / spent.Seconds(), err
}

// raw is what the disk costs with no database at all: append, then sync.
type raw struct {
	file   *os.File
	record []byte
}

func newRaw(path string, recordSize int) (*raw, error) {
	f, err := os.Create(path)
	return &raw{f, make([]byte, recordSize)}, err
}

func (r *raw) step() error {
	if _, err := r.file.Write(r.record); err != nil {
		return err
	}
	return r.file.Sync()
}

func (r *raw) close() { _ = r.file.Close() } // every byte of it was synced

package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// callLog is the log of tool calls that TIPSTAFF_LOG names.
type callLog struct {
	mu sync.Mutex
	*agent.CallLog
	file *os.File // nil: it is standard error
}

// openLog opens a log, one JSON object a line: in a file, which it adds to, or for
// "-" on standard error. Its key is the store's, so that the hashes of its lines can
// be compared.
func openLog(name string, key []byte, stderr io.Writer) (*callLog, error) {
	l := &callLog{}
	to := stderr
	if name != "-" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			var at *fs.PathError
			if errors.As(err, &at) {
				err = at.Err
			}
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the log %s cannot be written: %v", name, err).
				WithHint("set TIPSTAFF_LOG to a file, or to - for standard error")
		}
		l.file, to = f, f
	}
	l.CallLog = agent.NewCallLog(slog.New(slog.NewJSONHandler(to, nil)), key)
	return l, nil
}

func (l *callLog) Appended(run string, d flow.Draft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.CallLog.Appended(run, d)
}

func (l *callLog) Recorded(run string, d flow.Draft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.CallLog.Recorded(run, d)
}

func (l *callLog) Forget(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.CallLog.Forget(run)
}

func (l *callLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

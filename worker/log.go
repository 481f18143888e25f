package worker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/redact"
)

// What of a text the readable log shows, in runes.
const (
	textShown   = 2_000
	outputShown = 4_000
)

const tailKept = 4 << 10 // of stderr

// readable is an entry of the readable log.
type readable struct {
	mark, title, text string
	most              int   // runes of the text; 0: textShown
	size              int64 // bytes of the text, if only its beginning is here
}

// logs are the files of an invocation.
type logs struct {
	files    []*os.File
	raw      *bufio.Writer // stdout as received
	stderr   *bufio.Writer
	readable *bufio.Writer
	names    Logs
}

func openLogs(folder, invocation string) (*logs, error) {
	l := &logs{}
	open := func(ending string) (*bufio.Writer, string) {
		name := filepath.Join(folder, invocation+ending)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			for _, open := range l.files {
				if open != nil {
					_ = open.Close()
				}
			}
			l.files = append(l.files, nil)
			return nil, err.Error()
		}
		l.files = append(l.files, f)
		return bufio.NewWriterSize(f, chunk), name
	}
	var fault string
	if l.raw, l.names.Raw = open(".jsonl"); l.raw == nil {
		return nil, errors.New(l.names.Raw)
	}
	if l.stderr, fault = open(".stderr"); l.stderr == nil {
		return nil, errors.New(fault)
	}
	if l.readable, l.names.Readable = open(".log"); l.readable == nil {
		return nil, errors.New(l.names.Readable)
	}
	return l, nil
}

// write adds an entry to the readable log. Nothing in it can change a terminal.
func (l *logs) write(r readable) {
	most := r.most
	if most == 0 {
		most = textShown
	}
	text, left := cutRunes(r.text, most)
	text = strings.ReplaceAll(text, "\t", "    ")
	out := l.readable // whose first error stays, and is returned by flush
	_, _ = out.WriteString(r.mark)
	_ = out.WriteByte(' ')
	_, _ = out.WriteString(tipstaff.PrintableProse(r.title))
	text = strings.TrimRight(text, "\n")
	between := "\n  "
	if !strings.Contains(text, "\n") {
		between = ": "
	}
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		_, _ = out.WriteString(between)
		_, _ = out.WriteString(tipstaff.PrintableProse(strings.TrimSuffix(line, "\r")))
		text = rest
	}
	if r.size > 0 {
		fmt.Fprintf(out, " … (%d bytes)", r.size)
	} else if left > 0 {
		fmt.Fprintf(out, " … (%d more characters)", left)
	}
	_ = out.WriteByte('\n')
}

func (l *logs) flush() error { return errors.Join(l.raw.Flush(), l.readable.Flush()) }

func (l *logs) close() error {
	err := errors.Join(l.flush(), l.stderr.Flush())
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// cutRunes is the beginning of a text, and how many runes it is without.
func cutRunes(s string, most int) (string, int) {
	if len(s) <= most {
		return s, 0
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i], utf8.RuneCountInString(s[i:])
		}
		n++
	}
	return s, 0
}

// redaction replaces what no log, event or result may hold.
func redaction(given func([]byte) []byte, secrets map[string]string) func([]byte) []byte {
	own := redact.New(secrets)
	return func(b []byte) []byte {
		if given != nil {
			b = given(b)
		}
		return own.Bytes(b)
	}
}

// tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) add(b []byte) {
	if len(b) > tailKept {
		b = b[len(b)-tailKept:]
	}
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailKept; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), "�") }

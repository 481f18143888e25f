package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// collect is the data of a stream's events, and the error that ended them.
func collect(body io.Reader) (list []string, err error) {
	for data, err := range serverSentEvents(body) {
		if err != nil {
			return list, err
		}
		list = append(list, string(data))
	}
	return list, nil
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"none", "", nil},
		{"one", "data: a\n\n", []string{"a"}},
		{"two", "data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"mixed ends", "data: a\r\ndata: b\n\rdata: c\r\r\n", []string{"a\nb", "c"}},
		{"lines are joined", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"without the space", "data:a\n\n", []string{"a"}},
		{"one space is dropped, not two", "data:  a \n\n", []string{" a "}},
		{"a colon in the data", "data: a: b\n\n", []string{"a: b"}},
		{"comments", ": a\n\n:\ndata: b\n: c\ndata: d\n\n", []string{"b\nd"}},
		{"other fields", "event: e\nid: 1\nretry: 2\ndata: a\nodd\n\n", []string{"a"}},
		{"names are exact", "Data: a\n data: b\ndatas: c\n\n", nil},
		{"an event without data", "event: ping\n\ndata: a\n\n", []string{"a"}},
		{"data that is empty", "data\n\ndata:\ndata\n\n", []string{"", "\n"}},
		{"empty lines", "\n\n\ndata: a\n\n\n\n", []string{"a"}},
		{"byte order mark", "\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []string{"a"}},
		{"not ended by its empty line", "data: a\n\ndata: b\n", []string{"a"}},
		{"cut within a line", "data: a\n\ndata: b\n\ndata: c", []string{"a", "b"}},
		{"bytes that are no text", "data: \xff\x00\n\n", []string{"\xff\x00"}},
	} {
		got, err := collect(strings.NewReader(c.body))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.name, err, diff)
		}
	}
}

// later fails the test when it is read before somebody has seen what came before it.
type later struct {
	t    *testing.T
	seen bool
}

func (l *later) Read([]byte) (int, error) {
	if !l.seen {
		l.t.Error("an event that is whole waits for the next byte")
	}
	return 0, io.EOF
}

func TestEventsComeAtOnce(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		rest := &later{t: t}
		for data := range serverSentEvents(io.MultiReader(strings.NewReader("data: a"+end+end[:1]), rest)) {
			rest.seen = string(data) == "a"
		}
	}
}

func TestEventsEndWithTheErrorOfTheirReader(t *testing.T) {
	broken := errors.New("broken")
	got, err := collect(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if !slices.Equal(got, []string{"a"}) || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEventsStopWhenNobodyListens(t *testing.T) {
	for data, err := range serverSentEvents(strings.NewReader("data: a\n\ndata: b\n\n")) {
		if string(data) != "a" || err != nil {
			t.Errorf("%q, %v", data, err)
		}
		break
	}
}

func TestTooLongEventsAreRefused(t *testing.T) {
	whole := strings.Repeat("a", maxEvent-len("data:"))
	if got, err := collect(strings.NewReader("data:" + whole + "\n\n")); err != nil || len(got) != 1 || got[0] != whole {
		t.Errorf("as long as may be: %d events, %v", len(got), err)
	}
	line := "data:" + strings.Repeat("a", 1<<20) + "\n"
	for name, body := range map[string]string{
		"a line":        "data:" + whole + "a\n\n",
		"a comment":     ":" + strings.Repeat("a", maxEvent),
		"several lines": strings.Repeat(line, maxEvent>>20) + "\n",
	} {
		w := newWire("vendor", "host", "", nil)
		_, err := w.follow(context.Background(), serverSentEvents(strings.NewReader(body)), newChatAnswer(w, func(agent.Delta) {}))
		var e *flow.Error
		if !errors.As(err, &e) || e.Code != CodeProtocol || e.Retry || !strings.Contains(e.Message, "longer than 8 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plainEvents takes a whole stream apart, step by step as the standard tells it.
func plainEvents(body string) (list []string) {
	body = strings.TrimPrefix(body, "\uFEFF")
	body = strings.ReplaceAll(strings.ReplaceAll(body, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(body, "\n")
	var data string
	for _, line := range lines[:len(lines)-1] {
		switch {
		case line == "" && data != "":
			list = append(list, strings.TrimSuffix(data, "\n"))
			data = ""
		case line == "data":
			data += "\n"
		case strings.HasPrefix(line, "data:"):
			data += strings.TrimPrefix(line[len("data:"):], " ") + "\n"
		}
	}
	return list
}

// However the bytes of a stream arrive, its events are those of the standard.
func FuzzEvents(f *testing.F) {
	for _, body := range []string{
		"data: a\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata:b\r\r", ": c\n\ndata: a\ndata: b\n\n",
		"\uFEFFdata\n\n", "event: e\nid: 1\ndata: a\n\n", "data: a\n", "\r\n\n\r", "\uFEFF\uFEFFdata: a\n\n",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want := plainEvents(string(body))
		for name, reader := range map[string]io.Reader{
			"at once": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body)), "with the end": iotest.DataErrReader(bytes.NewReader(body)),
		} {
			got, err := collect(reader)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	})
}

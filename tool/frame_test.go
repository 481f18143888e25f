package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFramesAreRead(t *testing.T) {
	f := newLineReader(iotest.OneByteReader(strings.NewReader("{\"a\":1}\n\r\n  \n[1]\r\n{\"half\"")))
	for _, want := range []string{`{"a":1}`, "[1]"} {
		if got, err := f.message(); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %s", got, err, want)
		}
	}
	if _, err := f.message(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a half message is %v", err)
	}
	if _, err := newLineReader(strings.NewReader("\n\n")).message(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

// What is too long is read past: the call it replies to is known, whatever the order of
// its members, and the next message is read.
func TestLongFrameIsReadPast(t *testing.T) {
	text := strings.Repeat("x", 1000)
	long := `"result":{"id":8,"list":[{"id":1},"id",{"a":"\"id\":9}` + text + `"}]}`
	for message, known := range map[string]bool{
		`{"jsonrpc":"2.0","id":7,` + long + `}`:               true,
		`{"id":7,"jsonrpc":"2.0",` + long + `}`:               true,
		` { "id" : 7 , ` + long + `,"jsonrpc":"2.0"}`:         true,
		`{"jsonrpc":"2.0",` + long + `,"id":7}`:               true,
		`{` + long + `,"jsonrpc":"2.0","id":7}`:               true,
		`{` + long + ` , "id" : 7 , "jsonrpc" : "2.0" } `:     true,
		`{"jsonrpc":"2.0",` + long + `}`:                      false,
		`{"method":"x","params":{` + long + `,"id":7}}`:       false,
		`{"params":"` + text + `,\"id\":7}"}`:                 false,
		`{"jsonrpc":"2.0","id":"` + text + `","result":null}`: false,
	} {
		f := newLineReader(iotest.HalfReader(strings.NewReader(message + "\n{}\n")))
		f.limit = 100
		_, err := f.message()
		var large *oversized
		if !errors.As(err, &large) || large.size != len(message)+1 {
			t.Fatalf("%.60s: got %+v (%v)", message, large, err)
		}
		if id, ok := large.call(); ok != known || ok && id.Raw() != int64(7) {
			t.Errorf("%.60s: got the id %v, %v", message, id.Raw(), ok)
		}
		if next, err := f.message(); err != nil || string(next) != "{}" {
			t.Errorf("after it comes %q, %v", next, err)
		}
	}
}

func TestEventsArePassedOn(t *testing.T) {
	long := strings.Repeat("x", 300)
	in := ": hello\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\nevent: other\ndata: {}\n\r\ndata: \"" + long + "\"\n\ndata: 2"
	r := eventReader{lines: newLineReader(iotest.HalfReader(strings.NewReader(in)))}
	r.lines.limit = 200
	var shown []string
	r.show = func(data []byte) { shown = append(shown, string(data)) }
	r.instead = func(size int) []byte { return fmt.Appendf(nil, "%d", size) }
	out, err := io.ReadAll(&r)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"{\"a\":\n1}", "2"}; fmt.Sprint(shown) != fmt.Sprint(want) {
		t.Errorf("shown was %q, want %q", shown, want)
	}
	if want := strings.Replace(in, "data: \""+long+"\"\n\n", "data: 310\n\n", 1); string(out) != want {
		t.Errorf("passed on was\n%q, want\n%q", out, want)
	}
}

// FuzzEvents: what passes is what came, and the data that is shown is the data of
// the events.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: 1\n\ndata: 2\n\n"), uint8(2))
	f.Add([]byte("event: x\r\ndata: 1\r\n\r\n:\n\nid: 4\n"), uint8(1))
	f.Add([]byte("data\n\n\n\ndata:3"), uint8(9))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		r := eventReader{lines: newLineReader(pieces{bytes.NewReader(data), int(piece) + 1})}
		shown := 0
		r.show = func(d []byte) { shown += len(d) }
		r.instead = func(int) []byte { t.Error("nothing was too long"); return nil }
		out, err := io.ReadAll(&r)
		if err != nil || !bytes.Equal(out, data) {
			t.Errorf("%q became %q, %v", data, out, err)
		}
		if shown > len(data) {
			t.Errorf("%d bytes were shown of %d", shown, len(data))
		}
	})
}

// pieces reads a few bytes at a time.
type pieces struct {
	io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFramesAreRead(t *testing.T) {
	f := newFrames(iotest.OneByteReader(strings.NewReader("{\"a\":1}\n\r\n  \n[1]\r\n{\"half\"")))
	for _, want := range []string{`{"a":1}`, "[1]"} {
		if got, err := f.next(); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %s", got, err, want)
		}
	}
	if _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a half message is %v", err)
	}
	if _, err := newFrames(strings.NewReader("\n\n")).next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

// What is too long is read past: its id is known, and the next message is read.
func TestLongFrameIsReadPast(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for message, id := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":{"id":8,"text":"` + long + `"}}`:                  "7",
		`{"result":{"list":[{"id":1},"id",{"a":"` + long + `"}]},"id" : "a\"b,}","x":null}`: `"a\"b,}"`,
		`{"x":"\"id\":1,` + long + `","id":-3.5e2}`:                                         "-3.5e2",
		`{"x":["` + long + `"]}`: "",
		`{"id":"` + long + `"}`:  "",
	} {
		f := newFrames(iotest.HalfReader(strings.NewReader(message + "\n{}\n")))
		f.limit = 100
		_, err := f.next()
		var large *oversized
		if !errors.As(err, &large) || string(large.id) != id || large.size != len(message)+1 {
			t.Errorf("%.60s: got %+v (%v), want the id %s", message, large, err, id)
		}
		if next, err := f.next(); err != nil || string(next) != "{}" {
			t.Errorf("after it comes %q, %v", next, err)
		}
	}
}

// FuzzSkimmer: of any JSON object the id is found that a decoder finds, however
// the object is cut into pieces.
func FuzzSkimmer(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"id":8}}`), uint8(3))
	f.Add([]byte(`{"a":"\\\"id\":1","id":"x\\"}`), uint8(1))
	f.Add([]byte(` { "id" : null , "b" : [ { } ] } `), uint8(200))
	f.Add([]byte(`{"id":1,"id":2}`), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) != nil || object == nil {
			return
		}
		want := object["id"]
		if len(want) >= maxID || len(want) > 0 && (want[0] == '{' || want[0] == '[') || bytes.Contains(data, []byte(`\u`)) {
			return // no id that a reply could have; or a name that is spelled in another way
		}
		var s skimmer
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			s.read(rest[:n])
			rest = rest[n:]
		}
		if string(s.id) != string(want) {
			t.Errorf("%q: got %q, want %q", data, s.id, want)
		}
	})
}

func TestEventsArePassedOn(t *testing.T) {
	long := strings.Repeat("x", 300)
	in := ": hello\n\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\nevent: other\ndata: {}\n\r\ndata: \"" + long + "\"\n\ndata: 2"
	r := newEventReader(iotest.HalfReader(strings.NewReader(in)))
	r.limit = 200
	var shown []string
	r.show = func(data []byte) { shown = append(shown, string(data)) }
	r.instead = func(size int) []byte { return fmt.Appendf(nil, "%d", size) }
	out, err := io.ReadAll(r)
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
		r := newEventReader(pieces{bytes.NewReader(data), int(piece) + 1})
		shown := 0
		r.show = func(d []byte) { shown += len(d) }
		r.instead = func(int) []byte { t.Error("nothing was too long"); return nil }
		out, err := io.ReadAll(r)
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

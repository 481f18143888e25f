package builtin

import (
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMayDial(t *testing.T) {
	s := New(Options{Hosts: []string{"example.com", "10.0.0.5", "192.168.1.1:8080", "localhost", "[fd00::1]"}})
	for address, want := range map[string]bool{
		"93.184.216.34:443":                true,
		"[2606:2800:220:1::1]:443":         true,
		"10.0.0.5:80":                      true, // listed literally
		"10.0.0.6:80":                      false,
		"192.168.1.1:8080":                 true,
		"192.168.1.1:80":                   false,
		"127.0.0.1:80":                     true, // localhost is listed
		"[::1]:80":                         true,
		"[fd00::1]:80":                     true,
		"[fd00::2]:80":                     false,
		"[::ffff:10.0.0.6]:80":             false,
		"[::ffff:10.0.0.5]:80":             true,
		"169.254.169.254:80":               false,
		"[fe80::1%eth0]:80":                false,
		"172.16.0.1:80":                    false,
		"100.64.0.1:80":                    false,
		"0.0.0.0:80":                       false,
		"[::]:80":                          false,
		"224.0.0.1:80":                     false,
		"255.255.255.255:80":               false,
		"[64:ff9b::a00:6]:80":              false, // 10.0.0.6 behind a translator
		"[2002:a00:6::1]:80":               false,
		"198.18.0.1:80":                    false,
		"not an address":                   false,
		net.JoinHostPort("240.0.0.1", "1"): false,
	} {
		if err := s.mayDial(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := New(Options{Hosts: []string{"example.com"}}).mayDial("127.0.0.1:80"); err == nil {
		t.Error("the loopback address may be dialled although nobody listed it")
	}
}

func TestPiecesAreCutBetweenCharacters(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "aé": 3, "a\xc3": 1, "a\xe2\x82": 1, "a\xe2\x82\xac": 4, "\xf0\x9f\x98": 0, "a\xff": 2, "\x80\x80\x80\x80\x80": 5} {
		if got := wholeRunes([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	var pieces []string
	c := newCollector("stdout", func(o Output) { pieces = append(pieces, o.Chunk) })
	c.take([]byte(strings.Repeat("x", pieceSize-1) + "\xc3"))
	c.take([]byte("\xa9y"))
	c.flush(true)
	if got := strings.Join(pieces, "|"); got != strings.Repeat("x", pieceSize-1)+"|éy" {
		t.Errorf("the pieces are %q", got)
	}
	c.flush(true)
	if len(pieces) != 2 {
		t.Error("a piece came after the final one")
	}
}

// TestDescendantOfItsOwnSessionDoesNotHoldTheCall: it left the group and keeps
// the pipe open; the call ends all the same.
func TestDescendantOfItsOwnSessionDoesNotHoldTheCall(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	if err != nil {
		t.Skip("there is no setsid here")
	}
	p := &process{cmd: exec.Command("sh", "-c", setsid+" sh -c 'touch up; exec sleep 5' & while [ ! -e up ]; do :; done; echo done")}
	p.cmd.Dir = t.TempDir()
	began := time.Now()
	e, err := p.run(context.Background())
	if err != nil || e.stdout != "done\n" || e.code != 0 {
		t.Errorf("got %+v, %v", e, err)
	}
	if took := time.Since(began); took > 4*time.Second || took < drainLimit {
		t.Errorf("it took %v", took)
	}
}

func TestProgramThatCannotBeStarted(t *testing.T) {
	p := &process{cmd: &exec.Cmd{Path: "/nonexistent/program", Args: []string{"x"}}, stdin: "text"}
	if _, err := p.run(context.Background()); err == nil {
		t.Error("it was started")
	}
}

// TestPanicIsAnErrorOfTheServer: it does not end the process, and is told as a fault of
// the server, not as an answer of the tool.
func TestPanicIsAnErrorOfTheServer(t *testing.T) {
	defer func(all []tool) { tools = all }(tools)
	tools = append(tools[:len(tools):len(tools)], function(definition{name: "boom"}, func(*Server, call, struct{}) (answer, error) { panic("boom") }))
	r, err := New(Options{}).Call(t.Context(), Call{Tool: "boom", Args: json.RawMessage("{}")})
	if err == nil || !strings.Contains(err.Error(), "boom panicked: boom") {
		t.Errorf("got %+v, %v", r, err)
	}
	for name, c := range map[string]Call{"unknown argument": {Tool: "boom", Args: json.RawMessage(`{"x":1}`)}, "unknown tool": {Tool: "bang", Args: json.RawMessage("{}")}} {
		if r, err := New(Options{}).Call(t.Context(), c); err != nil || !r.Failed {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

package builtin

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// A descendant that left the session and keeps the pipe open does not hold the call, and
// ends with it.
func TestDescendantOfItsOwnSessionEndsWithTheCall(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	dir := t.TempDir()
	s := New(Options{Workspace: dir, Programs: []string{"sh"}})
	began := time.Now()
	a, err := s.exec(call{ctx: t.Context()}, execArgs{Argv: []string{"sh", "-c", "setsid sh -c 'echo $$ > pid; touch up; sleep 30; :' & while [ ! -e up ]; do :; done; echo done"}})
	if out := a.value.(executed); err != nil || out.Stdout != "done\n" || out.ExitCode != 0 {
		t.Errorf("got %+v, %v", a, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
		t.Errorf("%s lives on: %s", pid, stat)
	}
}

func TestProgramWithoutInputHasNoPipe(t *testing.T) {
	s := New(Options{Workspace: t.TempDir(), Programs: []string{"sh"}})
	for input, want := range map[string]string{"": "none\n", "x": "pipe\n"} {
		a, err := s.exec(call{ctx: t.Context()}, execArgs{Argv: []string{"sh", "-c", "if [ -p /dev/stdin ]; then echo pipe; else echo none; fi"}, Stdin: input})
		if err != nil || a.text != want {
			t.Errorf("with input %q: %q, %v", input, a.text, err)
		}
	}
}

func TestProgramThatCannotBeStarted(t *testing.T) {
	s := New(Options{Workspace: t.TempDir(), Programs: []string{"/nonexistent/program"}})
	if _, err := s.exec(call{ctx: t.Context()}, execArgs{Argv: []string{"/nonexistent/program"}, Stdin: "text"}); err == nil {
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

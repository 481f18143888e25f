package tooltest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// word is the first argument of a process that is to be a server.
const word = "tooltest-server"

// Options of a server, as arguments to Command.
const (
	Old     = "old"     // ends itself at anything but initialize, as servers of one library do
	Mute    = "mute"    // takes no notice of server/discover
	Banner  = "banner"  // prints a greeting to where its messages go
	Deaf    = "deaf"    // takes no notice of the end of its input, nor of SIGTERM
	Flood   = "flood"   // prints to its error output without end
	Twice   = "twice"   // lists one tool twice
	Huge    = "huge"    // lists a tool whose description has ten million bytes
	Silent  = "silent"  // answers nothing at all
	Dies    = "dies"    // says why, and ends itself, before it answers anything
	Reveals = "reveals" // tells its credential in the description of a tool
	// Version=… is what it reports, 1.0.0 unless given; Protocol=… is the one
	// revision that it speaks, 2025-11-25 unless given; Count=FILE gets one byte for
	// each call.
	Version  = "version="
	Protocol = "protocol="
	Count    = "count="
)

// Command is how a program that calls Main is started as a server.
func Command(program string, options ...string) []string {
	return append([]string{program, word}, options...)
}

// Main is a server if the process was started as one, and does not return then. It ends with
// syscall.Exit: the race detector would wait for a second, for servers have no GORACE in
// their environment.
func Main() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case word:
		s := &server{options: os.Args[2:], out: os.Stdout, cancels: map[string]chan struct{}{}}
		syscall.Exit(s.serve(os.Stdin))
	case lingerWord:
		linger(os.Args[2:])
	}
}

type server struct {
	options []string
	changed bool // its list is another since the tool swap was called

	mu      sync.Mutex // held while a message is written
	out     io.Writer
	calls   sync.Mutex
	cancels map[string]chan struct{}
}

func (s *server) has(option string) bool { return slices.Contains(s.options, option) }

func (s *server) value(option, otherwise string) string {
	for _, o := range s.options {
		if v, ok := strings.CutPrefix(o, option); ok {
			return v
		}
	}
	return otherwise
}

// message is what comes in.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (s *server) serve(in io.Reader) int {
	if s.has(Deaf) {
		signal.Ignore(syscall.SIGTERM)
	}
	if s.has(Banner) {
		s.write("Server ready. Have fun!")
	}
	if s.has(Dies) {
		fmt.Fprintln(os.Stderr, "no database at", os.Getenv("DATABASE"))
		return 3
	}
	if s.has(Flood) {
		go flood()
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return 1
		}
		if code := s.handle(m); code >= 0 {
			return code
		}
	}
	if s.has(Deaf) {
		time.Sleep(time.Minute) // longer than any test, and not for ever
	}
	return 0
}

func flood() {
	line := []byte(strings.Repeat("all is well ", 100) + "\n")
	for {
		if _, err := os.Stderr.Write(line); err != nil {
			return
		}
	}
}

// handle returns the code to exit with, -1 to go on.
func (s *server) handle(m message) int {
	switch {
	case s.has(Silent):
	case m.Method == "server/discover" && s.discovered():
		s.reply(m.ID, fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":%s}}`, s.protocol(), s.info()))
	case m.Method == "initialize" && !s.discovered():
		s.reply(m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":%s}`, s.protocol(), s.info()))
	case m.Method == "initialize":
		s.fail(m.ID, -32004, "only the protocol "+s.protocol()+" is spoken here")
	case s.has(Old) && m.Method == "server/discover":
		return 2
	case s.has(Mute) && m.Method == "server/discover":
	case m.Method == "tools/list":
		s.reply(m.ID, s.list())
	case m.Method == "tools/call":
		return s.call(m)
	case m.Method == "notifications/cancelled":
		s.cancel(m.Params)
	case m.Method == "ping":
		s.reply(m.ID, "{}")
	case m.ID != nil && m.Method != "":
		s.fail(m.ID, -32601, "no such method")
	}
	return -1
}

func (s *server) protocol() string { return s.value(Protocol, "2025-11-25") }

// discovered reports whether the server is asked what it understands, as it is
// since the revision of July 2026, and not greeted.
func (s *server) discovered() bool { return s.protocol() >= "2026-07-28" }

func (s *server) info() string {
	return fmt.Sprintf(`{"name":"tooltest","version":%q}`, s.value(Version, "1.0.0"))
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, line+"\n") // nobody there: the input ends, too
}

func (s *server) reply(id json.RawMessage, result string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (s *server) fail(id json.RawMessage, code int, text string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quote(text)))
}

func (s *server) text(id json.RawMessage, text string) {
	s.reply(id, `{"content":[{"type":"text","text":`+quote(text)+`}]}`)
}

func quote(text string) string {
	q, _ := json.Marshal(text) // it is a string
	return string(q)
}

func (s *server) cancel(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(params, &p) // nothing is cancelled then
	s.calls.Lock()
	defer s.calls.Unlock()
	if c := s.cancels[string(p.ID)]; c != nil {
		close(c)
		delete(s.cancels, string(p.ID))
	}
}

// cancelled is closed when the call is.
func (s *server) cancelled(id json.RawMessage) <-chan struct{} {
	s.calls.Lock()
	defer s.calls.Unlock()
	c := make(chan struct{})
	s.cancels[string(id)] = c
	return c
}

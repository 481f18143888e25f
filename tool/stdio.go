package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// stdioServer is a program that is started for a drive and spoken to over its
// input and output.
type stdioServer struct {
	name   string
	config workspace.Server
	launch Launch
	code   *Code
	lock   *Lock       // nil: it is not looked at
	old    atomic.Bool // it is initialized in the old way
}

// connect first asks the server which revisions it supports, as the latest protocol
// requires. A server that exits on this unknown request is started again and, from then
// on, initialized in the old way.
func (s *stdioServer) connect(ctx context.Context, _ string) (session, error) {
	version := ""
	if s.old.Load() {
		version = greetedProtocol
	}
	redactor := redact.New(s.credentials())
	start := func(context.Context, *wire) (mcp.Transport, error) { return s.start(redactor) }
	c, err := openMCP(ctx, start, version, redactor)
	if ended := (*endedError)(nil); errors.As(err, &ended) && !s.old.Swap(true) {
		return openMCP(ctx, start, greetedProtocol, redactor)
	}
	return c, err
}

// greetedProtocol is the last revision in which a session begins with initialize.
const greetedProtocol = "2025-11-25"

func (s *stdioServer) credentials() map[string]string {
	values, _ := s.config.Secrets(s.launch.Environ) // what is missing is refused when the server starts
	if values == nil {
		values = map[string]string{}
	}
	for _, name := range s.config.InheritEnv {
		if value := workspace.Lookup(s.launch.Environ, name); workspace.IsCredential(name, value) {
			values[name] = value
		}
	}
	return values
}

func (s *stdioServer) command() workspace.Command { return s.config.Starts(s.name) }

func (s *stdioServer) ready() *flow.Error {
	_, _, err := s.prepare()
	return refusalOf(err)
}

// prepare looks at all that starting the program needs. Its package is looked at
// each time: it may be another since the last.
func (s *stdioServer) prepare() (program string, env []string, err error) {
	values, refused := s.config.Secrets(s.launch.Environ)
	if refused != nil {
		return "", nil, refused
	}
	if program, err = s.program(); err != nil {
		return "", nil, fmt.Errorf("the program %q cannot be started: %w", s.config.Command[0], err)
	}
	if refused := checkPackage(s.config, s.launch.Workspace, program); refused != nil {
		return "", nil, refused
	}
	if refused := s.lock.Accepts(s.code, s.command()); refused != nil {
		return "", nil, refused
	}
	return program, append(s.config.Environment(s.launch.Environ, values, s.launch.Markers), s.code.Environment(s.command())...), nil
}

// start starts the program.
func (s *stdioServer) start(r *redact.Redactor) (mcp.Transport, error) {
	program, env, err := s.prepare()
	if err != nil {
		return nil, err
	}
	if s.launch.Spawn == nil {
		return nil, errors.New("no program can be started here")
	}
	p, err := s.launch.Spawn(supervisor.Command{Path: program, Args: s.config.Command, Dir: s.launch.Workspace, Env: env, Reap: true})
	if err != nil {
		return nil, fmt.Errorf("the program %q cannot be started: %w", s.config.Command[0], err)
	}
	return &stdioConn{process: p, clean: r, errors: tail{ended: make(chan struct{})},
		lines: newLineReader(p.Stdout()), writing: make(chan struct{}, 1)}, nil
}

// program finds what the first word of the command stands for: a path is taken
// from the workspace, a bare name is looked up in our PATH, never in the
// workspace.
func (s *stdioServer) program() (string, error) {
	path, err := builtin.LookProgram(s.launch.Workspace, s.config.Command[0])
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return path, nil
}

// stdioConn is a connection over the pipes of a program. It is its own transport, and
// used once. Unlike the SDK's it is bounded against messages that are too long and
// against a program that does not read.
type stdioConn struct {
	process *supervisor.Process
	clean   *redact.Redactor
	errors  tail
	lines   *lineReader
	batch   []jsonrpc.Message // that came together and are still to be read
	closed  atomic.Bool
	writing chan struct{} // held while a message is written
}

func (c *stdioConn) Connect(context.Context) (mcp.Connection, error) {
	go func() {
		defer close(c.errors.ended)
		_, _ = io.Copy(&c.errors, c.process.Stderr()) // it ends with the program
	}()
	return c, nil
}

func (c *stdioConn) SessionID() string { return "" }

func (c *stdioConn) Close() error {
	c.closed.Store(true)
	return c.process.Close()
}

// Read reads one message. A reply that was too long to be kept is replaced by an error;
// if it is unknown which call it was for, the connection ends.
func (c *stdioConn) Read(context.Context) (jsonrpc.Message, error) {
	for len(c.batch) == 0 {
		line, err := c.lines.message()
		var large *oversized
		if errors.As(err, &large) {
			if id, known := large.call(); known {
				return &jsonrpc.Response{ID: id, Error: large}, nil
			}
		}
		if err == nil {
			c.batch, err = c.decode(line)
		}
		switch {
		case err != nil && c.closed.Load():
			return nil, io.EOF
		case err != nil:
			return nil, c.ended(err)
		}
	}
	m := c.batch[0]
	c.batch = c.batch[1:]
	return m, nil
}

// decode reads a message, or several that an old server sends as one list.
func (c *stdioConn) decode(line []byte) (list []jsonrpc.Message, err error) {
	batch := []json.RawMessage{line}
	if line[0] == '[' && json.Unmarshal(line, &batch) != nil {
		return nil, notJSONRPC(line, c.clean)
	}
	for _, raw := range batch {
		m, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			return nil, notJSONRPC(line, c.clean)
		}
		list = append(list, m)
	}
	return list, nil
}

// notJSONRPC is the most common fault of new servers: they print to standard output,
// where messages belong.
func notJSONRPC(data []byte, r *redact.Redactor) error {
	return fmt.Errorf("the server sent something that is not a JSON-RPC message: %s", excerpt(data, r))
}

// excerpt is the beginning of a text on one line, without credentials; "" if there is
// no text. Credentials are removed first: half of one would not be found.
func excerpt(data []byte, r *redact.Redactor) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(r.Text(string(data)), "�")), " ")
	if text == "" {
		return ""
	}
	return tipstaff.Quote(text, 300)
}

// ended explains why nothing more can be read, with the last lines that the server printed.
func (c *stdioConn) ended(err error) error {
	state := ""
	select { // the end of its output comes a moment before its own
	case <-c.process.Exited():
		state = c.process.State()
		<-c.errors.ended
	case <-time.After(exitPatience):
	}
	text := "the server closed its output"
	switch {
	case state != "" && (errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded)):
		text = "the server ended (" + state + ")"
	case !errors.Is(err, io.EOF):
		text = err.Error()
	}
	if said := c.errors.last(c.clean); said != "" {
		text += "; it printed last: " + said
	}
	return &endedError{text, err}
}

// exitPatience is how long the end of a program whose output has ended is waited
// for.
const exitPatience = 300 * time.Millisecond

// endedError is the end of a connection, for people.
type endedError struct {
	text  string
	cause error
}

func (e *endedError) Error() string { return e.text }
func (e *endedError) Unwrap() error { return e.cause }

// errNotWritten marks a message of which not one byte has left this process.
var errNotWritten = errors.New("it was not sent")

// Write sends one message. When ctx ends before the server has taken all of it,
// the connection ends, for the rest would be taken for the next message.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotWritten, ctx.Err())
	}
	in := c.process.Stdin()
	cutting := make(chan struct{})
	cut := context.AfterFunc(ctx, func() {
		defer close(cutting)
		_ = in.SetWriteDeadline(time.Now()) // a closed pipe needs none
	})
	n, err := in.Write(append(data, '\n'))
	if !cut() {
		<-cutting
		_ = in.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil
	case n == 0 && errors.Is(err, syscall.EPIPE): // it has ended, which the SDK may see here before it reads it
		return fmt.Errorf("%w: %w", errNotWritten, c.ended(io.EOF))
	case n == 0:
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	go c.Close()
	return fmt.Errorf("the server does not read: %w", err)
}

const (
	keptErrors = 64 << 10 // bytes of what a server printed last
	toldErrors = 1000     // of these, bytes that a message repeats
)

// tail keeps the last of what a server prints to its error output. Whatever a server
// prints is read, so that it never blocks.
type tail struct {
	mu    sync.Mutex
	kept  []byte // the last, up to twice keptErrors
	ended chan struct{}
}

func (t *tail) Write(piece []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, piece...)
	if len(t.kept) > 2*keptErrors {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-keptErrors:]...)
	}
	return len(piece), nil
}

// last is the end of what was printed, without credentials, as much as a person wants to
// read in a message; whole lines if that is possible.
func (t *tail) last(r *redact.Redactor) string {
	t.mu.Lock()
	text := string(t.kept)
	t.mu.Unlock()
	text = strings.TrimSpace(strings.ToValidUTF8(r.Text(text), "�"))
	if len(text) <= toldErrors {
		return text
	}
	text = strings.ToValidUTF8(text[len(text)-toldErrors:], "")
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = rest
	}
	return "…" + text
}

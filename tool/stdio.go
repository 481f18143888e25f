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
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// stdioServer is a program that is started for a drive and spoken to over its
// input and output.
type stdioServer struct {
	name   string
	config workspace.Server
	launch Launch
	files  map[string]string // digests of the files that its command names, as the lock holds them; nil: not looked at
	old    atomic.Bool       // it is greeted in the old way
}

// ProtocolVersion is the one that the server is greeted with; "": the latest.
func (s *stdioServer) ProtocolVersion() string {
	if s.old.Load() {
		return greetedProtocol
	}
	return ""
}

// greetOld makes the next greeting the old one. It reports whether that is new.
func (s *stdioServer) greetOld() bool { return !s.old.Swap(true) }

const (
	// greetedProtocol is the last revision in which a session begins with initialize.
	greetedProtocol  = "2025-11-25"
	methodDiscover   = "server/discover"
	discoverPatience = 5 * time.Second
)

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
	if refused := checkFiles(s.config, s.launch.Workspace, s.name, s.files); refused != nil {
		return "", nil, refused
	}
	return program, s.config.Environment(s.launch.Environ, values, s.launch.Markers), nil
}

// Transport starts the program.
func (s *stdioServer) Transport(context.Context) (mcp.Transport, error) {
	program, env, err := s.prepare()
	if err != nil {
		return nil, err
	}
	if s.launch.Spawn == nil {
		return nil, errors.New("no program can be started here")
	}
	p, err := s.launch.Spawn(Command{Path: program, Args: s.config.Command, Dir: s.launch.Workspace, Env: env})
	if err != nil {
		return nil, fmt.Errorf("the program %q cannot be started: %w", s.config.Command[0], err)
	}
	return newStdioConn(p, NewRedactor(s.credentials())), nil
}

// program finds what the first word of the command stands for: a path is taken
// from the workspace, a bare name is looked up in our PATH, never in the
// workspace.
func (s *stdioServer) program() (string, error) {
	path, err := lookProgram(s.launch.Workspace, s.config.Command[0])
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return path, nil
}

// stdioConn is a connection to a program: one message a line. It is its own
// transport, and used once.
type stdioConn struct {
	process Process
	clean   *Redactor
	errors  *tail
	frames  *frames
	queue   []jsonrpc.Message // of a batch, yet to be read
	writing chan struct{}     // held while a message is written

	messages chan received
	closed   chan struct{}
	once     sync.Once
	err      error // of closing
}

type received struct {
	message jsonrpc.Message
	err     error
}

func newStdioConn(p Process, r *Redactor) *stdioConn {
	c := &stdioConn{
		process: p, clean: r, errors: newTail(r), frames: newFrames(p.Stdout()),
		writing: make(chan struct{}, 1), messages: make(chan received), closed: make(chan struct{}),
	}
	go c.errors.follow(p.Stderr())
	go c.receive()
	return c
}

func (c *stdioConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }
func (c *stdioConn) SessionID() string                               { return "" }

func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-c.messages:
		return r.message, r.err
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receive reads until the connection ends; the last it hands on is why.
func (c *stdioConn) receive() {
	for {
		m, err := c.message()
		if err != nil {
			err = c.ended(err)
		}
		select {
		case c.messages <- received{m, err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

func (c *stdioConn) message() (jsonrpc.Message, error) {
	if len(c.queue) > 0 {
		m := c.queue[0]
		c.queue = c.queue[1:]
		return m, nil
	}
	line, err := c.frames.next()
	var large *oversized
	if errors.As(err, &large) {
		return large.reply()
	}
	if err != nil {
		return nil, err
	}
	if line[0] != '[' {
		return decodeMessage(line, c.clean)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 {
		return nil, notJSONRPC(line, c.clean)
	}
	for _, raw := range batch {
		m, err := decodeMessage(raw, c.clean)
		if err != nil {
			return nil, err
		}
		c.queue = append(c.queue, m)
	}
	return c.message()
}

// reply stands for a reply that was too long to be kept. Where it cannot be said
// which call it was for, the connection has no use any more.
func (o *oversized) reply() (jsonrpc.Message, error) {
	var id any
	if o.id == nil || json.Unmarshal(o.id, &id) != nil {
		return nil, o
	}
	known, err := jsonrpc.MakeID(id)
	if err != nil || !known.IsValid() {
		return nil, o
	}
	return &jsonrpc.Response{ID: known, Error: o}, nil
}

func decodeMessage(data []byte, r *Redactor) (jsonrpc.Message, error) {
	m, err := jsonrpc.DecodeMessage(data)
	if err != nil { // its text repeats the data, cut off wherever that may be
		return nil, notJSONRPC(data, r)
	}
	return m, nil
}

// notJSONRPC is what happens most often to servers that are new: they print to
// where their messages go.
func notJSONRPC(data []byte, r *Redactor) error {
	return fmt.Errorf("the server sent what is no JSON-RPC message: %s", excerpt(data, r))
}

// excerpt is the beginning of a text on one line, without credentials; "" if there
// is no text. They go first: what is left of one that was cut off could not be
// told any more.
func excerpt(data []byte, r *Redactor) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(r.Text(string(data)), "�")), " ")
	if text == "" {
		return ""
	}
	return tipstaff.Quote(text, 300)
}

// ended tells why a connection ended, with the last that the server printed.
func (c *stdioConn) ended(err error) error {
	state := ""
	select { // the end of its output comes a moment before its own
	case <-c.process.Exited():
		state = c.process.State()
		<-c.errors.ended
	case <-time.After(exitPatience):
	case <-c.closed:
		return io.EOF
	}
	text := "the server closed its output"
	switch {
	case state != "" && (errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded)):
		text = "the server ended (" + state + ")"
	case !errors.Is(err, io.EOF):
		text = err.Error()
	}
	if said := c.errors.last(); said != "" {
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
		return fmt.Errorf("%w: %w", errNotWritten, ctx.Err())
	case <-c.closed:
		return fmt.Errorf("%w: %w", errNotWritten, io.ErrClosedPipe)
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
		c.expect(m)
		return nil
	case n == 0:
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	go c.Close()
	return fmt.Errorf("the server does not read: %w", err)
}

// expect answers in the place of a server that takes no notice of the question
// what it understands: older ones know only initialize.
func (c *stdioConn) expect(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.Method != methodDiscover {
		return
	}
	unknown := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}}
	time.AfterFunc(discoverPatience, func() {
		select {
		case c.messages <- received{unknown, nil}: // after an answer it counts for nothing
		case <-c.closed:
		}
	})
}

// Close ends the program.
func (c *stdioConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.err = c.process.Close()
	})
	return c.err
}

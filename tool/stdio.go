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
	files  map[string]string // digests of the files that its command names, as the lock holds them; nil: not looked at
	old    atomic.Bool       // it is greeted in the old way
}

// connect asks the server first what it understands, as the latest protocol has it. One
// that ends itself at so strange a question is started again and greeted in the old way,
// now and from then on.
func (s *stdioServer) connect(ctx context.Context, _ string) (session, error) {
	version := ""
	if s.old.Load() {
		version = greetedProtocol
	}
	redactor := NewRedactor(s.credentials())
	start := func(_ context.Context, w *wire) (mcp.Transport, error) { return s.start(w, redactor) }
	c, err := openMCP(ctx, start, version, redactor)
	if ended := (*endedError)(nil); errors.As(err, &ended) && !s.old.Swap(true) {
		return openMCP(ctx, start, greetedProtocol, redactor)
	}
	return c, err
}

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

// start starts the program.
func (s *stdioServer) start(w *wire, r *Redactor) (mcp.Transport, error) {
	program, env, err := s.prepare()
	if err != nil {
		return nil, err
	}
	if s.launch.Spawn == nil {
		return nil, errors.New("no program can be started here")
	}
	p, err := s.launch.Spawn(supervisor.Command{Path: program, Args: s.config.Command, Dir: s.launch.Workspace, Env: env})
	if err != nil {
		return nil, fmt.Errorf("the program %q cannot be started: %w", s.config.Command[0], err)
	}
	return &stdioConn{process: p, wire: w, clean: r, errors: tail{ended: make(chan struct{})}, writing: make(chan struct{}, 1)}, nil
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

// stdioConn is the SDK's connection over the pipes of a program, which it is bounded
// against: messages that are too long, that are none, or that the program does not read.
// It is its own transport, and used once.
type stdioConn struct {
	mcp.Connection // the SDK's
	process        *supervisor.Process
	wire           *wire
	clean          *Redactor
	errors         tail
	lines          *io.PipeWriter // what the SDK reads

	writing chan struct{} // held while a message is written
	written int           // bytes of it; for whoever holds writing
}

// Connect joins the SDK to the pipes. What the program writes is passed on line by line.
func (c *stdioConn) Connect(ctx context.Context) (mcp.Connection, error) {
	in, lines := io.Pipe()
	c.lines = lines
	go c.errors.follow(c.process.Stderr())
	go func() { _ = lines.CloseWithError(c.ended(c.pass(newFrames(c.process.Stdout())))) }()
	conn, err := (&mcp.IOTransport{Reader: in, Writer: stdin{c}, MaxLineLength: -1}).Connect(ctx)
	c.Connection = conn
	return c, err
}

// pass reads until nothing more can be read, and returns why. In the place of a reply that
// was too long to be kept stands an error; where it cannot be said which call it was for,
// the connection has no use any more.
func (c *stdioConn) pass(f *frames) error {
	for {
		line, err := f.next()
		var large *oversized
		switch {
		case errors.As(err, &large):
			id, known := large.call()
			if !known {
				return large
			}
			line = c.wire.tooLarge(id, large.size)
		case err != nil:
			return err
		case line[0] != '[': // the SDK takes batches apart
			if _, err := jsonrpc.DecodeMessage(line); err != nil {
				return notJSONRPC(line, c.clean)
			}
		}
		if _, err := c.lines.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// call is the id of the call that the message replies to.
func (o *oversized) call() (id jsonrpc.ID, ok bool) {
	var raw any
	if o.id == nil || json.Unmarshal(o.id, &raw) != nil {
		return id, false
	}
	id, err := jsonrpc.MakeID(raw)
	return id, err == nil && id.IsValid()
}

// stdin counts what the program takes. To close it ends the program.
type stdin struct{ conn *stdioConn }

func (w stdin) Write(data []byte) (n int, err error) {
	n, err = w.conn.process.Stdin().Write(data)
	w.conn.written += n
	return n, err
}

func (w stdin) Close() error { return w.conn.process.Close() }

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

// ended tells why nothing more can be read, with the last that the server printed.
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

// Read is at its end when we have closed the connection.
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return m, err
}

// errNotWritten marks a message of which not one byte has left this process.
var errNotWritten = errors.New("it was not sent")

// Write sends one message. When ctx ends before the server has taken all of it,
// the connection ends, for the rest would be taken for the next message.
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNotWritten, ctx.Err())
	}
	in := c.process.Stdin()
	cutting := make(chan struct{})
	cut := context.AfterFunc(ctx, func() {
		defer close(cutting)
		_ = in.SetWriteDeadline(time.Now()) // a closed pipe needs none
	})
	c.written = 0
	err := c.Connection.Write(ctx, m)
	if !cut() {
		<-cutting
		_ = in.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		c.expect(m)
		return nil
	case c.written == 0:
		return fmt.Errorf("%w: %w", errNotWritten, err)
	}
	go c.Close()
	return fmt.Errorf("the server does not read: %w", err)
}

// expect answers in the place of a server that takes no notice of the question
// what it understands: older ones know only initialize. After an answer it counts for
// nothing.
func (c *stdioConn) expect(m jsonrpc.Message) {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == methodDiscover {
		unknown := append(errorReply(r.ID, jsonrpc.CodeMethodNotFound, "no answer"), '\n')
		time.AfterFunc(discoverPatience, func() { _, _ = c.lines.Write(unknown) }) // nobody reads: it is over
	}
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

// follow reads until the end.
func (t *tail) follow(r io.Reader) {
	defer close(t.ended)
	_, _ = io.Copy(t, r) // it ends with the program
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
func (t *tail) last(r *Redactor) string {
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

package worker

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// ServerName is the name of the channel in the configuration of a CLI.
const ServerName = "tipstaff"

// socketVariable is the environment variable that names the socket of a channel. It says where
// the channel is, and lets nobody in.
const socketVariable = "TIPSTAFF_MCP_SOCKET"

// tokenName is what stands in records for the token of a channel.
const tokenName = "TIPSTAFF_MCP_TOKEN"

// tokenFile is the token, beside the socket, until a relay has shown it: nothing that the CLI
// starts later finds it. It is in no environment and no command line: whatever the CLI starts
// can read those.
const tokenFile = "mcp.token"

// channelOptions say what a channel offers.
type channelOptions struct {
	Hook bool   // it has the tool approve
	Type string // of the worker, for the names of its tools
	Dir  string // where the worker works
	// Clean replaces what no record may hold; nil: only the channel's own token is replaced.
	Clean func([]byte) []byte
}

// channel is the way a worker reports by: an MCP server for one invocation.
type channel interface {
	// environ is what a relay needs in its environment. It holds no secret.
	environ() []string
	// authenticated is closed when a relay has shown the token.
	authenticated() <-chan struct{}
	// spoke is closed when the worker has reported, has asked, or waits for a person's
	// approval: all it has left to do is to end.
	spoke() <-chan struct{}
	// report is what the worker has said so far.
	report() Report
	// pending are the requests that a person must decide.
	pending() []Request
	denials() []Denial
	// passed tells by which rule of which policy approve let a call through.
	passed(callID string) (rule, policyDigest string, ok bool)
	token() string
	// close voids the token and waits for calls that are under way.
	close()
}

// maxMessage is the longest message that is taken, in bytes. A longer one ends the
// connection.
const maxMessage = 16 << 20

// handshakeTime is what a relay has to show its token.
const handshakeTime = 10 * time.Second

// mostPath is the longest path of a socket that every system takes.
const mostPath = 100

// mcpChannel is a channel on a Unix socket.
type mcpChannel struct {
	to       Channel
	policy   Policy
	options  channelOptions
	secret   string
	listener net.Listener
	folder   string // made for the socket alone; "": it was not
	open     sync.WaitGroup

	auth, said chan struct{}

	calls sync.Mutex // one call at a time: each sees what those before it have done

	mu      sync.Mutex
	closed  bool
	claimed bool // a connection has shown the token
	conns   map[net.Conn]bool
	clean   func([]byte) []byte
	told    Report
	logged  int // calls of task_log
	waiting []Request
	denied  []Denial
	allowed map[string]Ruling // by call id
}

// openChannel listens on a socket in folder, which only its owner can enter.
func openChannel(folder string, c Channel, p Policy, o channelOptions) (channel, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	ch := &mcpChannel{to: c, policy: p, options: o, secret: hex.EncodeToString(secret[:]), auth: make(chan struct{}), said: make(chan struct{}),
		conns: map[net.Conn]bool{}, allowed: map[string]Ruling{}}
	ch.clean = redaction(o.Clean, map[string]string{tokenName: ch.secret})
	path := filepath.Join(folder, "mcp.sock")
	if len(path) > mostPath {
		var err error
		if ch.folder, err = shortFolder(); err != nil {
			return nil, fmt.Errorf("no place for the channel's socket: %w", err)
		}
		path = filepath.Join(ch.folder, "mcp.sock")
	}
	_ = os.Remove(path) // of an invocation that nobody could clean up after
	var err error
	if ch.listener, err = net.Listen("unix", path); err != nil {
		ch.removeFolder()
		return nil, fmt.Errorf("the channel cannot listen: %w", err)
	}
	if err = writeNew(beside(path), ch.secret); err != nil {
		_ = ch.listener.Close()
		ch.removeFolder()
		return nil, fmt.Errorf("the channel cannot hand over its token: %w", err)
	}
	ch.open.Go(ch.accept)
	return ch, nil
}

// beside is the file of the token of the channel at a socket.
func beside(socket string) string { return filepath.Join(filepath.Dir(socket), tokenFile) }

// shortFolder is for a socket whose path would be too long elsewhere. MkdirTemp makes it
// with mode 0700.
func shortFolder() (string, error) {
	if dir := os.TempDir(); len(dir) < mostPath-40 {
		return os.MkdirTemp(dir, "tipstaff-")
	}
	return os.MkdirTemp("/tmp", "tipstaff-")
}

func (c *mcpChannel) removeFolder() {
	if c.folder != "" {
		_ = os.RemoveAll(c.folder)
	}
}

func (c *mcpChannel) environ() []string {
	return []string{socketVariable + "=" + c.listener.Addr().String()}
}

func (c *mcpChannel) token() string                  { return c.secret }
func (c *mcpChannel) authenticated() <-chan struct{} { return c.auth }
func (c *mcpChannel) spoke() <-chan struct{}         { return c.said }

func (c *mcpChannel) report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.told
	r.Outputs = append([]tipstaff.TaskOutput{}, r.Outputs...)
	return r
}

func (c *mcpChannel) pending() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waiting)
}

func (c *mcpChannel) denials() []Denial {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.denied)
}

func (c *mcpChannel) passed(callID string) (rule, policyDigest string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.allowed[callID]
	return strings.Join(r.Rules, ", "), r.Digest, ok
}

func (c *mcpChannel) close() {
	c.mu.Lock()
	c.closed = true
	conns := slices.Collect(maps.Keys(c.conns))
	c.mu.Unlock()
	_ = c.forget()         // nobody may have connected
	_ = c.listener.Close() // removes the socket
	for _, conn := range conns {
		_ = conn.Close()
	}
	c.open.Wait()
	c.calls.Lock() // whoever was being answered when the connection went
	defer c.calls.Unlock()
	c.removeFolder()
}

// forget removes the file of the token.
func (c *mcpChannel) forget() error {
	err := os.Remove(beside(c.listener.Addr().String()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// speak marks that the worker has said what ends its turn. The caller holds mu.
func (c *mcpChannel) speak() {
	select {
	case <-c.said:
	default:
		close(c.said)
	}
}

func (c *mcpChannel) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // no descriptor is left, for example: a relay tries once, so we try again
			continue
		}
		if !c.keep(conn) {
			_ = conn.Close()
			continue
		}
		c.open.Go(func() {
			defer c.drop(conn)
			c.serve(conn)
		})
	}
}

// keep remembers a connection, to close it with the channel.
func (c *mcpChannel) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.conns[conn] = true
	}
	return !c.closed
}

func (c *mcpChannel) drop(conn net.Conn) {
	_ = conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// accepted is what a relay is answered whose token was taken; anything else says why not.
const accepted = "ok"

// serve takes the token, which is the first line of a connection, and then speaks MCP.
func (c *mcpChannel) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	in := bufio.NewReader(conn)
	line, err := readLine(in, 2*len(c.secret))
	why := accepted
	if err != nil || subtle.ConstantTimeCompare([]byte(line), []byte(c.secret)) != 1 {
		why = "the token is not that of this invocation"
	} else if !c.claim() {
		why = "the channel has had its connection: an invocation has one"
	} else if err := c.forget(); err != nil {
		why = "the file of the token cannot be removed: " + err.Error()
	}
	_, err = io.WriteString(conn, why+"\n")
	if why != accepted || err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	close(c.auth)
	// Run returns when the connection has ended and every call was answered.
	_ = c.server().Run(context.Background(), draining{&mcp.IOTransport{Reader: readCloser{in, conn}, Writer: conn, MaxLineLength: maxMessage}})
}

// claim takes the only connection that a channel has.
func (c *mcpChannel) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimed || c.closed {
		return false
	}
	c.claimed = true
	return true
}

type readCloser struct {
	io.Reader
	io.Closer
}

// readLine reads a line of at most so many bytes, without its end.
func readLine(in *bufio.Reader, most int) (string, error) {
	var line []byte
	for len(line) <= most {
		b, err := in.ReadByte()
		if err != nil {
			return "", err
		}
		if b == '\n' {
			return string(line), nil
		}
		line = append(line, b)
	}
	return "", errors.New("the line is too long")
}

// protocolVersions are those that CLIs are answered in, newest first.
var protocolVersions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

func (c *mcpChannel) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: ServerName, Version: "1.0.0"}, &mcp.ServerOptions{
		Instructions:              "Report on your task with these tools. When you have asked or reported, end your turn.",
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SupportedProtocolVersions: protocolVersions,
	})
	for _, t := range channelTools {
		if t.name == ApproveTool && !c.options.Hook {
			continue
		}
		s.AddTool(&mcp.Tool{Name: t.name, Description: t.description, InputSchema: json.RawMessage(t.input), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.name == "task_status"}},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				// A call that has arrived is carried out: the worker's end does not undo a report.
				text, err := c.call(context.WithoutCancel(ctx), t, r.Params.Arguments)
				if err != nil {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	return s
}

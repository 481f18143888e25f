package tool

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Server is where tools are called. Only the way to reach it differs between kinds
// of servers; listing, pinning, checking and calling are the same for all.
type Server interface {
	// connect opens a session with the server, which the manifest calls name. What it
	// starts belongs to the session and ends with it. Its errors hold no credentials.
	connect(ctx context.Context, name string) (session, error)
}

// session is an open connection to one server.
type session interface {
	// list is what the server says of itself now.
	list(ctx context.Context) (listed, error)
	// changed reports whether the server has said, since it was last asked for it,
	// that its list is another.
	changed() bool
	// call makes one call and returns what is known of it. The error says why there
	// is no reply.
	call(ctx context.Context, r request) (reply, error)
	// ended is why no calls can be made any more; nil: they can.
	ended() error
	// close returns when nothing is left that the session started here.
	close()
}

// listed is a server's list of tools.
type listed struct {
	version  string
	tools    []json.RawMessage // as they came
	lifetime time.Duration     // 0: until the server says that it changed
}

// request is one call of a tool.
type request struct {
	tool       string
	args       json.RawMessage
	key, trace string                 // idempotency key and trace context
	demand     builtin.Demand         // of builtin
	onProgress func(progress)         // nil: not wanted
	onOutput   func(o builtin.Output) // of builtin; nil: not wanted
}

// reply is what is known of a call that has ended.
type reply struct {
	sent    bool            // the server may have got to see it
	result  json.RawMessage // as received; nil: no reply came
	builtin *builtin.Result // in its place, of builtin
	failure *jsonrpc.Error  // the protocol's own error reply
	large   *oversized      // the reply came and was too long to be kept
	asked   string          // while the request was open, the server asked for this, which is not offered
}

// MCP is a server that is reached by transports of the SDK. The function makes the
// client's end of a new connection; each is used once.
type MCP func(ctx context.Context) (mcp.Transport, error)

func (dial MCP) connect(ctx context.Context, name string) (session, error) {
	return openMCP(ctx, func(ctx context.Context, _ *wire) (mcp.Transport, error) { return dial(ctx) }, "", nil)
}

// Launch is what servers are started with.
type Launch struct {
	Workspace string   // relative paths of the manifest stand here, and programs start here
	Markers   []string // NAME=value pairs for the environment of every process that a server starts
	Environ   []string // our environment, as NAME=value: references of the manifest are looked up here
	// Spawn starts the programs of servers; nil: none is started.
	Spawn     func(supervisor.Command) (*supervisor.Process, error)
	Protected []string // absolute paths that no tool of builtin writes, besides what the manifest names
	State     string   // what is kept for the user: no tool of builtin reads or writes it
}

// Servers makes the servers that a manifest declares, as it declares them.
// Nothing is started or connected to before a tool is needed.
func Servers(m *workspace.Manifest, l Launch) map[string]Server {
	servers := map[string]Server{}
	if m == nil {
		return servers
	}
	protection := workspace.Protect(m, workspace.Around{Dir: l.Workspace, State: l.State, Named: l.Protected})
	code := NewCode(m, l.Workspace, l.State)
	for name, c := range m.Servers {
		switch {
		case name == builtin.Name:
			b := builtin.New(builtin.Options{Workspace: l.Workspace, Roots: c.Roots, Hosts: c.Hosts, Programs: c.Programs, Markers: l.Markers, Protection: protection})
			servers[name] = &builtinServer{Server: b, config: c, code: code}
		case c.URL != "":
			servers[name] = &httpServer{config: c, launch: l}
		default:
			servers[name] = &stdioServer{name: name, config: c, launch: l, code: code}
		}
	}
	return servers
}

// external is what servers outside of this process have in common.
type external interface {
	Server
	// credentials are the values of the references that its configuration holds, by
	// name, as far as they are set.
	credentials() map[string]string
	// ready says why the server would not be started or connected to, without doing
	// it; nil: nothing is known to be in the way.
	ready() *flow.Error
}

var (
	_ external = (*stdioServer)(nil)
	_ external = (*httpServer)(nil)
)

// refusalOf is the refusal that an error is, nil if it is another error.
func refusalOf(err error) *flow.Error {
	var refused *flow.Error
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// Builtin is the server of the tools that come with Tipstaff.
// Where nothing says what is protected, it is what no manifest has to name.
func Builtin(o builtin.Options) Server {
	if o.Protection == nil {
		o.Protection = workspace.Protect(nil, workspace.Around{Dir: o.Workspace})
	}
	return &builtinServer{Server: builtin.New(o), code: NewCode(nil, o.Workspace, "")}
}

type builtinServer struct {
	*builtin.Server
	config workspace.Server
	code   *Code
	lock   *Lock // nil: it is not looked at
}

// ready refuses a program whose code in the workspace is not what was accepted, and adds to its
// environment.
func (s *builtinServer) ready(program string) (environ []string, refused *flow.Error) {
	c := s.config.Program(program)
	return s.code.Environment(c), s.lock.Accepts(s.code, c)
}

func (s *builtinServer) connect(context.Context, string) (session, error) {
	b := &builtinSession{server: s}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b, nil
}

// builtinSession calls the tools as the functions that they are.
type builtinSession struct {
	server *builtinServer
	ctx    context.Context // ends when the session is closed
	end    context.CancelFunc

	mu       sync.Mutex     // held while a call begins, so that none does once the session is closed
	stopping sync.WaitGroup // calls that end themselves
}

func (s *builtinSession) list(context.Context) (listed, error) {
	return listed{version: builtin.Version, tools: builtin.Definitions()}, nil
}

func (s *builtinSession) changed() bool { return false }

func (s *builtinSession) ended() error { return s.ctx.Err() }

func (s *builtinSession) call(ctx context.Context, r request) (reply, error) {
	stops := builtin.Stops(r.tool)
	if !s.begin(stops) {
		return reply{}, errClosed
	}
	if stops {
		defer s.stopping.Done()
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r.demand.Ready = s.server.ready
	got, err := s.server.Call(inner, builtin.Call{Tool: r.tool, Args: r.args, Demand: r.demand, Output: r.onOutput})
	switch cut := ctx.Err() != nil && !stops; {
	case err != nil:
		return reply{sent: true, failure: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}}, nil
	case got.Failed && got.Refused == nil && (cut || ctx.Err() == nil && s.ended() != nil): // it failed because its context ended
		return reply{sent: true}, errClosed
	}
	return reply{sent: true, builtin: &got}, nil
}

// begin reports whether a call may begin.
func (s *builtinSession) begin(stops bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stops && s.ended() == nil {
		s.stopping.Add(1)
	}
	return s.ended() == nil
}

// close ends what is running. Calls that start processes are waited for.
func (s *builtinSession) close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.stopping.Wait()
}

package tool

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Server is an MCP server that a manager can connect to. Only the way to reach
// it differs between kinds of servers; listing, pinning, checking and calling
// are the same for all.
type Server interface {
	// Transport makes the client's end of a new connection. Each is used once. The
	// server belongs to the connection and ends with it.
	Transport(ctx context.Context) (mcp.Transport, error)
}

// Versioned is a Server that is spoken to in one revision of the protocol. Others
// are offered the latest, and negotiate.
type Versioned interface {
	ProtocolVersion() string
}

// Stopper is a Server some of whose tools can end themselves in good order when
// they are cancelled, and then say what they know. Such a reply is awaited; an error of
// the protocol in its place means that the tool was never entered.
type Stopper interface {
	Stops(tool string) bool
}

// Waiter is a Server that starts processes in this process's own name. Wait
// returns when none is left of those it had started; it is called after their
// connections were closed.
type Waiter interface {
	Wait()
}

// Launch is what servers are started with.
type Launch struct {
	Workspace string   // relative paths of the manifest stand here, and programs start here
	Markers   []string // NAME=value pairs for the environment of every process that a server starts
	Environ   []string // our environment, as NAME=value: references of the manifest are looked up here
	Spawn     Spawner  // nil: no program is started
	Protected []string // what no tool of builtin writes, besides what the manifest names
}

// Servers makes the servers that a manifest declares, as it declares them.
// Nothing is started or connected to before a tool is needed.
func Servers(m *workspace.Manifest, l Launch) map[string]Server {
	servers := map[string]Server{}
	if m == nil {
		return servers
	}
	for name, c := range m.Servers {
		switch {
		case name == builtin.Name:
			servers[name] = builtin.New(options(m, l))
		case c.URL != "":
			servers[name] = &httpServer{config: c, launch: l}
		default:
			servers[name] = &stdioServer{name: name, config: c, launch: l}
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

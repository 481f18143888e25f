package tool

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/tool/builtin"
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
// they are cancelled, and then say what they know. Such a reply is awaited.
type Stopper interface {
	Stops(tool string) bool
}

// Waiter is a Server that starts processes in this process's own name. Wait
// returns when none is left of those it had started; it is called after their
// connections were closed.
type Waiter interface {
	Wait()
}

// Servers makes the servers that a manifest declares, as it declares them.
// Relative roots and programs stand in the workspace; markers are NAME=value
// pairs for the environment of every process that a server starts.
func Servers(m *Manifest, workspace string, markers []string) map[string]Server {
	servers := map[string]Server{}
	if c, ok := m.Server(builtin.Name); ok {
		servers[builtin.Name] = builtin.New(builtin.Options{
			Workspace: workspace, Roots: c.Roots, Hosts: c.Hosts, Programs: c.Programs, Markers: markers,
		})
	}
	return servers
}

package tool

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// How we introduce ourselves. Nothing is offered: see openMCP.
var (
	ourselves      = &mcp.Implementation{Name: "tipstaff", Version: "1"}
	nothingOffered = &mcp.ClientCapabilities{}
)

const (
	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
	// discoverPatience is how long a server may be silent before it is also greeted in the
	// old way.
	discoverPatience = 5 * time.Second
)

// greeting is how a session begins. A server of the latest protocol answers server/discover,
// however long it takes to start, and refuses initialize. Older ones know only initialize,
// and some ignore every other request. So the latest way comes first and is not given up; a
// server that is silent is sent initialize beside it, and what it takes counts.
type greeting struct {
	ctx context.Context // of the connection; that of server/discover has the version of the protocol in it
	old chan greeted    // will hold that of initialize; nil: it was not sent here
	// refused is why initialize was, if that came first: a better reason than that time was
	// up while the server was silent about server/discover.
	refused error
}

type greeted struct {
	result mcp.Result
	err    error
}

// errOldWay ends the wait for server/discover: the SDK goes on with initialize.
var errOldWay = errors.New("the server was initialized")

// send is middleware of the SDK, which asks server/discover and, if that fails, initialize.
func (g *greeting) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch {
		case method == methodDiscover:
			return g.discover(ctx, next, r)
		case method == methodInitialize && g.old != nil:
			a := <-g.old
			return a.result, a.err
		}
		return next(ctx, method, r)
	}
}

func (g *greeting) discover(ctx context.Context, next mcp.MethodHandler, r mcp.Request) (mcp.Result, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	latest := ask(ctx, next, methodDiscover, r)
	select {
	case a := <-latest:
		return a.result, a.err
	case <-time.After(discoverPatience):
	}
	session, ok := r.GetSession().(*mcp.ClientSession)
	if g.old == nil && ok {
		g.old = ask(g.ctx, next, methodInitialize, &mcp.InitializeRequest{Session: session,
			Params: &mcp.InitializeParams{ProtocolVersion: greetedProtocol, ClientInfo: ourselves, Capabilities: nothingOffered}})
	}
	select {
	case a := <-latest:
		return a.result, a.err
	case a := <-g.old:
		g.old <- a // for the SDK, if it comes to that
		if a.err == nil {
			return nil, errOldWay
		}
		g.refused = a.err
	}
	a := <-latest // it refuses the old way, so it knows the new one
	return a.result, a.err
}

// ask sends a request. Its answer can be taken, and put back.
func ask(ctx context.Context, next mcp.MethodHandler, method string, r mcp.Request) chan greeted {
	answered := make(chan greeted, 1)
	go func() {
		result, err := next(ctx, method, r)
		answered <- greeted{result, err}
	}()
	return answered
}

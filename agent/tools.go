package agent

import (
	"context"
	"encoding/json"

	"github.com/tipstaff/tipstaff/workspace"
)

// Names of the activities that a turn asks for. A tool call is tool.ActivityName.
const (
	CatalogActivity = "tool.catalog"
	RouterActivity  = "router.narrow"
	ModelActivity   = "model.call"
)

// Tools is what the library form calls. In a run its place is taken by the
// activities of package tool.
type Tools interface {
	Catalog(ctx context.Context) (*Catalog, error)
	// Call performs a call. IsError of the result: the tool ran and failed. An error:
	// it could not be called; a *flow.Error says more.
	Call(ctx context.Context, c ToolCall) (ToolResult, error)
}

// Catalog is what a turn may use at most, in the order of server and tool name.
type Catalog struct {
	Tools []Tool `json:"tools"`
}

// Tool is an entry of a catalog: a definition and the URI under which it is
// declared.
type Tool struct {
	URI     string          `json:"uri"`
	Server  string          `json:"server"`
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Raw     json.RawMessage `json:"definition"` // as its server lists it: name, description, inputSchema, annotations
	Config  workspace.Tool  `json:"config"`     // as the manifest declares it
}

// ToolCall is a call that was allowed.
type ToolCall struct {
	URI, Server, Tool string
	Arguments         json.RawMessage // canonical: these bytes were approved
	ID                string          // of the model
	Key               string          // idempotency key
	Path              string
	Attempt           int
}

// ToolResult is what a tool answered.
type ToolResult struct {
	Content    []Content       `json:"content"`
	Structured json.RawMessage `json:"structured,omitempty"`
	IsError    bool            `json:"is_error,omitempty"`
}

// NoTools is the empty catalog, for agents that only talk.
var NoTools Tools = noTools{}

type noTools struct{}

func (noTools) Catalog(context.Context) (*Catalog, error) { return &Catalog{}, nil }

func (noTools) Call(context.Context, ToolCall) (ToolResult, error) {
	panic("agent: there are no tools")
}

// Dispatch performs a call that was approved.
type Dispatch func(ctx context.Context, c ToolCall) (ToolResult, error)

// Middleware stands between approval and dispatch. It may refuse a call or shorten
// a result; it may not change arguments.
type Middleware func(next Dispatch) Dispatch

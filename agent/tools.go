package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
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

// Tool is an entry of a catalog.
type Tool = tool.Entry

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

// Vendors take names of at most this many letters, digits, _ and -.
const (
	maxOfferName = 64
	hashDigits   = 8
)

// offerNames are the names under which tools are offered, in their order. They are
// made from the whole catalog, so that a tool is called the same whatever else is
// offered beside it. The way back is a look-up: tool names may contain what joins
// them to their server's.
func offerNames(tools []Tool) []string {
	names := make([]string, len(tools))
	taken := map[string]bool{}
	for i, t := range tools {
		plain := PlainName(t.Server + "__" + t.Name)
		name := plain
		sum := sha256.Sum256([]byte(t.URI))
		for digits := hex.EncodeToString(sum[:]); len(name) > maxOfferName || taken[name]; digits = digits[hashDigits:] {
			// A digest has eight times eight digits, and nobody has that much bad luck.
			name = plain[:min(len(plain), maxOfferName-1-hashDigits)] + "_" + digits[:hashDigits]
		}
		names[i], taken[name] = name, true
	}
	return names
}

// PlainName is a name with only what vendors take in the names of tools: letters,
// digits, _ and -. Everything else becomes _.
func PlainName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

// offer is a tool as a model is told of it.
func offer(t Tool, name string) (Offer, error) {
	var d struct {
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(t.Raw, &d); err != nil {
		return Offer{}, &flow.Error{Code: tool.CodeUnknown, Message: fmt.Sprintf("the definition of %s/%s cannot be read: %v", t.Server, t.Name, err)}
	}
	return Offer{Name: name, Description: d.Description, Schema: d.InputSchema, Tool: t.Server + "/" + t.Name}, nil
}

// CatalogOf is what a gate lets an agent use: the tools on its allow-list that it
// has definitions of, by server and name.
func CatalogOf(g *tool.Gate) *Catalog {
	c := &Catalog{Tools: []Tool{}}
	for _, d := range g.Tools.Definitions() {
		for _, uri := range g.AllowList {
			if u, err := tipstaff.ParseToolURI(uri); err != nil || u.Server != d.Server || u.Tool != d.Tool {
				continue
			}
			if found, err := g.Tools.Lookup(uri); err != nil || found != d {
				continue // it is pinned to something else
			}
			c.Tools = append(c.Tools, Tool{URI: uri, Server: d.Server, Name: d.Tool, Version: d.Version, Raw: d.Raw, Config: declared(g.Manifest, d)})
		}
	}
	return c
}

// declared is what a manifest says of a tool, without the defaults: those of the
// agent hold where it says nothing.
func declared(m *workspace.Manifest, d *tool.Definition) workspace.Tool {
	s, _ := m.Server(d.Server)
	c := s.Tools[d.Tool]
	if c.Timeout == 0 {
		c.Timeout = time.Duration(s.Timeout)
	}
	return c
}

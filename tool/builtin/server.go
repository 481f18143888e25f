package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The server's name in manifests and the version it reports. The version belongs
// to the definitions: one that changes any of them is another version.
const (
	Name    = "builtin"
	Version = "1.0.0"
)

// Options say what the tools may touch. The zero value allows nothing that
// touches the world.
type Options struct {
	Workspace string   // folder that relative roots and programs stand in; "": the current one
	Roots     []string // folders that may be read and written; the first is that of relative paths
	Hosts     []string // host or host:port that may be fetched from; a host alone covers every port
	Programs  []string // argv[0] that may be run, compared literally

	// Protected is what no tool writes, because the manifest runs or obeys it: files and
	// folders, relative to the workspace or absolute; * stands for any name, or part of
	// one. nil: nothing but what every workspace has.
	Protected func() []string
	// Nested is the same of another workspace, above or below.
	Nested func(workspace string) []string

	// Markers are NAME=value pairs that every process gets, by which all that a run
	// started can be found.
	Markers []string
}

// Server makes connections to the tools.
type Server struct {
	options Options
	cel     func() (*celEnv, error)

	mu      sync.Mutex
	folders map[string]*folder         // that are open, by path
	running map[*process]chan struct{} // closed when the process is gone
}

// New makes a server. Nothing is opened before a tool is called.
func New(o Options) *Server {
	o.Roots, o.Hosts, o.Programs = slices.Clone(o.Roots), slices.Clone(o.Hosts), slices.Clone(o.Programs)
	return &Server{options: o, cel: sync.OnceValues(newCELEnv), folders: map[string]*folder{}, running: map[*process]chan struct{}{}}
}

// ProtocolVersion: requests of later revisions describe the client each time,
// which would be a fifth of what a call in memory costs.
func (s *Server) ProtocolVersion() string { return "2025-11-25" }

// Tools are the names of the tools, sorted.
func Tools() []string {
	return []string{"exec", "http_get", "json_query", "list_dir", "read_file", "sleep", "write_file"}
}

// Stops reports whether a tool ends itself in good order when it is cancelled
// and then replies with what it knows.
func (s *Server) Stops(tool string) bool { return tool == "exec" }

// Wait returns when the processes that run now are gone. They end soon after
// their connection is closed.
func (s *Server) Wait() {
	s.mu.Lock()
	running := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	for _, gone := range running {
		<-gone
	}
}

// track makes Wait wait for p, until the returned function is called.
func (s *Server) track(p *process) (untrack func()) {
	gone := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[p] = gone
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, p)
		close(gone)
	}
}

// Transport connects a new session of the server and returns the client's end.
func (s *Server) Transport(ctx context.Context) (mcp.Transport, error) {
	client, server := newMemory()
	if _, err := s.server().Connect(ctx, server, nil); err != nil {
		return nil, err
	}
	return client, nil
}

func (s *Server) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: Name, Version: Version}, &mcp.ServerOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	add(server, readFileTool, s.readFile)
	add(server, writeFileTool, s.writeFile)
	add(server, listDirTool, s.listDir)
	add(server, httpGetTool, s.httpGet)
	add(server, execTool, s.exec)
	add(server, jsonQueryTool, s.jsonQuery)
	add(server, sleepTool, s.sleep)
	return server
}

// definition is a tool as it is listed.
type definition struct {
	name, title, description string
	input, output            string // JSON Schema
	hints                    mcp.ToolAnnotations
}

// call is what a tool may do besides answering.
type call struct {
	ctx context.Context
	req *mcp.CallToolRequest
}

// answer is a tool's result: the value, and the part of it that is text. A
// failed one is an in-band error that still has a value.
type answer struct {
	value  any
	text   string
	failed bool
	meta   mcp.Meta
}

// add lists a tool. Its function gets decoded arguments; its errors are in-band,
// for they tell what the tool found, not that the protocol failed.
func add[In any](server *mcp.Server, d definition, run func(call, In) (answer, error)) {
	tool := &mcp.Tool{
		Name: d.name, Title: d.title, Description: d.description,
		InputSchema: json.RawMessage(d.input), OutputSchema: json.RawMessage(d.output),
		Annotations: &d.hints,
	}
	server.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (_ *mcp.CallToolResult, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("%s panicked: %v\n%s", d.name, p, debug.Stack())}
			}
		}()
		var in In
		if err := decode(req.Params.Arguments, &in); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		a, err := run(call{ctx, req}, in)
		if err != nil {
			return &mcp.CallToolResult{Meta: refusedMeta(err), IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		return a.result()
	})
}

func (a answer) result() (*mcp.CallToolResult, error) {
	value, err := encode(a.value)
	if err != nil {
		return nil, err
	}
	r := &mcp.CallToolResult{
		Meta: a.meta, IsError: a.failed, StructuredContent: value,
		Content: []mcp.Content{&mcp.TextContent{Text: a.text}},
	}
	return r, nil
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// decode refuses unknown members: an argument that would be ignored is a mistake
// of the caller.
func decode(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// hints are a tool's annotations, every one stated: what is left out claims
// nothing.
func hints(readOnly, idempotent, destructive, openWorld bool) mcp.ToolAnnotations {
	return mcp.ToolAnnotations{ReadOnlyHint: readOnly, IdempotentHint: idempotent, DestructiveHint: &destructive, OpenWorldHint: &openWorld}
}

package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// maxWatches is how many calls of run_watch are answered at once.
const maxWatches = 256

// Options are what a server is made with.
type Options struct {
	Control tipstaff.Control
	// Unresolved is why there are no runs to control: every tool answers with it. nil: there are.
	Unresolved *tipstaff.Error
	Version    string
	ReadOnly   bool     // only tools that change nothing are offered
	Decide     bool     // the client on standard input and output may decide gates
	Folders    []string // of this machine, the inner ones first, which errors do not name
	Log        *slog.Logger
}

// Server is the control plane for MCP clients, whichever way they come.
type Server struct {
	o       Options
	mcp     *mcp.Server
	watches chan struct{} // places for calls that wait
	topics  topics
	asked   asked
}

// New returns a server with its catalogue.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, watches: make(chan struct{}, maxWatches), topics: topics{open: map[string]*topic{}},
		asked: asked{gates: map[string]tipstaff.AskedGate{}, declined: map[string]bool{}}}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "tipstaff", Title: "Tipstaff", Version: o.Version}, &mcp.ServerOptions{
		Instructions:       instructions,
		SubscribeHandler:   s.subscribe,
		UnsubscribeHandler: s.unsubscribe,
		// The catalogue stays as it is: nobody need listen for another.
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{}, Resources: &mcp.ResourceCapabilities{Subscribe: true}},
		SupportedProtocolVersions: Protocols(),
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			if _, reads := req.(*mcp.ReadResourceRequest); reads { // who may see a run differs
				c.CacheScope = "private"
			}
		},
	})
	for _, t := range tools() {
		if !o.ReadOnly || t.hints.readOnly {
			t.add(s)
		}
	}
	s.addResources()
	s.addPrompts()
	s.mcp.AddReceivingMiddleware(s.errors, s.identify)
	return s
}

// oldest is the first revision of the protocol that is spoken.
const oldest = "2025-06-18"

// Protocols are the revisions that are spoken, newest first.
func Protocols() (spoken []string) {
	for _, v := range mcp.SupportedProtocolVersions() {
		if v >= oldest {
			spoken = append(spoken, v)
		}
	}
	return spoken
}

// tool is an entry of the catalogue.
type tool struct {
	name, title, text string
	hints             hints
	in, out           *jsonschema.Schema
	call              func(ctx context.Context, c tipstaff.Control, arguments json.RawMessage) (any, error)
}

// newTool is a tool that does what a method of Control does. own says what only this tool's
// arguments mean.
func newTool[In, Out any](name, title string, h hints, text string, call func(tipstaff.Control, context.Context, In) (Out, error), own map[string]property) tool {
	return tool{name: name, title: title, text: text, hints: h, in: inputSchema(reflect.TypeFor[In](), own), out: outputSchema(reflect.TypeFor[Out]()),
		call: func(ctx context.Context, c tipstaff.Control, arguments json.RawMessage) (any, error) {
			var in In
			if err := decode(arguments, &in); err != nil {
				return nil, err
			}
			return call(c, ctx, in)
		}}
}

// decode reads arguments that fit their schema.
func decode(arguments json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil && err != io.EOF {
		return invalidArguments(err)
	}
	return nil
}

// add has a server offer the tool.
func (t tool) add(s *Server) {
	resolved, err := t.in.Resolve(nil)
	if err != nil {
		panic("mcpserver: " + t.name + ": " + err.Error()) // the catalogue is ours
	}
	spec := &mcp.Tool{Name: t.name, Title: t.title, Description: t.text, InputSchema: t.in, OutputSchema: t.out,
		Annotations: &mcp.ToolAnnotations{Title: t.title, ReadOnlyHint: t.hints.readOnly, DestructiveHint: &t.hints.destructive,
			IdempotentHint: t.hints.idempotent, OpenWorldHint: &t.hints.openWorld}}
	s.mcp.AddTool(spec, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := surviving(func() (*mcp.CallToolResult, error) { return t.answer(ctx, s, req, resolved) })
		if err != nil { // made a result here, where the library still says of it what its revision wants said
			return s.failed(ctx, err)
		}
		return res, nil
	})
}

// answer does what the tool is called for.
func (t tool) answer(ctx context.Context, s *Server, req *mcp.CallToolRequest, schema *jsonschema.Resolved) (*mcp.CallToolResult, error) {
	arguments := req.Params.Arguments
	if err := check(schema, arguments); err != nil {
		return nil, invalidArguments(err)
	}
	if s.o.Unresolved != nil {
		return nil, s.o.Unresolved
	}
	if t.name == tipstaff.ToolRunWatch {
		select {
		case s.watches <- struct{}{}:
			defer func() { <-s.watches }()
		default:
			return nil, tipstaff.Errorf(tipstaff.TooManyWatchers, "%d watches are under way: no more are answered", maxWatches).WithHint("ask run_status now and then")
		}
	}
	answered, err := s.decideAnswered(ctx, req)
	if err != nil {
		return nil, err
	}
	ctx = withProgress(ctx, req)
	out, err := t.call(ctx, s.o.Control, arguments)
	if lacksFeedback(err) && canAsk(req.ClientCapabilities()) {
		answer, question, failed := s.ask(ctx, req, feedbackInput, feedbackForm(err))
		if question != nil || failed != nil {
			return question, failed
		}
		if answer.Action == "accept" {
			if arguments, err = withFeedback(arguments, answer); err == nil {
				out, err = t.call(ctx, s.o.Control, arguments)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if gate := s.gateToAsk(ctx, req, out); gate != nil && !answered {
		name := s.asked.note(*gate)
		answer, question, err := s.ask(ctx, req, name, gateForm(*gate))
		if question != nil || err != nil {
			return question, err
		}
		if err = s.decideAs(ctx, name, *gate, answer); err == nil {
			out, err = t.call(ctx, s.o.Control, arguments)
		}
		if err != nil {
			return nil, err
		}
	}
	return resultOf(out)
}

// check holds arguments against their schema.
func check(schema *jsonschema.Resolved, arguments json.RawMessage) error {
	given := map[string]any{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return err
		}
	}
	return schema.Validate(given)
}

// resultOf is what a tool answers: the same as structure and as text, for clients that read
// one of them. Both are written as other surfaces write it.
func resultOf(out any) (*mcp.CallToolResult, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return &mcp.CallToolResult{StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil
}

// callerKey is where a request over HTTP says who makes it.
const callerKey = "tipstaff.caller"

// identify says on whose behalf a request is made: who bears the token of this very request,
// else whoever has started the server.
func (s *Server) identify(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		caller := tipstaff.CallerFrom(ctx)
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			caller, _ = extra.TokenInfo.Extra[callerKey].(tipstaff.Caller)
		}
		if c, ok := req.(interface{ ClientInfo() *mcp.Implementation }); ok {
			if info := c.ClientInfo(); info != nil {
				caller.Client = info.Name + "/" + info.Version
			}
		}
		return next(tipstaff.WithCaller(ctx, caller), method, req)
	}
}

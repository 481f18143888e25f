package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// ActivityName is the name under which calls ask for a tool.
const ActivityName = "tool.call"

// OutputKind is the kind of the notes that carry what a call prints while it
// runs.
const OutputKind = "plan.output"

// ProgressKind is the kind of what a call tells of its progress: it is not
// recorded.
const ProgressKind = "tool.progress"

const (
	progressPause = 100 * time.Millisecond
	maxProgress   = 200 // bytes of a message
)

const idempotencyKey = "tipstaff/idempotency-key"

// Input is the input of tool.call.
type Input struct {
	URI   string          `json:"uri"`
	Args  json.RawMessage `json:"args"`
	Parse string          `json:"parse,omitempty"` // "" or ParseJSON
	By    string          `json:"by,omitempty"`    // see Request.By

	// Content asks for the reply as a model is shown it: the value is a Reply.
	Content bool `json:"content,omitempty"`
	// Turn is that of the agent that makes the call; nil: a plan does.
	Turn *policy.Turn `json:"turn,omitempty"`
	// Digests of what was decided about: the definition, the canonical arguments and
	// what guards found. What is about to be sent must still have them. "": it is not
	// compared.
	Definition string `json:"definition,omitempty"`
	ArgsDigest string `json:"args_digest,omitempty"`
	Facts      string `json:"facts,omitempty"`
}

// agent reports whether an agent makes the call, or nobody knows who does.
func (in Input) agent() bool { return in.By == "" || in.Turn != nil }

func (in Input) turn() policy.Turn {
	if in.Turn == nil {
		return policy.Turn{}
	}
	return *in.Turn
}

// approved refuses what is not what was decided about.
func (in Input) approved(v Verdict) *flow.Error {
	switch {
	case in.Definition != "" && in.Definition != v.Definition.Digest:
		return refusal(CodeDefinitionChanged, detail{"accepted": in.Definition, "digest": v.Definition.Digest},
			"the definition of %s is not the one that was approved with the call", v.Definition.Tool)
	case in.ArgsDigest != "" && in.ArgsDigest != v.ArgsDigest():
		return refusal(CodeGuardRefused, detail{"approved": in.ArgsDigest, "digest": v.ArgsDigest()},
			"the arguments of %s are not those that were approved", v.Definition.Tool)
	case in.Facts != "" && in.Facts != v.FactsDigest():
		return refusal(CodeGuardRefused, detail{"approved": in.Facts, "digest": v.FactsDigest(), "facts": v.Facts},
			"guards now find something else in the arguments of %s than when the call was decided", v.Definition.Tool)
	}
	return nil
}

// Output is the body of a plan.output note: one piece of what a call printed.
type Output struct {
	Channel string `json:"channel"` // stdout, stderr
	N       int    `json:"n"`       // from 1, in each channel
	Chunk   string `json:"chunk"`
	Final   bool   `json:"final"`
}

// Activity performs tool.call for a run. frozen is the gate over what the run has
// frozen: its allow-list holds, and its definitions are what live ones must still
// equal. Manifest, policy and definitions are those of now.
//
// Check refuses what the gate refuses. Run asks it again on the bytes it sends.
// Of class once it knows three ends: NotSent, Answered or a value, and otherwise
// in doubt.
func (m *Manager) Activity(frozen *Gate) flow.Activity {
	a := &activity{manager: m, frozen: frozen}
	return flow.Activity{Check: a.check, Run: a.run, Stops: a.stops, Prompt: a.prompt}
}

type activity struct {
	manager *Manager
	frozen  *Gate
	checked sync.Map // by path: what is known of an attempt before it runs
}

// checked is an attempt's input and, once Check has asked, the gate's verdict
// over a server's list. The gate is a pure function: asked about the same bytes
// over the same list it says the same, so that Run need not ask again.
type checked struct {
	bytes   string
	input   Input
	uri     tipstaff.ToolURI
	catalog *catalog // nil: the gate was not asked
	verdict Verdict
}

// read is the input of an attempt, taken apart once for all that ask.
func (a *activity) read(t flow.Attempt) (checked, *flow.Error) {
	if known, ok := a.checked.Load(t.Path); ok {
		if c := known.(checked); c.bytes == string(t.Input) {
			return c, nil
		}
	}
	in, u, refused := parseInput(t.Input)
	if refused != nil {
		return checked{}, refused
	}
	c := checked{bytes: string(t.Input), input: in, uri: u}
	a.checked.Store(t.Path, c)
	return c, nil
}

func parseInput(raw json.RawMessage) (Input, tipstaff.ToolURI, *flow.Error) {
	var in Input
	if err := document.UnmarshalStrict(raw, &in); err != nil {
		return in, tipstaff.ToolURI{}, refusal(CodeInvalidArguments, nil, "the input of %s cannot be read: %v", ActivityName, err)
	}
	if in.Parse != "" && in.Content {
		return in, tipstaff.ToolURI{}, refusal(CodeInvalidArguments, nil, "parse and content exclude each other")
	}
	if in.Parse != "" && in.Parse != ParseJSON {
		return in, tipstaff.ToolURI{}, refusal(CodeInvalidArguments, nil, "parse is %q: only %q is known", in.Parse, ParseJSON)
	}
	u, err := tipstaff.ParseToolURI(in.URI)
	if err != nil {
		return in, tipstaff.ToolURI{}, refusal(CodeUndeclared, nil, "%v", err)
	}
	return in, u, nil
}

func (a *activity) check(ctx context.Context, t flow.Attempt) error {
	c, refused := a.read(t)
	if refused != nil {
		return refused
	}
	tools, err := a.live(ctx, c.uri)
	if refused := refusalOf(err); refused != nil {
		return refused // the server may not be started
	}
	if err != nil {
		return nil // it does not answer: Run will meet that, and say so
	}
	if c.verdict = a.ask(t, c.input, tools); c.verdict.Err != nil {
		a.checked.Delete(t.Path)
		return c.verdict.Err
	}
	c.catalog = tools.servers[c.uri.Server]
	a.checked.Store(t.Path, c)
	return nil
}

// live is a registry of what the URI's server lists at this moment. An
// undeclared server has none, and is refused by the gate.
func (a *activity) live(ctx context.Context, u tipstaff.ToolURI) (*Registry, error) {
	r := &Registry{servers: map[string]*catalog{}}
	if _, ok := a.manager.links[u.Server]; !ok {
		return r, nil
	}
	c, err := a.manager.catalog(ctx, u.Server)
	if err != nil {
		return nil, err
	}
	r.servers[u.Server] = c
	return r, nil
}

// ask is the gate over what holds now.
func (a *activity) ask(t flow.Attempt, in Input, tools *Registry) Verdict {
	g := Gate{AllowList: a.frozen.AllowList, Manifest: a.manager.manifest, Tools: tools, Policy: a.manager.manifest.Rules(),
		Lock: a.frozen.Tools, File: a.manager.lock, Run: a.frozen.Run, clean: a.frozen.clean, fitting: a.frozen.fitting}
	return g.Admit(in, policy.Run{ID: t.Run, Path: t.Path})
}

func (a *activity) stops(t flow.Attempt) bool {
	c, refused := a.read(t)
	return refused == nil && a.stopsTool(c.uri)
}

// prompt: a call whose context ends is not waited for, unless the tool ends
// itself, which takes its time.
func (a *activity) prompt(t flow.Attempt) bool { return !a.stops(t) }

func (a *activity) stopsTool(u tipstaff.ToolURI) bool {
	l, ok := a.manager.links[u.Server]
	if !ok {
		return false
	}
	s, ok := l.server.(Stopper)
	return ok && s.Stops(u.Tool)
}

// run makes the call. A panic on its way is the call's failure and nobody else's; of
// once it leaves the call in doubt, as the engine has it.
func (a *activity) run(ctx context.Context, t flow.Attempt) (done flow.Done, err error) {
	if t.Class != flow.Once {
		defer func() {
			if p := recover(); p != nil {
				err = &flow.Error{Code: CodePanic, Message: fmt.Sprintf("the call at %s panicked: %v", t.Path, p),
					Detail: flow.JSON(map[string]string{"stack": string(debug.Stack())})}
			}
		}()
	}
	return a.dispatch(ctx, t)
}

func (a *activity) dispatch(ctx context.Context, t flow.Attempt) (flow.Done, error) {
	known, refused := a.read(t)
	if refused != nil {
		return flow.Done{}, refused
	}
	a.checked.Delete(t.Path)
	in, u := known.input, known.uri
	l, ok := a.manager.links[u.Server]
	if !ok {
		return flow.Done{}, a.ask(t, in, &Registry{}).Err
	}
	release, err := l.slot(ctx)
	if err != nil {
		return flow.Done{}, unsent(ctx, err)
	}
	defer release()
	conn, err := l.connection(ctx)
	if err != nil {
		return flow.Done{}, unsent(ctx, err)
	}
	c, err := conn.tools(ctx, a.manager.manifest)
	if err != nil {
		return flow.Done{}, unsent(ctx, err)
	}
	v := known.verdict
	if known.catalog != c { // not asked yet, or about another list
		v = a.ask(t, in, &Registry{servers: map[string]*catalog{u.Server: c}})
	}
	if v.Err != nil {
		return flow.Done{}, v.Err
	}
	if strictness(v.Class) > strictness(t.Class) {
		return flow.Done{}, refusal(CodeEffectDenied, detail{"class": v.Class}, "%s has effect %s, but the call treats it as %s", u.Tool, v.Class, t.Class)
	}
	stops := a.stopsTool(u)
	if stops { // what can be stopped is a process
		a.manager.spawned.Store(true)
	}
	whole := false
	defer func() {
		if !whole { // nobody knows in which state a panic has left it
			go conn.close()
		}
	}()
	done, err := a.send(ctx, t, conn, v, in.shape(), stops)
	whole = true
	return done, err
}

// send makes the call. From the moment the request is written, only a reply says
// what became of it.
func (a *activity) send(ctx context.Context, t flow.Attempt, conn *connection, v Verdict, as shape, stops bool) (flow.Done, error) {
	if ctx.Err() != nil {
		return flow.Done{}, unsent(ctx, ctx.Err())
	}
	params := &mcp.CallToolParams{
		Meta:      mcp.Meta{idempotencyKey: t.Key, traceparent: traceOf(ctx, t)},
		Name:      v.Definition.Tool,
		Arguments: v.Args,
	}
	if v.Definition.Server == builtin.Name {
		_, program, _ := a.frozen.Tools.program(v.Definition, v.Args)
		builtin.Demand{CleanPaths: a.frozen.clean, Program: program}.AddTo(params.Meta)
	}
	onProgress := progressTold(t, a.manager.redactor)
	if stops { // what others say of their progress is nobody's output
		onProgress = outputNotes(t, a.manager.redactor)
	}
	got, err := conn.call(ctx, params, stops, onProgress)
	switch {
	case got.result != nil && stops && ctx.Err() != nil && builtin.Killed(got.result):
		return flow.Done{}, broken(ctx, v.Definition, got.result, as)
	case got.result != nil:
		value, failed := answer(v.Definition, got.result, as, a.manager.redactor)
		if code := builtin.Refused(got.result); failed != nil && code != "" && v.Definition.Server == builtin.Name {
			return flow.Done{}, refusal(code, nil, "%s", failed.Message)
		}
		if failed != nil && failed.Code == CodeToolError && ctx.Err() != nil && t.Class != flow.Once {
			return flow.Done{}, lost(ctx, v.Definition, err) // it failed because it was cancelled
		}
		if failed != nil {
			return flow.Done{}, unanswered(v.Definition, got.asked, failed)
		}
		return flow.Done{Value: value}, nil
	case got.large != nil:
		return flow.Done{}, answered(flow.CodeResultTooLarge, detail{"size": got.large.size, "max_result": v.Definition.MaxResult},
			"the reply of %s has more than %d bytes: max_result is %d", v.Definition.Tool, maxFrame, v.Definition.MaxResult)
	case got.failure != nil && stops && ctx.Err() != nil: // the tool itself would have said what it did
		return flow.Done{}, unsent(ctx, err)
	case got.failure != nil:
		return flow.Done{}, protocolError(v.Definition, got.asked, got.failure)
	case !got.sent:
		return flow.Done{}, unsent(ctx, err)
	}
	return flow.Done{}, lost(ctx, v.Definition, err)
}

// Progress is the body of ProgressKind.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0: not known
	Message  string  `json:"message,omitempty"`
}

// progressTold hands on how far a call says it is, a few times a second at most.
// Credentials go before the message is cut: half of one could not be told.
func progressTold(t flow.Attempt, r *Redactor) func(progress) {
	if t.Tell == nil {
		return nil
	}
	var last time.Time
	return func(p progress) {
		if time.Since(last) < progressPause {
			return
		}
		last = time.Now()
		t.Tell(flow.Event{Kind: ProgressKind, Body: Progress{p.Progress, p.Total, cut(r.Text(p.Message), maxProgress)}})
	}
}

// outputNotes writes what a call prints as notes, numbered in each channel.
// A credential may stand in two pieces: what may be the beginning of one waits for
// the next.
func outputNotes(t flow.Attempt, r *Redactor) func(progress) {
	if t.Note == nil {
		return nil
	}
	n := map[string]int{}
	clean := map[string]*stream{}
	return func(p progress) {
		o, ok := builtin.ParseOutput(p.Message, p.Meta)
		if !ok {
			return
		}
		if clean[o.Channel] == nil {
			clean[o.Channel] = &stream{redactor: r}
		}
		text := clean[o.Channel].next(o.Chunk)
		if o.Final {
			text += clean[o.Channel].rest()
		}
		if text == "" && !o.Final {
			return
		}
		n[o.Channel]++
		t.Note(flow.Event{Kind: OutputKind, Body: Output{o.Channel, n[o.Channel], text, o.Final}})
	}
}

// limitOf is the limit whose passing ended ctx, nil if it ended otherwise or not
// at all.
func limitOf(ctx context.Context) *flow.Error {
	var limit *flow.Error
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.As(context.Cause(ctx), &limit):
		copied := *limit
		return &copied
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &flow.Error{Code: flow.CodeTimeout, Message: "the call took too long", Retry: true}
	}
	return nil
}

// unsent is the end of a call that never reached its server.
func unsent(ctx context.Context, err error) error {
	if limit := limitOf(ctx); limit != nil {
		limit.NotSent = true
		return limit
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, flow.ErrCancelled):
		return &flow.Error{Code: CodeUnavailable, Message: "the call was cancelled before it was sent", NotSent: true}
	case cause != nil: // a stop must not look like a failure
		return cause
	}
	if refused := refusalOf(err); refused != nil {
		return refused
	}
	return &flow.Error{Code: CodeUnavailable, Message: fmt.Sprintf("the server cannot be reached: %v", err), Retry: true, NotSent: true}
}

// lost is the end of a call that was sent and not answered. It carries neither
// NotSent nor Answered: of class once it is in doubt.
func lost(ctx context.Context, d *Definition, err error) error {
	if limit := limitOf(ctx); limit != nil {
		return limit
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var status *statusError
	if errors.As(err, &status) {
		return status.failure(d)
	}
	return &flow.Error{Code: CodeUnavailable, Message: fmt.Sprintf("%s was lost before it answered: %v", d.Server, err), Retry: true}
}

// broken is the end of a call that ended itself because it was told to. At a
// limit, or when its run is cancelled or its group fails, what it says is
// definite. What a stop of the process broke off stays in doubt, so that an
// interrupted run does not fail for it.
func broken(ctx context.Context, d *Definition, raw json.RawMessage, as shape) error {
	var told detail
	if _, failed := answer(d, raw, as, nil); failed != nil {
		_ = json.Unmarshal(failed.Detail, &told) // what it printed until then
	}
	if limit := limitOf(ctx); limit != nil {
		limit.Answered, limit.Retry = true, false
		if told != nil {
			limit.Detail = flow.JSON(told)
		}
		return limit
	}
	if cause := context.Cause(ctx); !errors.Is(cause, flow.ErrCancelled) {
		return cause
	}
	return answered(CodeKilled, told, "%s was ended because its run was cancelled or its group failed", d.Tool)
}

// protocolError maps an error reply of the protocol. The server refused the
// request before it did anything, except when it reports a fault of its own:
// that tells nothing of what was done.
func protocolError(d *Definition, asked string, e *jsonrpc.Error) error {
	if e.Code == jsonrpc.CodeInternalError && asked == "" {
		return &flow.Error{Code: flow.CodeInternal, Message: d.Server + " failed in itself: " + e.Message}
	}
	if e.Code == mcp.CodeURLElicitationRequired {
		asked = "elicitation/create"
	}
	return unanswered(d, asked, answered(CodeToolError, detail{"code": e.Code}, "%s refused the call: %s", d.Server, e.Message))
}

// unanswered is a call's failure, which is laid to what the server asked for in
// the middle of it and did not get; "" is nothing.
func unanswered(d *Definition, asked string, failed *flow.Error) *flow.Error {
	if asked == "" || failed.Code != CodeToolError {
		return failed
	}
	return answered(CodeToolError, detail{"reason": inputRequired, "asked": asked},
		"%s asked for input (%s), which is not offered: %s", d.Tool, asked, failed.Message)
}

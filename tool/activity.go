package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// ActivityName is the name under which calls ask for a tool.
const ActivityName = "tool.call"

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

// Activity performs tool.call for a run. frozen is the gate over what the run has
// frozen: its allow-list holds, and its definitions are what live ones must still
// equal. Manifest, policy and definitions are those of now.
//
// Check refuses what the gate refuses. Run asks it again on the bytes it sends.
// Of class once it knows three ends: NotSent, Answered or a value, and otherwise
// in doubt.
func (m *Manager) Activity(frozen *Gate) flow.Activity {
	a := &activity{m, frozen}
	return flow.Activity{Check: a.check, Run: a.run, Stops: a.stops, Awaited: a.stops}
}

type activity struct {
	manager *Manager
	frozen  *Gate
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
	in, u, refused := parseInput(t.Input)
	if refused != nil {
		return refused
	}
	tools, err := a.live(ctx, u)
	if refused := refusalOf(err); refused != nil {
		return refused // the server may not be started
	}
	if err != nil {
		return nil // it does not answer: Run will meet that, and say so
	}
	if v := a.ask(t, in, tools); v.Err != nil {
		return v.Err
	}
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
		Lock: a.frozen.Tools, File: a.manager.lock, Run: a.frozen.Run, clean: a.frozen.clean}
	return g.Admit(in, policy.Run{ID: t.Run, Path: t.Path})
}

func (a *activity) stops(t flow.Attempt) bool {
	_, u, refused := parseInput(t.Input)
	return refused == nil && stops(u)
}

// stops reports whether a call ends itself in good order when its context ends.
func stops(u tipstaff.ToolURI) bool { return u.Server == builtin.Name && builtin.Stops(u.Tool) }

// run makes the call. A panic fails this call alone. A panic in a call of class once
// is left to the engine, which records the call as in doubt.
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
	in, u, refused := parseInput(t.Input)
	if refused != nil {
		return flow.Done{}, refused
	}
	l, ok := a.manager.links[u.Server]
	if !ok {
		return flow.Done{}, a.ask(t, in, &Registry{}).Err
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return flow.Done{}, unsent(ctx, ctx.Err())
	}
	done, err := a.attempt(ctx, t, l, in, u)
	if errors.Is(err, errSessionLost) { // the server did nothing, and may be another by now
		done, err = a.attempt(ctx, t, l, in, u)
	}
	if errors.Is(err, errSessionLost) {
		err = unsent(ctx, err)
	}
	return done, err
}

// attempt makes the call, if what the server lists at this moment allows it. Its error
// is errSessionLost if the server did not accept the session, and so did nothing.
func (a *activity) attempt(ctx context.Context, t flow.Attempt, l *link, in Input, u tipstaff.ToolURI) (flow.Done, error) {
	conn, c, err := l.open(ctx, a.manager.manifest)
	if err != nil {
		return flow.Done{}, unsent(ctx, err)
	}
	v := a.ask(t, in, &Registry{servers: map[string]*catalog{u.Server: c}})
	if v.Err != nil {
		return flow.Done{}, v.Err
	}
	if policy.Stricter(v.Class, t.Class) {
		return flow.Done{}, refusal(CodeEffectDenied, detail{"class": v.Class}, "%s has effect %s, but the call treats it as %s", u.Tool, v.Class, t.Class)
	}
	if stops(u) { // what can be stopped is a process
		a.manager.spawned.Store(true)
	}
	whole := false
	defer func() {
		if !whole { // after a panic its state is unknown
			go conn.close()
		}
	}()
	done, err := a.send(ctx, t, conn, v, in)
	whole = true
	return done, err
}

// send makes the call. From the moment the request is written, only a reply says
// what became of it.
func (a *activity) send(ctx context.Context, t flow.Attempt, s session, v Verdict, in Input) (flow.Done, error) {
	if ctx.Err() != nil {
		return flow.Done{}, unsent(ctx, ctx.Err())
	}
	d := v.Definition
	r := request{tool: d.Tool, args: v.Args, key: t.Key}
	if d.Server == builtin.Name {
		_, program, _ := a.frozen.Tools.program(d, v.Args)
		r.demand, r.onOutput = builtin.Demand{CleanPaths: a.frozen.clean, Program: program}, outputNotes(t, a.manager.redactor)
	} else {
		r.trace, r.onProgress = traceOf(ctx, t), progressTold(t, a.manager.redactor)
	}
	got, err := s.call(ctx, r)
	switch b := got.builtin; {
	case b != nil && b.Killed && ctx.Err() != nil:
		return flow.Done{}, broken(ctx, d, got, in)
	case b != nil || got.result != nil:
		value, media, failed := answer(d, got, in, a.manager.redactor, a.manager.Keep != nil)
		kept, unkept := a.keep(ctx, media)
		if unkept != nil {
			return flow.Done{}, unkept
		}
		if failed != nil && b != nil && b.Refused != nil {
			refused := *b.Refused
			refused.Message = failed.Message
			return flow.Done{}, &refused
		}
		if failed != nil && failed.Code == CodeToolError && ctx.Err() != nil && t.Class != flow.Once {
			return flow.Done{}, lost(ctx, d, err) // it failed because it was cancelled
		}
		if failed != nil {
			return flow.Done{Keep: kept}, unanswered(d, got.asked, failed)
		}
		return flow.Done{Value: value, Keep: kept}, nil
	case got.large != nil:
		return flow.Done{}, answered(flow.CodeResultTooLarge, detail{"size": got.large.size, "max_result": d.MaxResult},
			"the reply of %s has more than %d bytes: max_result is %d", d.Tool, maxFrame, d.MaxResult)
	case got.failure != nil:
		return flow.Done{}, protocolError(d, got.asked, got.failure)
	case !got.sent && errors.Is(err, errSessionLost):
		return flow.Done{}, err
	case !got.sent:
		return flow.Done{}, unsent(ctx, err)
	}
	return flow.Done{}, lost(ctx, d, err)
}

// keep stores what came with a reply, and returns its digests. The reply is there: it
// counts even if the call is cancelled by now.
func (a *activity) keep(ctx context.Context, media [][]byte) (digests []string, err error) {
	for _, data := range media {
		digest, err := a.manager.Keep(context.WithoutCancel(ctx), data)
		if err != nil {
			return nil, fmt.Errorf("what came with the reply cannot be stored: %w", err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

// progressTold hands on how far a call says it is, a few times a second at most.
// Credentials are removed before the message is cut: half of one would not be found.
func progressTold(t flow.Attempt, r *redact.Redactor) func(progress) {
	if t.Tell == nil {
		return nil
	}
	var last time.Time
	return func(p progress) {
		if time.Since(last) < progressPause {
			return
		}
		last = time.Now()
		t.Tell(flow.Event{Kind: string(tipstaff.KindToolProgress), Body: tipstaff.ToolProgress{Progress: p.Progress, Total: p.Total, Message: cut(r.Text(p.Message), maxProgress)}})
	}
}

// outputNotes writes what a call prints as notes, numbered in each channel.
// A credential may stand in two pieces: what may be the beginning of one waits for
// the next.
func outputNotes(t flow.Attempt, r *redact.Redactor) func(builtin.Output) {
	if t.Note == nil {
		return nil
	}
	n := map[string]int{}
	clean := map[string]*redact.Stream{}
	return func(o builtin.Output) {
		if clean[o.Channel] == nil {
			clean[o.Channel] = &redact.Stream{Redactor: r}
		}
		text := clean[o.Channel].Next(o.Chunk)
		if o.Final {
			text += clean[o.Channel].Rest()
		}
		if text == "" && !o.Final {
			return
		}
		n[o.Channel]++
		t.Note(flow.Event{Kind: string(tipstaff.KindPlanOutput), Body: tipstaff.PlanOutput{Channel: o.Channel, N: n[o.Channel], Chunk: text, Final: o.Final}})
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

// unsent is the outcome of a call that never reached its server.
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

// lost is the outcome of a call that was sent and not answered. It carries neither
// NotSent nor Answered: a call of class once is then in doubt.
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

// broken is the outcome of a call that stopped on request. If a limit or a cancelled run
// was the reason, its answer is definite. If this process is being
// stopped, the call stays in doubt, so that an interrupted run does not fail for it.
func broken(ctx context.Context, d *Definition, got reply, in Input) error {
	var told detail
	if _, _, failed := answer(d, got, in, nil, false); failed != nil {
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
	return answered(CodeKilled, told, "%s was ended because its run was cancelled", d.Tool)
}

// protocolError maps an error reply of the protocol. The server refused the
// request before it did anything, except when it reports a fault of its own:
// that says nothing about what was done.
func protocolError(d *Definition, asked string, e *jsonrpc.Error) error {
	if e.Code == jsonrpc.CodeInternalError && asked == "" {
		return &flow.Error{Code: flow.CodeInternal, Message: d.Server + " failed in itself: " + e.Message}
	}
	if e.Code == mcp.CodeURLElicitationRequired {
		asked = "elicitation/create"
	}
	return unanswered(d, asked, answered(CodeToolError, detail{"code": e.Code}, "%s refused the call: %s", d.Server, e.Message))
}

// unanswered attributes a call's failure to the input that the server asked for in the
// middle of the call and did not get. asked is "" if it asked for nothing.
func unanswered(d *Definition, asked string, failed *flow.Error) *flow.Error {
	if asked == "" || failed.Code != CodeToolError {
		return failed
	}
	return answered(CodeToolError, detail{"reason": inputRequired, "asked": asked},
		"%s asked for input (%s), which is not offered: %s", d.Tool, asked, failed.Message)
}

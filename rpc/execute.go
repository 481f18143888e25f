package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/pb"
)

// ExecutePipeline starts a draft, or goes on with a run that was interrupted, and
// streams what happens until it ends or waits. The caller is an observer: when it goes
// away the run goes on.
func (s *Server) ExecutePipeline(req *pb.ExecuteRequest, stream pb.CoreService_ExecutePipelineServer) error {
	ctx := acting(stream.Context(), req.GetEnvelope().GetUserId())
	run, err := s.toExecute(ctx, req)
	if err != nil {
		return err
	}
	start := tipstaff.ExecuteRequest{Run: run.ID, Thread: req.ThreadId, Via: surface}
	if start.Bounds, err = s.lowered(ctx, run, req.Bounds); err != nil {
		return err
	}
	p, err := s.program(ctx, req.Config)
	if err == nil && !p.given() && run.Program.Digest == "" {
		p, err = s.programOrDefault(ctx, nil)
	}
	if err != nil {
		return err
	}
	if !p.given() && run.Program.Digest == "" {
		return invalid("config", "the Envelope has no pipeline, and this server no default one")
	}
	start.Program, start.Name, start.File, start.NoFiles = p.document, p.name, p.file, p.file == ""
	started, err := s.svc.ExecuteEnvelope(ctx, start)
	if err != nil {
		return err
	}
	return s.watch(ctx, watching{run: started.Run, after: run.HeadSeq, follow: true, began: true}, stream)
}

// toExecute is the draft or run that a view names, or a draft that is made of it.
func (s *Server) toExecute(ctx context.Context, req *pb.ExecuteRequest) (tipstaff.Run, error) {
	view := req.Envelope
	switch {
	case view == nil:
		return tipstaff.Run{}, invalid("envelope", "it is missing")
	case view.EnvelopeId != "":
		return s.heldAs(ctx, view)
	case len(view.Outputs) > 0:
		return tipstaff.Run{}, unsaved("a new Envelope has no outputs")
	}
	metadata, err := members("envelope.metadata_json", view.MetadataJson)
	if err != nil {
		return tipstaff.Run{}, err
	}
	goals := make([]string, len(view.Goals))
	for i, g := range view.Goals {
		goals[i] = g.Name
	}
	id, err := s.create(ctx, req.Config, inputs{RawInput: view.RawInput, User: view.UserId, Session: view.SessionId,
		Request: view.RequestId, Thread: req.ThreadId, Metadata: metadata, StageOrder: view.StageOrder, Goals: goals})
	if err != nil {
		return tipstaff.Run{}, err
	}
	req.Config, req.ThreadId = nil, "" // the draft has them
	return s.svc.Get(ctx, id)
}

// heldAs is the run that a view is of. Outputs that the view has and the run has not
// would be ignored in silence: so they are refused.
func (s *Server) heldAs(ctx context.Context, view *pb.Envelope) (tipstaff.Run, error) {
	run, err := s.byEnvelope(ctx, "envelope.envelope_id", view.EnvelopeId)
	if err != nil || len(view.Outputs) == 0 {
		return run, err
	}
	held, err := s.envelope(ctx, run.ID)
	if err != nil {
		return run, err
	}
	if !maps.EqualFunc(view.Outputs, held.Outputs, sameJSON) {
		return run, unsaved(fmt.Sprintf("the outputs are not those of version %d", held.Version))
	}
	return run, nil
}

// sameJSON reports whether two texts are the same value, however they are written.
// Whole numbers are compared digit by digit, others as doubles.
func sameJSON(a, b []byte) bool {
	x, xerr := canon.Decode(a, pb.MaxDepth)
	y, yerr := canon.Decode(b, pb.MaxDepth)
	return bytes.Equal(a, b) || xerr == nil && yerr == nil && reflect.DeepEqual(asDoubles(x), asDoubles(y))
}

// asDoubles is a value with doubles for the numbers in it that are not whole.
func asDoubles(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = asDoubles(member)
		}
	case []any:
		for i, element := range v {
			v[i] = asDoubles(element)
		}
	case json.Number:
		if n, err := v.Float64(); err == nil && strings.ContainsAny(string(v), ".eE") {
			return n
		}
	}
	return v
}

func unsaved(why string) error {
	return tipstaff.Errorf(tipstaff.WrongState, "unsaved outputs: %s", why).WithHint("UpdateEnvelope saves outputs; a view may also leave them out")
}

// lowered are the bounds that a request sets, by their names in the ledger.
func (s *Server) lowered(ctx context.Context, run tipstaff.Run, b *pb.Bounds) (tipstaff.Bounds, error) {
	if b == nil {
		return nil, nil
	}
	held, err := s.envelope(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	bounds := tipstaff.Bounds{}
	for _, m := range maxima(b, held) {
		switch {
		case m.given == nil:
		case *m.given <= 0:
			return nil, invalid("bounds."+m.field, "it must be more than 0")
		case *m.given > m.held:
			return nil, invalid("bounds."+m.field, "%d is more than %d: bounds can only be lowered here", *m.given, m.held)
		default:
			bounds[m.bound] = *m.given * m.unit
		}
	}
	return bounds, nil
}

// maximum is one of the bounds that clients may set.
type maximum struct {
	field string // in documents and messages
	bound string // in the ledger
	given *int64
	held  int64
	unit  int64 // of the ledger, in one of the field's
}

func maxima(b *pb.Bounds, held *pb.Envelope) []maximum {
	wide := func(n *int32) *int64 {
		if n == nil {
			return nil
		}
		return proto.Int64(int64(*n))
	}
	return []maximum{
		{"max_iterations", tipstaff.BoundIterations, wide(b.MaxIterations), int64(held.GetMaxIterations()), 1},
		{"max_llm_calls", tipstaff.BoundModelCalls, wide(b.MaxLlmCalls), int64(held.GetMaxLlmCalls()), 1},
		{"max_agent_hops", tipstaff.BoundAgentHops, wide(b.MaxAgentHops), int64(held.GetMaxAgentHops()), 1},
		{"max_stages", tipstaff.BoundStages, wide(b.MaxStages), int64(held.GetMaxStages()), 1},
		{"max_tool_calls", tipstaff.BoundToolCalls, wide(b.MaxToolCalls), int64(held.GetMaxToolCalls()), 1},
		{"max_tokens", tipstaff.BoundTokens, b.MaxTokens, held.GetMaxTokens(), 1},
		{"max_cost_usd", tipstaff.BoundCostUSD, b.MaxCostUsd, held.GetMaxCostUsd(), 1},
		{"max_wall_seconds", tipstaff.BoundWallTime, b.MaxWallSeconds, held.GetMaxWallSeconds(), 1000},
	}
}

// ExecuteAgent runs one agent of a draft and answers when it has come to rest.
func (s *Server) ExecuteAgent(ctx context.Context, req *pb.ExecuteAgentRequest) (*pb.AgentResult, error) {
	if req.Envelope == nil {
		return nil, invalid("envelope", "it is missing")
	}
	if req.AgentName == "" && req.Agent == nil {
		return nil, invalid("agent_name", "it is not said which agent is to run")
	}
	ctx = acting(ctx, req.Envelope.UserId)
	draft, err := s.heldAs(ctx, req.Envelope)
	if err != nil {
		return nil, err
	}
	started, err := s.svc.ExecuteAgent(ctx, tipstaff.AgentRequest{Run: draft.ID, Name: req.AgentName, Document: req.Agent, Via: surface})
	if err != nil {
		return nil, err
	}
	waiting, stop := s.untilStopped(ctx)
	defer stop()
	driven, err := s.svc.Wait(waiting, started.Run)
	switch {
	case err != nil && ctx.Err() == nil && s.serving.Err() != nil:
		return nil, errStopping
	case err != nil:
		return nil, err
	case driven.Err != nil:
		return nil, driven.Err
	}
	return s.agentResult(ctx, draft.ID, started.Run)
}

// agentResult is how the run of a single agent came out: what its stage says, and
// what became of the draft.
func (s *Server) agentResult(ctx context.Context, draft, child tipstaff.ID) (*pb.AgentResult, error) {
	run, err := s.svc.Get(ctx, child)
	if err != nil {
		return nil, err
	}
	r := &pb.AgentResult{RunId: child.String(), Success: run.State == tipstaff.Completed}
	for e, err := range s.svc.Events(ctx, tipstaff.EventsRequest{Run: child}) {
		if err != nil {
			return nil, err
		}
		if e.Kind == tipstaff.KindStageFinished {
			if err := s.finished(ctx, e, r); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case len(run.OpenGates) > 0:
		r.Interrupt = interruptOf(run.OpenGates[0])
	case !r.Success && r.Error == nil && run.Error != nil:
		r.Error, r.ErrorCode = proto.String(run.Error.Message), proto.String(run.Error.Reason)
	case !run.State.Terminal():
		return nil, tipstaff.Errorf(tipstaff.WrongState, "the run of the agent was interrupted: %s", child).WithHint("ResumePipeline on it goes on")
	}
	r.Envelope, err = s.envelope(ctx, draft)
	return r, err
}

// finished reads what a stage says of its end.
func (s *Server) finished(ctx context.Context, e tipstaff.Event, r *pb.AgentResult) error {
	body, err := s.whole(ctx, e.Run, e.Body)
	if err != nil {
		return err
	}
	var b tipstaff.StageFinished
	if err := json.Unmarshal(body, &b); err != nil {
		return err
	}
	usage := &pb.Usage{LlmCalls: narrow(b.Usage.LLMCalls), ToolCalls: narrow(b.Usage.ToolCalls), TokensIn: b.Usage.TokensIn,
		TokensOut: b.Usage.TokensOut, CostUsd: int64(b.Usage.CostUSD), AgentHops: narrow(b.Usage.Hops)}
	r.DurationMs, r.Usage, r.LlmCalls = narrow(b.DurationMs), usage, usage.LlmCalls
	if b.Outcome == "success" {
		r.Output, r.Error, r.ErrorCode = b.Output, nil, nil
		return nil
	}
	r.Output, r.Error, r.ErrorCode = nil, proto.String(b.Error), proto.String(b.Code)
	return nil
}

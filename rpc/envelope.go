package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// CreateEnvelope makes a draft.
func (s *Server) CreateEnvelope(ctx context.Context, req *pb.CreateEnvelopeRequest) (*pb.Envelope, error) {
	metadata, err := mergedMetadata(req.Metadata, req.MetadataJson)
	if err != nil {
		return nil, err
	}
	ctx = acting(ctx, req.UserId)
	run, err := s.create(ctx, req.Pipeline, inputs{RawInput: req.RawInput, User: req.UserId, Session: req.SessionId,
		Request: req.GetRequestId(), Metadata: metadata, StageOrder: req.StageOrder, Goals: req.Goals})
	if err != nil {
		return nil, err
	}
	return s.envelope(ctx, run)
}

// inputs are what a draft is made of, by the names that pipelines give them.
type inputs struct {
	RawInput   string                     `json:"raw_input"`
	User       string                     `json:"user_id,omitempty"`
	Session    string                     `json:"session_id,omitempty"`
	Request    string                     `json:"request_id,omitempty"`
	Thread     string                     `json:"thread_id,omitempty"`
	Metadata   map[string]json.RawMessage `json:"metadata,omitempty"`
	StageOrder []string                   `json:"stage_order,omitempty"`
	Goals      []string                   `json:"goals,omitempty"`
}

// create makes a draft and tells which run it is.
func (s *Server) create(ctx context.Context, config *pb.PipelineConfig, in inputs) (tipstaff.ID, error) {
	p, err := s.programOrDefault(ctx, config)
	if err != nil {
		return tipstaff.ID{}, err
	}
	req := tipstaff.EnvelopeRequest{Program: p.document, Name: p.name, File: p.file, NoFiles: p.file == ""}
	raw, err := json.Marshal(in)
	if err != nil {
		return tipstaff.ID{}, err
	}
	if req.Inputs, err = members("inputs", raw); err != nil {
		return tipstaff.ID{}, err
	}
	started, err := s.svc.CreateEnvelope(ctx, req)
	return started.Run, err
}

// mergedMetadata takes texts and values together; a key may come with one of them.
func mergedMetadata(texts map[string]string, raw []byte) (map[string]json.RawMessage, error) {
	all, err := members("metadata_json", raw)
	if err != nil {
		return nil, err
	}
	for key, text := range texts {
		if _, twice := all[key]; twice {
			return nil, invalid("metadata_json", "%q is in metadata too", key)
		}
		if all == nil {
			all = map[string]json.RawMessage{}
		}
		value, err := json.Marshal(text)
		if err != nil {
			return nil, invalid("metadata", "%v", err)
		}
		all[key] = value
	}
	return all, nil
}

// members are those of an object that a field holds; nil: it holds none.
func members(field string, raw []byte) (map[string]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		return nil, invalid(field, "it is not an object")
	}
	return all, nil
}

// GetState is the Envelope as it is, or as it was at a checkpoint.
func (s *Server) GetState(ctx context.Context, req *pb.GetStateRequest) (*pb.Envelope, error) {
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	if req.CheckpointId == nil {
		return s.envelope(ctx, run.ID)
	}
	if *req.CheckpointId == "" {
		return nil, invalid("checkpoint_id", "it is empty")
	}
	raw, err := s.svc.Envelope(ctx, run.ID, *req.CheckpointId)
	if err != nil {
		return nil, err
	}
	return pb.ReadEnvelope(raw)
}

// CheckBounds asks whether a stage could start. It reads counters, and no data.
func (s *Server) CheckBounds(ctx context.Context, view *pb.Envelope) (*pb.BoundsResult, error) {
	ctx = acting(ctx, view.UserId)
	run, err := s.byEnvelope(ctx, "envelope_id", view.EnvelopeId)
	if err != nil {
		return nil, err
	}
	a := tipstaff.AllowanceOf(run)
	left := func(bound string) int64 {
		if n, limited := a.Left[bound]; limited {
			return n
		}
		return math.MaxInt64
	}
	r := &pb.BoundsResult{
		CanContinue: a.CanContinue, InterruptPending: a.InterruptPending, Version: a.Version,
		LlmCallsRemaining: narrow(left(tipstaff.BoundModelCalls)), AgentHopsRemaining: narrow(left(tipstaff.BoundAgentHops)),
		IterationsRemaining: narrow(left(tipstaff.BoundIterations)), ToolCallsRemaining: narrow(left(tipstaff.BoundToolCalls)),
		TokensRemaining: left(tipstaff.BoundTokens), CostUsdRemaining: left(tipstaff.BoundCostUSD), WallMsRemaining: left(tipstaff.BoundWallTime),
		StagesRemaining: narrow(left(tipstaff.BoundStages)),
	}
	if a.Reason != "" {
		r.TerminalReason = &a.Reason
	}
	if a.Outcome != "" {
		r.Outcome = &a.Outcome
	}
	return r, nil
}

// narrow is n, or the most that the field can tell.
func narrow(n int64) int32 { return int32(min(n, math.MaxInt32)) }

// UpdateEnvelope changes a draft.
func (s *Server) UpdateEnvelope(ctx context.Context, req *pb.UpdateEnvelopeRequest) (*pb.Envelope, error) {
	ctx = acting(ctx, req.GetEnvelope().GetUserId())
	run, err := s.byEnvelope(ctx, "envelope.envelope_id", req.GetEnvelope().GetEnvelopeId())
	if err != nil {
		return nil, err
	}
	seen := cmp.Or(req.ExpectedVersion, req.Envelope.Version)
	if seen == 0 && run.State == tipstaff.Drafting {
		return nil, invalid("expected_version", "say which version you have seen, here or in envelope.version: it has %d now", run.Pipeline.Version)
	}
	update := &tipstaff.EnvelopeUpdate{Run: run.ID, Version: seen, Remove: req.RemoveOutputs, Outputs: rawMap(req.Envelope.Outputs)}
	if update.Metadata, err = members("metadata_json", req.MetadataJson); err != nil {
		return nil, err
	}
	if update.Usage, err = usageOf(req.Usage); err != nil {
		return nil, err
	}
	if err := s.addOutput(ctx, run, req, update); err != nil {
		return nil, err
	}
	if err := s.svc.UpdateEnvelope(ctx, *update); err != nil {
		return nil, err
	}
	return s.envelope(ctx, run.ID)
}

// addOutput puts the output of an agent under its key.
func (s *Server) addOutput(ctx context.Context, run tipstaff.Run, req *pb.UpdateEnvelopeRequest, update *tipstaff.EnvelopeUpdate) error {
	switch {
	case req.Output == nil && req.AgentName == "":
		return nil
	case req.Output == nil:
		return invalid("output", "the output of %s is missing", req.AgentName)
	case req.AgentName == "":
		return invalid("agent_name", "it is not said whose output this is")
	}
	key, err := s.outputKey(ctx, run, req.AgentName)
	if err != nil {
		return err
	}
	if _, twice := update.Outputs[key]; twice {
		return invalid("output", "envelope.outputs has an output %q too", key)
	}
	if update.Outputs == nil {
		update.Outputs = map[string]json.RawMessage{}
	}
	update.Outputs[key] = req.Output
	return nil
}

// outputKey is where an agent's output goes, by the run's own document.
func (s *Server) outputKey(ctx context.Context, run tipstaff.Run, agent string) (string, error) {
	var doc struct {
		Agents []struct {
			Name      string `json:"name"`
			OutputKey string `json:"output_key"`
		} `json:"agents"`
	}
	if run.Program.Digest != "" {
		raw, err := s.svc.Artifact(ctx, run.ID, run.Program.Digest)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return "", err
		}
	}
	for _, a := range doc.Agents {
		switch {
		case a.Name != agent:
		case a.OutputKey != "":
			return a.OutputKey, nil
		default:
			return a.Name, nil
		}
	}
	return "", tipstaff.Errorf(tipstaff.AgentNotFound, "the pipeline of Envelope %s has no agent %q", run.Pipeline.Envelope, agent)
}

// mostCalls is how many calls somebody can say were made: bounds have the same limit.
// Counters are 32 bits wide here, and hold what many stages report at once.
const mostCalls = 1_000_000

// usageOf is what a client says was used; nil: nothing.
func usageOf(u *pb.Usage) (*tipstaff.Usage, error) {
	switch {
	case u == nil:
		return nil, nil
	case u.AgentHops != 0:
		return nil, invalid("usage.agent_hops", "stages are counted by the server alone")
	case u.LlmCalls < 0 || u.ToolCalls < 0 || u.TokensIn < 0 || u.TokensOut < 0 || u.CostUsd < 0:
		return nil, invalid("usage", "nothing less than 0 can have been used")
	case max(u.LlmCalls, u.ToolCalls) > mostCalls:
		return nil, invalid("usage", "%d calls are more than can be made: a bound is at most %d", max(u.LlmCalls, u.ToolCalls), mostCalls)
	}
	return &tipstaff.Usage{LLMCalls: int64(u.LlmCalls), ToolCalls: int64(u.ToolCalls), TokensIn: u.TokensIn, TokensOut: u.TokensOut, CostUSD: u.CostUsd}, nil
}

func rawMap(m map[string][]byte) map[string]json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	raw := make(map[string]json.RawMessage, len(m))
	for key, value := range m {
		raw[key] = value
	}
	return raw
}

// envelope is the state of a run with what only its status knows: where it stands,
// and which questions are open. The status is read first, so that a client that goes
// on from last_seq misses nothing.
func (s *Server) envelope(ctx context.Context, id tipstaff.ID) (*pb.Envelope, error) {
	run, err := s.svc.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	raw, err := s.svc.Envelope(ctx, id, "")
	if err != nil {
		return nil, err
	}
	env, err := pb.ReadEnvelope(raw)
	if err != nil {
		return nil, err
	}
	if env.Terminated != run.State.Terminal() { // it has ended meanwhile
		if run, err = s.svc.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	env.State, env.LastSeq = string(run.State), run.HeadSeq
	if run.Condition != "" {
		env.Condition = proto.String(string(run.Condition))
	}
	showGates(env, run.OpenGates)
	return env, nil
}

// showGates adds to the questions of stages what the store knows of them, and the
// questions that were asked inside of stages.
func showGates(env *pb.Envelope, open []tipstaff.Gate) {
	for _, i := range env.Interrupts {
		if i.Open && !slices.ContainsFunc(open, func(g tipstaff.Gate) bool { return g.Key == i.Key }) {
			i.Open = false // it was decided, and the run has not gone on yet
		}
	}
	for _, g := range open {
		at := slices.IndexFunc(env.Interrupts, func(i *pb.Interrupt) bool { return i.Key == g.Key })
		if at < 0 {
			env.Interrupts = append(env.Interrupts, interruptOf(g))
			continue
		}
		shown := env.Interrupts[at]
		shown.Id, shown.Actions, shown.Open, shown.Shown, shown.Given = g.ID.String(), g.Actions, true, shownOf(g), givenOf(g)
		if !g.ExpiresAt.IsZero() {
			shown.ExpiresAt = timestamppb.New(g.ExpiresAt)
		}
	}
	env.InterruptPending = len(open) > 0
}

// interruptOf is a gate in the words of clients.
func interruptOf(g tipstaff.Gate) *pb.Interrupt {
	stage, visit := stageOf(g.Path)
	i := &pb.Interrupt{Id: g.ID.String(), Key: g.Key, Kind: string(g.Kind), Stage: stage, Visit: visit, Question: g.Question, Actions: g.Available(), Open: true,
		Shown: shownOf(g), Given: givenOf(g)}
	var subject struct {
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	switch {
	case asksItself(g.Kind) && json.Unmarshal(g.Subject, &subject) == nil:
		i.Message, i.Data = subject.Message, subject.Data
	case len(g.Subject) > 0:
		if i.Data = g.Subject; g.Kind == tipstaff.Bound {
			i.Data = boundNamed(g.Subject)
		}
	}
	if !g.ExpiresAt.IsZero() {
		i.ExpiresAt = timestamppb.New(g.ExpiresAt)
	}
	return i
}

// shownOf is what a gate asks about, as everybody is shown it.
func shownOf(g tipstaff.Gate) *pb.Shown {
	s := g.Shown
	if s == nil {
		shown := tipstaff.Subject(g)
		s = &shown
	}
	m := &pb.Shown{Lines: s.Lines, Whole: s.Whole}
	for _, p := range s.Parts {
		m.Parts = append(m.Parts, &pb.ShownPart{Name: p.Name, Text: p.Text, Bytes: int64(p.Bytes), Cut: int64(p.Cut)})
	}
	return m
}

// givenOf is what came for a call in doubt; nil: nothing.
func givenOf(g tipstaff.Gate) *pb.GivenResult {
	if g.Given == nil {
		return nil
	}
	given := &pb.GivenResult{HostId: g.Given.Host, Output: g.Given.Output, Control: g.Given.Control}
	if e := g.Given.Error; e != nil {
		given.Error = &pb.AgentError{Code: e.Code, Message: e.Message, Retryable: e.Retryable}
	}
	return given
}

// asksItself: of these kinds a stage has words of its own.
func asksItself(kind tipstaff.GateKind) bool {
	return kind == tipstaff.Clarification || kind == tipstaff.Confirmation || kind == tipstaff.Question
}

// stageOf is the stage, and its visit, that a path begins with: critic and 3 of
// critic#3.2/model#1.
func stageOf(path string) (stage string, visit int32) {
	first, _, _ := strings.Cut(path, "/")
	stage, number, _ := strings.Cut(first, "#")
	number, _, _ = strings.Cut(number, ".")
	n, _ := strconv.ParseInt(number, 10, 32)
	return stage, int32(n)
}

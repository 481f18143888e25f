package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// ServeAgents attaches a process whose agents serve as stages, until it goes, falls
// silent or the server closes.
func (s *Server) ServeAgents(stream pb.CoreService_ServeAgentsServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	a := &attachment{s: s, stream: stream, heard: make(chan heard)}
	go func() { cancel(a.listen(ctx)) }()
	if err := a.register(ctx); err != nil {
		return a.over(ctx, err)
	}
	defer a.host.Leave()
	go func() { cancel(a.obey(ctx)) }()
	return a.over(ctx, a.serve(ctx))
}

// attachment is one host's stream.
type attachment struct {
	s      *Server
	stream pb.CoreService_ServeAgentsServer
	heard  chan heard
	host   tipstaff.Host

	mu sync.Mutex // a stream has one writer at a time
}

// heard is what a host says, and what is wrong with a result that it brings.
type heard struct {
	*pb.HostMessage
	bad error
}

func (a *attachment) send(m *pb.ServerMessage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stream.Send(m)
}

// listen passes on what the host says. Its error is why nothing more comes.
func (a *attachment) listen(ctx context.Context) error {
	for {
		m := heard{HostMessage: new(pb.HostMessage)}
		err := a.stream.RecvMsg(m.HostMessage)
		if tipstaff.CodeOf(err) == tipstaff.InvalidArgument && m.GetResult() != nil {
			m.bad, err = err, nil
		}
		if err != nil {
			return err
		}
		select {
		case a.heard <- m:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// over is how the stream ends: a host that has nothing more to say goes in peace.
func (a *attachment) over(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	case errors.Is(cause, io.EOF):
		return nil
	case cause != nil:
		return cause
	}
	return err
}

// register is the first thing that a host does, and within a time.
func (a *attachment) register(ctx context.Context) error {
	var m heard
	select {
	case m = <-a.heard:
	case <-time.After(patience):
		return invalid("register", "it did not come within %v", patience)
	case <-ctx.Done():
		return ctx.Err()
	}
	r := m.GetRegister()
	if r == nil {
		return invalid("register", "it must be the first message")
	}
	reg := tipstaff.HostRegistration{HostID: r.HostId, Version: r.Version}
	for _, agent := range r.Agents {
		reg.Agents = append(reg.Agents, tipstaff.HostedAgent{Name: agent.Name, Effect: agent.Effect, Concurrency: int(agent.Concurrency)})
	}
	host, err := a.s.hosts.Register(ctx, reg)
	if err != nil {
		return err
	}
	a.host = host
	seconds := int32(max(a.s.o.Heartbeat/time.Second, 1))
	if err := a.send(&pb.ServerMessage{Message: &pb.ServerMessage_Registered{Registered: &pb.Registered{HeartbeatSeconds: seconds}}}); err != nil {
		host.Leave()
		return err
	}
	return nil
}

// mostAtOnce is how many results and reservations of one host are dealt with at once.
// Further ones wait in the stream.
const mostAtOnce = 64

// serve deals with what the host says, until it is silent for too long.
func (a *attachment) serve(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(mostAtOnce)
	silence := time.NewTimer(3 * a.s.o.Heartbeat)
	defer silence.Stop()
	serving := a.s.serving.Done()
	for {
		select {
		case m := <-a.heard:
			silence.Reset(3 * a.s.o.Heartbeat)
			if err := a.take(ctx, work, m); err != nil {
				return err
			}
		case <-silence.C:
			return status.Errorf(codes.DeadlineExceeded, "the host was silent for %v", 3*a.s.o.Heartbeat)
		case <-serving:
			serving = nil
			a.host.Drain()
			if err := a.send(&pb.ServerMessage{Message: &pb.ServerMessage_Drain{Drain: new(pb.Drain)}}); err != nil {
				return err
			}
		case <-a.s.open.Done():
			return errStopping
		case <-ctx.Done():
			return work.Wait()
		}
	}
}

// take begins what a message asks for.
func (a *attachment) take(ctx context.Context, work *errgroup.Group, said heard) error {
	switch m := said.Message.(type) {
	case *pb.HostMessage_Result:
		work.Go(func() error { return a.complete(ctx, m.Result, said.bad) })
	case *pb.HostMessage_Reserve:
		work.Go(func() error { return a.reserve(ctx, m.Reserve) })
	case *pb.HostMessage_Heartbeat:
	case *pb.HostMessage_Drain:
		a.host.Drain()
	case *pb.HostMessage_Register:
		return invalid("register", "the host is registered already")
	default:
		return invalid("message", "it is empty")
	}
	return nil
}

// complete acknowledges a result when it is durable. One that could not be recorded is
// not acknowledged: the host keeps it, and brings it again. One that cannot be used fails
// its call, if there is one, and nothing else of the host.
func (a *attachment) complete(ctx context.Context, m *pb.Result, bad error) error {
	ack := &pb.Ack{CallId: m.CallId}
	r, err := resultOf(m)
	if bad = cmp.Or(bad, err); bad != nil {
		r = tipstaff.HostResult{Call: m.CallId, Error: &tipstaff.HostError{Code: "output_invalid", Message: bad.Error()}}
	}
	err = a.host.Complete(ctx, r)
	switch tipstaff.CodeOf(err) {
	case "":
	case tipstaff.WrongState:
		return nil
	case tipstaff.InvalidArgument, tipstaff.RunNotFound:
		bad = err
	default:
		return err
	}
	if bad != nil {
		ack.Refused = proto.String(bad.Error())
	}
	return a.send(&pb.ServerMessage{Message: &pb.ServerMessage_Ack{Ack: ack}})
}

// reserve answers whether a call may use so much. A call that is over may use nothing,
// and nobody can reserve less than nothing.
func (a *attachment) reserve(ctx context.Context, r *pb.Reserve) error {
	bound, err := a.host.Reserve(ctx, r.CallId, tipstaff.Usage{LLMCalls: int64(r.LlmCalls), ToolCalls: int64(r.ToolCalls), TokensIn: r.Tokens, CostUSD: r.Cost})
	g := &pb.Grant{CallId: r.CallId, Number: r.Number, Granted: err == nil && bound == ""}
	if bound != "" {
		g.Bound = proto.String(tipstaff.BoundField(bound))
	}
	if code := tipstaff.CodeOf(err); err != nil && code != tipstaff.WrongState && code != tipstaff.InvalidArgument {
		return err
	}
	return a.send(&pb.ServerMessage{Message: &pb.ServerMessage_Grant{Grant: g}})
}

// obey passes on what the host is asked for.
func (a *attachment) obey(ctx context.Context) error {
	for {
		o, err := a.host.Next(ctx)
		if err != nil {
			return err
		}
		if o.Call == nil {
			err = a.send(&pb.ServerMessage{Message: &pb.ServerMessage_Cancel{Cancel: &pb.Cancel{CallId: o.Cancel, Reason: o.Reason}}})
		} else {
			err = a.call(ctx, o.Call)
		}
		if err != nil {
			return err
		}
	}
}

// call delivers a call. One that does not fit into a message fails: no other host
// could take it either.
func (a *attachment) call(ctx context.Context, c *tipstaff.HostCall) error {
	call := &pb.Call{CallId: c.ID, RunId: c.Run.String(), Path: c.Path, Agent: c.Agent, Visit: int32(c.Visit), Attempt: int32(c.Attempt), Input: c.Input,
		IdempotencyKey: c.IdempotencyKey, Redelivery: c.Redelivery, Budget: &pb.Budget{
			LlmCalls: narrow(c.Budget[tipstaff.BoundModelCalls]), ToolCalls: narrow(c.Budget[tipstaff.BoundToolCalls]),
			Tokens: c.Budget[tipstaff.BoundTokens], CostUsd: c.Budget[tipstaff.BoundCostUSD], WallMs: c.Budget[tipstaff.BoundWallTime]}}
	if !c.Deadline.IsZero() {
		call.Deadline = timestamppb.New(c.Deadline)
	}
	if c.View != nil {
		view, err := pb.ReadEnvelope(c.View)
		if err != nil {
			return err
		}
		call.View = view
	}
	m := &pb.ServerMessage{Message: &pb.ServerMessage_Call{Call: call}}
	if size := proto.Size(m); size > maxPayload {
		return a.host.Complete(ctx, tipstaff.HostResult{Call: c.ID, Error: &tipstaff.HostError{Code: "input_error",
			Message: "the input and the Envelope are too large to be sent"}})
	}
	return a.send(m)
}

// resultOf reads what a host brings: an output or an error.
func resultOf(m *pb.Result) (tipstaff.HostResult, error) {
	r := tipstaff.HostResult{Call: m.CallId, Output: m.Output, Control: m.Control}
	usage, err := usageOf(m.Usage)
	if err != nil {
		return r, err
	}
	if usage != nil {
		r.Usage = *usage
	}
	for field, raw := range map[string][]byte{"result.output": m.Output, "result.control": m.Control} {
		if _, err := members(field, raw); err != nil {
			return r, err
		}
	}
	switch {
	case m.Error != nil && m.Output != nil:
		return r, invalid("result", "it has an output and an error")
	case m.Error != nil:
		r.Error = &tipstaff.HostError{Code: m.Error.Code, Message: m.Error.Message, Retryable: m.Error.Retryable}
	case m.Output == nil:
		return r, invalid("result", "it has neither an output nor an error")
	}
	return r, nil
}

package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// runs is the Service itself, its types in JSON. Events is a stream; methods are the
// calls that are answered once.
type runs struct {
	pb.UnimplementedRunServiceServer
	s *Server
}

// method answers one call of RunService.
type method func(ctx context.Context, s *Server, request []byte) (any, error)

var methods = map[string]method{
	"Start":           calls(tipstaff.Service.Start),
	"Draft":           calls(tipstaff.Service.Draft),
	"Validate":        calls(tipstaff.Service.Validate),
	"Get":             calls(tipstaff.Service.Get),
	"List":            calls(tipstaff.Service.List),
	"Wait":            whileServing(calls(tipstaff.Service.Wait)),
	"Checkpoints":     calls(tipstaff.Service.Checkpoints),
	"Artifact":        named(tipstaff.Service.Artifact),
	"Graph":           named(tipstaff.Service.Graph),
	"Gate":            named(tipstaff.Service.Gate),
	"Inbox":           calls(tipstaff.Service.Inbox),
	"Threads":         calls(tipstaff.Service.Threads),
	"Decide":          calls(tipstaff.Service.Decide),
	"Resume":          calls(tipstaff.Service.Resume),
	"Correct":         calls(tipstaff.Service.Correct),
	"Cancel":          calls(tipstaff.Service.Cancel),
	"Fork":            calls(tipstaff.Service.Fork),
	"Rollback":        calls(tipstaff.Service.Rollback),
	"Label":           calls(tipstaff.Service.Label),
	"Verify":          calls(tipstaff.Service.Verify),
	"CreateEnvelope":  calls(tipstaff.Service.CreateEnvelope),
	"ExecuteEnvelope": calls(tipstaff.Service.ExecuteEnvelope),
	"ExecuteAgent":    calls(tipstaff.Service.ExecuteAgent),
	"Envelope": named(func(svc tipstaff.Service, ctx context.Context, run tipstaff.ID, checkpoint string) (json.RawMessage, error) {
		return svc.Envelope(ctx, run, checkpoint)
	}),
	"Defer": named(func(svc tipstaff.Service, ctx context.Context, run tipstaff.ID, name string) (none, error) {
		gate, err := tipstaff.ParseID(name)
		if err == nil {
			err = svc.Defer(ctx, run, gate)
		}
		return nil, err
	}),
	"UpdateEnvelope": calls(func(svc tipstaff.Service, ctx context.Context, req tipstaff.EnvelopeUpdate) (none, error) {
		return nil, svc.UpdateEnvelope(ctx, req)
	}),
}

// none is the answer of a call that has nothing to say.
type none *struct{}

// calls is the method that hands its request to the Service.
func calls[Req, Res any](do func(tipstaff.Service, context.Context, Req) (Res, error)) method {
	return func(ctx context.Context, s *Server, request []byte) (any, error) {
		var req Req
		if err := readJSON(request, &req); err != nil {
			return nil, err
		}
		fromAfar(&req)
		return do(s.svc, ctx, req)
	}
}

// nameRequest asks for something of a run by its name: a digest, a checkpoint, a
// format, a gate.
type nameRequest struct {
	Run  tipstaff.ID `json:"run_id"`
	Name string      `json:"name"`
}

// named is calls for what takes a [nameRequest].
func named[Res any](do func(tipstaff.Service, context.Context, tipstaff.ID, string) (Res, error)) method {
	return calls(func(svc tipstaff.Service, ctx context.Context, n nameRequest) (Res, error) {
		return do(svc, ctx, n.Run, n.Name)
	})
}

// whileServing is a method that ends when the server takes no more calls.
func whileServing(do method) method {
	return func(ctx context.Context, s *Server, request []byte) (any, error) {
		ctx, stop := s.untilStopped(ctx)
		defer stop()
		return do(ctx, s, request)
	}
}

// untilStopped is a context that also ends when the server takes no more calls.
func (s *Server) untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.serving, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// fromAfar marks a request that came over the wire. Its program may name no files,
// for they would be those of this machine.
func fromAfar(req any) {
	switch req := req.(type) {
	case *tipstaff.StartRequest:
		req.NoFiles, req.Via = true, surface
	case *tipstaff.ValidateRequest:
		if req.Start != nil {
			fromAfar(req.Start)
		}
	case *tipstaff.EnvelopeRequest:
		req.NoFiles = true
	case *tipstaff.ExecuteRequest:
		req.NoFiles, req.Via = true, surface
	case *tipstaff.AgentRequest:
		req.Via = surface
	}
}

// description is that of RunService, with methods as handlers.
func (r runs) description() *grpc.ServiceDesc {
	d := pb.RunService_ServiceDesc
	d.Methods = nil
	for name, do := range methods {
		info := &grpc.UnaryServerInfo{Server: r, FullMethod: "/" + d.ServiceName + "/" + name}
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, read func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			in := new(pb.Json)
			if err := read(in); err != nil {
				return nil, err
			}
			return around(ctx, in, info, func(ctx context.Context, _ any) (any, error) {
				res, err := do(ctx, r.s, in.GetValue())
				if err != nil {
					return nil, r.s.withError(ctx, err)
				}
				value, err := json.Marshal(res)
				return &pb.Json{Value: value}, err
			})
		}})
	}
	return &d
}

// Events sends records as they are stored, at the pace of the reader.
func (r runs) Events(in *pb.Json, out grpc.ServerStreamingServer[pb.Json]) error {
	ctx, stop := r.s.untilStopped(out.Context())
	defer stop()
	var req tipstaff.EventsRequest
	if err := readJSON(in.GetValue(), &req); err != nil {
		return r.s.withError(out.Context(), err)
	}
	for e, err := range r.s.svc.Events(ctx, req) {
		if err == nil {
			err = out.Send(&pb.Json{Value: e.Stored()})
		}
		if err != nil {
			return r.s.withError(out.Context(), errors.Join(context.Cause(ctx), err))
		}
	}
	return context.Cause(ctx)
}

// readJSON reads one value that has no members but those that are known.
func readJSON(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the request cannot be read: %v", err)
	}
	return nil
}

// withError is an error's status with all that it says, for clients that know its type.
func (s *Server) withError(ctx context.Context, err error) error {
	code, e := s.resolve(ctx, err)
	return s.reply(ctx, e, code, code != codes.Internal)
}

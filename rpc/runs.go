package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// runs is the Service itself, call by call, its types in JSON.
type runs struct {
	pb.UnimplementedRunServiceServer
	s *Server
}

// named asks for something of a run by its name: a digest, a checkpoint, a format, a
// gate.
type named struct {
	Run  tipstaff.ID `json:"run_id"`
	Name string      `json:"name"`
}

func (r runs) Start(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
		brought(&req)
		return r.s.svc.Start(ctx, req)
	})
}

func (r runs) Draft(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Draft)
}

func (r runs) Validate(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.ValidateRequest) (tipstaff.Validated, error) {
		if req.Start != nil {
			brought(req.Start)
		}
		return r.s.svc.Validate(ctx, req)
	})
}

// brought is a document that came over the wire: it names no files, for they would be
// those of this machine.
func brought(req *tipstaff.StartRequest) { req.NoFiles, req.Via = true, surface }

func (r runs) Get(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Get)
}

func (r runs) List(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.List)
}

// Events sends records as they are stored, at the pace of the reader.
func (r runs) Events(in *pb.Json, out grpc.ServerStreamingServer[pb.Json]) error {
	ctx, stop := r.untilStopped(out.Context())
	defer stop()
	var req tipstaff.EventsRequest
	if err := readJSON(in.GetValue(), &req); err != nil {
		return r.s.withError(ctx, err)
	}
	for e, err := range r.s.svc.Events(ctx, req) {
		if err == nil {
			err = out.Send(&pb.Json{Value: e.Stored()})
		}
		if err != nil {
			return r.s.withError(ctx, errors.Join(context.Cause(ctx), err))
		}
	}
	return context.Cause(ctx)
}

// untilStopped is a context that also ends when the server takes no more calls.
func (r runs) untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.s.serving, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

func (r runs) Wait(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	ctx, stop := r.untilStopped(ctx)
	defer stop()
	out, err := answered(ctx, r.s, in, r.s.svc.Wait)
	if r.s.serving.Err() != nil && err != nil {
		err = errStopping
	}
	return out, err
}

func (r runs) Checkpoints(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Checkpoints)
}

func (r runs) Artifact(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, n named) ([]byte, error) { return r.s.svc.Artifact(ctx, n.Run, n.Name) })
}

func (r runs) Envelope(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, n named) (json.RawMessage, error) {
		return r.s.svc.Envelope(ctx, n.Run, n.Name)
	})
}

func (r runs) Graph(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, n named) ([]byte, error) { return r.s.svc.Graph(ctx, n.Run, n.Name) })
}

func (r runs) Decide(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Decide)
}

func (r runs) Defer(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, n named) (none, error) {
		gate, err := tipstaff.ParseID(n.Name)
		if err == nil {
			err = r.s.svc.Defer(ctx, n.Run, gate)
		}
		return nil, err
	})
}

func (r runs) Resume(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Resume)
}

func (r runs) Correct(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Correct)
}

func (r runs) Cancel(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Cancel)
}

func (r runs) Fork(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Fork)
}

func (r runs) Rollback(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Rollback)
}

func (r runs) Label(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Label)
}

func (r runs) Verify(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, r.s.svc.Verify)
}

func (r runs) CreateEnvelope(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.EnvelopeRequest) (tipstaff.Started, error) {
		req.NoFiles = true
		return r.s.svc.CreateEnvelope(ctx, req)
	})
}

func (r runs) UpdateEnvelope(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.EnvelopeUpdate) (none, error) {
		return nil, r.s.svc.UpdateEnvelope(ctx, req)
	})
}

func (r runs) ExecuteEnvelope(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.ExecuteRequest) (tipstaff.Started, error) {
		req.NoFiles, req.Via = true, surface
		return r.s.svc.ExecuteEnvelope(ctx, req)
	})
}

func (r runs) ExecuteAgent(ctx context.Context, in *pb.Json) (*pb.Json, error) {
	return answered(ctx, r.s, in, func(ctx context.Context, req tipstaff.AgentRequest) (tipstaff.Started, error) {
		req.Via = surface
		return r.s.svc.ExecuteAgent(ctx, req)
	})
}

// none is the answer of a call that has nothing to say.
type none *struct{}

// answered reads a request, has it carried out, and writes the answer.
func answered[Req, Res any](ctx context.Context, s *Server, in *pb.Json, do func(context.Context, Req) (Res, error)) (*pb.Json, error) {
	var req Req
	err := readJSON(in.GetValue(), &req)
	if err != nil {
		return nil, s.withError(ctx, err)
	}
	res, err := do(ctx, req)
	if err != nil {
		return nil, s.withError(ctx, err)
	}
	value, err := json.Marshal(res)
	return &pb.Json{Value: value}, err
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
	answer := s.status(ctx, err)
	var e *tipstaff.Error
	if !errors.As(err, &e) || e.Code == tipstaff.Internal {
		return answer
	}
	whole, err := json.Marshal(e)
	if err != nil {
		return answer
	}
	if with, err := status.Convert(answer).WithDetails(&pb.Json{Value: whole}); err == nil {
		return with.Err()
	}
	return answer
}

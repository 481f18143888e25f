package rpc_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tipstaff/tipstaff/pb"
)

// allowed are the codes that a stranger's message may be answered with: whatever is
// wrong is wrong with it, never with the server.
var allowed = []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Aborted, codes.AlreadyExists,
	codes.PermissionDenied, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled}

// FuzzEveryCall sends bytes that may or may not be a message to one of the calls. They
// reach the server as they are.
func FuzzEveryCall(f *testing.F) {
	methods := pb.File_tipstaff_core_v1_core_proto.Services().Get(0).Methods()
	seed := func(name string, m proto.Message) {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(methods.ByName(protoreflect.Name(name)).Index()), raw)
	}
	unknown := &pb.RunRef{Ref: &pb.RunRef_ThreadId{ThreadId: "fuzzed"}}
	seed("CreateEnvelope", &pb.CreateEnvelopeRequest{RawInput: "x", MetadataJson: []byte(`{"a":[1]}`), Goals: []string{"g"}, Pipeline: document(straight)})
	seed("CreateEnvelope", &pb.CreateEnvelopeRequest{Pipeline: document("name: [")})
	seed("CheckBounds", &pb.Envelope{EnvelopeId: "env_01ARZ3NDEKTSV4RRFFQ69G5FAV"})
	seed("UpdateEnvelope", &pb.UpdateEnvelopeRequest{Envelope: &pb.Envelope{EnvelopeId: "env_"}, Output: []byte("{}"), AgentName: "a"})
	seed("ExecutePipeline", &pb.ExecuteRequest{Envelope: &pb.Envelope{RawInput: "x"}, Config: document(straight)})
	seed("ExecutePipeline", &pb.ExecuteRequest{Bounds: &pb.Bounds{MaxTokens: proto.Int64(-1)}})
	seed("ExecuteAgent", &pb.ExecuteAgentRequest{Envelope: &pb.Envelope{}, Agent: []byte(`{"name":"a"}`)})
	seed("CreateCheckpoint", &pb.CheckpointRequest{Ref: unknown, Label: "l"})
	seed("RollbackToCheckpoint", &pb.RollbackRequest{Ref: unknown, To: &pb.RollbackRequest_CheckpointId{CheckpointId: "cp_01ARZ3NDEKTSV4RRFFQ69G5FAV_0"}})
	seed("ResumePipeline", &pb.ResumeRequest{Ref: unknown, Response: &pb.InterruptResponse{Data: []byte("[")}})
	seed("GetState", &pb.GetStateRequest{Ref: unknown})
	seed("ListCheckpoints", &pb.ListCheckpointsRequest{Ref: unknown, PageSize: -1})
	seed("ListTransitions", &pb.ListTransitionsRequest{Ref: unknown, PageToken: "x"})
	seed("Cancel", &pb.CancelRequest{Ref: unknown})
	seed("Watch", &pb.WatchRequest{Ref: unknown, AfterSeq: 1 << 62, Follow: true})
	seed("ServeAgents", register("h", &pb.HostedAgent{Name: "fuzzed"}))
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		b := common(t)
		method := methods.Get(int(which) % methods.Len())
		if method.Name() == "ServeAgents" {
			raw = append(raw, 0) // never valid: a host that is taken in would stay
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := b.send(ctx, method, raw); !slices.Contains(allowed, status.Code(err)) {
			t.Errorf("%s: %v", method.Name(), err)
		}
		if _, err := b.as("alice").CheckBounds(ctx, &pb.Envelope{EnvelopeId: "env_01ARZ3NDEKTSV4RRFFQ69G5FAV"}); status.Code(err) != codes.NotFound {
			t.Errorf("afterwards the server says %v", err)
		}
	})
}

// send makes a call of raw bytes and reads what comes to its end.
func (b *bed) send(ctx context.Context, method protoreflect.MethodDescriptor, raw []byte) error {
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	s, err := b.dial("alice").NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return err
	}
	if err := s.SendMsg(raw); err != nil && err != io.EOF {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	answer := dynamicpb.NewMessage(method.Output())
	for {
		var got []byte
		err := s.RecvMsg(&got)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := proto.Unmarshal(got, answer); err != nil {
			return err
		}
	}
}

// rawCodec sends and takes bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
func (rawCodec) Name() string { return "proto" }

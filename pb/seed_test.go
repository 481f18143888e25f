package pb

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// compile reads a proto file of this folder as protoc would, with its comments.
func compile(t *testing.T, name string) protoreflect.FileDescriptor {
	t.Helper()
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{".", "testdata"}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

// shape is all that a client's stub depends on.
func shape(fd protoreflect.FieldDescriptor) string {
	s := fmt.Sprintf("%d %s: %s %s", fd.Number(), fd.Name(), fd.Cardinality(), fd.Kind())
	switch {
	case fd.IsMap():
		s += fmt.Sprintf(" of %s to %s", fd.MapKey().Kind(), fd.MapValue().Kind())
	case fd.Message() != nil:
		s += " " + string(fd.Message().Name())
	case fd.Enum() != nil:
		s += " " + string(fd.Enum().Name())
	}
	if fd.HasPresence() {
		s += ", optional"
	}
	return s
}

func TestTheFirstFieldsKeepNumberNameAndType(t *testing.T) {
	seed := compile(t, "seed.proto").Messages()
	pinned := map[protoreflect.Name]int{}
	for i := range seed.Len() {
		old := seed.Get(i)
		now := File_tipstaff_core_v1_core_proto.Messages().ByName(old.Name())
		if now == nil {
			t.Errorf("there is no %s any more", old.Name())
			continue
		}
		for i := range old.Fields().Len() {
			want := old.Fields().Get(i)
			got := now.Fields().ByNumber(want.Number())
			if got == nil || shape(got) != shape(want) {
				t.Errorf("%s: field %s is not there; at its number is %v", old.Name(), shape(want), got)
			}
			pinned[old.Name()]++
		}
	}
	for name, n := range map[protoreflect.Name]int{
		"CreateEnvelopeRequest": 6, "Envelope": 14, "BoundsResult": 5, "ExecuteRequest": 3, "ExecutionEvent": 4, "AgentResult": 5,
	} {
		if pinned[name] != n {
			t.Errorf("%d fields of %s are pinned, want %d", pinned[name], name, n)
		}
	}
}

func TestTheFirstEventTypesKeepNumberAndName(t *testing.T) {
	event := protoreflect.Name("ExecutionEvent")
	old := compile(t, "seed.proto").Messages().ByName(event).Enums().Get(0)
	now := File_tipstaff_core_v1_core_proto.Messages().ByName(event).Enums().ByName(old.Name())
	for i := range 6 {
		want := old.Values().ByNumber(protoreflect.EnumNumber(i))
		if got := now.Values().ByNumber(want.Number()); got == nil || got.Name() != want.Name() {
			t.Errorf("%d is %v, want %s", i, got, want.Name())
		}
	}
	if old.Values().Len() != 6 {
		t.Errorf("%d event types are pinned, want 6", old.Values().Len())
	}
}

// Later types have numbers, too, that clients learn.
func TestLaterEventTypes(t *testing.T) {
	for number, name := range map[int32]string{
		6: "BOUNDS_EXCEEDED", 7: "STAGE_RETRYING", 8: "STAGE_SKIPPED", 9: "TRANSITION", 10: "INTERRUPT_RESOLVED",
		11: "ROLLED_BACK", 12: "PIPELINE_STARTED", 13: "BOUND_EXTENDED", 14: "RUN_QUEUED",
	} {
		if ExecutionEvent_EventType_name[number] != name {
			t.Errorf("%d is %q, want %s", number, ExecutionEvent_EventType_name[number], name)
		}
	}
}

// What an old client sends is read whole; what it is sent, it reads as far as it
// knows the fields, and hands back without loss.
func TestOldClientsAndNewServersUnderstandEachOther(t *testing.T) {
	seed := compile(t, "seed.proto").Messages()
	for i := range seed.Len() {
		old := seed.Get(i)
		now := mustMessage(t, "tipstaff.core.v1."+protoreflect.FullName(old.Name()))
		t.Run(string(old.Name()), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				sent := dynamicpb.NewMessage(old)
				draw(t, sent)
				received := now.New()
				transmit(t, sent, received.Interface())
				requireFields(t, received, sent)

				answer := now.New()
				draw(t, answer)
				read := dynamicpb.NewMessage(old)
				transmit(t, answer.Interface(), read)
				requireFields(t, read, answer)

				back := now.New()
				transmit(t, read, back.Interface())
				requireSame(t, back.Interface(), answer.Interface())
			})
		})
	}
}

func transmit(t rapid.TB, from, to proto.Message) {
	t.Helper()
	raw, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(raw, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// requireFields compares the fields that both know.
func requireFields(t rapid.TB, got, want protoreflect.Message) {
	t.Helper()
	for i := range min(got.Descriptor().Fields().Len(), want.Descriptor().Fields().Len()) {
		g, w := got.Descriptor().Fields().Get(i), want.Descriptor().Fields().Get(i)
		switch {
		case got.Has(g) != want.Has(w):
			t.Fatalf("%s: set is %v, want %v", g.Name(), got.Has(g), want.Has(w))
		case g.Kind() == protoreflect.MessageKind && !g.IsMap():
			requireFields(t, got.Get(g).Message(), want.Get(w).Message())
		case !got.Get(g).Equal(want.Get(w)):
			t.Fatalf("%s: %v, want %v", g.Name(), got.Get(g), want.Get(w))
		}
	}
}

// oldFriend answers as a server would, with more than old clients know.
type oldFriend struct{ UnimplementedCoreServiceServer }

func (oldFriend) CreateEnvelope(_ context.Context, r *CreateEnvelopeRequest) (*Envelope, error) {
	return &Envelope{EnvelopeId: "env_1", RequestId: r.GetRequestId(), RawInput: r.RawInput, UserId: r.Metadata["who"], StageOrder: r.StageOrder, State: "drafting"}, nil
}

func (oldFriend) ExecutePipeline(r *ExecuteRequest, s grpc.ServerStreamingServer[ExecutionEvent]) error {
	for _, e := range []*ExecutionEvent{
		{Type: ExecutionEvent_STAGE_STARTED, Stage: r.ThreadId, Seq: 1},
		{Type: ExecutionEvent_TRANSITION, Seq: 2},
		{Type: ExecutionEvent_PIPELINE_COMPLETED, Seq: 3, Final: true, Envelope: r.Envelope},
	} {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return nil
}

func TestAnOldClientCallsTheService(t *testing.T) {
	seed := compile(t, "seed.proto").Messages()
	conn := serve(t, oldFriend{})

	request := dynamicpb.NewMessage(seed.ByName("CreateEnvelopeRequest"))
	set := func(m *dynamicpb.Message, name protoreflect.Name, v string) {
		m.Set(m.Descriptor().Fields().ByName(name), protoreflect.ValueOfString(v))
	}
	set(request, "raw_input", "hello")
	set(request, "request_id", "")
	request.Mutable(request.Descriptor().Fields().ByName("metadata")).Map().Set(
		protoreflect.ValueOfString("who").MapKey(), protoreflect.ValueOfString("anna"))
	envelope := dynamicpb.NewMessage(seed.ByName("Envelope"))
	if err := conn.Invoke(t.Context(), CoreService_CreateEnvelope_FullMethodName, request, envelope); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[protoreflect.Name]string{"envelope_id": "env_1", "raw_input": "hello", "user_id": "anna"} {
		if got := envelope.Get(envelope.Descriptor().Fields().ByName(name)).String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	execute := dynamicpb.NewMessage(seed.ByName("ExecuteRequest"))
	set(execute, "thread_id", "t1")
	execute.Set(execute.Descriptor().Fields().ByName("envelope"), protoreflect.ValueOfMessage(envelope))
	if got, want := eventTypes(t, conn, execute, seed.ByName("ExecutionEvent")), "[0 9 3]"; fmt.Sprint(got) != want {
		t.Errorf("event types %v, want %s", got, want)
	}
}

// eventTypes are those of a stream, as an old client reads them.
func eventTypes(t *testing.T, conn *grpc.ClientConn, request proto.Message, event protoreflect.MessageDescriptor) (types []protoreflect.EnumNumber) {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, CoreService_ExecutePipeline_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(request); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for {
		m := dynamicpb.NewMessage(event)
		switch err := stream.RecvMsg(m); err {
		case nil:
			types = append(types, m.Get(event.Fields().ByName("type")).Enum())
		case io.EOF:
			return types
		default:
			t.Fatal(err)
		}
	}
}

func serve(t *testing.T, s CoreServiceServer) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	RegisterCoreServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///wire", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

package pb

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestTheServiceHasTheseCalls(t *testing.T) {
	want := map[string]string{
		"CreateEnvelope":       "CreateEnvelopeRequest, Envelope",
		"CheckBounds":          "Envelope, BoundsResult",
		"UpdateEnvelope":       "UpdateEnvelopeRequest, Envelope",
		"ExecutePipeline":      "ExecuteRequest, stream ExecutionEvent",
		"ExecuteAgent":         "ExecuteAgentRequest, AgentResult",
		"CreateCheckpoint":     "CheckpointRequest, Checkpoint",
		"RollbackToCheckpoint": "RollbackRequest, Envelope",
		"ResumePipeline":       "ResumeRequest, stream ExecutionEvent",
		"GetState":             "GetStateRequest, Envelope",
		"ListCheckpoints":      "ListCheckpointsRequest, ListCheckpointsResponse",
		"ListTransitions":      "ListTransitionsRequest, ListTransitionsResponse",
		"ListRuns":             "ListRunsRequest, ListRunsResponse",
		"ListThreads":          "ListThreadsRequest, ListThreadsResponse",
		"ListInterrupts":       "ListInterruptsRequest, ListInterruptsResponse",
		"Cancel":               "CancelRequest, Envelope",
		"Watch":                "WatchRequest, stream ExecutionEvent",
		"ServeAgents":          "stream HostMessage, stream ServerMessage",
	}
	service := File_tipstaff_core_v1_core_proto.Services().ByName("CoreService")
	got := map[string]string{}
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		got[string(m.Name())] = side(m.IsStreamingClient(), m.Input()) + ", " + side(m.IsStreamingServer(), m.Output())
	}
	if service.FullName() != "tipstaff.core.v1.CoreService" {
		t.Errorf("the service is called %s", service.FullName())
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s(%s), want (%s)", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d calls, want %d", len(got), len(want))
	}
}

func side(stream bool, md protoreflect.MessageDescriptor) string {
	if stream {
		return fmt.Sprintf("stream %s", md.Name())
	}
	return string(md.Name())
}

// A run is named in the same place everywhere.
func TestRequestsAboutARunBeginWithItsRef(t *testing.T) {
	for _, name := range []protoreflect.Name{"CheckpointRequest", "RollbackRequest", "ResumeRequest", "GetStateRequest", "ListCheckpointsRequest",
		"ListTransitionsRequest", "CancelRequest", "WatchRequest"} {
		fd := File_tipstaff_core_v1_core_proto.Messages().ByName(name).Fields().ByNumber(1)
		if fd == nil || fd.Name() != "ref" || fd.Message().Name() != "RunRef" {
			t.Errorf("field 1 of %s is %v", name, fd)
		}
	}
}

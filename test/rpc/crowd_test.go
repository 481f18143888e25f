package rpc_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff/pb"
)

// A hundred runs, or forty, at once on one server, each with a document, a limit and a user of its
// own: what one is told, may do and leaves behind is its own. When they have ended and
// the server is closed, no goroutine is left.
func TestACrowdDoesNotMix(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("crowd", func(t *testing.T) {
		crowd := 100
		if testing.Short() {
			crowd = 40
		}
		b := newBed(t)
		users := []*client{b.as("alice"), b.as("bob"), b.as("gateway")}
		var all sync.WaitGroup
		for n := range crowd {
			all.Go(func() { oneOfMany(users[n%len(users)], n) })
		}
		all.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and there were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// oneOfMany runs a loop that only its own bound ends, and looks at everything that can
// be asked about it.
func oneOfMany(c *client, n int) {
	t, limit := c.t, n%4+1
	name := fmt.Sprintf("run%d", n)
	patient, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // a busy machine needs longer for so many
	defer cancel()
	env, err := c.CreateEnvelope(patient, &pb.CreateEnvelopeRequest{RawInput: name, Pipeline: document(fmt.Sprintf(`
name: %[1]s
max_iterations: %[2]d
agents:
  - {name: a, stage_order: 1, default_next: b, scripted: {repeat: last, answers: [{output: {of: %[1]s}, usage: {llm_calls: 1}}]}}
  - {name: b, stage_order: 2, default_next: a, scripted: {repeat: last, answers: [{output: {of: %[1]s}}]}}
`, name, limit))})
	if err != nil {
		t.Error(err)
		return
	}
	events, err := c.all(c.ExecutePipeline(patient, &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}}))
	if err != nil {
		t.Error(name, err)
		return
	}
	checkStream(t, events)
	starts := 0
	for _, e := range events {
		if e.RunId != env.RunId {
			t.Errorf("%s was told of run %s", name, e.RunId)
		}
		if e.Type == pb.ExecutionEvent_STAGE_STARTED {
			starts++
		}
		if e.Type == pb.ExecutionEvent_STAGE_COMPLETED && !strings.Contains(string(e.Payload), `{"of":"`+name+`"}`) {
			t.Errorf("%s was told of the output %s", name, e.Payload)
		}
	}
	want := &pb.Envelope{Iteration: int32(limit), AgentHopCount: int32(2 * (limit + 1)), LlmCallCount: int32(limit + 1), TerminalReason: proto.String("max_iterations_exceeded")}
	end := events[len(events)-1].Envelope
	got := &pb.Envelope{Iteration: end.Iteration, AgentHopCount: end.AgentHopCount, LlmCallCount: end.LlmCallCount, TerminalReason: end.TerminalReason}
	if !proto.Equal(got, want) || starts != 2*(limit+1) {
		t.Errorf("%s ended as %v after %d starts, not as %v", name, got, starts, want)
	}
	page, err := c.ListCheckpoints(patient, &pb.ListCheckpointsRequest{Ref: byEnvelope(env)})
	if err != nil {
		t.Error(err)
		return
	}
	if len(page.Checkpoints) != limit {
		t.Errorf("%s has %d checkpoints of %d", name, len(page.Checkpoints), limit)
	}
	for i, cp := range page.Checkpoints {
		if cp.RunId != env.RunId || cp.EnvelopeId != env.EnvelopeId || cp.Iteration != int32(i) {
			t.Errorf("%s has the checkpoint %v", name, cp)
		}
	}
}

package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff/pb"
)

// seqs are the places of events.
func seqs(events []*pb.ExecutionEvent) (all []int64) {
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}

func TestWatchFromAnywhereMissesNothing(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(looping)
	whole := c.execute(env)
	for i, e := range whole[:len(whole)-1] {
		rest, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), AfterSeq: e.Seq, Follow: i%2 == 0}))
		if err != nil {
			t.Fatal(err)
		}
		checkStream(t, rest)
		if got, want := fmt.Sprint(seqs(rest)), fmt.Sprint(seqs(whole[i+1:])); got != want {
			t.Errorf("after %d came %s, want %s", e.Seq, got, want)
		}
	}
	_, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), AfterSeq: 1_000_000}))
	wantCode(t, err, codes.InvalidArgument, "")
	_, err = c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), AfterSeq: -1}))
	wantCode(t, err, codes.InvalidArgument, "")
}

func TestACallerThatGoesAwayIsAnObserver(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(remote("goes-on", "read"))
	ctx, leave := context.WithCancel(c.ctx())
	s, err := c.ExecutePipeline(ctx, &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	leave()
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	h := c.attach("h1", &pb.HostedAgent{Name: "goes-on", Effect: "read"})
	call := h.call()
	h.answer(&pb.Result{CallId: call.CallId, Output: []byte(`{}`)})
	h.acked(call.CallId)
	rest, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), AfterSeq: seen.Seq, Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, rest)
	if end := rest[len(rest)-1].Envelope; end.GetOutcome() != "completed" {
		t.Errorf("it ended %s", end.GetOutcome())
	}
}

// TestASlowReaderCostsNobodyAnything: a stream that nobody reads holds back itself
// alone. Its events are far more than connections keep, so that the server must wait
// for the reader, and it does not wait in the run.
func TestASlowReaderCostsNobodyAnything(t *testing.T) {
	c := common(t).as("alice")
	const turns = 20
	env := c.create(`
name: much
max_iterations: 100
max_agent_hops: 100
agents:
  - name: a
    default_next: a
    scripted: {answers: [{output: {text: "` + string(make64k()) + `"}}], repeat: last}
edge_limits: [{from: a, to: a, max_count: ` + strconv.Itoa(turns) + `}]
`)
	// Its connection holds two events with an output; the others have to wait at the server.
	narrow := &client{pb.NewCoreServiceClient(c.dial("alice", grpc.WithInitialWindowSize(128<<10), grpc.WithInitialConnWindowSize(128<<10))), c.bed}
	slow, err := narrow.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := slow.Recv() // the run has begun; from now on nobody reads
	if err != nil {
		t.Fatal(err)
	}
	quick, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, quick)
	// Others are not held up either, be they readers of the same run or runs of their own.
	another, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env)}))
	if err != nil || fmt.Sprint(seqs(another)) != fmt.Sprint(seqs(quick)) {
		t.Errorf("another reader got %v, %v", seqs(another), err)
	}
	c.execute(c.create(straight))
	if end := quick[len(quick)-1].Envelope; end.GetTerminalReason() != "edge_limit_exceeded" || end.Visits["a"] != turns+1 {
		t.Errorf("it ended for %s after %d visits", end.GetTerminalReason(), end.Visits["a"])
	}
	late := []*pb.ExecutionEvent{first}
	for {
		e, err := slow.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, e)
	}
	if got, want := fmt.Sprint(seqs(late)), fmt.Sprint(seqs(quick)); got != want {
		t.Errorf("the slow reader got %s, the quick one %s", got, want)
	}
}

func make64k() []byte {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestShutdownAndTheNextDaemon(t *testing.T) {
	b := newBed(t)
	c := b.as("alice")
	env := c.create(remote("survives", "read"))
	s, err := c.ExecutePipeline(b.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
	if err != nil {
		t.Fatal(err)
	}
	h := c.attach("h1", &pb.HostedAgent{Name: "survives", Effect: "read"})
	call := h.call()
	seen := []*pb.ExecutionEvent{}
	for len(seen) < 3 {
		e, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, e)
	}
	over := make(chan struct{})
	go func() { b.restart(); close(over) }()
	rest, err := b.all(s, nil)
	wantCode(t, err, codes.Unavailable, "")
	seen = append(seen, rest...)
	trailer := s.Trailer().Get("tipstaff-last-seq")
	last := seen[len(seen)-1].Seq
	if len(trailer) != 1 || trailer[0] != strconv.FormatInt(last, 10) {
		t.Fatalf("the trailer says %v after seq %d", trailer, last)
	}
	if m := h.hear(); m.GetDrain() == nil && m.GetCancel() == nil {
		t.Errorf("the host heard %v", m)
	}
	<-over
	c = b.as("alice")
	h = c.attach("h1", &pb.HostedAgent{Name: "survives", Effect: "read"})
	again := h.call()
	if again.CallId != call.CallId || again.IdempotencyKey != call.IdempotencyKey {
		t.Errorf("the next daemon delivers %s, the first %s", again.CallId, call.CallId)
	}
	h.answer(&pb.Result{CallId: again.CallId, Output: []byte(`{}`)})
	h.acked(again.CallId)
	tail, err := b.all(c.Watch(b.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), AfterSeq: last, Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, append(seen, tail...))
	if end := tail[len(tail)-1].Envelope; end.GetOutcome() != "completed" {
		t.Errorf("it ended %s", end.GetOutcome())
	}
}

func TestNewCallsAreSentAwayWhileItStops(t *testing.T) {
	b := newBed(t)
	c := b.as("alice")
	h := c.attach("h1", &pb.HostedAgent{Name: "a"}) // keeps the connection
	b.server.Quiesce()
	if m := h.hear(); m.GetDrain() == nil {
		t.Errorf("the host heard %v", m)
	}
	_, err := c.CreateEnvelope(b.ctx(), &pb.CreateEnvelopeRequest{})
	wantCode(t, err, codes.Unavailable, "")
}

func TestMessagesThatAreTooLarge(t *testing.T) {
	c := common(t).as("alice")
	_, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: string(make([]byte, 16<<20+1))})
	wantCode(t, err, codes.ResourceExhausted, "")
}

func TestOnlyTheCallersDeadlineEndsItsWait(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(remote("never-comes", "read"))
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := c.all(c.ExecutePipeline(ctx, &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}}))
	wantCode(t, err, codes.DeadlineExceeded, "")
	got, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(env)})
	if err != nil || got.GetTerminalReason() != "user_cancelled" {
		t.Errorf("%v, %v", got, err)
	}
}

package grpc

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff/pb"
)

// A daemon that is told to stop while many call it tells all of them that it stops, and
// nobody that something is broken: what breaks off can be asked for again.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	d := serve(t)
	for round := range rounds {
		if d.cmd == nil {
			d.start()
		}
		c := d.client(d.addr)
		var stopped atomic.Bool
		var callers sync.WaitGroup
		for range 12 {
			callers.Go(func() { c.executeUntil(t, &stopped) })
			callers.Go(func() { c.lookUntil(t, &stopped) })
		}
		time.Sleep(time.Duration(100+rand.IntN(700)) * time.Millisecond) // into the middle of whatever it does
		stopped.Store(true)
		d.terminate()
		callers.Wait()
		for line := range strings.Lines(d.log.String()) { // what the server calls an error is one of its own
			if strings.Contains(line, `"level":"ERROR"`) {
				t.Errorf("round %d: the daemon says %s", round, line)
			}
		}
	}
}

// executeUntil makes and runs pipelines until a call fails.
func (c *client) executeUntil(t *testing.T, stopped *atomic.Bool) {
	for {
		env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "hello", Pipeline: named("slow")})
		if err != nil {
			wantStopping(t, "CreateEnvelope", err, stopped)
			return
		}
		stream, err := c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
		if err != nil {
			wantStopping(t, "ExecutePipeline", err, stopped)
			return
		}
		told := &tape{stream: stream}
		if err := told.rest(); err != nil {
			wantStopping(t, "ExecutePipeline", err, stopped)
			if seq := stream.Trailer().Get("tipstaff-last-seq"); len(told.events) > 0 && (len(seq) != 1 || seq[0] != strconv.FormatInt(told.last(), 10)) {
				t.Errorf("a stream ended with %v, the trailer says %v, and the last event was %d", err, seq, told.last())
			}
			return
		}
	}
}

// lookUntil looks at runs until a call fails.
func (c *client) lookUntil(t *testing.T, stopped *atomic.Bool) {
	env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "hello", Pipeline: named("loop")})
	for err == nil {
		_, err = c.GetState(c.ctx(), &pb.GetStateRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_EnvelopeId{EnvelopeId: env.EnvelopeId}}})
		if err == nil {
			ctx, cancel := context.WithTimeout(c.ctx(), time.Minute)
			_, err = c.ExecuteAgent(ctx, &pb.ExecuteAgentRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}, AgentName: "intent"})
			cancel()
		}
	}
	wantStopping(t, "a look", err, stopped)
}

func wantStopping(t *testing.T, what string, err error, stopped *atomic.Bool) {
	if status.Code(err) != codes.Unavailable || !stopped.Load() {
		t.Errorf("%s: %v (stopped: %v)", what, err, stopped.Load())
	}
}

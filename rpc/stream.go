package rpc

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// lastSeqTrailer tells a reader whose stream was ended from where to watch on.
const lastSeqTrailer = "tipstaff-last-seq"

// Watch streams the events of a run. It starts, ends and slows nothing.
func (s *Server) Watch(req *pb.WatchRequest, stream pb.CoreService_WatchServer) error {
	if req.AfterSeq < 0 {
		return invalid("after_seq", "it is less than 0")
	}
	run, err := s.find(stream.Context(), req.Ref)
	if err != nil {
		return err
	}
	return s.watch(stream.Context(), watching{run: run.ID, after: req.AfterSeq, follow: req.Follow, transients: req.Transients}, stream)
}

// watching is what a stream tells.
type watching struct {
	run    tipstaff.ID
	after  int64
	follow bool
	began  bool // the stream has begun a drive, and tells how it ended
	// transients: it also tells what is not recorded.
	transients bool
}

// reader is the other end of a stream.
type reader interface {
	Send(*pb.ExecutionEvent) error
	SetTrailer(metadata.MD)
}

// watch reads the journal at the pace of its reader, and keeps nothing: Send takes as
// long as it takes. It comes to its end when the run has ended or nobody drives it.
func (s *Server) watch(ctx context.Context, w watching, out reader) error {
	reading, stop := s.untilStopped(ctx)
	defer stop()
	t := &teller{s: s, out: out, run: w.run, last: w.after, read: w.after}
	defer func() { out.SetTrailer(metadata.Pairs(lastSeqTrailer, strconv.FormatInt(t.last, 10))) }()
	for e, err := range s.svc.Events(reading, tipstaff.EventsRequest{Run: w.run, After: w.after, Follow: w.follow}) {
		switch {
		case err != nil:
		case e.Seq > 0:
			err = t.tell(ctx, e)
		case w.transients:
			err = t.pass(e)
		}
		if err != nil {
			return errors.Join(context.Cause(reading), err)
		}
		if t.final {
			return nil
		}
	}
	if err := context.Cause(reading); err != nil {
		return err
	}
	return s.rest(ctx, w, t)
}

// rest ends the stream of a run that has come to rest. One that has neither ended nor
// waits leaves its reader with the reason.
func (s *Server) rest(ctx context.Context, w watching, t *teller) error {
	run, err := s.svc.Get(ctx, w.run)
	if err != nil {
		return err
	}
	stopping := s.serving.Err() != nil
	// What is queued waits for no answer, and neither does what was about to go on.
	if run.Condition == tipstaff.Waiting && run.Status != tipstaff.StatusQueued && (len(run.OpenGates) > 0 || !stopping) {
		return t.pause(ctx, run)
	}
	if err := t.flush(); err != nil || run.State.Terminal() || !w.follow {
		return err
	}
	if stopping {
		return errStopping
	}
	if w.began {
		if driven, err := s.svc.Wait(ctx, run.ID); err != nil || driven.Err != nil {
			return cmp.Or[error](err, driven.Err)
		}
	}
	if run.State == tipstaff.Drafting {
		return tipstaff.Errorf(tipstaff.WrongState, "run %s is a draft: nothing happens before it is executed", run.ID)
	}
	return tipstaff.Errorf(tipstaff.WrongState, "run %s was interrupted, and nobody drives it", run.ID).WithHint("ExecutePipeline or ResumePipeline goes on with it")
}

// teller turns the records of a run into events, and knows which is the last.
type teller struct {
	s     *Server
	out   reader
	run   tipstaff.ID
	last  int64 // seq of the last event that was sent
	read  int64 // of the last record that was read
	final bool  // that was sent
	// held is what was asked or answered last: the run may come to rest with it, and
	// it is then the final event. Whatever comes next lets it go.
	held *pb.ExecutionEvent
}

// pass sends what is told and not recorded. It stands after the last record, and moves no
// cursor.
func (t *teller) pass(e tipstaff.Event) error {
	kind, told := passing[e.Kind]
	if !told || t.read == 0 {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	stage, _ := stageOf(e.Path)
	return t.out.Send(&pb.ExecutionEvent{Type: kind, Stage: stage, TimestampMs: e.At.UnixMilli(), Payload: e.Body, Seq: t.read, RunId: t.run.String(), Transient: true})
}

// tell sends what a record says, if clients are told of it.
func (t *teller) tell(ctx context.Context, e tipstaff.Event) error {
	t.read = e.Seq
	event, err := t.s.event(ctx, e)
	if err != nil || event == nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	switch event.Type {
	case pb.ExecutionEvent_INTERRUPT_RAISED, pb.ExecutionEvent_INTERRUPT_RESOLVED:
		t.held = event
		return nil
	case pb.ExecutionEvent_PIPELINE_COMPLETED:
		return t.finish(ctx, event)
	}
	return t.send(event)
}

func (t *teller) send(e *pb.ExecutionEvent) error {
	err := t.out.Send(e)
	if err == nil {
		t.last = e.Seq
	}
	return err
}

func (t *teller) flush() error {
	held := t.held
	t.held = nil
	if held == nil {
		return nil
	}
	return t.send(held)
}

// finish sends the last event, with the state that the run is in.
func (t *teller) finish(ctx context.Context, e *pb.ExecutionEvent) (err error) {
	if e.Envelope, err = t.s.envelope(ctx, t.run); err != nil {
		return err
	}
	if e.Type == pb.ExecutionEvent_PIPELINE_COMPLETED {
		e.Payload = ending(e.Envelope, e.Payload)
	}
	e.Final, t.final = true, true
	return t.send(e)
}

// pause ends the stream of a run that waits. Where something else happened since it
// asked, which only branches beside it can do, the question is told again, as of the
// present end of the journal: the last event is always what the run waits for.
func (t *teller) pause(ctx context.Context, run tipstaff.Run) error {
	if open := len(run.OpenGates); open > 0 && t.held.GetType() != pb.ExecutionEvent_INTERRUPT_RAISED {
		if err := t.flush(); err != nil {
			return err
		}
		t.held = raisedAgain(run.OpenGates[open-1], run)
	}
	if t.held == nil {
		return nil
	}
	return t.finish(ctx, t.held)
}

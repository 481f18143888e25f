package rpc

import (
	"cmp"
	"context"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// CreateCheckpoint labels the newest boundary of a run.
func (s *Server) CreateCheckpoint(ctx context.Context, req *pb.CheckpointRequest) (*pb.Checkpoint, error) {
	if req.Label == "" {
		return nil, invalid("label", "it is empty")
	}
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	c, err := s.svc.Label(ctx, tipstaff.LabelRequest{Run: run.ID, Label: req.Label})
	if err != nil {
		return nil, err
	}
	return checkpointOf(c, run), nil
}

// RollbackToCheckpoint makes a new run from a checkpoint, in the place of the old one
// or beside it.
func (s *Server) RollbackToCheckpoint(ctx context.Context, req *pb.RollbackRequest) (*pb.Envelope, error) {
	if req.NewThreadId != nil && !req.Fork {
		return nil, invalid("new_thread_id", "a rollback keeps its thread: only a fork has another")
	}
	if req.GetCheckpointId() == "" && req.GetStage() == "" {
		return nil, invalid("checkpoint_id", "name a checkpoint, or a stage")
	}
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	at := tipstaff.Place{Checkpoint: req.GetCheckpointId(), Stage: req.GetStage()}
	changes := tipstaff.Changes{Outputs: rawMap(req.Outputs), Raise: map[string]int64{}}
	if changes.Metadata, err = members("metadata_json", req.MetadataJson); err != nil {
		return nil, err
	}
	if req.Bounds != nil {
		for _, m := range maxima(req.Bounds, nil) {
			if m.given != nil {
				changes.Raise[m.field] = *m.given
			}
		}
	}
	var made tipstaff.Run
	if req.Fork {
		var fork tipstaff.Forked
		fork, err = s.svc.Fork(ctx, tipstaff.ForkRequest{Run: run.ID, Place: at, Thread: req.GetNewThreadId(), Changes: changes})
		made = fork.Run
	} else {
		made, err = s.svc.Rollback(ctx, tipstaff.RollbackRequest{Run: run.ID, Place: at, Changes: changes})
	}
	if err != nil {
		return nil, err
	}
	return s.envelope(ctx, made.ID)
}

// ListCheckpoints is a page of a run's checkpoints, oldest first.
func (s *Server) ListCheckpoints(ctx context.Context, req *pb.ListCheckpointsRequest) (*pb.ListCheckpointsResponse, error) {
	page, next, err := paged(ctx, s, req, s.svc.Checkpoints, checkpointOf)
	return &pb.ListCheckpointsResponse{Checkpoints: page, NextPageToken: next}, err
}

// ListTransitions is a page of a run's transitions, oldest first.
func (s *Server) ListTransitions(ctx context.Context, req *pb.ListTransitionsRequest) (*pb.ListTransitionsResponse, error) {
	all := func(ctx context.Context, run tipstaff.ID) ([]tipstaff.StageTransition, error) {
		return tipstaff.Transitions(ctx, s.svc, run)
	}
	page, next, err := paged(ctx, s, req, all, transitionOf)
	return &pb.ListTransitionsResponse{Transitions: page, NextPageToken: next}, err
}

const (
	defaultPage = 100
	mostPage    = 1000
)

// paged is a part of a list of a run, which only grows at its end: the token is how
// much of it came before.
func paged[T, M any](ctx context.Context, s *Server, req interface {
	GetRef() *pb.RunRef
	GetPageSize() int32
	GetPageToken() string
}, list func(context.Context, tipstaff.ID) ([]T, error), message func(T, tipstaff.Run) M) (page []M, next string, err error) {
	run, err := s.find(ctx, req.GetRef())
	if err != nil {
		return nil, "", err
	}
	all, err := list(ctx, run.ID)
	if err != nil {
		return nil, "", err
	}
	from, size := 0, req.GetPageSize()
	if token := req.GetPageToken(); token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || strconv.Itoa(from) != token {
			return nil, "", invalid("page_token", "it is none that a page before gave")
		}
	}
	switch {
	case size < 0 || size > mostPage:
		return nil, "", invalid("page_size", "it is %d: from 1 to %d", size, mostPage)
	case size == 0:
		size = defaultPage
	}
	all = all[min(from, len(all)):]
	if most := int(size); len(all) > most {
		all, next = all[:most], strconv.Itoa(from+most)
	}
	for _, one := range all {
		page = append(page, message(one, run))
	}
	return page, next, nil
}

func checkpointOf(c tipstaff.Checkpoint, run tipstaff.Run) *pb.Checkpoint {
	return &pb.Checkpoint{Id: c.ID, EnvelopeId: cmp.Or(c.Envelope, run.Pipeline.Envelope), RunId: c.Run.String(), ThreadId: cmp.Or(c.Thread, run.Pipeline.Thread),
		Stage: c.Stage, Turn: narrow(c.Turn), Seq: c.Seq, Iteration: narrow(c.Iteration), Epoch: narrow(c.Epoch), ParentId: c.Parent,
		CreatedAt: timestamppb.New(c.CreatedAt), Digest: c.Digest, Automatic: c.Automatic, Labels: c.Labels, SizeBytes: c.Size, Left: c.Left}
}

func transitionOf(t tipstaff.StageTransition, _ tipstaff.Run) *pb.Transition {
	m := &pb.Transition{Seq: t.Seq, From: t.From, To: t.To, Reason: t.Reason, Iteration: narrow(t.Iteration), Epoch: narrow(t.Epoch),
		Turn: narrow(t.Turn), Timestamp: timestamppb.New(t.Timestamp), N: t.N, RunId: t.Run.String()}
	if t.Rule > 0 {
		m.Rule = proto.Int32(int32(t.Rule))
	}
	if t.EdgeCount > 0 {
		m.EdgeCount = proto.Int32(narrow(t.EdgeCount))
	}
	for text, into := range map[string]**string{t.Checkpoint: &m.Checkpoint, t.By: &m.By, t.Left: &m.Left} {
		if text != "" {
			*into = proto.String(text)
		}
	}
	return m
}

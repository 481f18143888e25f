package rpc

import (
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
		made, err = s.svc.Fork(ctx, tipstaff.ForkRequest{Run: run.ID, Place: at, Thread: req.GetNewThreadId(), Changes: changes})
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
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	all, err := s.svc.Checkpoints(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, req.PageSize, req.PageToken)
	if err != nil {
		return nil, err
	}
	r := &pb.ListCheckpointsResponse{NextPageToken: next}
	for _, c := range page {
		r.Checkpoints = append(r.Checkpoints, checkpointOf(c, run))
	}
	return r, nil
}

// ListTransitions is a page of a run's transitions, oldest first.
func (s *Server) ListTransitions(ctx context.Context, req *pb.ListTransitionsRequest) (*pb.ListTransitionsResponse, error) {
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	all, err := tipstaff.Transitions(ctx, s.svc, run.ID)
	if err != nil {
		return nil, err
	}
	page, next, err := paged(all, req.PageSize, req.PageToken)
	if err != nil {
		return nil, err
	}
	r := &pb.ListTransitionsResponse{NextPageToken: next}
	for _, t := range page {
		r.Transitions = append(r.Transitions, transitionOf(t))
	}
	return r, nil
}

const (
	defaultPage = 100
	mostPage    = 1000
)

// paged is a part of a list that only grows at its end: the token is how much of it
// came before.
func paged[T any](all []T, size int32, token string) (page []T, next string, err error) {
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || strconv.Itoa(from) != token {
			return nil, "", invalid("page_token", "it is none that a page before gave")
		}
	}
	switch {
	case size < 0:
		return nil, "", invalid("page_size", "it is less than 0")
	case size == 0:
		size = defaultPage
	}
	page = all[min(from, len(all)):]
	if most := int(min(size, mostPage)); len(page) > most {
		page, next = page[:most], strconv.Itoa(from+most)
	}
	return page, next, nil
}

func checkpointOf(c tipstaff.Checkpoint, run tipstaff.Run) *pb.Checkpoint {
	return &pb.Checkpoint{Id: c.ID, EnvelopeId: orElse(c.Envelope, run.Pipeline.Envelope), RunId: c.Run.String(), ThreadId: orElse(c.Thread, run.Pipeline.Thread),
		Stage: c.Stage, Turn: narrow(c.Turn), Seq: c.Seq, Iteration: narrow(c.Iteration), Epoch: narrow(c.Epoch), ParentId: c.Parent,
		CreatedAt: timestamppb.New(c.CreatedAt), Digest: c.Digest, Automatic: c.Automatic, Labels: c.Labels, SizeBytes: c.Size}
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func transitionOf(t tipstaff.StageTransition) *pb.Transition {
	m := &pb.Transition{Seq: t.Seq, From: t.From, To: t.To, Reason: t.Reason, Iteration: narrow(t.Iteration), Epoch: narrow(t.Epoch),
		Turn: narrow(t.Turn), Timestamp: timestamppb.New(t.Timestamp), N: t.N}
	if t.Rule > 0 {
		m.Rule = proto.Int32(int32(t.Rule))
	}
	if t.EdgeCount > 0 {
		m.EdgeCount = proto.Int32(narrow(t.EdgeCount))
	}
	if t.Checkpoint != "" {
		m.Checkpoint = proto.String(t.Checkpoint)
	}
	return m
}

package rpc

import (
	"context"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// find is the pipeline run that a reference names: of an Envelope or a thread the
// newest, which is its head.
func (s *Server) find(ctx context.Context, ref *pb.RunRef) (tipstaff.Run, error) {
	switch r := ref.GetRef().(type) {
	case *pb.RunRef_EnvelopeId:
		return s.byEnvelope(ctx, "ref.envelope_id", r.EnvelopeId)
	case *pb.RunRef_ThreadId:
		if r.ThreadId == "" {
			return tipstaff.Run{}, invalid("ref.thread_id", "it is empty")
		}
		return s.head(ctx, tipstaff.ListRequest{Thread: r.ThreadId, Limit: 1}, func() error {
			return tipstaff.Errorf(tipstaff.RunNotFound, "there is no thread %q", r.ThreadId)
		})
	case *pb.RunRef_RunId:
		id, err := tipstaff.ParseID(r.RunId)
		if err != nil {
			return tipstaff.Run{}, invalid("ref.run_id", "%v", err)
		}
		run, err := s.svc.Get(ctx, id)
		return onlyPipeline(run, err)
	}
	return tipstaff.Run{}, invalid("ref", "name the run by envelope_id, thread_id or run_id")
}

// byEnvelope is the head of an Envelope. An Envelope has the id of its first run, so
// one that is not listed is either nobody's or another user's.
func (s *Server) byEnvelope(ctx context.Context, field, envelope string) (tipstaff.Run, error) {
	first, err := firstRun(envelope)
	if err != nil {
		return tipstaff.Run{}, invalid(field, "%q is no id of an Envelope", envelope)
	}
	return s.head(ctx, tipstaff.ListRequest{Envelope: envelope, Limit: 1}, func() error {
		if _, err := s.svc.Get(ctx, first); tipstaff.CodeOf(err) == tipstaff.Forbidden {
			return err
		}
		return tipstaff.Errorf(tipstaff.RunNotFound, "there is no Envelope %s", envelope)
	})
}

func firstRun(envelope string) (tipstaff.ID, error) {
	ulid, _ := strings.CutPrefix(envelope, "env_")
	return tipstaff.ParseID(ulid)
}

func (s *Server) head(ctx context.Context, req tipstaff.ListRequest, none func() error) (tipstaff.Run, error) {
	page, err := s.svc.List(ctx, req)
	if err == nil && len(page.Runs) == 0 {
		err = none()
	}
	if err != nil {
		return tipstaff.Run{}, err
	}
	return onlyPipeline(page.Runs[0], nil)
}

func onlyPipeline(run tipstaff.Run, err error) (tipstaff.Run, error) {
	if err == nil && run.Pipeline == nil {
		err = tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s, and no pipeline", run.ID, run.Program.Kind)
	}
	return run, err
}

package rpc

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// Cancel ends a run. One that has ended stays as it is.
func (s *Server) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.Envelope, error) {
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	_, err = s.svc.Cancel(ctx, tipstaff.CancelRequest{Run: run.ID, Reason: req.Reason})
	if err != nil && tipstaff.CodeOf(err) != tipstaff.RunEnded {
		return nil, err
	}
	return s.envelope(ctx, run.ID)
}

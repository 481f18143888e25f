package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// control is what the lists are answered by.
func (s *Server) control() tipstaff.Control { return tipstaff.Control{Runs: s.svc, Now: time.Now} }

// pageToken is where a page begins: after the id that the page before ended with.
func pageToken(token string) (id tipstaff.ID, err error) {
	if token == "" {
		return id, nil
	}
	if id, err = tipstaff.ParseID(token); err != nil {
		err = invalid("page_token", "it is none that a page before gave")
	}
	return id, err
}

func tokenOf(next tipstaff.ID) string {
	if next.IsZero() {
		return ""
	}
	return next.String()
}

// ListRuns is a page of runs, newest first.
func (s *Server) ListRuns(ctx context.Context, req *pb.ListRunsRequest) (*pb.ListRunsResponse, error) {
	before, err := pageToken(req.PageToken)
	if err != nil {
		return nil, err
	}
	size := int(req.PageSize)
	if size == 0 {
		size = 50
	}
	page, err := s.control().History(ctx, tipstaff.HistoryRequest{Limit: size, Before: before, Status: req.Status, Thread: req.ThreadId, Project: req.ProjectDir})
	if err != nil {
		return nil, err
	}
	got := &pb.ListRunsResponse{NextPageToken: tokenOf(page.Next), Total: int32(page.Total)}
	for _, r := range page.Runs {
		got.Runs = append(got.Runs, summaryOf(r))
	}
	return got, nil
}

func summaryOf(r tipstaff.HistoryRun) *pb.RunSummary {
	m := &pb.RunSummary{RunId: r.Run.String(), Title: r.Title, Status: r.Status, Control: r.Control, CreatedAt: timestamppb.New(r.Created),
		Tokens: r.Tokens, CostUsd: int64(r.CostUSD), ThreadId: r.Thread, SessionId: r.Session}
	if !r.Ended.IsZero() {
		m.EndedAt = timestamppb.New(r.Ended)
	}
	if !r.Parent.IsZero() {
		m.ParentRunId = r.Parent.String()
	}
	return m
}

// ListThreads is a page of the caller's threads.
func (s *Server) ListThreads(ctx context.Context, req *pb.ListThreadsRequest) (*pb.ListThreadsResponse, error) {
	before, err := pageToken(req.PageToken)
	if err != nil {
		return nil, err
	}
	page, err := s.svc.Threads(ctx, tipstaff.ThreadsRequest{Limit: int(req.PageSize), Before: before})
	if err != nil {
		return nil, err
	}
	got := &pb.ListThreadsResponse{NextPageToken: tokenOf(page.Next)}
	for _, t := range page.Threads {
		got.Threads = append(got.Threads, &pb.Thread{ThreadId: t.ID, Runs: int32(t.Runs), Head: summaryOf(tipstaff.HistoryOf(t.Head))})
	}
	return got, nil
}

// ListInterrupts is a page of what waits for a decision.
func (s *Server) ListInterrupts(ctx context.Context, req *pb.ListInterruptsRequest) (*pb.ListInterruptsResponse, error) {
	after, err := pageToken(req.PageToken)
	if err != nil {
		return nil, err
	}
	ask := tipstaff.PendingRequest{Limit: int(req.PageSize), After: after}
	for _, kind := range req.Kinds {
		ask.Kinds = append(ask.Kinds, tipstaff.GateKind(kind))
	}
	page, err := s.control().Pending(ctx, ask)
	if err != nil {
		return nil, err
	}
	got := &pb.ListInterruptsResponse{NextPageToken: tokenOf(page.Next), Total: int32(page.Total), ByKind: map[string]int32{}}
	for kind, n := range page.ByKind {
		got.ByKind[string(kind)] = int32(n)
	}
	for _, g := range page.Decisions {
		got.Interrupts = append(got.Interrupts, &pb.PendingInterrupt{RunId: g.Run.String(), Title: g.Title, ProjectDir: g.Project, UserId: g.User, Status: g.Status,
			Control: g.Control, ControlReason: g.ControlReason, Interrupt: interruptOf(g.Gate)})
	}
	return got, nil
}

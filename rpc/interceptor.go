package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// unary is around every call that is answered once.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	err = s.around(ctx, info.FullMethod, func(ctx context.Context) error {
		if err := checkMessage(req); err != nil {
			return err
		}
		answer, err = handle(ctx, req)
		return err
	})
	return answer, err
}

// stream is around every call that is a stream.
func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return s.around(stream.Context(), info.FullMethod, func(ctx context.Context) error {
		principal := tipstaff.CallerFrom(ctx).Principal
		if !s.streams.add(principal) {
			return status.Errorf(codes.ResourceExhausted, "%s has %d streams open: that is the most", principal, maxStreams)
		}
		defer s.streams.done(principal)
		return handle(srv, &checkedStream{stream, ctx})
	})
}

// around says what holds for every call that was let in: nobody's fault ends the
// server, and what comes out is a status.
func (s *Server) around(ctx context.Context, method string, handle func(context.Context) error) (err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.ErrorContext(ctx, "a handler panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "something unexpected went wrong")
		}
		err = s.status(ctx, err)
		s.log(ctx, method, err, time.Since(began))
	}()
	if !public(method) && s.serving.Err() != nil {
		return errStopping
	}
	if s.o.Trace != nil {
		ctx = s.o.Trace(ctx, func(name string) string {
			if all := metadata.ValueFromIncomingContext(ctx, name); len(all) > 0 {
				return all[0]
			}
			return ""
		})
	}
	return handle(ctx)
}

// log tells who called what and how it ended, and nothing of what was said.
func (s *Server) log(ctx context.Context, method string, err error, took time.Duration) {
	level := slog.LevelInfo
	if public(method) { // whoever watches over a server asks every few seconds
		level = slog.LevelDebug
	}
	if code := status.Code(err); code == codes.Internal || code == codes.DataLoss {
		level = slog.LevelError
	}
	s.o.Log.Log(ctx, level, "call", "method", method, "principal", tipstaff.CallerFrom(ctx).Principal, "code", status.Code(err).String(),
		"ms", took.Milliseconds())
}

// checkedStream looks at every message before the handler does.
type checkedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *checkedStream) Context() context.Context { return s.ctx }

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkMessage(m)
}

// checkMessage refuses what a field may not hold, wherever it stands in the message,
// and what was no message at all.
func checkMessage(v any) error {
	m, ok := v.(proto.Message)
	if !ok || m.ProtoReflect().Descriptor().ParentFile().Package() != pb.File_tipstaff_core_v1_core_proto.Package() {
		return nil
	}
	if unreadable(m) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the message cannot be read")
	}
	return fieldFault(pb.Check(m))
}

package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that ours is made of
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
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
			return tipstaff.Errorf(tipstaff.LimitReached, "%s has %d streams open: that is the most", principal, maxStreams)
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
			err = fmt.Errorf("%s panicked: %v\n%s", method, p, debug.Stack())
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

// unknown answers calls of methods that there are not.
func unknown(_ any, stream grpc.ServerStream) error {
	name, _ := grpc.MethodFromServerStream(stream)
	return status.Errorf(codes.Unimplemented, "there is no method %s", name)
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
	if bytes.Equal(m.ProtoReflect().GetUnknown(), unreadable) {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the message cannot be read")
	}
	err := pb.Check(m)
	var fault *pb.FieldError
	if errors.As(err, &fault) {
		return invalid(fault.Path, "%s", fault.Message)
	}
	return err
}

// codec lets bytes that are no message pass, with a mark on them: gRPC would answer
// that the server has failed, and nobody could say otherwise. checkMessage refuses
// those that bear the mark.
type codec struct{ encoding.CodecV2 }

// unreadable is the mark: a field that no message has.
var unreadable = protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if m, ok := v.(proto.Message); ok && err != nil {
		proto.Reset(m)
		m.ProtoReflect().SetUnknown(unreadable)
		return nil
	}
	return err
}

// surface is how records name the way a caller came.
const surface = "grpc"

// public is what anybody may ask: whether the server is there.
func public(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// authenticate finds the caller by the bearer token, and by nothing else.
func (s *Server) authenticate(header metadata.MD) (tipstaff.Caller, error) {
	given := header.Get("authorization")
	if len(given) != 1 {
		return tipstaff.Caller{}, tipstaff.Errorf(tipstaff.Unauthenticated, "the call needs one bearer token: authorization: Bearer …")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return tipstaff.Caller{}, tipstaff.Errorf(tipstaff.Unauthenticated, "the call needs a bearer token, and has another kind of credential: authorization: Bearer …")
	}
	bearer, err := s.o.Tokens.Bearer(surface, strings.TrimSpace(secret))
	bearer.Client = strings.Join(header.Get("user-agent"), " ")
	return bearer.Caller, err
}

// acting is the context in which a caller acts for the user that a request names, if
// its token lets it name one. To others the name is a label inside their own objects.
func acting(ctx context.Context, user string) context.Context {
	caller, err := tipstaff.CallerFrom(ctx).ActingAs(user)
	if err != nil {
		return ctx
	}
	return tipstaff.WithCaller(ctx, caller)
}

// streamCount counts the open streams of each principal.
type streamCount struct {
	mu   sync.Mutex
	open map[string]int
}

// add counts one more, unless there are as many as may be.
func (c *streamCount) add(principal string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]int{}
	}
	if c.open[principal] >= maxStreams {
		return false
	}
	c.open[principal]++
	return true
}

func (c *streamCount) done(principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[principal]--; c.open[principal] == 0 {
		delete(c.open, principal)
	}
}

package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

const (
	maxPayload = 16 << 20 // either way
	maxStreams = 1000     // of one principal
	maxCalls   = 1024     // at once on a connection: one principal's streams fit into it
	maxHeaders = 16 << 10 // of one call
	// What a client may send before it is read. Windows that gRPC fits to the line would
	// cost every short call a ping and its answer.
	streamWindow = 1 << 20
	connWindow   = 4 << 20

	keepAlive   = 30 * time.Second
	heartbeat   = 10 * time.Second // of hosts; silent for three of them is lost
	patience    = 10 * time.Second // for the first message of a host
	handshake   = 10 * time.Second // for a new connection
	closingTime = 5 * time.Second  // for streams that end by themselves
	workers     = 4                // that short calls find awake, with stacks as deep as the store needs; more calls have goroutines of their own
)

// Options are what a server works with besides runs and hosts. Tokens is required.
type Options struct {
	Tokens    *tipstaff.Tokens
	Pipelines Pipelines   // that clients may name; nil: none
	Default   string      // the pipeline of those who name none; "": they must
	TLS       *tls.Config // nil: plaintext
	// Peer finds the runs whose process holds the other end of a connection: see
	// [tipstaff.Within]. nil: it is of none.
	Peer func(net.Conn) func() []string
	// Log is told of every call, never of what it carries. nil: nobody is.
	Log *slog.Logger
	// Trace puts the span of whoever calls into the context; get reads what the call
	// carries by name. nil: calls belong to no trace.
	Trace func(ctx context.Context, get func(name string) string) context.Context
	// Folders are those of this machine, the inner ones first: clients are told what lies in
	// them by its relative name. nil: none has to be kept from them.
	Folders []string
	// Heartbeat is how often hosts must give a sign; 0 is 10 s.
	Heartbeat time.Duration
}

// Server answers calls until it is closed.
type Server struct {
	pb.UnimplementedCoreServiceServer

	svc     tipstaff.Service
	hosts   tipstaff.Hosts
	o       Options
	grpc    *grpc.Server
	health  *health.Server
	streams streamCount

	// serving ends when no more calls are taken, and observers are sent away; open
	// when hosts are too.
	serving, open context.Context
	quiesce, shut context.CancelFunc
}

// New makes a server of runs and hosts. Serve starts it.
func New(svc tipstaff.Service, hosts tipstaff.Hosts, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = heartbeat
	}
	s := &Server{svc: svc, hosts: hosts, o: o, health: health.NewServer()}
	s.serving, s.quiesce = context.WithCancel(context.Background())
	s.open, s.shut = context.WithCancel(context.Background())
	options := []grpc.ServerOption{
		grpc.InTapHandle(s.enter), grpc.ConnectionTimeout(handshake), grpc.MaxConcurrentStreams(maxCalls), grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxRecvMsgSize(maxPayload), grpc.MaxSendMsgSize(maxPayload),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAlive / 3, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(workers), grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream), grpc.UnknownServiceHandler(unknown), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
	}
	if o.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	pb.RegisterCoreServiceServer(s.grpc, s)
	s.grpc.RegisterService(runs{s: s}.description(), runs{s: s})
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(pb.CoreService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	reflection.Register(s.grpc)
	return s
}

// Serve answers calls that come by the listener until the server is closed.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(&limitedListener{Listener: l, peer: s.o.Peer}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Quiesce takes no more calls, sends observers away and asks hosts for no more. Hosts
// may still bring results: runs are to come to rest before Close.
func (s *Server) Quiesce() {
	s.health.Shutdown()
	s.quiesce()
}

// Close ends what is left, and returns when the last handler has. Streams whose
// readers take nothing are cut off after a while, or when ctx ends.
func (s *Server) Close(ctx context.Context) {
	s.Quiesce()
	s.shut()
	ctx, cancel := context.WithTimeout(ctx, closingTime)
	defer cancel()
	defer context.AfterFunc(ctx, s.grpc.Stop)()
	s.grpc.GracefulStop()
}

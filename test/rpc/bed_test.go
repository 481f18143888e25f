// Package rpc_test tries the gRPC surface as its clients see it: over a real
// connection, with the real runner over a real store. Stages are scripted, or served
// by hosts that the tests play.
package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pb"
	"github.com/tipstaff/tipstaff/rpc"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/sqlite"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// The callers of a bed, by what their tokens are good for.
var callers = []tipstaff.Token{
	{User: "alice", Secret: "the-token-of-alice"},
	{User: "bob", Secret: "the-token-of-bob"},
	{User: "root", Secret: "the-token-of-root", Scopes: []string{tipstaff.ScopeAdmin}},
	{User: "gateway", Secret: "the-token-of-the-gateway", Scopes: []string{tipstaff.ScopeRead, tipstaff.ScopeRun, tipstaff.ScopeSubmit, tipstaff.ScopeActAs}},
	{User: "gateway-host", Secret: "the-token-of-a-gateway-with-hosts", Scopes: append(tipstaff.DefaultScopes(), tipstaff.ScopeActAs)},
	{User: "reader", Secret: "the-token-of-a-reader", Scopes: []string{tipstaff.ScopeRead}},
}

// bed is a server over a workspace.
type bed struct {
	t         testing.TB // of the test that made it
	dir       string
	pipelines shelf
	standard  string
	heartbeat time.Duration
	places    int // for runs that are driven at once; 0: for all

	store  *sqlite.Store
	runner *runner.Runner
	stop   context.CancelCauseFunc
	server *rpc.Server
	addr   string
	life   *atomic.Int64 // which process the owners of now belong to
	quiet  bool          // nobody reads its log
}

func newBed(t *testing.T, with ...func(*bed)) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), pipelines: shelf{}}
	for _, f := range with {
		f(b)
	}
	b.open()
	t.Cleanup(b.close)
	return b
}

// common is the one server of all tests that leave it as it is.
func common(t *testing.T) *bed {
	t.Helper()
	everybody.once.Do(func() {
		dir, err := os.MkdirTemp("", "rpc")
		if err != nil {
			t.Fatal(err)
		}
		everybody.bed = &bed{t: t, dir: dir, pipelines: shelf{"straight": straight}, standard: "straight", quiet: true}
		everybody.bed.open()
	})
	if everybody.bed == nil {
		t.Fatal("there is no server")
	}
	own := *everybody.bed
	own.t = t
	return &own
}

var everybody struct {
	once sync.Once
	bed  *bed
}

func TestMain(m *testing.M) {
	code := m.Run()
	if b := everybody.bed; b != nil {
		b.close()
		os.RemoveAll(b.dir)
	}
	os.Exit(code)
}

func (b *bed) open() {
	if b.life == nil {
		b.life = new(atomic.Int64)
	}
	life := strconv.FormatInt(b.life.Add(1), 10)
	alive := func(o flow.Owner) bool { return o.Boot == strconv.FormatInt(b.life.Load(), 10) }
	o := &sqlite.Options{UserKey: true}
	o.Alive = func(o flow.Owner, _ time.Time) bool { return alive(o) }
	store, err := sqlite.Open(filepath.Join(b.dir, ".tipstaff"), o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	keys := store.Keys()
	b.store, b.stop = store, stop
	served := filepath.Join(b.dir, "pipelines")
	if err := os.MkdirAll(served, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.runner = runner.New(runner.Config{
		Store: store, Keys: keys, Workspace: b.dir, Origin: "daemon", Pipelines: []string{served},
		Trusted: func() ([]journal.PublicKey, error) { return store.PublicKeys(context.Background()) },
		Servers: func(*workspace.Manifest, string, []string) map[string]tool.Server { return nil },
		Self: func(kind, launch string) flow.Owner {
			return flow.Owner{Kind: kind, Host: "here", Boot: life, Pid: os.Getpid(), Launch: launch}
		},
		Alive:   func(o flow.Owner, _, _ time.Time) bool { return alive(o) },
		Markers: func(string, string) []string { return nil },
		Stop:    ctx, MaxDriving: b.places, Users: 2,
	})
	if err := b.runner.Recover(context.Background(), "the bed"); err != nil {
		b.t.Fatal(err)
	}
	b.listen()
}

func (b *bed) listen() {
	tokens, err := tipstaff.NewTokens(callers...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.server = rpc.New(b.runner, b.runner.Hosts(), rpc.Options{Tokens: tokens, Pipelines: library{filepath.Join(b.dir, "pipelines"), b.pipelines}, Default: b.standard, Heartbeat: b.heartbeat,
		Log: slog.New(slog.NewTextHandler(b.log(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.addr = l.Addr().String()
	go func() {
		if err := b.server.Serve(l); err != nil {
			b.t.Error(err)
		}
	}()
}

func (b *bed) log() io.Writer {
	if b.quiet {
		return io.Discard
	}
	return b.t.Output()
}

// terminate does what a daemon does that is told to stop.
func (b *bed) terminate() {
	b.server.Quiesce()
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	b.runner.Drain()
	b.server.Close(context.Background())
}

// verify checks every run that there is: whoever came by gRPC could act in it.
func (b *bed) verify() {
	rows, err := b.store.Runs(context.Background(), flow.Query{})
	if err != nil {
		b.t.Error(err)
	}
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	for _, row := range rows {
		run, err := tipstaff.ParseID(row.ID)
		if err != nil {
			b.t.Error(err)
			continue
		}
		rep, err := b.runner.Verify(local, tipstaff.VerifyRequest{Run: run, Open: true, Admins: []string{"root", "gateway", "gateway-host", "olga"}})
		if err != nil || !rep.Integrity.OK || !rep.Conformance.OK {
			b.t.Errorf("run %s: %v %+v %+v", row.ID, err, rep.Integrity.Problems, rep.Conformance.Problems)
		}
	}
}

func (b *bed) close() {
	b.terminate()
	b.verify()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

// restart is another daemon on the same workspace.
func (b *bed) restart() {
	b.t.Helper()
	b.close()
	b.open()
	if _, err := b.runner.TakeUp(context.Background(), "daemon"); err != nil {
		b.t.Fatal(err)
	}
}

// shelf holds pipelines by name.
type shelf map[string]string

// library is a shelf in a folder that the operator serves.
type library struct {
	dir string
	shelf
}

func (s library) Names() (names []string, err error) {
	for name := range s.shelf {
		names = append(names, name)
	}
	return names, nil
}

func (s library) File(name string) (string, error) {
	text, ok := s.shelf[name]
	if !ok {
		return "", tipstaff.Errorf(tipstaff.PipelineNotFound, "there is no pipeline %q", name)
	}
	file := filepath.Join(s.dir, name+".yaml")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// client is one caller's connection.
type client struct {
	pb.CoreServiceClient
	*bed
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// as is a caller; nobody, if the user is none.
func (b *bed) as(user string) *client { return &client{pb.NewCoreServiceClient(b.dial(user)), b} }

// bearing is a caller by the secret of its token.
func (b *bed) bearing(secret string) *client {
	return &client{pb.NewCoreServiceClient(b.dialWith(bearer(secret))), b}
}

func (b *bed) dial(user string, with ...grpc.DialOption) *grpc.ClientConn {
	b.t.Helper()
	var secret bearer
	for _, c := range callers {
		if c.User == user {
			secret = bearer(c.Secret)
		}
	}
	return b.dialWith(secret, with...)
}

func (b *bed) dialWith(secret bearer, with ...grpc.DialOption) *grpc.ClientConn {
	b.t.Helper()
	conn, err := grpc.NewClient(b.addr, append(with, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(secret),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return conn
}

func (b *bed) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

// document is a pipeline as it is sent.
func document(text string) *pb.PipelineConfig {
	return &pb.PipelineConfig{Source: &pb.PipelineConfig_Document{Document: []byte(text)}}
}

// create makes a draft.
func (c *client) create(text string) *pb.Envelope {
	c.t.Helper()
	env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "hello", Pipeline: document(text)})
	if err != nil {
		c.t.Fatal(err)
	}
	return env
}

// stream is what a client of a stream reads.
type stream interface {
	Recv() (*pb.ExecutionEvent, error)
	Trailer() metadata.MD
}

// all reads a stream to its end.
func (b *bed) all(s stream, err error) ([]*pb.ExecutionEvent, error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	var events []*pb.ExecutionEvent
	for {
		e, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// execute runs a draft to its end or pause, and looks whether the stream is whole.
func (c *client) execute(env *pb.Envelope) []*pb.ExecutionEvent {
	c.t.Helper()
	events, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}}))
	if err != nil {
		c.t.Fatal(err)
	}
	checkStream(c.t, events)
	return events
}

// checkStream: seq rises, and exactly the last event is final and has the Envelope.
func checkStream(t testing.TB, events []*pb.ExecutionEvent) {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("there was no event")
	}
	seq := int64(0)
	for i, e := range events {
		if e.Seq <= seq {
			t.Errorf("event %d has seq %d after %d", i, e.Seq, seq)
		}
		seq = e.Seq
		if last := i == len(events)-1; e.Final != last || (e.Envelope != nil) != last {
			t.Errorf("event %d of %d (%s): final %t, with an Envelope %t", i, len(events), e.Type, e.Final, e.Envelope != nil)
		}
		if !json.Valid(e.Payload) {
			t.Errorf("event %d has the payload %q", i, e.Payload)
		}
	}
}

func byEnvelope(env *pb.Envelope) *pb.RunRef {
	return &pb.RunRef{Ref: &pb.RunRef_EnvelopeId{EnvelopeId: env.EnvelopeId}}
}

func byRun(run string) *pb.RunRef { return &pb.RunRef{Ref: &pb.RunRef_RunId{RunId: run}} }

// wantCode looks at the status of an error, and at the reason that it gives.
func wantCode(t testing.TB, err error, code codes.Code, reason tipstaff.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if reason == "" {
		return
	}
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if info.Domain != "tipstaff" || info.Reason != string(reason) {
				t.Errorf("the error is told as %s/%s, want tipstaff/%s", info.Domain, info.Reason, reason)
			}
			return
		}
	}
	t.Errorf("%v has no ErrorInfo", err)
}

// member is one of an event's payload.
func member(t testing.TB, e *pb.ExecutionEvent, name string) string {
	t.Helper()
	var payload map[string]json.RawMessage
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	return string(payload[name])
}

func typesOf(events []*pb.ExecutionEvent) (types []string) {
	for _, e := range events {
		types = append(types, e.Type.String())
	}
	return types
}

// violations are what an error says of fields.
func violations(err error) []*errdetails.BadRequest_FieldViolation {
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok {
			return bad.FieldViolations
		}
	}
	return nil
}

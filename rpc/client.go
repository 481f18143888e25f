package rpc

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// Client is the Service of a server elsewhere.
type Client struct {
	addr string
	conn *grpc.ClientConn
	rpc  pb.RunServiceClient
}

var _ tipstaff.Service = (*Client)(nil)

// ClientOptions are what a client calls with. Token is required.
type ClientOptions struct {
	Token string
	TLS   *tls.Config // nil: plaintext
	Agent string      // what the client calls itself
}

// Calls that may be made again where it is not known whether they arrived: they change
// nothing, or the same once more.
var repeatable = []string{"Validate", "Get", "List", "Wait", "Checkpoints", "Artifact", "Envelope", "Graph", "Gate", "Inbox", "Threads", "Verify", "Decide", "Defer", "Cancel"}

// Dial makes a client. It connects with the first call.
func Dial(addr string, o ClientOptions) (*Client, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	target := "passthrough:///" + addr
	if path := tipstaff.SocketPath(addr); path != "" {
		target = "unix:" + path
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithUserAgent(o.Agent), grpc.WithDefaultServiceConfig(retries()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPayload), grpc.MaxCallSendMsgSize(maxPayload)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, PermitWithoutStream: true}), grpc.WithPerRPCCredentials(bearer(o.Token)))
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: fmt.Sprintf("%s is not the address of a server: %v", addr, err), Err: err}
	}
	return &Client{addr: addr, conn: conn, rpc: pb.NewRunServiceClient(conn)}, nil
}

// bearer is the token that every call shows.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// retries has gRPC make repeatable calls again while the server cannot be reached.
func retries() string {
	var names []string
	for _, name := range repeatable {
		names = append(names, fmt.Sprintf(`{"service": %q, "method": %q}`, pb.RunService_ServiceDesc.ServiceName, name))
	}
	return `{"methodConfig": [{"name": [` + strings.Join(names, ",") + `], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "3s",
		"backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// unary is a call of the client.
type unary func(context.Context, *pb.Json, ...grpc.CallOption) (*pb.Json, error)

// call makes a call with a request, and reads its answer.
func call[Res any](ctx context.Context, c *Client, do unary, req any) (res Res, err error) {
	text, err := json.Marshal(req)
	if err != nil {
		return res, tipstaff.Errorf(tipstaff.InvalidArgument, "the request has no form in JSON: %v", err)
	}
	answer, err := do(ctx, &pb.Json{Value: text})
	if err != nil {
		return res, c.explain(ctx, err)
	}
	if err := json.Unmarshal(answer.GetValue(), &res); err != nil {
		return res, tipstaff.Errorf(tipstaff.Internal, "the answer of %s cannot be read: %v", c.addr, err).WithHint("is the server of another version? `tipstaff version` tells")
	}
	return res, nil
}

// explain gives the error of a call the form that it has in the process that answered.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if whole, ok := detail.(*pb.Json); ok {
			e := new(tipstaff.Error)
			if json.Unmarshal(whole.GetValue(), e) == nil && e.Code != "" {
				return e
			}
		}
	}
	e := &tipstaff.Error{Code: tipstaff.Internal, Message: st.Message(), Err: err}
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		cause := cause(st.Message())
		e.Code, e.Message = tipstaff.StoreUnavailable, fmt.Sprintf("the server %s cannot be reached: %s", c.addr, cause)
		e.Hint = "is `tipstaff serve` running there? TLS needs --server grpcs://HOST:PORT"
		if strings.Contains(cause, "certificate") {
			e.Hint = "TIPSTAFF_SERVER_CA names the file of an authority to trust"
		}
	case codes.Unauthenticated:
		e.Code, e.Message, e.Hint = tipstaff.Forbidden, fmt.Sprintf("the server %s refuses the token: %s", c.addr, tipstaff.Printable(st.Message())), "set TIPSTAFF_TOKEN to a token of that server"
	case codes.ResourceExhausted:
		e.Code = tipstaff.QueueFull
	case codes.Unimplemented:
		e.Code, e.Hint = tipstaff.FormatNewer, "the server is of another version"
	}
	return e
}

// cause is what gRPC says last: the errors around it tell of its own attempts.
func cause(message string) string {
	if i := strings.LastIndex(message, "desc = "); i >= 0 {
		message = message[i+len("desc = "):]
	}
	if plain, err := strconv.Unquote(message); err == nil {
		return plain
	}
	return message
}

// patient is how long a reader of events waits for a server that has gone away.
const patient = 30 * time.Second

// Events implements [tipstaff.Service]. A stream that breaks is gone on with after the
// last record, as long as the server comes back in time.
func (c *Client) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		lost := time.Time{}
		for {
			after := req.After
			err := c.events(ctx, &req, yield)
			switch {
			case err == nil:
				return
			case status.Code(err) != codes.Unavailable || ctx.Err() != nil:
				yield(tipstaff.Event{}, c.explain(ctx, err))
				return
			}
			if lost.IsZero() || req.After > after {
				lost = time.Now()
			}
			if time.Since(lost) > patient || after == 0 && req.After == 0 {
				yield(tipstaff.Event{}, c.explain(ctx, err))
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

// events reads one stream, and moves the cursor of the request.
func (c *Client) events(ctx context.Context, req *tipstaff.EventsRequest, yield func(tipstaff.Event, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text, err := json.Marshal(req)
	if err != nil {
		return err
	}
	stream, err := c.rpc.Events(ctx, &pb.Json{Value: text})
	if err != nil {
		return err
	}
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := tipstaff.ReadEvent(in.GetValue())
		if !yield(e, err) || err != nil {
			return nil
		}
		if e.Seq == 0 {
			continue
		}
		req.After = e.Seq
		if req.Limit == 1 {
			return nil
		}
		req.Limit = max(0, req.Limit-1)
	}
}

// The other methods of [tipstaff.Service], each a call.

func (c *Client) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.Start, req)
}

func (c *Client) Draft(ctx context.Context, req tipstaff.DraftRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.Draft, req)
}

func (c *Client) Validate(ctx context.Context, req tipstaff.ValidateRequest) (tipstaff.Validated, error) {
	return call[tipstaff.Validated](ctx, c, c.rpc.Validate, req)
}

func (c *Client) Get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {
	return call[tipstaff.Run](ctx, c, c.rpc.Get, run)
}

func (c *Client) List(ctx context.Context, req tipstaff.ListRequest) (tipstaff.RunPage, error) {
	return call[tipstaff.RunPage](ctx, c, c.rpc.List, req)
}

func (c *Client) Wait(ctx context.Context, run tipstaff.ID) (tipstaff.Driven, error) {
	return call[tipstaff.Driven](ctx, c, c.rpc.Wait, run)
}

func (c *Client) Checkpoints(ctx context.Context, run tipstaff.ID) ([]tipstaff.Checkpoint, error) {
	return call[[]tipstaff.Checkpoint](ctx, c, c.rpc.Checkpoints, run)
}

func (c *Client) Artifact(ctx context.Context, run tipstaff.ID, digest string) ([]byte, error) {
	return call[[]byte](ctx, c, c.rpc.Artifact, nameRequest{run, digest})
}

func (c *Client) Graph(ctx context.Context, run tipstaff.ID, format string) ([]byte, error) {
	return call[[]byte](ctx, c, c.rpc.Graph, nameRequest{run, format})
}

func (c *Client) Gate(ctx context.Context, run tipstaff.ID, gate string) (tipstaff.Gate, error) {
	return call[tipstaff.Gate](ctx, c, c.rpc.Gate, nameRequest{run, gate})
}

func (c *Client) Inbox(ctx context.Context, req tipstaff.InboxRequest) (tipstaff.InboxPage, error) {
	return call[tipstaff.InboxPage](ctx, c, c.rpc.Inbox, req)
}

func (c *Client) Threads(ctx context.Context, req tipstaff.ThreadsRequest) (tipstaff.ThreadPage, error) {
	return call[tipstaff.ThreadPage](ctx, c, c.rpc.Threads, req)
}

func (c *Client) Decide(ctx context.Context, req tipstaff.DecideRequest) (tipstaff.Decided, error) {
	return call[tipstaff.Decided](ctx, c, c.rpc.Decide, req)
}

func (c *Client) Resume(ctx context.Context, req tipstaff.ResumeRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.Resume, req)
}

func (c *Client) Correct(ctx context.Context, req tipstaff.CorrectRequest) (tipstaff.Corrected, error) {
	return call[tipstaff.Corrected](ctx, c, c.rpc.Correct, req)
}

func (c *Client) Cancel(ctx context.Context, req tipstaff.CancelRequest) (tipstaff.Cancellation, error) {
	return call[tipstaff.Cancellation](ctx, c, c.rpc.Cancel, req)
}

func (c *Client) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Forked, error) {
	return call[tipstaff.Forked](ctx, c, c.rpc.Fork, req)
}

func (c *Client) Rollback(ctx context.Context, req tipstaff.RollbackRequest) (tipstaff.Run, error) {
	return call[tipstaff.Run](ctx, c, c.rpc.Rollback, req)
}

func (c *Client) Label(ctx context.Context, req tipstaff.LabelRequest) (tipstaff.Checkpoint, error) {
	return call[tipstaff.Checkpoint](ctx, c, c.rpc.Label, req)
}

func (c *Client) Verify(ctx context.Context, req tipstaff.VerifyRequest) (tipstaff.Report, error) {
	return call[tipstaff.Report](ctx, c, c.rpc.Verify, req)
}

func (c *Client) CreateEnvelope(ctx context.Context, req tipstaff.EnvelopeRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.CreateEnvelope, req)
}

func (c *Client) ExecuteEnvelope(ctx context.Context, req tipstaff.ExecuteRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.ExecuteEnvelope, req)
}

func (c *Client) ExecuteAgent(ctx context.Context, req tipstaff.AgentRequest) (tipstaff.Started, error) {
	return call[tipstaff.Started](ctx, c, c.rpc.ExecuteAgent, req)
}

func (c *Client) Envelope(ctx context.Context, run tipstaff.ID, checkpoint string) ([]byte, error) {
	return call[json.RawMessage](ctx, c, c.rpc.Envelope, nameRequest{run, checkpoint})
}

func (c *Client) Defer(ctx context.Context, run, gate tipstaff.ID) error {
	_, err := call[none](ctx, c, c.rpc.Defer, nameRequest{run, gate.String()})
	return err
}

func (c *Client) UpdateEnvelope(ctx context.Context, req tipstaff.EnvelopeUpdate) error {
	_, err := call[none](ctx, c, c.rpc.UpdateEnvelope, req)
	return err
}

package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/tipstaff/tipstaff"
)

// Options of an engine.
type Options struct {
	// Getenv gives credentials, in the variables that Temporal's own tools read. nil: there
	// are none.
	Getenv func(string) string
	// Log is told what the SDK has to say. nil: nobody is.
	Log *slog.Logger
}

const (
	dialLimit = 10 * time.Second
	callLimit = 10 * time.Second
)

// Engine schedules drives by a Temporal server. It is safe for concurrent use.
type Engine struct {
	client    client.Client
	host      string // of the server, with its port
	namespace string
	queue     string // the task queue that all workers share
}

// Dial connects to the server at an address like temporal://host:7233/namespace.
func Dial(ctx context.Context, address string, o Options) (*Engine, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	to, err := parse(address, o.Getenv)
	if err != nil {
		return nil, err
	}
	e := &Engine{host: to.HostPort, namespace: to.Namespace, queue: to.queue}
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	to.Logger = log.NewStructuredLogger(o.Log)
	// The default waits for two minutes before it looks whether a server is back.
	wait := backoff.DefaultConfig
	wait.MaxDelay = 5 * time.Second
	to.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: wait, MinConnectTimeout: dialLimit})}
	if e.client, err = client.DialContext(ctx, to.Options); err != nil {
		return nil, e.explain(err)
	}
	if _, err := e.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: e.namespace}); err != nil {
		e.client.Close()
		return nil, e.explain(err)
	}
	return e, nil
}

// Close ends the connection.
func (e *Engine) Close() { e.client.Close() }

// Schedule has a run driven, by a worker of the host if one is named. A run that is being
// driven is driven once more when it rests: what the caller has written before is seen.
func (e *Engine) Schedule(ctx context.Context, run, host string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := e.client.SignalWithStartWorkflow(ctx, run, signalResume, host, client.StartWorkflowOptions{
		TaskQueue:             e.queue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, // one that has ended is no hindrance
	}, workflowType, host)
	return e.explain(err)
}

// Unscheduled returns those of the runs that no workflow is about to have driven: there is
// none, or it waits for a signal or its timer. What was signalled to a server that did not
// answer is lost. With an error come those that were found before.
func (e *Engine) Unscheduled(ctx context.Context, runs []string) ([]string, error) {
	var without []string
	for _, run := range runs {
		call, cancel := context.WithTimeout(ctx, callLimit)
		d, err := e.client.DescribeWorkflowExecution(call, run, "")
		cancel()
		var none *serviceerror.NotFound
		switch {
		case errors.As(err, &none):
			without = append(without, run)
		case err != nil:
			return without, e.explain(err)
		case d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
			len(d.GetPendingActivities()) == 0 && d.GetPendingWorkflowTask() == nil:
			without = append(without, run)
		}
	}
	return without, nil
}

// explain says what a refusal of the server means. Addresses are named without
// credentials: those are in the environment.
func (e *Engine) explain(err error) error {
	var (
		silent  *serviceerror.Unavailable
		late    *serviceerror.DeadlineExceeded
		unknown *serviceerror.NamespaceNotFound
		refused *serviceerror.PermissionDenied
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return fmt.Errorf("the Temporal server at %s has no namespace %q: temporal operator namespace create --namespace %[2]s makes it", e.host, e.namespace)
	case errors.As(err, &refused):
		return fmt.Errorf("the Temporal server at %s refuses these credentials for the namespace %q: TEMPORAL_API_KEY, or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, hold them: %w", e.host, e.namespace, err)
	case errors.As(err, &silent), errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return &tipstaff.Error{Code: tipstaff.StoreUnavailable, Message: fmt.Sprintf("the Temporal server at %s does not answer: %v", e.host, err), Err: err}
	}
	return fmt.Errorf("the Temporal server at %s: %w", e.host, err)
}

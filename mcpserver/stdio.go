package mcpserver

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// lastAnswers is how long answers are waited for when there is nobody to ask any more.
const lastAnswers = 2 * time.Second

// TakeStdout keeps the real standard output for the protocol, and has whatever else this
// process or one that it starts writes there go to standard error: no stray line comes
// between two messages.
func TakeStdout() (*os.File, error) {
	kept, err := syscall.Dup(1)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(kept)
	if err := duplicate(2, 1); err != nil {
		return nil, os.NewSyscallError("dup2", err)
	}
	return os.NewFile(uintptr(kept), "standard output"), nil
}

// Stdio serves one client of the local user, until it says no more or ctx ends. What is being
// answered then is answered first, within [lastAnswers].
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	local := tipstaff.WithCaller(context.WithoutCancel(ctx), s.o.local())
	t := &stdio{Transport: &mcp.IOTransport{Reader: in, Writer: out}, stop: ctx, over: make(chan struct{}), open: map[jsonrpc.ID]bool{}, changed: make(chan struct{}, 1)}
	session, err := s.mcp.Connect(local, t, nil)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = session.Wait() // a client that has gone is the end, not a failure
	}()
	select {
	case <-t.over: // calls that go on are not waited for
	case <-ended:
	}
	return nil
}

// local is the client on standard input and output. It is a model more often than a person:
// it decides nothing unless the person who configured it has said that it may.
func (o Options) local() tipstaff.Caller {
	c := tipstaff.Caller{Surface: tipstaff.SurfaceStdio, User: "local", Principal: "local:mcp", Scopes: []string{tipstaff.ScopeRead}}
	if !o.ReadOnly {
		c.Scopes = append(c.Scopes, tipstaff.ScopeRun, tipstaff.ScopeSubmit)
	}
	if o.Decide {
		c.Scopes = append(c.Scopes, tipstaff.ScopeDecide)
	}
	return c
}

// listening is a call that has no answer for as long as somebody listens.
const listening = "subscriptions/listen"

// stdio is a transport that knows the calls which have no answer yet.
type stdio struct {
	mcp.Transport
	mcp.Connection
	stop context.Context
	over chan struct{} // closed when nobody asks any more, and what could be answered is

	mu       sync.Mutex
	open     map[jsonrpc.ID]bool
	changed  chan struct{}
	overOnce sync.Once
}

func (t *stdio) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	t.Connection, err = t.Transport.Connect(ctx)
	return t, err
}

func (t *stdio) Read(ctx context.Context) (jsonrpc.Message, error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.stop, cancel)()
	message, err := t.Connection.Read(reading)
	if err != nil {
		t.drain()
		return nil, err
	}
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() && r.Method != listening {
		t.mu.Lock()
		t.open[r.ID] = true
		t.mu.Unlock()
	}
	return message, nil
}

func (t *stdio) Write(ctx context.Context, message jsonrpc.Message) error {
	err := t.Connection.Write(ctx, message)
	if r, ok := message.(*jsonrpc.Response); ok {
		t.mu.Lock()
		delete(t.open, r.ID)
		t.mu.Unlock()
		select {
		case t.changed <- struct{}{}:
		default: // whoever waits is going to look
		}
	}
	return err
}

// drain waits for the answers that are still to be given.
func (t *stdio) drain() {
	defer t.overOnce.Do(func() { close(t.over) })
	enough := time.After(lastAnswers)
	for {
		t.mu.Lock()
		open := len(t.open)
		t.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-t.changed:
		case <-enough:
			return
		}
	}
}

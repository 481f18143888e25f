package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// noisy is a Service that prints whatever it is asked.
type noisy struct{ fake }

func (n *noisy) Get(ctx context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	fmt.Println("a line that somebody left in the code")
	fmt.Fprint(os.Stdout, "half a line")
	return n.fake.Get(ctx, id)
}

func (n *noisy) Validate(context.Context, tipstaff.ValidateRequest) (tipstaff.Validated, error) {
	panic("nobody checks programs here")
}

// TestMain makes this binary a server whose code prints, where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve-noisily" {
		out, err := TakeStdout()
		if err == nil {
			fmt.Println("before anything is served")
			s := New(Options{Control: tipstaff.Control{Runs: new(noisy), Now: time.Now}})
			err = s.Stdio(context.Background(), os.Stdin, out)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Whatever a process prints, its client reads messages and nothing else; and it ends in good
// order when there is nobody to ask any more, though a call has no answer yet.
func TestOnlyMessagesAreWritten(t *testing.T) {
	server := exec.CommandContext(t.Context(), os.Args[0], "serve-noisily")
	in, err := server.StdinPipe()
	must(t, err)
	out, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	asked := 0
	ask := func(method string, params any) {
		asked++
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": asked, "method": method, "params": params})
		must(t, err)
		_, err = in.Write(append(line, '\n'))
		must(t, err)
	}
	ask("initialize", map[string]any{"protocolVersion": oldest, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}})
	for name := range hinted {
		ask("tools/call", map[string]any{"name": name, "arguments": valid(name)})
	}
	must(t, in.Close()) // what was asked is answered all the same
	answered := map[float64]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message struct {
			JSONRPC string `json:"jsonrpc"`
			ID      float64
		}
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil || message.JSONRPC != "2.0" {
			t.Errorf("this is no message: %s", lines.Text())
		}
		answered[message.ID] = true
	}
	if err := server.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	if len(answered) != asked {
		t.Errorf("%d of %d requests were answered", len(answered), asked)
	}
}

// spoken is a connection by which some messages come, and then no more.
type spoken struct {
	mcp.Connection
	messages []jsonrpc.Message
}

func (s *spoken) Read(context.Context) (jsonrpc.Message, error) {
	if len(s.messages) == 0 {
		return nil, io.EOF
	}
	m := s.messages[0]
	s.messages = s.messages[1:]
	return m, nil
}

// At the end answers are waited for, but not that of a client that listens: it gets none for
// as long as it does.
func TestWhoListensDoesNotHoldUpTheEnd(t *testing.T) {
	for method, waits := range map[string]time.Duration{"subscriptions/listen": 0, "tools/call": lastAnswers} {
		synctest.Test(t, func(t *testing.T) {
			id, err := jsonrpc.MakeID("1")
			must(t, err)
			c := &stdio{Connection: &spoken{messages: []jsonrpc.Message{&jsonrpc.Request{ID: id, Method: method}}}, stop: t.Context(),
				over: make(chan struct{}), open: map[jsonrpc.ID]bool{}, changed: make(chan struct{}, 1)}
			_, err = c.Read(t.Context())
			must(t, err)
			began := time.Now()
			if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) || time.Since(began) != waits {
				t.Errorf("with an open %s the end comes after %s, with %v", method, time.Since(began), err)
			}
		})
	}
}

// A call whose client has gone in the middle of it is no fault of ours: nothing is logged.
func TestWhoGoesAwayIsNoFault(t *testing.T) {
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	s := newServer(new(fake))
	for ctx, code := range map[context.Context]tipstaff.Code{gone: tipstaff.CallCancelled, t.Context(): tipstaff.Internal} {
		if got := s.reply(ctx, "tools/call", io.EOF).Error.Code; got != code {
			t.Errorf("it is %s, not %s", got, code)
		}
	}
}

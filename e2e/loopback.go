package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// calls is how often each tool was called, by server/tool.
type calls map[string]int

// since is how often each was called after an earlier count.
func (c calls) since(earlier calls) calls {
	rise := calls{}
	for tool, n := range c {
		if n != earlier[tool] {
			rise[tool] = n - earlier[tool]
		}
	}
	return rise
}

// loopback is what the runs find on this machine besides processes: the server notes, a
// page for builtin/http_get, and the endpoint of a model. All of it counts.
type loopback struct {
	address string
	server  *http.Server

	mu       sync.Mutex
	counted  calls
	requests []string // to the model, as they came
	answer   func(request string) string
}

func listen(ctx context.Context) (*loopback, error) {
	l := &loopback{counted: calls{}}
	socket, err := reachable(ctx)
	if err != nil {
		return nil, err
	}
	l.address = socket.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return l.notes() }, nil))
	mux.HandleFunc("GET /version", l.page)
	mux.HandleFunc("POST /v1/chat/completions", l.complete)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go l.server.Serve(socket)
	return l, nil
}

// reachable listens on the loopback interface, and makes sure that it can be reached. In a
// new network namespace the interface is down.
func reachable(ctx context.Context) (net.Listener, error) {
	socket, err := listenAndDial(ctx)
	if err != nil && raiseLoopback() == nil {
		socket, err = listenAndDial(ctx)
	}
	if err != nil {
		return nil, tipstaff.Errorf(tipstaff.Refused, "127.0.0.1 cannot be reached on this machine: %v", err).
			WithHint("bring the loopback interface up: ip link set lo up")
	}
	return socket, nil
}

func listenAndDial(ctx context.Context) (net.Listener, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", socket.Addr().String())
	if err != nil {
		socket.Close()
		return nil, err
	}
	return socket, c.Close()
}

func (l *loopback) close() { l.server.Close() }

func (l *loopback) count(tool string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted[tool]++
}

func (l *loopback) calls() calls {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counted)
}

// notes is the server notes: one tool reads, the other can be called once only.
func (l *loopback) notes() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: notesVersion}, nil)
	count := func(tool string) error {
		l.count("notes/" + tool)
		return nil
	}
	serve(s, "find", "Finds the notes that have a word.", reads, count, func(in arguments) (object, error) {
		return object{"notes": []string{"a note about " + in.Text}}, nil
	})
	serve(s, "post", "Posts a note. It cannot be taken back.", once, count, func(arguments) (object, error) {
		return object{"number": 1}, nil
	})
	return s
}

func (l *loopback) page(w http.ResponseWriter, _ *http.Request) {
	l.count("builtin/http_get")
	io.WriteString(w, "3.2.0")
}

// complete is the endpoint of a model, as servers have it that speak chat completions.
func (l *loopback) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.requests = append(l.requests, string(body))
	reply := l.answer(string(body))
	l.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta object, finish any) {
		fmt.Fprintf(w, "data: %s\n\n", text(object{"model": "e2e", "choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}}))
	}
	for _, piece := range strings.SplitAfter(reply, ",") {
		chunk(object{"content": piece}, nil)
	}
	chunk(object{}, "stop")
	io.WriteString(w, "data: [DONE]\n\n")
}

// asked takes the requests to the model that came since the last time.
func (l *loopback) asked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	requests := l.requests
	l.requests = nil
	return requests
}

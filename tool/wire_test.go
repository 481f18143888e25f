package tool_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// wireServer is an MCP server written by hand, so that a test decides every byte
// that a client receives.
type wireServer struct {
	version string
	tools   func() string     // the members of tools/list; "": it is not answered
	reply   func(w *wireCall) // answers tools/call
	dial    func() error      // fails a connection, if set
	ping    func(w *wireCall) // answers ping; nil: it is not known
	silent  atomic.Bool       // it answers nothing at all
	starts  atomic.Int64      // nanoseconds until it reads anything
	thinks  atomic.Int64      // nanoseconds until it answers server/discover
	latest  atomic.Bool       // it speaks the latest protocol alone
	deaf    atomic.Bool       // it takes no notice of what comes before initialize
	refuses string            // why it takes no initialize
	limit   time.Duration     // its start_timeout
	frail   atomic.Bool       // to write a tools/call to it panics

	mu    sync.Mutex
	dials int
	calls []json.RawMessage // params of each tools/call
}

// wireCall is a tools/call that waits for its answer.
type wireCall struct {
	id        json.RawMessage
	params    json.RawMessage
	conn      net.Conn
	cancelled <-chan struct{}
	write     func(string)
}

func (w *wireCall) result(raw string) {
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, w.id, raw))
}

func (w *wireCall) fail(code int, message string) {
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, w.id, code, message))
}

func (s *wireServer) dialIn(context.Context) (mcp.Transport, error) {
	s.mu.Lock()
	s.dials++
	s.mu.Unlock()
	if s.dial != nil {
		if err := s.dial(); err != nil {
			return nil, err
		}
	}
	near, far := net.Pipe()
	go s.serve(far)
	return &mcp.IOTransport{Reader: near, Writer: frailWriter{near, s}}, nil
}

// frailWriter panics where its server wants that.
type frailWriter struct {
	net.Conn
	to *wireServer
}

func (w frailWriter) Write(b []byte) (int, error) {
	if w.to.frail.Load() && bytes.Contains(b, []byte(`"tools/call"`)) {
		panic("no such luck")
	}
	return w.Conn.Write(b)
}

func (s *wireServer) serve(conn net.Conn) {
	defer conn.Close()
	var mu sync.Mutex
	write := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = conn.Write([]byte(line + "\n"))
	}
	cancels := map[string]chan struct{}{}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 64<<20)
	// It reads on while it answers: a client that could not write would hold a lock of the
	// SDK meanwhile, and in a bubble time would stand still.
	received := make(chan []byte, 1024)
	go func() {
		defer close(received)
		for lines.Scan() {
			received <- bytes.Clone(lines.Bytes())
		}
	}()
	time.Sleep(time.Duration(s.starts.Load()))
	for line := range received {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if json.Unmarshal(line, &m) != nil {
			return
		}
		if s.silent.Load() {
			continue
		}
		w := &wireCall{id: m.ID, params: m.Params, conn: conn, write: write}
		switch m.Method {
		case "server/discover":
			if s.latest.Load() {
				go func() {
					time.Sleep(time.Duration(s.thinks.Load()))
					w.result(fmt.Sprintf(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"wire","version":%q}}}`, s.version))
				}()
			} else if !s.deaf.Load() {
				w.fail(-32601, "no such method")
			}
		case "initialize":
			if s.latest.Load() {
				w.fail(-32022, "only the latest protocol is spoken here")
				continue
			}
			if s.refuses != "" {
				w.fail(-32000, s.refuses)
				continue
			}
			w.result(fmt.Sprintf(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"wire","version":%q}}`, s.version))
		case "tools/list":
			if list := s.tools(); list != "" {
				w.result(list)
			}
		case "ping":
			if s.ping == nil {
				w.fail(-32601, "no such method")
				continue
			}
			s.ping(w)
		case "tools/call":
			s.mu.Lock()
			s.calls = append(s.calls, m.Params)
			s.mu.Unlock()
			done := make(chan struct{})
			cancels[string(m.ID)] = done
			w.cancelled = done
			go s.reply(w)
		case "notifications/cancelled":
			var p struct {
				ID json.RawMessage `json:"requestId"`
			}
			_ = json.Unmarshal(m.Params, &p)
			if c := cancels[string(p.ID)]; c != nil {
				close(c)
				delete(cancels, string(p.ID))
			}
		default:
			if m.ID != nil {
				w.fail(-32601, "no such method")
			}
		}
	}
}

func (s *wireServer) dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

func (s *wireServer) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// echoTool is a definition with members that the SDK does not know.
const echoTool = `{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number"}},"additionalProperties":false},
	"annotations":{"readOnlyHint":true},"x-unknown":{"big":1},"_meta":{"k":1}}`

func listOf(tools ...string) func() string {
	text := ""
	for i, t := range tools {
		if i > 0 {
			text += ","
		}
		text += t
	}
	return func() string { return `{"tools":[` + text + `]}` }
}

// wireBench is a bench over a server written by hand, named wire, whose tools are
// declared as given.
func wireBench(t testing.TB, s *wireServer, tools map[string]workspace.Tool) *bench {
	t.Helper()
	return wireBenchOf(t, map[string]*wireServer{"wire": s}, tools)
}

// wireBenchOf is a bench over several such servers, by their names, all with the
// same tools.
func wireBenchOf(t testing.TB, servers map[string]*wireServer, tools map[string]workspace.Tool) *bench {
	t.Helper()
	p, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: "all", Tool: "*/*", Do: policy.Allow}}})
	if problems != nil {
		t.Fatal(problems)
	}
	m := &workspace.Manifest{
		AllowedEffects: []flow.Class{flow.Read, flow.Idempotent, flow.Once},
		Servers:        map[string]workspace.Server{},
		Policy:         p,
	}
	var allow []string
	given := map[string]tool.Server{}
	for server, s := range servers {
		if s.version == "" {
			s.version = "1.0.0"
		}
		m.Servers[server], given[server] = workspace.Server{Tools: tools, MaxConcurrent: 4, StartTimeout: document.Duration(s.limit)}, tool.MCP(s.dialIn)
		for name := range tools {
			allow = append(allow, "mcp://"+server+"/"+name+"@"+s.version)
		}
	}
	b := benchWith(t, "", m, given)
	b.gate.AllowList = allow
	return b
}

func wireAttempt(name string, class flow.Class, args string) flow.Attempt {
	return flow.Attempt{Name: tool.ActivityName, N: 1, Class: class, Key: "key-1",
		Input: flow.JSON(tool.Input{URI: "mcp://wire/" + name + "@1.0.0", Args: json.RawMessage(args)})}
}

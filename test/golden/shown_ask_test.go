//go:build unix

package golden

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// surfaces are the ways to ask about the runs of a workspace: one daemon and one server of
// the control plane for all of them. What only the command shows takes a process each.
type surfaces struct {
	*workspace
	daemon *cmdtest.Process
	base   string // of addresses
	named  string // of those of the page, which has a name of its own
	token  string
	page   http.Client // with the cookie of somebody who has signed in
	tools  *mcp.ClientSession
}

// reader is the token of somebody who may see all runs.
const reader = "reader-0123456789abcdef0123456789abcdef"

// serve starts the daemon, which brings the store to the newest format and finds the dead
// owners of runs, and then the control plane.
func (s *surfaces) serve() {
	s.Helper()
	own := strings.Contains(s.Read("tipstaff.yaml"), "\n  tokens:\n")
	if own { // those of the workspace see their own runs alone
		s.Write("tipstaff.yaml", strings.Replace(s.Read("tipstaff.yaml"), "\n  tokens:\n", "\n  tokens:\n    reader: {token: $env:READER_TOKEN, scopes: [read, admin]}\n", 1))
		s.Env = append(s.Env, "READER_TOKEN="+reader)
	}
	s.daemon = s.Prepare("serve", "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
	said, err := s.daemon.Cmd.StdoutPipe()
	s.Check(err)
	s.daemon.Cmd.Stderr = &s.daemon.Err
	s.daemon.Cmd.Env = append(s.daemon.Cmd.Env, thrifty...)
	s.daemon.Begin()
	s.Cleanup(func() { _ = s.daemon.Cmd.Process.Kill() }) // it has ended unless the test failed
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		s.Fatalf("the daemon does not listen: %v\n%s", err, s.daemon.Err.String())
	}
	s.base = "http://" + strings.Fields(line)[1]
	if s.token = reader; !own {
		s.token = strings.TrimSpace(s.Must(0, "serve", "--token").Out)
	}

	jar, err := cookiejar.New(nil)
	s.Check(err)
	at := strings.TrimPrefix(s.base, "http://")
	browser := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { // every name that ends on .localhost is this machine
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	s.page = http.Client{Jar: jar, Transport: browser, Timeout: 10 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	_, body := s.signIn(s.base)
	if s.named = pageName.FindString(body); s.named == "" {
		s.Fatalf("it does not say where the page is: %s", body)
	}
	if code, body := s.signIn(s.named); code != http.StatusSeeOther {
		s.Fatalf("nobody can sign in: %d %s", code, body)
	}

	server := s.Prepare("mcp", "--decide").Cmd
	server.Env = append(server.Env, thrifty...)
	s.tools, err = mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, nil).Connect(s.Context(), &mcp.CommandTransport{Command: server}, nil)
	s.Check(err)
	s.Cleanup(func() { s.tools.Close() })
}

// pageName is where the page is, which is told to whoever has shown a token.
var pageName = regexp.MustCompile(`http://[0-9a-f]{20}\.localhost:[0-9]+`)

// signIn hands the token in.
func (s *surfaces) signIn(at string) (int, string) {
	s.Helper()
	r, err := http.NewRequest("POST", at+"/ui/signin", strings.NewReader(url.Values{"token": {s.token}}.Encode()))
	s.Check(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", at)
	code, body, _ := s.do(&s.page, r)
	return code, string(body)
}

// close stops both, which have nothing to complain of.
func (s *surfaces) close() {
	s.Helper()
	s.Check(s.tools.Close())
	s.page.CloseIdleConnections()
	s.daemon.Signal(syscall.SIGTERM)
	s.daemon.Must(0)
}

func (s *surfaces) do(client *http.Client, r *http.Request) (status int, body []byte, w window) {
	s.Helper()
	w.from = time.Now()
	res, err := client.Do(r)
	s.Check(err)
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	s.Check(err)
	w.to = time.Now()
	return res.StatusCode, body, w
}

// get asks for a path of the HTTP API.
func (s *surfaces) get(path string) (status int, body []byte, w window) {
	s.Helper()
	r, err := http.NewRequest("GET", s.base+path, nil)
	s.Check(err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.do(http.DefaultClient, r)
}

// visit asks for a path of the page.
func (s *surfaces) visit(path string) (status int, body []byte, w window) {
	s.Helper()
	r, err := http.NewRequest("GET", s.named+path, nil)
	s.Check(err)
	return s.do(&s.page, r)
}

// call calls a tool of the control plane. What it answers as text and as structure is the
// same.
func (s *surfaces) call(tool string, args map[string]any) (text []byte, w window) {
	s.Helper()
	w.from = time.Now()
	got, err := s.tools.CallTool(s.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	w.to = time.Now()
	s.Check(err)
	structure, err := json.Marshal(got.StructuredContent)
	s.Check(err)
	for _, c := range got.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text = append(text, c.Text...)
		}
	}
	if !got.IsError && !sameJSON(text, structure) {
		s.Errorf("%s %v answers %s as text and %s as structure", tool, args, text, structure)
	}
	if got.IsError { // its text is the message alone
		text = structure
	}
	return text, w
}

// resource reads a document of the control plane.
func (s *surfaces) resource(uri string) []byte {
	s.Helper()
	got, err := s.tools.ReadResource(s.Context(), &mcp.ReadResourceParams{URI: uri})
	if refused := (*jsonrpc.Error)(nil); errors.As(err, &refused) { // a run of another user
		return refused.Data
	}
	s.Check(err)
	var text bytes.Buffer
	for _, c := range got.Contents {
		text.WriteString(c.Text)
	}
	return text.Bytes()
}

// thrifty lets processes collect garbage only when there is much. Most do not live long
// enough to gain by it, and there are hundreds.
var thrifty = []string{"GOGC=off", "GOMEMLIMIT=128MiB"}

// tipstaff runs the command.
func (s *surfaces) tipstaff(args ...string) (cmdtest.Result, window) {
	s.Helper()
	p := s.Prepare(args...)
	p.Cmd.Env = append(p.Cmd.Env, thrifty...)
	p.Listen()
	w := window{from: time.Now()}
	p.Begin()
	r := p.Wait()
	w.to = time.Now()
	return r, w
}

func sameJSON(a, b []byte) bool {
	var one, other any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && reflect.DeepEqual(one, other)
}

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// http asks the daemon over HTTP, with its token.
func (s *serving) http(method, path, body string, with ...string) (*http.Response, []byte) {
	s.Helper()
	r := s.request(method, path, body, with...)
	res, err := http.DefaultClient.Do(r)
	s.Check(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.Check(err)
	return res, text
}

func (s *serving) request(method, path, body string, with ...string) *http.Request {
	s.Helper()
	r, err := http.NewRequest(method, "http://"+s.httpAddr+path, strings.NewReader(body))
	s.Check(err)
	r.Header.Set("Authorization", "Bearer "+s.token())
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(with); i += 2 {
		r.Header.Set(with[i], with[i+1])
	}
	return r
}

// A daemon that is told to stop sends followers away and interrupts its runs within its
// time; the next one takes them to their end. What waits for a decision is left alone.
func TestADaemonOverHTTP(t *testing.T) {
	t.Parallel()
	s := serveWith(t, []string{"--shutdown-timeout", "2s"}, manifest, gatedWork)
	start := func(program string) string {
		t.Helper()
		text, _ := json.Marshal(map[string]string{"program": program})
		res, body := s.http("POST", "/runs", string(text))
		var made struct{ Run string }
		if err := json.Unmarshal(body, &made); err != nil || res.StatusCode != 202 {
			t.Fatalf("it is answered %s: %s", res.Status, body)
		}
		return made.Run
	}
	parked := start(`{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?"}}`)
	for path, text := range map[string]string{"/healthz": `"ok":true`, "/readyz": `"ready":true`, "/version": `"go":"go1`, "/metrics": "tipstaff_sse_dropped_total 0", "/": `"/mcp"`, "/openapi.json": `"openapi"`} {
		if res, body := s.http("GET", path, ""); res.StatusCode != 200 || !bytes.Contains(body, []byte(text)) {
			t.Errorf("%s is answered %s: %.200s", path, res.Status, body)
		}
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	if res, body := s.http("POST", "/mcp", initialize, "Accept", "application/json, text/event-stream"); res.StatusCode != 200 || !bytes.Contains(body, []byte(`"name":"tipstaff"`)) {
		t.Errorf("MCP is answered %s: %s", res.Status, body)
	}
	if res, body := s.http("POST", "/mcp", initialize, "Accept", "application/json, text/event-stream", "Authorization", "Bearer nobody's"); res.StatusCode != 401 {
		t.Errorf("MCP of a stranger is answered %s: %s", res.Status, body)
	}
	run := start(`{kind: plan, version: 1, root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 4s}}}`)
	stream, err := http.DefaultClient.Do(s.request("GET", "/runs/"+run+"/events", "", "Accept", "text/event-stream"))
	s.Check(err)
	defer stream.Body.Close()
	for lines := bufio.NewScanner(stream.Body); lines.Scan() && lines.Text() != "event: run.started"; {
	}
	s.Check(s.daemon.Cmd.Process.Signal(syscall.SIGTERM))
	if rest, _ := io.ReadAll(stream.Body); bytes.Contains(rest, []byte("event: end")) {
		t.Errorf("the follower is sent away with %.300s", rest)
	}
	if code := s.daemon.Wait().Code; code != 0 {
		t.Errorf("the daemon exits with %d", code)
	}
	s.Must(0, "ls", "--json").Says(t, `"status":"interrupted"`)
	s.begin()
	stream, err = http.DefaultClient.Do(s.request("GET", "/runs/"+run+"/events", "", "Accept", "text/event-stream"))
	s.Check(err)
	defer stream.Body.Close()
	rest, err := io.ReadAll(stream.Body)
	if err != nil || !bytes.Contains(rest, []byte("event: intent.attest")) || !bytes.HasSuffix(rest, []byte("event: end\ndata: {}\n\n")) || bytes.Contains(rest, []byte("intent.cancel")) {
		t.Errorf("the next daemon tells %.2000s, %v", rest, err)
	}
	if _, body := s.http("GET", "/runs/"+parked, ""); !bytes.Contains(body, []byte(`"status":"awaiting_decision"`)) {
		t.Errorf("what waits is %s", body)
	}
	if r := s.Must(2, "serve", "--addr", s.httpAddr, "--grpc-addr", "127.0.0.1:0"); !strings.Contains(r.Err, "--addr names another address") {
		t.Errorf("a second daemon says %q", r.Err)
	}
}

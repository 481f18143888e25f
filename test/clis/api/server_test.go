package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// asked are requests of each dialect that offer a tool, in a conversation that works in /w.
var asked = map[string]struct{ path, body string }{
	"messages": {"/v1/messages?beta=true", `{"model":"m","stream":true,"system":[{"type":"text","text":"Primary working directory: /w\n"}],"tools":[{"name":"Write"},{"name":"mcp__tipstaff__task_log"}],
		"messages":[{"role":"user","content":"the first"},{"role":"assistant","content":[{"type":"text","text":"an answer"}]},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"the result"}]}]}]}`},
	"responses": {"/v1/responses", `{"model":"m","stream":true,"tools":[{"type":"function","name":"exec_command"},{"type":"namespace","name":"mcp__tipstaff","tools":[{"name":"task_log"}]}],
		"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"<cwd>/w</cwd>"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"the first"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"an answer"}]},{"type":"function_call","name":"x","arguments":"{}"},{"type":"function_call_output","output":"the result"}]}`},
	"chat": {"/v1/chat/completions", `{"model":"m","stream":true,"tools":[{"function":{"name":"write"}},{"function":{"name":"tipstaff_task_log"}}],
		"messages":[{"role":"system","content":"Working directory: /w\n"},{"role":"user","content":"the first"},{"role":"assistant","content":"an answer"},{"role":"tool","content":"the result"}]}`},
	"gemini": {"/v1beta/models/m:streamGenerateContent?alt=sse", `{"tools":[{"functionDeclarations":[{"name":"write_file"},{"name":"mcp_tipstaff_task_log"}]}],
		"contents":[{"role":"user","parts":[{"text":"- **Workspace Directories:**\n  - /w\n"},{"text":"the first"}]},{"role":"model","parts":[{"text":"an answer"}]},{"role":"user","parts":[{"functionResponse":{"response":{"output":"the result"}}}]}]}`},
}

// named is how each dialect calls the tools of a script.
var named = map[string][]string{
	"messages":  {`"Write"`, `"mcp__tipstaff__task_log"`},
	"responses": {`"exec_command"`, `"mcp__tipstaff"`, `"task_log"`},
	"chat":      {`"write"`, `"tipstaff_task_log"`},
	"gemini":    {`"write_file"`, `"mcp_tipstaff_task_log"`},
}

func start(t *testing.T, turns ...Turn) *Server {
	t.Helper()
	s, err := New(turns...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func post(t *testing.T, s *Server, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func TestEveryDialect(t *testing.T) {
	for name, a := range asked {
		for _, stream := range []bool{true, false} {
			path, body := a.path, a.body
			if !stream {
				path, body = strings.Replace(path, "streamGenerateContent", "generateContent", 1), strings.Replace(body, `"stream":true`, `"stream":false`, 1)
			}
			s := start(t, Turn{Text: "hello there", Calls: []Call{WriteFile("made.txt", "x"), {"task_log", map[string]any{"text": "noted"}}}})
			r, got := post(t, s, path, body)
			for _, want := range append(named[name], "hello there", "/w/made.txt", "noted") {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %s in %s", name, want, got)
				}
			}
			if is := strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream"); is != stream {
				t.Errorf("%s: the answer is %s", name, r.Header.Get("Content-Type"))
			}
			q := s.Requests()[0]
			if q.Dialect != name || q.Model != "m" || q.Dir != "/w" || !q.Offers("task_log") || q.Offers("approve") {
				t.Errorf("%s: it was taken for %+v", name, q)
			}
			if !q.Said("user", "the first") || !q.Said("assistant", "an answer") || !q.Said("tool", "the result") || q.Said("user", "the result") {
				t.Errorf("%s: the conversation is %+v", name, q.Messages)
			}
		}
	}
}

func TestTurnsAreChosenByTheLastMessage(t *testing.T) {
	s := start(t, Turn{When: "the first", Text: "never: it was answered"}, Turn{When: "the result", Text: "one", Times: 2}, Turn{Text: "two"})
	for _, want := range []string{"one", "one", "two", BeyondScript} {
		if _, got := post(t, s, asked["chat"].path, asked["chat"].body); !strings.Contains(got, want) {
			t.Errorf("not %q but %s", want, got)
		}
	}
	s.Replace(Turn{Text: "three", Times: Forever})
	for range 3 {
		if _, got := post(t, s, asked["gemini"].path, asked["gemini"].body); !strings.Contains(got, "three") {
			t.Error(got)
		}
	}
}

// A call can name what a tool has told before, however deep in JSON that stood.
func TestCallsNameWhatWasTold(t *testing.T) {
	for _, result := range []string{`{\"id\":\"one\"} {\"id\":\"two\"}`, `{\\\"id\\\": \\\"two\\\"}`} {
		s := start(t, Turn{Calls: []Call{{"task_log", map[string]any{"text": "{id} and {other} in {dir}"}}}})
		if _, got := post(t, s, asked["chat"].path, strings.Replace(asked["chat"].body, "the result", result, 1)); !strings.Contains(got, "two and {other} in /w") {
			t.Errorf("%s: %s", result, got)
		}
	}
}

// A request without tools is the CLI's own business.
func TestSideRequestsTakeNoTurn(t *testing.T) {
	s := start(t, Turn{Text: "the turn"})
	if _, got := post(t, s, "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"a title, please"}]}`); strings.Contains(got, "the turn") {
		t.Error(got)
	}
	post(t, s, "/v1/messages/count_tokens", `{}`)
	if r, _ := post(t, s, "/api/hello", `{}`); r.StatusCode != http.StatusNotFound {
		t.Error(r.Status)
	}
	if len(s.Requests()) != 0 || len(s.All()) != 3 {
		t.Errorf("%d of %d requests are conversations", len(s.Requests()), len(s.All()))
	}
}

func TestFailures(t *testing.T) {
	a := asked["messages"]
	s := start(t, Turn{Status: 429, Text: "too many", RetryAfter: 2 * time.Second}, Turn{Close: true}, Turn{Hang: true})
	r, got := post(t, s, a.path, a.body)
	if r.StatusCode != 429 || r.Header.Get("Retry-After") != "2" || !strings.Contains(got, `"rate_limit_error"`) || !strings.Contains(got, "too many") {
		t.Errorf("%s %s", r.Status, got)
	}
	if r, err := http.Post(s.URL+a.path, "application/json", strings.NewReader(a.body)); err == nil {
		if text, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("a closed connection gives %q", text)
		}
	}
	hung := make(chan error, 1)
	next := s.Next()
	go func() {
		_, err := http.Post(s.URL+a.path, "application/json", strings.NewReader(a.body))
		hung <- err
	}()
	<-next
	s.Stop()
	if err := <-hung; err == nil {
		t.Error("a dead server answered")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.Replace(Turn{Text: "again"})
	if _, got := post(t, s, a.path, a.body); !strings.Contains(got, "again") {
		t.Error(got)
	}
}

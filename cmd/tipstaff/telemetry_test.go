package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// talk is a workspace in which an agent reads a file, which it may, and runs a
// program, about which somebody is asked. SECRET is said wherever something can be
// said.
const talk = `-- turn.json --
{"kind": "turn", "agent": "default", "message": "Tidy up, SECRET."}
-- answers.yaml --
version: 1
answers:
  - {when: {step: 1}, calls: [{tool: builtin/read_file, args: {path: SECRET.txt}}]}
  - {when: {step: 2}, text: "SECRET", calls: [{tool: builtin/exec, args: {argv: [sh, -c, "echo SECRET"]}}], usage: {input_tokens: 40, output_tokens: 2}}
  - {when: {step: 3}, text: "Done, SECRET."}
-- SECRET.txt --
SECRET
`

const talkManifest = `models:
  demo: {provider: scripted, script: answers.yaml}
agents:
  default:
    model: demo
    tools: ["mcp://builtin/read_file@1.0.0", "mcp://builtin/exec@1.0.0"]
policy:
  rules:
    - {id: reads, tool: "builtin/read_file", effect: read, do: allow}
`

const approvalKey = "turn/tool#2.1/approval"

// newTalk is that workspace, with more in its manifest.
func newTalk(t testing.TB, more string) *workspace {
	w := newWorkspace(t, talk)
	w.Write("tipstaff.yaml", strings.TrimPrefix(manifest, "-- tipstaff.yaml --\n")+talkManifest+more)
	return w
}

// with runs the command with more in its environment.
func (w *workspace) with(env []string, code int, args ...string) cmdtest.Result {
	w.Helper()
	p := w.Prepare(args...)
	p.Cmd.Env = append(p.Cmd.Env, env...)
	p.Listen()
	p.Begin()
	r := p.Wait()
	if r.Code != code {
		w.Fatalf("want exit code %d\n%v", code, r)
	}
	return r
}

// converse takes the turn to its end, over a park, and returns its run.
func (w *workspace) converse(env ...string) string {
	w.Helper()
	run := runID(w, w.with(env, 4, "run", "turn.json", "--unattended", "--json"))
	w.Must(0, "decide", run, approvalKey, "allow")
	w.with(env, 0, "resume", run)
	return run
}

// receiver is an OTLP collector.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  [][]byte
	headers []http.Header
	paths   []string
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies, r.headers, r.paths = append(r.bodies, body), append(r.headers, req.Header), append(r.paths, req.URL.Path)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// received are the spans so far, with the scope that each is of.
func (r *receiver) received(t testing.TB) (spans []*tracepb.Span, scopes []*tracepb.ScopeSpans) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &req); err != nil {
			t.Fatal(err)
		}
		for _, resource := range req.ResourceSpans {
			if got := valueOf(resource.Resource.Attributes, "service.name"); got != "tipstaff" {
				t.Errorf("the service is %q", got)
			}
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					spans, scopes = append(spans, s), append(scopes, scope)
				}
			}
		}
	}
	return spans, scopes
}

func valueOf(list []*commonpb.KeyValue, key string) string {
	for _, kv := range list {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

func namesOf(spans []*tracepb.Span) (names []string) {
	for _, s := range spans {
		names = append(names, s.Name)
	}
	return names
}

// TestSpansOfARun: they are in one trace before and after a park, and hold nothing
// of what was said.
func TestSpansOfARun(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	w := newTalk(t, fmt.Sprintf("telemetry:\n  otlp: {endpoint: %q, headers: {Authorization: \"Bearer $env:OTEL_TOKEN\"}}\n", r.URL))
	run := w.converse("OTEL_TOKEN=a-token-of-ours", "OTEL_EXPORTER_OTLP_HEADERS=x-elsewhere=1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	spans, scopes := r.received(t)
	want := []string{"chat scripted", "execute_tool read_file", "chat scripted", "invoke_agent default",
		"execute_tool exec", "chat scripted", "invoke_agent default"}
	if got := namesOf(spans); !slices.Equal(got, want) {
		t.Fatalf("spans %q, want %q", got, want)
	}
	for i, s := range spans {
		if hex.EncodeToString(s.TraceId) != hex.EncodeToString(spans[0].TraceId) || valueOf(s.Attributes, "tipstaff.run.id") != run {
			t.Errorf("%s is in trace %x, of run %s", s.Name, s.TraceId, valueOf(s.Attributes, "tipstaff.run.id"))
		}
		if scopes[i].SchemaUrl != "https://opentelemetry.io/schemas/1.41.0" {
			t.Errorf("%s goes by %s", s.Name, scopes[i].SchemaUrl)
		}
	}
	for i, parent := range []int{3, 3, 3, -1, 6, 6, -1} {
		if parent < 0 && len(spans[i].ParentSpanId) > 0 || parent >= 0 && !bytes.Equal(spans[i].ParentSpanId, spans[parent].SpanId) {
			t.Errorf("%s has parent %x", spans[i].Name, spans[i].ParentSpanId)
		}
	}
	if p := valueOf(spans[0].Attributes, "gen_ai.provider.name"); p != "scripted" {
		t.Errorf("the provider is %q", p)
	}
	if id := valueOf(spans[4].Attributes, "gen_ai.tool.call.id"); !strings.HasPrefix(id, "tip_") { // asked for before the park
		t.Errorf("the call has id %q", id)
	}
	for i, body := range r.bodies {
		if bytes.Contains(body, []byte("SECRET")) || bytes.Contains(body, []byte("a-token-of-ours")) {
			t.Errorf("request %d has content, or the token", i+1)
		}
		if h := r.headers[i]; h.Get("Authorization") != "Bearer a-token-of-ours" || h.Get("x-elsewhere") != "" || r.paths[i] != "/v1/traces" {
			t.Errorf("request %d to %s has headers %v", i+1, r.paths[i], h)
		}
	}

	w.with([]string{"OTEL_TOKEN=a-token-of-ours"}, 0, "replay", run)
	w.with([]string{"OTEL_TOKEN=a-token-of-ours"}, 0, "verify", run)
	if again, _ := r.received(t); len(again) != len(spans) {
		t.Errorf("replay made spans: %q", namesOf(again[len(spans):]))
	}
}

func TestContentOfSpans(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	w := newTalk(t, "telemetry: {content: true}\n")
	w.with([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL}, 4, "run", "turn.json", "--unattended")
	spans, _ := r.received(t)
	for _, s := range spans {
		said := valueOf(s.Attributes, "gen_ai.input.messages") + valueOf(s.Attributes, "gen_ai.tool.call.arguments")
		if strings.Contains(said, "SECRET") != (s.Name != "invoke_agent default") {
			t.Errorf("%s holds %q", s.Name, said)
		}
	}
	if len(spans) != 4 {
		t.Errorf("spans %q", namesOf(spans))
	}
}

// TestTraceOfTheCaller: a run belongs to the trace in which it was asked for, also
// when somebody else drives it on.
func TestTraceOfTheCaller(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r := newReceiver(t)
	w := newTalk(t, "")
	endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + r.URL + "/here"
	run := runID(t, w.with([]string{endpoint, "TRACEPARENT=00-" + trace + "-" + parent + "-01"}, 4, "run", "turn.json", "--unattended", "--json"))
	w.Must(0, "decide", run, approvalKey, "allow")
	w.with([]string{endpoint}, 0, "resume", run)
	spans, _ := r.received(t)
	turns := 0
	for _, s := range spans {
		if hex.EncodeToString(s.TraceId) != trace {
			t.Errorf("%s is in trace %x", s.Name, s.TraceId)
		}
		if s.Name == "invoke_agent default" {
			turns++
			if hex.EncodeToString(s.ParentSpanId) != parent {
				t.Errorf("the turn has parent %x", s.ParentSpanId)
			}
		}
	}
	if turns != 2 || r.paths[0] != "/here" {
		t.Errorf("%d turns, sent to %s", turns, r.paths)
	}
	if got := w.journal(run)[0].field("trace"); got != "00-"+trace+"-"+parent+"-01" {
		t.Errorf("intent.draft has trace %q", got)
	}
}

// TestSpansThatCannotBeSent cost a run nothing: one line says so.
func TestSpansThatCannotBeSent(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "what is "+r.Header.Get("X-Key")+"?", http.StatusForbidden)
	}))
	t.Cleanup(refusing.Close)
	for name, c := range map[string]struct {
		more string
		env  []string
		says string
	}{
		"nobody there": {"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, "connection refused"},
		"no answer":    {"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String()}, "deadline"},
		"a refusal that shows the key": {fmt.Sprintf("telemetry:\n  otlp: {endpoint: %q, headers: {X-Key: \"$env:OTEL_TOKEN\"}}\n", refusing.URL),
			[]string{"OTEL_TOKEN=a-token-of-ours"}, "403"},
		"no key": {fmt.Sprintf("telemetry:\n  otlp: {endpoint: %q, headers: {X-Key: \"$env:OTEL_TOKEN\"}}\n", refusing.URL), nil, "OTEL_TOKEN"},
		"grpc":   {"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTalk(t, c.more)
			r := w.with(c.env, 4, "run", "turn.json", "--unattended")
			var lines []string
			for line := range strings.Lines(r.Err) {
				if strings.HasPrefix(line, "spans could not be sent: ") {
					lines = append(lines, line)
				}
			}
			if len(lines) != 1 || !strings.Contains(lines[0], c.says) || strings.Contains(r.Out+r.Err, "a-token-of-ours") {
				t.Errorf("want one line about %q\n%v", c.says, r)
			}
		})
	}
	for _, env := range []string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			r := newTalk(t, "").with([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", env}, 4, "run", "turn.json", "--unattended")
			if strings.Contains(r.Err, "spans") {
				t.Errorf("there should be none\n%v", r)
			}
		})
	}
}

// TestLogOfToolCalls: one line a call, none of what was said, none from a replay.
func TestLogOfToolCalls(t *testing.T) {
	t.Parallel()
	w := newTalk(t, "")
	run := w.converse("TIPSTAFF_LOG=calls.log")
	w.with([]string{"TIPSTAFF_LOG=calls.log"}, 0, "replay", run)
	text := w.Read("calls.log")
	if strings.Contains(text, "SECRET") {
		t.Errorf("something was said:\n%s", text)
	}
	type line struct {
		Msg, Run, Path, Server, Tool, Effect, Decision, Rule, Outcome string
		Hash                                                          string `json:"args_hmac"`
	}
	var lines []line
	for s := range strings.Lines(text) {
		var l line
		w.Check(json.Unmarshal([]byte(s), &l))
		if len(l.Hash) != 32 {
			t.Errorf("the hash is %q", l.Hash)
		}
		l.Hash = ""
		lines = append(lines, l)
	}
	want := []line{
		{Msg: "tool_call", Run: run, Path: "turn/tool#1.1", Server: "builtin", Tool: "read_file", Effect: "read", Decision: "allow", Rule: "reads", Outcome: "ok"},
		{Msg: "tool_call", Run: run, Path: "turn/tool#2.1", Server: "builtin", Tool: "exec", Effect: "once", Decision: "allow", Rule: "builtin/no-match", Outcome: "ok"},
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %+v, want %+v", lines, want)
	}

	again := w.with([]string{"TIPSTAFF_LOG=-"}, 4, "run", "turn.json", "--unattended")
	hash := func(s string) string { _, s, _ = strings.Cut(s, `"args_hmac":"`); return s[:min(len(s), 32)] }
	if got, want := hash(again.Err), hash(text); got != want { // the key is the store's
		t.Errorf("the same arguments have hash %s, before %s", got, want)
	}
	w.with([]string{"TIPSTAFF_LOG=no/such/folder/log"}, 2, "run", "turn.json", "--unattended").Says(t, "no/such/folder/log", "TIPSTAFF_LOG")
}

// TestMetrics scrapes a process that takes a turn to its end.
func TestMetrics(t *testing.T) {
	w := newTalk(t, "")
	t.Setenv("TIPSTAFF_METRICS", "127.0.0.1:0")
	ctx := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli", User: "local", Principal: "local:cli"})
	opened, err := newStop().open(ctx, cli.OpenOptions{Workspace: w.Dir})
	w.Check(err)
	defer func() { w.Check(opened.Close()) }()
	svc := opened.Service()
	started, err := svc.Start(ctx, tipstaff.StartRequest{Name: "turn.json", Program: []byte(w.Read("turn.json"))})
	w.Check(err)
	if d, err := svc.Wait(ctx, started.Run); err != nil || d.Outcome != "parked" {
		t.Fatalf("%+v", d)
	}
	_, err = svc.Decide(ctx, tipstaff.DecideRequest{Run: started.Run, Gate: approvalKey, Action: "deny"})
	w.Check(err)
	started, err = svc.Resume(ctx, tipstaff.ResumeRequest{Run: started.Run})
	w.Check(err)
	if d, err := svc.Wait(ctx, started.Run); err != nil || d.State != tipstaff.Completed {
		t.Fatalf("%+v", d)
	}
	resp, err := http.Get("http://" + opened.(*session).telemetry.Address().String() + "/metrics")
	w.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.Check(err)
	for _, want := range []string{
		`tipstaff_model_calls_total{model="scripted",outcome="ok"} 3`,
		`tipstaff_tool_calls_total{outcome="ok",server="builtin",tool="read_file"} 1`,
		`tipstaff_gates_total{action="deny",kind="approval"} 1`,
		`tipstaff_runs_total{state="completed"} 1`,
		`tipstaff_cost_usd_total 0`,
		`tipstaff_tokens_total{direction="output",model="scripted"} `,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestMetricsOfATakenAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	newTalk(t, "").with([]string{"TIPSTAFF_METRICS=" + taken.Addr().String()}, 4, "run", "turn.json", "--unattended").Says(t, "metrics are not served")
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// asking is a plan with a question in its middle, and one that takes its time.
const asking = manifest + `-- ask.yaml --
kind: plan
version: 1
name: ask
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 20, expr: "int(value) + 1"}}
    - {id: ok, kind: gate, question: "Double it?", show: {number: "${first.output.result}"}}
    - {id: second, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: "${first.output.result}", expr: "int(value) * 2"}}
outputs: {number: "${second.output.result}"}
-- slow.yaml --
kind: plan
version: 1
name: slow
root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 60s}}
-- bad.yaml --
kind: plan
version: 1
name: bad
root: {id: x, kind: surprise}
`

// mcpClient is a session with the control plane. Every answer is held against what the tool
// has announced.
type mcpClient struct {
	*testing.T
	*mcp.ClientSession
	out map[string]*jsonschema.Resolved
}

func (w *workspace) connectMCP(t *testing.T, transport mcp.Transport, revision string) *mcpClient {
	t.Helper()
	return w.connectMCPWith(t, transport, revision, nil)
}

func (w *workspace) connectMCPWith(t *testing.T, transport mcp.Transport, revision string, o *mcp.ClientOptions) *mcpClient {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, o).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	w.Check(err)
	t.Cleanup(func() { session.Close() })
	c := &mcpClient{t, session, map[string]*jsonschema.Resolved{}}
	listed, err := session.ListTools(t.Context(), nil)
	w.Check(err)
	for _, tool := range listed.Tools {
		schema := new(jsonschema.Schema)
		raw, err := json.Marshal(tool.OutputSchema)
		w.Check(err)
		w.Check(json.Unmarshal(raw, schema))
		c.out[tool.Name], err = schema.Resolve(nil)
		w.Check(err)
	}
	return c
}

// overStdio is a client that starts the server itself.
func (w *workspace) overStdio(t *testing.T, revision string, args ...string) *mcpClient {
	t.Helper()
	server := w.Prepare(append([]string{"mcp", "--workspace", w.Dir}, args...)...).Cmd
	server.Stderr = os.Stderr
	return w.connectMCP(t, &mcp.CommandTransport{Command: server}, revision)
}

// told is what a client reads of an answer, or of an error.
type told struct {
	Run     tipstaff.ID `json:"run_id"`
	Status  string
	Outcome string
	Code    string
	// Recommended is the run to deal with instead.
	Recommended tipstaff.ID `json:"recommended_run_id"`
	Pid         int
	Argv        []string
	Last        int64 `json:"last_seq"`
	Trigger     struct{ Kind string }
	Gates       []struct {
		ID tipstaff.ID `json:"gate_id"`
	}
	Decision  json.RawMessage
	Replayed  bool
	Next      []tipstaff.NextCall
	Steps     struct{ Total int }
	Integrity struct{ OK bool }
	Conforms  struct{ OK bool } `json:"conformance"`
	OK        bool
	Errors    json.RawMessage
	Total     int
	Error     struct {
		Code    tipstaff.Code
		Details map[string]string
		Next    []tipstaff.NextCall
	}
}

// call is the answer of a tool, which must have a code of error, or none.
func (c *mcpClient) call(code tipstaff.Code, name string, args map[string]any) (got told) {
	c.Helper()
	res, err := c.CallTool(c.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		c.Fatalf("%s: %v", name, err)
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		_ = json.Unmarshal(raw, &got) // `error` of some answers is another thing
	}
	if res.IsError != (code != "") || res.IsError && got.Error.Code != code {
		c.Fatalf("%s with %v: %s", name, args, raw)
	}
	if err := c.out[name].Validate(res.StructuredContent); err != nil {
		c.Errorf("%s answers what it has not announced: %v\n%s", name, err, raw)
	}
	return got
}

// sent makes a ready call as it was told.
func (c *mcpClient) sent(next tipstaff.NextCall) told {
	c.Helper()
	if next.Kind != tipstaff.ReadyCall {
		c.Errorf("%s is not ready: %+v", next.Tool, next)
	}
	return c.call("", next.Tool, next.Args)
}

// asked watches a run that was started until it asks.
func (c *mcpClient) asked(s told) told {
	c.Helper()
	w := c.sent(s.Next[0])
	if w.Trigger.Kind != "gate" || len(w.Gates) != 1 {
		run := map[string]any{"run_id": s.Run}
		c.Fatalf("watched: %+v\nits errors: %+v\nnow: %+v", w, c.call("", "run_evidence", map[string]any{"run_id": s.Run, "slice": "errors"}), c.call("", "run_diagnose", run))
	}
	return w
}

// endToEnd starts a run, follows it to its question, decides, decides again, resumes, follows
// it to its end, and looks at what is recorded.
func (c *mcpClient) endToEnd() {
	c.Helper()
	began := time.Now()
	s := c.call("", "run_start", map[string]any{"program_file": "ask.yaml", "idempotency_key": "one"})
	if s.Pid == 0 || len(s.Next) != 1 || s.Next[0].Tool != "run_watch" || !strings.Contains(fmt.Sprint(s.Argv), s.Run.String()) {
		c.Errorf("started: %+v", s)
	}
	if again := c.call("", "run_start", map[string]any{"program_file": "ask.yaml", "idempotency_key": "one"}); again.Run != s.Run || !again.Replayed {
		c.Errorf("the same key: %+v", again)
	}
	c.call(tipstaff.RequestConflict, "run_start", map[string]any{"program_file": "slow.yaml", "idempotency_key": "one"})
	w := c.asked(s)
	run := map[string]any{"run_id": s.Run}
	r := c.call("", "run_resume", run)
	for r.Outcome == tipstaff.ResumeRunning && time.Since(began) < time.Minute { // it is about to park
		r = c.call("", "run_resume", run)
	}
	if r.Outcome != tipstaff.ResumeUndecided || r.Pid != 0 || len(r.Gates) != 1 {
		c.Errorf("resumed undecided: %+v", r)
	}
	if p := c.call("", "pending_decisions", nil); p.Total != 1 {
		c.Errorf("pending: %+v", p)
	}
	decide := map[string]any{"run_id": s.Run, "gate_id": w.Gates[0].ID, "action": "approve", "decided_by": "Ada"}
	first := c.call("", "gate_decide", decide)
	if second := c.call("", "gate_decide", decide); string(second.Decision) != string(first.Decision) || !second.Replayed || first.Replayed {
		c.Errorf("decided again: %s, then %s", first.Decision, second.Decision)
	}
	decide["action"] = "deny"
	if e := c.call(tipstaff.DecisionConflict, "gate_decide", decide); len(e.Error.Next) != 1 {
		c.Errorf("another decision: %+v", e.Error)
	}
	if r := c.sent(first.Next[0]); r.Outcome != tipstaff.ResumeLaunched || r.Pid == 0 {
		c.Errorf("resumed: %+v", r)
	}
	if w = c.call("", "run_watch", map[string]any{"run_id": s.Run, "after_seq": w.Last, "until": "end"}); w.Trigger.Kind != "end" || w.Status != "completed" {
		c.Fatalf("watched to the end: %+v", w)
	}
	if e := c.call("", "run_evidence", map[string]any{"run_id": s.Run, "slice": "steps"}); e.Steps.Total != 3 {
		c.Errorf("evidence: %+v", e)
	}
	if v := c.call("", "run_verify", run); !v.Integrity.OK || !v.Conforms.OK {
		c.Errorf("verified: %+v", v)
	}
	if r := c.call("", "run_resume", run); r.Outcome != tipstaff.ResumeTerminal || r.Pid != 0 {
		c.Errorf("resumed at the end: %+v", r)
	}
	if r := c.call("", "run_cancel", run); r.Status != tipstaff.CancelDone {
		c.Errorf("cancelled at the end: %+v", r)
	}
	for _, name := range []string{"run_status", "run_events_tail", "run_metrics", "run_diagnose", "run_diff", "delivery_gate"} {
		for _, next := range c.call("", name, run).Next {
			c.sent(next)
		}
	}
}

// One script passes on standard input and output and over HTTP, with clients of old and new
// revisions; what a run does is the same.
func TestMCPEndToEnd(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		t.Run("stdio "+revision, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, asking)
			w.overStdio(t, revision, "--decide").endToEnd()
		})
		t.Run("http "+revision, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, asking)
			url, token := w.serveMCP(t)
			transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearing{token}}}
			w.connectMCP(t, transport, revision).endToEnd()
			refused := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearing{"of somebody else"}}}
			if _, err := mcp.NewClient(&mcp.Implementation{Name: "stranger", Version: "1"}, nil).Connect(t.Context(), refused, nil); err == nil {
				t.Error("a stranger is let in")
			}
			res, err := (&http.Client{Transport: bearing{token}}).Get(strings.TrimSuffix(url, "mcp") + "runs")
			w.Check(err)
			if res.Body.Close(); res.StatusCode != http.StatusNotFound {
				t.Errorf("beside the control plane it answers %s", res.Status)
			}
		})
	}
}

type bearing struct{ token string }

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// serveMCP has the control plane listen on a port of its own, for the one token of a workspace.
func (w *workspace) serveMCP(t *testing.T) (url, token string) {
	t.Helper()
	url = w.listenMCP(t)
	return url, strings.TrimSpace(w.Must(0, "serve", "--token").Out)
}

func (w *workspace) listenMCP(t *testing.T) (url string) {
	t.Helper()
	server := w.Prepare("mcp", "--workspace", w.Dir, "--http", "127.0.0.1:0")
	out, err := server.Cmd.StdoutPipe()
	w.Check(err)
	server.Begin()
	t.Cleanup(func() { server.Signal(os.Interrupt) })
	line, err := bufio.NewReader(out).ReadString('\n')
	w.Check(err)
	return strings.TrimSpace(strings.TrimPrefix(line, "mcp "))
}

// What cannot be started leaves nothing behind.
func TestMCPStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, asking)
	c := w.overStdio(t, "2026-07-28", "--decide")
	for code, all := range map[tipstaff.Code][]map[string]any{
		tipstaff.InvalidArgument: {{}, {"program": "x", "prose": "y"}, {"message": "m", "skill": "s"}, {"program_file": "ask.yaml", "fork_at_seq": 3},
			{"program_file": "ask.yaml", "bounds": map[string]any{"surprises": 1}}, {"program_file": "ask.yaml", "bounds": map[string]any{"tool_calls": -1}}},
		tipstaff.InvalidProgram:    {{"program": "kind: plan"}, {"program_file": "bad.yaml"}},
		tipstaff.PathOutside:       {{"program_file": "../ask.yaml"}, {"program_file": "/etc/hostname"}, {"program_file": "ask.yaml", "project_dir": ".."}},
		tipstaff.RunNotFound:       {{"fork_of": tipstaff.NewID(time.Now())}},
		tipstaff.NotAGitRepository: {{"program": "kind: plan\nversion: 1\nname: d\ndeliver: {}\nroot: {id: nap, kind: tool_call, tool: \"mcp://builtin/sleep@1.0.0\", args: {duration: 1ms}}\n"}},
	} {
		for _, args := range all {
			c.call(code, "run_start", args)
		}
	}
	if h := c.call("", "run_history", nil); h.Total != 0 {
		t.Errorf("there are %d runs", h.Total)
	}
	if left, err := os.ReadDir(w.Path(".tipstaff", "runs")); err == nil && len(left) > 0 {
		t.Errorf("%d folders are left", len(left))
	}
	if v := c.call("", "plan_validate", map[string]any{"program_file": "bad.yaml"}); v.OK || !strings.Contains(string(v.Errors), `"line":4`) {
		t.Errorf("validated: %+v", v)
	}
}

// Runs that a person drives are looked at and decided, not driven; also after a restart.
func TestMCPInspectsForegroundRuns(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, asking)
	w.Must(4, "run", "ask.yaml", "--unattended")
	var run tipstaff.ID
	for range 2 {
		c := w.overStdio(t, "2025-06-18", "--decide")
		var list struct {
			Runs []struct {
				Run tipstaff.ID `json:"run_id"`
			}
		}
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_history"})
		w.Check(err)
		raw, _ := json.Marshal(res.StructuredContent)
		w.Check(json.Unmarshal(raw, &list))
		run = list.Runs[0].Run
		before := c.call("", "run_events_tail", map[string]any{"run_id": run}).Last
		for _, tool := range []string{"run_resume", "run_cancel"} {
			e := c.call(tipstaff.InspectOnly, tool, map[string]any{"run_id": run}).Error
			if e.Details["control"] != tipstaff.InspectAlone || e.Details["control_reason"] != tipstaff.ForegroundRun || e.Details["attempted"] != tool || len(e.Next) != 2 {
				t.Errorf("%s: %+v", tool, e)
			}
			for _, next := range e.Next {
				c.sent(next)
			}
		}
		if after := c.call("", "run_events_tail", map[string]any{"run_id": run}).Last; after != before {
			t.Errorf("it has %d records, and had %d", after, before)
		}
		w.Check(c.Close())
	}
	c := w.overStdio(t, "2025-06-18", "--decide")
	gate := c.call("", "run_watch", map[string]any{"run_id": run}).Gates[0].ID
	d := c.call("", "gate_decide", map[string]any{"run_id": run, "gate_id": gate, "action": "approve"})
	if len(d.Next) != 1 || d.Next[0].Tool != "run_status" {
		t.Errorf("decided: %+v", d)
	}
}

// A server without a workspace starts, and says what is missing; a closed input ends it.
func TestMCPWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	w := emptyWorkspace(t)
	server := w.Prepare("mcp").Cmd
	server.Env = append(server.Environ(), "TIPSTAFF_WORKSPACE=")
	c := w.connectMCP(t, &mcp.CommandTransport{Command: server}, "2026-07-28")
	c.call(tipstaff.WorkspaceUnresolved, "run_history", nil)
	if err := c.Close(); err != nil && !strings.Contains(err.Error(), "signal") {
		t.Errorf("closed: %v", err)
	}
	if code := server.ProcessState.ExitCode(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// Over HTTP a caller has to do with the runs of its own user, in every tool and resource, and
// with what its token may do.
func TestMCPKeepsUsersApart(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, strings.Replace(asking, "allowed_effects:", `serve:
  tokens:
    alice: $env:ALICE
    bob: $env:BOB
    carol: {token: $env:CAROL, scopes: [read]}
    root: {token: $env:ROOT, scopes: [admin]}
allowed_effects:`, 1))
	w.Env = append(w.Env, "ALICE=the-secret-of-alice", "BOB=the-secret-of-bob-", "CAROL=the-secret-of-carol", "ROOT=the-secret-of-root")
	url := w.listenMCP(t)
	as := func(secret, revision string) *mcpClient {
		return w.connectMCP(t, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearing{secret}}}, revision)
	}
	alice := as("the-secret-of-alice", "2026-07-28")
	s := alice.call("", "run_start", map[string]any{"program_file": "ask.yaml"})
	gate := alice.asked(s).Gates[0].ID
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		bob := as("the-secret-of-bob-", revision)
		for _, name := range []string{"run_resume", "run_cancel", "run_status", "run_events_tail", "run_metrics", "run_watch", "run_evidence", "run_diagnose", "delivery_gate", "run_verify", "run_diff"} {
			bob.call(tipstaff.Forbidden, name, map[string]any{"run_id": s.Run})
		}
		for _, name := range []string{"gate_decide", "phase_handoff_decide", "delivery_decide"} {
			bob.call(tipstaff.Forbidden, name, map[string]any{"run_id": s.Run, "gate_id": gate, "action": "approve"})
		}
		bob.call(tipstaff.Forbidden, "run_start", map[string]any{"fork_of": s.Run})
		for _, part := range []string{"", "/evidence", "/events", "/journal", "/diff"} {
			if _, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "tipstaff://runs/" + s.Run.String() + part}); err == nil || !strings.Contains(err.Error(), "another user") {
				t.Errorf("bob reads %q: %v", part, err)
			}
		}
		if n := bob.call("", "run_history", nil).Total + bob.call("", "pending_decisions", nil).Total; n != 0 {
			t.Errorf("bob is listed %d", n)
		}
		root := as("the-secret-of-root", revision)
		if n := root.call("", "run_history", nil).Total; n != 1 {
			t.Errorf("root is listed %d", n)
		}
		root.call("", "run_status", map[string]any{"run_id": s.Run})
		as("the-secret-of-carol", revision).call(tipstaff.Forbidden, "run_start", map[string]any{"program_file": "ask.yaml"})
	}
}

// A client that may not decide is at no dead end: it is told what a person does, waits until
// they have, and goes on.
func TestMCPLeavesDecisionsToAPerson(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, asking)
			c := w.overStdio(t, revision)
			watched := c.sent(c.call("", "run_start", map[string]any{"program_file": "ask.yaml"}).Next[0])
			run := watched.Run
			if len(watched.Next) < 2 || watched.Next[0].Kind != tipstaff.PersonCall || watched.Next[0].Gate != watched.Gates[0].ID || watched.Next[0].URL != "" {
				t.Fatalf("next is %+v", watched.Next)
			}
			for _, name := range []string{"run_status", "run_diagnose"} {
				if next := c.call("", name, map[string]any{"run_id": run}).Next; next[0].Kind != tipstaff.PersonCall || next[0].Command != watched.Next[0].Command {
					t.Errorf("%s: next is %+v", name, next)
				}
			}
			c.call(tipstaff.Forbidden, "gate_decide", map[string]any{"run_id": run, "gate_id": watched.Gates[0].ID, "action": "approve"})
			wait := watched.Next[1]
			waited := make(chan told, 1)
			go func() { waited <- c.sent(wait) }()
			w.elsewhere(t, strings.Replace(watched.Next[0].Command, "ACTION", "approve", 1))
			got := <-waited
			if got.Trigger.Kind != tipstaff.WatchResume && got.Trigger.Kind != tipstaff.UntilDecision {
				t.Fatalf("it has waited for %+v", got)
			}
			for got.Trigger.Kind != tipstaff.WatchResume { // its process is about to end, or takes the decision itself
				if got = c.call("", "run_watch", map[string]any{"run_id": run}); got.Trigger.Kind == tipstaff.WatchEnd {
					return
				}
			}
			if r := c.sent(got.Next[0]); r.Outcome != tipstaff.ResumeLaunched {
				t.Errorf("resumed: %+v", r)
			}
			if got = c.call("", "run_watch", map[string]any{"run_id": run, "until": "end"}); got.Status != "completed" {
				t.Errorf("it ends as %+v", got)
			}
		})
	}
}

// elsewhere runs a command line of this program as a person does at another terminal, in
// another folder.
func (w *workspace) elsewhere(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	p := w.Prepare(words[1:]...)
	p.Cmd.Dir = t.TempDir()
	p.Begin()
	p.Must(0)
}

// Where a daemon serves the page of the workspace, a person is sent there too, and not after it
// has ended, however it did.
func TestMCPSendsPeopleToThePage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, asking)
	c := w.overStdio(t, "2026-07-28")
	watched := c.sent(c.call("", "run_start", map[string]any{"program_file": "ask.yaml"}).Next[0])
	url := func() string { return c.call("", "run_status", map[string]any{"run_id": watched.Run}).Next[0].URL }
	for name, sig := range map[string]os.Signal{"ends": os.Interrupt, "is killed": os.Kill} {
		daemon := w.Prepare("serve", "--workspace", w.Dir, "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0")
		out, err := daemon.Cmd.StdoutPipe()
		w.Check(err)
		daemon.Begin()
		_, err = bufio.NewReader(out).ReadString('\n')
		w.Check(err)
		at := url()
		res, err := http.Get(at)
		if err != nil || res.Body.Close() != nil || !strings.HasSuffix(at, "/ui/runs/"+watched.Run.String()+"/gates/"+watched.Gates[0].ID.String()) || res.StatusCode != http.StatusOK {
			t.Errorf("%q: %v, %v", at, res, err)
		}
		daemon.Signal(sig)
		<-daemon.Ended
		if at := url(); at != "" {
			t.Errorf("when the daemon %s, a person is sent to %s", name, at)
		}
	}
}

// A client that shows forms is asked in the watch, and what its person answers is recorded as
// the client reports it; one that dies over the question has decided nothing.
func TestMCPAsksThePersonAtTheClient(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, asking)
			asked := make(chan *mcp.ElicitParams, 1)
			answers := make(chan *mcp.ElicitResult, 1)
			client := func() *mcpClient {
				server := w.Prepare("mcp", "--workspace", w.Dir).Cmd
				server.Stderr = os.Stderr
				return w.connectMCPWith(t, &mcp.CommandTransport{Command: server}, revision, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- r.Params
					select {
					case a := <-answers:
						return a, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}})
			}
			dies := client()
			started := dies.call("", "run_start", map[string]any{"program_file": "ask.yaml"})
			watch := map[string]any{"run_id": started.Run}
			call, die := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() {
				_, err := dies.CallTool(call, &mcp.CallToolParams{Name: "run_watch", Arguments: watch})
				over <- err
			}()
			if form := <-asked; !strings.Contains(form.Message, "Double it?") || !strings.Contains(form.Message, "21") {
				t.Errorf("it is asked %s", form.Message)
			}
			die()
			<-over
			_ = dies.Close()
			c := client()
			answers <- &mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "approve", "note": "by a form"}}
			got := c.call("", "run_watch", watch)
			<-asked
			for got.Trigger.Kind != tipstaff.WatchResume && got.Trigger.Kind != tipstaff.WatchEnd {
				got = c.call("", "run_watch", watch)
			}
			if got.Trigger.Kind == tipstaff.WatchResume {
				c.sent(got.Next[0])
			}
			if got = c.call("", "run_watch", map[string]any{"run_id": started.Run, "until": "end"}); got.Status != "completed" {
				t.Errorf("it ends as %+v", got)
			}
			if shown := w.Must(0, "show", started.Run.String(), "--evidence", "decisions").Out; strings.Count(shown, "elicitation") != 1 || !strings.Contains(shown, "by a form") {
				t.Errorf("it is recorded as\n%s", shown)
			}
		})
	}
}

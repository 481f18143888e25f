package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

var update = flag.Bool("update", false, "write the catalogue anew")

// Revisions of the protocol: one with a handshake, and one whose requests stand alone.
var revisions = []string{oldest, sessionless}

var (
	theRun  = tipstaff.NewID(time.UnixMilli(1_700_000_000_000))
	theGate = tipstaff.NewID(time.UnixMilli(1_700_000_001_000))
)

// fake is a Service with one run. What a test says nothing of panics.
type fake struct {
	tipstaff.Service
	err     error // of everything
	callers chan tipstaff.Caller
	decide  func(tipstaff.DecideRequest) (tipstaff.Decided, error)
	events  chan tipstaff.Event
	gate    tipstaff.GateKind
}

func (f *fake) Get(ctx context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	if f.callers != nil {
		f.callers <- tipstaff.CallerFrom(ctx)
	}
	return tipstaff.Run{ID: id, State: tipstaff.Completed, Status: "completed", Control: tipstaff.Controllable, OpenGates: []tipstaff.Gate{}}, f.err
}

func (f *fake) Gate(context.Context, tipstaff.ID, string) (tipstaff.Gate, error) {
	return tipstaff.Gate{ID: theGate, Kind: f.gate}, f.err
}

func (f *fake) Decide(_ context.Context, req tipstaff.DecideRequest) (tipstaff.Decided, error) {
	return f.decide(req)
}

func (f *fake) List(ctx context.Context, _ tipstaff.ListRequest) (tipstaff.RunPage, error) {
	return tipstaff.RunPage{}, f.err
}

// Events gives what the test sends, until that is closed.
func (f *fake) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		for req.Follow {
			select {
			case <-ctx.Done():
				return
			case e, ok := <-f.events:
				if !ok || !yield(e, nil) {
					return
				}
			}
		}
	}
}

func newServer(f *fake, change ...func(*Options)) *Server {
	o := Options{Control: tipstaff.Control{Runs: f, Now: time.Now}, Version: "1.2.3"}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

// connect is a client of a server in this process, as the local user.
func connect(t *testing.T, s *Server, revision string, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	local := tipstaff.WithCaller(t.Context(), s.o.local())
	if _, err := s.mcp.Connect(local, there, nil); err != nil {
		t.Fatal(err)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, o).Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// call is the answer of a tool.
func call(t *testing.T, c *mcp.ClientSession, name string, arguments any) *mcp.CallToolResult {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// errorOf is the error that a tool answers; its code is "" if it is none.
func errorOf(t *testing.T, res *mcp.CallToolResult) toolError {
	t.Helper()
	var reply errorReply
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &reply)
	}
	if err != nil {
		t.Fatal(err)
	}
	if res.IsError != (reply.Error.Code != "") {
		t.Errorf("isError is %v with %s", res.IsError, raw)
	}
	return reply.Error
}

// catalogue is all that a server offers.
func catalogue(t *testing.T, c *mcp.ClientSession) map[string]any {
	t.Helper()
	tools, err := c.ListTools(t.Context(), nil)
	must(t, err)
	resources, err := c.ListResources(t.Context(), nil)
	must(t, err)
	templates, err := c.ListResourceTemplates(t.Context(), nil)
	must(t, err)
	prompts, err := c.ListPrompts(t.Context(), nil)
	must(t, err)
	return map[string]any{"tools": tools.Tools, "resources": resources.Resources, "resource_templates": templates.ResourceTemplates, "prompts": prompts.Prompts}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The catalogue is what clients were told before: a change is seen.
func TestCatalogue(t *testing.T) {
	c := connect(t, newServer(nil), sessionless, nil)
	live, err := json.MarshalIndent(catalogue(t, c), "", " ")
	must(t, err)
	live = append(live, '\n')
	const file = "testdata/catalogue.json"
	if *update {
		must(t, os.WriteFile(file, live, 0o666))
	}
	stored, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Equal(stored, live) {
		t.Errorf("the catalogue differs from %s: if that is meant, go test -update, and read the difference", file)
	}
	if len(instructions) > 2048 {
		t.Errorf("the instructions have %d bytes", len(instructions))
	}
	if got := c.InitializeResult(); got.Instructions != instructions || got.ServerInfo.Name != "tipstaff" {
		t.Errorf("it says %+v", got.ServerInfo)
	}
	old := connect(t, newServer(nil), oldest, nil)
	again, err := json.MarshalIndent(catalogue(t, old), "", " ")
	must(t, err)
	if !bytes.Equal(append(again, '\n'), live) {
		t.Error("clients of another revision are told another catalogue")
	}
}

// hinted are the tools by the hints that they must have: readOnly, destructive, idempotent, openWorld.
var hinted = map[string][4]bool{
	"run_start": {false, true, false, true}, "run_resume": {false, true, false, true}, "run_cancel": {false, true, true, false},
	"run_status": {true, false, true, false}, "run_events_tail": {true, false, true, false}, "run_metrics": {true, false, true, false},
	"run_history": {true, false, true, false}, "run_watch": {true, false, true, false},
	"phase_handoff_decide": {false, true, true, false}, "delivery_decide": {false, true, true, false}, "gate_decide": {false, true, true, false},
	"run_evidence": {true, false, true, false}, "run_diagnose": {true, false, true, false}, "delivery_gate": {true, false, true, false},
	"run_verify": {true, false, true, false}, "run_diff": {true, false, true, false}, "pending_decisions": {true, false, true, false},
	"plan_validate": {true, false, true, false},
}

func TestToolsAreTyped(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		c := connect(t, newServer(nil, func(o *Options) { o.ReadOnly = readOnly }), sessionless, nil)
		listed, err := c.ListTools(t.Context(), nil)
		must(t, err)
		want := 18
		if readOnly {
			want = 12
		}
		if len(listed.Tools) != want {
			t.Errorf("read-only %v: there are %d tools", readOnly, len(listed.Tools))
		}
		for _, tool := range listed.Tools {
			a := tool.Annotations
			if a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil {
				t.Errorf("%s has no hints", tool.Name)
				continue
			}
			if got := [4]bool{a.ReadOnlyHint, *a.DestructiveHint, a.IdempotentHint, *a.OpenWorldHint}; got != hinted[tool.Name] || readOnly && !a.ReadOnlyHint {
				t.Errorf("%s has the hints %v", tool.Name, got)
			}
			in, out := schemaOf(t, tool.InputSchema), schemaOf(t, tool.OutputSchema)
			if tool.Title == "" || tool.Description == "" || in.AdditionalProperties == nil {
				t.Errorf("%s is not described, or takes anything", tool.Name)
			}
			for name, p := range in.Properties {
				if p.Description == "" {
					t.Errorf("%s does not say what %s is for", tool.Name, name)
				}
			}
			if out.Type != "object" || len(out.AnyOf) != 2 || out.AnyOf[1].Properties["error"] == nil {
				t.Errorf("%s does not say what it answers", tool.Name)
			}
		}
	}
}

func schemaOf(t *testing.T, v any) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(v)
	must(t, err)
	s := new(jsonschema.Schema)
	must(t, json.Unmarshal(raw, s))
	return s
}

// valid are arguments that each tool takes.
func valid(name string) map[string]any {
	switch name {
	case "run_start":
		return map[string]any{"program": "x"}
	case "run_history", "pending_decisions":
		return map[string]any{}
	case "plan_validate":
		return map[string]any{"program": "x"}
	case "gate_decide", "phase_handoff_decide", "delivery_decide":
		return map[string]any{"run_id": theRun, "gate_id": theGate, "action": "approve"}
	}
	return map[string]any{"run_id": theRun}
}

// What does not fit is refused before anything is asked of the Service, which would panic.
// Every error is one that the tool has announced.
func TestArgumentsThatDoNotFit(t *testing.T) {
	c := connect(t, newServer(nil), sessionless, nil)
	listed, err := c.ListTools(t.Context(), nil)
	must(t, err)
	for _, tool := range listed.Tools {
		out, err := schemaOf(t, tool.OutputSchema).Resolve(nil)
		must(t, err)
		refused := func(change string, arguments any) {
			t.Helper()
			res := call(t, c, tool.Name, arguments)
			if e := errorOf(t, res); e.Code != tipstaff.InvalidArgument {
				t.Errorf("%s with %s: %+v", tool.Name, change, e)
			}
			if err := out.Validate(res.StructuredContent); err != nil {
				t.Errorf("%s with %s: its error is not one that it announces: %v", tool.Name, change, err)
			}
		}
		with := func(name string, value any) map[string]any {
			all := valid(tool.Name)
			all[name] = value
			return all
		}
		refused("an unknown argument", with("surprise", 1))
		in := schemaOf(t, tool.InputSchema)
		ids := 0
		for name, p := range in.Properties {
			if p.Pattern == idPattern {
				ids++
				for _, id := range []string{"", "..", "../x", strings.ToLower(theRun.String()), theRun.String()[:25], theRun.String() + "0"} {
					refused(fmt.Sprintf("%s %q", name, id), with(name, id))
				}
			}
			if p.Type == "object" {
				refused("a wrong type of "+name, with(name, "text"))
			} else if p.Type != "" {
				refused("a wrong type of "+name, with(name, map[string]any{"object": []int{1}}))
			}
			if p.Maximum != nil {
				refused("too little "+name, with(name, *p.Minimum-1))
				refused("too much "+name, with(name, *p.Maximum+1))
				refused("half of "+name, with(name, *p.Minimum+0.5))
			}
			if p.MaxLength != nil {
				refused("a long "+name, with(name, strings.Repeat("x", *p.MaxLength+1)))
			}
			if len(p.Enum) > 0 {
				refused("another "+name, with(name, "surprise"))
			}
		}
		if needs := slices.Contains(in.Required, "run_id"); needs && ids == 0 {
			t.Errorf("%s takes any id", tool.Name)
		} else if needs {
			refused("no arguments", map[string]any{})
		}
	}
}

// An error that nobody expected tells the client nothing of its text, and a huge one is cut.
func TestErrorsAreSmall(t *testing.T) {
	var log bytes.Buffer
	f := &fake{}
	c := connect(t, newServer(f, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Folders = []string{"/secret/place"}
	}), sessionless, nil)
	f.err = errors.New("the password is 12345")
	res := call(t, c, "run_status", valid("run_status"))
	if e := errorOf(t, res); e.Code != tipstaff.Internal || strings.Contains(textOf(res), "12345") || strings.Contains(e.Message, "12345") {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(log.String(), "12345") {
		t.Error("the log does not say what went wrong")
	}
	huge := tipstaff.Errorf(tipstaff.InvalidProgram, "/secret/place/p.yaml has %s", strings.Repeat("y", 1<<20)).WithCommand("tipstaff show")
	for i := range 10_000 {
		huge.Problems = append(huge.Problems, tipstaff.Problem{Code: "range", File: "/secret/place/p.yaml", Line: i, Message: strings.Repeat("z ", 500)})
	}
	f.err = huge
	res = call(t, c, "run_status", valid("run_status"))
	raw, err := json.Marshal(res)
	must(t, err)
	if e := errorOf(t, res); len(raw) > 8<<10 || e.Code != tipstaff.InvalidProgram || len(e.Problems) > 21 || e.Total != 10_000 || strings.Contains(string(raw), "secret") || strings.Contains(string(raw), "tipstaff show") {
		t.Errorf("%d bytes, %d problems of %d", len(raw), len(e.Problems), e.Total)
	}
	f.err = tipstaff.InspectOnlyControl(theRun, tipstaff.ForegroundRun, "run_resume")
	e := errorOf(t, call(t, c, "run_status", valid("run_status")))
	if e.Details["control_reason"] != tipstaff.ForegroundRun || e.Details["attempted"] != "run_resume" || len(e.Next) != 2 || e.Next[0].Kind != tipstaff.ReadyCall {
		t.Errorf("%+v", e)
	}
}

func textOf(res *mcp.CallToolResult) string {
	text, _ := res.Content[0].(*mcp.TextContent)
	return text.Text
}

// Without a workspace the server lists what it has, and every tool says what is missing.
func TestNoWorkspace(t *testing.T) {
	missing := tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "no workspace was named")
	c := connect(t, newServer(nil, func(o *Options) { o.Unresolved = missing }), oldest, nil)
	listed, err := c.ListTools(t.Context(), nil)
	must(t, err)
	for _, tool := range listed.Tools {
		if e := errorOf(t, call(t, c, tool.Name, valid(tool.Name))); e.Code != tipstaff.WorkspaceUnresolved {
			t.Errorf("%s: %+v", tool.Name, e)
		}
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "tipstaff://runs"}); err == nil || !strings.Contains(err.Error(), "no workspace") {
		t.Errorf("the list of runs: %v", err)
	}
	if res, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: docsURI}); err != nil || res.Contents[0].Text != gettingStarted {
		t.Errorf("the page: %v", err)
	}
}

// A person is asked for what a decision lacks, if the client can ask and nothing else is wrong.
func TestFeedbackIsAskedFor(t *testing.T) {
	for _, revision := range revisions {
		asked := 0
		answer := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"feedback": "shorter, please"}}
		asks := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			return answer, nil
		}}
		f := &fake{gate: tipstaff.Handoff, decide: func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
			if r.Feedback == "" {
				return tipstaff.Decided{}, tipstaff.Errorf(tipstaff.FeedbackRequired, "retry_feedback needs feedback")
			}
			return tipstaff.Decided{Raw: json.RawMessage(`{"feedback":` + fmt.Sprintf("%q", r.Feedback) + `}`)}, nil
		}}
		c := connect(t, newServer(f), revision, asks)
		res := call(t, c, "phase_handoff_decide", valid("phase_handoff_decide"))
		if e := errorOf(t, res); e.Code != "" || asked != 1 || !strings.Contains(textOf(res), "shorter, please") {
			t.Errorf("%s: asked %d times: %s", revision, asked, textOf(res))
		}
		answer = &mcp.ElicitResult{Action: "decline"}
		if e := errorOf(t, call(t, c, "phase_handoff_decide", valid("phase_handoff_decide"))); e.Code != tipstaff.FeedbackRequired || asked != 2 {
			t.Errorf("%s, declined: %+v", revision, e)
		}
		f.decide = func(tipstaff.DecideRequest) (tipstaff.Decided, error) {
			return tipstaff.Decided{}, tipstaff.Errorf(tipstaff.OwnRun, "it is its own")
		}
		if e := errorOf(t, call(t, c, "phase_handoff_decide", valid("phase_handoff_decide"))); e.Code != tipstaff.OwnRun || asked != 2 {
			t.Errorf("%s, of its own run: %+v, asked %d times", revision, e, asked)
		}
		f.decide = func(tipstaff.DecideRequest) (tipstaff.Decided, error) {
			return tipstaff.Decided{}, tipstaff.Errorf(tipstaff.FeedbackRequired, "it needs feedback")
		}
		if e := errorOf(t, call(t, connect(t, newServer(f), revision, nil), "phase_handoff_decide", valid("phase_handoff_decide"))); e.Code != tipstaff.FeedbackRequired {
			t.Errorf("%s, a client that cannot ask: %+v", revision, e)
		}
		f.decide = func(r tipstaff.DecideRequest) (tipstaff.Decided, error) {
			if r.Kind != tipstaff.Delivery {
				return tipstaff.Decided{}, tipstaff.Errorf(tipstaff.WrongGateKind, "it is not of kind %s", r.Kind)
			}
			return tipstaff.Decided{}, nil
		}
		if e := errorOf(t, call(t, c, "phase_handoff_decide", valid("phase_handoff_decide"))); e.Code != tipstaff.WrongGateKind {
			t.Errorf("%s, at a delivery: %+v", revision, e)
		}
	}
}

func TestTooManyWatches(t *testing.T) {
	s := newServer(&fake{})
	for range maxWatches {
		s.watches <- struct{}{}
	}
	c := connect(t, s, sessionless, nil)
	if e := errorOf(t, call(t, c, "run_watch", valid("run_watch"))); e.Code != tipstaff.TooManyWatchers || !e.Retryable {
		t.Errorf("%+v", e)
	}
	<-s.watches
	if e := errorOf(t, call(t, c, "run_watch", valid("run_watch"))); e.Code != "" {
		t.Errorf("with a place: %+v", e)
	}
}

// A follower is told of the last change, at most twice a second, and nothing is read for it.
func TestSubscription(t *testing.T) {
	for _, revision := range revisions {
		f := &fake{events: make(chan tipstaff.Event)}
		s := newServer(f)
		var mu sync.Mutex
		var told []time.Time
		updated := make(chan string, 100)
		c := connect(t, s, revision, &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			mu.Lock()
			told = append(told, time.Now())
			mu.Unlock()
			updated <- r.Params.URI
		}})
		uri := "tipstaff://runs/" + theRun.String()
		subscribe := func(uri string) error { return c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}) }
		if revision == oldest { // the library of newer clients does not hand on what becomes of it
			for _, bad := range []string{"tipstaff://nothing", "tipstaff://runs/x", uri + "/surprise", "file:///etc/passwd"} {
				if err := subscribe(bad); err == nil {
					t.Errorf("%s can be followed", bad)
				}
			}
			must(t, subscribe(docsURI))
		}
		must(t, subscribe(uri))
		if revision == oldest {
			must(t, subscribe(uri)) // which is one
		}
		for i := range 20 {
			f.events <- tipstaff.Event{Seq: int64(i + 1), Kind: tipstaff.KindPlanStep}
		}
		f.events <- tipstaff.Event{Kind: tipstaff.KindPlanStep} // nothing that was recorded
		if got := <-updated; got != uri {
			t.Errorf("told of %s", got)
		}
		f.events <- tipstaff.Event{Seq: 21, Kind: tipstaff.KindIntentAttest}
		<-updated
		mu.Lock()
		for i := 1; i < len(told); i++ {
			if apart := told[i].Sub(told[i-1]); apart < notifyEvery*9/10 {
				t.Errorf("%s: told again after %s", revision, apart)
			}
		}
		mu.Unlock()
		c.Close()
		for range 1000 { // it is noticed by another goroutine
			s.topics.Lock()
			left := len(s.topics.open)
			s.topics.Unlock()
			if left == 0 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		s.topics.Lock()
		if len(s.topics.open) != 0 {
			t.Errorf("%s: a session that was closed still follows", revision)
		}
		s.topics.Unlock()
	}
}

// toolNames is whatever looks like the name of a tool.
var toolNames = regexp.MustCompile(`\b(run|gate|phase|delivery|pending|plan)_[a-z_]+\b`)

// words are names of arguments and the like, which look so too.
var argumentNames = []string{"run_id", "gate_id", "plan_id"}

// unknownTools are the names in a text that no tool has.
func unknownTools(text string) (unknown []string, known int) {
	for _, name := range toolNames.FindAllString(text, -1) {
		if _, ok := hinted[name]; ok {
			known++
		} else if !slices.Contains(argumentNames, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown, known
}

func TestTextsNameToolsThatExist(t *testing.T) {
	if unknown, _ := unknownTools("call run_pause first"); len(unknown) != 1 {
		t.Error("a tool that does not exist is not found")
	}
	c := connect(t, newServer(nil), sessionless, nil)
	texts := []string{instructions, gettingStarted}
	prompts, err := c.ListPrompts(t.Context(), nil)
	must(t, err)
	for _, p := range prompts.Prompts {
		given := map[string]string{}
		for _, a := range p.Arguments {
			given[a.Name] = theRun.String()
		}
		res, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: p.Name, Arguments: given})
		must(t, err)
		text := res.Messages[0].Content.(*mcp.TextContent).Text
		if len(given) > 0 && !strings.Contains(text, theRun.String()) {
			t.Errorf("%s does not say what it is about: %s", p.Name, text)
		}
		texts = append(texts, text)
		for name := range given {
			if _, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: p.Name}); err == nil {
				t.Errorf("%s does without %s", p.Name, name)
			}
		}
	}
	if len(prompts.Prompts) != 5 {
		t.Errorf("there are %d prompts", len(prompts.Prompts))
	}
	for _, text := range texts {
		unknown, known := unknownTools(text)
		if len(unknown) > 0 || known == 0 {
			t.Errorf("it names %d tools, and %v, in: %s", known, unknown, text)
		}
	}
	for name := range hinted {
		if !strings.Contains(instructions, name) {
			t.Errorf("the instructions do not say what %s is for", name)
		}
	}
}

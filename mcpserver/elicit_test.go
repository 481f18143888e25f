package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

// asker is a Service with a run that waits at gates, until they are decided.
type asker struct {
	fake
	gates   []tipstaff.Gate
	decided []tipstaff.DecideRequest
	callers []tipstaff.Caller
	refuse  error
}

func (a *asker) Get(_ context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	run := tipstaff.Run{ID: id, State: tipstaff.Executing, Status: tipstaff.StatusAwaitingDecision, Condition: tipstaff.Waiting, Control: tipstaff.Controllable,
		OpenGates: slices.Clone(a.gates), LastDrive: &tipstaff.LastDrive{Kind: tipstaff.KindRunParked}}
	if len(a.gates) == 0 {
		run.Status = tipstaff.StatusAwaitingResume
	}
	return run, nil
}

func (a *asker) Decide(ctx context.Context, req tipstaff.DecideRequest) (tipstaff.Decided, error) {
	a.decided, a.callers = append(a.decided, req), append(a.callers, tipstaff.CallerFrom(ctx))
	if a.refuse != nil {
		return tipstaff.Decided{}, a.refuse
	}
	a.gates = slices.DeleteFunc(a.gates, func(g tipstaff.Gate) bool { return g.ID.String() == req.Gate })
	return tipstaff.Decided{Raw: json.RawMessage(`{}`)}, nil
}

func gateOfKind(kind tipstaff.GateKind, actions ...string) tipstaff.Gate {
	return tipstaff.Gate{ID: theGate, Kind: kind, Key: "root/ok", Path: "root/ok", Question: "Shall it?", Digest: "sha256:5", Actions: actions,
		Subject: json.RawMessage(`{"number":21}`)}
}

// elicited is a watch by a client whose person answers so.
type elicited struct {
	*asker
	forms []*mcp.ElicitParams
	watch func() *mcp.CallToolResult
}

func elicit(t *testing.T, revision string, a *asker, answer func(*mcp.ElicitParams) (*mcp.ElicitResult, error), change ...func(*Options)) *elicited {
	e := &elicited{asker: a}
	o := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		e.forms = append(e.forms, req.Params)
		return answer(req.Params)
	}}
	change = append([]func(*Options){func(o *Options) {
		o.Control.Runs = a
		o.Control.Elicits = func(k tipstaff.GateKind) bool { return k != tipstaff.Delivery }
	}}, change...)
	c := connect(t, newServer(nil, change...), revision, o)
	e.watch = func() *mcp.CallToolResult { return call(t, c, "run_watch", map[string]any{"run_id": theRun}) }
	return e
}

func accepting(content map[string]any) func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

// A watch that comes to a gate puts it to the person, whom the client may not decide for, and
// says where the run stands with their answer.
func TestGatesArePutToThePerson(t *testing.T) {
	for _, revision := range revisions {
		a := &asker{gates: []tipstaff.Gate{gateOfKind(tipstaff.Question, "approve", "fix")}}
		e := elicit(t, revision, a, accepting(map[string]any{"action": "fix", "feedback": "shorter", "note": "too long"}))
		got := textOf(e.watch())
		if len(e.forms) != 1 || len(a.decided) != 1 {
			t.Fatalf("%s: %d forms, decided %+v: %s", revision, len(e.forms), a.decided, got)
		}
		for _, want := range []string{"Shall it?", theRun.String(), "number", "21", "sha256:5"} {
			if !strings.Contains(e.forms[0].Message, want) {
				t.Errorf("%s: the form does not say %s:\n%s", revision, want, e.forms[0].Message)
			}
		}
		d := a.decided[0]
		if d.Via != tipstaff.ViaElicitation || d.Gate != theGate.String() || d.Action != "fix" || d.Feedback != "shorter" || d.Note != "too long" || d.SubjectDigest != "sha256:5" || !a.callers[0].May(tipstaff.ScopeDecide) {
			t.Errorf("%s: decided %+v by %+v", revision, d, a.callers[0])
		}
		if !strings.Contains(got, tipstaff.WatchResume) || !strings.Contains(got, "run_resume") {
			t.Errorf("%s: it stands at %s", revision, got)
		}
	}
}

// Whoever does not answer leaves the gate open, and is not asked again.
func TestWhoDeclinesIsNotAskedAgain(t *testing.T) {
	for _, revision := range revisions {
		for name, answer := range map[string]func(*mcp.ElicitParams) (*mcp.ElicitResult, error){
			"declines": func(*mcp.ElicitParams) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "decline"}, nil },
			"cancels":  func(*mcp.ElicitParams) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "cancel"}, nil },
		} {
			e := elicit(t, revision, &asker{gates: []tipstaff.Gate{gateOfKind(tipstaff.Question, "approve")}}, answer)
			for range 2 {
				if got := textOf(e.watch()); !strings.Contains(got, tipstaff.PersonCall) {
					t.Errorf("%s, %s: %s", revision, name, got)
				}
			}
			if len(e.forms) != 1 || len(e.decided) != 0 {
				t.Errorf("%s, %s: asked %d times, decided %+v", revision, name, len(e.forms), e.decided)
			}
		}
	}
}

// A client of the older protocol that shows no form after all, or answers what was not offered,
// has not answered: the watch goes on without.
func TestAFormWithoutAnAnswer(t *testing.T) {
	for name, answer := range map[string]func(*mcp.ElicitParams) (*mcp.ElicitResult, error){
		"an error": func(*mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return nil, &jsonrpc.Error{Code: -32601, Message: "no forms here"}
		},
		"not offered": accepting(map[string]any{"action": "destroy"}),
	} {
		e := elicit(t, oldest, &asker{gates: []tipstaff.Gate{gateOfKind(tipstaff.Question, "approve")}}, answer)
		if res := e.watch(); res.IsError || len(e.decided) != 0 || !strings.Contains(textOf(res), tipstaff.PersonCall) {
			t.Errorf("%s: decided %+v, %s", name, e.decided, textOf(res))
		}
	}
}

// What a person has said and does not count is an error with the gate still open, and they can
// say it again: another has decided, or feedback is missing.
func TestAnswersThatDoNotCount(t *testing.T) {
	for _, revision := range revisions {
		a := &asker{gates: []tipstaff.Gate{gateOfKind(tipstaff.Question, "approve")}, refuse: tipstaff.Errorf(tipstaff.DecisionConflict, "it was already decided: deny, via command")}
		e := elicit(t, revision, a, accepting(map[string]any{"action": "approve"}))
		if err := errorOf(t, e.watch()); err.Code != tipstaff.DecisionConflict {
			t.Errorf("%s: %+v", revision, err)
		}
		a.refuse = nil
		if e.watch(); len(e.forms) != 2 || len(a.decided) != 2 {
			t.Errorf("%s: asked %d times", revision, len(e.forms))
		}
	}
}

// Not every gate is put, and not to everybody.
func TestGatesThatAreNotPut(t *testing.T) {
	never := func(*mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, fmt.Errorf("it is asked") }
	of := func(kind tipstaff.GateKind) *asker {
		return &asker{gates: []tipstaff.Gate{gateOfKind(kind, "approve")}}
	}
	for _, revision := range revisions {
		for name, e := range map[string]*elicited{
			"of a kind that does not count": elicit(t, revision, of(tipstaff.Delivery), never),
			"switched off":                  elicit(t, revision, of(tipstaff.Question), never, func(o *Options) { o.Control.Elicits = func(tipstaff.GateKind) bool { return false } }),
			"nobody says what counts":       elicit(t, revision, of(tipstaff.Question), never, func(o *Options) { o.Control.Elicits = nil }),
		} {
			if res := e.watch(); res.IsError || len(e.forms) != 0 {
				t.Errorf("%s, %s: asked %d times, %s", revision, name, len(e.forms), textOf(res))
			}
		}
	}
}

// An answer that nobody has asked for closes nothing.
func TestAnswersThatNobodyHasAskedFor(t *testing.T) {
	a := &asker{gates: []tipstaff.Gate{gateOfKind(tipstaff.Question, "approve")}}
	c := connect(t, newServer(nil, func(o *Options) {
		o.Control.Runs, o.Control.Elicits = a, func(tipstaff.GateKind) bool { return true }
	}), sessionless, nil)
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_watch", Arguments: map[string]any{"run_id": theRun},
		InputResponses: mcp.InputResponseMap{gateInput + theGate.String(): &mcp.ElicitResult{Action: "accept", Content: map[string]any{"action": "approve"}}}})
	must(t, err)
	if e := errorOf(t, res); e.Code != tipstaff.InvalidArgument || len(a.decided) != 0 {
		t.Errorf("decided %+v, %+v", a.decided, e)
	}
}

// Values come as the gate takes them: the answers to questions by their names and types, text
// or JSON else.
func TestAnswersOfForms(t *testing.T) {
	questions := gateOfKind(tipstaff.Clarification, "answer", "deny")
	questions.Subject = json.RawMessage(`{"questions":[{"id":"size","prompt":"How large?","type":"number"},{"id":"colour","prompt":"Which?","type":"choice","options":["red","blue"]},{"id":"why","prompt":"Why?","type":"text"}]}`)
	for name, c := range map[string]struct {
		gate    tipstaff.Gate
		content map[string]any
		want    string
	}{
		"questions": {questions, map[string]any{"action": "answer", "answer_1": 3, "answer_2": "red", "answer_3": ""}, `{"colour":"red","size":3}`},
		"text":      {gateOfKind(tipstaff.Question, "answer"), map[string]any{"action": "answer", "answer": "as it is"}, `"as it is"`},
		"JSON":      {gateOfKind(tipstaff.Bound, "extend", "stop"), map[string]any{"action": "extend", "answer": `{"tool_calls":5}`}, `{"tool_calls":5}`},
		"not taken": {gateOfKind(tipstaff.Bound, "extend", "stop"), map[string]any{"action": "stop", "answer": "5"}, ``},
	} {
		for _, revision := range revisions {
			e := elicit(t, revision, &asker{gates: []tipstaff.Gate{c.gate}}, accepting(c.content))
			if e.watch(); len(e.decided) != 1 || string(e.decided[0].Answer) != c.want {
				t.Errorf("%s, %s: decided %+v", revision, name, e.decided)
			}
		}
	}
}

// Files that are obeyed are put as a question of their own, where the action that changes them
// can be chosen: their names cannot look like anything else.
func TestWhatIsObeyedIsPutByItself(t *testing.T) {
	asks := []tipstaff.ObeyedFile{{Path: "tipstaff.yaml", Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks}, {Path: "a\nb/.git\x1b[2K", Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks},
		{Path: "ci.yml", Kind: tipstaff.ObeyedElsewhere}}
	blocked := []tipstaff.BlockedAction{{Action: tipstaff.DeliverApply, Code: tipstaff.BlockDirty}}
	agreed := string(tipstaff.AcceptObeyed())
	for name, c := range map[string]struct {
		subject tipstaff.DeliverySubject
		now     *tipstaff.DeliveryNow
		actions []string
		content map[string]any
		put     bool
		answer  string
	}{
		"agreed":           {tipstaff.DeliverySubject{Obeyed: asks}, nil, tipstaff.DeliveryActions, map[string]any{"action": "apply", "obeyed": true}, true, agreed},
		"not agreed":       {tipstaff.DeliverySubject{Obeyed: asks}, nil, tipstaff.DeliveryActions, map[string]any{"action": "apply", "obeyed": false}, true, ""},
		"nothing said":     {tipstaff.DeliverySubject{Obeyed: asks}, nil, tipstaff.DeliveryActions, map[string]any{"action": "apply"}, true, ""},
		"a branch":         {tipstaff.DeliverySubject{Obeyed: asks}, nil, tipstaff.DeliveryActions, map[string]any{"action": "approve", "obeyed": true}, true, ""},
		"blocked":          {tipstaff.DeliverySubject{Obeyed: asks, Blocked: blocked}, nil, tipstaff.DeliveryActions, map[string]any{"action": "approve"}, false, ""},
		"blocked by now":   {tipstaff.DeliverySubject{Obeyed: asks}, &tipstaff.DeliveryNow{Blocked: blocked}, tipstaff.DeliveryActions, map[string]any{"action": "approve"}, false, ""},
		"not offered":      {tipstaff.DeliverySubject{Obeyed: asks}, nil, []string{"approve", "skip"}, map[string]any{"action": "approve"}, false, ""},
		"nothing is asked": {tipstaff.DeliverySubject{Obeyed: asks[2:]}, nil, tipstaff.DeliveryActions, map[string]any{"action": "apply", "obeyed": true}, false, ""},
	} {
		for _, revision := range revisions {
			c.subject.Tree = "t"
			g := gateOfKind(tipstaff.Delivery, c.actions...)
			g.Subject, _ = json.Marshal(c.subject)
			g.Now = c.now
			e := elicit(t, revision, &asker{gates: []tipstaff.Gate{g}}, accepting(c.content), func(o *Options) {
				o.Control.Elicits = func(tipstaff.GateKind) bool { return true }
			})
			got := textOf(e.watch())
			if len(e.forms) != 1 || len(e.decided) != 1 || e.decided[0].Action != c.content["action"] || string(e.decided[0].Answer) != c.answer {
				t.Errorf("%s, %s: %d forms, decided %+v: %s", revision, name, len(e.forms), e.decided, got)
				continue
			}
			form, err := json.Marshal(e.forms[0].RequestedSchema)
			must(t, err)
			if strings.Contains(string(form), `"obeyed"`) != c.put {
				t.Errorf("%s, %s: the form is %s", revision, name, form)
			}
			if c.put && (!strings.Contains(string(form), `needed by apply, which changes what runs and programs obey: tipstaff.yaml, \"a\\nb/.git\\x1b[2K\""`) || strings.Contains(string(form), "ci.yml")) {
				t.Errorf("%s, %s: the form is %s", revision, name, form)
			}
			if strings.ContainsRune(e.forms[0].Message, '\x1b') || strings.Contains(e.forms[0].Message, "a\nb") {
				t.Errorf("%s, %s: it says\n%s", revision, name, e.forms[0].Message)
			}
		}
	}
}

// The client on standard input and output may do what it was started for, and no more.
func TestScopesOfStdio(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"usual":     {Options{}, "read run submit"},
		"decides":   {Options{Decide: true}, "read run submit decide"},
		"read only": {Options{ReadOnly: true}, "read"},
	} {
		if got := c.o.local(); strings.Join(got.Scopes, " ") != c.want || got.Trusted() || got.May(tipstaff.ScopeAdmin) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The text of an error says all that its structure says, within its limit: a model sees nothing else.
func TestErrorsInWords(t *testing.T) {
	e := tipstaff.Errorf(tipstaff.InvalidProgram, "bad.yaml cannot be run: 200 problems").WithHint("mend it")
	e.Run = theRun
	for n := range 200 {
		e.Problems = append(e.Problems, tipstaff.Problem{Code: "field_unknown", File: "bad.yaml", Line: n + 1, Column: 7, Message: "surprise is not known"})
	}
	f := &fake{err: e}
	text := textOf(call(t, connect(t, newServer(f), sessionless, nil), "run_status", valid("run_status")))
	for _, want := range []string{"bad.yaml cannot be run", "code: invalid_program", "bad.yaml:1:7: field_unknown: surprise", "more problems", "hint: mend it"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(text) > mostErrorText {
		t.Errorf("it has %d bytes", len(text))
	}
	f.err = &tipstaff.Error{Code: tipstaff.RunEnded, Message: "it has ended", Run: theRun}
	if text := textOf(call(t, connect(t, newServer(f), sessionless, nil), "run_status", valid("run_status"))); !strings.Contains(text, `next: run_status {"run_id":"`+theRun.String()+`"}`) {
		t.Errorf("next is not in\n%s", text)
	}
}

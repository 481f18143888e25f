package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

func TestWithoutRulesEveryCallAsks(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/df", "read"), aTool("ops/rm", "once", "closed")}}
	cfg := configured(box, call("ops__df", `{}`, "ops__rm", `{"n":2}`), say("Done."))
	cfg.Policy, cfg.Principal = nil, "user:ada"
	var asked []agent.ToolCallRequest
	cfg.Approver = approve(func(_ context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
		asked = append(asked, r)
		return agent.Allow, nil
	})
	events := run(t, cfg, nil)
	if !slices.Equal(box.called(), []string{"df", "rm"}) || endOf(events) != "" {
		t.Errorf("called %v%s", box.called(), listed(events))
	}
	rm := asked[1]
	if rm.Rule != policy.NoMatch || rm.Effect != flow.Once || !rm.Destructive || rm.OpenWorld || !rm.Untrusted ||
		string(rm.Arguments) != `{"n":2}` || rm.Index != 2 || rm.ID == "" {
		t.Errorf("the approver was shown %+v", rm)
	}
	if asked[0].Untrusted {
		t.Error("nothing untrusted had been read when the first call was asked about")
	}
	for i, d := range bodies[*agent.ApprovalDecided](events) {
		req := bodies[*agent.ApprovalRequested](events)[i]
		if d.By != "user:ada" || d.Decision != "allow" || d.Gate != req.Gate || d.Rule != policy.NoMatch || d.PolicyDigest == "" {
			t.Errorf("decided %+v, requested %+v", d, req)
		}
	}
}

// Calls that are made together open their gates in any order; one that is refused
// opens none, and one that is allowed may take long.
func TestApproversAreAskedInTheOrderOfTheCalls(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read"), aTool("ops/b", "read"), aTool("ops/c", "read"), aTool("ops/slow", "read")}}
			slow := make(chan struct{})
			box.acts = map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){
				"slow": func(context.Context, agent.ToolCall) (agent.ToolResult, error) { <-slow; return said("late"), nil },
			}
			cfg := configured(box, call("ops__a", `{}`, "ops__slow", `{}`, "ops__b", `{}`, "ops__c", `{}`), say("Done."))
			cfg.Policy = rules("ops/slow allow")
			var asked []string
			asking := 0
			cfg.Approver = approve(func(_ context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
				asking++
				defer func() { asking-- }()
				if asking > 1 {
					t.Error("two were asked about at once")
				}
				if asked = append(asked, r.Tool); r.Tool == "c" {
					close(slow)
				}
				return agent.Allow, nil
			})
			events := run(t, cfg, nil)
			if !slices.Equal(asked, []string{"a", "b", "c"}) || !slices.Equal(classesOf(events), []string{"", "", "", ""}) {
				t.Errorf("asked about %v%s", asked, listed(events))
			}
		})
	}
}

func TestARefusedCallHoldsNoQuestionUp(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read"), aTool("ops/b", "read")}}
	cfg := configured(box, call("ops__nothing", `{}`, "ops__a", `{"n":"x"}`, "ops__b", `{}`), say("Done."))
	cfg.Policy, cfg.Approver = nil, allow
	events := run(t, cfg, nil)
	if want := []string{tool.CodeUnknown, tool.CodeInvalidArguments, ""}; !slices.Equal(classesOf(events), want) {
		t.Errorf("results %q, want %q", classesOf(events), want)
	}
}

func TestAllowAllStopsAsking(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once")}}
	cfg := configured(box, call("ops__a", `{"n":1}`), call("ops__a", `{"n":2}`), say("Done."))
	asked := 0
	cfg.Policy, cfg.Approver = nil, approve(func(context.Context, agent.ToolCallRequest) (agent.Decision, error) {
		asked++
		return agent.AllowAll, nil
	})
	events := run(t, cfg, nil)
	decided := bodies[*agent.ApprovalDecided](events)
	if asked != 1 || len(decided) != 2 || decided[0].Decision != "allow_all" || decided[1].By != agent.ByGrant {
		t.Errorf("asked %d times%s", asked, listed(events))
	}
}

func TestADeniedCallIsNotMade(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read")}}
	cfg := configured(box, call("ops__a", `{}`), say("So be it."))
	cfg.Policy, cfg.Approver = nil, approve(func(context.Context, agent.ToolCallRequest) (agent.Decision, error) { return agent.Deny, nil })
	events := run(t, cfg, nil)
	if !slices.Equal(classesOf(events), []string{agent.ClassApprovalDenied}) || len(box.called()) > 0 || endOf(events) != "" {
		t.Errorf("%s", listed(events))
	}
}

func TestAnApproverThatFailsEndsTheTurn(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once"), aTool("ops/b", "once")}}
	cfg := configured(box, call("ops__a", `{}`, "ops__b", `{}`), say("Not reached."))
	cfg.Policy, cfg.Approver = nil, never
	sess := &agent.Session{}
	events := run(t, cfg, sess)
	if want := []string{agent.ClassNotExecuted, agent.ClassNotExecuted}; !slices.Equal(classesOf(events), want) || endOf(events) != agent.CodeApproverFailed {
		t.Errorf("%s", listed(events))
	}
	if len(box.called()) > 0 || len(sess.Messages) != 4 {
		t.Errorf("called %v, and the session is %+v", box.called(), sess.Messages)
	}
}

func TestAGateThatNobodyAnswersExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read")}}
		cfg := configured(box, call("ops__a", `{}`), say("So be it."))
		cfg.Policy, cfg.ApprovalExpiry = nil, time.Hour
		var cause error
		cfg.Approver = approve(func(ctx context.Context, _ agent.ToolCallRequest) (agent.Decision, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return agent.Deny, cause
		})
		events := run(t, cfg, nil)
		var elsewhere *tipstaff.AnsweredElsewhere
		if !errors.As(cause, &elsewhere) || elsewhere.By != "system:expiry" || elsewhere.Action != "deny" {
			t.Errorf("the approver was told %v", cause)
		}
		if d := bodies[*agent.ApprovalDecided](events); len(d) != 1 || d[0].By != "system:expiry" {
			t.Errorf("decided %+v", d)
		}
		if !slices.Equal(classesOf(events), []string{agent.ClassApprovalDenied}) || endOf(events) != "" {
			t.Errorf("%s", listed(events))
		}
	})
}

// lost is a tool that was told to do something once, and never said whether it did.
func lost(ctx context.Context, _ agent.ToolCall) (agent.ToolResult, error) {
	<-ctx.Done()
	return agent.ToolResult{}, ctx.Err()
}

func TestOtherGates(t *testing.T) {
	for _, c := range []struct {
		name    string
		gates   func(context.Context, tipstaff.Gate) (tipstaff.Choice, error)
		classes []string
		end     string
	}{
		{"nobody answers", nil, []string{agent.ClassInDoubt}, flow.CodeInDoubt},
		{"somebody knows", func(_ context.Context, g tipstaff.Gate) (tipstaff.Choice, error) {
			if g.Kind != tipstaff.InDoubt || g.Path != "turn/tool#1.1" || g.OpenedAt.IsZero() {
				t.Errorf("the gate is %+v", g)
			}
			return tipstaff.Choice{Action: "use_result", Answer: json.RawMessage(`"It was done."`)}, nil
		}, []string{""}, ""},
		{"whoever answers fails", func(context.Context, tipstaff.Gate) (tipstaff.Choice, error) {
			return tipstaff.Choice{}, errors.New("no idea")
		}, []string{agent.ClassInDoubt}, flow.CodeInDoubt},
		{"the answer is not offered", func(context.Context, tipstaff.Gate) (tipstaff.Choice, error) {
			return tipstaff.Choice{Action: "shrug"}, nil
		}, []string{agent.ClassInDoubt}, flow.CodeInDoubt},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once")},
					acts: map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){"a": lost}}
				cfg := configured(box, call("ops__a", `{}`), say("Done."))
				cfg.Gates = c.gates
				sess := &agent.Session{}
				events := run(t, cfg, sess)
				if !slices.Equal(classesOf(events), c.classes) || endOf(events) != c.end {
					t.Errorf("want %v, %q:%s", c.classes, c.end, listed(events))
				}
				if len(box.called()) != 1 {
					t.Errorf("called %v", box.called())
				}
			})
		})
	}
}

func TestALimitCanBeExtended(t *testing.T) {
	box := &toolbox{tools: []agent.Tool{aTool("ops/a", "read")}}
	cfg := configured(box, call("ops__a", `{}`), say("Done."))
	cfg.MaxSteps, cfg.OnLimit = 1, agent.OnLimitAsk
	events := run(t, cfg, nil)
	if endOf(events) != flow.CodeBoundExceeded || !slices.Equal(classesOf(events), []string{agent.ClassStepLimit}) {
		t.Errorf("without anybody to ask:%s", listed(events))
	}
	cfg.Gates = func(_ context.Context, g tipstaff.Gate) (tipstaff.Choice, error) {
		return tipstaff.Choice{Action: "extend", Answer: json.RawMessage("1")}, nil
	}
	events = run(t, cfg, nil)
	if endOf(events) != "" || !slices.Equal(box.called(), []string{"a"}) {
		t.Errorf("extended:%s", listed(events))
	}
}

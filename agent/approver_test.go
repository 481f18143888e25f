package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/policy/sqlguard"
)

// asked is a call as approvers are shown it.
func asked(effect flow.Class, destructive bool) agent.ToolCallRequest {
	return agent.ToolCallRequest{Server: "ops", Tool: "rm", URI: "mcp://ops/rm@1.0.0", Effect: effect, Destructive: destructive, OpenWorld: true,
		Arguments: json.RawMessage(`{"path":"/tmp/x"}`), ArgsDigest: "sha256:abc", Facts: json.RawMessage(`{}`), Rule: "ask-1"}
}

func deciding(d agent.Decision) approve {
	return func(context.Context, agent.ToolCallRequest) (agent.Decision, error) { return d, nil }
}

func TestAutoAllow(t *testing.T) {
	for _, c := range []struct {
		effect      flow.Class
		destructive bool
		want        agent.Decision
	}{
		{flow.Read, false, agent.Allow}, {flow.Read, true, agent.Allow},
		{flow.Idempotent, false, agent.Allow}, {flow.Idempotent, true, agent.Deny},
		{flow.Once, false, agent.Allow}, {flow.Once, true, agent.Deny},
		{"", false, agent.Deny}, // nobody knows what it does
	} {
		r := asked(c.effect, c.destructive)
		if got, err := (agent.AutoAllow{}).Approve(t.Context(), r); got != c.want || err != nil {
			t.Errorf("%s, destructive %v: %v, %v", c.effect, c.destructive, got, err)
		}
		want := c.want
		if want == agent.Deny {
			want = agent.AllowAll
		}
		if got, err := (agent.AutoAllow{Fallback: deciding(agent.AllowAll)}).Approve(t.Context(), r); got != want || err != nil {
			t.Errorf("%s, destructive %v, with a fallback: %v, %v", c.effect, c.destructive, got, err)
		}
	}
	if _, err := (agent.AutoAllow{Fallback: never}).Approve(t.Context(), asked(flow.Once, true)); err == nil {
		t.Error("that the fallback fails is not told")
	}
}

func TestFromPolicy(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		untrusted  bool
		ask        agent.Approver
		want       agent.Decision
	}{
		{"allowed", "ops/* allow", false, never, agent.Allow},
		{"denied", "ops/* deny", false, deciding(agent.Allow), agent.Deny},
		{"asked about", "ops/* ask", false, deciding(agent.AllowAll), agent.AllowAll},
		{"asked about, and nobody is there", "ops/* ask", false, nil, agent.Deny},
		{"no rule matches", "other/* allow", false, deciding(agent.Allow), agent.Allow},
		{"the arguments decide", `ops/* allow args.path == "/tmp/x"`, false, nil, agent.Allow},
		{"other arguments decide", `ops/* allow args.path == "/etc"`, false, nil, agent.Deny},
		{"the turn decides", "ops/* allow !turn.untrusted", false, nil, agent.Allow},
		{"an untrusted turn decides", "ops/* allow !turn.untrusted", true, nil, agent.Deny},
		{"what it may do decides", "ops/* allow tool.destructive && tool.open_world && tool.effect == 'once'", false, nil, agent.Allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := asked(flow.Once, true)
			r.Untrusted = c.untrusted
			got, err := (agent.FromPolicy{Policy: rules(c.rule), Ask: c.ask}).Approve(t.Context(), r)
			if got != c.want || err != nil {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if got, err := (agent.FromPolicy{Ask: deciding(agent.Allow)}).Approve(t.Context(), asked(flow.Read, false)); got != agent.Deny || err != nil {
		t.Errorf("without a policy: %v, %v", got, err)
	}
}

// A policy of its own brings its own guards.
func TestFromPolicyAsksItsGuards(t *testing.T) {
	p, problems := policy.New(policy.Document{
		Guards: []policy.GuardConfig{{ID: "sql", Use: policy.SQLGuard, Tool: "ops/*", Arg: "/sql", Dialect: "postgres", Single: true}},
		Rules: []policy.Rule{
			{ID: "reads", Tool: "ops/*", Do: policy.Allow, Effect: []flow.Class{flow.Read}, When: `facts.sql.access == "read"`},
		},
	}, sqlguard.Kind)
	if problems != nil {
		t.Fatal(problems)
	}
	for sql, want := range map[string]agent.Decision{
		"SELECT 1":           agent.Allow,
		"DELETE FROM t":      agent.Deny,
		"SELECT 1; SELECT 2": agent.Deny,
	} {
		r := asked(flow.Read, false)
		r.Arguments = flow.JSON(map[string]string{"sql": sql})
		if got, err := (agent.FromPolicy{Policy: p}).Approve(t.Context(), r); got != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", sql, got, err, want)
		}
	}
}

func TestInteractiveAnswers(t *testing.T) {
	for _, c := range []struct {
		name, typed string
		want        agent.Decision
		asks        int
	}{
		{"yes", "y\n", agent.Allow, 1},
		{"yes, with room around it", "  Y \r\n", agent.Allow, 1},
		{"no", "n\n", agent.Deny, 1},
		{"all", "a\n", agent.AllowAll, 1},
		{"garbage, then yes", "yes please\ny\n", agent.Allow, 2},
		{"garbage twice, then all", "\n?\na\n", agent.AllowAll, 3},
		{"garbage three times", "1\n2\n3\ny\n", agent.Deny, 3},
		{"nothing", "", agent.Deny, 1},
		{"a line without its end", "y", agent.Deny, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			i := &agent.Interactive{In: strings.NewReader(c.typed), Out: &out, TTY: true}
			got, err := i.Approve(t.Context(), asked(flow.Once, true))
			if got != c.want || err != nil || strings.Count(out.String(), "allow? ") != c.asks {
				t.Errorf("got %v, %v, want %v after %d questions:\n%s", got, err, c.want, c.asks, &out)
			}
		})
	}
}

func TestInteractiveWithoutATerminalDenies(t *testing.T) {
	var out bytes.Buffer
	i := &agent.Interactive{In: strings.NewReader("y\n"), Out: &out}
	if got, err := i.Approve(t.Context(), asked(flow.Read, false)); got != agent.Deny || err != nil || !strings.Contains(out.String(), "ops/rm is denied") {
		t.Errorf("got %v, %v:\n%s", got, err, &out)
	}
}

func TestInteractiveShowsTheCall(t *testing.T) {
	var out bytes.Buffer
	r := asked(flow.Once, true)
	r.Facts = json.RawMessage(`{"sql":{"access":"write"}}`)
	(&agent.Interactive{In: strings.NewReader("n\n"), Out: &out, TTY: true}).Approve(t.Context(), r)
	for _, want := range []string{"ops/rm", "mcp://ops/rm@1.0.0", "once, may destroy, open world", "ask-1", `{"sql":{"access":"write"}}`, "sha256:abc",
		"\n  arguments\n    path: \"/tmp/x\"\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not show %q:\n%s", want, &out)
		}
	}
}

// Nothing that a model or a tool says can act on the terminal.
func TestInteractiveNeutralisesForeignText(t *testing.T) {
	evil := "a\x1b[2J\u202eb\u200b\u0085\r\n\x00"
	var out bytes.Buffer
	r := agent.ToolCallRequest{Server: evil, Tool: evil, URI: evil, Effect: flow.Class(evil), Rule: evil, ArgsDigest: evil,
		Arguments: flow.JSON(map[string]string{evil: evil}), Facts: flow.JSON(map[string]string{evil: evil})}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&tipstaff.AnsweredElsewhere{By: evil, Action: evil})
	i := &agent.Interactive{In: strings.NewReader("y\n"), Out: &out, TTY: true}
	if got, err := i.Approve(ctx, r); got != agent.Deny || err == nil {
		t.Errorf("got %v, %v", got, err)
	}
	i.TTY = false
	i.Approve(t.Context(), r)
	for _, line := range strings.Split(out.String(), "\n") {
		for _, c := range line {
			if !unicode.IsPrint(c) {
				t.Errorf("%U is written as it is: %q", c, line)
			}
		}
	}
	if strings.Count(out.String(), `\u202e`) < 9 {
		t.Errorf("some of it is not shown at all:\n%s", &out)
	}
}

func TestInteractiveCutsLongArguments(t *testing.T) {
	var out bytes.Buffer
	r := asked(flow.Once, true)
	r.Arguments = flow.JSON(map[string]string{"text": strings.Repeat("é", 10_000)})
	(&agent.Interactive{In: strings.NewReader("n\n"), Out: &out, TTY: true}).Approve(t.Context(), r)
	if n := strings.Count(out.String(), "é"); n != 1024 || !strings.Contains(out.String(), "… 17952 bytes left out …\n") {
		t.Errorf("%d characters are shown:\n%s", n, &out)
	}
}

// A read that blocks cannot be taken back: whoever asked leaves, and the next
// question takes it over. What was typed in between answers nothing.
func TestInteractiveLeavesABlockedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, keyboard := io.Pipe()
		var out bytes.Buffer
		i := &agent.Interactive{In: in, Out: &out, TTY: true}
		for _, c := range []struct {
			cause error
			says  string
		}{
			{&tipstaff.AnsweredElsewhere{By: "user:bob", Action: "allow"}, "already answered by user:bob: allow"},
			{errors.New("enough"), "no longer asked"},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				synctest.Wait()
				cancel(c.cause)
			}()
			if got, err := i.Approve(ctx, asked(flow.Once, true)); got != agent.Deny || !errors.Is(err, c.cause) {
				t.Errorf("got %v, %v", got, err)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, &out)
			}
		}
		io.WriteString(keyboard, "y\n") // nobody asks
		synctest.Wait()
		go io.WriteString(keyboard, "n\n")
		if got, err := i.Approve(t.Context(), asked(flow.Once, true)); got != agent.Deny || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
		keyboard.Close()
		if got, err := i.Approve(t.Context(), asked(flow.Once, true)); got != agent.Deny || err != nil {
			t.Errorf("at the end of input: %v, %v", got, err)
		}
	})
}

// broken is a terminal that is gone.
type broken struct{ error }

func (b broken) Write([]byte) (int, error) { return 0, b.error }
func (b broken) Read([]byte) (int, error)  { return 0, b.error }

func TestInteractiveFailsWithItsTerminal(t *testing.T) {
	gone := broken{errors.New("gone")}
	for name, i := range map[string]*agent.Interactive{
		"it cannot be shown": {In: strings.NewReader("y\n"), Out: gone, TTY: true},
		"it cannot be typed": {In: gone, Out: io.Discard, TTY: true},
	} {
		if got, err := i.Approve(t.Context(), asked(flow.Read, false)); got != agent.Deny || !errors.Is(err, gone.error) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func approvalGate(subject string, actions ...string) tipstaff.Gate {
	return tipstaff.Gate{Kind: tipstaff.Approval, Key: "turn/tool#1.1/approval", Subject: json.RawMessage(subject), Actions: actions}
}

func TestRequestOf(t *testing.T) {
	r, err := agent.RequestOf(approvalGate(`{"uri":"mcp://ops/rm@1.0.0","class":"once","hints":{"destructive":false,"open_world":false},
		"args":{"n":1},"args_digest":"sha256:a","facts":{"sql":{}},"rule":"r"}`))
	if err != nil || r.Server != "ops" || r.Tool != "rm" || r.Effect != flow.Once || r.Destructive || r.OpenWorld || string(r.Arguments) != `{"n":1}` ||
		r.ArgsDigest != "sha256:a" || string(r.Facts) != `{"sql":{}}` || r.Rule != "r" || !r.Untrusted {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := agent.RequestOf(approvalGate(`{"uri":"mcp://ops/rm@1.0.0","class":"once"}`)); err != nil || !r.Destructive || !r.OpenWorld {
		t.Errorf("of a call of which little is known: %+v, %v", r, err)
	}
	other := approvalGate(`{"uri":"mcp://ops/rm@1.0.0"}`)
	other.Kind = tipstaff.Bound
	for name, g := range map[string]tipstaff.Gate{"another kind": other, "no JSON": approvalGate(`{`), "no URI": approvalGate(`{"uri":"rm"}`)} {
		if _, err := agent.RequestOf(g); err == nil {
			t.Errorf("%s was taken for a call", name)
		}
	}
}

func TestAsker(t *testing.T) {
	subject := `{"uri":"mcp://ops/rm@1.0.0","class":"once"}`
	for _, c := range []struct {
		name   string
		a      agent.Approver
		gate   tipstaff.Gate
		action string
		ok     bool
	}{
		{"allowed", deciding(agent.Allow), approvalGate(subject, "allow", "deny", "allow_all"), "allow", true},
		{"denied", deciding(agent.Deny), approvalGate(subject, "allow", "deny", "allow_all"), "deny", true},
		{"all allowed", deciding(agent.AllowAll), approvalGate(subject, "allow", "deny", "allow_all"), "allow_all", true},
		{"all allowed where one is asked about", deciding(agent.AllowAll), approvalGate(subject, "allow", "deny"), "allow", true},
		{"failed", never, approvalGate(subject, "allow", "deny"), "deny", false},
		{"another gate", deciding(agent.Allow), tipstaff.Gate{Kind: tipstaff.Question}, "", false},
	} {
		got, ok := agent.Asker(c.a, "auto")(t.Context(), c.gate)
		if ok != c.ok || got.Action != c.action || c.ok && got.Via != "auto" {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
}

package agent_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// line is a record of the log, by its fields.
type line map[string]any

// lines are what was logged.
func lines(t *testing.T, out *bytes.Buffer) []line {
	t.Helper()
	var list []line
	for d := json.NewDecoder(bytes.NewReader(out.Bytes())); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

func logger(out *bytes.Buffer) *slog.Logger { return slog.New(slog.NewJSONHandler(out, nil)) }

// outcomes are those of the lines.
func outcomes(list []line) []string {
	var all []string
	for _, l := range list {
		all = append(all, l["outcome"].(string))
	}
	return all
}

func TestOneLogRecordForEachCall(t *testing.T) {
	fails := func(err error) func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
		return func(context.Context, agent.ToolCall) (agent.ToolResult, error) { return agent.ToolResult{}, err }
	}
	for _, c := range []struct {
		name     string
		effect   string
		policy   string
		act      func(context.Context, agent.ToolCall) (agent.ToolResult, error)
		args     string
		decision string
		rule     string
		outcome  string
	}{
		{"done", "read", "*/* allow", nil, "", "allow", "allow-1", "ok"},
		{"approved", "once", "*/* ask", nil, "", "allow", "ask-1", "ok"},
		{"reported", "once", "*/* allow", func(context.Context, agent.ToolCall) (agent.ToolResult, error) {
			return agent.ToolResult{IsError: true, Content: said("SECRET").Content}, nil
		}, "", "allow", "allow-1", "tool_error"},
		{"denied by the policy", "read", "*/* deny", nil, "", "deny", "deny-1", "denied"},
		{"refused", "read", "*/* allow", nil, `{"n":"SECRET"}`, "", "", "refused"},
		{"unreachable", "once", "*/* allow", fails(errors.New("SECRET")), "", "allow", "allow-1", "unavailable"},
		{"late", "read", "*/* allow", lost, "", "allow", "allow-1", "timeout"},
		{"lost", "once", "*/* allow", lost, "", "allow", "allow-1", "in_doubt"},
		{"panicked", "once", "*/* allow", func(context.Context, agent.ToolCall) (agent.ToolResult, error) { panic("SECRET") },
			"", "allow", "allow-1", "panic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				box := &toolbox{tools: []agent.Tool{aTool("ops/a", c.effect)},
					acts: map[string]func(context.Context, agent.ToolCall) (agent.ToolResult, error){"a": c.act}}
				if c.act == nil {
					box.acts = nil
				}
				if c.args == "" {
					c.args = `{"n":1,"word":"SECRET"}`
				}
				cfg := configured(box, call("ops__a", c.args), say("Done."))
				cfg.Policy, cfg.Approver, cfg.Logger = rules(c.policy), allow, logger(&out)
				events := run(t, cfg, nil)
				list := lines(t, &out)
				if len(list) != 1 || strings.Contains(out.String(), "SECRET") {
					t.Fatalf("logged was\n%s%s", &out, listed(events))
				}
				l := list[0]
				want := []string{"args_hmac", "call_id", "decision", "effect", "latency_ms", "level", "msg", "outcome", "path", "result_bytes", "rule",
					"run", "server", "step", "time", "tool"}
				if got := slices.Sorted(maps.Keys(l)); !slices.Equal(got, want) {
					t.Errorf("fields %v, want %v", got, want)
				}
				result := bodies[*agent.ToolCallResult](events)[0]
				fields := line{"msg": "tool_call", "path": "turn/tool#1.1", "step": 1.0, "call_id": result.ID, "server": "ops", "tool": "a",
					"effect": c.effect, "decision": c.decision, "rule": c.rule, "outcome": c.outcome,
					"latency_ms": float64(result.DurationMS), "result_bytes": float64(result.Bytes)}
				for field, want := range fields {
					if l[field] != want {
						t.Errorf("%s is %v, want %v", field, l[field], want)
					}
				}
			})
		})
	}
}

func TestLogOfADenialAndACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		box := &toolbox{tools: []agent.Tool{aTool("ops/a", "once"), aTool("ops/b", "once")}}
		cfg := configured(box, call("ops__a", `{}`, "ops__b", `{}`), say("Not reached."))
		ctx, cancel := context.WithCancel(t.Context())
		cfg.Policy, cfg.Logger = nil, logger(&out)
		cfg.Approver = approve(func(ctx context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
			if r.Tool == "a" {
				return agent.Deny, nil
			}
			cancel()
			return agent.Deny, ctx.Err()
		})
		ch, err := agent.Run(ctx, cfg, nil, "Do it.")
		if err != nil {
			t.Fatal(err)
		}
		for range ch {
		}
		list := lines(t, &out)
		if got := outcomes(list); !slices.Equal(got, []string{"denied", "cancelled"}) {
			t.Fatalf("outcomes %v", got)
		}
		if list[0]["decision"] != "deny" || list[1]["decision"] != "deny" {
			t.Errorf("decisions %v, %v", list[0]["decision"], list[1]["decision"])
		}
	})
}

// logOf is a log of calls with this key, and what it has written.
func logOf(key string) (*agent.CallLog, *bytes.Buffer) {
	var out bytes.Buffer
	return agent.NewCallLog(logger(&out), []byte(key)), &out
}

const loggedPath = "turn/tool#1.1"

func request(args string) flow.Draft {
	return flow.Draft{Kind: "agent.tool_call_request", Path: loggedPath, N: 1, Body: flow.JSON(&agent.ToolCallRequest{
		Step: 1, Index: 1, ID: "c", Server: "ops", Tool: "a", Effect: flow.Once, Arguments: json.RawMessage(args), Facts: json.RawMessage("{}")})}
}

func result(class string) flow.Draft {
	return flow.Draft{Kind: "agent.tool_call_result", Path: loggedPath, N: 2, Body: flow.JSON(&agent.ToolCallResult{ID: "c", Class: class, IsError: class != ""})}
}

func TestArgumentsAreHashedWithTheKey(t *testing.T) {
	hash := func(key, args string) string {
		t.Helper()
		l, out := logOf(key)
		l.Appended("r", request(args))
		l.Appended("r", result(""))
		return lines(t, out)[0]["args_hmac"].(string)
	}
	mac := hmac.New(sha256.New, []byte("k"))
	mac.Write([]byte(`{"a":1,"b":[2,"é"]}`))
	want := hex.EncodeToString(mac.Sum(nil))[:32]
	if got := hash("k", `{"a":1,"b":[2,"é"]}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := hash("k", `{ "b": [2, "\u00e9"], "a": 1.0 }`); got != want {
		t.Errorf("the same arguments, written otherwise, give %s", got)
	}
	for name, other := range map[string]string{
		"another value":  hash("k", `{"a":2,"b":[2,"é"]}`),
		"another key":    hash("K", `{"a":1,"b":[2,"é"]}`),
		"another order":  hash("k", `{"a":1,"b":["é",2]}`),
		"a huge number":  hash("k", `{"a":9007199254740993}`),
		"the one before": hash("k", `{"a":9007199254740992}`),
	} {
		if other == want || name == "a huge number" && other == hash("k", `{"a":9007199254740992}`) {
			t.Errorf("%s gives the same", name)
		}
	}
}

func TestHashesCanBeComparedWithinAProcess(t *testing.T) {
	var hashes []any
	for range 2 {
		var out bytes.Buffer
		l := agent.NewCallLog(logger(&out), nil)
		l.Appended("r", request(`{"a":1}`))
		l.Appended("r", result(""))
		hashes = append(hashes, lines(t, &out)[0]["args_hmac"])
	}
	if hashes[0] != hashes[1] || len(hashes[0].(string)) != 32 {
		t.Errorf("%v", hashes)
	}
}

func TestDecisionsOfGatesInTheLog(t *testing.T) {
	gate := flow.Draft{Kind: "policy.gate", Path: loggedPath + "/approval", Body: json.RawMessage(`{"gate":"g","subject":{"rule":"ask-it"}}`)}
	taken := flow.Draft{Kind: "gate.taken", Path: loggedPath + "/approval", Body: json.RawMessage(`{"gate":"g"}`)}
	resolve := func(from, action string) flow.Draft {
		return flow.Draft{Kind: "policy.gate.resolve", Path: loggedPath + "/approval", From: from, Body: flow.JSON(map[string]string{"gate": "g", "action": action})}
	}
	for _, c := range []struct {
		name   string
		drafts []flow.Draft
		class  string
		want   string
	}{
		{"seen", []flow.Draft{gate, resolve("user", "allow_all"), taken}, "", "allow_all"},
		{"recorded by others, and followed", []flow.Draft{gate, taken}, "", "allow"},
		{"recorded by others, a denial", []flow.Draft{gate, taken}, agent.ClassApprovalDenied, "deny"},
		{"an expiry that came too late", []flow.Draft{gate, resolve("executor", "deny"), taken}, "", "allow"},
		{"none before the turn was over", []flow.Draft{gate, resolve("executor", "deny")}, agent.ClassNotExecuted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, out := logOf("k")
			for _, d := range append(append([]flow.Draft{request(`{}`)}, c.drafts...), result(c.class)) {
				l.Appended("r", d)
			}
			got := lines(t, out)[0]
			if got["decision"] != c.want || got["rule"] != "ask-it" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestResultsOfAnEarlierDriveAreNotLoggedAgain(t *testing.T) {
	l, out := logOf("k")
	l.Recorded("r", request(`{"a":1}`))
	l.Recorded("r", result(""))
	if out.Len() > 0 {
		t.Fatalf("logged was\n%s", out)
	}
	l.Recorded("r", request(`{"a":1}`))
	l.Appended("r", result(""))  // of what the earlier drive asked for
	l.Appended("r2", result("")) // of what nobody has told of
	l.Recorded("r3", request(`{"a":1}`))
	l.Forget("r3")
	l.Appended("r3", result(""))
	var servers []any
	for _, got := range lines(t, out) {
		servers = append(servers, got["server"])
	}
	if diff := cmp.Diff([]any{"ops", "", ""}, servers); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}

// A replay gives the same events, and no line of the log.
func TestAReplayLogsNothing(t *testing.T) {
	l, out := logOf("k")
	b := newBed(steps(call("ops__a", `{}`, "ops__b", `{}`), say("Done.")), aTool("ops/a", "read"), aTool("ops/b", "once"))
	b.jobs = func(j *flow.Job) { j.Appended = func(d flow.Draft) { l.Appended(j.Run, d) } }
	b.take(t) // and once more, over the records alone
	if got := outcomes(lines(t, out)); !slices.Equal(got, []string{"ok", "ok"}) {
		t.Errorf("outcomes %v", got)
	}
}

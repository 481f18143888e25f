package agent_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// settle answers every gate that opens at a path the same way, until the turn ends.
func settle(t *testing.T, b *bed, answers map[string]flow.Decision) {
	t.Helper()
	for range 20 {
		if out := b.take(t); out.Status.Terminal() {
			return
		}
		decided := false
		for _, r := range b.log.Records(theRun) {
			if d, ok := answers[r.Path]; ok && r.Kind == "policy.gate" {
				b.decide(t, r.Path, d)
				delete(answers, r.Path)
				decided = true
			}
		}
		if !decided {
			t.Fatalf("it waits for something that nobody answers%s", b.transcript())
		}
	}
	t.Fatal("it does not end")
}

func TestWithoutRulesEverythingIsAsked(t *testing.T) {
	b := newBed(steps(call("f__read", `{"n":1}`), say("Done.")), aTool("f/read", "read"))
	b.cfg.Policy = nil
	if out := b.take(t); out.Status != flow.ParkedRun || len(b.world.done()) != 0 {
		t.Fatalf("%s after %v", out.Status, b.world.done())
	}
	asked := of[*agent.ApprovalRequested](b)[0]
	if asked.Rule != "builtin/no-match" || asked.PolicyDigest == "" || !slices.Equal(asked.Actions, []string{"allow", "deny", "allow_all"}) || asked.ExpiresAt.IsZero() {
		t.Errorf("%+v", asked)
	}
	b.decide(t, "turn/tool#1.1/approval", flow.Decision{Action: "allow", By: "token:ann", Note: "go on"})
	b.take(t)
	got := of[*agent.ApprovalDecided](b)
	want := []*agent.ApprovalDecided{{ID: asked.ID, Decision: "allow", By: "token:ann", Rule: asked.Rule, PolicyDigest: asked.PolicyDigest, Gate: asked.Gate, Reason: "go on"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b.err != nil || b.world.input[0].By != asked.Gate {
		t.Errorf("%v, the call rests on %q and not on %q", b.err, b.world.input[0].By, asked.Gate)
	}
}

func TestAPersonSaysNo(t *testing.T) {
	b := newBed(steps(call("f__read", `{}`), say("I see.")), aTool("f/read", "read"))
	b.cfg.Policy = nil
	settle(t, b, map[string]flow.Decision{"turn/tool#1.1/approval": {Action: "deny", By: "token:ann", Note: "not today"}})
	r := of[*agent.ToolCallResult](b)[0]
	if r.Class != agent.ClassApprovalDenied || r.Content != "approval_denied: token:ann did not allow the call: not today" || len(b.world.done()) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestNobodySaysAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(steps(call("f__read", `{}`), say("I see.")), aTool("f/read", "read"))
		b.cfg.Policy, b.cfg.ApprovalExpiry = nil, time.Hour
		b.jobs = func(j *flow.Job) { j.Linger = -1 }
		b.take(t)
		r := of[*agent.ToolCallResult](b)[0]
		if r.Class != agent.ClassApprovalDenied || b.err != nil {
			t.Errorf("%+v %v", r, b.err)
		}
		if d := of[*agent.ApprovalDecided](b); len(d) != 1 || d[0].Decision != "deny" || d[0].By != "system:expiry" {
			t.Errorf("%+v", d)
		}
	})
}

// An allow_all holds for the rest of the turn, and for nothing but what was shown.
func TestGrants(t *testing.T) {
	tools := []agent.Tool{aTool("f/read", "read"), aTool("f/other", "read"), aTool("f/write", "once")}
	b := newBed(steps(
		call("f__read", `{"n":1}`), call("f__read", `{"n":2}`), call("f__other", `{}`), call("f__write", `{}`), say("Done."),
	), tools...)
	b.cfg.Policy = nil
	settle(t, b, map[string]flow.Decision{
		"turn/tool#1.1/approval": {Action: "allow_all"},
		"turn/tool#3.1/approval": {Action: "allow"},
		"turn/tool#4.1/approval": {Action: "deny"},
	})
	var by []string
	for _, d := range of[*agent.ApprovalDecided](b) {
		by = append(by, d.Decision+" by "+d.By)
	}
	if want := []string{"allow_all by local:cli", "allow by grant", "allow by local:cli", "deny by local:cli"}; !slices.Equal(by, want) {
		t.Errorf("decided %q, want %q", by, want)
	}
	decided := of[*agent.ApprovalDecided](b)
	if decided[1].Gate != decided[0].Gate || b.world.input[1].By != decided[0].Gate {
		t.Errorf("the grant rests on %q, the call on %q, the gate was %q", decided[1].Gate, b.world.input[1].By, decided[0].Gate)
	}
	// The next turn of the session asks again.
	next := newBed(steps(call("f__read", `{"n":1}`)), tools...)
	next.cfg.Policy, next.in.History = nil, b.out.Messages
	if out := next.take(t); out.Status != flow.ParkedRun {
		t.Errorf("the next turn ended %s: %v", out.Status, out.Err)
	}
}

func TestADenyRuleDeniesWhatWasGranted(t *testing.T) {
	b := newBed(steps(call("f__read", `{"n":1}`), call("f__read", `{"n":2}`), say("Done.")), aTool("f/read", "read"))
	b.cfg.Policy = rules("f/read ask", "f/read deny args.n==2")
	settle(t, b, map[string]flow.Decision{"turn/tool#1.1/approval": {Action: "allow_all"}})
	if want := []string{"", "policy_denied"}; !slices.Equal(b.classes(), want) {
		t.Errorf("results %q, want %q", b.classes(), want)
	}
}

// Gates of calls that are made together open together, and a grant counts from the
// next step, so that it does not matter which of them is answered first.
func TestGatesOfReadsOpenTogether(t *testing.T) {
	b := newBed(steps(call("f__read", `{"n":1}`, "f__read", `{"n":2}`), call("f__read", `{"n":3}`), say("Done.")), aTool("f/read", "read"))
	b.cfg.Policy = nil
	if b.take(t); len(of[*agent.ApprovalRequested](b)) != 2 {
		t.Fatalf("%d gates are open%s", len(of[*agent.ApprovalRequested](b)), b.transcript())
	}
	b.decide(t, "turn/tool#1.2/approval", flow.Decision{Action: "allow_all"})
	if out := b.take(t); out.Status != flow.ParkedRun {
		t.Fatalf("%s although one gate is open", out.Status)
	}
	b.decide(t, "turn/tool#1.1/approval", flow.Decision{Action: "deny"})
	b.take(t)
	if want := []string{"approval_denied", "", ""}; b.err != nil || !slices.Equal(b.classes(), want) {
		t.Errorf("%v, results %q", b.err, b.classes())
	}
}

// However many calls wait for people, they hold up none that does not.
func TestCallsThatWaitHoldUpNoOthers(t *testing.T) {
	b := newBed(steps(call("f__ask", `{"n":1}`, "f__ask", `{"n":2}`, "f__read", `{"n":3}`)), aTool("f/ask", "read"), aTool("f/read", "read"))
	b.cfg.Policy, b.cfg.ToolParallelism = rules("f/ask ask", "f/read allow"), 1
	b.take(t)
	if gates := len(of[*agent.ApprovalRequested](b)); gates != 2 || !slices.Equal(b.world.done(), []string{`f/read {"n":3}`}) {
		t.Errorf("%d gates are open, %v was done", gates, b.world.done())
	}
}

func TestCallsThatChangeAreAskedOneAfterTheOther(t *testing.T) {
	b := newBed(steps(call("f__write", `{"n":1}`, "f__write", `{"n":2}`), say("Done.")), aTool("f/write", "once"))
	b.cfg.Policy = nil
	if b.take(t); len(of[*agent.ApprovalRequested](b)) != 1 {
		t.Fatalf("%d gates are open", len(of[*agent.ApprovalRequested](b)))
	}
	b.decide(t, "turn/tool#1.1/approval", flow.Decision{Action: "allow_all"})
	if b.take(t); b.err != nil || len(b.world.done()) != 2 {
		t.Errorf("%v after %v", b.err, b.world.done())
	}
}

func TestAnApproverThatFails(t *testing.T) {
	for _, class := range []string{"read", "once"} {
		b := newBed(steps(call("f__a", `{"n":1}`, "f__a", `{"n":2}`)), aTool("f/a", class))
		b.cfg.Policy, b.cfg.ToolParallelism = nil, 1
		settle(t, b, map[string]flow.Decision{"turn/tool#1.1/approval": {Action: "deny", FailReason: agent.CodeApproverFailed, Note: "the terminal is gone"}})
		if want := []string{"not_executed", "not_executed"}; codeOf(b.err) != agent.CodeApproverFailed || !slices.Equal(b.classes(), want) || len(b.world.done()) != 0 {
			t.Errorf("%s: ended with %v, results %q, calls %v", class, b.err, b.classes(), b.world.done())
		}
	}
}

func TestWhatAPersonIsShown(t *testing.T) {
	b := newBed(steps(call("f__write", `{"n":1}`)), aTool("f/write", "once"))
	b.cfg.Policy = nil
	b.take(t)
	for _, r := range b.log.Records(theRun) {
		if r.Kind != "policy.gate" {
			continue
		}
		var gate struct {
			Subject struct {
				URI, Class string
				Args       json.RawMessage
				ArgsDigest string `json:"args_digest"`
			}
		}
		if err := json.Unmarshal(r.Body, &gate); err != nil {
			t.Fatal(err)
		}
		s := gate.Subject
		if s.URI != "mcp://f/write@1.0.0" || s.Class != "once" || string(s.Args) != `{"n":1}` || s.ArgsDigest != flow.Digest([]byte(`{"n":1}`)) {
			t.Errorf("%s", r.Body)
		}
	}
}

package page_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// asking is a pipeline that asks at once, with a bound that can be raised to three.
const asking = `
name: asking
max_iterations: 2
agents:
  - {name: first, default_next: ask, scripted: {repeat: last, answers: [{output: {done: true}}]}}
  - name: ask
    stage_order: 1
    scripted: {repeat: last, answers: [{control: {interrupt: {kind: confirmation, question: "Go on?"}}}]}
`

// A token that may start and drive runs cannot do by another way what only whoever decides
// may: neither over HTTP nor as an MCP client does it. With the right all of it is done, and
// above the ceiling nobody raises anything.
func TestNoWayAroundTheRightToDecide(t *testing.T) {
	b := newAPI(t)
	runs := map[string]string{}
	for _, user := range []string{"driver", "alice"} {
		runs[user] = b.start(user, asking)
		b.Rest(runs[user])
	}
	control := tipstaff.Control{Runs: b.Runner, Now: time.Now}
	for user, may := range map[string]bool{"driver": false, "alice": true} {
		run := runs[user]
		id, _ := tipstaff.ParseID(run)
		gate := b.Rest(run).OpenGates[0]
		caller := tipstaff.Caller{Surface: "mcp", User: user, Principal: "token:" + user, Scopes: scopesOf(user)}
		ctx := tipstaff.WithCaller(context.Background(), caller)
		head := b.Rest(run).HeadSeq
		try := func(what string, code string, want ...string) {
			t.Helper()
			if may && (len(want) == 0 && code == "" || len(want) > 0 && code == want[0]) || !may && code == "forbidden" {
				return
			}
			t.Errorf("%s by %s: %q", what, user, code)
		}
		http := func(path string, body object) string {
			a := b.do(user, "POST", "/runs/"+run+path, body)
			if a.status < 300 {
				return ""
			}
			return a.code(t)
		}
		errorOf := func(err error) string { return string(tipstaff.CodeOf(err)) }

		try("editing outputs", http("/fork", object{"edits": object{"outputs": object{"first": object{"done": false}}}}))
		try("editing metadata", http("/fork", object{"edits": object{"metadata": object{"k": 1}}}))
		try("raising a bound", http("/fork", object{"edits": object{"raise": object{"max_iterations": 2}}}))
		try("raising one above the ceiling", http("/fork", object{"edits": object{"raise": object{"max_iterations": 9}}}), "invalid_argument")
		_, err := control.Start(ctx, tipstaff.RunStart{ForkOf: id, Bounds: map[string]json.RawMessage{"max_iterations": json.RawMessage("9")}})
		try("raising one above the ceiling by MCP", errorOf(err), "invalid_argument")
		_, err = b.Runner.Rollback(ctx, tipstaff.RollbackRequest{Run: id, Place: tipstaff.Place{Stage: "nowhere"}})
		try("going back past the gate", errorOf(err), "checkpoint_not_found")
		_, err = control.DecideGate(ctx, tipstaff.GateDecision{Run: id, Gate: gate.ID, Action: "no such"})
		try("deciding by MCP", errorOf(err), "action_not_offered")
		try("answering in advance", func() string {
			a := b.do(user, "POST", "/messages", object{"prose": "x", "accept": "auto"})
			return a.code(t)
		}(), "forbidden") // by nobody: the policy of this workspace says so
		if now := b.Rest(run); now.HeadSeq != head {
			t.Errorf("%s has left records: %d, was %d", user, now.HeadSeq, head)
		}
		try("deciding", http("/gates/"+gate.ID.String()+"/decision", object{"action": "approve"}))
	}
}

func scopesOf(user string) []string {
	for _, c := range webtest.Callers {
		if c.User == user && c.Scopes != nil {
			return c.Scopes
		}
	}
	return tipstaff.DefaultScopes()
}

package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// copyPlan copies a note as a model might write it.
func copyPlan(to string) string {
	return `{"kind": "plan", "version": 1, "skill": "skill://notes@1.0.0", "intent": {"verb": "deliver", "objects": [{"name": "note", "value": "a copy"}]},
 "root": {"kind": "sequential", "children": [
  {"id": "read", "kind": "tool_call", "tool": "mcp://builtin/read_file@1.0.0", "args": {"path": "note.txt"}},
  {"id": "write", "kind": "tool_call", "tool": "mcp://builtin/write_file@1.0.0", "args": {"path": "` + to + `", "content": "${read.output.text}"}}]}}`
}

// A user has one message at a time, which nobody's going away ends; others, and runs that are
// submitted, do not wait for it. One that waits for an answer is no longer under way.
func TestMessages(t *testing.T) {
	asked, reply := make(chan string, 8), make(chan struct{})
	b := newAPI(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+"policy: {auto_accept: true}\n")
		b.Says = func(ctx context.Context, r agent.Request) (string, error) {
			asked <- r.Messages[len(r.Messages)-1].Text
			select {
			case <-reply:
			case <-ctx.Done():
			}
			return copyPlan("copy.txt"), nil
		}
	})
	message := func(user string, body object, with ...func(*http.Request)) answer {
		return b.do(user, "POST", "/messages", body, with...)
	}
	// The client of the first goes away while its run is under way.
	ctx, leave := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r := b.request("alice", "POST", "/messages", object{"prose": "Copy it"}, header("Idempotency-Key", "one"))
		if res, err := http.DefaultClient.Do(r.WithContext(ctx)); err == nil {
			res.Body.Close()
			t.Errorf("the first is answered %d", res.StatusCode)
		}
	}()
	<-asked
	leave()
	<-gone
	busy := message("alice", object{"prose": "Again"}) // which does not wait for the first: that has no end yet
	first, _ := busy.member(t, "error", "run").(string)
	if busy.status != 409 || busy.code(t) != "busy" || busy.header.Get("Retry-After") != "5" || first == "" {
		t.Fatalf("the second is answered %d: %s", busy.status, busy.body)
	}
	if run := b.get("alice", "/runs/"+first); run.member(t, "status") != "running" {
		t.Errorf("the first is %s", run.body)
	}
	// The same message again finds its run; its key with another body does not.
	if again := message("alice", object{"prose": "Copy it", "wait": 0}, header("Idempotency-Key", "one")); again.status != 202 || again.member(t, "run") != first || again.member(t, "condition") != "running" {
		t.Errorf("the same again is answered %d: %s", again.status, again.body)
	}
	if other := message("alice", object{"prose": "Another"}, header("Idempotency-Key", "one")); other.status != 409 || other.code(t) != "request_conflict" {
		t.Errorf("another with its key is answered %d: %s", other.status, other.body)
	}
	if still := message("alice", object{"prose": "Again"}); still.status != 409 || still.code(t) != "busy" {
		t.Errorf("another is answered %d: %s", still.status, still.body)
	}
	if bobs := message("bob", object{"prose": "Copy it", "wait": 0}); bobs.status != 202 {
		t.Errorf("bob's is answered %d: %s", bobs.status, bobs.body)
	}
	b.start("alice", webtest.Gated("a.txt"))
	close(reply)

	// It parks with its plan, which frees the flight; accepted, it comes to its end.
	parked := b.Rest(first)
	if len(parked.OpenGates) != 1 || parked.OpenGates[0].Kind != tipstaff.Confirmation {
		t.Fatalf("the first waits for %+v", parked.OpenGates)
	}
	second := message("alice", object{"prose": "Again", "wait": 30})
	if second.status != 202 || second.member(t, "condition") != "waiting" || len(second.member(t, "gates").([]any)) != 1 || second.member(t, "run") == first {
		t.Errorf("the second is answered %d: %s", second.status, second.body)
	}
	b.want(200, "alice", "POST", fmt.Sprintf("/runs/%s/gates/%s/decision", first, parked.OpenGates[0].ID), object{"action": "accept", "resume": true})
	if end := b.Rest(first); end.State != tipstaff.Completed {
		t.Errorf("the first ends %+v", end)
	}
	if text, err := os.ReadFile(filepath.Join(b.Dir, "copy.txt")); err != nil || string(text) != "hello" {
		t.Errorf("it has made %q, %v", text, err)
	}

	// Accepted in advance it is answered with its end, and the record says by whom.
	whole := message("alice", object{"prose": "All of it", "accept": "auto", "wait": 30})
	for _, name := range []string{"run", "state", "outcome", "outputs", "lifecycle", "duration_ms", "head"} {
		if whole.status != 200 || whole.member(t, name) == nil {
			t.Fatalf("it is answered %d without %s: %s", whole.status, name, whole.body)
		}
	}
	if whole.member(t, "state") != "completed" || whole.member(t, "outcome") != "success" {
		t.Errorf("it ends %s", whole.body)
	}
	var tail struct {
		Events []struct {
			Kind string
			Body json.RawMessage
		}
	}
	if err := json.Unmarshal(b.get("alice", "/runs/"+whole.member(t, "run").(string)+"/events?limit=1000&kinds=intent.accept").body, &tail); err != nil || len(tail.Events) != 1 {
		t.Fatalf("%+v, %v", tail, err)
	}
	var accept tipstaff.IntentAccept
	if err := json.Unmarshal(tail.Events[0].Body, &accept); err != nil || accept.Via != "accept: auto" || accept.OnBehalfOf != "token:alice" {
		t.Errorf("the acceptance is recorded as %s, %v", tail.Events[0].Body, err)
	}
	if a := message("reader", object{"prose": "a"}); a.status != 403 {
		t.Errorf("a reader is answered %d", a.status)
	}
}

package page_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// With one place runs go on in order, and those who wait say where they stand. A daemon that
// stops sends followers away and leaves its runs to be taken up; the next one does that, in
// order, and takes up no others.
func TestTheQueueAndTheNextDaemon(t *testing.T) {
	b := newAPI(t, func(b *webtest.Bed) {
		b.Places = 1
		b.Config = func(c *runner.Config) { c.Grace = 10 * time.Millisecond } // a call is to be broken off
	})
	parked := b.start("alice", webtest.Gated("parked.txt"))
	b.Rest(parked)
	first := b.start("alice", webtest.Slow("go"))
	var queued []string
	for i := range 3 {
		made := b.want(202, "alice", "POST", "/runs", object{"program": fmt.Sprintf(`{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: a, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo %d >> order"]}}]}}`, i)})
		if made.member(t, "position") != float64(i+1) || made.member(t, "status") != "queued" {
			t.Errorf("run %d is told %s", i, made.body)
		}
		queued = append(queued, made.member(t, "run").(string))
	}
	if h := b.get("", "/healthz"); h.member(t, "ok") != true || h.member(t, "in_flight") != 1.0 || h.member(t, "queued") != 3.0 {
		t.Errorf("the server is %s", h.body)
	}
	if r := b.get("", "/readyz"); r.status != 200 || r.member(t, "ready") != true {
		t.Errorf("the server is %d %s", r.status, r.body)
	}
	follower := b.stream("alice", first, "")
	events(t, follower.Body, func(e sse) bool { return e.event == "run.started" })

	b.Server.Quiesce()
	if _, err := io.Copy(io.Discard, follower.Body); err != nil { // the run it follows waits for a file that nobody has written
		t.Errorf("the follower is sent away with %v", err)
	}
	for _, path := range []string{"/runs", "/messages", "/runs/" + parked + "/resume"} {
		if a := b.do("alice", "POST", path, object{"prose": "a"}); a.status != 503 || a.code(t) != "shutting_down" {
			t.Errorf("%s is answered %d while the server goes down: %s", path, a.status, a.body)
		}
	}
	if r := b.get("", "/readyz"); r.status != 503 || r.member(t, "ready") != false {
		t.Errorf("the server is %d %s", r.status, r.body)
	}
	if h := b.get("", "/healthz"); h.status != 503 || h.member(t, "ok") != false {
		t.Errorf("the server is %d %s", h.status, h.body)
	}
	b.Close()
	b.Write("go", "")
	b.Open()
	for _, run := range append([]string{first}, queued...) {
		// The command that was broken off may or may not have happened: it is asked about.
		if got := b.Rest(run); run != first && got.State != "completed" || run == first && (got.State != "executing" || len(got.OpenGates) != 1 || got.OpenGates[0].Kind != "in_doubt") {
			t.Errorf("run %s ends %s with %+v", run, got.Status, got.OpenGates)
		}
	}
	if order, err := os.ReadFile(filepath.Join(b.Dir, "order")); string(order) != "0\n1\n2\n" {
		t.Errorf("they went on in the order %q, %v", order, err)
	}
	if got := b.get("alice", "/runs/"+parked); got.member(t, "status") != "awaiting_decision" {
		t.Errorf("what waits is %s", got.body)
	}
}

// An Idempotency-Key finds its run, of its user alone.
func TestAKeyFindsItsRun(t *testing.T) {
	b := newAPI(t)
	body := object{"program": webtest.Gated("a.txt"), "labels": object{"team": "red"}}
	first := b.want(202, "alice", "POST", "/runs", body, header("Idempotency-Key", "k"))
	again := b.want(202, "alice", "POST", "/runs", body, header("Idempotency-Key", "k"))
	if again.member(t, "run") != first.member(t, "run") || again.member(t, "replayed") != true {
		t.Errorf("again it is %s, first %s", again.body, first.body)
	}
	if other := b.want(409, "alice", "POST", "/runs", object{"program": webtest.Gated("b.txt")}, header("Idempotency-Key", "k")); other.code(t) != "request_conflict" {
		t.Errorf("another body is told %s", other.body)
	}
	if bobs := b.want(202, "bob", "POST", "/runs", body, header("Idempotency-Key", "k")); bobs.member(t, "run") == first.member(t, "run") {
		t.Error("bob finds what is alice's")
	}
	b.Rest(first.member(t, "run").(string))
}

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const twoUsers = manifest + `serve:
  max_driving: 86
  tokens: {alice: $env:ALICE, bob: $env:BOB}
`

// One user has as many runs driven as one may have, and a line as long as one may have. The
// other's run starts at once all the same. Every process sees who waits and where; with
// the daemon that is over, and the next takes the line up.
func TestOneUserDoesNotKeepOutAnother(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, twoUsers)
	w.Env = append(w.Env, "ALICE=the-token-of-alice", "BOB=the-token-of-bob")
	daemon := w.serves()
	alice, bob := daemon.as("the-token-of-alice"), daemon.as("the-token-of-bob")
	start := func(s *site, program string, more ...any) (run, code string) {
		args := map[string]any{"program": program}
		if len(more) > 0 {
			args["idempotency_key"] = more[0]
		}
		answer, code, err := s.call("run_start", args)
		if err != nil {
			t.Error(err)
			return "", "nobody answers"
		}
		var made struct{ Run string }
		_ = json.Unmarshal(answer, &made)
		return made.Run, code
	}
	first, code := start(alice, hang, "first")
	if code != "" {
		t.Fatal(code)
	}
	var mu sync.Mutex
	var last string
	codes := map[string]int{"": 1}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for { // until it is refused
				run, code := start(alice, hang)
				mu.Lock()
				if codes[code]++; code == "" {
					last = run
				}
				mu.Unlock()
				if code != "" {
					return // each of the four is refused
				}
			}
		})
	}
	all.Wait()
	var driven, waiting int
	w.Until("all to have a place", func() bool {
		driven, waiting = w.count(`SELECT count(*) FROM runs WHERE owner IS NOT NULL`), w.count(`SELECT count(*) FROM runs WHERE queued = 1`)
		return driven+waiting == codes[""]
	})
	if codes["queue_full"] != 4 || driven < 64 || waiting < 500 {
		t.Fatalf("%v: %d are driven and %d wait", codes, driven, waiting)
	}
	if again, code := start(alice, hang, "first"); again != first || code != "" {
		t.Errorf("a request that was answered before is answered %q, %s: want %s", again, code, first)
	}
	quick, code := start(bob, `{kind: plan, version: 1, root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}}`)
	if code != "" {
		t.Fatal(code)
	}
	w.Until("the other's run to end, though none of the first one's does", func() bool {
		answer, code, err := bob.do(bob.request(t.Context(), http.MethodGet, "/runs/"+quick, nil))
		if err != nil || code != "" {
			t.Fatalf("%s, %s, %v", answer, code, err)
		}
		var now shown
		w.Check(json.Unmarshal(answer, &now))
		return now.State == "completed"
	})
	if _, code, _ := bob.do(bob.request(t.Context(), http.MethodGet, "/runs/"+last, nil)); code != "forbidden" {
		t.Errorf("it sees the other's: %s", code)
	}
	if s := w.show(last); s.Status != "queued" || s.Queued == nil || s.Queued.Place < 400 {
		t.Errorf("to another process it is %s, %+v", s.Status, s.Queued)
	}
	if _, code, err := alice.call("run_resume", map[string]any{"run_id": last}); code != "busy" {
		t.Errorf("resumed while it waits: %s, %v", code, err)
	}
	daemon.Kill()
	if s := w.show(last); s.Status != "awaiting_resume" || s.Queued != nil {
		t.Errorf("without its daemon it is %s, %+v", s.Status, s.Queued)
	}
	if r := w.Must(0, "ls", "--json", "--status", "queued"); strings.TrimSpace(r.Out) != "" {
		t.Errorf("without their daemon they wait: %.300s", r.Out)
	}
	next := w.serves()
	w.Until("the line", func() bool { return w.show(last).Status == "queued" })
	if s := w.show(last); s.Queued == nil || s.Queued.Place < 400 {
		t.Errorf("the next daemon has it at %+v", s.Queued)
	}
	w.Must(0, "verify", last, "--open")
	w.Must(0, "verify", quick)
	next.Kill()
}

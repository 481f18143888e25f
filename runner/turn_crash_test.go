package runner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// A provider that panics takes its run along and nothing else: nothing is recorded of
// the call, and whoever resumes asks again.
func TestAPanickingProviderInterruptsItsRun(t *testing.T) {
	var asked []string
	b := agentBed(t, func(r agent.Request) agent.Response {
		asked = append(asked, r.Path)
		switch len(asked) {
		case 1:
			return agent.Response{Calls: callTo("read_file", `{"path": "note.txt"}`), Reason: agent.ReasonToolCalls}
		case 2:
			panic("no such luck")
		}
		return agent.Response{Text: "It says hello."}
	})
	run, driven, err := b.turn("", "What does the note say?")
	if err != nil || driven.Outcome != "interrupted" || driven.State.Terminal() {
		t.Fatalf("%+v %v", driven, err)
	}
	if got := b.get(run); got.Condition != tipstaff.Interrupted {
		t.Errorf("the run is %s", got.Condition)
	}
	for _, e := range b.events(run) {
		if e.Path == "turn/model#2" && strings.HasPrefix(string(e.Kind), "effect.") && e.Kind != tipstaff.KindEffectIntended {
			t.Errorf("of the call that panicked is recorded: %s %s", e.Kind, e.Body)
		}
	}
	b.must(b.turn("", "And you?")) // others are not harmed
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Fatalf("resumed: %+v", driven)
	}
	if got, want := strings.Join(asked, " "), "turn/model#1 turn/model#2 turn/model#1 turn/model#2"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	b.verified(run)
}

// crowd is a model that many ask at once, and that uses more than was reserved.
type crowd struct {
	mu      sync.Mutex
	now     int // being asked
	most    int
	used    int64
	release chan struct{} // closed when enough ask at once
	enough  int
}

const crowdUse = 20_000 // tokens of each answer

func (c *crowd) says(r agent.Request) agent.Response {
	c.mu.Lock()
	c.now++
	if c.most = max(c.most, c.now); c.now == c.enough && c.release != nil {
		close(c.release)
		c.release = nil
	}
	release := c.release
	c.mu.Unlock()
	if release != nil {
		<-release
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	c.used += crowdUse
	return agent.Response{Calls: callTo("read_file", `{"path": "note.txt"}`), Reason: agent.ReasonToolCalls,
		Usage: &agent.Usage{InputTokens: crowdUse - 10, OutputTokens: 10, TotalTokens: crowdUse}}
}

// Of a hundred turns under one bound of tokens no call begins once the bound is
// reached: what is used beyond it was in flight then.
func TestManyTurnsUnderOneBound(t *testing.T) {
	const limit = 40 * crowdUse
	c := &crowd{release: make(chan struct{}), enough: 32}
	b := agentBed(t, c.says)
	var steps []string
	for i := range 100 {
		steps = append(steps, fmt.Sprintf(`{id: s%d, kind: step, prompt: "Go on, number %d"}`, i, i))
	}
	run, driven := b.run(fmt.Sprintf(`
tools: [mcp://builtin/read_file@1.0.0]
bounds: {tokens: %d, model_calls: 10000, tool_calls: 10000, agent_hops: 1000, cost_usd: "1000"}
root: {kind: parallel, max_parallel: 64, children: [%s]}
`, limit, strings.Join(steps, ",\n")))
	if driven.State != tipstaff.Failed || driven.Reason != "bound_exceeded" {
		t.Fatalf("%+v", driven)
	}
	if c.most < c.enough {
		t.Errorf("at most %d turns asked at once: that proves little", c.most)
	}
	var body struct {
		Evidence struct {
			Bounds struct{ Used, Held map[string]json.Number }
		}
	}
	events := b.events(run)
	if err := json.Unmarshal(events[len(events)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	// Every answer that came back is counted. A call that was cut off when the group
	// failed has a beginning and no outcome: what it had reserved is held.
	begun, back := map[string]int64{}, int64(0)
	for _, e := range events {
		reached := back*crowdUse >= limit
		switch model := strings.Contains(e.Path, "/model#"); {
		case model && reached && e.Kind == tipstaff.KindEffectIntended:
			t.Errorf("%s begins when the bound is reached", e.Path)
		case model && e.Kind == tipstaff.KindEffectIntended:
			begun[e.Path] = reservedTokens(t, e)
		case model && e.Kind == tipstaff.KindEffectFinished && begun[e.Path] > 0 && !strings.Contains(string(e.Body), `"error"`):
			delete(begun, e.Path)
			back++
		}
	}
	want, held := back*crowdUse, int64(0)
	for _, reserved := range begun {
		held += reserved
	}
	bounds := body.Evidence.Bounds
	gotHeld, _ := bounds.Held["tokens"].Int64() // absent: nothing is
	if got, err := bounds.Used["tokens"].Int64(); err != nil || got != want || gotHeld != held {
		t.Errorf("the evidence says %d tokens and %d held, want %d and %d: %d answers of %d came back, and cut off were %v (%v)", got, gotHeld, want, held, back, crowdUse, begun, err)
	}
	if missing := c.used/crowdUse - back; missing < 0 || missing > int64(len(begun)) {
		t.Errorf("the model answered %d calls, %d came back and %d were cut off", c.used/crowdUse, back, len(begun))
	}
	if got := b.get(run).Bounds["tokens"]; got.Used != want || got.Held != held || got.Reserved != 0 {
		t.Errorf("the status says that %d are used, %d held and %d reserved, want %d, %d and none", got.Used, got.Held, got.Reserved, want, held)
	}
	b.verified(run)
}

// reservedTokens is what a call that is about to begin holds.
func reservedTokens(t *testing.T, e tipstaff.Event) int64 {
	t.Helper()
	var body struct{ Reserve map[string]int64 }
	if err := json.Unmarshal(e.Body, &body); err != nil || body.Reserve["tokens"] <= 0 {
		t.Fatalf("a model call reserves %s (%v)", e.Body, err)
	}
	return body.Reserve["tokens"]
}

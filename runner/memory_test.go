package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

// memory is what the bed's workspace remembers.
func (b *bed) memory() runner.Memory {
	b.Runner.Memory = b.store
	return runner.Memory{Runner: b.Runner}
}

// sound checks that all that is remembered follows from the log.
func (b *bed) sound() tipstaff.MemoryReport {
	b.t.Helper()
	report, err := b.memory().Rebuild(cli(), true)
	if err != nil || !report.OK() {
		b.t.Errorf("the memory: %+v: %v", report, err)
	}
	return report
}

func (b *bed) log() (kinds []string) {
	b.t.Helper()
	for r, err := range b.memory().Log(cli(), 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

const lookAndMiss = `
intent: {verb: find, objects: [{name: a, value: b}], success_criteria: [{type: delivered, artifact: a}]}
root: {kind: sequential, children: [
  {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: tipstaff.yaml}},
  {id: ask, kind: gate, question: Go on?},
  {id: miss, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: nowhere}}]}
`

func TestLeavesAreRememberedWithTheirTools(t *testing.T) {
	b := newBed(t)
	run, d := b.run(lookAndMiss, func(r *tipstaff.StartRequest) { r.Yes = true })
	if d.State != tipstaff.Failed {
		t.Fatalf("%+v", d)
	}
	items, err := b.memory().Items(cli(), tipstaff.MemoryQuery{})
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items: %v", len(items), err)
	}
	slices.Reverse(items)
	look, ask, miss := items[0], items[1], items[2]
	if look.Tool != "mcp://builtin/read_file@1.0.0" || look.Server != "builtin" || look.Verb != "find" || look.Kind != "tool_call" ||
		look.Path != "root/look" || look.Run != run || look.Outcome != "completed" || !strings.HasPrefix(look.Digest, "sha256:") ||
		look.Text != "look (builtin/read_file) completed" {
		t.Errorf("%+v", look)
	}
	if ask.Kind != "gate" || ask.Tool != "" || ask.Server != "" || ask.Text != "ask completed" {
		t.Errorf("%+v", ask)
	}
	if miss.Outcome != "failed" || miss.Digest != "" || !strings.HasPrefix(miss.Text, "miss (builtin/read_file) failed: tool_error: ") {
		t.Errorf("%+v", miss)
	}
	b.sound()
	b.verified(run)
}

// However a run ends, and whoever ends it, the memory is told once.
func TestEveryEndIsAttested(t *testing.T) {
	waits := "root: {id: ok, kind: gate, question: Go on?}\n"
	for name, c := range map[string]struct {
		events int
		end    func(*bed) tipstaff.ID
	}{
		"completed": {1, func(b *bed) tipstaff.ID {
			run, _ := b.run(waits, func(r *tipstaff.StartRequest) { r.Yes = true })
			return run
		}},
		"failed": {1, func(b *bed) tipstaff.ID {
			run, _ := b.run(waits)
			if _, err := b.decide(run, "root", "deny"); err != nil {
				b.t.Fatal(err)
			}
			b.resume(run)
			return run
		}},
		"cancelled while it waits": {0, func(b *bed) tipstaff.ID {
			run, _ := b.run(waits)
			if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
				b.t.Fatal(err)
			}
			return run
		}},
		"cancelled by whoever finds it": {0, func(b *bed) tipstaff.ID {
			run, _ := b.run(waits)
			if _, err := b.store.Acquire(context.Background(), run.String(), flow.Owner{Launch: "gone"}); err != nil {
				b.t.Fatal(err)
			}
			if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run, Wait: time.Millisecond}); err != nil {
				b.t.Fatal(err)
			}
			b.dead["gone"] = true
			if err := b.Recover(cli(), "test"); err != nil {
				b.t.Fatal(err)
			}
			return run
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			run := c.end(b)
			if r := b.get(run); !strings.HasPrefix(name, string(r.State)) {
				t.Fatalf("the run is %s", r.State)
			}
			want := append(slices.Repeat([]string{"remember"}, c.events), "attest", "learn_weights")
			if got := b.log(); !slices.Equal(got, want) {
				t.Errorf("the log has %v, want %v", got, want)
			}
			b.verified(run)
			if report := b.sound(); report.Attests != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

func TestMemoryOfPeople(t *testing.T) {
	b := newBed(t)
	m := b.memory()
	kept, err := m.Remember(cli(), tipstaff.RememberRequest{Type: "fact", Text: "it rains\non Mondays", Importance: 8, Server: "builtin"})
	if err != nil || kept.By != "local:cli" || kept.Text != "it rains\non Mondays" || kept.Score == 0 {
		t.Fatalf("%+v: %v", kept, err)
	}
	again, err := m.Item(cli(), kept.Item)
	again.Score, again.Factors.R = kept.Score, kept.Factors.R // it ages
	if err != nil || again != kept {
		t.Errorf("%+v\n%+v: %v", again, kept, err)
	}
	for name, req := range map[string]tipstaff.RememberRequest{
		"no type":       {Text: "x"},
		"an event":      {Type: "event", Text: "x"},
		"no text":       {Type: "fact", Text: " \n"},
		"too much":      {Type: "fact", Text: strings.Repeat("x", 2001)},
		"too important": {Type: "fact", Text: "x", Importance: 11},
		"less than not": {Type: "fact", Text: "x", Importance: -1},
	} {
		if _, err := m.Remember(cli(), req); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := m.Recall(cli(), tipstaff.RecallRequest{Server: "builtin"}); err != nil || len(got) != 1 || got[0].Item != kept.Item {
		t.Errorf("recalled %v: %v", got, err)
	}
	if got, err := m.Recall(cli(), tipstaff.RecallRequest{Server: "other"}); err != nil || len(got) != 0 {
		t.Errorf("recalled %v: %v", got, err)
	}
	gone, err := m.Forget(cli(), kept.Item)
	if err != nil || !gone.Forgotten {
		t.Errorf("%+v: %v", gone, err)
	}
	_, err = m.Forget(cli(), "cortex://fact/01JCQ8R4T50000000000000001")
	wantCode(t, err, tipstaff.ArtifactNotFound)
	_, err = m.Item(cli(), "fact")
	wantCode(t, err, tipstaff.InvalidArgument)
	_, err = m.Items(cli(), tipstaff.MemoryQuery{Type: "dream"})
	wantCode(t, err, tipstaff.InvalidArgument)
	if got := b.log(); len(got) != 2 {
		t.Errorf("the log has %v", got)
	}
	b.sound()
}

// Where nothing was ever run there is nothing, and nothing fails.
func TestBlankMemory(t *testing.T) {
	m := runner.Memory{Runner: runner.New(runner.Config{Now: time.Now})}
	items, err := m.Items(cli(), tipstaff.MemoryQuery{})
	recalled, rerr := m.Recall(cli(), tipstaff.RecallRequest{})
	w, werr := m.Weights(cli())
	report, reperr := m.Rebuild(cli(), true)
	if len(items)+len(recalled) != 0 || w.C != 300_000_000 || !report.OK() || err != nil || rerr != nil || werr != nil || reperr != nil {
		t.Errorf("%v, %v, %v, %+v: %v, %v, %v, %v", items, recalled, w, report, err, rerr, werr, reperr)
	}
	for r, err := range m.Log(cli(), 0) {
		t.Errorf("%v: %v", r, err)
	}
	_, err = m.Remember(cli(), tipstaff.RememberRequest{Type: "fact", Text: "x"})
	wantCode(t, err, tipstaff.FormatNewer)
	_, err = m.Forget(cli(), "cortex://fact/01JCQ8R4T50000000000000001")
	wantCode(t, err, tipstaff.ArtifactNotFound)
}

package runner_test

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A program that no longer fits its records says in what: verify and resume alike.
func TestMismatchTellsTheDifference(t *testing.T) {
	t.Parallel()
	const plan = `
root:
  kind: sequential
  children:
    - {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: a.txt}}
    - {id: ok, kind: gate, question: Go on?}
    - {id: again, kind: gate, question: Sure?}
`
	input := func(path string) string {
		return `{"uri":"mcp://builtin/read_file@1.0.0","args":{"path":"` + path + `"},"by":"accept"}`
	}
	digest := func(path string) string { return flow.Digest([]byte("tool.call\x00" + input(path))) }
	for name, c := range map[string]struct {
		forge func(b *bed, run tipstaff.ID)
		want  []string
	}{
		"a call": {func(b *bed, run tipstaff.ID) {
			b.forge(run, tipstaff.KindEffectIntended, digest("a.txt")+`","input":`+input("a.txt"), digest("b.txt")+`","input":`+input("b.txt"))
			b.forge(run, tipstaff.KindEffectFinished, digest("a.txt"), digest("b.txt"))
		}, []string{`"root/read"`, "tool.call", `/args/path: recorded "b.txt", asked for "a.txt"`}},
		"a gate": {func(b *bed, run tipstaff.ID) {
			gate := func(q string) string {
				return flow.GateDigest(flow.Gate{Kind: "question", Question: q, Subject: []byte("{}"), Actions: []string{"approve", "deny"}, Deny: "deny"})
			}
			b.forge(run, tipstaff.KindPolicyGate, "Go on?", "Go off?")
			b.forge(run, tipstaff.KindPolicyGate, gate("Go on?"), gate("Go off?"))
			b.forge(run, tipstaff.KindPolicyGateResolve, gate("Go on?"), gate("Go off?"))
		}, []string{`"root/ok"`, "question gate", `/question: recorded "Go off?", asked for "Go on?"`}},
		"an event": {func(b *bed, run tipstaff.ID) {
			b.forge(run, tipstaff.KindPlanStep, `"completed"`, `"carried"`)
		}, []string{`"root/read"`, "plan.step", `/status: recorded "carried", asked for "completed"`}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.write("a.txt", "text")
			run, _ := b.run(plan)
			_, err := b.decide(run, "root/ok", "approve")
			b.check(err)
			c.forge(b, run)

			rep, err := b.Verify(cli(), tipstaff.VerifyRequest{Run: run, Open: true})
			b.check(err)
			messages := ""
			for _, p := range rep.Conformance.Problems {
				if p.Code == "replay_mismatch" {
					messages += p.Message
				}
			}
			d := b.resume(run)
			for where, message := range map[string]string{"verify": messages, "resume": d.Message} {
				for _, want := range c.want {
					if !strings.Contains(message, want) || strings.Contains(message, "sha256:") {
						t.Errorf("%s says %q, want %q and no digest", where, message, want)
					}
				}
			}
		})
	}
}

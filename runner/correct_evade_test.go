package runner_test

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

const payment = `
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo first >> effects"]}}
    - {id: ok, kind: gate, question: "Pay Alice 10?"}
    - {id: pay, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo alice 10 >> effects"]}}
`

// Whoever has accepted a payment has not accepted another one, a payment that is not
// asked about, or a second one.
func TestACorrectionCannotSlipInAnEffect(t *testing.T) {
	const gate = `    - {id: ok, kind: gate, question: "Pay Alice 10?"}` + "\n"
	pay2 := `    - {id: pay2, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo mallory 10000 >> effects"]}}` + "\n"
	for name, plan := range map[string]string{
		"without the gate, and with another payment": strings.Replace(payment, gate, "", 1) + pay2,
		"without the gate":                           strings.Replace(payment, gate, "", 1),
		"with another payment":                       payment + pay2,
		"with another question":                      strings.Replace(payment, "Alice 10?", "somebody?", 1),
		"with another answer":                        strings.Replace(payment, `10?"`, `10?", actions: [{name: deny}, {name: no, outcome: fail}]`, 1),
		"with what was done under another id":        strings.Replace(payment, "id: first", "id: prime", 1),
		"with the gate beside the payment": `
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo first >> effects"]}}
    - kind: parallel
      children:
        - {id: ok, kind: gate, question: "Pay Alice 10?"}
        - {id: pay, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo alice 10 >> effects"]}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			run, _ := b.run(payment)
			done, out := b.corrected(run, plan)
			if !done.Material || out.State != tipstaff.Accepted || b.read("effects") != "first\n" {
				t.Errorf("%+v, %+v, effects %q", done, out, b.read("effects"))
			}
			for _, r := range done.Reasons {
				if r.Rule != "hard_constraint_relaxed" {
					t.Errorf("reason %+v", r)
				}
			}
			b.verified(run)
		})
	}
}

// What has another name and was not done yet is the same payment.
func TestACorrectionMayRenameWhatIsStillToBeDone(t *testing.T) {
	b := newBed(t)
	run, _ := b.run(payment)
	renamed := strings.Replace(payment, "id: pay", "id: transfer", 1)
	if done, _ := b.corrected(run, renamed); done.Material {
		t.Fatalf("%+v", done)
	}
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed || b.read("effects") != "first\nalice 10\n" {
		t.Fatalf("%+v, effects %q", out, b.read("effects"))
	}
	b.verified(run)
}

// Renaming twice does not help: what counts is what was done, in whichever revision.
func TestACorrectionCannotRepeatWhatAnEarlierOneRenamed(t *testing.T) {
	b := newBed(t)
	plan := strings.Replace(payment, "Pay Alice 10?", "Begin?", 1) + `    - {id: end, kind: gate, question: "Done?"}` + "\n"
	run, _ := b.run(plan)
	renamed := strings.Replace(plan, "id: pay", "id: transfer", 1)
	if done, _ := b.corrected(run, renamed); done.Material {
		t.Fatalf("%+v", done)
	}
	if _, err := b.decide(run, "root@2/ok", "approve"); err != nil {
		t.Fatal(err)
	}
	b.resume(run)
	for name, next := range map[string]string{"back": plan, "on": strings.Replace(plan, "id: pay", "id: send", 1)} {
		done, out := b.corrected(run, next)
		if !done.Material || out.State != tipstaff.Accepted {
			t.Fatalf("renamed %s: %+v, %+v", name, done, out)
		}
		gate := b.get(run).OpenGates[0].Key
		if _, err := b.decide(run, gate, "keep"); err != nil {
			t.Fatal(err)
		}
		b.resume(run)
	}
	if b.read("effects") != "first\nalice 10\n" {
		t.Errorf("effects %q", b.read("effects"))
	}
	b.verified(run)
}

// What is in doubt may have been done: under another id it would be done again, and nobody
// asked. That holds in every revision after the one that began it.
func TestACorrectionCannotRepeatWhatIsInDoubt(t *testing.T) {
	b := newBed(t)
	run := b.brokenOff(slow)
	if done, _ := b.corrected(run, slower); done.Material {
		t.Fatalf("%+v", done)
	}
	if done, out := b.corrected(run, strings.NewReplacer("id: one", "id: other", "${one.", "${other.").Replace(slower)); !done.Material || out.State != tipstaff.Accepted {
		t.Errorf("%+v, %+v", done, out)
	}
	b.verified(run)
}

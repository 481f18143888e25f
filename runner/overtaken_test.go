package runner_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
)

// A group that fails while a once call is being prepared has one outcome, whoever
// is faster: what failed. A call that was never sent is not in doubt.
func TestOvertakenCallIsNotInDoubt(t *testing.T) {
	b := newBed(t)
	for range 60 {
		run, out := b.run(`
root: {kind: parallel, children: [
  {id: x, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo hi"]}},
  {id: r, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: missing.txt}}]}
`)
		if out.State != tipstaff.Failed || out.Reason != "tool_error" {
			t.Fatalf("run %s ended %+v", run, out)
		}
		if rep := b.verified(run); !rep.Integrity.OK || !rep.Conformance.OK {
			t.Fatalf("%+v", rep)
		}
	}
}

package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// endings has a plan for each way in which a run ends.
const endings = `-- completed.yaml --
kind: plan
version: 1
root: {id: look, kind: tool_call, tool: "mcp://builtin/list_dir@1.0.0", args: {path: .}}
-- failed.yaml --
kind: plan
version: 1
root: {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: nowhere}}
-- cancelled.yaml --
kind: plan
version: 1
root: {id: ask, kind: gate, question: Go on?}
`

// TestMemoryOutlivesKills kills the process that ends a run near that end, for all
// three of them, until the run has ended. Whatever was lost on the way, the
// memory knows of each end once.
func TestMemoryOutlivesKills(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killer{dice: rand.New(rand.NewPCG(seed, 2)), workspace: newWorkspace(t, manifest, endings)}
	ends := map[string]string{} // states by run
	for range max(1, kills(t)/8) {
		for _, state := range []string{"completed", "failed", "cancelled"} {
			if run := k.toEnd(state); run != "" {
				ends[run] = state
			}
		}
	}
	t.Logf("%d commands killed, %d ended by themselves", k.killed, k.spared)
	k.Must(0, "verify", "--memory")
	k.attestedOnce(ends)
}

// toEnd starts a run and ends it over dead processes; "" if not even its first
// records were written.
func (k *killer) toEnd(state string) string {
	k.Helper()
	known := len(k.runs())
	k.perish("run", state+".yaml", "--unattended")
	runs := k.runs()
	if len(runs) == known {
		return ""
	}
	run := runs[0]
	for tries := 0; k.show(run).State != state; tries++ {
		switch {
		case tries > 3 && state == "cancelled":
			k.Must(0, "cancel", run)
		case tries > 3:
			k.Run("resume", run, "--unattended")
		case state == "cancelled":
			k.perish("cancel", run)
		default:
			k.perish("resume", run, "--unattended")
		}
	}
	k.Must(0, "verify", run)
	return run
}

// perish runs a command and kills it after some records, a moment later.
func (k *killer) perish(args ...string) {
	k.Helper()
	p := k.Start(args...)
	k.afterRecords(p, int64(k.dice.IntN(10)))
	k.after(p, time.Duration(k.dice.IntN(3000))*time.Microsecond)
	if p.Kill() {
		k.killed++
	} else {
		k.spared++
	}
}

// attestedOnce checks the memory's log: one attest for each run that has ended,
// and what was learned from it right after it.
func (w *workspace) attestedOnce(ends map[string]string) {
	w.Helper()
	outcomes := map[string]string{"completed": "success", "failed": "failure", "cancelled": "cancelled"}
	log := w.Must(0, "memory", "log", "--json").Out
	records := w.parseRecords(log)
	attested := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(log), "\n") {
		var of struct {
			Run string `json:"run"`
		}
		w.Check(json.Unmarshal([]byte(line), &of))
		r := records[i]
		if r.Seq != int64(i+1) {
			w.Errorf("record %d stands in place %d", r.Seq, i+1)
		}
		if r.Kind != "attest" {
			continue
		}
		attested[of.Run]++
		if got, want := r.field("outcome"), outcomes[ends[of.Run]]; got != want {
			w.Errorf("run %s ended %s, and is remembered as %s", of.Run, want, got)
		}
		if i+1 == len(records) || records[i+1].Kind != "learn_weights" {
			w.Errorf("nothing follows the attest of run %s", of.Run)
		}
	}
	for run, state := range ends {
		if attested[run] != 1 {
			w.Errorf("run %s, %s, is attested %d times", run, state, attested[run])
		}
	}
}

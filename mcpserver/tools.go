package mcpserver

import (
	"context"

	"github.com/tipstaff/tipstaff"
)

// hints are what a tool does to the world, for clients that ask before they call.
type hints struct{ readOnly, destructive, idempotent, openWorld bool }

var (
	drives   = hints{destructive: true, openWorld: true}
	ends     = hints{destructive: true, idempotent: true}
	observes = hints{readOnly: true, idempotent: true}
	decides  = hints{destructive: true, idempotent: true}
	inspects = observes
)

var gateKinds = []string{string(tipstaff.Question), string(tipstaff.Approval), string(tipstaff.Handoff), string(tipstaff.Clarification),
	string(tipstaff.Confirmation), string(tipstaff.InDoubt), string(tipstaff.Bound), string(tipstaff.Delivery)}

// tools is the catalogue. Each is one method of [tipstaff.Control].
func tools() []tool {
	return []tool{
		newTool("run_start", "Start a run", drives,
			"Start a run of a program, from prose (a plan is drafted and has to be accepted), of a message to an agent, or from the beginning of another run. Give exactly one of program, program_file, prose, message and fork_of. It returns at once; run_watch follows the run, which goes on whoever looks.",
			tipstaff.Control.Start, map[string]property{
				"prose":       {text: "what is wanted, in words: a plan is drafted, and asks to be accepted", length: 64 << 10},
				"skill":       {text: "with prose: URI of the skill that the plan is drafted with", length: 200},
				"message":     {text: "what an agent is told: one turn of a conversation", length: 256 << 10},
				"agent":       {text: "with prose or message: name of the agent", length: 100},
				"session":     {text: "with message: the conversation that it goes on with", length: 100},
				"fork_of":     {text: "run whose recorded beginning the new one inherits"},
				"fork_at_seq": {text: "with fork_of: the last record that is inherited; absent: the last before the failure", least: 1, most: 1<<53 - 1},
				"project_dir": {text: "folder inside the workspace that the run is about", length: 4096, standard: `"."`},
				"bounds":      {text: "limits by name, as documents write them, like {\"tool_calls\": 20, \"cost_usd\": \"0.50\", \"wall_time\": \"10m\"}; they can only be lowered, with fork_of replaced", items: 20},
				"title":       {text: "what the run is called in lists", length: tipstaff.MaxTitle},
			}),
		newTool("run_resume", "Have a run go on", drives,
			"Have a waiting or interrupted run go on where it stood. outcome says what became of it: launched, or why nothing was started. Recorded effects are not repeated.",
			tipstaff.Control.Resume, nil),
		newTool("run_cancel", "Cancel a run", ends,
			"End a run and all of its processes. A cancelled run cannot be resumed.",
			tipstaff.Control.Cancel, map[string]property{
				"mode":    {text: "graceful lets calls in flight end; hard kills at once", choices: []string{"graceful", "hard"}, standard: `"graceful"`},
				"grace_s": {text: "seconds before what does not end is killed", most: 300, standard: "10"},
				"wait_s":  {text: "seconds to wait for the end", most: 60, standard: "15"},
				"reason":  {text: "why, for the record", length: 4 << 10},
			}),
		newTool("run_status", "Status of a run", observes,
			"Where a run stands: state, status, open gates with what they show, bounds, error, and the calls that make sense next.",
			tipstaff.Control.Status, map[string]property{
				"include": {text: "what is told in full", choices: []string{tipstaff.IncludeProgram, tipstaff.IncludeInputs, tipstaff.IncludeGates, tipstaff.IncludeErrors, tipstaff.IncludeAll}, items: 5},
			}),
		newTool("run_events_tail", "Records of a run", observes,
			"A page of the journal of a run, oldest first. last_seq is the after_seq of the next page; eof says that there is no more for now.",
			tipstaff.Control.Tail, map[string]property{
				"limit":  {text: "how many records at most", least: 1, most: 1000, standard: "25"},
				"detail": {text: "summary cuts long texts", choices: []string{"summary", "full"}, standard: `"summary"`},
			}),
		newTool("run_metrics", "What a run has used", observes,
			"Calls, tokens, cost and time of a run, in all and by step and agent.",
			tipstaff.Control.Metrics, nil),
		newTool("run_history", "List of runs", observes,
			"Runs, newest first. next_before is the before of the next page.",
			tipstaff.Control.History, map[string]property{
				"limit":  {text: "how many runs at most", least: 1, most: 200, standard: "10"},
				"before": {text: "only runs older than this one"},
			}),
		newTool("run_watch", "Wait for something to happen in a run", observes,
			"Wait until a gate opens, the run ends, or whatever until names, at most timeout_s. It returns at once if that is so already; until decision waits for a person to answer what is open. A client that shows forms may ask the person here. Call it again with last_seq to go on: nothing is missed or repeated. A watch that is lost says nothing about the run.",
			func(c tipstaff.Control, ctx context.Context, in tipstaff.WatchRequest) (tipstaff.Watched, error) {
				return c.Watch(ctx, in, progressOf(ctx))
			}, map[string]property{
				"until":     {text: "what is waited for", choices: tipstaff.WatchModes(), standard: `"gate_or_end"`},
				"timeout_s": {text: "seconds to wait at most", least: 1, most: 3600, standard: "45"},
				"summary":   {text: "also say what has happened since after_seq", standard: "true"},
			}),
		newTool("phase_handoff_decide", "Decide a handoff", decides,
			"Decide a gate of kind handoff: what a stage brought goes on, goes back with feedback, goes on with a waiver, or the run halts. It starts nothing: run_resume does.",
			tipstaff.Control.DecideHandoff, nil),
		newTool("delivery_decide", "Decide a delivery", decides,
			"Decide a gate of kind delivery: approve (a branch at the commit that was shown), apply, fix, skip or halt. Look at delivery_gate and run_diff first. It starts nothing: run_resume does.",
			tipstaff.Control.DecideDelivery, nil),
		newTool("gate_decide", "Decide a gate", decides,
			"Decide a gate of any kind with one of the actions that it offers. The same decision again returns the stored one; another is a conflict. It starts nothing: run_resume does.",
			tipstaff.Control.DecideGate, nil),
		newTool("run_evidence", "What is recorded of a run", inspects,
			"What is recorded of a run, by slice, with totals.",
			tipstaff.Control.Evidence, map[string]property{
				"slice":        {text: "which part", choices: append([]string{tipstaff.SliceAll}, tipstaff.EvidenceSlices()...), standard: `"all"`},
				"severity_min": {text: "only findings at least so bad; P0 is the worst", choices: []string{"P0", "P1", "P2", "P3"}},
				"stages":       {text: "only what happened there: stages, visits (work#2) or paths", items: 100, length: 500},
				"limit":        {text: "how many of each list at most", least: 1, most: 1000, standard: "100"},
				"offset":       {text: "how many of each list are left out", most: 1 << 31, standard: "0"},
			}),
		newTool("run_diagnose", "What is the matter with a run", inspects,
			"Why a run stands where it does, from facts, and what can be done about it.",
			tipstaff.Control.Diagnose, nil),
		newTool("delivery_gate", "Where a delivery stands", inspects,
			"What a run wants to deliver: files, commit, checks, what can be done and what is in the way.",
			tipstaff.Control.Delivery, nil),
		newTool("run_verify", "Prove what a run did", inspects,
			"Check the journal of a run: that nothing was changed (integrity) and that it did what its program says (conformance).",
			tipstaff.Control.Verify, nil),
		newTool("run_diff", "What a run has changed", inspects,
			"The files that a run has changed, as counts, the first lines of each, or the whole patch.",
			tipstaff.Control.Diff, map[string]property{
				"mode":      {text: "how much is shown", choices: []string{tipstaff.DiffStat, tipstaff.DiffPreview, tipstaff.DiffFull}, standard: `"stat"`},
				"path":      {text: "only this file, or all below it", length: 4096},
				"stage":     {text: "only what this visit of a stage has changed, as stage#visit", length: 500},
				"max_bytes": {text: "bytes of text at most", least: 1, most: 2_000_000, standard: "200000"},
			}),
		newTool("pending_decisions", "What waits for a decision", inspects,
			"The inbox: all undecided gates, oldest first, with what they show and how they are decided.",
			tipstaff.Control.Pending, map[string]property{
				"limit": {text: "how many gates at most", least: 1, most: 200, standard: "50"},
				"kinds": {text: "only gates of these kinds", choices: gateKinds, items: 8},
				"after": {text: "only gates after this one, in their order"},
			}),
		newTool("plan_validate", "Check a program", inspects,
			"What run_start would say of a program, without starting it: its parts, or its errors with line and column.",
			tipstaff.Control.Validate, nil),
	}
}

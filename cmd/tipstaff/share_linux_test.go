package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// commands is the command line as a surface. It starts and resumes runs in processes of
// their own.
type commands struct{ *workspace }

func (c commands) call(tool string, args map[string]any) (json.RawMessage, string, error) {
	run := fmt.Sprint(args["run_id"])
	argv := map[string][]string{
		"run_start":   {"run", "-", "--detach"},
		"run_resume":  {"resume", run, "--detach"},
		"run_cancel":  {"cancel", run, "--hard"},
		"gate_decide": {"decide", run, fmt.Sprint(args["gate_id"]), fmt.Sprint(args["action"])},
	}[tool]
	p := c.Prepare(append(argv, "--json")...)
	p.Listen()
	if tool == "run_start" {
		p.Cmd.Stdin = strings.NewReader(fmt.Sprint(args["program"]))
	}
	p.Begin()
	r := p.Wait()
	if r.Code == 0 {
		return json.RawMessage(r.Out), "", nil
	}
	return nil, codeOf([]byte(r.Err)), nil
}

// together calls a tool on many surfaces at the same time, and counts what was answered.
func together(w *workspace, times int, surfaces map[string]surface, tool string, args map[string]any) (codes map[string]int, answers []string) {
	w.Helper()
	codes = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range times {
		for name, s := range surfaces {
			all.Go(func() {
				answer, code, err := s.call(tool, args)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					w.Errorf("%s: %v", name, err)
				}
				codes[code]++
				answers = append(answers, string(answer))
			})
		}
	}
	all.Wait()
	return codes, answers
}

const hang = `{kind: plan, version: 1, root: {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 5m}, timeout: 10m}}`

// Two MCP servers and commands use one store: together they have no more processes than
// one may have, a process that has died is found once, and of all who resume one does.
func TestServersAndCommandsShareAStore(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	w.endLaunched()
	surfaces := map[string]surface{"commands": commands{w}}
	for _, name := range []string{"one", "two"} {
		p, err := w.plane(func(*cmdtest.Process) {})
		w.Check(err)
		surfaces[name] = p
	}
	codes, _ := together(w, 3, surfaces, "run_start", map[string]any{"program": hang})
	if codes[""] != 4 || codes["capacity_reached"] != 5 || len(w.runs()) != 4 {
		t.Fatalf("of nine starts at a limit of four: %v, and %d runs", codes, len(w.runs()))
	}
	w.Until("all to be driven", func() bool { return w.count(`SELECT count(*) FROM runs WHERE owner IS NOT NULL`) == 4 })
	run := w.runs()[2]
	if codes, _ = together(w, 1, surfaces, "run_resume", map[string]any{"run_id": run}); codes[""] != 2 || codes["busy"] != 1 {
		t.Errorf("a run that is driven is resumed: %v", codes) // the servers say that it runs
	}
	for _, pid := range w.processes(func(argv []string, _ string) bool { return len(argv) > 2 && argv[1] == "exec" && argv[2] == run }) {
		killPid(pid)
	}
	w.Until("its death to be found", func() bool { w.Must(0, "ls"); return w.interruptions(run) > 0 })
	codes, answers := together(w, 2, surfaces, "run_resume", map[string]any{"run_id": run})
	launched := 0
	for _, a := range answers {
		if strings.Contains(a, `"pid":`) {
			launched++
		}
	}
	if launched != 1 || codes[""]+codes["busy"] != 6 {
		t.Errorf("%d of six have resumed it: %v\n%s", launched, codes, strings.Join(answers, "\n"))
	}
	w.Until("it to be driven again", func() bool { return w.count(`SELECT count(*) FROM runs WHERE owner IS NOT NULL`) == 4 })
	if n := w.interruptions(run); n != 1 {
		t.Errorf("it was found dead %d times", n)
	}
	var cancels []*cmdtest.Process // each finds the others' runs as they end
	for _, run := range w.runs() {
		cancels = append(cancels, w.Start("cancel", run, "--hard"))
	}
	for _, p := range cancels {
		p.Must(0)
	}
	w.Until("all processes to end", func() bool { return len(w.executing()) == 0 })
	for _, run := range w.runs() {
		w.Must(0, "verify", run)
	}
}

const expiring = `{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?", expires: 2s}}`

// Of two daemons over one store one denies a gate that nobody decides in time, once, and
// the run ends. Whoever answers late is told so, wherever.
func TestGateExpiresUnderTwoDaemons(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	w.endLaunched()
	one, two := w.serves(), w.serves()
	stdio, err := w.plane(func(*cmdtest.Process) {})
	w.Check(err)
	// One key makes one run, whoever is asked.
	quick := map[string]any{"program": strings.Replace(hang, "5m", "1ms", 1), "idempotency_key": "once"}
	codes, answers := together(w, 4, map[string]surface{"one": one, "two": two}, "run_start", quick)
	made := map[string]bool{}
	for _, a := range answers {
		var got struct{ Run string }
		w.Check(json.Unmarshal([]byte(a), &got))
		made[got.Run] = true
	}
	if len(made) != 1 || codes[""] != 8 || len(w.runs()) != 1 {
		t.Errorf("one key has made %v: %v", made, codes)
	}
	answer, code, err := one.call("run_start", map[string]any{"program": expiring})
	if err != nil || code != "" {
		t.Fatalf("%s, %v", code, err)
	}
	var first struct{ Run string }
	w.Check(json.Unmarshal(answer, &first))
	detached := runID(t, w.with(nil, 0, "run", w.file("expiring.yaml", expiring), "--detach", "--json"))
	began := time.Now()
	w.Until("the end", func() bool { s := w.show(first.Run); return s.State != "executing" })
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
	kinds := []string{}
	for _, r := range w.journal(first.Run) {
		kinds = append(kinds, r.Kind)
	}
	for kind, times := range map[string]int{"policy.gate": 1, "policy.gate.resolve": 1, "run.started": 1, "run.resumed": 1} {
		if n := len(slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k != kind })); n != times {
			t.Errorf("%s stands there %d times: %v", kind, n, kinds)
		}
	}
	// What a process of its own has parked waits for somebody to resume it.
	w.Until("the other gate to be denied", func() bool { return w.show(detached).Status == "awaiting_resume" })
	for _, run := range []string{first.Run, detached} {
		var gate string
		store := w.openReadOnly()
		w.Check(store.QueryRow(`SELECT gates.id FROM gates JOIN runs ON runs.n = gates.run WHERE runs.id = ?`, run).Scan(&gate))
		w.Check(store.Close())
		surfaces := map[string]surface{"HTTP": one, "HTTP of the other": two, "MCP": stdio, "the command": commands{w}}
		for name, s := range surfaces {
			for _, action := range []string{"approve", "deny"} {
				if _, code, err := s.call("gate_decide", map[string]any{"run_id": run, "gate_id": gate, "action": action}); err != nil || code != "gate_expired" {
					t.Errorf("%s by %s: %s, %v", action, name, code, err)
				}
			}
		}
		if _, code, err := stdio.call("phase_handoff_decide", map[string]any{"run_id": run, "gate_id": gate, "action": "continue"}); err != nil || code != "wrong_gate_kind" {
			t.Errorf("as a handoff: %s, %v", code, err)
		}
		p := w.with([]string{"TIPSTAFF_TOKEN=" + one.token}, 3, "decide", run, gate, "approve", "--server", one.grpc, "--json")
		p.Says(t, `"code":"gate_expired"`)
		w.with(nil, 3, "decide", run, "root", "approve", "--json").Says(t, `"code":"gate_expired"`) // by its key
		w.Must(0, "verify", run, "--open")
	}
}

// file writes one, and returns its name.
func (w *workspace) file(name, text string) string {
	w.Helper()
	w.Write(name, text)
	return name
}

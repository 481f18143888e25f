package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// token is that of the one user of all servers.
const token = "a-token-that-is-long-enough-for-tests"

// workspace is that of every machine. Effects are lines of a file that all of them see;
// HOST is where they find who answers well at the second attempt.
const workspace = `
-- tipstaff.yaml --
version: 1
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh, ./mark.sh]
    hosts: ["HOST"]
    tools:
      exec: {effect: once, timeout: 60s}
      http_get: {effect: read}
      sleep: {effect: read}
policy:
  rules: [{id: all, tool: "builtin/*", do: allow}]
  sub_dispatch: true
serve:
  tokens: {load: "$env:SERVE_TOKEN"}
-- mark.sh --
#!/bin/sh
echo "$1" | tee -a EFFECTS
-- skills/below/SKILL.md --
---
name: below
description: A part of something larger.
---
Do it, and ask.
-- skills/below/skill.yaml --
id: below
version: 1.0.0
verbs: [build]
inputs: {key: {type: string}}
outputs: {made: {type: string}}
tools: [mcp://builtin/exec@1.0.0]
sub_skills: none
-- skills/below/plan.yaml --
kind: plan
version: 1
name: below
skill: skill://below@1.0.0
inputs: {key: {type: string}}
root:
  kind: sequential
  children:
    - {id: made, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS", "${input.key}/below"]}}
    - {id: ask, kind: gate, question: Is it well made?}
outputs: {made: "${made.output.stdout}"}
`

// programs are what is run, in turn. In each, every exec has an effect that must happen once.
var programs = []string{`
kind: plan
version: 1
name: gated
inputs: {key: {type: string}}
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS; sleep 1", "${input.key}/first"]}}
    - {id: ask, kind: gate, question: Go on?}
    - {id: last, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [./mark.sh, "${input.key}/last"]}}
outputs: {first: "${first.output.stdout}", asked: "${ask.output.action}", last: "${last.output.stdout}"}
`, `
kind: plan
version: 1
name: retried
inputs: {key: {type: string}}
root:
  kind: sequential
  children:
    - kind: parallel
      children:
        - {id: first, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "sleep 1; echo $0 | tee -a EFFECTS", "${input.key}/first"]}}
        - {id: flaky, kind: tool_call, tool: mcp://builtin/http_get@1.0.0, args: {url: "http://HOST/${input.key}"}, timeout: 5s, retry: {max: 5, backoff: 500ms, on: [tool_error, timeout, tool_unavailable]}}
        - {id: nap, kind: tool_call, tool: mcp://builtin/sleep@1.0.0, args: {duration: 700ms}}
    - {id: last, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS; sleep 1", "${input.key}/last"]}}
outputs: {first: "${first.output.stdout}", flaky: "${flaky.output.text}", last: "${last.output.stdout}"}
`, `
kind: plan
version: 1
name: family
inputs: {key: {type: string}}
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS", "${input.key}/first"]}}
    - {id: child, kind: sub_dispatch, skill: skill://below@1.0.0, inputs: {key: "${input.key}"}, accept: auto}
    - {id: last, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS", "${input.key}/last"]}}
outputs: {first: "${first.output.stdout}", below: "${child.output.made}", last: "${last.output.stdout}"}
`, `
kind: plan
version: 1
name: slow
inputs: {key: {type: string}}
root:
  kind: sequential
  children:
    - {id: first, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS", "${input.key}/first"]}}
    - {id: nap, kind: tool_call, tool: mcp://builtin/sleep@1.0.0, args: {duration: 10s}}
    - {id: last, kind: tool_call, tool: mcp://builtin/exec@1.0.0, args: {argv: [sh, -c, "echo $0 | tee -a EFFECTS", "${input.key}/last"]}}
outputs: {first: "${first.output.stdout}", last: "${last.output.stdout}"}
`}

// slow is the program of runs that are likely to be driven when something happens.
const slow = 3

// ends are the outputs of undisturbed runs, with KEY for what they are called by, and how
// many effects they have.
var ends = []struct {
	outputs string
	effects []string
}{
	{`{"asked":"approve","first":"KEY/first\n","last":"KEY/last\n"}`, []string{"first", "last"}},
	{`{"first":"KEY/first\n","flaky":"well","last":"KEY/last\n"}`, []string{"first", "last"}},
	{`{"below":"KEY/below\n","first":"KEY/first\n","last":"KEY/last\n"}`, []string{"first", "below", "last"}},
	{`{"first":"KEY/first\n","last":"KEY/last\n"}`, []string{"first", "last"}},
}

// load is what the servers are given to do, and the person who answers what they ask.
type load struct {
	*testing.T
	machines []*machine
	effects  string // the file
	host     string // of the flaky server

	mu     sync.Mutex
	runs   map[string]int // by id, the number of its key
	tries  map[string]int // of the flaky server, by key
	doubts map[string]int // gates of calls in doubt that were decided, by action

	unequal bool // some machine may refuse what the others take

	made func(run string) // is told of every run that was made; nil: nobody is
}

func newLoad(t *testing.T, n network) *load {
	t.Helper()
	l := &load{T: t, effects: filepath.Join(t.TempDir(), "effects"), runs: map[string]int{}, tries: map[string]int{}, doubts: map[string]int{}}
	if err := os.WriteFile(l.effects, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", n.host()+":0")
	if err != nil {
		t.Fatal(err)
	}
	l.host = listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(l.flaky)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return l
}

// flaky fails the first time that it is asked for something.
func (l *load) flaky(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.tries[r.URL.Path]++
	first := l.tries[r.URL.Path] == 1
	l.mu.Unlock()
	if first {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, "well")
}

// fit is a text of a workspace with the places of this test.
func (l *load) fit(text string) string {
	return strings.NewReplacer("EFFECTS", l.effects, "HOST", l.host).Replace(text)
}

// happened is how often each effect has happened, by key and name.
func (l *load) happened() map[string]int {
	text, err := os.ReadFile(l.effects)
	if err != nil {
		l.Error(err)
	}
	all := map[string]int{}
	for _, line := range strings.Fields(string(text)) {
		all[line]++
	}
	return all
}

// ask makes a request of a server. Status is 0 where there was no answer.
func (l *load) ask(m *machine, method, path string, body, into any, header ...string) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	if body == nil {
		text = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.addr+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return 0, err
	case resp.StatusCode >= 300:
		return resp.StatusCode, fmt.Errorf("%s %s: %s %s", method, path, resp.Status, answer)
	}
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(answer)
	default:
		err = json.Unmarshal(answer, into)
	}
	return resp.StatusCode, err
}

// start has the run of a key made by one of the servers, whichever answers first: the same
// request again finds it.
func (l *load) start(key int) {
	l.Helper()
	body := map[string]any{"program": l.fit(programs[key%len(programs)]), "inputs": map[string]string{"key": fmt.Sprint("k", key)}}
	var run struct {
		Run string `json:"run"`
	}
	for i, deadline := key, time.Now().Add(3*time.Minute); ; i++ {
		m := l.machines[i%len(l.machines)]
		m.making.RLock()
		if m.odd {
			m.making.RUnlock()
			continue
		}
		status, err := l.ask(m, http.MethodPost, "/runs", body, &run, "Idempotency-Key", fmt.Sprint("start-", key))
		m.making.RUnlock()
		if err == nil {
			break
		}
		if !l.unequal && status != 0 && status != 429 && status < 500 || time.Now().After(deadline) {
			l.Errorf("run %d cannot be started by %s: %v\n%s", key, l.machines[i%len(l.machines)].name, err, l.story(err.Error()))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run.Run] = key
	if l.made != nil {
		l.made(run.Run)
	}
}

var runID = regexp.MustCompile(`\b[0-9A-Z]{26}\b`)

// story is what is recorded of the run that a message names, in short.
func (l *load) story(message string) string {
	var b strings.Builder
	for _, m := range l.machines {
		var page struct {
			Events []struct {
				Seq  int64           `json:"seq"`
				At   time.Time       `json:"at"`
				Kind string          `json:"kind"`
				Path string          `json:"path"`
				Body json.RawMessage `json:"body"`
			} `json:"events"`
		}
		if _, err := l.ask(m, http.MethodGet, "/runs/"+runID.FindString(message)+"/events?limit=200&detail=full", nil, &page); err != nil {
			fmt.Fprintln(&b, m.name, err)
			continue
		}
		for _, e := range page.Events {
			fmt.Fprintf(&b, "%d %s %s %s %.200s\n", e.Seq, e.At.Format("15:04:05.000"), e.Kind, e.Path, e.Body)
		}
		return b.String()
	}
	return b.String()
}

// gate is one that waits.
type gate struct {
	Run  string `json:"run_id"`
	Gate struct {
		ID  string `json:"gate_id"`
		Key string `json:"key"`
	} `json:"gate"`
}

// answer decides what waits until ctx ends: each gate at any of the servers. Nothing else is
// done by hand: what goes on, goes on by itself.
func (l *load) answer(ctx context.Context) {
	for ctx.Err() == nil {
		var page struct {
			Decisions []gate `json:"decisions"`
		}
		if _, err := l.ask(l.any(), http.MethodGet, "/pending?limit=200", nil, &page); err == nil {
			for _, g := range page.Decisions {
				l.decide(g)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *load) any() *machine { return l.machines[rand.IntN(len(l.machines))] }

// decide answers one gate, truly: what became of a call that is in doubt is looked up.
func (l *load) decide(g gate) {
	decision := map[string]any{"action": "approve", "resume": true}
	if strings.Contains(g.Gate.Key, "/in_doubt") {
		effect, err := l.effectOf(g)
		if err != nil {
			return // asked again
		}
		decision["action"] = "retry"
		if l.happened()[effect] > 0 {
			decision["action"], decision["answer"] = "use_result", map[string]any{"exit_code": 0, "stdout": effect + "\n", "stderr": ""}
		}
	}
	status, err := l.ask(l.any(), http.MethodPost, "/runs/"+g.Run+"/gates/"+g.Gate.ID+"/decision", decision, nil)
	for tries := 0; (status == 0 || status >= 500) && tries < 100; tries++ { // it may be stored, and nothing have gone on: the same again does both
		time.Sleep(200 * time.Millisecond)
		status, err = l.ask(l.any(), http.MethodPost, "/runs/"+g.Run+"/gates/"+g.Gate.ID+"/decision", decision, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && decision["action"] != "approve" {
		l.doubts[decision["action"].(string)]++
	}
	if err != nil {
		l.Logf("%+v: %d %v", g, status, err)
	}
}

// effectOf is the effect that a gate in doubt is about, by the inputs of its run.
func (l *load) effectOf(g gate) (string, error) {
	var run struct {
		Inputs struct {
			Key string `json:"key"`
		} `json:"inputs"`
	}
	if _, err := l.ask(l.any(), http.MethodGet, "/runs/"+g.Run+"?include=inputs", nil, &run); err != nil {
		return "", err
	}
	path, _, _ := strings.Cut(g.Gate.Key, "/in_doubt")
	step := path[strings.LastIndex(path, "/")+1:]
	if step == "made" {
		step = "below"
	}
	return run.Inputs.Key + "/" + step, nil
}

// state is where a run stands.
type state struct {
	State   string          `json:"state"`
	Status  string          `json:"status"`
	Outcome string          `json:"outcome"`
	Outputs json.RawMessage `json:"outputs"`
	Error   json.RawMessage `json:"error"`
}

// finish waits until all runs have ended, and compares each end with the undisturbed one.
func (l *load) finish(within time.Duration) {
	l.Helper()
	l.mu.Lock()
	left := map[string]int{}
	for run, key := range l.runs {
		left[run] = key
	}
	l.mu.Unlock()
	for deadline := time.Now().Add(within); len(left) > 0 && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		for run, key := range left {
			var s state
			if _, err := l.ask(l.any(), http.MethodGet, "/runs/"+run, nil, &s); err == nil && (s.Outcome != "" || s.State == "failed" || s.State == "cancelled") {
				delete(left, run)
				l.compare(run, key, s)
			}
		}
	}
	for run, key := range left {
		var s state
		_, err := l.ask(l.any(), http.MethodGet, "/runs/"+run, nil, &s)
		l.Errorf("run %s of key %d is left behind: %s, %s %s %v\n%s", run, key, s.State, s.Status, s.Error, err, l.story(run))
	}
	happened := l.happened()
	for _, key := range l.runs {
		for _, name := range ends[key%len(ends)].effects {
			effect := fmt.Sprintf("k%d/%s", key, name)
			if n := happened[effect]; n != 1 {
				l.Errorf("the effect %s happened %d times", effect, n)
			}
			delete(happened, effect)
		}
	}
	for effect := range happened {
		l.Errorf("the effect %s is of no run that was started", effect)
	}
}

func (l *load) compare(run string, key int, s state) {
	l.Helper()
	want := strings.ReplaceAll(ends[key%len(ends)].outputs, "KEY", fmt.Sprint("k", key))
	if s.State != "completed" || s.Outcome != "success" || string(s.Outputs) != want {
		l.Errorf("run %s of key %d is %s, %s: %s %s", run, key, s.State, s.Outcome, s.Outputs, s.Error)
	}
}

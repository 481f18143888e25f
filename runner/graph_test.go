package runner_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

// graphAt is the graph of a run as of one of its records; 0: of its head.
func (b *bed) graphAt(run tipstaff.ID, at int64) tipstaff.Graph {
	b.t.Helper()
	f, err := tipstaff.GraphOf(cli(), b, run, at)
	b.check(err)
	return f.Graph()
}

func edgeOf(t *testing.T, g tipstaff.Graph, from, to string) tipstaff.GraphEdge {
	t.Helper()
	for _, e := range g.Edges {
		if e.From == from && e.To == to && e.Kind != tipstaff.EdgeRequires && e.Kind != tipstaff.EdgeAfter {
			return e
		}
	}
	t.Fatalf("there is no edge from %s to %s in %+v", from, to, g.Edges)
	return tipstaff.GraphEdge{}
}

func stageOf(t *testing.T, g tipstaff.Graph, name string) tipstaff.GraphStage {
	t.Helper()
	for _, s := range g.Stages {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no stage %s in %+v", name, g.Stages)
	return tipstaff.GraphStage{}
}

// wantNumbers holds a graph against the list of transitions and the Envelope.
func (b *bed) wantNumbers(run tipstaff.ID) {
	b.t.Helper()
	g := b.graphAt(run, 0)
	moves, err := tipstaff.Transitions(cli(), b, run)
	b.check(err)
	type pair struct{ from, to string }
	rows, refused, counts := map[pair]int64{}, map[pair]int64{}, map[pair]int64{}
	for _, m := range moves {
		if strings.HasSuffix(m.Reason, "_limit") {
			refused[pair{m.From, m.To}]++
		} else {
			rows[pair{m.From, m.To}]++
		}
		if m.EdgeCount > 0 { // a fork has the counters of the run that it comes from
			counts[pair{m.From, m.To}] = m.EdgeCount
		}
	}
	for _, m := range g.Moves {
		rows[pair{m.From, m.To}] -= m.Count
	}
	taken := int64(0)
	for _, e := range g.Edges {
		if e.Kind != tipstaff.EdgeRoute && e.Kind != tipstaff.EdgeEntry {
			continue
		}
		p := pair{e.From, e.To}
		if want := max(rows[p], counts[p]); e.Count != want || e.Refusals != refused[p] {
			b.t.Errorf("%v was taken %d times and refused %d, and the transitions say %d and %d", p, e.Count, e.Refusals, want, refused[p])
		}
		delete(rows, p)
		taken += e.Count
	}
	for p, n := range rows {
		if n != 0 {
			b.t.Errorf("%v is a transition %d times and no edge or move of the graph", p, n)
		}
	}
	if taken == 0 {
		b.t.Error("no edge was taken")
	}
	var env struct {
		Iteration int64
		Visits    map[string]int64
		Edges     []struct {
			From, To string
			Count    int64
		} `json:"edge_counts"`
	}
	raw, err := b.Envelope(cli(), run, "")
	b.check(err)
	b.check(json.Unmarshal(raw, &env))
	for _, e := range env.Edges {
		if got := edgeOf(b.t, g, e.From, e.To); got.Count != e.Count {
			b.t.Errorf("%s to %s was taken %d times, and the Envelope says %d", e.From, e.To, got.Count, e.Count)
		}
	}
	for _, s := range g.Stages {
		if s.Visits != env.Visits[s.Name] {
			b.t.Errorf("%s has %d visits, and the Envelope says %d", s.Name, s.Visits, env.Visits[s.Name])
		}
	}
	if g.Iterations != env.Iteration {
		b.t.Errorf("%d iterations, and the Envelope says %d", g.Iterations, env.Iteration)
	}
}

// wantContinued stops the fold at each record of a run and goes on from there.
func (b *bed) wantContinued(run tipstaff.ID) {
	b.t.Helper()
	events := b.events(run)
	whole := b.graphAt(run, 0)
	for at := int64(1); at <= int64(len(events)); at++ {
		f, err := tipstaff.GraphOf(cli(), b, run, at)
		b.check(err)
		if got := f.Graph(); got.Seq != at {
			b.t.Fatalf("as of record %d it is as of %d", at, got.Seq)
		}
		for i := range events[at:] {
			f.Apply(&events[at:][i])
		}
		if diff := cmp.Diff(whole, f.Graph()); diff != "" {
			b.t.Fatalf("stopped at record %d and continued it is another:\n%s", at, diff)
		}
	}
}

const limited = `
name: limited
max_iterations: 9
edge_limits: [{from: critic, to: work, max_count: 2}]
agents:
  - {name: work, default_next: critic, max_visits: 7, scripted: {answers: [{output: {}}], repeat: last}}
  - name: critic
    error_next: end
    scripted: {answers: [{output: {verdict: again}}], repeat: last}
    routing_rules: [{condition: verdict, value: good, target: end}, {condition: verdict, value: again, target: work}]
`

func TestGraphOfALoopThatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, out := b.pipe(limited)
	if out.Bound == "" {
		t.Fatalf("%+v", out)
	}
	b.wantNumbers(run)
	b.wantContinued(run)
	g := b.graphAt(run, 0)
	back := edgeOf(t, g, "critic", "work")
	if !back.Back || back.Count != 2 || back.Limit != 2 || back.Used() != 2 || back.Refused != tipstaff.TransitionEdge || back.Refusals != 1 || back.LastAt.IsZero() {
		t.Errorf("the edge that leads back: %+v", back)
	}
	if len(back.Ways) != 1 || back.Ways[0].Rule != 2 || back.Ways[0].Count != 2 {
		t.Errorf("its ways: %+v", back.Ways)
	}
	if end := edgeOf(t, g, "critic", "end"); len(end.Ways) != 3 || end.Count != 0 || end.Back || end.ErrorOnly() { // a rule, error_next, and nothing said
		t.Errorf("the edge to the end: %+v", end)
	}
	if w := stageOf(t, g, "work"); !w.Entry || w.MaxVisits != 7 || w.Visits != 3 || w.State != "done" {
		t.Errorf("work is %+v", w)
	}
	if g.Last == nil || g.Edges[*g.Last].From != "work" || g.MaxIterations != 9 {
		t.Errorf("%v was taken last, of %d iterations", g.Last, g.MaxIterations)
	}
	// As of its first return the loop was taken once and nothing was refused.
	for _, e := range b.of(run, tipstaff.KindTransition) {
		if m := tipstaff.BodyOf[tipstaff.Transitioned](&e); m.Back() {
			g := b.graphAt(run, e.Seq)
			if back := edgeOf(t, g, "critic", "work"); back.Count != 1 || back.Refused != "" || g.Iterations != 1 {
				t.Errorf("as of record %d: %+v", e.Seq, back)
			}
			if w := stageOf(t, g, "work"); w.State != "pending" || w.Visits != 1 {
				t.Errorf("as of record %d work is %+v", e.Seq, w)
			}
			break
		}
	}
}

// A stage that goes on after its question has taken no edge, although one leads there.
func TestGraphCountsNoEdgeForAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, out := b.pipe(`
name: asks
agents:
  - name: ask
    scripted: {answers: [{output: {risk: 9}}, {output: {again: true}}, {output: {}}], repeat: last}
    routing_rules:
      - {when: "has(output.risk)", target: confirmation}
      - {when: "has(output.again)", target: ask}
`)
	if len(out.Gates) != 1 {
		t.Fatalf("%+v", out)
	}
	if s := stageOf(t, b.graphAt(run, 0), "ask"); s.State != "waiting" {
		t.Errorf("while it asks it is %+v", s)
	}
	_, err := b.decide(run, out.Gates[0], "approve")
	b.check(err)
	if out := b.resume(run); out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	b.wantNumbers(run)
	b.wantContinued(run)
	g := b.graphAt(run, 0)
	if e := edgeOf(t, g, "ask", "ask"); e.Count != 1 || !e.Back {
		t.Errorf("the loop was taken once: %+v", e)
	}
	if len(g.Moves) != 1 || g.Moves[0].Reason != tipstaff.TransitionResume || g.Moves[0].Count != 1 {
		t.Errorf("moves: %+v", g.Moves)
	}
	drawn, err := b.Graph(cli(), run, "mermaid")
	b.check(err)
	if !strings.Contains(string(drawn), "taken 1") || strings.Contains(string(drawn), "taken 2") {
		t.Errorf("drawn:\n%s", drawn)
	}
}

func TestGraphOfARollbackAndAFork(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review)
	cp := b.checkpoints(old)[0].ID
	fork := b.fork(forking{Run: old, Checkpoint: cp})
	back := b.fork(forking{Run: old, Checkpoint: cp, Rollback: true})
	if w := stageOf(t, b.graphAt(fork.ID, 0), "work"); w.State != "done" || w.Visits != 2 { // as often as where it comes from
		t.Errorf("of what the fork inherits work is %+v", w)
	}
	for _, run := range []tipstaff.ID{fork.ID, back.ID} {
		b.resume(run)
		b.wantNumbers(run)
		b.wantContinued(run)
	}
	g := b.graphAt(back.ID, 0)
	if e := edgeOf(t, g, "critic", "work"); e.Count != 2 {
		t.Errorf("counters never go down: %+v", e)
	}
	if s := stageOf(t, g, "critic"); s.State != "done" || s.Visits != 3 {
		t.Errorf("critic is %+v", s)
	}
}

func TestGraphCountsPasses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, out := b.pipe(`
name: passes
max_iterations: 9
max_agent_hops: 30
edge_limits: [{from: test, to: work, max_count: 2, per: pass}]
agents:
  - {name: work, default_next: test, scripted: {answers: [{output: {}}], repeat: last}}
  - name: test
    default_next: judge
    scripted: {answers: [{output: {bad: true}}, {output: {bad: true}}, {output: {}}, {output: {bad: true}}, {output: {}}], repeat: last}
    routing_rules: [{when: "has(output.bad)", target: work}]
  - name: judge
    scripted: {answers: [{output: {again: true}}, {output: {}}], repeat: last}
    routing_rules: [{when: "has(output.again)", target: work}]
`)
	if out.State != tipstaff.Completed {
		t.Fatalf("%+v", out)
	}
	b.wantNumbers(run)
	b.wantContinued(run)
	if e := edgeOf(t, b.graphAt(run, 0), "test", "work"); !e.PerPass || e.Count != 3 || e.Pass != 1 || e.Used() != 1 {
		t.Errorf("three times in all, once since the judge sent it back: %+v", e)
	}
}

// What is handed out is not changed by later records.
func TestGraphIsAValue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.pipe(limited)
	f, err := tipstaff.GraphOf(cli(), b, run, 1)
	b.check(err)
	early := f.Graph()
	events := b.events(run)
	for i := range events {
		f.Apply(&events[i])
	}
	if reflect.DeepEqual(early, f.Graph()) || !reflect.DeepEqual(early, b.graphAt(run, 1)) {
		t.Errorf("the graph of the first record became %+v", early)
	}
}

func TestOnlyPipelinesHaveAGraph(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, _ := b.run(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`)
	if _, err := tipstaff.GraphOf(cli(), b, run, 0); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("the graph of a plan: %v", err)
	}
}

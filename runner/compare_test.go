package runner_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func (b *bed) compared(req tipstaff.CompareRequest) tipstaff.Comparison {
	b.t.Helper()
	got, err := tipstaff.CompareRuns(cli(), b, req)
	b.check(err)
	return got
}

// row finds the row of a path.
func rowOf(t *testing.T, c tipstaff.Comparison, path string) tipstaff.CompareRow {
	t.Helper()
	i := slices.IndexFunc(c.Rows, func(r tipstaff.CompareRow) bool { return r.Path == path })
	if i < 0 {
		t.Fatalf("there is no row %s in %+v", path, c.Rows)
	}
	return c.Rows[i]
}

func valueNames(c tipstaff.Comparison) (names []string) {
	for _, v := range c.Values {
		names = append(names, v.Name)
	}
	return names
}

// A fork is compared with its source from where it leaves it.
func TestCompareAForkWithItsSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review) // it waits for an answer in its second round
	cp := b.checkpoints(old)[0]
	fork := b.fork(forking{Run: old, Checkpoint: cp.ID, Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok"}`)}}).ID
	b.resume(fork)
	seq := b.get(fork).Lineage.Seq
	got := b.compared(tipstaff.CompareRequest{A: old, B: fork})
	if got.Shared != seq || seq == 0 {
		t.Errorf("%d records are shared, and it was forked at %d", got.Shared, seq)
	}
	for _, r := range got.Rows {
		if strings.HasSuffix(r.Path, "#1") {
			t.Errorf("%s was there before the fork", r.Path)
		}
	}
	// The source went round once more, the fork ended at once.
	if got.First == nil || got.Rows[*got.First].Path != "work#2" || !slices.Equal(got.Rows[*got.First].Differs, []string{"only_a"}) {
		t.Errorf("first %v of %+v", got.First, got.Rows)
	}
	if again := b.compared(tipstaff.CompareRequest{A: fork, B: fork}); again.First != nil || len(again.Values) != 0 {
		t.Errorf("compared with itself: %+v", again)
	}
	if early := b.compared(tipstaff.CompareRequest{A: old, B: fork, AtA: seq}); early.First != nil && early.Rows[*early.First].A != nil {
		t.Errorf("as of where it was left the source has nothing beyond: %+v", early.Rows)
	}
	if _, err := tipstaff.CompareRuns(cli(), b, tipstaff.CompareRequest{A: old, B: fork, AtB: 10_000}); tipstaff.CodeOf(err) != tipstaff.CursorBeyondHead {
		t.Errorf("as of a record that is not there: %v", err)
	}
}

func TestCompareRunsOfAProgram(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	doc := func(second, third string) string {
		return `
name: steps
agents:
  - {name: one, default_next: two, scripted: {answers: [{output: {n: 1}}]}}
  - {name: two, default_next: three, scripted: {answers: [` + second + `]}, max_retries: 1, retry_delay_ms: 1}
  - {name: three, scripted: {answers: [` + third + `]}}
`
	}
	base, _ := b.pipe(doc(`{output: {n: 2}}`, `{output: {n: 3}}`), input("raw_input", `"left"`))
	same, _ := b.pipe(doc(`{output: {n: 2}}`, `{output: {n: 3}}`), input("raw_input", `"right"`), func(r *tipstaff.StartRequest) { r.Bounds = tipstaff.Bounds{tipstaff.BoundAgentHops: 7} })
	other, _ := b.pipe(doc(`{output: {n: 9}}`, `{error: {code: "x:bad", message: "no"}}`), input("raw_input", `"left"`))

	got := b.compared(tipstaff.CompareRequest{A: base, B: same})
	if got.Shared != 0 || got.First != nil || rowOf(t, got, "two#1").A.Result == "" {
		t.Errorf("the same was done: %+v", got)
	}
	if want := []string{"input/raw_input", "bound/agent_hops"}; !slices.Equal(valueNames(got), want) {
		t.Errorf("given were other %v, want %v", valueNames(got), want)
	}
	if v := got.Values[0]; string(v.A) != `"left"` || string(v.B) != `"right"` {
		t.Errorf("the inputs: %+v", v)
	}

	got = b.compared(tipstaff.CompareRequest{A: base, B: other})
	if !slices.Equal(valueNames(got), []string{"program"}) {
		t.Errorf("given were other %v", valueNames(got))
	}
	if got.First == nil || !strings.HasPrefix(got.Rows[*got.First].Path, "two#1") {
		t.Errorf("the first difference is %v of %+v", got.First, got.Rows)
	}
	if r := rowOf(t, got, "one#1"); len(r.Differs) != 0 || r.Kind != tipstaff.RowStage || r.A.Attempts != 1 {
		t.Errorf("one: %+v", r)
	}
	if r := rowOf(t, got, "two#1"); !slices.Equal(r.Differs, []string{"result"}) {
		t.Errorf("two: %+v", r)
	}
	if r := rowOf(t, got, "three#1"); !slices.Contains(r.Differs, "state") || r.A.State != "ok" || r.B.State != "x:bad" {
		t.Errorf("three: %+v %+v", r, r.B)
	}
}

// Rows that one run alone has stand where it has them.
func TestComparePlans(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	sleep := func(nodes ...string) string {
		text := "root: {kind: sequential, children: ["
		for _, n := range nodes {
			text += `{id: ` + n + `, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}, `
		}
		return text + "]}"
	}
	x, _ := b.run(sleep("a", "only_x", "b", "c"))
	y, _ := b.run(sleep("a", "b", "only_y", "c"))
	got := b.compared(tipstaff.CompareRequest{A: x, B: y})
	var paths []string
	for _, r := range got.Rows {
		if r.Kind == tipstaff.RowStep || r.Kind == tipstaff.RowCall {
			paths = append(paths, strings.TrimPrefix(r.Path, "root/")+" "+strings.Join(r.Differs, ","))
		}
	}
	if want := []string{"a ", "only_x only_a", "b ", "only_y only_b", "c "}; !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

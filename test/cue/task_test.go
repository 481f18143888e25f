// Package cue_test holds the published schema of tasks and the validator of the product
// against each other. CUE is a dependency of tests alone, so this is a module of its own.
package cue_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	cuejson "cuelang.org/go/encoding/json"

	"github.com/tipstaff/tipstaff/worker"
)

const (
	documents = 12_000
	seed      = 20261115
)

func schema(t *testing.T) (*cue.Context, cue.Value) {
	t.Helper()
	src, err := os.ReadFile("../../schema/task.cue")
	if err != nil {
		t.Fatal(err)
	}
	ctx := cuecontext.New()
	v := ctx.CompileBytes(src, cue.Filename("task.cue"))
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	def := v.LookupPath(cue.ParsePath("#Task"))
	if !def.Exists() {
		t.Fatal("the schema has no #Task")
	}
	return ctx, def
}

func TestSchemaAndValidatorAgree(t *testing.T) {
	ctx, def := schema(t)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed))}
	accepted, refused := 0, 0
	for i := range documents {
		if i%1000 == 0 { // a context keeps all that it has ever built
			ctx, def = schema(t)
		}
		doc := g.task()
		for range i % 3 { // none, one or two faults
			g.mutate(doc)
		}
		src, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		expr, err := cuejson.Extract("task.json", src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		byCUE := def.Unify(ctx.BuildExpr(expr)).Validate(cue.Concrete(true), cue.Final())
		_, problems := worker.ParseTask("task.json", src)
		if (byCUE == nil) != (len(problems) == 0) {
			t.Fatalf("document %d: CUE says %v, the validator %v\n%s", i, byCUE, problems, src)
		}
		if byCUE == nil {
			accepted++
		} else {
			refused++
		}
		if i%3 == 0 && byCUE != nil {
			t.Fatalf("document %d was to be valid: %v\n%s", i, byCUE, src)
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if accepted < documents/3 || refused < documents/3 {
		t.Errorf("of %d documents %d are valid and %d are not: they say little", documents, accepted, refused)
	}
}

// generator makes documents of tasks.
type generator struct{ *rand.Rand }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

var outcomes = []string{"start_failed", "channel", "orphan", "cancelled", "limit", "approval", "paused", "session_conflict", "session_lost",
	"empty", "error", "exit", "truncated", "denied", "no_report", "reported"}

func (g *generator) task() map[string]any {
	status := pick(g, "pending", "in_progress", "paused", "needs_review", "completed", "abandoned")
	doc := map[string]any{
		"id": fmt.Sprintf("%03d", g.IntN(100_000)), "name": g.line(), "description": g.text(), "role": g.name(), "review": pick(g, "none", "person", g.name()),
		"status": status, "iteration": 1 + g.IntN(7), "max_iterations": 1 + g.IntN(100), "revision": 1 + g.IntN(1000),
		"created_at": g.time(), "updated_at": g.time(), "metadata": map[string]any{},
	}
	maybe := func(name string, value any) {
		if g.chance(50) {
			doc[name] = value
		}
	}
	maybe("worker", g.name())
	maybe("parent", "020")
	maybe("last_outcome", pick(g, outcomes...))
	switch status {
	case "in_progress", "paused", "needs_review":
		doc["run_id"], doc["started_at"] = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", g.time()
		maybe("session_id", g.line())
	case "completed", "abandoned":
		doc["completed_at"] = g.time()
		maybe("run_id", "01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
		maybe("started_at", g.time())
	}
	if status == "paused" {
		pause := map[string]any{"reason": pick(g, append([]string{"question", "approval", "in_doubt"}, outcomes...)...)}
		if g.chance(50) {
			pause["question"], pause["options"] = g.line(), []any{"a", "b"}[:g.IntN(3)]
		}
		doc["pause"] = pause
	}
	inputs, outputs, feedback := []any{}, []any{}, []any{}
	for range g.IntN(3) {
		inputs = append(inputs, map[string]any{pick(g, "path", "text"): g.line()})
		out := map[string]any{"kind": pick(g, "file", "data", "verdict"), "iteration": 1, "at": g.time()}
		if out["kind"] == "file" || g.chance(30) {
			out["path"] = "a/b.go"
		}
		if g.chance(50) {
			out["sha256"], out["note"] = "sha256:"+strings.Repeat("0f", 32), g.line()
		}
		outputs = append(outputs, out)
		said := map[string]any{"iteration": 2, "verdict": pick(g, "approved", "rejected"), "text": g.line(), "by": "local:cli", "at": g.time()}
		if said["verdict"] == "approved" && g.chance(50) {
			said["text"] = ""
		}
		feedback = append(feedback, said)
	}
	doc["inputs"], doc["outputs"], doc["feedback"] = inputs, outputs, feedback
	for i := range g.IntN(4) {
		doc["metadata"].(map[string]any)[fmt.Sprint("k", i)] = g.text()
	}
	return doc
}

func (g *generator) name() string {
	return pick(g, "implementer", "a", "re-viewer_2", "z"+strings.Repeat("9", 63))
}

func (g *generator) line() string {
	return pick(g, "x", "a line", "ünïcode ☃", strings.Repeat("é", 120), "tab\there", `"quoted"`, "emoji 👩‍💻")
}

func (g *generator) text() string {
	return pick(g, "", g.line(), "two\nlines\n", strings.Repeat("long ", 200))
}

func (g *generator) time() string {
	return pick(g, "2026-11-15T02:30:00Z", "1970-01-01T00:00:00Z", "2026-02-28T23:59:59.123456789Z", "9999-12-31T00:00:00.1Z", "2024-02-29T12:00:00Z")
}

// odd are values of which most belong nowhere.
func (g *generator) odd() any {
	return pick[any](g, nil, true, "", " ", "x", "two\nlines", "line\u2028break", "\u0085", json.Number("0"), json.Number("-1"), json.Number("1.0"), json.Number("1.5"), json.Number("1e2"),
		json.Number("100"), json.Number("101"), json.Number("9007199254740991"), json.Number("9007199254740992"), []any{}, []any{"x"}, []any{""}, slices.Repeat([]any{"x"}, 10), slices.Repeat([]any{"x"}, 11), []any{json.Number("1")}, map[string]any{}, map[string]any{"path": "x"},
		map[string]any{"path": "x", "text": "y"}, map[string]any{"reason": "question"}, "pending", "in_progress", "paused", "needs_review", "completed", "abandoned", "rejected", "approved",
		"010", "10", "0123456789", "1a0", "Name", "a b", "a"+strings.Repeat("b", 64), strings.Repeat("é", 121), strings.Repeat("x", 201), strings.Repeat("y", 4001), strings.Repeat("z", 262_145),
		"2026-11-15T02:30:00+01:00", "2026-11-15T02:30:00", "2026-11-15 02:30:00Z", "2026-02-30T00:00:00Z", "2026-11-15T24:00:00Z", "2026-11-15T02:30:60Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
		"2026-11-15T02:30:00.1234567890Z", "2026-11-15T02:30:00,5Z", "2026-11-15t02:30:00z", "2026-11-15T02:30:00.Z",
		"01JCQ8R4T5V6W7X8Y9Z0A1B2C3", "01jcq8r4t5v6w7x8y9z0a1b2c3", "81JCQ8R4T5V6W7X8Y9Z0A1B2C3", "01JCQ8R4T5V6W7X8Y9Z0A1B2CI", strings.Repeat("0", 26),
		"sha256:"+strings.Repeat("0f", 32), "sha256:"+strings.Repeat("0F", 32), strings.Repeat("0f", 32), "file", "question", "reported")
}

// mutate changes one thing in a document: it takes a field away, adds one, or gives one
// another value.
func (g *generator) mutate(doc map[string]any) {
	in := doc
	for g.chance(40) { // go deeper
		next := g.inside(in)
		if next == nil {
			break
		}
		in = next
	}
	switch name := g.key(in); {
	case g.chance(15) || name == "":
		in[pick(g, "unknown", "Name", "user", "session_id", "run_id", "pause", "started_at", "completed_at", "parent", "worker", "question", "note", "path", "text")] = g.odd()
	case g.chance(25):
		delete(in, name)
	case name == "metadata" && g.chance(50):
		many := map[string]any{}
		for i := range 63 + g.IntN(3) {
			many[fmt.Sprint(i)] = "v"
		}
		in[name] = many
	case name == "status": // what else is there no longer fits, or does
		in[name] = pick(g, "pending", "in_progress", "paused", "needs_review", "completed", "abandoned", "done")
	default:
		in[name] = g.odd()
	}
}

func (g *generator) key(of map[string]any) string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return pick(g, names...)
}

// inside is an object within another; nil: there is none.
func (g *generator) inside(of map[string]any) map[string]any {
	switch v := of[g.key(of)].(type) {
	case map[string]any:
		return v
	case []any:
		if len(v) > 0 {
			inner, _ := pick(g, v...).(map[string]any)
			return inner
		}
	}
	return nil
}

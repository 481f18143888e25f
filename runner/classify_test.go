package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

// comparer is a workspace without a store.
type comparer struct {
	t   *testing.T
	dir string
	now time.Time
}

func newComparer(t *testing.T) *comparer {
	c := &comparer{t: t, dir: t.TempDir(), now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	c.write("tipstaff.yaml", manifest)
	return c
}

func (c *comparer) write(name, text string) {
	c.t.Helper()
	name = filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *comparer) classify(old, new string, with ...func(*tipstaff.ClassifyRequest)) (tipstaff.Classification, error) {
	const head = "kind: plan\nversion: 1\n"
	req := tipstaff.ClassifyRequest{
		Old: tipstaff.Source{Name: "old.yaml", Text: []byte(head + old)},
		New: tipstaff.Source{Name: "new.yaml", Text: []byte(head + new)},
	}
	for _, f := range with {
		f(&req)
	}
	r := runner.New(runner.Config{Workspace: c.dir, Now: func() time.Time { return c.now }})
	return r.Classify(context.Background(), req)
}

// rules are those that a change meets.
func (c *comparer) rules(old, new string, with ...func(*tipstaff.ClassifyRequest)) []string {
	c.t.Helper()
	found, err := c.classify(old, new, with...)
	if err != nil {
		c.t.Fatalf("%v: %+v", err, err)
	}
	var rules []string
	for _, r := range found.Reasons {
		rules = append(rules, r.Rule)
	}
	return rules
}

func call(tool string) string {
	return "root: {id: a, kind: tool_call, tool: mcp://" + tool + "}\n"
}

func TestClassifyKnowsTheClassesOfTools(t *testing.T) {
	c := newComparer(t)
	c.write("tipstaff.yaml", manifest+"  other: {command: [other], tools: {look: {effect: read}, guess: {}}}\n")
	space := []string{"new_tool_namespace"}
	once := []string{"new_tool_namespace", "hard_constraint_relaxed"} // such a call is new, too
	for _, x := range []struct {
		name, old, new string
		want           []string
	}{
		{"another read tool", call("builtin/read_file@1.0.0"), call("builtin/json_query@1.0.0"), nil},
		{"from reading to writing", call("builtin/read_file@1.0.0"), call("builtin/write_file@1.0.0"), space},
		{"a tool the manifest does not have", call("builtin/read_file@1.0.0"), call("builtin/list_dir@1.0.0"), once},
		{"another pin of a read tool", call("builtin/read_file@1.0.0"), call("builtin/read_file@2.0.0"), nil},
		{"another pin of a once tool", call("builtin/exec@1.0.0"), call("builtin/exec@2.0.0"), once},
		{"a read tool that is not locked", call("other/guess@1.0.0"), call("other/look@1.0.0"), nil},
		{"a tool of which nothing is known", call("other/look@1.0.0"), call("other/guess@1.0.0"), once},
		{"another server", call("builtin/read_file@1.0.0"), call("other/look@1.0.0"), space},
	} {
		t.Run(x.name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, c.rules(x.old, x.new)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is compared need not run here: no agents, no skills, no anchor file.
func TestClassifyComparesWhatCannotRunHere(t *testing.T) {
	c := newComparer(t)
	const step = "root: {id: a, kind: step, agent: nobody, prompt: Think.}\n"
	const child = "root: {id: a, kind: sub_dispatch, skill: skill://ghost@1.0.0, inputs: {x: 1}}\n"
	for _, x := range []struct {
		name, old, new string
		want           []string
	}{
		{"an agent", step, step, nil},
		{"a skill", "skill: skill://ghost@1.0.0\n" + call("builtin/exec@1.0.0"), "skill: skill://ghost@1.0.0\n" + call("builtin/exec@1.0.0"), nil},
		{"a child run", step, child, []string{"new_sub_agent"}},
		{"an anchor", step, "intent: {anchor: true}\n" + step, []string{"anchor_flip"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, c.rules(x.old, x.new)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A plan for a skill may call all that the skill allows.
func TestClassifyCountsTheToolsOfASkill(t *testing.T) {
	c := newComparer(t)
	c.write("skills/look/SKILL.md", "---\nname: look\ndescription: Looks.\n---\nLook.\n")
	c.write("skills/look/skill.yaml", "id: look\nversion: 1.0.0\nverbs: [find]\ninputs: {}\noutputs: {}\ntools: [mcp://builtin/read_file@1.0.0, mcp://builtin/exec@1.0.0]\nsub_skills: none\n")
	bare := call("builtin/read_file@1.0.0")
	for _, x := range []struct {
		name, new string
		want      []string
	}{
		{"known", "skill: skill://look@1.0.0\n" + bare, []string{"new_tool_namespace"}},
		{"narrowed", "skill: skill://look@1.0.0\ntools: [mcp://builtin/read_file@1.0.0]\n" + bare, nil},
		{"of another version, which is not here", "skill: skill://look@2.0.0\n" + bare, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, c.rules(bare, x.new)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClassifyLooksFromNowUnlessToldOtherwise(t *testing.T) {
	c := newComparer(t)
	const gate = "root: {id: a, kind: gate, question: Go?}\n"
	old, new := "intent: {deadline: 2026-03-31}\n"+gate, "intent: {deadline: 2026-04-02}\n"+gate
	if got := c.rules(old, new); got != nil {
		t.Errorf("two days of a month are %v", got)
	}
	late := func(r *tipstaff.ClassifyRequest) { r.Now = time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC) }
	if diff := cmp.Diff([]string{"deadline_shift"}, c.rules(old, new, late)); diff != "" {
		t.Error(diff)
	}
	c.now = time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC)
	if diff := cmp.Diff([]string{"deadline_shift"}, c.rules(old, new)); diff != "" {
		t.Error(diff)
	}
}

func TestClassifyTakesTheManifestThatIsGiven(t *testing.T) {
	c := newComparer(t)
	old, new := call("builtin/read_file@1.0.0"), call("builtin/write_file@1.0.0")
	given := func(text string) func(*tipstaff.ClassifyRequest) {
		return func(r *tipstaff.ClassifyRequest) {
			r.Manifest = &tipstaff.Source{Name: "own.yaml", Text: []byte(text)}
		}
	}
	// The built-in tool's own hints say that it writes: a manifest cannot talk that away.
	bold := given("servers:\n  builtin: {roots: [\".\"], tools: {read_file: {effect: read}, write_file: {effect: read}}}\n")
	if diff := cmp.Diff([]string{"new_tool_namespace"}, c.rules(old, new, bold)); diff != "" {
		t.Error(diff)
	}
	other := given("servers:\n  o: {command: [o], tools: {a: {effect: read}, b: {effect: read}}}\n")
	if got := c.rules(call("o/a@1.0.0"), call("o/b@1.0.0"), other); got != nil {
		t.Errorf("two read tools of the given manifest: %v", got)
	}
	_, err := c.classify(old, new, given("colour: red\n"))
	wantProblems(t, err, "own.yaml:1 field_unknown")
}

func TestClassifyReportsTheProblemsOfBoth(t *testing.T) {
	c := newComparer(t)
	_, err := c.classify("colour: red\n"+call("builtin/read_file@1.0.0"), call("builtin/read_file@latest"))
	wantProblems(t, err, "old.yaml:3 field_unknown", "new.yaml:3 unpinned_tool")
	c.write("tipstaff.yaml", manifest+"bounds: {tool_calls: 10}\n")
	_, err = c.classify("bounds: {tool_calls: 10}\n"+call("builtin/read_file@1.0.0"), "bounds: {tool_calls: 11}\n"+call("builtin/read_file@1.0.0"))
	wantProblems(t, err, "new.yaml:3 bounds_ceiling")
}

func wantProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	var e *tipstaff.Error
	if !errors.As(err, &e) || e.Code != tipstaff.InvalidProgram {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range e.Problems {
		got = append(got, p.File+":"+string(rune('0'+p.Line))+" "+p.Code)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The ceiling of the manifest is the default of a plan that sets no bound.
func TestClassifyComparesWithDefaults(t *testing.T) {
	c := newComparer(t)
	const gate = "root: {id: a, kind: gate, question: Go?}\n"
	for bounds, want := range map[string][]string{
		"bounds: {tool_calls: 220}\n": nil,
		"bounds: {tool_calls: 221}\n": {"budget_delta"},
	} {
		if diff := cmp.Diff(want, c.rules(gate, bounds+gate)); diff != "" {
			t.Errorf("%s%s", bounds, diff)
		}
	}
}

func TestClassifyLeavesNothingBehind(t *testing.T) {
	c := newComparer(t)
	c.rules(call("builtin/read_file@1.0.0"), call("builtin/exec@1.0.0"))
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%d entries beside the manifest: %v", len(entries)-1, entries)
	}
}

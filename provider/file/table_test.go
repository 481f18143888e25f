package file

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

func table(t *testing.T, src string) *Table {
	t.Helper()
	parsed, err := ParseTable("models.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestEntriesByPrefix(t *testing.T) {
	m := table(t, `
version: 1
models:
  "*": {context_window: 1}
  a-*: {context_window: 2}
  a-b*: {context_window: 3}
  a-b: {context_window: 4}
`)
	for model, want := range map[string]int{"x": 1, "a-": 2, "a-x": 2, "a-bc": 3, "a-b": 4} {
		for range 20 { // the order of a map must not matter
			if got := m.Caps(model, false).ContextWindow; got != want {
				t.Fatalf("%s: %d, want %d", model, got, want)
			}
		}
	}
}

func TestPricesAreExact(t *testing.T) {
	m := table(t, `
version: 1
models:
  full: {price: {input: "3", output: "15.5", cache_read: "0.000000001", cache_write: "3.75", cache_write_1h: "6"}}
  bare: {price: {input: "0.10", output: "2"}}
  half: {price: {input: "1", output: "2", cache_write: "1.25"}}
`)
	for _, c := range []struct {
		model string
		long  bool
		want  agent.Price
	}{
		{"full", false, agent.Price{Input: 3e9, Output: 15.5e9, CacheRead: 1, CacheWrite: 3.75e9}},
		{"full", true, agent.Price{Input: 3e9, Output: 15.5e9, CacheRead: 1, CacheWrite: 6e9}},
		{"bare", false, agent.Price{Input: 1e8, Output: 2e9, CacheRead: 1e8, CacheWrite: 1e8}},
		{"half", true, agent.Price{Input: 1e9, Output: 2e9, CacheRead: 1e9, CacheWrite: 1.25e9}},
	} {
		if diff := cmp.Diff(&c.want, m.Caps(c.model, c.long).Price); diff != "" {
			t.Errorf("%s, %v (-want +got):\n%s", c.model, c.long, diff)
		}
	}
}

func TestTablesMergeEntryByEntry(t *testing.T) {
	base := table(t, `
version: 1
date: "2026-01-01"
models:
  a: {context_window: 10, max_output: 5, images: true, structured_output: true, sampling: false, price: {input: "1", output: "2", cache_read: "0.5"}}
  b: {context_window: 20}
`)
	over := table(t, `
version: 1
models:
  a: {price: {input: "7", output: "8"}}
  b: {context_window: 21, max_output: 6, images: true, structured_output: true, sampling: false}
  c: {context_window: 30}
`)
	merged := base.Merge(over)
	if diff := cmp.Diff(agent.Caps{ContextWindow: 10, MaxOutput: 5, Images: true, StructuredOutput: true,
		Price: &agent.Price{Input: 7e9, Output: 8e9, CacheRead: 7e9, CacheWrite: 7e9}}, merged.Caps("a", false)); diff != "" {
		t.Errorf("a (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(agent.Caps{ContextWindow: 21, MaxOutput: 6, Images: true, StructuredOutput: true}, merged.Caps("b", false)); diff != "" {
		t.Errorf("b (-want +got):\n%s", diff)
	}
	if merged.Caps("c", false).ContextWindow != 30 || merged.Date != "2026-01-01" || merged.Sampling("b") || !merged.Sampling("c") {
		t.Errorf("%+v", merged)
	}
	if base.Caps("a", false).Price.Input != 1e9 || len(base.Models) != 2 {
		t.Error("the base was changed")
	}
	if got := (&Table{}).Merge(over).Caps("c", false).ContextWindow; got != 30 {
		t.Errorf("over nothing: %d", got)
	}
}

// That a model does not think is not the same as that nobody knows.
func TestWhatModelsTakeOfThinking(t *testing.T) {
	base := table(t, "version: 1\nmodels: {a: {thinking: [off, low]}, b: {thinking: []}, c*: {thinking: [tokens]}}")
	merged := base.Merge(table(t, "version: 1\nmodels: {a: {thinking: []}, b: {max_output: 5}, d: {thinking: [high]}}"))
	for model, want := range map[string][]string{"a": {}, "b": {}, "c1": {"tokens"}, "d": {"high"}, "e": nil} {
		if diff := cmp.Diff(want, merged.Thinking(model)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", model, diff)
		}
	}
	if diff := cmp.Diff([]string{"off", "low"}, base.Thinking("a")); diff != "" {
		t.Errorf("the base was changed:\n%s", diff)
	}
}

func TestTableProblems(t *testing.T) {
	for _, c := range []struct {
		src  string
		line int
		says string
	}{
		{"version: 9\n", 1, "reads 1"},
		{"version: 1\nmodels:\n  a: {windw: 1}\n", 3, "windw"},
		{"version: 1\nmodels:\n  a: {context_window: -1}\n", 3, "models.a.context_window: context_window is -1"},
		{"version: 1\nmodels:\n  b: {}\n  a: {max_output: 999999999999}\n", 4, "max_output"},
		{"version: 1\nmodels:\n  a*b: {}\n", 3, "ends in *"},
		{"version: 1\nmodels:\n  a: {price: {input: \"1\"}}\n", 3, "price.output"},
		{"version: 1\nmodels:\n  a:\n    price:\n      input: \"1\"\n      output: \"-1\"\n", 6, `"-1" is not a price`},
		{"version: 1\nmodels:\n  a: {price: {input: \"1e3\", output: \"1\"}}\n", 3, "price.input"},
		{"version: 1\nmodels:\n  a: {price: {input: \"1\", output: \"1\", cache_read: free}}\n", 3, "cache_read"},
		{"version: 1\nmodels:\n  a: {price: {input: \"0.0000000001\", output: \"1\"}}\n", 3, "at most 9 places"},
		{"version: 1\nmodels:\n  a: {}\n  a: {}\n", 4, "a"},
		{"version: 1\nmodels:\n  a: {thinking: [low, hard]}\n", 3, "off, low, medium, high or tokens"},
		{"version: 1\nmodels:\n  a: {thinking: low}\n", 3, "must be a list"},
	} {
		_, err := ParseTable("m.yaml", []byte(c.src))
		var e *tipstaff.Error
		if !errors.As(err, &e) || len(e.Problems) == 0 {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if p := e.Problems[0]; p.Line != c.line || !strings.Contains(p.Path+": "+p.Message, c.says) {
			t.Errorf("%q: %+v", c.src, p)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	if diff := cmp.Diff(agent.Caps{ContextWindow: 32_768}, new(Table).Caps("nobody-knows", false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

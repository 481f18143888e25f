package builtin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func queries(ctx context.Context, value, expr string) (string, time.Duration, error) {
	s := New(Options{})
	_, _ = s.cel() // takes a while the first time
	began := time.Now()
	a, err := s.jsonQuery(call{ctx: ctx}, jsonQueryArgs{Value: json.RawMessage(value), Expr: expr})
	return a.text, time.Since(began), err
}

// No expression keeps the processor busy, or the memory full, beyond its bounds.
func TestQueriesAreBounded(t *testing.T) {
	long := `"` + strings.Repeat("a", 1<<20) + `"`
	for name, c := range map[string]struct{ value, expr string }{
		"distinct":       {"1", `lists.range(60000).distinct()`},
		"sets":           {"1", `sets.contains(lists.range(60000), lists.range(60000))`},
		"equivalent":     {"1", `sets.equivalent(lists.range(50000), lists.range(50000))`},
		"intersects":     {"1", `sets.intersects(lists.range(50000), lists.range(50000).map(i, -i - 1))`},
		"range":          {"1", `lists.range(1000000000000)`},
		"replace":        {long, `value.replace("a", value)`},
		"replace of all": {long, `value.replace("", value)`},
		"join":           {long, `lists.range(60000).map(i, "").join(value)`},
		"search":         {long, `value.indexOf(value + "b") + value.lastIndexOf(value.replace("a", "b", 1))`},
		"doubled lists":  {"1", "[[1]]" + strings.Repeat(".map(a, a + a)", 60)},
		"doubled texts":  {`"ab"`, "[value]" + strings.Repeat(".map(a, a + a)", 60)},
		"their size":     {"1", "[[1]]" + strings.Repeat(".map(a, a + a)", 60) + ".map(a, a.size())"},
		"precision":      {"1", `"%.999999999f".format([value])`},
		"nested lists":   {"1", "[[1]]" + strings.Repeat(".map(a, [a, a, a, a, a, a, a, a])", 12)},
	} {
		t.Run(name, func(t *testing.T) {
			text, took, err := queries(t.Context(), c.value, c.expr)
			if err == nil {
				t.Errorf("it gave %d bytes", len(text))
			}
			if took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A query that is cancelled ends, wherever it is.
func TestQueriesEndWhenTheyAreCancelled(t *testing.T) {
	list := "[" + strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",") + "]"
	for name, c := range map[string]struct{ value, expr string }{
		"calls in a row": {list, "[" + strings.TrimSuffix(strings.Repeat("lists.range(1400).distinct(),", 300), ",") + "].size()"},
		"rounds":         {`"` + strings.Repeat("a", 1<<20) + `"`, `lists.range(100000).map(i, value.charAt(i)).size()`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, took, err := queries(ctx, c.value, c.expr)
			if err == nil || took > 3*time.Second {
				t.Errorf("it took %v: %v", took, err)
			}
		})
	}
}

// What is measured gives what it gave.
func TestMeasuredFunctions(t *testing.T) {
	for expr, want := range map[string]string{
		`[1, 2, 1, 3].distinct()`:                         `[1,2,3]`,
		`value.distinct().size()`:                         `2`,
		`[3, 1, 2].sort()`:                                `[1,2,3]`,
		`value.sortBy(v, v)`:                              `["a","a","b"]`,
		`sets.contains([1, 2], [2])`:                      `true`,
		`lists.range(3)`:                                  `[0,1,2]`,
		`"a-b".replace("-", "+")`:                         `"a+b"`,
		`"a-b-c".replace("-", "+", 1)`:                    `"a+b-c"`,
		`value.join("/")`:                                 `"a/b/a"`,
		`value.join()`:                                    `"aba"`,
		`"hello".indexOf("l") + "hello".lastIndexOf("l")`: `5`,
		`[1] + [2]`:                                       `[1,2]`,
		`"a" + "b"`:                                       `"ab"`,
		`value[0].replace("a", value[1])`:                 `"b"`,
	} {
		if got, _, err := queries(t.Context(), `["a", "b", "a"]`, expr); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", expr, got, err, want)
		}
	}
	if _, _, err := queries(t.Context(), `1`, `value.distinct()`); err == nil || !strings.Contains(err.Error(), "no such overload") {
		t.Errorf("of a number: %v", err)
	}
}

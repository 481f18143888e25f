package page

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// storedKinds is the closed list of kinds that a journal may hold, as the root package
// declares it.
func storedKinds(t *testing.T) (all []tipstaff.Kind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Names) != 1 || !strings.HasPrefix(v.Names[0].Name, "Kind") || len(v.Values) != 1 {
			return true
		}
		text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if k := tipstaff.Kind(text); !k.Transient() {
			all = append(all, k)
		}
		return true
	})
	if len(all) < 60 {
		t.Fatalf("only %d kinds were found", len(all))
	}
	return all
}

// memberNames are the names of all members that bodies of records can have.
func memberNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../body*.go")
	if err != nil {
		t.Fatal(err)
	}
	member := regexp.MustCompile(`json:"([a-z_]+)`)
	for _, file := range append(files, "../../flow/body.go", "../../flow/errors.go", "../../task.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range member.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// bodyOf is a body in which every member is the same value. What reads it takes those that
// have the type it wants.
func bodyOf(t *testing.T, names []string, value any) json.RawMessage {
	t.Helper()
	body := map[string]any{}
	for _, name := range names {
		body[name] = value
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestEveryKindHasASentence(t *testing.T) {
	kinds, names := storedKinds(t), memberNames(t)
	for _, k := range kinds {
		tell, ok := tellers[k]
		if !ok {
			t.Errorf("records of %s have no sentence", k)
			continue
		}
		if !slices.Contains(groups, tell.group) {
			t.Errorf("%s is in the group %q", k, tell.group)
		}
		s := sentence(&tipstaff.Event{Kind: k, Body: json.RawMessage(`{}`)}).Text
		if s == "" || strings.Contains(s, "%!") || strings.Contains(s, string(k)) {
			t.Errorf("an empty %s says %q", k, s)
		}
		for _, value := range []any{"word", 7, true, []string{"a", "b"}, map[string]any{"code": "c", "message": "m"}, nil} {
			if s := sentence(&tipstaff.Event{Kind: k, Body: bodyOf(t, names, value)}).Text; s == "" || strings.Contains(s, "%!") {
				t.Errorf("%s says %q", k, s)
			}
		}
		if s := sentence(&tipstaff.Event{Kind: k, Body: json.RawMessage(`"no object"`)}).Text; s == "" {
			t.Errorf("a damaged %s says nothing", k)
		}
	}
	for k := range tellers {
		if !slices.Contains(kinds, k) {
			t.Errorf("%s has a sentence and is not on the list", k)
		}
	}
}

func TestSentences(t *testing.T) {
	for _, c := range []struct {
		kind tipstaff.Kind
		body string
		says string
		bad  bool
		ms   int64
	}{
		{tipstaff.KindIntentFail, `{"reason":"bound_exceeded","bound":"tokens","message":"no more"}`, "The run failed: bound_exceeded, tokens. no more", true, 0},
		{tipstaff.KindEffectFinished, `{"name":"tool.call","attempt":1,"value":1,"ms":12}`, "The call of tool.call succeeded", false, 12},
		{tipstaff.KindEffectFinished, `{"name":"tool.call","attempt":1,"error":{"code":"denied","message":"not that"},"ms":3}`, "The call of tool.call failed: denied. not that", true, 3},
		{tipstaff.KindTransition, `{"from":"critic","to":"work","reason":"edge_limit"}`, "The way from critic to work is closed: edge limit", true, 0},
		{tipstaff.KindTransition, `{"from":"critic","to":"work","reason":"reintent"}`, "The pipeline goes from critic to work (reintent)", false, 0},
		{tipstaff.KindPlanStep, `{"node":"a","status":"refused","error":{"code":"policy","message":"rule 3"}}`, "The node a was refused: policy. rule 3", true, 0},
		{tipstaff.KindBoundRefused, `{"bound":"tool_calls","limit":5,"used":5,"refused":"root/b"}`, "The bound tool calls was reached: 5 of 5 used; refused: root/b", true, 0},
		{tipstaff.KindSetupFinished, `{"phase":"setup","argv":["npm","ci"],"tree":"t","in":"worktree","duration_ms":5}`, "The set-up npm ci succeeded", false, 5},
		{tipstaff.KindSetupFinished, `{"phase":"setup","argv":["npm","ci"],"tree":"t","in":"clean","duration_ms":5}`, "The set-up npm ci for the checks succeeded", false, 5},
		{tipstaff.KindRunParked, `{"gates":["g"]}`, "The run was parked, waiting at 1 gate", false, 0},
	} {
		got := sentence(&tipstaff.Event{Kind: c.kind, Body: json.RawMessage(c.body)})
		if got.Text != c.says || got.Bad != c.bad || got.Took.Milliseconds() != c.ms {
			t.Errorf("%s %s says %+v, want %q", c.kind, c.body, got, c.says)
		}
	}
}

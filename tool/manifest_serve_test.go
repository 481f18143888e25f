package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/tool"
)

func TestServing(t *testing.T) {
	var none *tool.Manifest
	if got := none.Serving(); got.MaxDriving != tool.DefaultMaxDriving || got.Tokens != nil {
		t.Errorf("without a manifest it is %+v", got)
	}
	m, problems := tool.ParseManifest("tipstaff.yaml", []byte(`
serve:
  max_driving: 3
  tokens:
    bob: {token: "$env:BOB", scopes: [read, admin]}
    alice: $env:ALICE
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := tool.ServeConfig{MaxDriving: 3, Tokens: []tool.TokenConfig{{User: "alice", Token: "$env:ALICE"}, {User: "bob", Token: "$env:BOB", Scopes: []string{"read", "admin"}}}}
	if diff := cmp.Diff(want, m.Serving()); diff != "" {
		t.Error(diff)
	}
	tokens, err := m.Serving().Open([]string{"ALICE=secret-of-alice", "BOB=secret-of-bob"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]tipstaff.Token{{User: "alice", Secret: "secret-of-alice"}, {User: "bob", Secret: "secret-of-bob", Scopes: []string{"read", "admin"}}}, tokens); diff != "" {
		t.Error(diff)
	}
	if _, err := m.Serving().Open([]string{"ALICE=secret-of-alice"}); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Errorf("a token that is not set gives %v", err)
	}
}

func TestServingProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		doc, code    string
		line, column int
	}{
		"a token written out":           {"serve:\n  tokens:\n    alice: 0123456789abcdef\n", tool.ProblemCredential, 3, 12},
		"one written out beside scopes": {"serve:\n  tokens:\n    alice: {token: 0123456789abcdef}\n", tool.ProblemCredential, 3, 20},
		"none":                          {"serve:\n  tokens:\n    alice: {scopes: [read]}\n", tool.ProblemMissing, 3, 12},
		"a scope unknown":               {"serve:\n  tokens:\n    alice: {token: $env:A, scopes: [reed]}\n", tool.ProblemRange, 3, 37},
		"no name of a user":             {"serve:\n  tokens:\n    a b: $env:A\n", tool.ProblemField, 3, 5},
		"nobody driven":                 {"serve:\n  max_driving: 0\n", tool.ProblemRange, 2, 16},
		"a field unknown":               {"serve:\n  tokns: {}\n", tool.ProblemField, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := tool.ParseManifest("tipstaff.yaml", []byte(tc.doc))
			if len(problems) != 1 || problems[0].Code != tc.code || problems[0].Line != tc.line || problems[0].Column != tc.column {
				t.Errorf("want %s at %d:%d, got %+v", tc.code, tc.line, tc.column, problems)
			}
		})
	}
}

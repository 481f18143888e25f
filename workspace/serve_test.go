package workspace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/workspace"
)

func TestServing(t *testing.T) {
	var none *workspace.Manifest
	if got := none.Serving(); got.MaxDriving != workspace.DefaultMaxDriving || got.Tokens != nil {
		t.Errorf("without a manifest it is %+v", got)
	}
	m, problems := workspace.Parse("tipstaff.yaml", []byte(`
serve:
  max_driving: 3
  hosts: [tipstaff.example.com, "work.local:8443"]
  tokens:
    bob: {token: "$env:BOB", scopes: [read, admin]}
    alice: $env:ALICE
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := workspace.Serve{MaxDriving: 3, Hosts: []string{"tipstaff.example.com", "work.local:8443"}, Tokens: []workspace.Token{{User: "alice", Token: "$env:ALICE"}, {User: "bob", Token: "$env:BOB", Scopes: []string{"read", "admin"}}}}
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

func TestTokensExpire(t *testing.T) {
	m, problems := workspace.Parse("tipstaff.yaml", []byte("serve: {tokens: {a: {token: $env:A, expires: 2026-12-31}, b: {token: $env:A, expires: '2026-12-31T18:00:00+01:00'}, c: $env:A}}"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	tokens, err := m.Serving().Open([]string{"A=a-secret-of-somebody"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Time{time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 17, 0, 0, 0, time.UTC), {}} {
		if !tokens[i].Expires.Equal(want) {
			t.Errorf("%s expires %v, want %v", tokens[i].User, tokens[i].Expires, want)
		}
	}
}

func TestServingProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		doc, code    string
		line, column int
	}{
		"a token written out":           {"serve:\n  tokens:\n    alice: 0123456789abcdef\n", workspace.CodeCredential, 3, 12},
		"one written out beside scopes": {"serve:\n  tokens:\n    alice: {token: 0123456789abcdef}\n", workspace.CodeCredential, 3, 20},
		"none":                          {"serve:\n  tokens:\n    alice: {scopes: [read]}\n", document.CodeFieldMissing, 3, 12},
		"no time":                       {"serve:\n  tokens:\n    alice: {token: $env:A, expires: tomorrow}\n", document.CodeRange, 3, 37},
		"a scope unknown":               {"serve:\n  tokens:\n    alice: {token: $env:A, scopes: [reed]}\n", document.CodeRange, 3, 37},
		"no name of a user":             {"serve:\n  tokens:\n    a b: $env:A\n", document.CodeFieldUnknown, 3, 5},
		"every host":                    {"serve:\n  hosts: ['*']\n", document.CodeRange, 2, 11},
		"nobody driven":                 {"serve:\n  max_driving: 0\n", document.CodeRange, 2, 16},
		"a field unknown":               {"serve:\n  tokns: {}\n", document.CodeFieldUnknown, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := workspace.Parse("tipstaff.yaml", []byte(tc.doc))
			if len(problems) != 1 || problems[0].Code != tc.code || problems[0].Line != tc.line || problems[0].Column != tc.column {
				t.Errorf("want %s at %d:%d, got %+v", tc.code, tc.line, tc.column, problems)
			}
		})
	}
}

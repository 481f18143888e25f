package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// table is a policy by tool.
type table map[string]Ruling

func (t table) Static(_, tool, _ string) Ruling { return t[tool] }
func (t table) Decide(_, tool, _ string, _ json.RawMessage) Ruling {
	return t[tool]
}

func request(tool, args string) Request {
	return Request{Tool: "worker-claude/" + tool, Args: json.RawMessage(args), ArgsDigest: flow.Digest([]byte(args)), Class: nativeClass("claude", tool)}
}

func TestStricterPolicyCounts(t *testing.T) {
	for _, c := range []struct{ frozen, current, want string }{
		{Allow, Allow, Allow}, {Allow, Ask, Ask}, {Ask, Allow, Ask}, {Ask, Deny, Deny}, {Deny, Allow, Deny},
		{Allow, Depends, Depends}, {Ask, Depends, Depends}, {Deny, Depends, Deny}, {Depends, Deny, Deny}, {Depends, Ask, Depends},
	} {
		one := func(effect, rule string) Rules {
			return table{"Bash": {Effect: effect, Rules: []string{rule}, Digest: rule}}
		}
		p := NewPolicy(PolicyOptions{Frozen: one(c.frozen, "frozen"), Current: func() (Rules, error) { return one(c.current, "current"), nil }, Type: "claude"})
		got := p.Static("worker-claude", "Bash", "once")
		if got.Effect != c.want || got.Effect == c.frozen && got.Rules[0] != "frozen" || got.Effect != c.frozen && got.Digest != "current" {
			t.Errorf("%s and %s: %+v, want %s", c.frozen, c.current, got, c.want)
		}
		if c.frozen == Depends || c.current == Depends {
			continue
		}
		if got := p.Decide(t.Context(), request("Bash", `{}`)); got.Effect != c.want {
			t.Errorf("%s and %s: decided %+v", c.frozen, c.current, got)
		}
	}
	unreadable := NewPolicy(PolicyOptions{Frozen: table{"Bash": {Effect: Allow}}, Current: func() (Rules, error) { return nil, errors.New("torn") }})
	if got := unreadable.Decide(t.Context(), request("Bash", `{}`)); got.Effect != Deny || !strings.Contains(got.Why, "torn") {
		t.Errorf("a policy that cannot be read: %+v", got)
	}
}

func TestGrants(t *testing.T) {
	asks := Ruling{Effect: Ask, Rules: []string{"shell"}, Class: "once", Guards: []string{"g:read"}}
	one, other := request("Bash", `{"command":"ls"}`), request("Bash", `{"command":"rm"}`)
	one.Guards = asks.Guards
	open := func(r Ruling, grants ...Grant) func(Request) string {
		p := NewPolicy(PolicyOptions{Frozen: table{"Bash": r, "Write": r}, Grants: grants, Type: "codex"})
		return func(q Request) string { return p.Decide(context.Background(), q).Effect }
	}
	decide := open(asks, grantFor(one, false))
	if got := []string{decide(other), decide(request("Write", `{"command":"ls"}`)), decide(one), decide(one)}; strings.Join(got, " ") != "ask ask allow ask" {
		t.Errorf("a grant for one use: %v", got)
	}
	decide = open(asks, grantFor(one, false), grantFor(one, false))
	if got := []string{decide(one), decide(one), decide(one)}; strings.Join(got, " ") != "allow allow ask" {
		t.Errorf("two grants: %v", got)
	}
	decide = open(asks, grantFor(one, true))
	if got := []string{decide(one), decide(other), decide(one), decide(request("Write", `{}`))}; strings.Join(got, " ") != "allow allow allow ask" {
		t.Errorf("allow_all: %v", got)
	}
	elsewhere := asks
	elsewhere.Guards = []string{"g:write"}
	if got := open(elsewhere, grantFor(one, true))(one); got != Ask {
		t.Errorf("allow_all of what a guard found to read, and this writes: %s", got)
	}
	raised := asks
	raised.Class = "read"
	if got := open(raised, grantFor(one, true))(one); got != Ask {
		t.Errorf("allow_all of another class: %s", got)
	}
	for _, all := range []bool{true, false} {
		if got := open(Ruling{Effect: Deny, Rules: []string{"new"}, Guards: asks.Guards}, grantFor(one, all))(one); got != Deny {
			t.Errorf("a rule that denies now, against a grant: %s", got)
		}
	}
}

func TestOutsideIsDenied(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "work")
	for _, d := range []string{"work/src/deep", "work/.git/hooks", "work/.github", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"work/out": "../elsewhere", "work/abs": base, "work/dangling": "../elsewhere/new.txt", "work/in": "src", "work/hooks": ".git/hooks",
		"work/src/up": "deep", "loop": "loop", "work/loop": "loop", "same": "work",
	} {
		if err := os.Symlink(target, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path   string
		denied bool
	}{
		{"a.txt", false}, {"src/new/a.go", false}, {dir + "/a.txt", false}, {"in/a.go", false}, {"src/../a.txt", false}, {".github/x", false}, {".gitignore", false},
		{"src/up/../a", false}, {base + "/same/a.txt", false}, {"abs/work/a.txt", false},
		{"../a.txt", true}, {"/etc/passwd", true}, {"out/a.txt", true}, {"abs/a.txt", true}, {"dangling", true}, {"in/../../a", true},
		{".git/config", true}, {".git", true}, {"hooks/pre-commit", true}, {".GIT/config", true}, {"src/../.git/config", true},
		{"loop/a", true}, {"", true}, {"~/.profile", true}, {dir + "2/a", true}, {"nowhere/../../a", true},
	} {
		for tool, argument := range map[string]string{"Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"} {
			p := NewPolicy(PolicyOptions{Frozen: table{tool: {Effect: Allow}}, Type: "claude", Dir: dir})
			args := string(flow.JSON(map[string]string{argument: c.path}))
			if got := p.Decide(t.Context(), request(tool, args)); (got.Effect == Deny) != c.denied || c.denied && got.Rules[0] != ruleOutside {
				t.Errorf("%s %s: %+v", tool, args, got)
			}
		}
	}
	for _, args := range []string{`{}`, `{"file_path":7}`, `{"File_Path":"a.txt"}`} {
		p := NewPolicy(PolicyOptions{Frozen: table{"Edit": {Effect: Allow}}, Type: "claude", Dir: dir})
		if got := p.Decide(t.Context(), request("Edit", args)); got.Effect != Deny {
			t.Errorf("%s: %+v", args, got)
		}
	}
	// A grant does not lead outside, and reading is not the guard's matter.
	q := request("Write", `{"file_path":"../a"}`)
	p := NewPolicy(PolicyOptions{Frozen: table{"Write": {Effect: Ask}, "Read": {Effect: Allow}}, Grants: []Grant{grantFor(q, false)}, Type: "claude", Dir: dir})
	if got := p.Decide(t.Context(), q); got.Effect != Deny {
		t.Errorf("granted: %+v", got)
	}
	if got := p.Decide(t.Context(), request("Read", `{"file_path":"/etc/passwd"}`)); got.Effect != Allow {
		t.Errorf("reading: %+v", got)
	}
}

// A rule that names a command decides call by call. Claude's hook is asked about each. A CLI that
// can ask nobody is refused where the rule would have to decide; elsewhere it starts no command,
// or the rule is told as one that does not hold.
func TestRulesThatNameACommand(t *testing.T) {
	shells := map[string]string{"claude": "Bash", "codex": "command_execution", "gemini": "run_shell_command", "opencode": "bash", "cursor": "shell"}
	const (
		asks, no, told, refused = "its hook asks", "no command", "the rule does not hold, which is told", "refused"
	)
	for typ, want := range map[string][3]string{ // auto, read_only, write
		"claude":   {asks, no, told},
		"codex":    {refused, told, told},
		"gemini":   {refused, no, no},
		"opencode": {refused, no, no},
		"cursor":   {refused, no, told},
	} {
		for i, posture := range []Posture{Auto, ReadOnly, Write} {
			b := newBed(t, typ)
			policy := ruled{}
			for name := range allowAll {
				policy[name] = Ruling{Effect: Allow, Rules: []string{"all"}}
			}
			policy[shells[typ]] = Ruling{Effect: Depends, Rules: []string{"tests"}}
			s, unenforced, err := b.worker().take(posture, policy)
			got := fmt.Sprintf("hook %v, may %v, unenforced %v, %v", s.hook, s.may, unenforced, err)
			switch {
			case err != nil && strings.Contains(err.Error(), "tests: depends "+shells[typ]):
				got = refused
			case slices.Contains(unenforced, "tests: depends "+shells[typ]):
				got = told
			case s.hook && !s.may[shells[typ]]:
				got = asks
			case !slices.Contains(s.open, execs) && !s.may[shells[typ]]:
				got = no
			}
			if got != want[i] {
				t.Errorf("%s, %s: %s; want %s", typ, posture, got, want[i])
			}
		}
	}
}

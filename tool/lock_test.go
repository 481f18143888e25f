package tool_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// listing is what a server with these tools says of itself under b's manifest.
func listing(b *bench, s *wireServer) *tool.Listing {
	b.Helper()
	m := tool.NewManager(b.manifest, map[string]tool.Server{"wire": tool.MCP(s.dialIn)})
	defer m.Close()
	x, err := m.List(context.Background(), "wire")
	if err != nil {
		b.Fatal(err)
	}
	return x
}

// lockOf is the lock that accepting a server as it is gives.
func lockOf(b *bench, s *wireServer) *tool.Lock {
	b.Helper()
	return new(tool.Lock).With("wire", listing(b, s).Locked())
}

func lockText(t testing.TB, l *tool.Lock) string {
	t.Helper()
	data, err := l.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wireServerOf(tools ...string) *wireServer {
	s := okServer(tools...)
	s.version = "1.0.0"
	return s
}

func twoTools() map[string]workspace.Tool {
	return map[string]workspace.Tool{"echo": {}, "act": {}}
}

func TestLockIsSortedIndentedJSON(t *testing.T) {
	b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {}})
	definition := `{"inputSchema":{"properties":{"to":{"type":"string"}},"required":["to"],"type":"object"},"name":"act"}`
	sum := sha256.Sum256([]byte(definition))
	want := `{
  "servers": {
    "wire": {
      "tools": {
        "act": {
          "definition": {
            "inputSchema": {
              "properties": {
                "to": {
                  "type": "string"
                }
              },
              "required": [
                "to"
              ],
              "type": "object"
            },
            "name": "act"
          },
          "digest": "sha256:` + hex.EncodeToString(sum[:]) + `"
        }
      },
      "version": "1.0.0"
    }
  },
  "version": 1
}
`
	if diff := cmp.Diff(want, lockText(t, lockOf(b, wireServerOf(onceTool)))); diff != "" {
		t.Error(diff)
	}
}

func TestLockReadsWhatItWrote(t *testing.T) {
	b := wireBench(t, okServer(echoTool, onceTool), twoTools())
	l := lockOf(b, wireServerOf(echoTool, onceTool))
	l = l.With("other", tool.LockedServer{Version: "v2 beta", PackageDigest: "sha256:" + strings.Repeat("a", 64), Tools: l.Servers["wire"].Tools})
	text := lockText(t, l)
	back, err := tool.ParseLock([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.Servers, back.Servers); diff != "" {
		t.Error(diff)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		t.Fatal(err)
	}
	again, err := tool.ParseLock(compact.Bytes())
	if err != nil || lockText(t, again) != text {
		t.Errorf("another layout is another lock: %v", err)
	}
}

func TestLockThatCannotBeTrusted(t *testing.T) {
	b := wireBench(t, okServer(echoTool, onceTool), twoTools())
	text := lockText(t, lockOf(b, wireServerOf(echoTool, onceTool)))
	replace := func(old, now string) string { return strings.Replace(text, old, now, 1) }
	for name, c := range map[string]struct{ lock, says string }{
		"altered definition":        {replace(`"readOnlyHint": true`, `"readOnlyHint": false`), "wire/\"echo\": its definition has digest"},
		"altered digest":            {replace(`"digest": "sha256:`, `"digest": "sha256:0`), "its definition has digest"},
		"renamed tool":              {replace(`"echo": {`, `"ecco": {`), "its definition names"},
		"unknown member of a tool":  {replace(`"digest":`, `"trusted": true, "digest":`), "unknown field"},
		"unknown member of servers": {replace(`"version": "1.0.0"`, `"version": "1.0.0", "pinned": 1`), "unknown field"},
		"unknown member":            {replace(`"servers"`, `"note": "", "servers"`), "unknown field"},
		"member in another case":    {replace(`"version": 1`, `"Version": 1`), "do not belong there"},
		"null":                      {replace(`"version": "1.0.0"`, `"version": null`), "do not belong there"},
		"repeated member":           {replace(`"version": 1`, `"version": 1, "version": 1`), "stands twice"},
		"repeated definition":       {replace(`"digest":`, `"definition": {"name": "echo"}, "digest":`), "stands twice"},
		"builtin":                   {replace(`"wire"`, `"builtin"`), "binary locks"},
		"impossible server":         {replace(`"wire"`, `"../wire"`), "cannot name a server"},
		"package digest":            {replace(`"version": "1.0.0"`, `"version": "1.0.0", "package_digest": "md5:1"`), "package_digest"},
		"newer version":             {replace(`"version": 1`, `"version": 2`), "version 2"},
		"merge conflict":            {replace("  \"servers\"", "<<<<<<< ours\n  \"servers\""), "line 2"},
		"cut":                       {text[:len(text)/2], "line"},
		"longer":                    {text + "{}", "after top-level value"},
		"empty":                     {"", "unexpected end"},
		"null alone":                {"null", "version 0"},
		"list":                      {"[]", "the value is a list where an object belongs"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.lock == text {
				t.Fatal("nothing was altered")
			}
			_, err := tool.ParseLock([]byte(c.lock))
			var untrusted *tool.LockError
			if !errors.As(err, &untrusted) {
				t.Fatalf("got %v", err)
			}
			contains(t, err.Error(), c.says)
		})
	}
}

func TestLockFile(t *testing.T) {
	b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {}})
	dir := t.TempDir()
	none, err := tool.ReadLock(dir)
	if err != nil || len(none.Servers) != 0 {
		t.Fatalf("without a file: %+v, %v", none, err)
	}
	l := none.With("wire", listing(b, wireServerOf(onceTool)).Locked())
	if err := l.Write(dir); err != nil {
		t.Fatal(err)
	}
	back, err := tool.ReadLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l.Servers, back.Servers); diff != "" {
		t.Error(diff)
	}
	if err := none.Write(dir); !errors.Is(err, tool.ErrLockMoved) {
		t.Errorf("a lock made from another was written: %v", err)
	}
	if err := back.With("wire", tool.LockedServer{}).Write(dir); err != nil {
		t.Fatal(err)
	}
	empty, err := tool.ReadLock(dir)
	if err != nil || len(empty.Servers) != 0 {
		t.Errorf("got %+v, %v", empty, err)
	}
	onlyLock(t, dir)
}

// onlyLock fails if something else than the lock was left in a folder.
func onlyLock(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != tool.LockName {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestLockFileThatIsALinkIsRefused(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	const before = "do not touch"
	if err := os.WriteFile(elsewhere, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, tool.LockName)); err != nil {
		t.Fatal(err)
	}
	var untrusted *tool.LockError
	if _, err := tool.ReadLock(dir); !errors.As(err, &untrusted) {
		t.Errorf("read through a link: %v", err)
	}
	if err := new(tool.Lock).Write(dir); !errors.As(err, &untrusted) {
		t.Errorf("written through a link: %v", err)
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != before {
		t.Errorf("the file is now %q, %v", text, err)
	}
	onlyLock(t, dir)
}

func TestDamagedLockFileNamesItself(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "{", `{"version":1}x`} {
		if err := os.WriteFile(filepath.Join(dir, tool.LockName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := tool.ReadLock(dir)
		var untrusted *tool.LockError
		if !errors.As(err, &untrusted) {
			t.Fatalf("%q: %v", text, err)
		}
		contains(t, err.Error(), filepath.Join(dir, tool.LockName))
	}
}

// TestChangesMemberByMember: every part of a definition is told apart, and told
// as it was and as it is.
func TestChangesMemberByMember(t *testing.T) {
	b := wireBench(t, okServer(echoTool), map[string]workspace.Tool{"echo": {}})
	l := lockOf(b, wireServerOf(echoTool))
	changed := func(old, now string) *wireServer {
		text := strings.Replace(echoTool, old, now, 1)
		if text == echoTool {
			t.Fatalf("%s is not there", old)
		}
		return wireServerOf(text)
	}
	type pin struct{ Tool, Kind, Member, Was, Now string }
	later := wireServerOf(echoTool)
	later.version = "1.0.1"
	for name, c := range map[string]struct {
		server *wireServer
		want   []pin
	}{
		"nothing":     {wireServerOf(echoTool), nil},
		"layout":      {wireServerOf(strings.ReplaceAll(echoTool, ",", " ,\t")), nil},
		"description": {changed(`"name"`, `"description":"new","name"`), []pin{{"echo", "changed", "/description", "", `"new"`}}},
		"schema":      {changed(`"number"`, `"integer"`), []pin{{"echo", "changed", "/inputSchema/properties/n/type", `"number"`, `"integer"`}}},
		"property":    {changed(`"n":{"type":"number"}`, `"a/b":{"type":"number"}`), []pin{{"echo", "changed", "/inputSchema/properties/a~1b", "", `{"type":"number"}`}, {"echo", "changed", "/inputSchema/properties/n", `{"type":"number"}`, ""}}},
		"annotation": {changed(`"readOnlyHint":true`, `"readOnlyHint":false`), []pin{
			{"echo", "changed", "class", `"read"`, `"once"`}, {"echo", "changed", "/annotations/readOnlyHint", "true", "false"}}},
		"_meta":   {changed(`"_meta":{"k":1}`, `"_meta":{"k":2}`), []pin{{"echo", "changed", "/_meta/k", "1", "2"}}},
		"unknown": {changed(`"big":1`, `"big":[1]`), []pin{{"echo", "changed", "/x-unknown/big", "1", "[1]"}}},
		"version": {later, []pin{{"", "changed", "version", `"1.0.0"`, `"1.0.1"`}}},
		"gone":    {wireServerOf(onceTool), []pin{{"echo", "removed", "", "definition", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []pin
			for _, p := range listing(b, c.server).Changes(b.manifest, l) {
				if p.Kind == tipstaff.PinRemoved && p.Was != nil {
					p.Was = json.RawMessage("definition")
				}
				got = append(got, pin{p.Tool, p.Kind, p.Member, string(p.Was), string(p.Now)})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := listing(b, wireServerOf(echoTool)).Changes(b.manifest, nil); len(got) != 1 || got[0].Kind != tipstaff.PinAdded || got[0].Now == nil {
		t.Errorf("a new tool: %+v", got)
	}
}

func TestListingKnowsWhatIsMissingExtraAndBroken(t *testing.T) {
	b := wireBench(t, okServer(echoTool), map[string]workspace.Tool{"echo": {}, "act": {}, "bad": {}})
	x := listing(b, wireServerOf(echoTool, `{"name":"bad","inputSchema":{"$ref":"#"}}`, `{"name":"more","inputSchema":{"type":"object"}}`))
	if len(x.Tools) != 1 || cmp.Diff([]string{"act"}, x.Missing) != "" || cmp.Diff([]string{"more"}, x.Extra) != "" || x.Broken["bad"] == "" {
		t.Errorf("got %+v", x)
	}
	if more := x.Undeclared("more"); more.Class != "once" || more.ClassFrom != "default" || more.Lock != tipstaff.ToolUndeclared || more.Digest == "" || more.Trouble != "" {
		t.Errorf("what is not declared is %+v", more)
	}
	if held := x.Locked().Tools; len(held) != 1 || held["echo"].Digest == "" {
		t.Errorf("locked %+v", held)
	}
}

// TestLockedRegistryConnectsToNothing: what the lock holds can be asked about
// although no server is there.
func TestLockedRegistryConnectsToNothing(t *testing.T) {
	b := wireBench(t, okServer(echoTool, onceTool), twoTools())
	l := lockOf(b, wireServerOf(echoTool))
	r := tool.NewLockedRegistry(b.manifest, l)
	live, err := b.gate.Tools.Lookup("mcp://wire/echo@1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Lookup("mcp://wire/echo@1.0.0")
	if err != nil || d.Digest != live.Digest || d.Class != live.Class || d.Timeout != live.Timeout {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := r.Lookup("mcp://wire/echo@" + live.Digest); err != nil {
		t.Errorf("by digest: %v", err)
	}
	for uri, code := range map[string]string{
		"mcp://wire/act@1.0.0":   tool.CodeUnlocked,
		"mcp://wire/echo@1.0.1":  tool.CodePinMismatch,
		"mcp://wire/none@1.0.0":  tool.CodeUnknown,
		"mcp://other/echo@1.0.0": tool.CodeUnknown,
	} {
		_, err := r.Lookup(uri)
		wantCode(t, code, nil, err)
	}
	held := r.Withhold("wire", &flow.Error{Code: tool.CodePackageChanged})
	_, err = held.Lookup("mcp://wire/echo@1.0.0")
	wantCode(t, tool.CodePackageChanged, nil, err)
	_, err = held.Lookup("mcp://wire/act@1.0.0")
	wantCode(t, tool.CodeUnlocked, nil, err)
	if _, err := r.Lookup("mcp://wire/echo@1.0.0"); err != nil {
		t.Errorf("the registry it was made from changed: %v", err)
	}
}

func TestBuiltinIsLockedByTheBinary(t *testing.T) {
	b := newBench(t, everything)
	r := tool.NewLockedRegistry(b.manifest, nil)
	want, err := b.gate.Tools.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Freeze()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the binary says %s, %v", got, err)
	}
}

// TestLockOfNowTightens: a run has frozen a tool; what the lock says by now counts
// all the same, and nothing is sent.
func TestLockOfNowTightens(t *testing.T) {
	other := strings.Replace(onceTool, `"name"`, `"description":"new","name"`, 1)
	for name, c := range map[string]struct {
		lock func(b *bench) *tool.Lock
		code string // "": it is sent
	}{
		"the same":         {func(b *bench) *tool.Lock { return lockOf(b, wireServerOf(onceTool)) }, ""},
		"withdrawn":        {func(b *bench) *tool.Lock { return new(tool.Lock) }, tool.CodeUnlocked},
		"accepted another": {func(b *bench) *tool.Lock { return lockOf(b, wireServerOf(other)) }, tool.CodeDefinitionChanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := wireServerOf(onceTool)
			b := wireBench(t, s, map[string]workspace.Tool{"act": {MaxResult: 1000}})
			b.manager.Hold(c.lock(b))
			value, err := b.try(context.Background(), wireAttempt("act", flow.Once, `{"to":"x"}`))
			if c.code == "" {
				if err != nil || s.called() != 1 {
					t.Errorf("got %v after %d calls", err, s.called())
				}
				return
			}
			wantCode(t, c.code, value, err)
			if s.called() != 0 {
				t.Error("the tool was called")
			}
		})
	}
}

// TestAnotherVersionBlocks: with a digest as pin the version is not in the tipstaff.ToolURI,
// and counts nevertheless.
func TestAnotherVersionBlocks(t *testing.T) {
	s := wireServerOf(onceTool)
	b := wireBench(t, s, map[string]workspace.Tool{"act": {MaxResult: 1000}})
	uri := "mcp://wire/act@" + b.gate.Tools.Definitions()[0].Digest
	b.gate.AllowList = []string{uri}
	s.version = "1.0.1"
	a := flow.Attempt{Class: flow.Once, Input: flow.JSON(tool.Input{URI: uri, Args: json.RawMessage(`{"to":"x"}`)})}
	value, err := b.try(context.Background(), a)
	e := wantCode(t, tool.CodeDefinitionChanged, value, err)
	contains(t, string(e.Detail), `{"member":"version","was":"1.0.0","now":"1.0.1"}`)
	if s.called() != 0 {
		t.Error("the tool was called")
	}
}

// TestDifferenceInARecordIsBounded: the server decides how much changes, not how
// much is stored.
func TestDifferenceInARecordIsBounded(t *testing.T) {
	grown := make([]string, 500)
	for i := range grown {
		grown[i] = `"m` + strings.Repeat("x", i) + `":"` + strings.Repeat("y", 400) + `"`
	}
	s := wireServerOf(onceTool)
	b := wireBench(t, s, map[string]workspace.Tool{"act": {}})
	s.tools = listOf(strings.Replace(onceTool, `"name"`, strings.Join(grown, ",")+`,"name"`, 1))
	value, err := b.try(context.Background(), wireAttempt("act", flow.Once, `{"to":"x"}`))
	e := wantCode(t, tool.CodeDefinitionChanged, value, err)
	if size := len(e.Detail) + len(e.Message); size > 32<<10 {
		t.Errorf("the refusal has %d bytes", size)
	}
	contains(t, e.Message, "and 480 more")
}

func TestExplainTellsEveryCheck(t *testing.T) {
	b := wireBench(t, okServer(echoTool, onceTool), twoTools())
	l := lockOf(b, wireServerOf(onceTool))
	r := tool.NewLockedRegistry(b.manifest, l)
	g := tool.NewGate([]string{"mcp://wire/act@1.0.0", "mcp://wire/echo@1.0.0", "mcp://wire/act@2.0.0"}, b.manifest, r)
	for _, c := range []struct {
		uri, args string
		allow     []flow.Class
		rule      policy.Action
		checks    string // those that passed, then the code of the one that did not
		do        string
		outcomes  string // literal, referenced, agent
	}{
		{"mcp://x/y@1.0.0", `{}`, nil, policy.Allow, "undeclared_tool", "deny", "deny deny deny"},
		{"mcp://wire/echo@1.0.0", `{}`, nil, policy.Allow, "declared known unlocked_tool", "deny", "deny deny deny"},
		{"mcp://wire/act@2.0.0", `{}`, nil, policy.Allow, "declared known pin_mismatch", "deny", "deny deny deny"},
		{"mcp://wire/act@1.0.0", `{}`, nil, policy.Allow, "declared known locked invalid_arguments", "deny", "deny deny deny"},
		{"mcp://wire/act@1.0.0", `{"to":"x"}`, nil, policy.Allow, "declared known locked arguments effect_denied", "deny", "deny deny deny"},
		{"mcp://wire/act@1.0.0", `{"to":"x"}`, []flow.Class{flow.Once}, policy.Deny, "declared known locked arguments effect guards policy_denied", "deny", "deny deny deny"},
		{"mcp://wire/act@1.0.0", `{"to":"x"}`, []flow.Class{flow.Once}, policy.Ask, "declared known locked arguments effect guards policy", "ask", "ask ask ask"},
		{"mcp://wire/act@1.0.0", `{"to":"x"}`, []flow.Class{flow.Once}, policy.Allow, "declared known locked arguments effect guards policy", "allow", "allow allow allow"},
		{"mcp://wire/act@1.0.0", `{"to":"x"}`, []flow.Class{flow.Once}, 9, "declared known locked arguments effect guards policy", "ask", "allow ask ask"},
	} {
		b.manifest.AllowedEffects = c.allow
		g.Policy = new(policy.Policy)
		if c.rule != 9 {
			g.Policy = rules(b, "r", "wire/*", c.rule)
		}
		e := g.Explain(c.uri, json.RawMessage(c.args))
		var checks, outcomes []string
		for _, k := range e.Checks {
			if k.OK {
				checks = append(checks, k.Check)
			} else {
				checks = append(checks, k.Code)
			}
		}
		for _, o := range e.Outcomes {
			outcomes = append(outcomes, o.Do)
		}
		if got := strings.Join(checks, " "); got != c.checks {
			t.Errorf("%s %s: checks %s, want %s", c.uri, c.args, got, c.checks)
		}
		if got := strings.Join(outcomes, " "); got != c.outcomes || e.Do != c.do {
			t.Errorf("%s %s: %s, %s; want %s, %s", c.uri, c.args, e.Do, got, c.do, c.outcomes)
		}
		if strings.HasSuffix(c.checks, "policy") || strings.HasSuffix(c.checks, "policy_denied") {
			if e.Rule == "" || e.PolicyDigest != g.Policy.Digest() || (c.rule != 9) != (len(e.Rules) == 1) {
				t.Errorf("%s: rule %q of %q, matching %v", c.checks, e.Rule, e.PolicyDigest, e.Rules)
			}
		}
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`{"version":1,"servers":{}}`))
	f.Add([]byte(`{"version":1,"servers":{"a":{"version":"1.0.0","tools":{}}}}`))
	f.Add([]byte(`{"servers":{"a":{"tools":{"t":{"definition":{"name":"t"},"digest":"sha256:2e2c7ab6d4a3b5b4d1b0d3c9b6d5b6c1a6b6e4a9c9e6b3d0b5f6a7c8d9e0f1a2"}},"version":""}},"version":1}`))
	f.Add([]byte(`{"version":1,"servers":{"builtin":{"version":"1.0.0","tools":{}}}}`))
	f.Add([]byte(`{"version":1.0e0,"servers":null}`))
	definition := []byte(`{"name":"t","inputSchema":{"type":"object"}}`)
	whole, err := new(tool.Lock).With("a", tool.LockedServer{Version: "1", Tools: map[string]tool.LockedTool{"t": {Definition: definition}}}).Bytes()
	if err != nil {
		f.Fatal(err)
	}
	sum := sha256.Sum256([]byte(`{"inputSchema":{"type":"object"},"name":"t"}`))
	f.Add(bytes.Replace(whole, []byte(`"digest": ""`), []byte(`"digest": "sha256:`+hex.EncodeToString(sum[:])+`"`), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := tool.ParseLock(data)
		if err != nil {
			return
		}
		for server, s := range l.Servers {
			if server == "builtin" {
				t.Error("builtin is in a lock")
			}
			for name, held := range s.Tools {
				sum := sha256.Sum256(held.Definition)
				if held.Digest != "sha256:"+hex.EncodeToString(sum[:]) {
					t.Errorf("%s/%s was read with another's digest", server, name)
				}
			}
		}
		text := lockText(t, l)
		back, err := tool.ParseLock([]byte(text))
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v\n%s", err, text)
		}
		if diff := cmp.Diff(l.Servers, back.Servers); diff != "" {
			t.Error(diff)
		}
	})
}

// A tool that its server no longer lists is told as that: another of the server's tools
// is no correction of its name.
func TestDroppedToolIsToldAsDropped(t *testing.T) {
	s := okServer(echoTool, onceTool)
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}, "act": {MaxResult: 1000}})
	s.tools = listOf(onceTool)
	value, err := b.try(context.Background(), wireAttempt("echo", flow.Read, `{}`))
	e := wantCode(t, tool.CodeUnknown, value, err)
	if !strings.Contains(e.Message, "the server does not list wire/echo, which the manifest declares") ||
		!strings.Contains(e.Message, "`tipstaff tools pin wire`") || strings.Contains(e.Message, "did you mean") {
		t.Error(e.Message)
	}
}

// Once the new definition was accepted, to look at the difference again helps nobody: a
// run that was made with the old one has to be made anew.
func TestAcceptedChangeNeedsANewRun(t *testing.T) {
	s := okServer(echoTool)
	b := wireBench(t, s, map[string]workspace.Tool{"echo": {MaxResult: 1000}})
	frozen, err := tool.NewRegistry(b.manifest, b.servers)
	if err != nil {
		t.Fatal(err)
	}
	gate := tool.NewGate(b.gate.AllowList, b.manifest, frozen)
	s.tools = listOf(strings.Replace(echoTool, `"big":1`, `"big":2`, 1))
	for pinned, want := range map[bool]string{false: "`tipstaff tools pin wire` shows it", true: "start a new run"} {
		manager := tool.NewManager(b.manifest, b.servers)
		if pinned {
			x, err := manager.List(context.Background(), "wire")
			if err != nil {
				t.Fatal(err)
			}
			manager.Hold((&tool.Lock{}).With("wire", x.Locked()))
		}
		_, err := manager.Activity(gate).Run(context.Background(), wireAttempt("echo", flow.Read, `{}`))
		if e := wantCode(t, tool.CodeDefinitionChanged, nil, err); !strings.HasSuffix(e.Message, want) {
			t.Errorf("pinned %v: %s", pinned, e.Message)
		}
		manager.Close()
	}
}

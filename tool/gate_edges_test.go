package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

func edgeGate(t *testing.T, p *policy.Policy) *Gate {
	t.Helper()
	g, err := NewGateFor([]Entry{{URI: "mcp://s/act@1.0.0", Server: "s", Name: "act", Version: "1.0.0",
		Raw: json.RawMessage(`{"name":"act","inputSchema":{"type":"object"}}`)}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// At the moment of dispatch there is no third answer: what is not allowed is denied,
// and says why.
func TestAdmitAllowsOrDenies(t *testing.T) {
	good := Input{URI: "mcp://s/act@1.0.0", By: ByAcceptance}
	for name, c := range map[string]struct {
		in   Input
		code string
	}{
		"accepted":            {good, ""},
		"nobody was asked":    {Input{URI: good.URI}, CodePolicyDenied},
		"undeclared":          {Input{URI: "mcp://s/other@1.0.0", By: ByAcceptance}, CodeUndeclared},
		"another definition":  {Input{URI: good.URI, By: ByAcceptance, Definition: "sha256:other"}, CodeDefinitionChanged},
		"other arguments":     {Input{URI: good.URI, By: ByAcceptance, ArgsDigest: "sha256:other"}, CodeGuardRefused},
		"those arguments":     {Input{URI: good.URI, By: ByAcceptance, ArgsDigest: flow.Digest([]byte("{}"))}, ""},
		"guards found others": {Input{URI: good.URI, By: ByAcceptance, Facts: "sha256:other"}, CodeGuardRefused},
	} {
		v := edgeGate(t, nil).Admit(c.in, policy.Run{})
		want := policy.Allow
		if c.code != "" {
			want = policy.Deny
		}
		if v.Do != want || (v.Err != nil) != (c.code != "") || v.Err != nil && v.Err.Code != c.code {
			t.Errorf("%s: %v, %v; want %v %s", name, v.Do, v.Err, want, c.code)
		}
	}
}

// The arguments of a call that brings none are {}; its digests are of what is sent.
func TestVerdictNamesWhatIsSent(t *testing.T) {
	v := edgeGate(t, nil).Ask(Request{URI: "mcp://s/act@1.0.0", Agent: true})
	if string(v.Args) != "{}" || v.ArgsDigest() != flow.Digest([]byte("{}")) || v.FactsDigest() != "" {
		t.Errorf("%s, %s, facts %q", v.Args, v.ArgsDigest(), v.FactsDigest())
	}
	var subject struct {
		URI, ToolDigest, Rule string
		Facts                 map[string]any
	}
	if err := json.Unmarshal(v.Subject, &subject); err != nil || subject.URI != "mcp://s/act@1.0.0" || subject.Rule != policy.NoMatch || subject.Facts == nil {
		t.Errorf("asked about %s, %v", v.Subject, err)
	}
	v.Facts = json.RawMessage(`{"sql":{}}`)
	if v.FactsDigest() != flow.Digest(v.Facts) {
		t.Error("the digest of facts is not theirs")
	}
}

// Who is asked: acceptance covers a call that no rule asks about, unless it is an
// agent's, or once with arguments that nobody has seen.
func TestWhatMeetsAQuestion(t *testing.T) {
	const gate = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"
	for _, c := range []struct {
		call  Request
		class flow.Class
		rule  string
		by    string
		do    policy.Action
	}{
		{Request{}, flow.Read, policy.NoMatch, ByAcceptance, policy.Allow},
		{Request{}, flow.Idempotent, policy.NoMatch, ByAcceptance, policy.Allow},
		{Request{}, flow.Once, policy.NoMatch, "", policy.Ask},
		{Request{Literal: true}, flow.Once, policy.NoMatch, ByAcceptance, policy.Allow},
		{Request{Literal: true, Agent: true}, flow.Read, policy.NoMatch, "", policy.Ask},
		{Request{Literal: true}, flow.Read, "rule", "", policy.Ask},
		{Request{By: ByAcceptance}, flow.Once, policy.NoMatch, ByAcceptance, policy.Allow},
		{Request{By: ByAcceptance}, flow.Read, "rule", "", policy.Deny},
		{Request{By: ByAcceptance, Agent: true}, flow.Read, policy.NoMatch, "", policy.Deny},
		{Request{By: gate}, flow.Once, "rule", gate, policy.Allow},
		{Request{By: gate, Agent: true}, flow.Once, "rule", gate, policy.Allow},
		{Request{By: "somebody"}, flow.Read, policy.NoMatch, "", policy.Deny},
	} {
		if by, do := meet(c.call, c.class, c.rule); by != c.by || do != c.do {
			t.Errorf("%+v, %s, %s: %v by %q, want %v by %q", c.call, c.class, c.rule, do, by, c.do, c.by)
		}
	}
}

func TestRefusalsOfAPolicySayWhy(t *testing.T) {
	call := Request{URI: "mcp://s/act@1.0.0"}
	for want, v := range map[string]policy.Verdict{
		`rule "r" denies mcp://s/act@1.0.0`:                                       {Do: policy.Deny, Rule: "r"},
		`rule "r" denies mcp://s/act@1.0.0: not here`:                             {Do: policy.Deny, Rule: "r", Why: "not here"},
		`rule "r" asks for an approval of mcp://s/act@1.0.0, and nobody gave one`: {Do: policy.Ask, Rule: "r"},
	} {
		if got := denied(v, call); got.Message != want || got.Code != CodePolicyDenied || !got.NotSent {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	if e := refusal("x", nil, "text"); e.Detail != nil {
		t.Errorf("no detail is %s", e.Detail)
	}
}

// A tool may become gentler than it was when it was accepted, and not stricter.
func TestGateRefusesAClassThatRose(t *testing.T) {
	of := func(class flow.Class) *Gate {
		g, err := NewGateFor([]Entry{{URI: "mcp://s/act@1.0.0", Server: "s", Name: "act", Version: "1.0.0",
			Raw: json.RawMessage(`{"name":"act","inputSchema":{"type":"object"}}`), Config: workspace.Tool{Effect: class}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	order := []flow.Class{flow.Read, flow.Idempotent, flow.Once}
	for i, accepted := range order {
		for j, now := range order {
			g := of(now)
			g.Lock = of(accepted).Tools
			v := g.Ask(Request{URI: "mcp://s/act@1.0.0", By: ByAcceptance})
			if j <= i && v.Do != policy.Allow {
				t.Errorf("accepted as %s, now %s: %v, %v", accepted, now, v.Do, v.Err)
			}
			want := fmt.Sprintf("act now has effect %s, and was accepted as %s: start a new run", now, accepted)
			if j > i && (v.Err == nil || v.Err.Code != CodeEffectDenied || v.Err.Message != want) {
				t.Errorf("%v, want %s", v.Err, want)
			}
		}
	}
}

func TestTheStricterClassCounts(t *testing.T) {
	order := []flow.Class{flow.Read, flow.Idempotent, flow.Once}
	for i, a := range order {
		for j, b := range order {
			if got, want := effective(a, b), order[max(i, j)]; got != want {
				t.Errorf("%s and %s: %s", a, b, got)
			}
		}
		if effective(a, "") != a || effective("", a) != a {
			t.Errorf("%s alone is %s or %s", a, effective(a, ""), effective("", a))
		}
	}
	if effective("", "") != flow.Once || policy.Stricter("unheard", flow.Once) || policy.Stricter(flow.Once, "unheard") {
		t.Error("what nobody states is once")
	}
}

func TestTextsAreCutAtTheirLimit(t *testing.T) {
	if cut("abc", 3) != "abc" || cut("abcd", 3) != "abc…" || cut("aé", 2) != "a…" {
		t.Error(cut("abc", 3), cut("abcd", 3), cut("aé", 2))
	}
	full := json.RawMessage(`"` + strings.Repeat("x", mostMemberText-2) + `"`)
	if got := cutValue(full); string(got) != string(full) {
		t.Errorf("a value of %d bytes was cut", len(full))
	}
	if got := cutValue(append(full, ' ')); !json.Valid(got) || string(got) == string(full)+" " {
		t.Errorf("a value of %d bytes was not cut: %s", len(full)+1, got)
	}
}

func changesOf(was, now string) (list []string) {
	for _, c := range members("s", "t", json.RawMessage(was), json.RawMessage(now)) {
		list = append(list, fmt.Sprintf("%s %s -> %s", c.Member, c.Was, c.Now))
	}
	return list
}

func TestDifferencesOfDefinitions(t *testing.T) {
	for _, c := range []struct {
		was, now string
		want     []string
	}{
		{`{"a":1}`, `{"a":1}`, nil},
		{`{"a":1,"z":1}`, `{"b":2,"z":1}`, []string{"/a 1 -> ", "/b  -> 2"}},
		{`{"a":{"b":[1,2]}}`, `{"a":{"b":[1,3]}}`, []string{"/a/b/1 2 -> 3"}},
		{`{"a":[1,2]}`, `{"a":[1]}`, []string{"/a [1,2] -> [1]"}},
		{`{"a":[1]}`, `{"a":{"0":1}}`, []string{`/a [1] -> {"0":1}`}},
		{`{"a":{}}`, `{"a":[]}`, []string{`/a {} -> []`}},
		{`{"x/y~z":1}`, `{"x/y~z":null}`, []string{"/x~1y~0z 1 -> null"}},
	} {
		if diff := cmp.Diff(c.want, changesOf(c.was, c.now)); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", c.was, c.now, diff)
		}
	}
}

func TestDifferencesAreToldBriefly(t *testing.T) {
	var many []tipstaff.PinChange
	for range mostMembers + 1 {
		many = append(many, tipstaff.PinChange{Member: "/a", Was: json.RawMessage("1"), Now: json.RawMessage("2")})
	}
	list, text := briefly(many)
	if len(list) != mostMembers || !strings.HasSuffix(text, ", a changed, and 1 more") {
		t.Errorf("%d members, %s", len(list), text)
	}
	if list, text := briefly(many[:mostMembers]); len(list) != mostMembers || strings.Contains(text, "more") {
		t.Errorf("%d members, %s", len(list), text)
	}
	if _, text := briefly([]tipstaff.PinChange{{Member: "/a", Now: json.RawMessage("1")}, {Member: "/b", Was: json.RawMessage("1")}}); text != "a is new, b is gone" {
		t.Error(text)
	}
}

func TestLocksAreNotChanged(t *testing.T) {
	var none *Lock
	if _, ok := none.Tool("s", "t"); ok {
		t.Error("no lock holds something")
	}
	held := LockedServer{Version: "1", Tools: map[string]LockedTool{"t": {Digest: "d"}}}
	first := (&Lock{}).With("s", held)
	second := first.With("s", LockedServer{})
	if _, ok := first.Tool("s", "t"); !ok || len(second.Servers) != 0 || len(first.Servers) != 1 {
		t.Errorf("%+v, then %+v", first, second)
	}
	if got := (&LockError{Message: "torn"}).Error(); got != "tipstaff.lock cannot be trusted: torn" {
		t.Error(got)
	}
	if got := (&LockError{File: "a.lock", Message: "torn"}).Error(); got != "a.lock cannot be trusted: torn" {
		t.Error(got)
	}
}

func TestLocksHoldTheirTools(t *testing.T) {
	d := &Definition{Server: "s", Tool: "t", Version: "1.0.0", Digest: "d", Raw: json.RawMessage(`{"name":"t"}`)}
	lock := func(version, digest string) *Lock {
		return (&Lock{}).With("s", LockedServer{Version: version, Tools: map[string]LockedTool{"t": {digest, json.RawMessage(`{"name":"t","x":1}`)}}})
	}
	var none *Lock
	for name, c := range map[string]struct {
		lock *Lock
		code string
		text string
	}{
		"no lock":            {none, "", ""},
		"the same":           {lock("1.0.0", "d"), "", ""},
		"withdrawn":          {&Lock{}, CodeUnlocked, "s/t is not in tipstaff.lock any more"},
		"another version":    {lock("2.0.0", "d"), CodeDefinitionChanged, "version changed"},
		"another definition": {lock("1.0.0", "e"), CodeDefinitionChanged, "x is gone"},
	} {
		refused := c.lock.holds(d)
		if (refused != nil) != (c.code != "") || refused != nil && (refused.Code != c.code || !strings.Contains(refused.Message, c.text)) {
			t.Errorf("%s: %v, want %s", name, refused, c.code)
		}
	}
	if !lock("2.0.0", "d").accepts(d) || lock("1.0.0", "e").accepts(d) || none.accepts(d) {
		t.Error("a lock accepts what it holds, by digest")
	}
	if none := (&Lock{}).holds(&Definition{Server: "builtin", Tool: "t"}); none != nil {
		t.Errorf("the tools of the binary are locked by it: %v", none)
	}
}

// A lock that went wrong in a merge is found by its line.
func TestLockFaultsNameTheirLine(t *testing.T) {
	if _, err := ParseLock([]byte("{\n\"version\": 1,\n<<<<\n}")); err == nil || !strings.Contains(err.Error(), "line 3: ") {
		t.Error(err)
	}
}

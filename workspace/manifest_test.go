package workspace_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

const full = `version: 1
allowed_effects: [read, once]
servers:
  builtin:
    roots: [".", /srv/data]
    hosts: [example.com, "127.0.0.1:8080", "[::1]"]
    programs: [git, ./build.sh]
    timeout: 45s
    max_concurrent: 2
    tools:
      read_file: {effect: read}
      exec: {effect: once, timeout: 2m, max_result: 1MiB}
      sleep:
policy:
  sub_dispatch: true
  rules:
    - {id: reads, tool: "*/*", effect: read, do: allow}
    - {id: never, tool: "builtin/exec", effect: [once], do: deny, why: "not here"}
bounds: {tool_calls: 20, cost_usd: "0.50", wall_time: 10m}
max_timeout: 30m
`

const everything = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh, sleep, env, printf, cat]
    tools: {read_file: {}, write_file: {}, list_dir: {}, http_get: {}, exec: {}, json_query: {}, sleep: {}}
policy:
  rules: [{id: all, tool: "*/*", do: allow}]
`

func parse(t testing.TB, manifest string) *workspace.Manifest {
	t.Helper()
	m, problems := workspace.Parse("tipstaff.yaml", []byte(manifest))
	for _, p := range problems {
		t.Errorf("manifest: %+v", p)
	}
	if m == nil {
		t.FailNow()
	}
	return m
}

func contains(t testing.TB, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q does not contain %q", text, part)
	}
}

func TestManifestIsRead(t *testing.T) {
	m := parse(t, full)
	s := m.Servers["builtin"]
	if diff := cmp.Diff([]string{".", "/srv/data"}, s.Roots); diff != "" {
		t.Error(diff)
	}
	if s.MaxConcurrent != 2 || m.MaxTimeout != document.Duration(30*time.Minute) || !m.SubDispatch || m.AutoAccept {
		t.Errorf("got %+v", m)
	}
	if diff := cmp.Diff(tipstaff.Bounds{"tool_calls": 20, "cost_usd": 500_000_000, "wall_time": 600_000}, m.Bounds); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]workspace.Tool{
		"read_file": {Effect: flow.Read, Timeout: 45 * time.Second, MaxResult: 8 << 20},
		"exec":      {Effect: flow.Once, Timeout: 2 * time.Minute, MaxResult: 1 << 20},
		"sleep":     {Timeout: 45 * time.Second, MaxResult: 8 << 20},
	} {
		got, ok := m.Tool("builtin", name)
		if !ok || got != want {
			t.Errorf("%s: got %+v, %v", name, got, ok)
		}
	}
	if _, ok := m.Tool("builtin", "write_file"); ok {
		t.Error("a tool that is not listed is declared")
	}
	if v := m.Policy.Decide(policy.Call{Server: "builtin", Tool: "exec", Class: flow.Once}); v.Do != policy.Deny || v.Rule != "never" {
		t.Errorf("got %+v", v)
	}
}

func TestServersOutsideAreRead(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	m := parse(t, `default_skill: skill://notes@1.0.0
servers:
  issues:
    command: [issue-server, --stdio, ""]
    env: {ISSUES_TOKEN: "$env:TOK", MODE: plain, EMPTY_TOKEN: ""}
    inherit_env: [EDITOR]
    package: lib
    package_digest: `+digest+`
    timeout: 1m
    tools: {create_issue: {effect: once}, Any.Name-1: }
  web:
    url: http://[::1]:8080/mcp?x=1
    headers: {Authorization: Bearer $env:TOK, X-Two: "$env:A$env:B"}
    tools: {get: {}}
`)
	want := map[string]workspace.Server{
		"issues": {
			Command: []string{"issue-server", "--stdio", ""}, Env: map[string]string{"ISSUES_TOKEN": "$env:TOK", "MODE": "plain", "EMPTY_TOKEN": ""},
			InheritEnv: []string{"EDITOR"}, Package: "lib", PackageDigest: digest, Timeout: document.Duration(time.Minute), MaxConcurrent: 4,
			Tools: workspace.Tools{"create_issue": {Effect: flow.Once}, "Any.Name-1": {}},
		},
		"web": {
			URL: "http://[::1]:8080/mcp?x=1", Headers: map[string]string{"Authorization": "Bearer $env:TOK", "X-Two": "$env:A$env:B"}, MaxConcurrent: 4,
			Tools: workspace.Tools{"get": {}},
		},
	}
	if diff := cmp.Diff(want, m.Servers); diff != "" {
		t.Error(diff)
	}
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Frozen(), m.Frozen()) || back.DefaultSkill != "skill://notes@1.0.0" {
		t.Errorf("%s became %s", m.Frozen(), back.Frozen())
	}
	if c := back.Servers["web"]; c.URL != want["web"].URL || c.Headers["Authorization"] != "Bearer $env:TOK" {
		t.Errorf("the frozen server is %+v", c)
	}
}

func TestServersWhosePackageNothingPins(t *testing.T) {
	m := parse(t, `servers:
  a: {command: [npx, -y, some-server], tools: {x: {}}}
  b: {command: [/usr/bin/uvx, some-server], tools: {x: {}}}
  c: {command: [npm, exec, some-server], tools: {x: {}}}
  d: {command: [npm, start], tools: {x: {}}}
  e: {command: [node, server.js], tools: {x: {}}}
  f: {command: [npx, some-server], package: node_modules, package_digest: "sha256:`+strings.Repeat("0", 64)+`", tools: {x: {}}}
  g: {command: [npx, some-server], package_digest: "sha256:`+strings.Repeat("0", 64)+`", tools: {x: {}}}
  h: {url: "https://example.com", tools: {x: {}}}
`)
	if diff := cmp.Diff([]string{"a", "b", "c", "g"}, tool.Unpinned(m)); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutFieldsDefaultsHold(t *testing.T) {
	m := parse(t, "servers: {builtin: {tools: {sleep: {}}}}")
	if !m.Allows(flow.Read) || m.Allows(flow.Idempotent) || m.Allows(flow.Once) {
		t.Error("without allowed_effects it is read alone")
	}
	if got, _ := m.Tool("builtin", "sleep"); got.Timeout != 30*time.Second {
		t.Errorf("the timeout is %v", got.Timeout)
	}
	if m.MaxTimeout != document.Duration(time.Hour) || m.Servers["builtin"].MaxConcurrent != 4 || m.Bounds != nil {
		t.Errorf("got %+v", m)
	}
	if parse(t, "allowed_effects: []").Allows(flow.Read) {
		t.Error("an empty allowed_effects allows something")
	}
	if len(parse(t, "").Servers) != 0 {
		t.Error("an empty file declares a server")
	}
}

// TestManifestProblems: each document has exactly the problems named, at their
// place.
func TestManifestProblems(t *testing.T) {
	const ok = "servers: {builtin: {tools: {sleep: {}}}}\n"
	for _, c := range []struct {
		name, doc string
		want      []string // line:column code path
		say       string   // part of the first message
	}{
		{"unknown field", ok + "maxtimeout: 1m", []string{"2:1 field_unknown maxtimeout"}, "did you mean max_timeout?"},
		{"far from any", ok + "zzz: 1", []string{"2:1 field_unknown zzz"}, "the fields are agents, allowed_effects"},
		{"server name", "servers:\n  Issues: {command: [x], tools: {a: {}}}", []string{"2:3 field_unknown servers.Issues"}, "cannot name a server"},
		{"command of builtin", "servers: {builtin: {command: [x], tools: {sleep: {}}}}", []string{"1:30 field_unknown servers.builtin.command"}, "inside this binary"},
		{"roots of another", "servers: {x: {command: [x], roots: [.], tools: {a: {}}}}", []string{"1:36 field_unknown servers.x.roots"}, "belongs to the server builtin"},
		{"neither", "servers: {x: {tools: {a: {}}}}", []string{"1:14 field_missing servers.x"}, "needs command"},
		{"both", "servers: {x: {command: [x], url: 'https://x.example', tools: {a: {}}}}", []string{"1:14 range servers.x"}, "either started or connected to"},
		{"stray headers", "servers: {x: {command: [x], headers: {A: b}, tools: {a: {}}}}", []string{"1:14 range servers.x"}, "headers goes with url"},
		{"stray env", "servers: {x: {url: 'https://x.example', env: {A: b}, tools: {a: {}}}}", []string{"1:14 range servers.x"}, "env goes with command"},
		{"empty command", "servers: {x: {command: [], tools: {a: {}}}}", []string{"1:24 field_missing servers.x.command"}, "needs a program"},
		{"command as text", "servers: {x: {command: run it, tools: {a: {}}}}", []string{"1:24 field_type servers.x.command"}, "must be a list"},
		{"reference in an argument", "servers: {x: {command: [x, '$env:TOK'], tools: {a: {}}}}", []string{"1:28 range servers.x.command[1]"}, "never among arguments"},
		{"tool name", "servers: {x: {command: [x], tools: {'a/b': {}}}}", []string{"1:37 unknown_tool servers.x.tools.a/b"}, "cannot name a tool"},
		{"http to elsewhere", "servers: {x: {url: 'http://x.example/mcp', tools: {a: {}}}}", []string{"1:20 range servers.x.url"}, "must be https"},
		{"userinfo", "servers: {x: {url: 'https://me:pw@x.example', tools: {a: {}}}}", []string{"1:20 literal_credential servers.x.url", "1:20 range servers.x.url"}, "URL with a password"},
		{"no URL", "servers: {x: {url: 'x.example/mcp', tools: {a: {}}}}", []string{"1:20 range servers.x.url"}, "not a URL"},
		{"other scheme", "servers: {x: {url: 'ftp://localhost/', tools: {a: {}}}}", []string{"1:20 range servers.x.url"}, "must be https"},
		{"key as option", "servers: {x: {command: [s, --api-key=abcdef], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"token after its option", "servers: {x: {command: [s, --token, abcdef], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"password as option", "servers: {x: {command: [s, --db_password=abcdef], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"variable given to env", "servers: {x: {command: [env, MY_TOKEN=abcdef, s], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"variable given to docker", "servers: {x: {command: [docker, run, -e, API_KEY=abcdef, s], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"header as argument", "servers: {x: {command: [s, --header, 'Authorization: Bearer abcdef'], tools: {a: {}}}}", []string{"1:24 literal_credential servers.x.command"}, "$env:NAME"},
		{"password in a URL as argument", "servers: {x: {command: [s, 'postgres://me:hunter2@db/x'], tools: {a: {}}}}", []string{"1:28 literal_credential servers.x.command[1]"}, "URL with a password"},
		{"password in a URL", "servers: {x: {command: [s], env: {DATABASE_URL: 'postgres://me:hunter2@db/x'}, tools: {a: {}}}}", []string{"1:49 literal_credential servers.x.env.DATABASE_URL"}, "URL with a password"},
		{"random literal", "servers: {x: {command: [s], env: {STUFF: wJalrXUtnFEMIK7MDENGbPxRfiCYzEXAMPLEKE1Y}, tools: {a: {}}}}", []string{"1:42 literal_credential servers.x.env.STUFF"}, "$env:NAME"},
		{"reference of a shell", "servers: {x: {command: [s], env: {FOO: '${MY_TOKEN}'}, tools: {a: {}}}}", []string{"1:40 range servers.x.env.FOO"}, "write $env:MY_TOKEN"},
		{"part of a reference of a shell", "servers: {x: {command: [s], env: {FOO: 'Bearer ${MY_TOKEN:-x}'}, tools: {a: {}}}}", []string{"1:40 range servers.x.env.FOO"}, "write $env:MY_TOKEN"},
		{"short reference of a shell", "servers: {x: {command: [s], env: {FOO: $MY_TOKEN}, tools: {a: {}}}}", []string{"1:40 range servers.x.env.FOO"}, "write $env:MY_TOKEN"},
		{"header with a reference of a shell", "servers: {x: {url: 'https://x.example/', headers: {Authorization: 'Bearer ${TOK}'}, tools: {a: {}}}}", []string{"1:67 range servers.x.headers.Authorization"}, "write $env:TOK"},
		{"credential in a URL", "servers: {x: {url: 'https://x.example/?api_key=1', tools: {a: {}}}}", []string{"1:20 literal_credential servers.x.url"}, "headers"},
		{"literal credential", "servers: {x: {command: [x], env: {MY_API_KEY: hunter2}, tools: {a: {}}}}", []string{"1:47 literal_credential servers.x.env.MY_API_KEY"}, "$env:NAME"},
		{"literal header", "servers: {x: {url: 'https://x.example', headers: {Cookie: 'a=b'}, tools: {a: {}}}}", []string{"1:59 literal_credential servers.x.headers.Cookie"}, "$env:NAME"},
		{"half a reference", "servers: {x: {command: [x], env: {A: 'x $env: y'}, tools: {a: {}}}}", []string{"1:38 range servers.x.env.A"}, "name of a variable"},
		{"variable name", "servers: {x: {command: [x], env: {'A-B': c}, tools: {a: {}}}}", []string{"1:35 range servers.x.env.A-B"}, "cannot name a variable"},
		{"own variable", "servers: {x: {command: [x], inherit_env: [TIPSTAFF_RUN_ID], tools: {a: {}}}}", []string{"1:43 range servers.x.inherit_env[0]"}, "reserved"},
		{"own header", "servers: {x: {url: 'https://x.example', headers: {Mcp-Session-Id: a}, tools: {a: {}}}}", []string{"1:51 range servers.x.headers.Mcp-Session-Id"}, "set by Tipstaff"},
		{"digest", "servers: {x: {command: [x], package_digest: abc, tools: {a: {}}}}", []string{"1:45 range servers.x.package_digest"}, "not a digest"},
		{"package of builtin", "servers: {builtin: {package: a, ignore: [a], tools: {sleep: {}}}}", []string{"1:30 field_unknown servers.builtin.package"}, "inside this binary"},
		{"ignore of a worker's own", "workers: {w: {type: claude, ignore: [a], package: b}}", []string{"1:37 range workers.w.ignore", "1:51 range workers.w.package"}, "goes with command"},
		{"writable of a server", "servers: {x: {command: [x], writable: [a], tools: {a: {}}}}", []string{"1:39 field_unknown servers.x.writable"}, "belongs to the server builtin"},
		{"pattern", `servers: {builtin: {writable: ["a/[", "../x", "a//b", ok/**, "src**/x", /tmp/**], tools: {sleep: {}}}}`, []string{"1:32 range servers.builtin.writable[0]", "1:39 range servers.builtin.writable[1]", "1:47 range servers.builtin.writable[2]", "1:62 range servers.builtin.writable[4]"}, "is not a pattern"},
		{"no tools", "servers: {builtin: {roots: [.]}}", []string{"1:20 field_missing servers.builtin"}, "needs tools"},
		{"empty tools", "servers: {builtin: {tools: {}}}", []string{"1:28 field_missing servers.builtin.tools"}, "lists no tool"},
		{"unknown tool", "servers: {builtin: {tools: {read_fil: {}}}}", []string{"1:29 unknown_tool servers.builtin.tools.read_fil"}, `did you mean "read_file"?`},
		{"glob", ok + "policy: {rules: [{id: a, tool: 'delete_*', do: deny}]}", []string{"2:32 rule_invalid policy.rules[0].tool"}, "exactly one"},
		{"no id, no do", ok + "policy: {rules: [{tool: a/b}]}", []string{"2:18 field_missing policy.rules[0]", "2:18 rule_invalid policy.rules[0]"}, "needs do"},
		{"same id", ok + "policy: {rules: [{id: a, tool: a/b, do: ask},\n {id: a, tool: a/b, do: ask}]}", []string{"3:7 rule_invalid policy.rules[1].id"}, "already"},
		{"action", ok + "policy: {rules: [{id: a, tool: a/b, do: maybe}]}", []string{"2:41 field_invalid policy.rules[0].do"}, "allow, ask or deny"},
		{"effect", ok + "policy: {rules: [{id: a, tool: a/b, do: ask, effect: write}]}", []string{"2:54 field_invalid policy.rules[0].effect"}, "read, idempotent or once"},
		{"class", "servers: {builtin: {tools: {sleep: {effect: none}}}}", []string{"1:45 field_invalid servers.builtin.tools.sleep.effect"}, "read, idempotent or once"},
		{"duration", "servers: {builtin: {timeout: 5, tools: {sleep: {}}}}", []string{"1:30 field_type servers.builtin.timeout"}, "must be a string"},
		{"duration text", "servers: {builtin: {timeout: soon, tools: {sleep: {}}}}", []string{"1:30 field_invalid servers.builtin.timeout"}, "written like 90s"},
		{"negative", "servers: {builtin: {timeout: -5s, tools: {sleep: {}}}}", []string{"1:30 range servers.builtin.timeout"}, "a duration from 1ms"},
		{"over max_timeout", "max_timeout: 1m\nservers: {builtin: {tools: {sleep: {timeout: 2m}}}}", []string{"2:46 range servers.builtin.tools.sleep.timeout"}, "max_timeout is 1m"},
		{"size", "servers: {builtin: {tools: {sleep: {max_result: 1MB}}}}", []string{"1:49 field_invalid servers.builtin.tools.sleep.max_result"}, "1MiB"},
		{"size too large", "servers: {builtin: {tools: {sleep: {max_result: 17MiB}}}}", []string{"1:49 range servers.builtin.tools.sleep.max_result"}, "16MiB"},
		{"bound", ok + "bounds: {tool_calls: -1}", []string{"2:22 range bounds.tool_calls"}, "tool_calls"},
		{"bound as float", ok + "bounds: {cost_usd: 0.5}", []string{"2:20 range bounds.cost_usd"}, "cost_usd"},
		{"unknown bound", ok + "bounds: {calls: 1}", []string{"2:10 field_unknown bounds.calls"}, "no such bound"},
		{"host", "servers: {builtin: {hosts: ['https://example.com'], tools: {sleep: {}}}}", []string{"1:29 range servers.builtin.hosts[0]"}, "not a host"},
		{"wildcard host", "servers: {builtin: {hosts: ['*.example.com'], tools: {sleep: {}}}}", []string{"1:29 range servers.builtin.hosts[0]"}, "not a host"},
		{"program", "servers: {builtin: {programs: ['git status'], tools: {sleep: {}}}}", []string{"1:32 range servers.builtin.programs[0]"}, "blank"},
		{"version", ok + "version: 2", []string{"2:10 range version"}, "1 to 1"},
		{"types", "servers: []\npolicy: 1\nallowed_effects: 7", []string{"1:10 field_type servers", "2:9 field_type policy", "3:18 field_type allowed_effects"}, "must be an object"},
		{"duplicate", ok + ok, []string{"2:1 syntax servers"}, "stands twice"},
		{"anchor", "servers: &a {builtin: {tools: {sleep: {}}}}\nbounds: *a", []string{"1:10 syntax "}, "anchors"},
		{"anchor without a file", ok + "anchor: {}", []string{"2:9 field_missing anchor"}, "needs file"},
		{"empty anchor file", ok + "anchor: {file: ''}", []string{"2:16 range anchor.file"}, "empty"},
		{"anchor file of a wrong type", ok + "anchor: {file: 3}", []string{"2:16 field_type anchor.file"}, "string"},
		{"unknown in anchor", ok + "anchor: {file: a, url: b}", []string{"2:19 field_unknown anchor.url"}, "url"},
		{"anchor file in the store", ok + "anchor: {file: ./x/../.tipstaff/a}", []string{"2:16 range anchor.file"}, ".tipstaff"},
		{"tag", "version: !!int '1'", []string{"1:10 syntax "}, "tags"},
		{"two documents", "version: 1\n---\nversion: 1", []string{"2:1 syntax "}, "one document"},
		{"five faults", "a: 1\nversion: 3\nmax_timeout: x\npolicy: {x: 1}\nservers: {builtin: {}}",
			[]string{"1:1 field_unknown a", "2:10 range version", "3:14 field_invalid max_timeout", "4:10 field_unknown policy.x", "5:20 field_missing servers.builtin"}, ""},
		{"credential", "servers: {builtin: {roots: [ghp_abcdefghij0123456789], tools: {sleep: {}}}}", []string{"1:29 literal_credential servers.builtin.roots[0]"}, "GitHub"},
		{"credential as name", "sk-abcdefghijklmnop: 1", []string{"1:1 literal_credential ", "1:1 field_unknown (hidden)"}, "API key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, problems := workspace.Parse("tipstaff.yaml", []byte(c.doc))
			if m != nil {
				t.Error("a manifest was made")
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path))
				if p.File != "tipstaff.yaml" {
					t.Errorf("the file is %q", p.File)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%+v", diff, problems)
			}
			if len(problems) > 0 {
				contains(t, problems[0].Message, c.say)
			}
		})
	}
}

func TestCredentialIsNotRepeated(t *testing.T) {
	for _, secret := range []string{"sk-ant-REDACTED", "ghp_0123456789abcdef0123", "xoxb-12345678-abcdef", "AKIAABCDEFGHIJKLMNOP",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_1", "-----BEGIN RSA PRIVATE KEY-----"} {
		_, problems := workspace.Parse("t", []byte("policy: {rules: [{id: a, tool: a/b, do: deny, why: '"+secret+"'}]}"))
		if len(problems) != 1 || problems[0].Code != workspace.CodeCredential {
			t.Errorf("%s: %+v", secret, problems)
			continue
		}
		if strings.Contains(problems[0].Message, secret) {
			t.Errorf("the message repeats it: %s", problems[0].Message)
		}
	}
}

func TestSyntaxErrorHasAPlace(t *testing.T) {
	for _, doc := range []string{"servers: [", "a: b: c", "\t x", "servers: {builtin", "? [a, b]\n: 1", "{[}", "a: 'x"} {
		m, problems := workspace.Parse("t", []byte(doc))
		if m != nil || len(problems) == 0 || problems[0].Line < 1 || problems[0].Column < 1 || problems[0].Message == "" {
			t.Errorf("%q: %v %+v", doc, m, problems)
		}
	}
	if _, problems := workspace.Parse("t", bytes.Repeat([]byte("#"), 2<<20)); len(problems) != 1 || problems[0].Code != document.CodeLimit {
		t.Errorf("2 MiB: %+v", problems)
	}
	deep := strings.Repeat("{a: ", 200) + "1" + strings.Repeat("}", 200)
	if m, problems := workspace.Parse("t", []byte(deep)); m != nil || len(problems) != 1 || problems[0].Code != document.CodeLimit {
		t.Errorf("200 levels: %+v", problems)
	}
}

func TestFrozenManifestMeansTheSame(t *testing.T) {
	m := parse(t, full)
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Frozen(), back.Frozen()) {
		t.Errorf("%s\n%s", m.Frozen(), back.Frozen())
	}
	if back.Policy.Digest() != m.Policy.Digest() {
		t.Error("the policy has another digest")
	}
	if got, _ := back.Tool("builtin", "read_file"); got.Timeout != 45*time.Second {
		t.Errorf("the timeout became %v", got.Timeout)
	}
	var none *workspace.Manifest
	if back, err := workspace.ParseFrozen(none.Frozen()); back != nil || err != nil {
		t.Errorf("no manifest became %v, %v", back, err)
	}
	for _, bad := range []string{"", "{}", `{"version":1}`, `{"version":2}`, `[]`, `{"version":1,"x":1}`, string(m.Frozen()) + "{}",
		strings.Replace(string(m.Frozen()), `"*/*"`, `"*"`, 1)} {
		if _, err := workspace.ParseFrozen([]byte(bad)); err == nil {
			t.Errorf("%.60s was read", bad)
		}
	}
}

// FuzzManifest: no document ends the process; one that is accepted keeps its
// meaning when frozen; one that is refused says where.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(everything))
	f.Add([]byte(agentsDoc))
	f.Add([]byte("models: {a: {provider: openai, model: $env:M, base_url: 'http://x', allow_http: true}}\nagents: {default: {model: a, temperature: 0.3, tools: none, output_schema: {enum: [1e3, ~]}, output_retries: 0, call_timeout: 1h}}"))
	f.Add([]byte("servers: {builtin: {tools: {sleep: {}}}}\n---\n"))
	f.Add([]byte("a: &x [*x]"))
	f.Add([]byte("workers: {w: {type: codex, yolo: true, args: [-c, a=b, --conf], env: {A: $env:B}, limits: {output: 1GiB, cost_usd: '0.1'}}}\nroles: {planner: {posture: write}}\nbindings: {planner: w}\nagents: {a: {role: planner, review: person}}"))
	f.Add([]byte("{\"version\": 1, \"policy\": {\"rules\": []}}"))
	f.Add([]byte("? |\n  x\n: >-\n  y"))
	f.Add([]byte("servers: {x: {command: [y, -z], env: {A: 'b $env:C'}, inherit_env: [D], tools: {e: {}}}, w: {url: 'http://localhost:1', headers: {F: $env:G}, tools: {h: {}}}}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, problems := workspace.Parse("f", doc)
		if (m == nil) != (len(problems) > 0) {
			t.Fatalf("manifest %v, problems %v", m, problems)
		}
		for _, p := range problems {
			if p.Line < 0 || p.Column < 0 || p.Message == "" || p.Code == "" {
				t.Fatalf("problem %+v", p)
			}
		}
		if m == nil {
			return
		}
		back, err := workspace.ParseFrozen(m.Frozen())
		if err != nil || !bytes.Equal(back.Frozen(), m.Frozen()) {
			t.Fatalf("%s does not come back: %v", m.Frozen(), err)
		}
	})
}

// What only resembles a credential may stand in a manifest.
func TestWhatIsNoCredentialMayBeWritten(t *testing.T) {
	parse(t, `
servers:
  x:
    command: [s, --max-tokens, "100", --token-file, ./token, --token=/run/secrets/token, --header, "Authorization: ${AUTH}", --auth=none, --repo=a/b, --no-session, "x=1"]
    env: {REGION: eu-central-1, DATABASE_URL: "postgres://me:$env:PW@db/x", COMMIT: 0123456789abcdef0123456789abcdef01234567, PATTERN: "^a$", PRICE: "$5", LIB: /usr/lib/Python3/AbcdEfghIjkl0123456789/x}
    tools: {a: {}}
`)
}

// A server whose tools nobody knows yet can be declared, so that it can be asked for them.
func TestServerWithoutTools(t *testing.T) {
	for _, doc := range []string{"servers: {x: {command: [x]}}", "servers: {x: {url: 'https://x.example', tools: {}}}"} {
		m, problems := workspace.Parse("tipstaff.yaml", []byte(doc))
		if len(problems) > 0 {
			t.Fatalf("%s: %v", doc, problems)
		}
		if s, ok := m.Server("x"); !ok || len(s.Tools) != 0 {
			t.Errorf("%s: %+v", doc, s)
		}
	}
}

// What every worktree is given is part of what a run is frozen with.
func TestManifestSaysWhatWorktreesAreGiven(t *testing.T) {
	m := parse(t, "version: 1\nworktree: {copy: [.env], setup: [[npm, ci], {run: [make], timeout: 1m30s}], ports: 2}\n")
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil || back.Worktree == nil || cmp.Diff(*m.Worktree, *back.Worktree) != "" || back.Worktree.Setup[1].Limit() != 90*time.Second {
		t.Errorf("%v %+v", err, back)
	}
	if m := parse(t, "version: 1\n"); bytes.Contains(m.Frozen(), []byte("worktree")) {
		t.Errorf("a manifest that says nothing is frozen as %s", m.Frozen())
	}
	_, problems := workspace.Parse("tipstaff.yaml", []byte("version: 1\nworktree:\n  copy: [/etc/passwd]\n  set_up: []\n"))
	var all []string
	for _, p := range problems {
		all = append(all, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path))
	}
	if got := strings.Join(all, ", "); got != "3:10 field_invalid worktree.copy, 4:3 field_unknown worktree.set_up" {
		t.Error(got)
	}
}

package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestStartsIsWhatIsStartedOrSent goes through every kind of thing that a manifest can have
// started or sent, and through what it cannot.
func TestStartsIsWhatIsStartedOrSent(t *testing.T) {
	dir := t.TempDir()
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		manifest string
		locked   []string
		want     []string
	}{
		"nothing":            {"version: 1", nil, nil},
		"built-in tools":     {"servers: {builtin: {roots: [., sub], hosts: [example.com], programs: [sh], tools: {exec: {}, http_get: {}}}}", nil, nil},
		"a root elsewhere":   {"servers: {builtin: {roots: [/etc], tools: {read_file: {}}}}", nil, []string{"built-in tools reach /etc, outside of the folder"}},
		"a root by a link":   {"servers: {builtin: {roots: [away], tools: {read_file: {}}}}", nil, []string{"built-in tools reach away, outside of the folder"}},
		"a root above":       {"servers: {builtin: {roots: [..], tools: {read_file: {}}}}", nil, []string{"built-in tools reach .., outside of the folder"}},
		"exec that asks":     {exec("{id: a, tool: builtin/exec, do: ask}"), nil, nil},
		"exec by a rule":     {exec("{id: a, tool: builtin/exec, do: allow}"), nil, []string{"exec starts sh ./x, unasked by the rule a"}},
		"exec by a glob":     {exec("{id: a, tool: '*/*', do: allow}"), nil, []string{"exec starts sh ./x, unasked by the rule a"}},
		"reads by a glob":    {exec("{id: a, tool: '*/*', effect: read, do: allow}"), nil, nil},
		"exec on conditions": {exec("{id: a, tool: builtin/exec, when: 'args.argv[0] == \"sh\"', do: allow}"), nil, []string{"exec starts sh ./x, unasked by the rule a"}},
		"a command": {"servers: {s: {command: [./run, 'a b', ''], env: {B: x, A: '$env:KEY'}, inherit_env: [TWO, ONE], tools: {t: {}}}}", nil,
			[]string{`server s starts ./run "a b" "", with A=$env:KEY, B=x, and your ONE, TWO`}},
		"a URL":          {"servers: {s: {url: 'https://a.example/mcp', headers: {X-Y: 'Bearer $env:KEY'}, tools: {t: {}}}}", nil, []string{`server s is reached at https://a.example/mcp, with "X-Y: Bearer $env:KEY"`}},
		"locked tools":   {"servers: {s: {command: [run], tools: {t: {}}}}", []string{"gone/t", "s/t"}, []string{"server s starts run", "tool s/t is accepted"}},
		"a worker":       {"workers: {w: {type: claude, command: ./claude, args: [--effort, high], env: {A: '$env:KEY'}}}", nil, []string{"worker w (claude) starts ./claude --effort high, with A=$env:KEY"}},
		"a usual worker": {"workers: {w: {type: codex}}", nil, []string{"worker w (codex) starts the program of that name on PATH"}},
		"a script": {"workers: {w: {type: scripted, script: answers.yaml}}", nil,
			[]string{"worker w (scripted) starts what answers.yaml says (sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb)"}},
		"a worker that an agent names": {"agents: {a: {worker: codex}}", nil, []string{"worker codex (codex) starts the program of that name on PATH"}},
		"a worker by its role":         {"agents: {a: {role: reviewer}}", nil, []string{"worker claude (claude) starts the program of that name on PATH"}},
		"a binding":                    {"bindings: {reviewer: gemini}", nil, []string{"worker gemini (gemini) starts the program of that name on PATH"}},
		"a model":                      {"models: {m: {provider: anthropic, model: x, api_key: '$env:KEY'}}", nil, []string{"model m is asked at its vendor's address (anthropic), with $env:KEY"}},
		"a model elsewhere":            {"models: {m: {provider: openai-chat, model: x, base_url: 'https://a.example/v1', api_key: '$env:KEY'}}", nil, []string{"model m is asked at https://a.example/v1, with $env:KEY"}},
		"a model without a key":        {"models: {m: {provider: openai-chat, model: x, base_url: 'http://127.0.0.1:1/v1'}}", nil, []string{"model m is asked at http://127.0.0.1:1/v1"}},
		"a scripted model":             {"models: {m: {provider: scripted, model: x, script: answers.yaml}}", nil, nil},
		"traces":                       {"telemetry: {otlp: {endpoint: 'https://a.example', headers: {X-Y: '$env:KEY'}}}", nil, []string{`traces are sent to https://a.example, with "X-Y: $env:KEY"`}},
		"what a line cannot hide":      {"servers: {s: {command: [run, \"a\\e[2K\\nb\"], tools: {t: {}}}}", nil, []string{`server s starts run "a\x1b[2K\nb"`}},
	} {
		t.Run(name, func(t *testing.T) {
			m, problems := ParseIn(fstest.MapFS{"answers.yaml": {Data: []byte("a")}}, FileName, []byte(c.manifest))
			if problems != nil {
				t.Fatal(problems)
			}
			if got := m.Starts(dir, c.locked); !slices.Equal(got, c.want) {
				t.Errorf("it starts\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func exec(rule string) string {
	return "allowed_effects: [once]\nservers: {builtin: {programs: [sh, ./x], tools: {exec: {}}}}\npolicy: {rules: [" + rule + "]}"
}

// TestNothingIsStartedWithoutAManifest: what Tipstaff itself makes of the keys in the
// environment is nobody else's.
func TestNothingIsStartedWithoutAManifest(t *testing.T) {
	implicit, err := Implicit([]StarterModel{{Provider: "anthropic", Model: "x", Key: "KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Manifest{nil, implicit} {
		if got := m.Starts(t.TempDir(), nil); got != nil {
			t.Errorf("it starts %v", got)
		}
	}
}

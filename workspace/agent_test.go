package workspace_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// beside are files that manifests of these tests name.
var beside = fstest.MapFS{
	"answers.yaml":         {Data: []byte("version: 1\nanswers: []\n")},
	"prices.yaml":          {Data: []byte("version: 1\n")},
	"texts/ops.md":         {Data: []byte("You look after machines.\n")},
	"texts/key.md":         {Data: []byte("use sk-abcdefghijklmnop")},
	"texts/latin.md":       {Data: []byte("caf\xe9")},
	"ours/step.md":         {Data: []byte("Please: {{.Prompt}}")},
	"faulty/step.md":       {Data: []byte("{{.Nothing}}")},
	"faulty/extra.md":      {Data: []byte("x")},
	"kits/toolkits.yaml":   {Data: []byte("version: 1\ntoolkits:\n  - {name: a, match: [nothing]}\n")},
	"leaky/system.md":      {Data: []byte("The key is ghp_abcdefghij0123456789.")},
	"large/answers.yaml":   {Data: bytes.Repeat([]byte("#"), 1<<20+1)},
	"folder/in/folder.txt": {},
}

const agentsDoc = `servers:
  builtin: {tools: {read_file: {}, exec: {}}}
models:
  main: {provider: anthropic, model: claude-x, api_key: $env:ANTHROPIC_KEY, cache: 1h, context_window: 200000}
  local: {provider: openai, model: $env:LOCAL_MODEL, base_url: "http://localhost:11434/v1"}
  lab: {provider: openai, model: m, api_key: "$env:A$env:B", base_url: "http://10.0.0.5/v1", allow_http: true}
  demo: {provider: scripted, script: answers.yaml}
models_file: prices.yaml
prompts: ours
agents:
  default: {model: main}
  ops:
    model: demo
    skill: skill://ops@1.0.0
    tools: [mcp://builtin/read_file@1.0.0]
    router: toolkits
    system: {file: texts/ops.md}
    max_steps: 8
    on_limit: ask
    temperature: 0
    top_p: 0.5
    max_output_tokens: 1000
    call_timeout: 2m
    tool_timeout: 10s
    approval_expiry: 48h
    tool_parallelism: 1
    max_result_bytes: 4KiB
    output_schema:
      type: object
      required: [n]
      properties: {n: {type: integer, maximum: 10}, ok: {const: true}, rest: {enum: [a, null, 1.5, []]}}
    output_retries: 0
  talker: {model: local, tools: none, router: none, system: "Be brief."}
telemetry:
  content: true
  otlp: {endpoint: "https://otel.example.com/v1/traces", headers: {Authorization: "Bearer $env:OTEL_TOKEN", X-Team: ops}}
`

func parseIn(t *testing.T, doc string) *workspace.Manifest {
	t.Helper()
	m, problems := workspace.ParseIn(beside, "tipstaff.yaml", []byte(doc))
	if problems != nil {
		t.Fatalf("%+v", problems)
	}
	return m
}

func ptr[T any](v T) *T { return &v }

func TestModelsAndAgentsAreRead(t *testing.T) {
	m := parseIn(t, agentsDoc)
	script := workspace.File{Name: "answers.yaml", Digest: flow.Digest(beside["answers.yaml"].Data), Text: string(beside["answers.yaml"].Data)}
	if diff := cmp.Diff(map[string]workspace.Model{
		"main":  {Provider: "anthropic", Model: "claude-x", APIKey: "$env:ANTHROPIC_KEY", Cache: "1h", ContextWindow: 200_000},
		"local": {Provider: "openai", Model: "$env:LOCAL_MODEL", BaseURL: "http://localhost:11434/v1"},
		"lab":   {Provider: "openai", Model: "m", APIKey: "$env:A$env:B", BaseURL: "http://10.0.0.5/v1", AllowHTTP: true},
		"demo":  {Provider: "scripted", Script: script},
	}, m.Models); diff != "" {
		t.Error(diff)
	}
	schema := `{"properties":{"n":{"maximum":10,"type":"integer"},"ok":{"const":true},"rest":{"enum":["a",null,1.5,[]]}},"required":["n"],"type":"object"}`
	if diff := cmp.Diff(map[string]workspace.Agent{
		"default": {Model: "main"},
		"ops": {
			Model: "demo", Skill: "skill://ops@1.0.0", Tools: []string{"mcp://builtin/read_file@1.0.0"}, Router: "toolkits", System: "You look after machines.\n",
			MaxSteps: 8, OnLimit: "ask", Temperature: ptr(0.0), TopP: ptr(0.5), MaxOutputTokens: 1000,
			CallTimeout: document.Duration(2 * time.Minute), ToolTimeout: document.Duration(10 * time.Second), ApprovalExpiry: document.Duration(48 * time.Hour),
			ToolParallelism: 1, MaxResultBytes: 4096, OutputSchema: []byte(schema), OutputRetries: ptr(0),
		},
		"talker": {Model: "local", Tools: []string{}, System: "Be brief."},
	}, m.Agents); diff != "" {
		t.Error(diff)
	}
	if m.ModelsFile.Text != "version: 1\n" || m.ModelsFile.Name != "prices.yaml" {
		t.Errorf("models_file is %+v", m.ModelsFile)
	}
	if m.Prompts.Step != "Please: {{.Prompt}}" || m.Prompts.System != prompts.Default().System {
		t.Error("the folder does not replace its file alone")
	}
	if diff := cmp.Diff(workspace.Telemetry{Content: true, Endpoint: "https://otel.example.com/v1/traces",
		Headers: map[string]string{"Authorization": "Bearer $env:OTEL_TOKEN", "X-Team": "ops"}}, m.Telemetry); diff != "" {
		t.Error(diff)
	}
}

func TestFrozenModelsAndAgentsMeanTheSame(t *testing.T) {
	m := parseIn(t, agentsDoc)
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Frozen(), back.Frozen()) {
		t.Errorf("%s\n%s", m.Frozen(), back.Frozen())
	}
	demo := m.Models["demo"] // its script is named, not kept
	demo.Script.Text = ""
	m.Models["demo"], m.ModelsFile.Text = demo, ""
	for _, c := range []struct{ want, got any }{
		{m.Models, back.Models}, {m.Agents, back.Agents}, {m.ModelsFile, back.ModelsFile}, {m.Prompts, back.Prompts}, {m.Telemetry, back.Telemetry},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
	without, err := workspace.ParseFrozen(parse(t, "version: 1").Frozen())
	if err != nil || without.Prompts != prompts.Default() || without.Models == nil || without.Agents == nil {
		t.Errorf("without models: %+v, %v", without, err)
	}
	if bytes.Contains(parse(t, "version: 1").Frozen(), []byte("prompts")) {
		t.Error("a manifest without models freezes prompts")
	}
	if _, err := workspace.ParseFrozen(bytes.Replace(m.Frozen(), []byte(`"model":"demo"`), []byte(`"model":"gone"`), 1)); err == nil {
		t.Error("an agent without its model was read")
	}
	if _, err := workspace.ParseFrozen(bytes.Replace(m.Frozen(), []byte(`"call_timeout":"2m0s"`), []byte(`"call_timeout":"soon"`), 1)); err == nil {
		t.Error("a timeout that is none was read")
	}
}

func TestDefaultAgent(t *testing.T) {
	const one = "models: {a: {provider: scripted, script: answers.yaml}}\n"
	const two = "models: {a: {provider: scripted, script: answers.yaml}, b: {provider: scripted, script: answers.yaml}}\n"
	for _, c := range []struct {
		name, doc string
		model     string // of the default agent; "": there is none
		names     []string
	}{
		{"no models", "version: 1", "", nil},
		{"one model", one, "a", []string{"default"}},
		{"one model, other agents", one + "agents: {x: {model: a}}", "a", []string{"default", "x"}},
		{"two models", two, "", nil},
		{"two models, declared", two + "agents: {default: {model: b}, a: {model: a}}", "b", []string{"a", "default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parseIn(t, c.doc)
			for _, name := range []string{"", "default"} {
				a, ok := m.Agent(name)
				if ok != (c.model != "") || a.Model != c.model {
					t.Errorf("%q is %+v, %v", name, a, ok)
				}
			}
			if diff := cmp.Diff(c.names, m.AgentNames()); diff != "" {
				t.Error(diff)
			}
			if _, ok := m.Agent("nobody"); ok {
				t.Error("there is an agent nobody")
			}
		})
	}
	var none *workspace.Manifest
	if _, ok := none.Agent(""); ok || none.AgentNames() != nil || len(none.Secrets([]string{"A=12345678"})) != 0 {
		t.Error("without a manifest there is an agent")
	}
	if _, ok := none.Model("a"); ok {
		t.Error("without a manifest there is a model")
	}
}

func TestModelReferencesAreResolved(t *testing.T) {
	m := parseIn(t, agentsDoc)
	environ := []string{"ANTHROPIC_KEY=key-of-anthropic", "LOCAL_MODEL=llama-large", "A=aaaaaaaa", "B=bbbbbbbb", "OTEL_TOKEN=otel-token", "OTHER=something-else"}
	main, _ := m.Model("main")
	if c, refused := main.Resolve(environ); refused != nil || c.APIKey != "key-of-anthropic" || c.Model != "claude-x" {
		t.Errorf("got %+v, %v", c, refused)
	}
	if c, refused := m.Models["local"].Resolve(environ); refused != nil || c.Model != "llama-large" || c.APIKey != "" {
		t.Errorf("got %+v, %v", c, refused)
	}
	if c, refused := m.Models["lab"].Resolve(environ); refused != nil || c.APIKey != "aaaaaaaabbbbbbbb" {
		t.Errorf("got %+v, %v", c, refused)
	}
	for _, short := range [][]string{nil, {"ANTHROPIC_KEY="}, {"ANTHROPIC_KEY=1234567"}} {
		if _, refused := main.Resolve(short); refused == nil || refused.Code != workspace.CodeEnvMissing || !strings.Contains(refused.Message, "ANTHROPIC_KEY") || strings.Contains(refused.Message, "1234567") {
			t.Errorf("%q: %v", short, refused)
		}
	}
	if c, refused := m.Telemetry.Resolve(environ); refused != nil || c.Headers["Authorization"] != "Bearer otel-token" || c.Headers["X-Team"] != "ops" {
		t.Errorf("got %+v, %v", c, refused)
	}
	if _, refused := m.Telemetry.Resolve(nil); refused == nil || refused.Code != workspace.CodeEnvMissing {
		t.Errorf("got %v", refused)
	}
	if diff := cmp.Diff(map[string]string{"ANTHROPIC_KEY": "key-of-anthropic", "LOCAL_MODEL": "llama-large", "A": "aaaaaaaa", "B": "bbbbbbbb", "OTEL_TOKEN": "otel-token"},
		m.Secrets(environ)); diff != "" {
		t.Error(diff)
	}
}

func TestAddressInAVariableIsCheckedWhenItIsKnown(t *testing.T) {
	m := parse(t, "models: {a: {provider: openai, model: m, base_url: $env:WHERE}, b: {provider: openai, model: m, base_url: '$env:WHERE', allow_http: true}}")
	for _, c := range []struct {
		value string
		a, b  bool
	}{
		{"https://models.example.com/v1", true, true},
		{"http://127.0.0.1:8080/v1", true, true},
		{"http://models.example.com/v1", false, true},
		{"https://me:secret@models.example.com", false, false},
		{"ftp://models.example.com", false, false},
		{"models.example.com", false, false},
	} {
		for name, ok := range map[string]bool{"a": c.a, "b": c.b} {
			got, refused := m.Models[name].Resolve([]string{"WHERE=" + c.value})
			if (refused == nil) != ok || ok && got.BaseURL != c.value {
				t.Errorf("%s: %s: %+v, %v", name, c.value, got, refused)
			}
			if refused != nil && strings.Contains(refused.Message, c.value) {
				t.Errorf("the message repeats the value: %s", refused.Message)
			}
		}
	}
}

func TestKeysOfModelsAreTakenOutOfResults(t *testing.T) {
	m := parseIn(t, agentsDoc)
	manager := tool.NewManager(m, nil)
	manager.Conceal(m.Secrets([]string{"ANTHROPIC_KEY=key-of-anthropic", "OTEL_TOKEN=otel-token-1"}))
	got := string(manager.Redact([]byte(`{"text":"key-of-anthropic and otel-token-1"}`)))
	if got != `{"text":"$env:ANTHROPIC_KEY and $env:OTEL_TOKEN"}` {
		t.Errorf("got %s", got)
	}
	none := tool.NewManager(nil, nil)
	none.Conceal(map[string]string{"K": "a-long-secret"})
	if got := string(none.Redact([]byte("a-long-secret"))); got != "$env:K" {
		t.Errorf("got %s", got)
	}
}

func TestModelAndAgentProblems(t *testing.T) {
	const models = "models: {m: {provider: scripted, script: answers.yaml}}\n"
	const server = "servers: {builtin: {tools: {read_file: {}}}}\n"
	for _, c := range []struct {
		name, doc string
		want      []string // line:column code path
		say       string   // part of the first message
	}{
		{"model name", "models: {'a b': {provider: scripted, script: answers.yaml}}", []string{"1:10 field_unknown models.a b"}, "cannot name a model"},
		{"no provider", "models: {a: {model: m}}", []string{"1:13 field_missing models.a"}, "needs provider"},
		{"provider", "models: {a: {provider: acme, model: m}}", []string{"1:24 field_invalid models.a.provider"}, "anthropic, openai, openai-chat, gemini or scripted"},
		{"thinking", "models: {a: {provider: anthropic, model: m, api_key: $env:K, thinking: hihg}}", []string{"1:72 field_invalid models.a.thinking"}, `thinking is "hihg"; it must be off, low, medium, high or a number of tokens; did you mean high?`},
		{"thinking with 0 tokens", "models: {a: {provider: gemini, model: m, api_key: $env:K, thinking: 0}}", []string{"1:69 field_invalid models.a.thinking"}, "number of tokens"},
		{"thinking as truth", "models: {a: {provider: gemini, model: m, api_key: $env:K, thinking: true}}", []string{"1:69 field_invalid models.a.thinking"}, "number of tokens"},
		{"thinking as list", "models: {a: {provider: gemini, model: m, api_key: $env:K, thinking: [low]}}", []string{"1:69 field_type models.a.thinking"}, "not a list"},
		{"tokens of openai", "models: {a: {provider: openai, model: m, api_key: $env:K, thinking: 2000}}", []string{"1:69 range models.a.thinking"}, "write off, low, medium or high"},
		{"tokens of openai-chat", "models: {a: {provider: openai-chat, model: m, api_key: $env:K, thinking: 2000}}", []string{"1:74 range models.a.thinking"}, "provider: openai-chat does not take"},
		{"too few tokens", "models: {a: {provider: anthropic, model: m, api_key: $env:K, thinking: 1000}}", []string{"1:72 range models.a.thinking"}, "no fewer than 1024"},
		{"thinking of a script", "models: {a: {provider: scripted, script: answers.yaml, thinking: low}}", []string{"1:66 field_unknown models.a.thinking"}, "asked of nobody"},
		{"temperature while it thinks", "models: {a: {provider: anthropic, model: m, api_key: $env:K, thinking: low}}\nagents: {b: {model: a, temperature: 0}}", []string{"2:37 range agents.b.temperature"}, "takes none while its model thinks"},
		{"no room to answer", "models: {a: {provider: gemini, model: m, api_key: $env:K, thinking: 4000}}\nagents: {b: {model: a, top_p: 1, max_output_tokens: 4000}}", []string{"2:53 range agents.b.max_output_tokens"}, "it needs more"},
		{"no model", "models: {a: {provider: openai, api_key: $env:K}}", []string{"1:13 field_missing models.a"}, "as the vendor calls it"},
		{"no key", "models: {a: {provider: anthropic, model: m}}", []string{"1:13 field_missing models.a"}, "$env:NAME"},
		{"literal key", "models: {a: {provider: openai, model: m, api_key: hunter2}}", []string{"1:51 literal_credential models.a.api_key"}, "$env:NAME"},
		{"shape of a key", "models: {a: {provider: openai, model: sk-abcdefghijklmnop, api_key: $env:K}}", []string{"1:39 literal_credential models.a.model"}, "API key"},
		{"half a reference", "models: {a: {provider: openai, model: m, api_key: '$env:'}}", []string{"1:51 range models.a.api_key"}, "name of a variable"},
		{"blank", "models: {a: {provider: openai, model: 'a b', api_key: $env:K}}", []string{"1:39 range models.a.model"}, "blank"},
		{"http", "models: {a: {provider: openai, model: m, base_url: 'http://x.example/v1'}}", []string{"1:52 range models.a.base_url"}, "allow_http"},
		{"userinfo", "models: {a: {provider: openai, model: m, base_url: 'https://u:p@x.example', allow_http: true}}", []string{"1:52 literal_credential models.a.base_url", "1:52 range models.a.base_url"}, "URL with a password"},
		{"key in the URL", "models: {a: {provider: openai, model: m, base_url: 'https://x.example/?api_key=1'}}", []string{"1:52 literal_credential models.a.base_url"}, ""},
		{"cache", "models: {a: {provider: anthropic, model: m, api_key: $env:K, cache: 2h}}", []string{"1:69 field_invalid models.a.cache"}, "off, 5m or 1h"},
		{"cache of another", "models: {a: {provider: openai, model: m, api_key: $env:K, cache: 5m}}", []string{"1:66 field_unknown models.a.cache"}, "anthropic"},
		{"script of another", "models: {a: {provider: openai, model: m, api_key: $env:K, script: answers.yaml}}", []string{"1:67 field_unknown models.a.script"}, "scripted"},
		{"key of a script", "models: {a: {provider: scripted, script: answers.yaml, api_key: $env:K}}", []string{"1:65 field_unknown models.a.api_key"}, "asked of nobody"},
		{"no script", "models: {a: {provider: scripted}}", []string{"1:13 field_missing models.a"}, "needs script"},
		{"script not there", "models: {a: {provider: scripted, script: none.yaml}}", []string{"1:42 range models.a.script"}, "cannot be read"},
		{"script outside", "models: {a: {provider: scripted, script: ../answers.yaml}}", []string{"1:42 range models.a.script"}, "cannot be read"},
		{"script too large", "models: {a: {provider: scripted, script: large/answers.yaml}}", []string{"1:42 limit models.a.script"}, "1048576"},
		{"window", "models: {a: {provider: openai, model: m, api_key: $env:K, context_window: 5}}", []string{"1:75 range models.a.context_window"}, "from 1024 to"},
		{"field of a model", "models: {a: {provider: openai, model: m, apikey: $env:K, api_key: $env:K}}", []string{"1:42 field_unknown models.a.apikey"}, "allow_http, api_key"},
		{"models as list", "models: []", []string{"1:9 field_type models"}, "must be an object"},
		{"models_file", "models_file: nothing.yaml", []string{"1:14 range models_file"}, "cannot be read"},
		{"agent name", models + "agents: {Ops: {model: m}}", []string{"2:10 field_unknown agents.Ops"}, "cannot name an agent"},
		{"agent without model", models + "agents: {ops: {}}", []string{"2:15 field_missing agents.ops"}, "needs model"},
		{"unknown model", models + "agents: {ops: {model: n}}", []string{"2:23 range agents.ops.model"}, `there is no model "n"`},
		{"model of another type", models + "agents: {ops: {model: 7}}", []string{"2:23 field_type agents.ops.model"}, "must be a string"},
		{"models after agents", "agents: {ops: {model: m}}\n" + models + "x: 1", []string{"3:1 field_unknown x"}, ""},
		{"tool", models + server + "agents: {ops: {model: m, tools: [mcp://builtin/exec@1.0.0]}}", []string{"3:34 unknown_tool agents.ops.tools[0]"}, "declares no tool"},
		{"unpinned", models + server + "agents: {ops: {model: m, tools: [mcp://builtin/read_file]}}", []string{"3:34 range agents.ops.tools[0]"}, "not pinned"},
		{"tool twice", models + server + "agents: {ops: {model: m, tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/read_file@1.0.0]}}", []string{"3:65 field_invalid agents.ops.tools[1]"}, "twice"},
		{"tools as text", models + "agents: {ops: {model: m, tools: all}}", []string{"2:33 field_type agents.ops.tools"}, "must be a list"},
		{"skill", models + "agents: {ops: {model: m, skill: ops}}", []string{"2:33 range agents.ops.skill"}, "skill://"},
		{"router", models + "agents: {ops: {model: m, router: best}}", []string{"2:34 field_invalid agents.ops.router"}, "none or toolkits"},
		{"steps", models + "agents: {ops: {model: m, max_steps: 1001}}", []string{"2:37 range agents.ops.max_steps"}, "0 to 1000"},
		{"negative steps", models + "agents: {ops: {model: m, max_steps: -1}}", []string{"2:37 range agents.ops.max_steps"}, "0 to 1000"},
		{"on_limit", models + "agents: {ops: {model: m, on_limit: stop}}", []string{"2:36 field_invalid agents.ops.on_limit"}, "fail or ask"},
		{"temperature", models + "agents: {ops: {model: m, temperature: 2.5}}", []string{"2:39 range agents.ops.temperature"}, "0 to 2"},
		{"temperature as text", models + "agents: {ops: {model: m, temperature: hot}}", []string{"2:39 field_type agents.ops.temperature"}, "must be a number"},
		{"top_p", models + "agents: {ops: {model: m, top_p: 1.1}}", []string{"2:33 range agents.ops.top_p"}, "0 to 1"},
		{"parallelism", models + "agents: {ops: {model: m, tool_parallelism: 17}}", []string{"2:44 range agents.ops.tool_parallelism"}, "1 to 16"},
		{"tool_timeout", "max_timeout: 1m\n" + models + "agents: {ops: {model: m, tool_timeout: 2m}}", []string{"3:40 range agents.ops.tool_timeout"}, "max_timeout"},
		{"schema", models + "agents: {ops: {model: m, output_schema: {type: 7}}}", []string{"2:41 range agents.ops.output_schema"}, "not a JSON Schema"},
		{"schema as text", models + "agents: {ops: {model: m, output_schema: object}}", []string{"2:41 field_type agents.ops.output_schema"}, "must be an object"},
		{"schema with infinity", models + "agents: {ops: {model: m, output_schema: {maximum: .inf}}}", []string{"2:51 number_unsafe agents.ops.output_schema.maximum"}, "not a number in JSON"},
		{"system file", models + "agents: {ops: {model: m, system: {file: texts/none.md}}}", []string{"2:41 range agents.ops.system.file"}, "cannot be read"},
		{"system folder", models + "agents: {ops: {model: m, system: {file: folder}}}", []string{"2:41 range agents.ops.system.file"}, "cannot be read"},
		{"system encoding", models + "agents: {ops: {model: m, system: {file: texts/latin.md}}}", []string{"2:41 range agents.ops.system.file"}, "UTF-8"},
		{"system without file", models + "agents: {ops: {model: m, system: {}}}", []string{"2:34 field_missing agents.ops.system"}, "{file: NAME}"},
		{"system list", models + "agents: {ops: {model: m, system: []}}", []string{"2:34 field_type agents.ops.system"}, "must be a string"},
		{"secret in a file", models + "agents: {ops: {model: m, system: {file: texts/key.md}}}", []string{"2:41 literal_credential agents.ops.system.file"}, "API key"},
		{"prompts", "prompts: nowhere", []string{"1:10 range prompts"}, "cannot be read"},
		{"prompts outside", "prompts: ../prompts", []string{"1:10 range prompts"}, "cannot be read"},
		{"faulty prompts", "prompts: faulty", []string{"1:10 range prompts", "1:10 range prompts"}, "extra.md"},
		{"faulty toolkits", "prompts: kits", []string{"3:23 range toolkits[0].match[0]"}, "exactly one"},
		{"secret in a prompt", "prompts: leaky", []string{"1:10 literal_credential prompts"}, "GitHub"},
		{"telemetry", "telemetry: {contents: true}", []string{"1:13 field_unknown telemetry.contents"}, "did you mean content?"},
		{"no endpoint", "telemetry: {otlp: {headers: {A: b}}}", []string{"1:19 field_missing telemetry.otlp"}, "needs endpoint"},
		{"endpoint", "telemetry: {otlp: {endpoint: 'http://otel.example.com'}}", []string{"1:30 range telemetry.otlp.endpoint"}, "allow_http"},
		{"literal header", "telemetry: {otlp: {endpoint: 'https://otel.example.com', headers: {Authorization: secret}}}", []string{"1:83 literal_credential telemetry.otlp.headers.Authorization"}, "$env:NAME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, problems := workspace.ParseIn(beside, "tipstaff.yaml", []byte(c.doc))
			if m != nil {
				t.Error("a manifest was made")
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path))
				if strings.Contains(p.Message, "abcdefghij") {
					t.Errorf("the message repeats a secret: %s", p.Message)
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

func TestProblemOfAPromptNamesItsFile(t *testing.T) {
	_, problems := workspace.ParseIn(beside, "tipstaff.yaml", []byte("prompts: kits"))
	if len(problems) != 1 || problems[0].File != "kits/toolkits.yaml" {
		t.Errorf("%+v", problems)
	}
}

func TestFilesBesideANamelessManifestCannotBeRead(t *testing.T) {
	_, problems := workspace.Parse("tipstaff.yaml", []byte("prompts: ours\nmodels_file: prices.yaml"))
	if len(problems) != 2 {
		t.Fatalf("%+v", problems)
	}
	for _, p := range problems {
		contains(t, p.Message, "without the files beside it")
	}
}

func TestHTTPMayBeAllowed(t *testing.T) {
	m := parse(t, "telemetry: {otlp: {endpoint: 'http://otel:4318', allow_http: true}}")
	if m.Telemetry.Endpoint != "http://otel:4318" || m.Telemetry.Content {
		t.Errorf("got %+v", m.Telemetry)
	}
}

func TestVendorsAsTelemetryCallsThem(t *testing.T) {
	for provider, want := range map[string]string{"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai", "gemini": "gcp.gemini", "scripted": "scripted"} {
		if got := (workspace.Model{Provider: provider}).Vendor(); got != want {
			t.Errorf("%s is called %s", provider, got)
		}
	}
}

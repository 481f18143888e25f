package workspace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/worker"
	"github.com/tipstaff/tipstaff/workspace"
)

const workersDoc = `models: {main: {provider: anthropic, model: claude-x, api_key: $env:K}}
workers:
  careful:
    type: claude
    command: /opt/claude
    model: opus
    posture: write
    args: [--append-system-prompt, Be brief., --effort, high]
    env: {DEBUG: "1", ANTHROPIC_API_KEY: "$env:TEAM_KEY"}
    settings: user
    on_interrupt: resume
    limits: {wall: 45m, idle: 90s, cost_usd: "3.00", output: 1GiB, grace: 5s, tokens: 100000, containment: subreaper}
  fast: {type: codex, yolo: true, args: [-c, "model_providers.proxy.base_url=http://localhost:1", --config=model_provider=proxy, -i, a.png]}
  demo: {type: scripted, script: answers.yaml}
roles:
  reviewer: {prompt: texts/ops.md}
  planner: {posture: write}
  operator: {prompt: texts/ops.md, posture: read_only}
  clerk: {prompt: texts/ops.md}
bindings: {implementer: careful, operator: fast, reviewer: codex}
agents:
  default: {model: main}
  builder: {worker: careful, review: person, on_worker_failure: ask, on_bound: ask, max_iterations: 3}
  judge: {role: reviewer, review: operator}
`

func TestWorkersAreRead(t *testing.T) {
	m := parseIn(t, workersDoc)
	limits := workspace.WorkerLimits{Wall: document.Duration(30 * time.Minute), Idle: document.Duration(10 * time.Minute),
		CostUSD: 2_000_000_000, Output: 256 << 20, Grace: document.Duration(10 * time.Second)}
	script := workspace.File{Name: "answers.yaml", Digest: flow.Digest(beside["answers.yaml"].Data), Text: string(beside["answers.yaml"].Data)}
	if diff := cmp.Diff(map[string]workspace.Worker{
		"careful": {
			Type: "claude", Command: "/opt/claude", Model: "opus", Posture: worker.Write, Args: []string{"--append-system-prompt", "Be brief.", "--effort", "high"},
			Env: map[string]string{"DEBUG": "1", "ANTHROPIC_API_KEY": "$env:TEAM_KEY"}, Settings: "user", OnInterrupt: "resume",
			Limits: workspace.WorkerLimits{Wall: document.Duration(45 * time.Minute), Idle: document.Duration(90 * time.Second), CostUSD: 3_000_000_000,
				Output: 1 << 30, Grace: document.Duration(5 * time.Second), Tokens: 100_000, Containment: "subreaper"},
		},
		"fast": {Type: "codex", Posture: worker.Bypass, Settings: "none", OnInterrupt: "ask", Limits: limits,
			Args: []string{"-c", "model_providers.proxy.base_url=http://localhost:1", "--config=model_provider=proxy", "-i", "a.png"}},
		"demo": {Type: "scripted", Script: script, Settings: "none", OnInterrupt: "ask", Limits: limits},
	}, m.Workers); diff != "" {
		t.Error(diff)
	}
	if a, _ := m.Agent("builder"); a.Worker != "careful" || a.Review != "person" || a.OnWorkerFailure != "ask" || a.OnBound != "ask" || a.MaxIterations != 3 {
		t.Errorf("builder is %+v", a)
	}
	if w := m.Workers["careful"].Limits.Invocation(); w.Wall != 45*time.Minute || w.CostUSD != 3_000_000_000 || w.Output != 1<<30 || w.Tokens != 100_000 || w.Containment != "subreaper" {
		t.Errorf("an invocation gets %+v", w)
	}
}

func TestWithoutConfigurationEachTypeIsAWorker(t *testing.T) {
	for _, m := range []*workspace.Manifest{nil, parseIn(t, "version: 1")} {
		if got := m.WorkerNames(); !slices.Equal(got, []string{"claude", "codex", "cursor", "gemini", "opencode", "scripted"}) {
			t.Errorf("there are %v", got)
		}
		for _, name := range m.WorkerNames() {
			w, ok := m.Worker(name)
			if !ok || w.Type != name || w.Settings != "none" || w.Limits.Wall != document.Duration(30*time.Minute) {
				t.Errorf("%s is %+v", name, w)
			}
		}
		if got := m.RoleNames(); !slices.Equal(got, []string{"architect", "decomposer", "implementer", "planner", "researcher", "reviewer"}) {
			t.Errorf("the roles are %v", got)
		}
		for _, role := range m.RoleNames() {
			if name, where, err := m.WorkerFor(workspace.WorkerChoice{Role: role}); name != "claude" || where != "default" || err != nil {
				t.Errorf("%s is played by %s (%s), %v", role, name, where, err)
			}
		}
	}
}

func TestChoiceOfAWorker(t *testing.T) {
	m := parseIn(t, workersDoc+"  unused: {model: main}\n")
	environ := []string{"TIPSTAFF_WORKER_IMPLEMENTER=demo", "TIPSTAFF_WORKER_CLERK=nobody", "TIPSTAFF_WORKER_=codex"}
	for _, c := range []struct {
		choice      workspace.WorkerChoice
		name, where string
	}{
		{workspace.WorkerChoice{Flag: "gemini", Own: "fast", Role: "implementer", Environ: environ}, "gemini", "--worker"},
		{workspace.WorkerChoice{Own: "fast", Role: "implementer", Environ: environ}, "fast", "worker"},
		{workspace.WorkerChoice{Role: "implementer", Environ: environ}, "demo", "TIPSTAFF_WORKER_IMPLEMENTER"},
		{workspace.WorkerChoice{Role: "implementer"}, "careful", "bindings.implementer"},
		{workspace.WorkerChoice{Role: "architect"}, "claude", "default"},
		{workspace.WorkerChoice{Environ: environ}, "claude", "default"},
	} {
		name, where, err := m.WorkerFor(c.choice)
		if name != c.name || where != c.where || err != nil {
			t.Errorf("%+v falls on %s (%s), %v", c.choice, name, where, err)
		}
	}
	for _, c := range []workspace.WorkerChoice{{Flag: "nobody"}, {Own: "builder"}, {Role: "clerk", Environ: environ}, {Flag: "reviewer"}} {
		name, _, err := m.WorkerFor(c)
		if !errors.Is(err, &tipstaff.Error{Code: tipstaff.WorkerNotFound}) || name != "" {
			t.Errorf("%+v falls on %q, %v", c, name, err)
		}
	}
	_, _, err := m.WorkerFor(workspace.WorkerChoice{Flag: "zzz"})
	contains(t, err.Error(), "careful, claude, codex, cursor, demo, fast, gemini, opencode, scripted")

	dashed := parseIn(t, "roles: {site-keeper: {prompt: texts/ops.md}}")
	if name, where, _ := dashed.WorkerFor(workspace.WorkerChoice{Role: "site-keeper", Environ: []string{"TIPSTAFF_WORKER_SITE_KEEPER=codex"}}); name != "codex" {
		t.Errorf("a role with a dash is played by %s (%s)", name, where)
	}
}

func TestConfiguredNamesHideBuiltinOnes(t *testing.T) {
	m := parseIn(t, `models: {main: {provider: anthropic, model: claude-x, api_key: $env:K}}
agents: {claude: {model: main}}
workers: {reviewer: {type: codex}, gemini: {type: claude}}
roles: {opencode: {prompt: texts/ops.md}}
`)
	if _, ok := m.Worker("claude"); ok {
		t.Error("a worker has the name of an agent")
	}
	if _, ok := m.Worker("opencode"); ok {
		t.Error("a worker has the name of a role")
	}
	if w, _ := m.Worker("gemini"); w.Type != "claude" {
		t.Errorf("gemini is %+v", w)
	}
	if _, ok := m.Role("reviewer"); ok {
		t.Error("a role has the name of a worker")
	}
	if _, _, err := m.WorkerFor(workspace.WorkerChoice{Role: "implementer"}); tipstaff.CodeOf(err) != tipstaff.WorkerNotFound {
		t.Errorf("roles that nobody is bound to: %v", err)
	}
}

func TestRolesAndPostures(t *testing.T) {
	m := parseIn(t, workersDoc)
	builtin, _ := worker.BuiltinRole("planner")
	for name, want := range map[string]worker.Role{
		"reviewer": {Name: "reviewer", Description: "judges a change against its task, gives a verdict", Prompt: "You look after machines.\n", Posture: worker.ReadOnly},
		"planner":  {Name: "planner", Description: builtin.Description, Prompt: builtin.Prompt, Posture: worker.Write},
		"operator": {Name: "operator", Prompt: "You look after machines.\n", Posture: worker.ReadOnly},
		"clerk":    {Name: "clerk", Prompt: "You look after machines.\n", Posture: worker.Auto},
	} {
		if got, ok := m.Role(name); !ok || got != want {
			t.Errorf("%s is %+v", name, got)
		}
	}
	if _, ok := m.Role("careful"); ok {
		t.Error("a worker is a role")
	}
	role := func(name string) worker.Role { r, _ := m.Role(name); return r }
	for _, c := range []struct {
		worker string
		role   worker.Role
		want   worker.Posture
	}{
		{"careful", worker.Role{}, worker.Write},
		{"careful", role("implementer"), worker.Write},
		{"careful", role("reviewer"), worker.ReadOnly},
		{"fast", role("operator"), worker.ReadOnly},
		{"fast", role("clerk"), worker.Bypass},
		{"demo", role("planner"), worker.Write},
		{"demo", worker.Role{}, worker.Auto},
	} {
		w, _ := m.Worker(c.worker)
		if got := w.In(c.role); got != c.want {
			t.Errorf("%s as %s has posture %s", c.worker, c.role.Name, got)
		}
	}
}

// TestWorkerProblems: each document has exactly the problems named, at their place.
func TestWorkerProblems(t *testing.T) {
	const model = "models: {main: {provider: anthropic, model: m, api_key: $env:K}}\n"
	for _, c := range []struct {
		name, doc string
		want      []string // line:column code path
		say       string   // part of the first message
	}{
		{"no type", "workers: {w: {}}", []string{"1:14 field_missing workers.w"}, "needs type: claude, codex, cursor, gemini, opencode or scripted"},
		{"type", "workers: {w: {type: copilot}}", []string{"1:21 field_invalid workers.w.type"}, "it must be claude"},
		{"name", "workers: {Big One: {type: claude}}", []string{"1:11 field_unknown workers.Big One"}, "cannot name a worker"},
		{"role name", "roles: {1st: {prompt: texts/ops.md}}", []string{"1:9 field_unknown roles.1st"}, "cannot name a role"},
		{"command line", "workers: {w: {type: claude, command: claude -p}}", []string{"1:38 range workers.w.command"}, "belong in args"},
		{"model as a flag", "workers: {w: {type: claude, model: --yolo}}", []string{"1:36 range workers.w.model"}, "cannot name a model"},
		{"posture", "workers: {w: {type: claude, posture: all}}", []string{"1:38 field_invalid workers.w.posture"}, "bypass"},
		{"yolo against posture", "workers: {w: {type: claude, posture: write, yolo: true}}", []string{"1:51 field_invalid workers.w.yolo"}, "leave one of them out"},
		{"posture against yolo", "workers:\n  w: {type: claude, yolo: false,\n      posture: bypass}", []string{"2:27 field_invalid workers.w.yolo"}, "leave one of them out"},
		{"yolo as text", "workers: {w: {type: claude, yolo: 'yes'}}", []string{"1:35 field_type workers.w.yolo"}, "a boolean"},
		{"reserved argument", "workers: {w: {type: claude, args: [--effort, high, --resume, x]}}", []string{"1:52 argument_reserved workers.w.args[2]"}, "changes permissions, sandbox, session"},
		{"two reserved arguments", "workers: {w: {type: codex, args: [-sread-only, -c, 'approval_policy=never']}}",
			[]string{"1:35 argument_reserved workers.w.args[0]", "1:52 argument_reserved workers.w.args[2]"}, "changes permissions, sandbox, session"},
		{"reference in an argument", "workers: {w: {type: claude, args: [--effort, '$env:TOK']}}", []string{"1:46 range workers.w.args[1]"}, "never among arguments"},
		{"credential as argument", "workers: {w: {type: opencode, args: [--auth-token, abcdef]}}", []string{"1:52 literal_credential workers.w.args[1]"}, "$env:NAME"},
		{"literal credential", "workers: {w: {type: codex, env: {OPENAI_API_KEY: abc}}}", []string{"1:50 literal_credential workers.w.env.OPENAI_API_KEY"}, "$env:NAME"},
		{"shape of a credential", "workers: {w: {type: codex, env: {X: ghp_abcdefghij0123456789}}}", []string{"1:37 literal_credential workers.w.env.X"}, "GitHub"},
		{"variable of Tipstaff", "workers: {w: {type: codex, env: {TIPSTAFF_SANDBOX: x}}}", []string{"1:34 range workers.w.env.TIPSTAFF_SANDBOX"}, "reserved"},
		{"variable that is set", "workers: {w: {type: claude, env: {IS_SANDBOX: '1', TERM: xterm}}}", []string{"1:35 range workers.w.env.IS_SANDBOX", "1:52 range workers.w.env.TERM"}, "set by Tipstaff"},
		{"settings", "workers: {w: {type: claude, settings: project}}", []string{"1:39 field_invalid workers.w.settings"}, "none or user"},
		{"on_interrupt", "workers: {w: {type: claude, on_interrupt: fail}}", []string{"1:43 field_invalid workers.w.on_interrupt"}, "ask or resume"},
		{"script of another", "workers: {w: {type: claude, script: answers.yaml}}", []string{"1:37 field_unknown workers.w.script"}, "goes with type: scripted"},
		{"scripted without", "workers: {w: {type: scripted}}", []string{"1:14 field_missing workers.w"}, "needs script"},
		{"script that is not there", "workers: {w: {type: scripted, script: nowhere.yaml}}", []string{"1:39 range workers.w.script"}, "cannot be read"},
		{"limits", "workers: {w: {type: claude, limits: {wall: 0s, idle: soon, cost_usd: 2, output: 1MB, grace: 1h, tokens: 0, containment: jail, hops: 1}}}", []string{
			"1:44 range workers.w.limits.wall", "1:54 field_invalid workers.w.limits.idle", "1:70 field_type workers.w.limits.cost_usd", "1:81 field_invalid workers.w.limits.output",
			"1:93 range workers.w.limits.grace", "1:105 range workers.w.limits.tokens", "1:121 field_invalid workers.w.limits.containment", "1:127 field_unknown workers.w.limits.hops"}, ""},
		{"no money", "workers: {w: {type: claude, limits: {cost_usd: '0.00'}}}", []string{"1:48 range workers.w.limits.cost_usd"}, "nothing"},
		{"no amount", "workers: {w: {type: claude, limits: {cost_usd: '-1'}}}", []string{"1:48 range workers.w.limits.cost_usd"}, "not an amount"},
		{"too much output", "workers: {w: {type: claude, limits: {output: 9999999999GiB}}}", []string{"1:46 range workers.w.limits.output"}, "16384MiB is the most"},
		{"role without a prompt", "roles: {clerk: {posture: auto}}", []string{"1:16 field_missing roles.clerk"}, "needs prompt"},
		{"prompt that is not there", "roles: {clerk: {prompt: nowhere.md}}", []string{"1:25 range roles.clerk.prompt"}, "cannot be read"},
		{"credential in a prompt", "roles: {clerk: {prompt: texts/key.md}}", []string{"1:25 literal_credential roles.clerk.prompt"}, "API key"},
		{"unknown binding", "bindings: {tester: claude, reviewer: claud, planner: 7}",
			[]string{"1:12 role_unknown bindings.tester", "1:38 worker_unknown bindings.reviewer", "1:54 field_type bindings.planner"}, "no role"},
		{"binding to an agent", model + "agents: {a: {model: main}}\nbindings: {reviewer: a}", []string{"3:22 worker_unknown bindings.reviewer"}, "no worker"},
		{"clash of an agent and a worker", model + "agents: {x: {model: main}}\nworkers: {x: {type: claude}}", []string{"3:11 duplicate_name workers.x"}, "agents.x"},
		{"clash of a worker and an agent", "workers: {x: {type: claude}}\n" + model + "agents: {x: {model: main}}", []string{"3:10 duplicate_name agents.x"}, "workers.x"},
		{"clash of three", "roles: {x: {prompt: texts/ops.md}}\nworkers: {x: {type: claude}, y: {type: codex}}\n" + model + "agents: {x: {model: main}, y: {model: main}}",
			[]string{"2:11 duplicate_name workers.x", "4:10 duplicate_name agents.x", "4:28 duplicate_name agents.y"}, "roles.x"},
		{"default", "workers: {default: {type: claude}}", []string{"1:11 duplicate_name workers.default"}, "an agent's"},
		{"nobody", "agents: {a: {review: none}}", []string{"1:13 field_missing agents.a"}, "needs model, one of models; or worker, or role"},
		{"two", model + "agents: {a: {model: main, worker: claude}}", []string{"2:35 range agents.a.worker"}, "model and worker"},
		{"worker and role", "agents: {a: {role: reviewer, worker: claude}}", []string{"1:20 range agents.a.role"}, "worker and role"},
		{"settings of a model", "agents: {a: {worker: claude, max_steps: 3, tools: none, output_schema: {}, system: x, max_result_bytes: 1}}", []string{
			"1:30 field_unknown agents.a.max_steps", "1:44 field_unknown agents.a.tools", "1:57 field_unknown agents.a.output_schema", "1:76 field_unknown agents.a.system", "1:87 field_unknown agents.a.max_result_bytes"}, "goes with model"},
		{"settings of a worker", model + "agents: {a: {model: main, review: none, on_bound: ask}}", []string{"2:27 field_unknown agents.a.review", "2:41 field_unknown agents.a.on_bound"}, "goes with worker or role"},
		{"unknown in an agent of a worker", "agents: {a: {worker: claude, zzz: 1}}", []string{"1:30 field_unknown agents.a.zzz"}, "is not a field here"},
		{"agent of nobody", "agents: {a: {worker: nobody}, b: {role: claude}, c: {worker: claude, review: nobody}}",
			[]string{"1:22 worker_unknown agents.a.worker", "1:41 role_unknown agents.b.role", "1:78 role_unknown agents.c.review"}, "no worker"},
		{"iterations", "agents: {a: {worker: claude, max_iterations: 101, on_worker_failure: retry}}", []string{"1:46 range agents.a.max_iterations", "1:70 field_invalid agents.a.on_worker_failure"}, "1 to 100"},
		{"server of workers", "servers: {worker-claude: {command: [x]}, tipstaff: {command: [x]}}", []string{"1:11 field_unknown servers.worker-claude", "1:42 field_unknown servers.tipstaff"}, "workers bring along"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, problems := workspace.ParseIn(beside, "tipstaff.yaml", []byte(c.doc))
			if m != nil {
				t.Error("a manifest was made")
			}
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Code, p.Path))
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

func TestEnvironmentOfAWorkerIsExactlyWhatIsAllowed(t *testing.T) {
	m := parseIn(t, workersDoc+"  unused: {model: main}\n")
	ours := []string{
		"PATH=/bin", "HOME=/home/u", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp", "TERM=xterm",
		"HTTP_PROXY=p", "HTTPS_PROXY=p", "NO_PROXY=n", "SSL_CERT_FILE=f", "NODE_EXTRA_CA_CERTS=f",
		"ANTHROPIC_API_KEY=mine-0123456789", "ANTHROPIC_AUTH_TOKEN=a", "ANTHROPIC_BASE_URL=b", "CLAUDE_CODE_OAUTH_TOKEN=c", "CLAUDE_CONFIG_DIR=d",
		"OPENAI_API_KEY=o", "OPENAI_BASE_URL=p", "CODEX_API_KEY=q", "CODEX_HOME=r", "GEMINI_API_KEY=s", "GOOGLE_API_KEY=t", "GOOGLE_GEMINI_BASE_URL=u",
		"GOOGLE_CLOUD_PROJECT=v", "CURSOR_API_KEY=w", "TEAM_KEY=team-0123456789", "AWS_SECRET_ACCESS_KEY=secret", "TIPSTAFF_TOKEN=x", "LD_PRELOAD=y", "XDG_CONFIG_HOME=z", "PATHS=no",
	}
	common := []string{"PATH=/bin", "HOME=/home/u", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp",
		"HTTP_PROXY=p", "HTTPS_PROXY=p", "NO_PROXY=n", "SSL_CERT_FILE=f", "NODE_EXTRA_CA_CERTS=f", "TERM=dumb"}
	for name, own := range map[string][]string{
		"claude":   {"ANTHROPIC_API_KEY=mine-0123456789", "ANTHROPIC_AUTH_TOKEN=a", "ANTHROPIC_BASE_URL=b", "CLAUDE_CODE_OAUTH_TOKEN=c", "CLAUDE_CONFIG_DIR=d"},
		"careful":  {"ANTHROPIC_API_KEY=team-0123456789", "ANTHROPIC_AUTH_TOKEN=a", "ANTHROPIC_BASE_URL=b", "CLAUDE_CODE_OAUTH_TOKEN=c", "CLAUDE_CONFIG_DIR=d", "DEBUG=1"},
		"codex":    {"OPENAI_API_KEY=o", "OPENAI_BASE_URL=p", "CODEX_API_KEY=q", "CODEX_HOME=r"},
		"gemini":   {"GEMINI_API_KEY=s", "GOOGLE_API_KEY=t", "GOOGLE_GEMINI_BASE_URL=u", "GOOGLE_CLOUD_PROJECT=v"},
		"opencode": nil,
		"cursor":   {"CURSOR_API_KEY=w"},
		"scripted": nil,
	} {
		got, err := m.WorkerEnviron(name, ours)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Concat(common, own)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := m.WorkerEnviron("careful", []string{"PATH=/bin"}); tipstaff.CodeOf(err) != tipstaff.Refused || !strings.Contains(err.Error(), "TEAM_KEY") {
		t.Errorf("a variable that is not set: %v", err)
	}
	if _, err := m.WorkerEnviron("nobody", nil); tipstaff.CodeOf(err) != tipstaff.WorkerNotFound {
		t.Errorf("nobody: %v", err)
	}

	secrets := m.Secrets([]string{"TEAM_KEY=team-0123456789", "ANTHROPIC_AUTH_TOKEN=auth-0123456789", "CODEX_API_KEY=codex-0123456789", "OPENAI_API_KEY=short", "GEMINI_API_KEY=gemini-0123456789", "DEBUG=debug-0123456789"})
	if diff := cmp.Diff(map[string]string{"TEAM_KEY": "team-0123456789", "ANTHROPIC_AUTH_TOKEN": "auth-0123456789", "CODEX_API_KEY": "codex-0123456789"}, secrets); diff != "" {
		t.Error("what is concealed: ", diff)
	}
}

func TestFrozenWorkers(t *testing.T) {
	m := parseIn(t, workersDoc)
	var frozen struct{ Workers, Roles, Bindings, Agents map[string]json.RawMessage }
	if err := json.Unmarshal(m.Frozen(), &frozen); err != nil {
		t.Fatal(err)
	}
	const careful = `{"args":["--append-system-prompt","Be brief.","--effort","high"],"command":"/opt/claude","env":{"ANTHROPIC_API_KEY":"$env:TEAM_KEY","DEBUG":"1"},` +
		`"limits":{"containment":"subreaper","cost_usd":"3.00","grace":"5s","idle":"1m30s","output":1073741824,"tokens":100000,"wall":"45m0s"},` +
		`"model":"opus","on_interrupt":"resume","posture":"write","settings":"user","type":"claude"}`
	if got := string(frozen.Workers["careful"]); got != careful {
		t.Errorf("a worker is frozen as\n%s\nwant\n%s", got, careful)
	}
	if got := string(frozen.Roles["planner"]); got != `{"posture":"write"}` {
		t.Errorf("a role is frozen as %s", got)
	}
	if got := string(frozen.Bindings["reviewer"]); got != `"codex"` {
		t.Errorf("a binding is frozen as %s", got)
	}
	if got := string(frozen.Agents["judge"]); got != `{"review":"operator","role":"reviewer","tools":null}` {
		t.Errorf("an agent is frozen as %s", got)
	}
	back, err := workspace.ParseFrozen(m.Frozen())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := back.Workers["fast"], m.Workers["fast"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v came back as %+v", want, got)
	}
	if string(back.Frozen()) != string(m.Frozen()) {
		t.Error("the frozen form changes when it is read and written")
	}
}

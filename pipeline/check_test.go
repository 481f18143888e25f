package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff"
)

// marker stands in a test document right before what is wrong.
const marker = '§'

// marked is the document without its markers, and where they stood.
func marked(src string) (string, []string) {
	var b strings.Builder
	var places []string
	line, column := 1, 1
	for _, c := range src {
		if c == marker {
			places = append(places, fmt.Sprintf("%d:%d", line, column))
			continue
		}
		b.WriteRune(c)
		if column++; c == '\n' {
			line, column = line+1, 1
		}
	}
	return b.String(), places
}

// workspace is the resolver of these tests.
func workspace() Resolver {
	return Resolver{
		Ceiling: tipstaff.Bounds{
			tipstaff.BoundIterations: 50, tipstaff.BoundModelCalls: 50, tipstaff.BoundAgentHops: 50, tipstaff.BoundToolCalls: 500,
			tipstaff.BoundTokens: 500_000, tipstaff.BoundCostUSD: 9_500_000_000, tipstaff.BoundWallTime: 7_200_000,
		},
		File: func(name string) ([]byte, error) {
			switch name {
			case "prompt.md":
				return []byte("Do ${input}"), nil
			case "broken.md":
				return []byte("Do ${inptu}"), nil
			case "latin.md":
				return []byte("caf\xe9"), nil
			case "plan.yaml":
				return []byte("kind: plan\nversion: 1\nroot: {kind: tool_call, id: a, tool: 'mcp://fs/read@1.0.0'}\n"), nil
			case "torn.yaml":
				return []byte("kind: plan\nroot: [\n"), nil
			}
			return nil, errors.New("no such file")
		},
		Performer: func(way Way, name string) Trouble {
			if name == "careful" {
				return Trouble{}
			}
			return Trouble{Code: "no_way_to_run", Message: string(way) + " stages cannot run yet"}
		},
		Tool: func(uri string) (string, Trouble) {
			switch {
			case strings.Contains(uri, "/gone@"):
				return "", Trouble{Code: "unknown_tool", Message: "no server has it"}
			case strings.Contains(uri, "/send@"):
				return "once", Trouble{}
			}
			return "read", Trouble{}
		},
		Model: known("main", "model_unknown"), Agent: known("default", "agent_unknown"), Skill: known("review", "unknown_skill"),
		Plan: func(raw json.RawMessage) []tipstaff.Problem {
			if strings.Contains(string(raw), "bad") {
				return []tipstaff.Problem{{Code: "id_missing", Path: "root", Message: "a leaf needs an id"}}
			}
			return nil
		},
	}
}

func known(only, code string) func(string) Trouble {
	return func(name string) Trouble {
		if name != only {
			return Trouble{Code: code, Message: "there is no " + name}
		}
		return Trouble{}
	}
}

// Every document yields exactly the codes that it is listed with, at its markers.
var faulty = []struct{ codes, src string }{
	{"name_missing", "§agents: []\n"},
	{"name_missing", "name: §''\nagents: []\n"},
	{"name_missing", "name: p\nagents:\n  - §remote: {}\n"},
	{"bad_name", "name: p\nagents:\n  - name: §9lives\n    remote: {}\n"},
	{"bad_name", "name: p\nagents: [{name: §a.b, remote: {}}]\n"},
	{"reserved_name", "name: p\nagents: [{name: §end, remote: {}}]\n"},
	{"reserved_name", "name: p\nagents: [{name: §confirmation, remote: {}}]\n"},
	{"reserved_name", "name: p\nagents: [{name: §start, remote: {}}]\n"},
	{"reserved_name", "name: p\nagents: [{name: a, output_key: §delivery, remote: {}}]\n"},
	{"duplicate_name", "name: p\nagents:\n  - {name: a, remote: {}}\n  - {name: §a, remote: {}}\n"},
	{"duplicate_output_key", "name: p\nagents:\n  - {name: a, remote: {}}\n  - {name: b, output_key: §a, remote: {}}\n"},
	{"duplicate_output_key", "name: p\nagents:\n  - {name: a, output_key: b, remote: {}}\n  - {name: §b, remote: {}}\n"},
	{"unknown_target", "name: p\nagents: [{name: a, remote: {}, default_next: §b}]\n"},
	{"unknown_target", "name: p\nagents: [{name: a, remote: {}, error_next: §start}]\n"},
	{"unknown_target", "name: p\nagents: [{name: a, remote: {}, denied_next: §b}]\n"},
	{"unknown_target", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {condition: x, value: 1, target: §b}\n"},
	{"unknown_target", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {condition: x, value: 1, target: confirmation, then: §clarification}\n"},
	{"unknown_target", "name: p\nclarification_resume_stage: §b\nagents: [{name: a, remote: {}}]\n"},
	{"unknown_dependency", "name: p\nagents: [{name: a, remote: {}, requires: [§b]}]\n"},
	{"unknown_dependency", "name: p\nagents: [{name: a, remote: {}, after: [§b]}]\n"},
	{"self_dependency", "name: p\nagents: [{name: a, remote: {}, requires: [§a]}]\n"},
	{"dependency_cycle", "name: p\nagents:\n  - {name: a, remote: {}, requires: [b]}\n  - {name: b, remote: {}, after: [c]}\n  - {name: c, remote: {}, requires: [§a]}\n"},
	{"unknown_edge", "name: p\nedge_limits: [{from: §x, to: a, max_count: 1}]\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"unknown_edge", "name: p\nedge_limits: [{from: a, to: §end, max_count: 1}]\nagents: [{name: a, remote: {}, default_next: end}]\n"},
	{"edge_not_in_graph", "name: p\nedge_limits: [§{from: b, to: a, max_count: 1}]\nagents: [{name: a, remote: {}, default_next: b}, {name: b, remote: {}}]\n"},
	{"duplicate_edge_limit", "name: p\nedge_limits:\n  - {from: a, to: a, max_count: 1}\n  - §{from: a, to: a, max_count: 2}\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"field_invalid", "name: p\nedge_limits: [{from: a, to: a, max_count: 1, per: §pass}]\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"field_invalid", "name: p\nedge_limits: [{from: a, to: a, max_count: 1, per: §round}]\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"bad_bound", "name: p\nmax_iterations: §0\nagents: []\n"},
	{"bad_bound", "name: p\nmax_llm_calls: §-1\nagents: []\n"},
	{"bad_bound", "name: p\nmax_agent_hops: §1000001\nagents: []\n"},
	{"bad_bound", "name: p\nmax_stages: §1.5\nagents: []\n"},
	{"bad_bound", "name: p\nmax_tool_calls: §0\nagents: []\n"},
	{"bad_bound", "name: p\nmax_tokens: §0\nagents: []\n"},
	{"bad_bound", "name: p\nmax_cost_usd: §'0.00'\nagents: []\n"},
	{"bad_bound", "name: p\nmax_cost_usd: §'1000000.01'\nagents: []\n"},
	{"bad_bound", "name: p\nmax_cost_usd: §'5,00'\nagents: []\n"},
	{"bad_bound", "name: p\nmax_wall_seconds: §0\nagents: []\n"},
	{"bad_bound", "name: p\nmax_parallel: §0\nagents: []\n"},
	{"bad_bound", "name: p\nagents: [{name: a, remote: {}, max_visits: §0}]\n"},
	{"bad_bound", "name: p\nedge_limits: [{from: a, to: a, max_count: §1000001}]\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"bad_bound", "name: p\nagents: [{name: a, model: {max_steps: §0}}]\n"},
	{"negative_value", "name: p\nagents: [{name: a, remote: {}, timeout_seconds: §-1}]\n"},
	{"negative_value", "name: p\nagents: [{name: a, scripted: {answers: [{}]}, max_retries: §-1}]\n"},
	{"negative_value", "name: p\nagents: [{name: a, remote: {}, retry_delay_ms: §-1}]\n"},
	{"negative_value", "name: p\nagents: [{name: a, remote: {wait_seconds: §-0.5}}]\n"},
	{"negative_value", "name: p\ndefault_timeout_seconds: §-1\nagents: []\n"},
	{"negative_value", "name: p\nedge_limits: [{from: a, to: a, max_count: §-1}]\nagents: [{name: a, remote: {}, default_next: a}]\n"},
	{"number_unsafe", "name: p\nagents: [{name: a, scripted: {answers: [{output: {id: §9007199254740993}}]}}]\n"},
	{"no_way_to_run", "name: p\nagents: [§{name: a}]\n"},
	{"no_way_to_run", "name: p\nagents: [{name: a, §worker: {name: claude, prompt: hi}, effect: once}]\n"},
	{"retry_once", "name: p\nagents: [{name: a, worker: {name: careful}, max_retries: §1}]\n"},
	{"two_ways_to_run", "name: p\nagents: [{name: a, remote: {}, §scripted: {answers: [{}]}}]\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - §{condition: x, value: 1}\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - §{condition: x, target: end}\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {condition: x, value: 1, when: §'true', target: end}\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - §{target: end}\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {when: 'true', value: §1, target: end}\n"},
	{"bad_rule", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {when: 'true', target: a, then: §end}\n"},
	{"bad_expression", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {when: §'output.x +', target: end}\n"},
	{"bad_expression", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {when: §'1 + 1', target: end}\n"},
	{"bad_expression", "name: p\nagents:\n  - name: a\n    remote: {}\n    routing_rules:\n      - {when: §'verdict == 1', target: end}\n"},
	{"bad_expression", "name: p\nagents: [{name: a, remote: {input: {deep: [§'${nobody}']}}}]\n"},
	{"bad_expression", "name: p\nagents: [{name: a, model: {prompt: §'Do ${input'}}]\n"},
	{"bad_expression", "name: p\nagents: [{name: a, tool: {uri: 'mcp://fs/read@1.0.0', args: {§'${input}': 1}}}]\n"},
	{"bad_expression", "name: p\nagents: [{name: a, model: {prompt_file: §broken.md}}]\n"},
	{"schema_invalid", "name: p\nagents: [{name: a, remote: {}, output_schema: §{type: strnig}}]\n"},
	{"schema_invalid", "name: p\nagents: [{name: a, remote: {}, output_schema: §{$ref: '#'}}]\n"},
	{"schema_invalid", "name: p\nagents: [{name: a, remote: {}, output_schema: §7}]\n"},
	{"unpinned_tool", "name: p\nagents: [{name: a, tool: {uri: §'mcp://fs/read@latest'}}]\n"},
	{"unpinned_tool", "name: p\nagents: [{name: a, tool: {uri: §'mcp://fs/read'}}]\n"},
	{"unpinned_tool", "name: p\nagents: [{name: a, model: {tools: ['mcp://fs/read@1.0.0', §'mcp://fs/read@^1']}}]\n"},
	{"unknown_tool", "name: p\nagents: [{name: a, tool: {uri: §'mcp://fs/gone@1.0.0'}}]\n"},
	{"retry_once", "name: p\nagents: [{name: a, remote: {}, max_retries: §1}]\n"},
	{"retry_once", "name: p\nagents: [{name: a, tool: {uri: 'mcp://mail/send@1.0.0'}, max_retries: §2}]\n"},
	{"bounds_ceiling", "name: p\nmax_iterations: §51\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_llm_calls: §51\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_agent_hops: §51\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_tool_calls: §501\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_tokens: §500001\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_cost_usd: §'9.51'\nagents: []\n"},
	{"bounds_ceiling", "name: p\nmax_wall_seconds: §7201\nagents: []\n"},

	// What the shape of a document has against it.
	{"field_unknown", "name: p\n§max_iteration: 2\nagents: []\n"},
	{"field_unknown", "name: p\nagents: [{name: a, remote: {}, §defaultnext: end}]\n"},
	{"field_unknown", "name: p\nagents: [{name: a, model: {§promt: hi}}]\n"},
	{"field_unknown", "name: p\nagents: [{name: a, scripted: {answers: [{§outputs: {}}]}}]\n"},
	{"field_missing", "§name: p\n"},
	{"field_missing", "name: p\nagents: [{name: a, tool: §{}}]\n"},
	{"field_missing", "name: p\nagents: [{name: a, plan: §{}}]\n"},
	{"field_missing", "name: p\nagents: [{name: a, scripted: {answers: §[]}}]\n"},
	{"field_type", "name: p\nagents: §{}\n"},
	{"field_type", "name: p\nagents: [§7]\n"},
	{"field_type", "name: p\nagents: [{name: a, plan: §7}]\n"},
	{"field_type", "§- a list\n"},
	{"field_type", "name: p\nmax_cost_usd: §5.00\nagents: []\n"},
	{"field_type", "name: p\nagents: [{name: a, tool: {uri: 'mcp://fs/read@1.0.0', args: §[1]}}]\n"},
	{"field_type", "name: p\nagents: [{name: a, model: {prompt_file: §7}}]\n"},
	{"field_invalid", "name: p\non_failure: §retry\nagents: []\n"},
	{"field_invalid", "name: p\nagents: [{name: a, remote: {}, effect: §twice}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, scripted: {answers: [{}]}, effect: §read}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, model: {name: main, agent: §default}}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, model: {prompt: hi, §prompt_file: prompt.md}}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, model: {prompt_file: §absent.md}}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, scripted: {answers: [{output: {}, §error: {code: x}}]}}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, scripted: {answers: [{control: §{interrupt: {kind: shout}}}]}}]\n"},
	{"field_invalid", "name: p\nagents: [{name: a, plan: {document: {kind: plan, §files: worktree}}}]\n"},
	{"field_unknown", "name: p\n§workspace: worktree\nagents: []\n"},
	{"field_invalid", "name: p\nfiles: §cloud\nagents: []\n"},
	{"field_invalid", "name: p\n§files: checkout\ndeliver: {}\nagents: []\n"},
	{"unknown_target", "name: p\ndeliver: {correct_at: §b}\nagents: [{name: a, remote: {}}]\n"},
	{"bad_expression", "name: p\ndeliver: {release: §'outputs.'}\nagents: []\n"},
	{"bad_expression", "name: p\ndeliver: {release: §'iteration > 1'}\nagents: []\n"},
	{"bad_expression", "name: p\ndeliver: {release: §'waivers'}\nagents: []\n"},
	{"field_invalid", "name: p\ndeliver: {paths: [src/**, §/src]}\nagents: []\n"},
	{"field_invalid", "name: p\ndeliver: {checks: [{name: a, run: [x]}, {name: §a, run: [x]}]}\nagents: []\n"},
	{"reserved_name", "name: p\ndeliver: {}\nagents: [{name: §delivery, output_key: d, remote: {}}]\n"},
	{"kind_unknown", "kind: §plan\nname: p\nagents: []\n"},
	{"range", "version: §2\nname: p\nagents: []\n"},
	{"syntax", "name: p\nagents: []\n§name: q\n"},
	{"syntax", "name: p\nagents: [{name: a, model: {prompt_file: §latin.md}}]\n"},
	{"syntax", "name: p\nagents: [{name: a, plan: {file: §torn.yaml}}]\n"},
	{"model_unknown", "name: p\nagents: [{name: a, model: {name: §other}}]\n"},
	{"agent_unknown", "name: p\nagents: [{name: a, model: {agent: §other}}]\n"},
	{"unknown_skill", "name: p\nagents: [{name: a, model: {skill: §other}}]\n"},
	{"id_missing", "name: p\nagents: [{name: a, plan: {document: §{kind: plan, root: {bad: 1}}}}]\n"},

	// Several at once, in the order in which they stand.
	{"bad_bound unknown_edge bad_name unknown_dependency two_ways_to_run unknown_target bad_expression",
		`name: p
max_iterations: §0
edge_limits:
  - {from: §x, to: b}
agents:
  - name: §1st
    requires: [§nobody]
    remote: {}
    §tool: {uri: 'mcp://fs/read@1.0.0'}
  - name: b
    default_next: §c
    remote: {}
    routing_rules:
      - {when: §'output.', target: end}
`},
}

func TestEveryFaultIsFoundWhereItStands(t *testing.T) {
	for i, test := range faulty {
		src, places := marked(test.src)
		codes := strings.Fields(test.codes)
		t.Run(fmt.Sprintf("%d_%s", i, codes[0]), func(t *testing.T) {
			p, problems := Check("p.yaml", []byte(src), workspace())
			if p != nil {
				t.Error("there is a pipeline all the same")
			}
			var want, got []string
			for i, code := range codes {
				want = append(want, places[i]+" "+code)
			}
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Code))
				if p.File != "p.yaml" || p.Message == "" || !utf8.ValidString(p.Message) {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v\n%+v", got, want, problems)
			}
		})
	}
}

func TestEveryCodeHasADocument(t *testing.T) {
	for _, code := range []string{
		codeNameMissing, codeBadName, codeReservedName, codeDuplicateName, codeDuplicateOutputKey,
		codeUnknownTarget, codeUnknownDependency, codeSelfDependency, codeDependencyCycle, codeUnknownEdge, codeEdgeNotInGraph,
		codeDuplicateEdgeLimit, codeBadBound, codeNegativeValue, "number_unsafe", codeNoWayToRun, codeTwoWaysToRun,
		codeBadRule, codeBadExpression, codeSchemaInvalid, codeUnpinnedTool, codeRetryOnce, codeBoundsCeiling,
	} {
		alone := slices.ContainsFunc(faulty, func(f struct{ codes, src string }) bool { return f.codes == code })
		if !alone {
			t.Errorf("no document yields %s and nothing else", code)
		}
	}
}

// mustCheck is for documents that are right.
func mustCheck(t testing.TB, src string) *Pipeline {
	t.Helper()
	p, problems := Check("p.yaml", []byte(src), workspace())
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return p
}

func TestMessagesHelp(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{"name: p\nagents:\n  - {name: a, remote: {}, requires: [b]}\n  - {name: b, remote: {}, requires: [a]}\n", "a → b → a"},
		{"name: p\nmax_iteration: 2\nagents: []\n", "did you mean max_iterations?"},
		{"name: p\nagents: [{name: critic, remote: {}, default_next: critc}]\n", "did you mean critic?"},
		{"name: p\nagents: [{name: a, worker: {}}]\n", "worker stages cannot run yet"},
		{"name: p\nfiles: none\ndeliver: {}\nagents: []\n", "deliver needs a worktree"},
		{"name: p\nagents: [{name: a, plan: {file: torn.yaml}}]\n", "torn.yaml:2:"},
		{"name: p\nagents: [{name: a, scripted: {answers: [{control: {satisfied_goal: [x]}}]}}]\n", "did you mean satisfied_goals?"},
	} {
		_, problems := Check("p.yaml", []byte(test.src), workspace())
		if len(problems) != 1 || !strings.Contains(problems[0].Message, test.want) {
			t.Errorf("%q is not in %+v", test.want, problems)
		}
	}
}

func TestAWorkerIsWhomTheHostHas(t *testing.T) {
	p := mustCheck(t, "name: p\nagents: [{name: a, worker: {name: careful, prompt_file: prompt.md, session: keep}, effect: read, max_retries: 1}]\n")
	a := p.Agents[0]
	if a.Way != WayWorker || a.Worker.Name != "careful" || !a.Keeps() || a.Effect != "read" || a.Label() != "worker careful" {
		t.Errorf("%+v, %+v", a, a.Worker)
	}
	again, err := Load(p.Canonical())
	if err != nil || again.Digest() != p.Digest() || again.Agents[0].Worker.Prompt == nil {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestUnreachableStagesAreAWarning(t *testing.T) {
	p := mustCheck(t, `name: p
agents:
  - {name: a, remote: {}, default_next: b}
  - {name: b, remote: {}, routing_rules: [{when: 'true', target: confirmation, then: d}]}
  - {name: lost, remote: {}, default_next: island}
  - {name: island, remote: {}}
  - {name: d, remote: {}}
`)
	var got []string
	for _, w := range p.Warnings() {
		got = append(got, fmt.Sprintf("%d:%d %s %s", w.Line, w.Column, w.Code, w.File))
	}
	want := []string{"5:12 unreachable_stage p.yaml", "6:12 unreachable_stage p.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestStagesThatARequirementReleasesAreReachable(t *testing.T) {
	p := mustCheck(t, "name: p\nagents: [{name: a, remote: {}}, {name: b, remote: {}, requires: [a]}]\n")
	if w := p.Warnings(); len(w) > 0 {
		t.Errorf("%+v", w)
	}
}

// What has a wrong type is told so, and its words are not taken for names besides.
func TestAWrongTypeIsReportedOnce(t *testing.T) {
	for src, want := range map[string]string{
		"model: {tools: none}":           "agents[0].model.tools must be a list",
		"remote: {}, requires: x":        "agents[0].requires must be a list",
		"remote: {}, default_next: [x]":  "agents[0].default_next must be a string",
		"remote: {}, join: [any]":        "agents[0].join must be a string",
		"remote: {}, handoff: sometimes": "agents[0].handoff is",
		"remote: {}, entry: 1":           "agents[0].entry must be a boolean",
	} {
		_, problems := Check("p.yaml", []byte("name: p\nagents: [{name: a, "+src+"}]\n"), Resolver{})
		path, message, _ := strings.Cut(want, " ")
		if len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Message, message) {
			t.Errorf("%s: %+v", src, problems)
		}
	}
}

// A blank word is like one that is left out, and is not advised.
func TestABlankWordIsTheDefault(t *testing.T) {
	p := mustCheck(t, `{name: p, on_failure: "", on_bound: "", agents: [{name: a, join: "", handoff: "", effect: "", remote: {}},
  {name: b, scripted: {repeat: "", answers: [{}]}}, {name: c, model: {session: ""}}]}`)
	a, b, c := p.Agent("a"), p.Agent("b"), p.Agent("c")
	if p.OnFailure != Finish || p.OnBound != EndRun || a.Handoff != HandoffNever || a.Effect != "once" || b.Scripted.Repeat != repeatLast || c.Keeps() {
		t.Errorf("%+v", p)
	}
	_, problems := Check("p.yaml", []byte("{name: p, on_bound: stop, agents: [{name: a, remote: {}}]}"), Resolver{})
	if len(problems) != 1 || problems[0].Message != `on_bound is "stop"; it must be end or ask` {
		t.Errorf("%+v", problems)
	}
}

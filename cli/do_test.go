package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

const draftSubject = `{"intent_hash":"sha256:i","program_digest":"sha256:d","intent":{"verb":"build"},
	"outline":{"path":"root","kind":"sequential","children":[{"path":"root/read","id":"read","kind":"tool_call","label":"mcp://builtin/read_file@1.0.0","class":"read"},
	{"path":"root/\u001b[2J","id":"\u001b[2J","kind":"gate","label":"Fine?"}]},"bounds":{"cost_usd":"5.00","tool_calls":20}}`

const shownDraft = `  intent: {"verb":"build"}
  plan
    root  sequential
      read  tool_call  mcp://builtin/read_file@1.0.0  read
      \u001b[2J  gate  Fine?
  bounds: cost_usd 5.00, tool_calls 20
  intent_hash: sha256:i
  program_digest: sha256:d
`

func draftGate() tipstaff.Gate {
	return tipstaff.Gate{ID: gateA, Kind: tipstaff.Confirmation, Key: "confirm", Path: "confirm", Question: "Accept this plan?",
		Subject: json.RawMessage(draftSubject), Digest: "sha256:g", Actions: []string{"accept", "reject"}, Deny: "reject"}
}

// drafts makes the fake draft a plan, ask about gates, and end as the last answer
// says.
func drafts(b *bench, gates ...tipstaff.Gate) *tipstaff.DraftRequest {
	var got tipstaff.DraftRequest
	b.svc.artifacts = map[string]string{"sha256:d": `{"kind":"plan","root":{"kind":"gate"}}`}
	b.svc.check = func(req tipstaff.ValidateRequest) (tipstaff.Validated, error) {
		got = *req.Draft
		return tipstaff.Validated{Program: tipstaff.Program{Kind: "plan"}, Outline: &tipstaff.Outline{Path: "root", Kind: "sequential"}}, nil
	}
	b.svc.draft = func(req tipstaff.DraftRequest) (tipstaff.Started, error) {
		got = req
		return b.svc.drives(func() tipstaff.Driven {
			b.svc.append("run.started", "", `{}`)
			b.svc.append("plan.drafted", "draft", `{"program_digest":"sha256:d","attempts":1}`)
			for _, g := range gates {
				if !req.Attended {
					return parks(b, g)
				}
				c, ok := b.svc.put(g)
				switch {
				case !ok:
					return parks(b, g)
				case c.Action == g.Deny:
					b.svc.append("intent.cancel", "", `{"reason":"rejected"}`)
					b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Cancelled, HeadSeq: 3})
					return tipstaff.Driven{State: tipstaff.Cancelled, Outcome: "cancelled"}
				}
				if len(c.Answer) > 0 {
					b.svc.append("intent.answer", g.Key, fmt.Sprintf(`{"answers":%s,"via":"terminal"}`, c.Answer))
				}
			}
			b.svc.append("intent.attest", "", `{"outcome":"success"}`)
			b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Completed, HeadSeq: 3})
			return tipstaff.Driven{State: tipstaff.Completed, Outcome: "success"}
		}), nil
	}
	return &got
}

func parks(b *bench, g tipstaff.Gate) tipstaff.Driven {
	b.svc.append("run.parked", "", `{}`)
	b.svc.set(tipstaff.Run{ID: runA, State: tipstaff.Proposed, Condition: tipstaff.Waiting, HeadSeq: 3, OpenGates: []tipstaff.Gate{g}})
	return tipstaff.Driven{State: tipstaff.Proposed, Outcome: "parked"}
}

func TestDoAsksForADraft(t *testing.T) {
	b := newBench(t)
	got := drafts(b)
	b.run(t, 0, "do", " Write notes\nand more ", "--skill", "skill://notes@1.0.0", "--agent", "planner", "--input", "n=3", "--yes", "--allow-sub-dispatch")
	want := tipstaff.DraftRequest{Prose: "Write notes\nand more", Skill: "skill://notes@1.0.0", Agent: "planner", Title: "Write notes …", AllowSubDispatch: true,
		Inputs: map[string]json.RawMessage{"n": json.RawMessage("3")}, Presence: tipstaff.Presence{Yes: true}}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

func TestDoReadsStandardInput(t *testing.T) {
	b := newBench(t).terminal()
	b.env.Stdin = strings.NewReader("Write notes\n")
	got := drafts(b)
	b.run(t, 0, "do", "-")
	if got.Prose != "Write notes" || got.Attended {
		t.Errorf("asked for %+v", got)
	}
}

func TestDoMisused(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "needs PROSE"},
		{[]string{"write", "notes"}, `"notes" is another`},
		{[]string{" "}, "nothing is said"},
		{[]string{"-", "--inputs", "-"}, "cannot both come from standard input"},
		{[]string{"x", "--yes", "--draft-only"}, "only one of them"},
		{[]string{"x", "--input", "n"}, "has no name and value"},
	} {
		b := newBench(t)
		drafts(b)
		b.run(t, 2, append([]string{"do"}, c.args...)...)
		contains(t, fmt.Sprint(c.args), b.err.String(), c.says)
	}
}

func TestDoDryRun(t *testing.T) {
	b := newBench(t)
	drafts(b)
	b.run(t, 0, "do", "x", "--dry-run")
	equal(t, "stdout", b.out.String(), "a plan could be drafted; no model was asked\n")
	if o := b.opened[0]; !o.ReadOnly || o.Starts {
		t.Errorf("opened with %+v", o)
	}
	b = newBench(t)
	drafts(b)
	b.run(t, 0, "do", "x", "--dry-run", "--json")
	contains(t, "stdout", b.out.String(), `"outline":`)
}

func TestDoParksWithThePlanInSight(t *testing.T) {
	b := newBench(t)
	got := drafts(b, draftGate())
	b.run(t, 4, "do", "x", "--draft-only")
	contains(t, "stderr", b.err.String(), "waiting: confirm asks: Accept this plan?\n", "    intent: {\"verb\":\"build\"}\n",
		"      read  tool_call  mcp://builtin/read_file@1.0.0  read\n", "tipstaff decide "+runA.String()+" confirm accept\n")
	if !got.Only {
		t.Error("more than a draft is wanted")
	}
}

// answering runs do at a terminal and types the answers, each when it is asked.
func answeringDo(t *testing.T, b *bench, code int, answers []string, args ...string) string {
	t.Helper()
	b.terminal()
	keys := newTypist()
	b.env.Stdin = keys
	go func() {
		for _, text := range answers {
			synctest.Wait()
			keys.types(text + "\n")
		}
		synctest.Wait()
		keys.w.Close()
	}()
	b.run(t, code, append([]string{"do", "x"}, args...)...)
	io.Copy(io.Discard, keys) // the typist may not have come to the end
	return b.err.String()
}

func TestDoShowsThePlanBeforeItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "plan.json")
		b := newBench(t)
		drafts(b, draftGate())
		got := answeringDo(t, b, 0, []string{"acc"}, "--plan-out", file)
		contains(t, "stderr", got, "confirm (confirmation) asks: Accept this plan?\n"+shownDraft+"digest: sha256:g\naccept, reject? ")
		plan, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "plan", string(plan), "{\n  \"kind\": \"plan\",\n  \"root\": {\n    \"kind\": \"gate\"\n  }\n}\n")
	})
}

func TestDoRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		drafts(b, draftGate())
		answeringDo(t, b, 8, []string{"reject"})
	})
}

func TestDoWritesThePlanAlsoWhereNobodyIsAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.json")
	b := newBench(t)
	drafts(b, draftGate())
	b.run(t, 4, "do", "x", "--unattended", "--plan-out", file)
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	b = newBench(t)
	drafts(b)
	b.run(t, 1, "do", "x", "--yes", "--plan-out", filepath.Join(file, "no"))
	contains(t, "stderr", b.err.String(), "error: the plan is not written")
}

func clarification(questions string) tipstaff.Gate {
	return tipstaff.Gate{ID: gateA, Kind: tipstaff.Clarification, Key: "draft/clarify#1", Path: "draft/clarify#1", Question: "Some things must be known.",
		Subject: json.RawMessage(`{"round":1,"questions":` + questions + `}`), Actions: []string{"answer", "deny"}, Deny: "deny"}
}

func TestClarification(t *testing.T) {
	const (
		name  = `{"id":"name","prompt":"Which\u001b name?","type":"text","options":[],"required":true}`
		size  = `{"id":"size","prompt":"How many?","type":"number","options":[],"default":3,"required":true}`
		sure  = `{"id":"sure","prompt":"Sure?","type":"boolean","options":[],"required":true}`
		style = `{"id":"style","prompt":"Which style?","type":"choice","options":["short","long","longer"],"required":false}`
	)
	for _, c := range []struct {
		name, questions, input, want string // want "": it is not decided
	}{
		{"text", name, "a \"b\"\n", `{"name":"a \"b\""}`},
		{"announced", name, "answer\na\n", `{"name":"a"}`},
		{"required", name, "\n\nx\n", `{"name":"x"}`},
		{"never answered", name, "\n\n\n\n", ""},
		{"number", size, "few\n0x3\n-1.5\n", `{"size":-1.5}`},
		{"default", size, "\n", `{"size":3}`},
		{"yes", sure, "perhaps\nY\n", `{"sure":true}`},
		{"no", sure, "false\n", `{"sure":false}`},
		{"by name", style, "long\n", `{"style":"long"}`},
		{"by its beginning", style, "lo\nsh\n", `{"style":"short"}`},
		{"by its place", style, "3\n", `{"style":"longer"}`},
		{"none of the choices", style, "4\nwide\n1\n", `{"style":"short"}`},
		{"left out", style, "\n", `{}`},
		{"all", name + "," + size + "," + style, "x\n\n2\n", `{"name":"x","size":3,"style":"long"}`},
		{"the end of input", name + "," + size, "x\n", ""},
	} {
		got, ok, out := asked(clarification("["+c.questions+"]"), c.input)
		if ok != (c.want != "") || ok && (got.Action != "answer" || string(got.Answer) != c.want) {
			t.Errorf("%s: %v %s %s, want %s\n%s", c.name, ok, got.Action, got.Answer, c.want, out)
		}
	}
	_, _, out := asked(clarification("["+name+","+size+","+style+"]"), "")
	contains(t, "question", out, `  1. Which\u001b name? (text)
  2. How many? (number; default 3)
  3. Which style? (short, long, longer; may be left out)
answer, or type deny
1/3  Which\u001b name? (text): `)
	if got, ok, _ := asked(clarification("["+name+","+size+"]"), "x\ndeny\n"); !ok || got.Action != "deny" || got.Answer != nil {
		t.Errorf("denied at the second question: %+v", got)
	}
	if got, ok, _ := asked(clarification("["+name+"]"), "deny\n"); !ok || got.Action != "deny" || got.Answer != nil {
		t.Errorf("denied: %+v", got)
	}
	equal(t, "form", tipstaff.AnswerForm(clarification("["+name+","+size+","+sure+","+style+"]"), "answer"), `{"name":"TEXT","size":3,"sure":true,"style":"short"}`)
	equal(t, "form that is pasted", tipstaff.AnswerForm(clarification(`[{"id":"team","text":"Which?","type":"string","options":["R & D <core>"]}]`), "answer"), `{"team":"R & D <core>"}`)
	equal(t, "form of nothing", tipstaff.AnswerForm(publishGate(), "use_result"), "JSON")
}

func TestDoAsksQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		drafts(b, clarification(`[{"id":"file","prompt":"Which file?","type":"text","options":[],"required":true}]`), draftGate())
		answeringDo(t, b, 0, []string{"a.md", "accept"})
		if ev := b.svc.log[3]; ev.Kind != "intent.answer" || !strings.Contains(string(ev.Body), `{"file":"a.md"}`) {
			t.Errorf("%s %s", ev.Kind, ev.Body)
		}
	})
}

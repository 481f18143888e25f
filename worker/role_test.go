package worker

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestRolesThatComeWithTipstaff(t *testing.T) {
	postures := map[string]Posture{}
	for _, r := range Roles() {
		postures[r.Name] = r.Posture
		if strings.TrimSpace(r.Prompt) == "" || r.Description == "" {
			t.Errorf("%s is %+v", r.Name, r)
		}
		if got, ok := BuiltinRole(r.Name); !ok || got != r {
			t.Errorf("%s is found as %+v", r.Name, got)
		}
	}
	want := map[string]Posture{"implementer": Auto, "architect": Auto, "reviewer": ReadOnly, "planner": ReadOnly, "researcher": ReadOnly, "decomposer": ReadOnly}
	if len(postures) != len(want) {
		t.Errorf("there are %v", postures)
	}
	for name, posture := range want {
		if postures[name] != posture {
			t.Errorf("%s has posture %q", name, postures[name])
		}
	}
	if _, ok := BuiltinRole("protocol"); ok {
		t.Error("the protocol is a role")
	}
}

func TestEveryRoleRenders(t *testing.T) {
	brief := Brief{Name: "Fix the parser", Iteration: 2, Skill: "Use the house style.", Description: "It panics on empty input.",
		Inputs: []tipstaff.TaskInput{{Text: "See the report."}, {Path: "parse.go"}, {Path: "parse_test.go"}}, Feedback: "Add a test."}
	const assignment = "\n\n---\n\n# Task: Fix the parser\n\nIteration 2.\n\n## Skill\n\nUse the house style.\n\n## Description\n\nIt panics on empty input.\n\n" +
		"## Inputs\n\nRead these files first:\n\n- `parse.go`\n- `parse_test.go`\n\nSee the report.\n\n## Feedback on the previous iteration\n\nAdd a test.\n"
	for _, r := range append(Roles(), Role{}) {
		text := Preamble(r) + brief.Text()
		if want := strings.TrimSpace(strings.TrimSpace(r.Prompt)+"\n\n"+strings.TrimSpace(Protocol())) + assignment; text != want {
			t.Errorf("%s is rendered as\n%s", r.Name, text)
		}
	}
	if bare := Preamble(Role{}) + (Brief{Name: "x"}).Text(); !strings.HasSuffix(bare, "\n\n---\n\n# Task: x\n\nIteration 1.\n") {
		t.Errorf("a brief without anything is rendered as\n%s", bare)
	}
}

// unknownTools are words of a prompt that look like tools of the channel and are none.
func unknownTools(text string) (unknown []string) {
	for _, word := range regexp.MustCompile(`\btask_\w+`).FindAllString(text, -1) {
		if !slices.Contains(taskTools(), word) {
			unknown = append(unknown, word)
		}
	}
	return unknown
}

func TestPromptsNameToolsThatExist(t *testing.T) {
	for _, r := range append(Roles(), Role{Name: "protocol", Prompt: Protocol()}) {
		if unknown := unknownTools(r.Prompt); unknown != nil {
			t.Errorf("%s speaks of %v", r.Name, unknown)
		}
	}
	for _, tool := range taskTools() {
		if !strings.Contains(Protocol(), "`"+tool+"`") {
			t.Errorf("the protocol does not tell of %s", tool)
		}
	}
	if got := unknownTools("call `task_status`, then `task_done`"); !slices.Equal(got, []string{"task_done"}) {
		t.Errorf("of a planted wrong one is found: %v", got)
	}
}

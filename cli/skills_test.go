package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// shelf is a folder of skills: one good, one at fault, both with text that would
// like to paint on the terminal.
type shelf struct{ opened []OpenOptions }

var (
	goodSkill = tipstaff.SkillInfo{Dir: "skills/notes", URI: "skill://notes@1.2.3", Description: "Writes \x1b[2Jnotes.", Verbs: []string{"build"},
		Tools: []string{"mcp://t/a@1.0.0", "mcp://t/b@1.0.0"}, Inputs: []tipstaff.SkillField{{Name: "depth"}, {Name: "file", Required: true}},
		FailureModes: []tipstaff.SkillFailureMode{{Reason: "timeout", Action: "retry"}}}
	publishedSkill = tipstaff.SkillInfo{Dir: "skills/pdf", URI: "skill://pdf@0.0.0", Published: true,
		Warnings: []tipstaff.Problem{{Code: "skill_mismatch", File: "skills/pdf/SKILL.md", Line: 2, Column: 7, Message: "name is PDF\x1b"}}}
	badSkill = tipstaff.SkillInfo{Dir: "skills/bad", Problems: []tipstaff.Problem{{Code: "syntax", File: "skills/bad/skill.yaml", Line: 3, Column: 7, Message: "no\x1b"}}}
)

func (*shelf) List(context.Context) ([]tipstaff.SkillInfo, error) {
	return []tipstaff.SkillInfo{badSkill, goodSkill}, nil
}

func (*shelf) Show(_ context.Context, uri string) (tipstaff.SkillInfo, error) {
	if uri == publishedSkill.URI {
		return publishedSkill, nil
	}
	if uri != goodSkill.URI {
		return tipstaff.SkillInfo{}, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no skill %s", uri)
	}
	s := goodSkill
	s.Prose = "# Notes\n\nRead\x1b]0;x\a first."
	return s, nil
}

func (*shelf) Check(context.Context, string) ([]tipstaff.SkillInfo, error) {
	return []tipstaff.SkillInfo{goodSkill}, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "1 of 2 skills in skills not valid", Problems: badSkill.Problems}
}

func skillsBench(t *testing.T) (*bench, *shelf) {
	b, s := newBench(t), &shelf{}
	b.env.Skills = func(o OpenOptions) (tipstaff.Skills, error) {
		s.opened = append(s.opened, o)
		return s, nil
	}
	return b, s
}

func TestSkillsList(t *testing.T) {
	b, s := skillsBench(t)
	b.run(t, exitDone, "skills", "list", "--skills", "there", "--workspace", "w")
	equal(t, "stdout", b.out.String(), "skills/bad  not valid: 1 problem\nskill://notes@1.2.3  Writes \\u001b[2Jnotes.\n")
	if len(s.opened) != 1 || s.opened[0] != (OpenOptions{Workspace: "w", Skills: "there"}) {
		t.Errorf("opened %+v", s.opened)
	}
}

// A skill without a manifest has no tools: whoever looks at it is told how it gets some.
func TestSkillsShowOfAPublishedSkill(t *testing.T) {
	b, _ := skillsBench(t)
	b.run(t, exitDone, "skills", "show", publishedSkill.URI)
	contains(t, "stderr", b.err.String(), "warning: skills/pdf/SKILL.md:2:7: skill_mismatch: name is PDF\\u001b\n",
		"write skills/pdf/skill.yaml:\n  id: pdf\n  version: 0.0.0\n")
}

func TestSkillsShow(t *testing.T) {
	b, _ := skillsBench(t)
	b.run(t, exitDone, "skills", "show", goodSkill.URI)
	equal(t, "stdout", b.out.String(), `skill       skill://notes@1.2.3
folder      skills/notes
about       Writes \u001b[2Jnotes.
verbs       build
inputs      depth?, file
plan        drafted by a model
tools       mcp://t/a@1.0.0
tools       mcp://t/b@1.0.0
sub_skills  none
on timeout  retry

# Notes

Read\u001b]0;x\u0007 first.
`)
	b, _ = skillsBench(t)
	b.run(t, exitInvalid, "skills", "show", "skill://other@1.0.0")
	contains(t, "stderr", b.err.String(), "error: there is no skill skill://other@1.0.0")
}

func TestSkillsCheck(t *testing.T) {
	b, _ := skillsBench(t)
	b.run(t, exitInvalid, "skills", "check")
	equal(t, "stdout", b.out.String(), "skill://notes@1.2.3  ok\n")
	equal(t, "stderr", b.err.String(), "error: 1 of 2 skills in skills not valid\nskills/bad/skill.yaml:3:7: syntax: no\\u001b\n")
}

func TestSkillsOnATerminalKeepTheirRow(t *testing.T) {
	b, _ := skillsBench(t)
	b.terminal()
	b.env.Size = func() (int, int) { return 30, 24 }
	b.run(t, exitDone, "skills", "list")
	for line := range strings.Lines(b.out.String()) {
		if cells(strings.TrimSuffix(line, "\n")) > 30 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
}

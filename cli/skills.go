package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newSkills(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "List, show and check skills",
		Long: `A skill is a folder with prose for a model and a manifest that lists the tools its
plans may use. Plans name it by a pinned URI, skill://<id>@<version>.`,
		Example: "  tipstaff skills list\n  tipstaff skills check",
	}
	a.skillsFlag(cmd)
	cmd.AddCommand(newSkillsList(a), newSkillsShow(a), newSkillsCheck(a))
	return cmd
}

// skillsFlag adds --skills to a command and those below it.
func (a *app) skillsFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&a.skills, "skills", "", "the `folder` of skills (default skills in the workspace, if there is one)")
	_ = cmd.MarkPersistentFlagDirname("skills") // fails only for a flag that is not there
}

// openSkills is what looks after skills. It opens no store.
func (a *app) openSkills(context.Context) (tipstaff.Skills, error) {
	return a.env.Skills(OpenOptions{Workspace: a.workspaceDir(), Skills: a.skills})
}

const noSkills = "no skills here; name their folder with --skills"

func newSkillsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List skills",
		Example: "  tipstaff skills list\n  tipstaff skills list --json",
		RunE: with(a.openSkills, func(ctx context.Context, skills tipstaff.Skills, _ []string) error {
			list, err := skills.List(ctx)
			if err != nil {
				return err
			}
			return printEach(a, list, noSkills, func(s tipstaff.SkillInfo) {
				if s.URI == "" {
					a.row("%s  not valid: %s", clean(s.Dir), plural(len(s.Problems), "problem"))
				} else {
					a.row("%s  %s%s", clean(s.URI), clean(s.Description), published(s))
				}
			})
		}),
	}
}

func (a *app) completeSkill(cmd *cobra.Command, _ []string, _ string) (uris []string, _ cobra.ShellCompDirective) {
	if a.chooseServer(cmd) != nil || a.server != "" { // whose skills are not known here
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []tipstaff.SkillInfo
	if skills, err := a.openSkills(cmd.Context()); err == nil {
		list, _ = skills.List(cmd.Context())
	}
	for _, s := range list {
		if s.URI != "" {
			uris = append(uris, cobra.CompletionWithDesc(s.URI, clean(s.Description)))
		}
	}
	return uris, cobra.ShellCompDirectiveNoFileComp
}

func newSkillsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "show URI",
		Short:             "Show one skill",
		Example:           "  tipstaff skills show skill://release-notes@1.0.0",
		ValidArgsFunction: a.completeSkill,
		RunE: with(a.openSkills, func(ctx context.Context, skills tipstaff.Skills, args []string) error {
			s, err := skills.Show(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(s, func() {
				a.printFields(skillFields(s)...)
				a.warnOf(s)
				if s.Published {
					fmt.Fprintf(a.err, "hint: to grant it tools, write %s:\n%s", clean(filepath.Join(s.Dir, "skill.yaml")), cleanLines(granting(s)))
				}
				if s.Prose != "" {
					fmt.Fprintf(a.out, "\n%s\n", cleanLines(s.Prose))
				}
			})
		}),
	}
}

// published says in a list what a skill without a manifest lacks.
func published(s tipstaff.SkillInfo) string {
	if s.Published {
		return "  (no skill.yaml: it may use no tools)"
	}
	return ""
}

func (a *app) warnOf(s tipstaff.SkillInfo) {
	for _, w := range s.Warnings {
		fmt.Fprintf(a.err, "warning: %s:%d:%d: %s: %s\n", clean(w.File), w.Line, w.Column, clean(w.Code), clean(w.Message))
	}
}

// granting is a manifest that grants a published skill a tool.
func granting(s tipstaff.SkillInfo) string {
	id, version, _ := strings.Cut(strings.TrimPrefix(s.URI, "skill://"), "@")
	return fmt.Sprintf("  id: %s\n  version: %s\n  verbs: [build]\n  tools: [mcp://builtin/read_file@1.0.0]\n  sub_skills: none\n", id, version)
}

func skillFields(s tipstaff.SkillInfo) []field {
	planned := "drafted by a model"
	if s.Plan != "" {
		planned = s.Plan
	}
	fields := []field{
		{"skill", s.URI}, {"digest", s.Digest}, {"folder", s.Dir}, {"about", s.Description}, {"verbs", strings.Join(s.Verbs, ", ")},
		{"inputs", fieldNames(s.Inputs)}, {"outputs", fieldNames(s.Outputs)}, {"plan", planned},
	}
	fields = append(fields, listed("tools", s.Tools)...)
	fields = append(fields, listed("sub_skills", s.SubSkills)...)
	for _, m := range s.FailureModes {
		fields = append(fields, field{"on " + m.Reason, tipstaff.Joined(": ", m.Action, m.Note)})
	}
	return fields
}

// listed is a list as one field a word, or as none.
func listed(name string, words []string) []field {
	if len(words) == 0 {
		return []field{{name, "none"}}
	}
	var fields []field
	for _, w := range words {
		fields = append(fields, field{name, w})
	}
	return fields
}

// fieldNames marks what may be left out.
func fieldNames(fields []tipstaff.SkillField) string {
	var names []string
	for _, f := range fields {
		name := f.Name
		if !f.Required {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func newSkillsCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [DIR]",
		Short: "Say everything that is wrong with skills",
		Long: `Check the skill in DIR, or all skills in DIR, or else all skills of the workspace:
skill.yaml, SKILL.md, and plan.yaml against what the skill allows and promises.

Exit code 2: something is wrong. Whether a tool exists is not asked here: that is
for the workspace that runs a plan.`,
		Example: "  tipstaff skills check\n  tipstaff skills check skills/release-notes",
		RunE: with(a.openSkills, func(ctx context.Context, skills tipstaff.Skills, args []string) error {
			valid, checked := skills.Check(ctx, strings.Join(args, ""))
			if len(valid) == 0 && checked != nil {
				return checked
			}
			if err := printEach(a, valid, noSkills, func(s tipstaff.SkillInfo) { a.row("%s  ok%s", clean(s.URI), published(s)); a.warnOf(s) }); err != nil {
				return err
			}
			return checked
		}),
	}
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// skillsOptions are shared by the commands about skills.
type skillsOptions struct{ *app }

func newSkills(a *app) *cobra.Command {
	o := &skillsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "skills",
		Short: "List, show and check skills",
		Long: `A skill is a folder with prose for a model and a manifest that lists the tools its
plans may use. Plans name it by a pinned URI, skill://<id>@<version>.`,
		Example: "  tipstaff skills list\n  tipstaff skills check",
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.skillsFlag(cmd)
	cmd.AddCommand(newSkillsList(o), newSkillsShow(o), newSkillsCheck(o))
	return cmd
}

// skillsFlag adds --skills to a command and those below it.
func (a *app) skillsFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&a.skills, "skills", "", "the `folder` of skills (default skills in the workspace, if there is one)")
	_ = cmd.MarkPersistentFlagDirname("skills") // fails only for a flag that is not there
}

func (o *skillsOptions) keeper() (tipstaff.Skills, error) {
	return o.env.Skills(OpenOptions{Workspace: o.workspaceDir(), Skills: o.skills})
}

func newSkillsList(o *skillsOptions) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List skills",
		Example:           "  tipstaff skills list\n  tipstaff skills list --json",
		Args:              needs(),
		ValidArgsFunction: completed(o.app),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context()) },
	}
}

func (o *skillsOptions) list(ctx context.Context) error {
	keeper, err := o.keeper()
	if err != nil {
		return err
	}
	skills, err := keeper.List(ctx)
	if err != nil {
		return err
	}
	return o.each(skills, func(s tipstaff.SkillInfo) string {
		if s.URI == "" {
			return fmt.Sprintf("%s  not valid: %s", clean(s.Dir), plural(len(s.Problems), "problem"))
		}
		return fmt.Sprintf("%s  %s", clean(s.URI), clean(s.Description))
	})
}

// each prints skills: as JSON, or as one row each.
func (o *skillsOptions) each(skills []tipstaff.SkillInfo, row func(tipstaff.SkillInfo) string) error {
	if len(skills) == 0 && !o.json {
		fmt.Fprintln(o.err, "no skills here; name their folder with --skills")
	}
	width, _ := o.env.size()
	for _, s := range skills {
		if o.json {
			if err := o.writeJSON(s); err != nil {
				return err
			}
			continue
		}
		text := row(s)
		if o.env.StdoutTTY {
			text = fit(text, width)
		}
		fmt.Fprintln(o.out, text)
	}
	return nil
}

func newSkillsShow(o *skillsOptions) *cobra.Command {
	return &cobra.Command{
		Use:               "show URI",
		Short:             "Show one skill",
		Example:           "  tipstaff skills show skill://release-notes@1.0.0",
		Args:              needs("URI"),
		ValidArgsFunction: completed(o.app, completeSkill),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.show(cmd.Context(), args[0]) },
	}
}

func completeSkill(a *app, cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	keeper, err := (&skillsOptions{a}).keeper()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	skills, err := keeper.List(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var uris []string
	for _, s := range skills {
		if s.URI != "" {
			uris = append(uris, cobra.CompletionWithDesc(s.URI, clean(s.Description)))
		}
	}
	return uris, cobra.ShellCompDirectiveNoFileComp
}

func (o *skillsOptions) show(ctx context.Context, uri string) error {
	keeper, err := o.keeper()
	if err != nil {
		return err
	}
	s, err := keeper.Show(ctx, uri)
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(s)
	}
	o.printFields(skillFields(s))
	if s.Prose != "" {
		fmt.Fprintln(o.out)
		for _, line := range cleanLines(s.Prose) {
			fmt.Fprintln(o.out, line)
		}
	}
	return nil
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

func newSkillsCheck(o *skillsOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "check [DIR]",
		Short: "Say everything that is wrong with skills",
		Long: `Check the skill in DIR, or all skills in DIR, or else all skills of the workspace:
skill.yaml, SKILL.md, and plan.yaml against what the skill allows and promises.

Exit code 2: something is wrong. Whether a tool exists is not asked here: that is
for the workspace that runs a plan.`,
		Example:           "  tipstaff skills check\n  tipstaff skills check skills/release-notes",
		Args:              atMostOne("DIR"),
		ValidArgsFunction: completed(o.app, completeDir),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.check(cmd.Context(), strings.Join(args, ""))
		},
	}
}

// atMostOne checks that there is one argument or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return needs(name)(cmd, args)
	}
}

func (o *skillsOptions) check(ctx context.Context, dir string) error {
	keeper, err := o.keeper()
	if err != nil {
		return err
	}
	valid, checked := keeper.Check(ctx, dir)
	if len(valid) == 0 && checked != nil {
		return checked
	}
	if err := o.each(valid, func(s tipstaff.SkillInfo) string { return clean(s.URI) + "  ok" }); err != nil {
		return err
	}
	return checked
}

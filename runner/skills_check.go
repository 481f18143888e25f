package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/skill"
)

// SkillKeeper implements [tipstaff.Skills] over the folder of skills of a
// Runner's workspace. Of the store it uses nothing.
type SkillKeeper struct{ *Runner }

var _ tipstaff.Skills = SkillKeeper{}

// List is every folder, those with faults too.
func (k SkillKeeper) List(context.Context) ([]tipstaff.SkillInfo, error) {
	set, err := k.skillSet()
	if err != nil {
		return nil, err
	}
	entries, err := set.List()
	if err != nil {
		return nil, err
	}
	infos := []tipstaff.SkillInfo{}
	for _, e := range entries {
		dir := filepath.Join(set.Dir(), e.ID)
		if e.Err == nil {
			infos = append(infos, describeSkill(dir, e.Skill))
			continue
		}
		infos = append(infos, tipstaff.SkillInfo{Dir: dir, Problems: skillProblems(dir, e.Err)})
	}
	return infos, nil
}

// Show is one skill.
func (k SkillKeeper) Show(_ context.Context, uri string) (tipstaff.SkillInfo, error) {
	set, err := k.skillSet()
	if err != nil {
		return tipstaff.SkillInfo{}, err
	}
	u, err := tipstaff.ParseSkillURI(uri)
	if err != nil {
		return tipstaff.SkillInfo{}, (&tipstaff.Error{Code: tipstaff.InvalidArgument, Message: err.Error(), Err: err}).
			WithHint("tipstaff skills list shows the URIs that there are")
	}
	s, err := set.Lookup(u)
	if err != nil {
		return tipstaff.SkillInfo{}, err
	}
	info := describeSkill(filepath.Join(set.Dir(), u.ID), s)
	info.Prose = s.Prose
	return info, nil
}

// Check reads one skill or a folder of them, and their plans.
func (k SkillKeeper) Check(_ context.Context, dir string) ([]tipstaff.SkillInfo, error) {
	entries, catalog, err := k.entries(&dir)
	if err != nil {
		return nil, err
	}
	valid, problems := []tipstaff.SkillInfo{}, []tipstaff.Problem{}
	for _, e := range entries {
		folder := filepath.Join(dir, e.ID)
		if e.Err == nil {
			if found := checkSkillPlan(folder, e.Skill, catalog); len(found) > 0 {
				problems = append(problems, found...)
				continue
			}
			valid = append(valid, describeSkill(folder, e.Skill))
			continue
		}
		problems = append(problems, skillProblems(folder, e.Err)...)
	}
	if len(problems) > 0 {
		return valid, &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems,
			Message: fmt.Sprintf("%d of %d skills in %s not valid", len(entries)-len(valid), len(entries), dir)}
	}
	return valid, nil
}

// entries are the skills under dir, which may be a skill itself: then dir becomes
// the folder around it.
func (k SkillKeeper) entries(dir *string) ([]skill.Entry, *skillCatalog, error) {
	if *dir == "" {
		set, err := k.skillSet()
		if err != nil || set == nil {
			return nil, nil, err
		}
		*dir = set.Dir()
	}
	if !isSkill(*dir) {
		set, err := skill.Open(*dir)
		if err != nil {
			return nil, nil, err
		}
		entries, err := set.List()
		return entries, newSkillCatalog(set), err
	}
	full, err := filepath.Abs(*dir)
	if err != nil {
		return nil, nil, err
	}
	around := filepath.Dir(filepath.Clean(*dir))
	if filepath.Base(*dir) != filepath.Base(full) { // "." and ".."
		around = filepath.Dir(full)
	}
	s, err := skill.Load(filepath.Join(around, filepath.Base(full)))
	*dir = around
	set, openErr := skill.Open(around)
	return []skill.Entry{{ID: filepath.Base(full), Skill: s, Err: err}}, newSkillCatalog(set), openErr
}

// isSkill reports whether a folder looks like one skill rather than many.
func isSkill(dir string) bool {
	for _, name := range []string{"skill.yaml", "SKILL.md"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

func skillProblems(dir string, err error) []tipstaff.Problem {
	var e *tipstaff.Error
	if errors.As(err, &e) && len(e.Problems) > 0 {
		return e.Problems
	}
	return []tipstaff.Problem{{Code: codeSkillInvalid, File: dir, Message: err.Error()}}
}

func describeSkill(dir string, s *skill.Skill) tipstaff.SkillInfo {
	info := tipstaff.SkillInfo{Dir: dir, URI: s.URI().String(), Digest: s.Digest(), Description: s.Description, Verbs: s.Verbs,
		Inputs: describeFields(s.Inputs), Outputs: describeFields(s.Outputs), Tools: s.Tools, SubSkills: s.SubSkills}
	for _, m := range s.FailureModes {
		info.FailureModes = append(info.FailureModes, tipstaff.SkillFailureMode{Reason: m.Reason, Action: string(m.Action), Note: m.Note})
	}
	if s.Plan != nil {
		info.Plan = flow.Digest(s.Plan)
	}
	return info
}

func describeFields(fields []skill.Field) []tipstaff.SkillField {
	var all []tipstaff.SkillField
	for _, f := range fields {
		all = append(all, tipstaff.SkillField{Name: f.Name, Required: f.Required, Schema: f.Schema})
	}
	return all
}

// checkSkillPlan says what is wrong with the plan of a skill: with the plan
// itself, and between the two. Whether there are such tools and agents is for
// the workspace that runs it.
func checkSkillPlan(dir string, s *skill.Skill, catalog *skillCatalog) []tipstaff.Problem {
	if s.Plan == nil {
		return nil
	}
	name := filepath.Join(dir, "plan.yaml")
	doc, problems := plan.Parse(name, s.Plan)
	if doc == nil {
		return problems
	}
	problems = doc.Validate(skillPlanResolver{doc, s, catalog})
	fault := func(code, format string, args ...any) {
		problems = append(problems, tipstaff.Problem{Code: code, File: name, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)})
	}
	if doc.Skill == "" {
		fault("field_missing", "the plan does not say skill: %s, so that it would not be held to its tools", s.URI())
	}
	taken := map[string]bool{}
	for _, in := range doc.Inputs {
		taken[in.Name] = in.Required
	}
	for _, f := range s.Inputs {
		required, ok := taken[f.Name]
		switch {
		case !ok:
			fault("input_missing", "the skill has an input %s, which the plan does not take", f.Name)
		case required && !f.Required:
			fault("input_missing", "the plan needs the input %s, which the skill does not ask for", f.Name)
		}
	}
	return problems
}

// skillPlanResolver knows the skill of a plan and those beside it, and has
// nothing against anything else.
type skillPlanResolver struct {
	doc     *plan.Document
	own     *skill.Skill
	catalog *skillCatalog
}

func (r skillPlanResolver) Skill(uri string) plan.SkillInfo {
	switch own := r.own.URI().String(); {
	case uri == own:
		return infoOf(r.own)
	case uri == r.doc.Skill:
		return plan.SkillInfo{Trouble: plan.Trouble{Code: codeSkillMismatch, Message: fmt.Sprintf("the plan of %s is for %s", own, uri)}}
	}
	return r.catalog.info(uri)
}

func (skillPlanResolver) Tool(string) plan.ToolInfo            { return plan.ToolInfo{} }
func (skillPlanResolver) Agent(string) plan.AgentInfo          { return plan.AgentInfo{} }
func (skillPlanResolver) Dispatch(string, string) plan.Trouble { return plan.Trouble{} }
func (skillPlanResolver) Feature(string) plan.Trouble          { return plan.Trouble{} }
func (skillPlanResolver) Bounds() flow.Use                     { return nil }

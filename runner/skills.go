package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/skill"
)

// skillsFolder is where the skills of a workspace are, unless somebody says
// otherwise.
const skillsFolder = "skills"

// skillSet opens the folder of skills. Without one that was named, a workspace
// may have none.
func (r *Runner) skillSet() (*skill.Set, error) {
	if r.Skills != "" {
		return skill.Open(r.Skills)
	}
	set, err := skill.Open(filepath.Join(r.Workspace, skillsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return set, err
}

// skillCatalog holds the skills that a program was checked with: what is frozen is
// what was looked at, also if the files change in between.
type skillCatalog struct {
	set   *skill.Set
	taken map[string]*skill.Skill // by URI
}

func newSkillCatalog(set *skill.Set) *skillCatalog {
	return &skillCatalog{set: set, taken: map[string]*skill.Skill{}}
}

func (s *skillCatalog) take(uri string) (*skill.Skill, error) {
	if found := s.taken[uri]; found != nil {
		return found, nil
	}
	u, err := tipstaff.ParseSkillURI(uri)
	if err != nil {
		return nil, err
	}
	found, err := s.set.Lookup(u)
	if err != nil {
		return nil, err
	}
	s.taken[uri] = found
	return found, nil
}

// info answers plan's question about a skill.
func (s *skillCatalog) info(uri string) plan.SkillInfo {
	found, err := s.take(uri)
	if err != nil {
		return plan.SkillInfo{Trouble: skillTrouble(uri, err)}
	}
	return infoOf(found)
}

func infoOf(s *skill.Skill) plan.SkillInfo {
	info := plan.SkillInfo{Tools: s.Tools, SubSkills: s.SubSkills}
	if s.Inputs != nil {
		info.Inputs = map[string]bool{}
	}
	for _, f := range s.Inputs {
		info.Inputs[f.Name] = f.Required
	}
	for _, f := range s.Outputs {
		if f.Required {
			info.Outputs = append(info.Outputs, f.Name)
		}
	}
	return info
}

// Codes of skills that cannot be used.
const (
	codeSkillUnknown  = "skill_unknown"
	codeSkillMismatch = "skill_mismatch"
	codeSkillInvalid  = "skill_invalid"
)

func skillTrouble(uri string, err error) plan.Trouble {
	t := plan.Trouble{Code: codeSkillInvalid, Message: err.Error()}
	var e *tipstaff.Error
	switch {
	case errors.Is(err, skill.ErrUnknown):
		t.Code = codeSkillUnknown
	case errors.Is(err, skill.ErrMismatch):
		t.Code = codeSkillMismatch
	case errors.As(err, &e) && len(e.Problems) > 0:
		p := e.Problems[0]
		t.Message = fmt.Sprintf("%s cannot be used: %s:%d:%d: %s; tipstaff skills check shows all that is wrong", uri, p.File, p.Line, p.Column, p.Message)
	}
	return t
}

// reach takes the skill of a program and the skills that it, and those in turn,
// may dispatch. One that is only allowed and not there is left out: whether it
// is needed shows when somebody asks for it.
func (s *skillCatalog) reach(doc *plan.Document) {
	var wanted []string
	if doc.Skill != "" {
		wanted = append(wanted, doc.Skill)
	}
	for leaf := range doc.Root.Leaves {
		if leaf.Kind == plan.SubDispatch {
			wanted = append(wanted, leaf.Skill)
		}
	}
	seen := map[string]bool{}
	for len(wanted) > 0 {
		uri := wanted[0]
		wanted = wanted[1:]
		if found, err := s.take(uri); err == nil && !seen[uri] && uri != doc.Skill {
			wanted = append(wanted, found.SubSkills...)
		}
		seen[uri] = true
	}
}

// freezeSkills stores the skills that a program was found to need, each under its
// URI, and what their digests are of: records name both.
func (r *Runner) freezeSkills(ctx context.Context, catalog *skillCatalog, frozen map[string]string) (err error) {
	for uri, s := range catalog.taken {
		if frozen[uri], err = r.Store.PutBlob(ctx, s.Freeze()); err != nil {
			return err
		}
		if _, err = r.Store.PutBlob(ctx, s.Identity()); err != nil {
			return err
		}
	}
	return nil
}

// openSkills reads back what freezeSkills stored, and the plans of those skills. Frozen
// documents that are not skills have names without a scheme.
func (c *common) openSkills(ctx context.Context, src source) error {
	c.skills, c.children = map[string]*skill.Skill{}, map[string]*plan.Document{}
	for uri, digest := range c.draft.Frozen {
		if _, err := tipstaff.ParseSkillURI(uri); err != nil {
			continue
		}
		data, err := src.Blob(ctx, digest)
		if err != nil {
			return fmt.Errorf("the skill %s that run %s froze is not there: %w", uri, c.run, err)
		}
		s, err := skill.Thaw(data)
		if err != nil {
			return fmt.Errorf("the skill %s of run %s: %w", uri, c.run, err)
		}
		if s.URI().String() != uri {
			return fmt.Errorf("run %s froze the skill %s under the name %s", c.run, s.URI(), uri)
		}
		c.skills[uri] = s
		doc, err := planOf(s)
		if err != nil {
			return fmt.Errorf("the plan of the frozen %s cannot be read: %w", uri, err)
		}
		if doc != nil {
			c.children[uri] = doc
		}
	}
	// What was signed at the start must be what was frozen.
	uri := c.text.skill()
	own := c.skills[uri]
	switch {
	case uri != c.draft.Skill:
		return fmt.Errorf("the program of run %s is for the skill %q, but the run was started with %q", c.run, uri, c.draft.Skill)
	case uri == "":
		return nil
	case own == nil:
		return fmt.Errorf("run %s froze no skill %s", c.run, uri)
	case own.Digest() != c.draft.SkillDigest:
		return fmt.Errorf("the skill that run %s froze is %s, not %s", c.run, own.Digest(), c.draft.SkillDigest)
	}
	return nil
}

// allowed is what a plan may call that is made for a skill; nil: for none.
func allowed(doc *plan.Document, own *skill.Skill) []string {
	switch {
	case own == nil:
		return doc.AllowList()
	case doc.Tools == nil:
		return own.Tools
	}
	return both(own.Tools, *doc.Tools)
}

// both are the words of a that b has too.
func both(a, b []string) []string {
	shared := []string{}
	for _, word := range a {
		if slices.Contains(b, word) {
			shared = append(shared, word)
		}
	}
	return shared
}

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
			WithCommand("tipstaff skills list shows the URIs that there are")
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
	if !slices.ContainsFunc([]string{"skill.yaml", "SKILL.md"}, func(name string) bool { // then it is a folder of many
		_, err := os.Lstat(filepath.Join(*dir, name))
		return err == nil
	}) {
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

func skillProblems(dir string, err error) []tipstaff.Problem {
	if e := coded(err); e != nil && len(e.Problems) > 0 {
		return e.Problems
	}
	return []tipstaff.Problem{{Code: codeSkillInvalid, File: dir, Message: err.Error()}}
}

func describeSkill(dir string, s *skill.Skill) tipstaff.SkillInfo {
	info := tipstaff.SkillInfo{Dir: dir, URI: s.URI().String(), Digest: s.Digest(), Description: s.Description, Verbs: s.Verbs,
		Inputs: describeFields(s.Inputs), Outputs: describeFields(s.Outputs), Tools: s.Tools, SubSkills: s.SubSkills, Warnings: s.Warnings, Published: s.Published}
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
	problems = doc.Validate(skillPlanResolver{doc: doc, own: s, catalog: catalog})
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

// lenient is a [plan.Resolver] for documents that are looked at and not run: it has
// nothing against agents, child runs and features that are not there.
type lenient struct{}

func (lenient) Agent(string) plan.AgentInfo          { return plan.AgentInfo{} }
func (lenient) Dispatch(string, string) plan.Trouble { return plan.Trouble{} }
func (lenient) Feature(string) plan.Trouble          { return plan.Trouble{} }
func (lenient) Release(string) plan.Trouble          { return plan.Trouble{} }

// skillPlanResolver knows the skill of a plan and those beside it.
type skillPlanResolver struct {
	lenient
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

func (skillPlanResolver) Tool(string) plan.ToolInfo { return plan.ToolInfo{} }
func (skillPlanResolver) Bounds() flow.Use          { return nil }

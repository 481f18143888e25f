package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
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
	return c.checkSkill()
}

// checkSkill compares what was signed at the start with what was frozen.
func (c *common) checkSkill() error {
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
	known := map[string]bool{}
	for _, word := range b {
		known[word] = true
	}
	shared := []string{}
	for _, word := range a {
		if known[word] {
			shared = append(shared, word)
		}
	}
	return shared
}

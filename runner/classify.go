package runner

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

var _ tipstaff.Classifier = (*Runner)(nil)

// Classify compares the terms of two plans. It asks whether they are plans, not
// whether this workspace could run them: one may want an agent, a skill or an
// anchor that only another has. Of the store it uses nothing.
func (r *Runner) Classify(_ context.Context, req tipstaff.ClassifyRequest) (tipstaff.Classification, error) {
	manifest, err := r.manifest()
	if given := req.Manifest; given != nil {
		var problems []tipstaff.Problem
		if manifest, problems = workspace.ParseIn(workspace.Beside(filepath.Dir(given.Name)), given.Name, given.Text); len(problems) > 0 {
			return tipstaff.Classification{}, &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the manifest " + given.Name + " is not valid", Problems: problems}
		}
	} else if err != nil {
		return tipstaff.Classification{}, err
	}
	have, err := r.preparedUnder(manifest)
	if err != nil {
		return tipstaff.Classification{}, err
	}
	reader := &termsReader{manifest: manifest, tools: have.tools.Definitions(), skills: have.skills}
	old, problems := reader.terms(req.Old)
	new, more := reader.terms(req.New)
	if problems = append(problems, more...); len(problems) > 0 {
		return tipstaff.Classification{}, &tipstaff.Error{Code: tipstaff.InvalidProgram, Problems: problems,
			Message: fmt.Sprintf("%s and %s cannot be compared: both must be valid plans", req.Old.Name, req.New.Name)}
	}
	return policy.Classify(old, new, cmp.Or(req.Now, r.Now())), nil
}

// termsReader reads the terms of plans, and is plan's Resolver for them.
type termsReader struct {
	lenient
	manifest *workspace.Manifest
	tools    []*tool.Definition
	skills   *skillCatalog
}

func (t *termsReader) terms(src tipstaff.Source) (policy.Terms, []tipstaff.Problem) {
	doc, problems := plan.Check(src.Name, src.Text, t)
	if len(problems) > 0 {
		return policy.Terms{}, problems
	}
	return doc.Terms(t), nil
}

func (t *termsReader) Tool(uri string) plan.ToolInfo {
	info := plan.ToolInfo{Class: t.class(uri)}
	if t.manifest != nil {
		info.MaxTimeout = time.Duration(t.manifest.MaxTimeout)
	}
	return info
}

// class is that of a tool whatever its pin, "" if nobody knows: a document may
// name a version that this workspace has no longer, or not yet.
func (t *termsReader) class(uri string) flow.Class {
	u, err := tipstaff.ParseToolURI(uri)
	if err != nil {
		return ""
	}
	for _, d := range t.tools {
		if d.Server == u.Server && d.Tool == u.Tool {
			return d.Class
		}
	}
	config, _ := t.manifest.Tool(u.Server, u.Tool)
	return config.Effect
}

// Skill: one that is not here allows whatever the plan calls.
func (t *termsReader) Skill(uri string) plan.SkillInfo {
	info := t.skills.info(uri)
	if info.Trouble.Code != "" {
		return plan.SkillInfo{}
	}
	return info
}

func (t *termsReader) Bounds() flow.Use { return resolver{manifest: t.manifest}.Bounds() }

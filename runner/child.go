package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/skill"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// maxDepth is how far below a run that a person started its children may stand.
const maxDepth = 3

// chain is the line of runs from the one that a person started: the ids of the
// skills that they were made for, "" where there was none.
type chain []string

// extend is the line one further down, for a program made for a skill.
func (c chain) extend(uri string) chain {
	u, _ := tipstaff.ParseSkillURI(uri)
	return append(slices.Clone(c), u.ID)
}

// refuses says why a program at the end of the line may not start a child for a
// skill.
func (c chain) refuses(uri string) plan.Trouble {
	u, _ := tipstaff.ParseSkillURI(uri)
	switch {
	case slices.Contains(c, u.ID):
		return plan.Trouble{Code: plan.CodeSubDispatchCycle, Message: fmt.Sprintf("%s is already at work above, and would start itself again", u.ID)}
	case len(c) > maxDepth:
		return plan.Trouble{Code: plan.CodeSubDispatchDisabled, Message: fmt.Sprintf("child runs stand at most %d deep", maxDepth)}
	}
	return plan.Trouble{}
}

// checkFirst checks a program that no other run has started. Which skill it is
// for, and so must not start again below itself, shows when it has been read.
func checkFirst(name string, program []byte, r resolver) (*plan.Document, []tipstaff.Problem) {
	doc, problems := plan.Check(name, program, r)
	if len(problems) > 0 || doc.Skill == "" {
		return doc, problems
	}
	for leaf := range doc.Root.Leaves {
		if leaf.Kind == plan.SubDispatch {
			r.chain = chain(nil).extend(doc.Skill)
			return plan.Check(name, program, r)
		}
	}
	return doc, nil
}

// chainOf is the line that ends with a run.
func (r *Runner) chainOf(ctx context.Context, c *common) (chain, error) {
	var uris []string
	for {
		uris = append(uris, c.draft.Skill)
		if !c.draft.Parent.Dispatched() {
			break
		}
		parent, err := openProgram(ctx, r.Store, c.draft.Parent.Run)
		if err != nil {
			return nil, err
		}
		c = parent.shared()
	}
	var line chain
	for _, uri := range slices.Backward(uris) {
		line = line.extend(uri)
	}
	return line, nil
}

const (
	relationDispatch = "dispatch" // how a child run is related to its parent
	viaParent        = "parent"   // how it was accepted by it: no person has seen the calls of its plan
)

// Dispatch tells whether a child run of a skill may be started from here. A plan
// that the skill brings is known by then, so it is checked now, and those it starts
// too. For a skill that brings none the agent drafts one.
func (r resolver) Dispatch(uri, agent string) plan.Trouble {
	if r.manifest == nil || !r.manifest.SubDispatch {
		return plan.Trouble{Code: plan.CodeSubDispatchDisabled,
			Message: "child runs are not allowed here: set policy.sub_dispatch in tipstaff.yaml, or give --allow-sub-dispatch"}
	}
	if t := r.chain.refuses(uri); t.Code != "" {
		return t
	}
	s, err := r.skills.take(uri)
	if err != nil {
		return plan.Trouble{} // the skill is looked up by itself, and reported then
	}
	if s.Plan == nil {
		t := agentTrouble(r.manifest, agent)
		if t.Code != "" {
			t.Message = fmt.Sprintf("%s has no plan.yaml, so that an agent must draft one: %s", uri, t.Message)
		}
		return t
	}
	below := r
	below.chain = r.chain.extend(uri)
	doc, problems := plan.Check(uri+"/plan.yaml", s.Plan, below)
	switch {
	case len(problems) > 0:
		p := problems[0]
		return plan.Trouble{Code: p.Code, Message: fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)}
	case doc.Skill != uri:
		return plan.Trouble{Code: "skill_mismatch", Message: fmt.Sprintf("the plan.yaml of %s must say skill: %s", uri, uri)}
	}
	return plan.Trouble{}
}

// planOf is the plan that a skill brings, nil if it brings none.
func planOf(s *skill.Skill) (*plan.Document, error) {
	if s == nil || s.Plan == nil {
		return nil, nil
	}
	doc, problems := plan.Check("plan.yaml", s.Plan, nil)
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Message)
	}
	return doc, nil
}

// prepareChild makes a program of a skill that the parent has frozen. Nothing of
// the workspace is looked at but its folders: what the parent was accepted with
// holds for its children.
func (r *Runner) prepareChild(ctx context.Context, parent *common, in dispatchInput) (*prepared, error) {
	s := parent.skills[in.Skill]
	line, err := r.chainOf(ctx, parent)
	if err != nil {
		return nil, err
	}
	if t := line.refuses(in.Skill); t.Code != "" {
		return nil, subagent("%s: %s", t.Code, t.Message)
	}
	manifest := parent.gate.Manifest
	if in.Scope != "" {
		scope, err := r.scope(manifest, in.Scope)
		if err != nil {
			return nil, subagent("%v", err)
		}
		manifest = manifest.Within(scope, true)
	}
	p := &prepared{manifest: manifest, tools: parent.gate.Tools, skills: &skillCatalog{taken: parent.skills}, bounds: in.Bounds}
	p.resolver = resolver{manifest: manifest, tools: p.tools, skills: p.skills, chain: line.extend(in.Skill), performers: r.performers}
	for _, a := range parent.agents.settled {
		p.costBound = p.costBound || a.Settings.CostBound
	}
	if p.live, err = r.manifest(); err != nil {
		return nil, err
	}
	if s.Plan == nil {
		p.text, p.inputs, p.agents.settled = unwritten(in.Skill), in.Inputs, map[string]settledAgent{}
		if err := r.settleAgent(p, in.Agent); err != nil {
			return nil, subagent("the plan of %s cannot be drafted: %v", in.Skill, err)
		}
		return p, nil
	}
	doc, problems := plan.Check(in.Skill+"/plan.yaml", s.Plan, p.resolver)
	if len(problems) == 0 {
		given := map[string]json.RawMessage{}
		if err := json.Unmarshal(in.Inputs, &given); err != nil {
			return nil, err
		}
		p.inputs, problems = doc.CheckInputs(given)
	}
	if len(problems) > 0 {
		return nil, subagent("the plan of %s cannot be run: %s", in.Skill, problems[0].Message)
	}
	p.text = planText{doc}
	if err := r.settleAgents(p); err != nil {
		return nil, subagent("the plan of %s cannot be run: %v", in.Skill, err)
	}
	return p, nil
}

// scope is the folder that a file:// URL names, if it lies in a root that files
// may be read and written in.
func (r *Runner) scope(m *workspace.Manifest, url string) (string, error) {
	name, ok := strings.CutPrefix(url, "file://")
	if !ok || name == "" {
		return "", fmt.Errorf("scope is %q: write file:// and a folder", url)
	}
	folder, err := r.folder(name)
	if err != nil {
		return "", fmt.Errorf("scope %s: %w", url, err)
	}
	files, _ := m.Server(builtin.Name)
	for _, root := range files.Roots {
		if root, err := r.folder(root); err == nil && within(root, folder) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("scope %s is in none of the roots that this run may use", url)
}

// narrowed is the manifest of now for a run that was given a scope: it holds only
// as long as it lies in a root that is still declared.
func (r *Runner) narrowed(m *workspace.Manifest, c *common) *workspace.Manifest {
	if m == nil || c.gate.Manifest == nil || c.gate.Manifest.Scope == "" {
		return m
	}
	scope := c.gate.Manifest.Scope
	_, err := r.scope(m, "file://"+scope)
	return m.Within(scope, err == nil)
}

// folder is where a folder of the workspace really is.
func (r *Runner) folder(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.Workspace, name)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a folder", name)
	}
	return real, nil
}

func within(root, folder string) bool {
	rel, err := filepath.Rel(root, folder)
	return err == nil && filepath.IsLocal(rel)
}

// createChild stores a child run. With accept: auto its parent accepts its plan,
// which the record says, at once or when it is drafted; otherwise a person is
// asked.
func (r *Runner) createChild(ctx context.Context, child string, parent *common, p *prepared, accept string) error {
	body, err := r.freeze(ctx, p)
	if err != nil {
		return err
	}
	if body.ProgramDigest == "" {
		body.Prose = "Do what the skill is for, with the inputs that are given."
	}
	body.Title, body.Parent = p.text.skill(), &tipstaff.RunParent{Run: parent.run, Relation: relationDispatch}
	as := tipstaff.WithCaller(ctx, tipstaff.Caller{Surface: "parent", User: parent.draft.User, Principal: "run:" + parent.run})
	if body.Asks, err = (handed{of: parent.draft.Asks}).asks(as); err != nil {
		return err
	}
	var more []flow.Draft
	if accept == plan.AcceptAuto && body.ProgramDigest != "" {
		more = r.accepted(as, body, p.text, viaParent)
	}
	return r.store(as, idOf(child), body, p.text, more)
}

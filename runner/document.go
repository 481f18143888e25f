package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	docs "github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/skill"
)

// document is the text of a program: what is checked, frozen, accepted and shown of
// it, whatever its kind.
type document interface {
	Canonical() []byte // nil: it is still to be written
	described() tipstaff.Program
	intent() plan.Intent
	skill() string
	turn() *plan.Turn          // nil: it is no turn
	files() docs.Files         // where it works, and what is made ready there
	deliver() *docs.Deliver    // what it hands over; nil: nothing
	plans() []*plan.Document   // that are walked: itself, or those of its stages
	stages() []*pipeline.Agent // nil: it has none
	outline(plan.Resolver) *tipstaff.Outline
	// allowed is what the program may call, given the skills and agents of its run.
	allowed(map[string]*skill.Skill, agentSet) []string
	// limits are the bounds that the engine holds a run to.
	limits(tipstaff.Bounds) flow.Use
	// takes are inputs as the program takes them, which is how they are stored.
	takes(inputs json.RawMessage) (json.RawMessage, error)
	// memo is what is known of a node before it runs.
	memo(id string) flow.Memo
}

// openDocument reads a frozen text; "" is a program that nobody has written yet.
func openDocument(kind, skill string, canonical []byte) (document, error) {
	switch {
	case kind == kindPipeline:
		return openPipelineText(canonical)
	case canonical == nil:
		return unwritten(skill), nil
	}
	doc, err := plan.Load(canonical)
	return planText{doc}, err
}

// planText is a plan, or a turn, which is a plan with one step.
type planText struct{ *plan.Document }

// unwritten stands for the plan of a run that has none yet.
func unwritten(skill string) planText {
	return planText{&plan.Document{Kind: plan.KindPlan, Version: 1, Skill: skill, Root: &plan.Node{Kind: plan.Sequential, Path: "root"}}}
}

func (t planText) described() tipstaff.Program {
	return tipstaff.Program{Kind: t.Kind, Name: t.Name, Digest: t.Digest()}
}

func (t planText) intent() plan.Intent                       { return t.Intent }
func (t planText) skill() string                             { return t.Skill }
func (t planText) turn() *plan.Turn                          { return t.Turn }
func (t planText) files() docs.Files                         { return t.Files }
func (t planText) deliver() *docs.Deliver                    { return t.Deliver }
func (t planText) plans() []*plan.Document                   { return []*plan.Document{t.Document} }
func (t planText) stages() []*pipeline.Agent                 { return nil }
func (t planText) outline(r plan.Resolver) *tipstaff.Outline { return t.Outline(r) }
func (t planText) limits(b tipstaff.Bounds) flow.Use         { return flow.Use(maps.Clone(b)) }

func (t planText) allowed(skills map[string]*skill.Skill, _ agentSet) []string {
	return allowed(t.Document, skills[t.Skill])
}

// takes: inputs of a plan that is still to be drafted are part of what the model is
// asked.
func (t planText) takes(inputs json.RawMessage) (json.RawMessage, error) {
	if t.Canonical() == nil {
		return inputs, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &all); err != nil {
		return nil, err
	}
	want, problems := t.CheckInputs(all)
	if len(problems) > 0 {
		return nil, errors.New(problems[0].Message)
	}
	return want, nil
}

func (t planText) memo(id string) flow.Memo {
	for n := range t.Root.Leaves {
		if n.ID != id {
			continue
		}
		memo := flow.Memo{Kind: string(n.Kind), Tool: n.Tool, Skill: t.Skill, Verb: t.Intent.Verb, Summary: n.ID}
		if u, err := tipstaff.ParseToolURI(n.Tool); err == nil {
			memo.Server = u.Server
			memo.Summary += " (" + u.Server + "/" + u.Tool + ")"
		}
		return memo
	}
	return flow.Memo{Summary: id}
}

// kindPipeline is what intent.draft calls the program.
const kindPipeline = "pipeline"

// pipelineText is a pipeline, or, with a nil Pipeline, the place of one in a draft.
type pipelineText struct {
	*pipeline.Pipeline
	// walked are the documents that its plan stages walk, by stage. They are read once:
	// a stage that is visited often walks the same one each time.
	walked map[string]*plan.Document
}

func openPipelineText(canonical []byte) (pipelineText, error) {
	if canonical == nil {
		return pipelineText{}, nil
	}
	pipe, err := pipeline.Load(canonical)
	if err != nil {
		return pipelineText{}, err
	}
	return newPipelineText(pipe)
}

func newPipelineText(p *pipeline.Pipeline) (pipelineText, error) {
	t := pipelineText{p, map[string]*plan.Document{}}
	for _, a := range p.Agents {
		if a.Plan == nil {
			continue
		}
		doc, err := plan.Load(a.Plan.Document)
		if err != nil {
			return t, fmt.Errorf("the plan of stage %s cannot be read: %w", a.Name, err)
		}
		t.walked[a.Name] = doc
	}
	return t, nil
}

func (t pipelineText) Canonical() []byte {
	if t.Pipeline == nil {
		return nil
	}
	return t.Pipeline.Canonical()
}

func (t pipelineText) described() tipstaff.Program {
	name := ""
	if t.Pipeline != nil {
		name = t.Name
	}
	return tipstaff.Program{Kind: kindPipeline, Name: name, Digest: flow.Digest(t.Canonical())}
}

func (t pipelineText) intent() plan.Intent { return plan.Intent{} }
func (t pipelineText) skill() string       { return "" }
func (t pipelineText) turn() *plan.Turn    { return nil }

func (t pipelineText) files() docs.Files {
	if t.Pipeline == nil {
		return docs.Files{}
	}
	return t.Files
}

func (t pipelineText) deliver() *docs.Deliver {
	if t.Pipeline == nil {
		return nil
	}
	return t.Deliver
}

func (t pipelineText) plans() (docs []*plan.Document) {
	for _, a := range t.stages() {
		if doc := t.walked[a.Name]; doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs
}

func (t pipelineText) stages() []*pipeline.Agent {
	if t.Pipeline == nil {
		return nil
	}
	return t.Agents
}

// outline is the stages in their order, and below them the plans that they walk.
func (t pipelineText) outline(r plan.Resolver) *tipstaff.Outline {
	if t.Pipeline == nil {
		return unwritten("").outline(r)
	}
	root := &tipstaff.Outline{Kind: kindPipeline, ID: t.Name}
	for _, a := range t.Agents {
		stage := &tipstaff.Outline{Path: a.Name, ID: a.Name, Kind: "stage", Label: a.Label(), Class: a.Effect, Hosted: a.Remote != nil}
		if doc := t.walked[a.Name]; doc != nil {
			stage.Children = []*tipstaff.Outline{doc.Outline(nil)}
		}
		root.Children = append(root.Children, stage)
	}
	return root
}

func (t pipelineText) allowed(skills map[string]*skill.Skill, agents agentSet) []string {
	list := []string{}
	for _, a := range t.stages() {
		for _, uri := range t.allowedIn(a, skills, agents) {
			if !slices.Contains(list, uri) {
				list = append(list, uri)
			}
		}
	}
	return list
}

// allowedIn is what one stage may call. The plan of a stage may call what its own list
// says, narrowed by its skill's.
func (t pipelineText) allowedIn(a *pipeline.Agent, skills map[string]*skill.Skill, agents agentSet) []string {
	if doc := t.walked[a.Name]; doc != nil {
		return allowed(doc, skills[doc.Skill])
	}
	return stageTools(a, agents)
}

// stageTools are the tools that a stage may use, besides those of a plan's nodes.
func stageTools(a *pipeline.Agent, set agentSet) []string {
	if a.Tool != nil {
		return []string{a.Tool.URI}
	}
	if own := set.settled[stageAgent(a)].Tools; own != nil {
		return *own
	}
	return nil
}

// limits: iterations the engine only counts, and rounds it does not know: a person may
// grant one more edge, and only the executor knows.
func (t pipelineText) limits(b tipstaff.Bounds) flow.Use {
	limits := flow.Use(maps.Clone(b))
	if t.Pipeline != nil {
		delete(limits, tipstaff.BoundIterations)
		delete(limits, tipstaff.BoundStages)
	}
	return limits
}

func (t pipelineText) takes(inputs json.RawMessage) (json.RawMessage, error) {
	var in pipelineInputs
	if err := json.Unmarshal(inputs, &in); err != nil {
		return nil, err
	}
	if err := checkThread(in.Thread); err != nil {
		return nil, err
	}
	return in.check()
}

func (t pipelineText) memo(id string) flow.Memo { return flow.Memo{Summary: id} }

// drawn is a drawing in a format that there is.
func (t pipelineText) drawn(format string, counts map[pipeline.Edge]int64) ([]byte, error) {
	if format != pipeline.GraphMermaid && format != pipeline.GraphDOT && format != pipeline.GraphJSON {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "a pipeline is drawn as mermaid, dot or json, not as %q", format)
	}
	text, err := t.Graph(format, counts)
	return []byte(text), err
}

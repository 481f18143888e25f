package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/plan"
)

// A run that begins with prose has a model draft its plan. That is a segment like
// any other: it ends with a valid plan, which a person is then asked to accept.

// phaseDraft is the segment in which a run has no program yet.
const phaseDraft = "draft"

// Activities of drafting.
const (
	recallName = "memory.recall"
	checkName  = "plan.check"
)

const (
	mostTries  = 3 // of a model, until its answer can be used
	mostRounds = 3 // of questions to the user
	// mostRevised is how often a person may have a draft written again.
	mostRevised = 10
	shownReply  = 2000 // bytes of an answer that could not be used
)

// Draft makes a run that begins with prose. If nothing but a draft is wanted, nobody
// accepts it.
func (r *Runner) Draft(ctx context.Context, req tipstaff.DraftRequest) (tipstaff.Started, error) {
	if err := mayDraft(ctx, req); err != nil {
		return tipstaff.Started{}, err
	}
	digest := draftDigest(req)
	if started, found, err := r.madeBefore(ctx, req.Key, digest); found || err != nil {
		return started, err
	}
	if err := r.mayBegin(ctx, userOf(ctx), req.Detach); err != nil {
		return tipstaff.Started{}, err
	}
	var err error
	if req.Project, err = r.projectOf(req.Project); err != nil {
		return tipstaff.Started{}, err
	}
	p, err := r.prepareDraft(ctx, req)
	if err != nil {
		return tipstaff.Started{}, err
	}
	body, err := r.freeze(ctx, p)
	if err != nil {
		return tipstaff.Started{}, explain(err, tipstaff.ID{})
	}
	run := tipstaff.NewID(r.Now())
	body.Prose, body.Title = req.Prose, req.Title
	body.hosted(req.Hosting, digest)
	who := person{Presence: req.Presence, draftOnly: req.Only, by: tipstaff.CallerFrom(ctx)}
	who.Yes = who.Yes && !req.Only
	return r.host(ctx, run, body, p.text, nil, p.validated(), who, req.Detach)
}

// prepareDraft settles what a plan will be drafted with: a skill, an agent, inputs.
func (r *Runner) prepareDraft(ctx context.Context, req tipstaff.DraftRequest) (*prepared, error) {
	p, err := r.newPrepared(req.AllowSubDispatch)
	if err != nil {
		return nil, err
	}
	uri := req.Skill
	if uri == "" && p.manifest != nil {
		uri = p.manifest.DefaultSkill
	}
	switch {
	case req.Accept && !tipstaff.CallerFrom(ctx).Trusted() && (p.manifest == nil || !p.manifest.AutoAccept):
		return nil, tipstaff.Errorf(tipstaff.Forbidden, "plans are not accepted in advance here").WithHint("leave accept out, and decide when the plan is shown; policy.auto_accept in the manifest allows it")
	case strings.TrimSpace(req.Prose) == "":
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "nothing was said about what is to be done")
	case len(req.Prose) > plan.MaxMessage:
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the request has %d bytes: %d are the most", len(req.Prose), plan.MaxMessage)
	case uri == "":
		return nil, (&tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "a plan is drafted for a skill, and none was named",
			Problems: []tipstaff.Problem{{Code: "skill_required", Message: "no skill was named"}}}).
			WithCommand("give --skill, or set default_skill in tipstaff.yaml; `tipstaff skills list` shows what there is")
	}
	p.text, p.agents.settled = unwritten(uri), map[string]settledAgent{}
	if _, err := p.skills.take(uri); err != nil {
		t := skillTrouble(uri, err)
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: t.Message, Problems: []tipstaff.Problem{{Code: t.Code, Message: t.Message}}}
	}
	for _, sub := range p.skills.taken[uri].SubSkills {
		_, _ = p.skills.take(sub) // one that is not there cannot be dispatched, which a plan that does is told
	}
	given := req.Inputs
	if given == nil {
		given = map[string]json.RawMessage{}
	}
	p.inputs = flow.JSON(given)
	if _, err := canon.Exact(p.inputs); err != nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the inputs cannot be kept: %v", err)
	}
	p.bind(nil, nil, req.Bounds)
	return p, r.settleAgent(p, cmp.Or(req.Agent, plan.DefaultAgent))
}

// drafting is how far a draft has come: what a segment of drafting starts from and
// ends with. Every round of questions is a segment of its own, because the records
// of its end move the run's lifecycle.
type drafting struct {
	Attempts  int                   `json:"attempts"` // at asking the model
	Round     int                   `json:"round"`    // of questions
	Model     string                `json:"model"`
	Memories  []memory              `json:"memories"`
	Answers   []prompts.DraftAnswer `json:"answers"`
	Questions json.RawMessage       `json:"questions,omitempty"` // that are to be asked
	Revision  *revision             `json:"revision,omitempty"`  // that was drafted
	Reply     string                `json:"reply,omitempty"`     // and how it begins
	Wanted    []string              `json:"wanted,omitempty"`    // what a person wanted to be different, each time it was written again
	With      *revision             `json:"with,omitempty"`      // while a draft is to be confirmed: what was frozen for drafting
}

// checked is the value of plan.check: one of the three.
type checked struct {
	Questions json.RawMessage `json:"questions,omitempty"`
	Problems  []draftProblem  `json:"problems,omitempty"`
	Revision  *revision       `json:"revision,omitempty"`
}

type draftProblem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// question is one of those that a model asks before it drafts.
type question struct{ tipstaff.ClarifyQuestion }

// draftingProgram has a model write the plan of a run.
type draftingProgram struct{ *common }

// root: the answers to a round of questions begin a segment, or what a person wants to be
// different.
func (p *draftingProgram) root() string {
	if d := p.segment.Draft; d != nil {
		return fmt.Sprintf("%s@%d", phaseDraft, d.Round+len(d.Wanted)+1)
	}
	return phaseDraft
}

// flow asks the model until it has written a plan that can be proposed, or wants to know
// something.
func (p *draftingProgram) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	d, err := p.takeUp(fc)
	if err != nil {
		return nil, err
	}
	data, err := p.draftData(d)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		d.Attempts++
		reply, err := p.askForPlan(fc.At(fmt.Sprintf("try#%d", d.Attempts)), data)
		if err != nil {
			return nil, draftFailure(err)
		}
		found, err := p.check(fc, d.Attempts, reply)
		if err != nil {
			return nil, draftFailure(err)
		}
		switch {
		case found.Revision != nil:
			d.Revision = found.Revision
			if p.draft.Rules >= rulesShown {
				d.Reply = beginning(reply)
			}
			fc.Emit(flow.Event{Kind: string(tipstaff.KindPlanDrafted), Body: tipstaff.PlanDrafted{
				ProgramDigest: d.Revision.ProgramDigest, IntentHash: d.Revision.IntentHash, Model: d.Model, Attempts: d.Attempts}})
			return nil, flow.Continue(flow.JSON(d))
		case found.Questions != nil:
			if d.Round++; d.Round > mostRounds {
				return nil, &plan.Failure{Reason: plan.ReasonAmbiguous, Code: plan.ReasonAmbiguous, Message: fmt.Sprintf("after %d rounds of questions the model asks again", mostRounds)}
			}
			d.Questions = found.Questions
			return nil, flow.Continue(flow.JSON(d))
		}
		data.Problems, data.Reply = nil, beginning(reply)
		for _, problem := range found.Problems {
			data.Problems = append(data.Problems, problem.Code+": "+problem.Message)
		}
		if try == mostTries {
			return nil, unusable(found.Problems)
		}
	}
}

// takeUp is how far the draft has come before this segment: its questions are put
// to the user first.
func (p *draftingProgram) takeUp(fc flow.Context) (*drafting, error) {
	if p.segment.Draft == nil {
		recalled, err := p.recall(fc)
		for _, m := range recalled {
			p.segment.Recalled = append(p.segment.Recalled, m.URI)
		}
		return &drafting{Memories: recalled, Model: p.draftsman().Settings.ModelName}, err
	}
	d := *p.segment.Draft
	if d.Questions == nil {
		return &d, nil
	}
	answers, err := p.clarify(fc, d.Round, d.Questions)
	d.Answers, d.Questions = append(slices.Clone(d.Answers), answers...), nil
	return &d, err
}

// beginning is as much of a model's answer as it is shown again.
func beginning(reply string) string {
	return strings.ToValidUTF8(reply[:min(len(reply), shownReply)], "")
}

// draftsman is the agent that drafts: there is but one before there is a plan.
func (p *draftingProgram) draftsman() settledAgent {
	return p.agents.settled[slices.Sorted(maps.Keys(p.agents.settled))[0]]
}

// unusable is the failure of a model that does not write a plan. If nothing but
// constraints stands in its way, they are why.
func unusable(problems []draftProblem) *plan.Failure {
	f := &plan.Failure{Reason: plan.ReasonPlanInvalid, Code: plan.ReasonPlanInvalid}
	if !slices.ContainsFunc(problems, func(p draftProblem) bool { return p.Code != plan.ReasonConstraint }) {
		f.Reason, f.Code = plan.ReasonConstraint, plan.ReasonConstraint
	}
	var all []string
	for _, p := range problems {
		all = append(all, p.Message)
	}
	f.Message = fmt.Sprintf("after %d tries the model's plan cannot be used: %s", mostTries, strings.Join(all, "; "))
	return f
}

// draftFailure is the end of drafting by an error of a call. Errors of the flow
// itself pass as they are.
func draftFailure(err error) error {
	var failed *flow.Error
	if !errors.As(err, &failed) {
		return err
	}
	return &plan.Failure{Reason: plan.Reason(err), Code: failed.Code, Message: failed.Message, Bound: failed.Bound}
}

// draftData is what the model is told, but for what was wrong with its answers.
func (p *draftingProgram) draftData(d *drafting) (prompts.DraftData, error) {
	own := p.skills[p.draft.Skill]
	data := prompts.DraftData{Message: p.draft.Prose, Answers: d.Answers, Skill: p.draft.Skill, Prose: own.Prose, SubSkills: own.SubSkills, Bounds: p.draft.Bounds}
	var inputs any
	if err := json.Unmarshal(p.inputs, &inputs); err != nil {
		return data, err
	}
	data.Inputs = inputs
	outputs := map[string]json.RawMessage{}
	for _, f := range own.Outputs {
		outputs[f.Name] = f.Schema
	}
	data.Outputs = outputs
	for _, uri := range own.Tools {
		d, err := p.gate.Tools.Lookup(uri)
		if err != nil {
			continue // it cannot be called: better not to name it
		}
		data.Tools = append(data.Tools, prompts.DraftTool{URI: uri, Class: string(d.Class), Description: d.Description, Schema: d.InputSchema.Raw()})
	}
	for _, m := range d.Memories {
		data.Memories = append(data.Memories, m.Text)
	}
	for _, wanted := range d.Wanted {
		data.Problems = append(data.Problems, "the user does not accept the plan and says: "+wanted)
	}
	if d.Wanted != nil {
		data.Reply = d.Reply
	}
	return data, nil
}

// memory is what is recalled of an item.
type memory struct {
	URI  string `json:"uri"`
	Text string `json:"text"`
}

func (p *draftingProgram) recall(fc flow.Context) ([]memory, error) {
	all, err := flow.Do[[]memory](fc, flow.Call{Key: "recall", Name: recallName, Class: flow.Read, Input: flow.JSON(tipstaff.RecallRequest{Skill: p.draft.Skill})})
	if err != nil {
		return nil, draftFailure(err)
	}
	return all, nil
}

// askForPlan has the agent that drafts say something about it, once, without tools.
func (p *draftingProgram) askForPlan(fc flow.Context, data prompts.DraftData) (reply string, err error) {
	message, err := p.agents.prompts.Render(prompts.Draft, data)
	if err != nil {
		return "", err
	}
	s := p.draftsman().Settings
	s.MaxSteps, s.OnLimit, s.OutputSchema, s.Router, s.Hop = 1, agent.OnLimitFail, nil, "", true
	gate := *p.gate
	gate.AllowList = nil
	in := agent.Input{Message: message, Purpose: agent.PurposeDraft}
	if p.draft.Rules < rulesKept {
		in.Purpose = agent.PurposeTurn
	}
	out, err := p.speak(fc, s, &gate, in)
	return out.Text, err
}

// check has what the model has answered looked at.
func (p *draftingProgram) check(fc flow.Context, n int, reply string) (checked, error) {
	return flow.Do[checked](fc, flow.Call{Key: fmt.Sprintf("check#%d", n), Name: checkName, Class: flow.Read, Input: flow.JSON(map[string]string{"reply": reply})})
}

// clarify puts the model's questions to the user.
func (p *draftingProgram) clarify(fc flow.Context, round int, questions json.RawMessage) ([]prompts.DraftAnswer, error) {
	gate := flow.Clarifying(round, questions)
	gate.Key = fmt.Sprintf("clarify#%d", round)
	d, err := fc.Wait(gate)
	if err != nil {
		return nil, err
	}
	if d.Action != actionAnswer {
		return nil, &declined{decision: d}
	}
	var asked []question
	var given map[string]any
	if err := errors.Join(json.Unmarshal(questions, &asked), json.Unmarshal(d.Answer, &given)); err != nil {
		return nil, err
	}
	var answers []prompts.DraftAnswer
	for _, q := range asked {
		answer, ok := given[q.ID]
		if !ok && q.Default != nil {
			_ = json.Unmarshal(q.Default, &answer) // it was read when it was asked
		}
		answers = append(answers, prompts.DraftAnswer{Question: q.Prompt, Answer: answer})
	}
	return answers, nil
}

// next turns to the questions of the model, or to the confirmation of its plan. The
// first of either makes the run proposed.
func (p *draftingProgram) next(ctx context.Context, t *transition, state json.RawMessage, cut bool) error {
	if cut {
		return errors.New("a run that has no plan yet cannot be corrected")
	}
	d := new(drafting)
	if err := json.Unmarshal(state, d); err != nil {
		return fmt.Errorf("what was drafted cannot be read: %w", err)
	}
	compiled := tipstaff.IntentCompiled{Model: d.Model, Attempts: d.Attempts}
	t.to = segment{Phase: phaseDraft, Latest: 1, Revision: p.segment.Revision, Draft: d, Recalled: t.to.Recalled}
	if next := d.Revision; next != nil {
		text, err := t.src.Blob(ctx, next.ProgramDigest)
		if err != nil {
			return fmt.Errorf("the drafted plan is not there: %w", err)
		}
		doc, err := plan.Load(text)
		if err != nil {
			return err
		}
		compiled.Intent, compiled.IntentHash, compiled.ProgramDigest = doc.Intent.JSON(), next.IntentHash, next.ProgramDigest
		next.Number = 1
		t.to = segment{Phase: phaseConfirm, Latest: 1, Revision: *next, Recalled: t.to.Recalled}
		if p.draft.Rules >= rulesShown {
			drafted := *d
			drafted.Revision, drafted.With = nil, &p.segment.Revision
			t.to.Draft = &drafted
		}
		t.keep = next.documents()
	}
	if p.segment.Draft == nil {
		t.before = []flow.Draft{{Kind: string(tipstaff.KindIntentCompiled), From: journal.Executor, Body: flow.JSON(compiled)}}
	}
	return nil
}

// documents are the blobs that a revision names, each once.
func (r *revision) documents() []string {
	all := []string{r.ProgramDigest}
	if r.SkillDigest != "" {
		all = append(all, r.SkillDigest)
	}
	all = slices.AppendSeq(all, maps.Values(r.Frozen))
	slices.Sort(all)
	return slices.Compact(all)
}

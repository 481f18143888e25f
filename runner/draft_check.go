package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
)

// draftActs are the activities of a run whose plan is being drafted.
func (r *Runner) draftActs(p *common, acts map[string]flow.Activity) {
	acts[recallName] = flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		var req tipstaff.RecallRequest
		if err := json.Unmarshal(a.Input, &req); err != nil {
			return flow.Done{}, err
		}
		items, err := Memory{r}.Recall(ctx, req)
		if err != nil {
			return flow.Done{}, err
		}
		all := []memory{}
		for _, m := range items {
			all = append(all, memory{m.Item, m.Text})
		}
		return flow.Done{Value: flow.JSON(all)}, nil
	}}
	acts[checkName] = flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		var in struct{ Reply string }
		if err := json.Unmarshal(a.Input, &in); err != nil {
			return flow.Done{}, err
		}
		found, err := r.checkDraft(ctx, p, in.Reply)
		return flow.Done{Value: flow.JSON(found)}, err
	}}
}

// checkDraft reads what a model has answered: questions, or a plan that is checked
// as one that somebody hands over, with what the run has frozen. A plan that can
// be proposed is stored.
func (r *Runner) checkDraft(ctx context.Context, p *common, reply string) (checked, error) {
	var members map[string]json.RawMessage
	text := unfenced(reply)
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return faulty("syntax", "the answer is not one JSON object: %v", err), nil
	}
	if asked, ok := members["questions"]; ok {
		if len(members) > 1 {
			return faulty("syntax", "the answer has questions and something else: answer with one of the two"), nil
		}
		return readQuestions(asked), nil
	}
	if members["intent"] == nil {
		return faulty("field_missing", "intent is missing"), nil
	}
	if members["skill"] == nil {
		members["skill"] = flow.JSON(p.draft.Skill)
	}
	made, problems, err := r.prepareDrafted(p, canonical(flow.JSON(members)))
	if err != nil || problems != nil {
		return checked{Problems: problems}, err
	}
	body, err := r.freeze(ctx, made)
	if err != nil {
		return checked{}, err
	}
	body.Asks = p.draft.Asks
	next := body.asRevision(made.text.intent().Hash())
	return checked{Revision: &next}, nil
}

func faulty(code, format string, args ...any) checked {
	return checked{Problems: []draftProblem{{code, fmt.Sprintf(format, args...)}}}
}

// unfenced is a text without the one fence of code that may be around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if _, rest, found := strings.Cut(inner, "\n"); ok && found {
		return strings.TrimSpace(rest)
	}
	return text
}

// prepareDrafted checks a drafted plan and everything it needs. The problems are
// for the model; an error is not its fault.
func (r *Runner) prepareDrafted(p *common, src []byte) (*prepared, []draftProblem, error) {
	made := &prepared{manifest: p.gate.Manifest, tools: p.gate.Tools, skills: &skillCatalog{taken: p.skills}}
	made.resolver = resolver{manifest: made.manifest, tools: made.tools, skills: made.skills, chain: chain(nil).extend(p.draft.Skill), performers: r.performers}
	doc, problems := plan.Check("plan", src, made.resolver)
	if len(problems) > 0 {
		return nil, toldOf(problems), nil
	}
	made.text = planText{doc}
	if doc.Skill != p.draft.Skill {
		return nil, faulty("skill_mismatch", "the plan is for %s, not for %s", doc.Skill, p.draft.Skill).Problems, nil
	}
	given, err := declaredInputs(doc, p.inputs)
	if err != nil {
		return nil, nil, err
	}
	if made.inputs, problems = doc.CheckInputs(given); len(problems) > 0 {
		return nil, toldOf(problems), nil
	}
	made.bounds = tipstaff.EffectiveBounds(p.draft.Bounds, tipstaff.Bounds(doc.Limits()), nil)
	if above := tipstaff.Bounds(doc.Limits()).Above(p.draft.Bounds); len(above) > 0 {
		return nil, faulty("bounds_ceiling", "bounds go beyond those of the run: %s", strings.Join(above, ", ")).Problems, nil
	}
	if blocked := r.blocked(made); len(blocked) > 0 {
		return nil, blocked, nil
	}
	for _, a := range p.agents.settled {
		made.costBound = a.Settings.CostBound
	}
	if made.live, err = r.manifest(); err != nil {
		return nil, nil, err
	}
	if err := r.settleAgents(made); err != nil {
		return nil, problemsOf(err), unlessInvalid(err)
	}
	if made.lock, err = r.lock(); err != nil {
		return nil, nil, err
	}
	if err := made.preflight("plan", r.Servers(made.manifest, r.Workspace, nil)); err != nil {
		return nil, problemsOf(err), unlessInvalid(err)
	}
	return made, nil, nil
}

func toldOf(problems []tipstaff.Problem) []draftProblem {
	var list []draftProblem
	for _, p := range problems {
		list = append(list, draftProblem{p.Code, strings.TrimPrefix(p.Path+": "+p.Message, ": ")})
	}
	return list
}

// problemsOf are those of an error about a document.
func problemsOf(err error) []draftProblem {
	e := coded(err)
	switch {
	case e == nil:
		return nil
	case len(e.Problems) > 0:
		return toldOf(e.Problems)
	}
	return []draftProblem{{string(e.Code), e.Message}}
}

// unlessInvalid is an error that has nothing to do with the document.
func unlessInvalid(err error) error {
	switch tipstaff.CodeOf(err) {
	case tipstaff.InvalidProgram, tipstaff.InvalidArgument, tipstaff.Refused:
		return nil
	}
	return err
}

// blocked are the hard constraints of the plan's own intent that it cannot keep,
// as far as that can be told beforehand: a deadline that is over, and a budget of
// money below what the plan may spend.
func (r *Runner) blocked(p *prepared) []draftProblem {
	var all []draftProblem
	for _, c := range p.text.intent().Constraints {
		switch {
		case !c.Hard:
		case c.Type == "deadline" && !c.By.IsZero() && !c.By.After(r.Now()):
			all = append(all, draftProblem{plan.ReasonConstraint, "the deadline " + c.By.Format("2006-01-02T15:04:05Z07:00") + " is over"})
		case c.Type == "budget" && strings.EqualFold(c.Max.Asset, "usd"):
			limit, err := tipstaff.ParseBound(tipstaff.BoundCostUSD, c.Max.Amount)
			if err == nil && p.bounds[tipstaff.BoundCostUSD] > limit {
				all = append(all, draftProblem{plan.ReasonConstraint, fmt.Sprintf("the budget is %s USD, but bounds.cost_usd is %s",
					c.Max.Amount, tipstaff.FormatBound(tipstaff.BoundCostUSD, p.bounds[tipstaff.BoundCostUSD]))})
			}
		}
	}
	return all
}

// Limits of what a model may ask.
const (
	mostQuestions = 10
	mostPrompt    = 2000
)

var questionTypes = []string{"text", "number", "boolean", "choice"}

// readQuestions checks what a model asks before it is put to somebody.
func readQuestions(raw json.RawMessage) checked {
	var asked []question
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&asked); err != nil {
		return faulty("field_invalid", "questions cannot be read: %v", err)
	}
	if len(asked) == 0 || len(asked) > mostQuestions {
		return faulty("range", "there are %d questions: 1 to %d can be asked", len(asked), mostQuestions)
	}
	seen := map[string]bool{}
	for i := range asked {
		q := &asked[i]
		if q.Options == nil {
			q.Options = []string{}
		}
		switch {
		case q.ID == "" || seen[q.ID]:
			return faulty("id_duplicate", "question %d needs an id of its own", i+1)
		case q.Prompt == "" || len(q.Prompt) > mostPrompt:
			return faulty("range", "the prompt of question %s has %d bytes: 1 to %d are possible", q.ID, len(q.Prompt), mostPrompt)
		case !slices.Contains(questionTypes, q.Type):
			return faulty("field_invalid", "question %s is of type %q: it is one of %s", q.ID, q.Type, strings.Join(questionTypes, ", "))
		case (q.Type == "choice") != (len(q.Options) > 0):
			return faulty("field_invalid", "question %s: options belong to a choice, and a choice needs some", q.ID)
		case q.Default != nil && !q.takes(q.Default):
			return faulty("field_invalid", "the default of question %s is no %s", q.ID, q.Type)
		}
		seen[q.ID] = true
	}
	return checked{Questions: canonical(flow.JSON(asked))}
}

// takes reports whether a value answers the question.
func (q question) takes(raw json.RawMessage) bool {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return q.Type == "text" || q.Type == "choice" && slices.Contains(q.Options, v)
	case float64:
		return q.Type == "number"
	case bool:
		return q.Type == "boolean"
	}
	return false
}

// answers checks a user's answers against the questions of a gate.
func answers(g tipstaff.Gate, given json.RawMessage) error {
	var shown struct {
		Questions []question `json:"questions"`
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(g.Subject, &shown); err != nil {
		return fmt.Errorf("gate %s: %w", g.Key, err)
	}
	if err := json.Unmarshal(given, &values); err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "the answers are an object by question").WithHint(`like {"%s": …}`, shown.Questions[0].ID)
	}
	for _, q := range shown.Questions {
		v, ok := values[q.ID]
		delete(values, q.ID)
		switch {
		case !ok && q.Required && q.Default == nil:
			return tipstaff.Errorf(tipstaff.InvalidArgument, "question %s needs an answer: %s", q.ID, q.Prompt)
		case ok && !q.takes(v):
			hint := q.Type
			if len(q.Options) > 0 {
				hint = "one of " + strings.Join(q.Options, ", ")
			}
			return tipstaff.Errorf(tipstaff.InvalidArgument, "%s does not answer question %s", v, q.ID).WithHint("it takes %s", hint)
		}
	}
	for id := range values {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "nobody asked %q", id)
	}
	return nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	promptPatience = 10 * time.Minute // then the run parks
	promptRepeats  = 3                // of a question, after an answer that made no sense
)

// prompter asks a person at the terminal about gates.
type prompter struct {
	out  io.Writer
	in   lineSource
	size func() (width, height int) // of the terminal; nil: it does not scroll
	away bool                       // the run is at a server, and goes on without whoever is asked
	view *follower                  // that steps aside while a question is open; nil: there is none
	// whole shows everything that a gate asks about; nil: it is printed.
	whole func()
}

// lineSource is where the answers of a person come from.
type lineSource interface {
	// Line waits for a line, or for ctx.
	Line(ctx context.Context) (string, error)
	// Forget drops what was typed before a question was asked.
	Forget()
}

// attended reports whether a person can see a question and type the answer.
func (a *app) attended() bool { return a.env.StdinTTY && a.env.StderrTTY }

// newPrompter is nil, so that runs are unattended, unless a person can be asked.
func (a *app) newPrompter(unattended bool) *prompter {
	if a.alone = unattended; unattended || !a.attended() {
		return nil
	}
	return a.prompterOn(tipstaff.NewLineReader(a.env.Stdin), a.err)
}

// prompterOn asks on out, and reads the answers from in.
func (a *app) prompterOn(in lineSource, out io.Writer) *prompter {
	return &prompter{out: out, in: in, size: a.env.size, away: a.server != ""}
}

// asker is p as somebody who attends a run.
func (p *prompter) asker() tipstaff.Ask {
	if p == nil {
		return nil
	}
	return p.ask
}

func (p *prompter) beside(f *follower) {
	if p != nil {
		p.view = f
	}
}

var (
	errNonsense = errors.New("no answer that makes sense")
	errPatience = errors.New("no answer in time")
)

// ask is a [tipstaff.Ask]. Only a typed and unambiguous answer decides anything:
// silence, end of input and nonsense decline, and the run parks.
func (p *prompter) ask(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
	if p.view != nil {
		p.view.leave()
		defer p.view.takeBack()
	}
	limited, cancel := context.WithTimeoutCause(ctx, promptPatience, errPatience)
	defer cancel()
	p.show(textOf(g, false))
	choice, err := p.choose(limited, g)
	if err == nil {
		choice.Refused = p.refused
		return choice, true
	}
	fmt.Fprintln(p.out, p.whyWithdrawn(limited, err))
	return tipstaff.Choice{}, false
}

// refused says why an answer was not accepted.
func (p *prompter) refused(err error) {
	if p.view != nil {
		p.view.leave()
		defer p.view.takeBack()
	}
	fmt.Fprintln(p.out, "not accepted: "+clean(err.Error()))
	var e *tipstaff.Error
	if errors.As(err, &e) && e.Advice() != "" {
		fmt.Fprintln(p.out, "hint: "+clean(e.Advice()))
	}
}

// choose asks for the action, and for what it needs. "v" shows everything, and what
// follows "because" is the reason that is recorded and told to whoever works on. Where a
// gate asks for a value, the value itself is an answer.
func (p *prompter) choose(ctx context.Context, g tipstaff.Gate) (c tipstaff.Choice, err error) {
	questions := tipstaff.QuestionsOf(g)
	if len(questions) > 0 && slices.Contains(g.Actions, "answer") {
		return p.clarify(ctx, g, questions)
	}
	for {
		c, err = insist(ctx, p, choices(g), func(s string) (tipstaff.Choice, error) { return parseChoice(s, g) })
		if err == nil && c.Action == viewAction {
			p.showWhole(g)
			continue
		}
		if files := tipstaff.AsksAgain(g, c.Action); err == nil && len(files) > 0 {
			if c.Answer, err = p.askAgain(ctx, c.Action, files); err == nil && c.Answer == nil {
				continue
			}
		}
		break
	}
	switch {
	case err != nil || !tipstaff.NeedsAnswer(g, c.Action) || c.Answer != nil:
	case c.Action == "extend":
		c.Answer, err = insist(ctx, p, "by how much, as "+tipstaff.AmountForm(tipstaff.BoundOf(g))+": ",
			func(s string) (json.RawMessage, error) { return parseAmount(s, g) })
	case c.Action == "answer":
		c.Answer, err = insist(ctx, p, "answer: ", parseWords)
	case c.Action == "modify":
		c.Answer, err = insist(ctx, p, "data, as a JSON object: ", parseData)
	default:
		c.Answer, err = insist(ctx, p, "answer, as JSON: ", parseAnswer)
	}
	if err == nil && tipstaff.NeedsFeedback(c.Action) {
		c.Feedback, err = insist(ctx, p, "feedback: ", parseFeedback)
	}
	return c, err
}

// showWhole shows everything that a gate asks about.
func (p *prompter) showWhole(g tipstaff.Gate) {
	if p.whole != nil {
		p.whole()
		return
	}
	p.show(textOf(g, true))
}

func (p *prompter) show(t gateText) {
	width, height := unlimited, unlimited
	if p.size != nil {
		width, height = p.size()
	}
	io.WriteString(p.out, t.prose(width, height))
}

// parseChoice reads an action with its reason, or the value that a gate asks for.
func parseChoice(s string, g tipstaff.Gate) (c tipstaff.Choice, err error) {
	action, note, _ := strings.Cut(s, " because ")
	exact := slices.Contains(g.Actions, strings.TrimSpace(action))
	switch {
	case tipstaff.AsksForText(g) && s != "" && s != viewAction && !exact:
		c.Action = "answer"
		c.Answer, err = parseWords(s)
	case g.Kind == tipstaff.Bound && strings.ContainsAny(s, "0123456789"):
		c.Action = "extend"
		c.Answer, err = parseAmount(strings.TrimSpace(strings.TrimPrefix(s, "extend")), g)
	default:
		c.Note = strings.TrimSpace(note)
		c.Action, err = matchAction(strings.TrimSpace(action), g)
	}
	return c, err
}

// choices is what can be typed.
func choices(g tipstaff.Gate) string {
	whole := tipstaff.Subject(g).Whole
	if g.Kind == tipstaff.Approval {
		text := "allow? y: yes, n [because …]: no"
		if slices.Contains(g.Actions, "allow_all") {
			text += ", a: yes, and all like it in this turn"
		}
		if !whole {
			text += ", v: view everything"
		}
		return text + ": "
	}
	text := strings.Join(g.Available(), ", ")
	switch {
	case tipstaff.AsksForText(g):
		text = "your answer, or " + strings.Join(without(g.Actions, "answer"), ", ")
	case g.Kind == tipstaff.Bound && slices.Contains(g.Actions, "extend"):
		text = "extend by " + tipstaff.AmountForm(tipstaff.BoundOf(g)) + ", or " + strings.Join(without(g.Actions, "extend"), ", ")
	}
	if !whole {
		text += ", or v to view everything"
	}
	return text + "? "
}

// without is a list without one of its items.
func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

// viewAction asks to see everything.
const viewAction = "v"

// approvalKeys are what people type about a call.
var approvalKeys = map[string]string{"y": "allow", "yes": "allow", "n": "deny", "no": "deny", "a": "allow_all"}

// matchAction is match, with v, which shows everything, and the keys of approvals.
func matchAction(s string, g tipstaff.Gate) (string, error) {
	key := strings.ToLower(s)
	if key == viewAction || key == "view" {
		return viewAction, nil
	}
	if action := approvalKeys[key]; g.Kind == tipstaff.Approval && slices.Contains(g.Actions, action) {
		return action, nil
	}
	return match(s, g.Actions)
}

// whyWithdrawn says why a question is no longer asked.
func (p *prompter) whyWithdrawn(ctx context.Context, err error) string {
	var (
		sig   *SignalError
		other *tipstaff.AnsweredElsewhere
	)
	switch {
	case errors.As(context.Cause(ctx), &other):
		return "\nno longer asked: " + clean(other.Error())
	case errors.As(context.Cause(ctx), &sig) && p.away:
		return "\nno longer asked"
	case errors.As(context.Cause(ctx), &sig):
		return "\nno longer asked: the run is being stopped"
	case errors.Is(err, errPatience):
		return "\nno answer in " + human(promptPatience) + ": the run parks"
	case ctx.Err() != nil:
		return "\nno longer asked: someone else answered, or the run has stopped"
	case errors.Is(err, io.EOF):
		return "\nno answer: the run parks"
	}
	return "no answer that makes sense: the run parks"
}

// insist asks until parse is content, a few times over. Nothing that was typed before
// the prompt answers it.
func insist[T any](ctx context.Context, p *prompter, prompt string, parse func(string) (T, error)) (T, error) {
	var none T
	for range 1 + promptRepeats {
		p.in.Forget()
		io.WriteString(p.out, clean(prompt))
		text, err := p.in.Line(ctx)
		if err != nil {
			return none, err
		}
		v, err := parse(strings.TrimSpace(text))
		if err == nil {
			return v, nil
		}
		fmt.Fprintln(p.out, clean(err.Error()))
	}
	return none, errNonsense
}

// match finds the action that s names in full or by a unique beginning.
func match(s string, actions []string) (string, error) {
	var found []string
	for _, a := range actions {
		if a == s {
			return a, nil
		}
		if s != "" && strings.HasPrefix(a, s) {
			found = append(found, a)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case s == "":
		return "", errors.New("please type one of the actions")
	case len(found) > 1:
		return "", fmt.Errorf("%q could be %s", s, strings.Join(found, " or "))
	}
	return "", fmt.Errorf("%q is none of the actions", s)
}

func parseAnswer(s string) (json.RawMessage, error) {
	if !json.Valid([]byte(s)) {
		return nil, errors.New(`this is not JSON; text stands in quotes: "like this"`)
	}
	return json.RawMessage(s), nil
}

// askAgain names the files that an action changes and that runs and programs obey. No answer
// means that the action is not taken.
func (p *prompter) askAgain(ctx context.Context, action string, files []string) (json.RawMessage, error) {
	fmt.Fprintf(p.out, "%s changes what runs and programs obey here:\n", clean(action))
	for _, name := range files {
		fmt.Fprintln(p.out, "  "+clean(name))
	}
	return insist(ctx, p, "change these, too? yes or no: ", func(s string) (json.RawMessage, error) {
		switch strings.ToLower(s) {
		case "y", "yes":
			return tipstaff.AcceptObeyed(), nil
		case "n", "no":
			return nil, nil
		}
		return nil, fmt.Errorf("%q is neither yes nor no", s)
	})
}

func parseFeedback(s string) (string, error) {
	if s == "" {
		return "", errors.New("this action needs some words")
	}
	return s, nil
}

func indented(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
	return b.String()
}

// parseClarified reads an answer to q as people type it; nil: it was left out.
func parseClarified(q tipstaff.ClarifyQuestion, s string) (json.RawMessage, error) {
	switch {
	case s == "" && q.HasDefault():
		return q.Default, nil
	case s == "" && !q.Required:
		return nil, nil
	case s == "":
		return nil, errNeeded
	case q.Type == "number":
		if _, err := strconv.ParseFloat(s, 64); err != nil || !json.Valid([]byte(s)) {
			return nil, fmt.Errorf("%q is not a number like 3, -1 or 0.5", s)
		}
		return json.RawMessage(s), nil
	case q.Type == "boolean":
		switch strings.ToLower(s) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, fmt.Errorf("%q is neither yes nor no", s)
	case len(q.Options) > 0: // by name, by a unique beginning, or by its place
		option, err := match(s, q.Options)
		if n, nan := strconv.Atoi(s); err != nil && nan == nil && n >= 1 && n <= len(q.Options) {
			option, err = q.Options[n-1], nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: there are %s", strings.Replace(err.Error(), "actions", "answers", 1), strings.Join(q.Options, ", "))
		}
		return jsonOf(option), nil
	}
	return jsonOf(s), nil
}

var errNeeded = errors.New("an answer is needed")

// clarify asks the questions one after another, and gives the answers as one object. The
// name of another action decides for that.
func (p *prompter) clarify(ctx context.Context, g tipstaff.Gate, questions []tipstaff.ClarifyQuestion) (tipstaff.Choice, error) {
	others := without(g.Actions, "answer")
	fmt.Fprintf(p.out, "answer, or type %s\n", clean(strings.Join(others, " or ")))
	var members []string
	for i, q := range questions {
		instead := ""
		answer, err := insist(ctx, p, fmt.Sprintf("%d/%d  %s: ", i+1, len(questions), q.Text()), func(s string) (json.RawMessage, error) {
			switch {
			case slices.Contains(q.Options, s):
			case s == "answer":
				return nil, errors.New("please type the answer itself")
			case slices.Contains(others, s):
				instead = s
				return nil, nil
			}
			return parseClarified(q, s)
		})
		switch {
		case instead != "":
			return tipstaff.Choice{Action: instead}, nil
		case err != nil:
			return tipstaff.Choice{}, err
		case answer != nil:
			members = append(members, string(jsonOf(q.ID))+":"+string(answer))
		}
	}
	return tipstaff.Choice{Action: "answer", Answer: json.RawMessage("{" + strings.Join(members, ",") + "}")}, nil
}

// parseAmount reads by how much a bound is extended.
func parseAmount(s string, g tipstaff.Gate) (json.RawMessage, error) {
	if object := json.RawMessage(s); strings.HasPrefix(s, "{") && json.Valid(object) {
		return object, nil
	}
	if _, err := tipstaff.ParseAmount(tipstaff.BoundOf(g), s); err != nil {
		return nil, err
	}
	return tipstaff.TypedValue(s), nil
}

// parseWords takes JSON for what it is, and everything else for a text.
func parseWords(s string) (json.RawMessage, error) {
	if s == "" {
		return nil, errNeeded
	}
	return tipstaff.TypedValue(s), nil
}

// parseData reads the data that a modified approval carries: an object, as stages see
// it.
func parseData(s string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &object) != nil || object == nil {
		return nil, errors.New(`this is no JSON object, like {"limit": 3}`)
	}
	return json.RawMessage(s), nil
}

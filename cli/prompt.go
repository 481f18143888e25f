package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
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
	stop context.Context // ends when the process is asked to stop, or the run rests
	end  context.CancelFunc

	away bool // the run is at a server, and goes on without whoever is asked

	turn sync.Mutex // one question at a time
	mu   sync.Mutex
	view *follower // nil until there is one
}

// newPrompter is nil, so that runs are unattended, unless a person can see the
// question and type the answer.
func (a *app) newPrompter(ctx context.Context, unattended bool) *prompter {
	if unattended || !a.env.StdinTTY || !a.env.StderrTTY {
		return nil
	}
	p := &prompter{out: a.err, in: tipstaff.NewLineReader(a.env.Stdin), away: a.server != ""}
	p.stop, p.end = context.WithCancel(ctx)
	return p
}

// close takes back a question that is still open, and waits until the terminal
// is free again.
func (p *prompter) close() {
	if p == nil {
		return
	}
	p.end()
	p.turn.Lock()
	defer p.turn.Unlock()
}

// asker is p as somebody who attends a run.
func (p *prompter) asker() tipstaff.Ask {
	if p == nil {
		return nil
	}
	return p.ask
}

// beside names the live view that steps aside while a question is open. A run
// may ask before its view exists.
func (p *prompter) beside(f *follower) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view = f
}

func (p *prompter) follower() *follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

var (
	errNonsense = errors.New("no answer that makes sense")
	errPatience = errors.New("no answer in time")
)

// ask is a [tipstaff.Ask]. Only a typed and unambiguous answer decides anything:
// silence, end of input and nonsense decline, and the run parks.
func (p *prompter) ask(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if view := p.follower(); view != nil {
		view.leave()
		defer view.unsuspend()
	}
	limited, cancel := context.WithTimeoutCause(ctx, promptPatience, errPatience)
	defer cancel()
	defer context.AfterFunc(p.stop, cancel)()
	io.WriteString(p.out, gateText(g))
	choice, err := p.choose(limited, g)
	if err == nil {
		return choice, true
	}
	fmt.Fprintln(p.out, p.farewell(limited, err))
	return tipstaff.Choice{}, false
}

// choose asks for the action, and for what it needs. "v" shows everything, and what
// follows "because" is the reason that is recorded and told to whoever works on.
func (p *prompter) choose(ctx context.Context, g tipstaff.Gate) (c tipstaff.Choice, err error) {
	for {
		c.Action, err = insist(ctx, p, choices(g), func(s string) (string, error) {
			s, c.Note, _ = strings.Cut(s, " because ")
			c.Note = strings.TrimSpace(c.Note)
			return matchAction(strings.TrimSpace(s), g)
		})
		if err != nil || c.Action != viewAction {
			break
		}
		io.WriteString(p.out, indented(tipstaff.WholeSubject(g).Lines))
	}
	if questions := questionsOf(g); err == nil && c.Action == "answer" && len(questions) > 0 {
		c.Answer, err = p.clarify(ctx, questions)
	} else if err == nil && needsAnswer(c.Action) {
		c.Answer, err = p.answer(ctx, g, c.Action)
	}
	if err == nil && needsFeedback(c.Action) {
		c.Feedback, err = insist(ctx, p, "feedback: ", parseFeedback)
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
	text := strings.Join(g.Actions, ", ")
	if !whole {
		text += ", or v to view everything"
	}
	return text + "? "
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

// answer asks for the value of an action.
func (p *prompter) answer(ctx context.Context, g tipstaff.Gate, action string) (json.RawMessage, error) {
	switch {
	case asksForText(g):
		return insist(ctx, p, "answer: ", parseWords)
	case action == "modify":
		return insist(ctx, p, "data, as a JSON object: ", parseData)
	}
	return insist(ctx, p, "answer, as JSON: ", parseAnswer)
}

// farewell says why a question is no longer asked.
func (p *prompter) farewell(ctx context.Context, err error) string {
	var sig *SignalError
	switch {
	case errors.As(context.Cause(p.stop), &sig) && p.away:
		return "\nno longer asked"
	case errors.As(context.Cause(p.stop), &sig):
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

func parseFeedback(s string) (string, error) {
	if s == "" {
		return "", errors.New("this action needs some words")
	}
	return s, nil
}

// gateText shows what is decided, and the digest that the decision binds to.
func gateText(g tipstaff.Gate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (%s) asks: %s\n", clean(g.Path), clean(string(g.Kind)), clean(g.Question))
	b.WriteString(indented(tipstaff.Subject(g).Lines))
	if g.Digest != "" {
		fmt.Fprintf(&b, "digest: %s\n", clean(g.Digest))
	}
	if !g.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, "expires: %s\n", g.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func indented(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
	return b.String()
}

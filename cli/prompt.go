package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	promptPatience = 10 * time.Minute // then the run parks
	promptRepeats  = 3                // of a question, after an answer that made no sense
	subjectShown   = 4 << 10          // bytes
)

// prompter asks a person at the terminal about gates.
type prompter struct {
	out  io.Writer
	in   lineSource
	stop context.Context // ends when the process is asked to stop, or the run rests
	end  context.CancelFunc

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
	p := &prompter{out: a.err, in: tipstaff.NewLineReader(a.env.Stdin)}
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

// asker is p as a Service wants it.
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
		view.suspend()
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

func (p *prompter) choose(ctx context.Context, g tipstaff.Gate) (c tipstaff.Choice, err error) {
	c.Action, err = insist(ctx, p, strings.Join(g.Actions, ", ")+"? ", func(s string) (string, error) {
		return match(s, g.Actions)
	})
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

// gateText shows what is decided: all of it that fits, exactly as it will be
// recorded, and the digest that the decision binds to.
func gateText(g tipstaff.Gate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (%s) asks: %s\n", clean(g.Path), clean(string(g.Kind)), clean(g.Question))
	for _, l := range gateSubject(g) {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if g.Digest != "" {
		fmt.Fprintf(&b, "digest: %s\n", clean(g.Digest))
	}
	if !g.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, "expires: %s\n", g.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func subjectLines(subject json.RawMessage) []string {
	if len(subject) == 0 || string(subject) == "null" {
		return nil
	}
	text := string(subject)
	var indented bytes.Buffer
	if json.Indent(&indented, subject, "", "  ") == nil {
		text = indented.String()
	}
	lines := cleanLines(cut(text, subjectShown))
	if left := len(text) - len(cut(text, subjectShown)); left > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more; show --json has all", plural(left, "byte")))
	}
	return lines
}

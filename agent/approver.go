package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Decision is an approver's answer. Its zero value denies.
type Decision int

const (
	Deny     Decision = iota
	Allow             // this call
	AllowAll          // and do not ask again this turn for the same tool, class and findings
)

// Approver answers approval gates for the library form and for chat.
type Approver interface {
	Approve(ctx context.Context, r ToolCallRequest) (Decision, error)
}

// Action is the decision as an action of an approval gate.
func (d Decision) Action() string {
	switch d {
	case Allow:
		return ActionAllow
	case AllowAll:
		return ActionAllowAll
	}
	return ActionDeny
}

// AutoAllow trusts what tools declare of themselves: it allows what only reads, and
// what says that it destroys nothing. The rest goes to Fallback.
type AutoAllow struct {
	Fallback Approver // nil: the rest is denied
}

func (a AutoAllow) Approve(ctx context.Context, r ToolCallRequest) (Decision, error) {
	switch {
	case r.Effect == flow.Read || r.Effect != "" && !r.Destructive:
		return Allow, nil
	case a.Fallback != nil:
		return a.Fallback.Approve(ctx, r)
	}
	return Deny, nil
}

// FromPolicy gives the verdict of a policy. What the policy asks about goes to Ask.
type FromPolicy struct {
	Policy *policy.Policy // nil: everything is denied
	Ask    Approver       // nil: what the policy asks about is denied
}

func (f FromPolicy) Approve(ctx context.Context, r ToolCallRequest) (Decision, error) {
	call := policy.Call{Server: r.Server, Tool: r.Tool, URI: r.URI, Class: r.Effect, Args: r.Arguments, Facts: r.Facts,
		Destructive: r.Destructive, OpenWorld: r.OpenWorld, Turn: policy.Turn{Untrusted: r.Untrusted, Step: r.Step}}
	if found := f.Policy.Inspect(call); len(found) > 0 { // it has guards of its own
		if _, refused := found.Refused(); refused {
			return Deny, nil
		}
		call.Facts = found.Seen()
		if found.Writes() {
			call.Class, call.Destructive = flow.Once, true
		}
	}
	switch do := f.Policy.Decide(call).Do; {
	case do == policy.Allow:
		return Allow, nil
	case do == policy.Ask && f.Ask != nil:
		return f.Ask.Approve(ctx, r)
	}
	return Deny, nil
}

// Interactive asks a person at a terminal. One question is asked at a time.
type Interactive struct {
	In  io.Reader // a [tipstaff.Typed] is emptied before each question: nothing typed ahead answers it
	Out io.Writer
	TTY bool // somebody reads Out and types into In; false: every call is denied

	turn  sync.Mutex
	lines *tipstaff.LineReader // nil until a question is asked
}

// answers is how often a person is asked about one call.
const answers = 3

// Approve shows the call and waits for y, n or a. When ctx ends it returns at once,
// although the read from In cannot be taken back: the next question takes it over.
func (i *Interactive) Approve(ctx context.Context, r ToolCallRequest) (Decision, error) {
	if !i.TTY {
		return Deny, i.say("%s/%s is denied: there is no terminal at which to ask\n", r.Server, r.Tool)
	}
	i.turn.Lock()
	defer i.turn.Unlock()
	if i.lines == nil {
		i.lines = tipstaff.NewLineReader(i.In)
	}
	if _, err := io.WriteString(i.Out, shown(r)); err != nil {
		return Deny, err // nobody allows what nobody was shown
	}
	for range answers {
		i.lines.Forget()
		if err := i.say("allow? y: yes, n: no, a: yes, and all like it in this turn: "); err != nil {
			return Deny, err
		}
		text, err := i.lines.Line(ctx)
		if err != nil {
			return Deny, i.leave(ctx, err)
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y":
			return Allow, nil
		case "a":
			return AllowAll, nil
		case "n":
			return Deny, nil
		}
	}
	return Deny, i.say("no answer that makes sense: denied\n")
}

// leave says why nobody is asked any more. That input has ended is a denial, and
// everything else an error.
func (i *Interactive) leave(ctx context.Context, err error) error {
	var other *tipstaff.AnsweredElsewhere
	switch {
	case errors.As(err, &other):
		return errors.Join(err, i.say("\n%v\n", other))
	case ctx.Err() != nil:
		return errors.Join(err, i.say("\nno longer asked\n"))
	case errors.Is(err, io.EOF):
		return i.say("\nno answer: denied\n")
	}
	return err
}

func (i *Interactive) say(format string, args ...any) error {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for n, l := range lines {
		lines[n] = tipstaff.Printable(l)
	}
	_, err := io.WriteString(i.Out, strings.Join(lines, "\n"))
	return err
}

// shown is a call for the eyes of a person, as every surface shows it.
func shown(r ToolCallRequest) string {
	subject := flow.JSON(map[string]any{"uri": r.URI, "class": r.Effect, "hints": map[string]bool{"destructive": r.Destructive, "open_world": r.OpenWorld},
		"args": flow.JSON(r.Arguments), "args_digest": r.ArgsDigest, "facts": flow.JSON(r.Facts), "rule": r.Rule})
	var b strings.Builder
	fmt.Fprintf(&b, "\nthe model wants to call %s/%s\n", tipstaff.Printable(r.Server), tipstaff.Printable(r.Tool))
	for _, l := range tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Approval, Subject: subject}).Lines {
		b.WriteString("  " + l + "\n")
	}
	return b.String()
}

// RequestOf is the call that an approval gate is about, as approvers are shown it.
// How the model calls it the gate does not know; nor whether the turn has read
// anything untrusted, so it is taken to have.
func RequestOf(g tipstaff.Gate) (ToolCallRequest, error) {
	if g.Kind != tipstaff.Approval {
		return ToolCallRequest{}, fmt.Errorf("agent: gate %s is of kind %s: it is not about a call", g.Key, g.Kind)
	}
	var s struct {
		URI   string     `json:"uri"`
		Class flow.Class `json:"class"`
		Hints struct {
			Destructive *bool `json:"destructive"`
			OpenWorld   *bool `json:"open_world"`
		} `json:"hints"`
		Args       json.RawMessage `json:"args"`
		ArgsDigest string          `json:"args_digest"`
		Facts      json.RawMessage `json:"facts"`
		Rule       string          `json:"rule"`
	}
	err := json.Unmarshal(g.Subject, &s)
	var u tipstaff.ToolURI
	if err == nil {
		u, err = tipstaff.ParseToolURI(s.URI)
	}
	if err != nil {
		return ToolCallRequest{}, fmt.Errorf("agent: what gate %s is about cannot be read: %w", g.Key, err)
	}
	return ToolCallRequest{Server: u.Server, Tool: u.Tool, URI: s.URI, Effect: s.Class,
		Destructive: orTrue(s.Hints.Destructive), OpenWorld: orTrue(s.Hints.OpenWorld),
		Arguments: s.Args, ArgsDigest: s.ArgsDigest, Facts: s.Facts, Rule: s.Rule, Untrusted: true}, nil
}

// orTrue: what is not said is taken for the worse.
func orTrue(b *bool) bool { return b == nil || *b }

// Asker has an approver answer the approval gates of a run; via is how its answers
// are recorded. Other gates, and what it fails at, it leaves to others.
func Asker(a Approver, via string) tipstaff.Ask {
	return func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		r, err := RequestOf(g)
		if err != nil {
			return tipstaff.Choice{}, false
		}
		d, err := a.Approve(ctx, r)
		if d == AllowAll && !slices.Contains(g.Actions, ActionAllowAll) { // a plan's own call stands alone
			d = Allow
		}
		return tipstaff.Choice{Via: via, Action: d.Action()}, err == nil
	}
}

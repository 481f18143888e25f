package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// prompt is the loop at a terminal: a text, a turn, and again.
func (o *chatOptions) prompt(ctx context.Context) error {
	if o.json {
		return &usageError{message: "--json needs a message", hint: "events of several turns would run into each other: give MESSAGE, or standard input"}
	}
	c, err := o.newConversation(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	c.leave = func() { leave(errLeft) }
	l := &chatLoop{conversation: c}
	defer l.open()()
	c.asks(ctx, l.lines, l.out)
	err = l.run(ctx)
	c.sayHow()
	if errors.Is(err, errLeft) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// errLeft ends the loop because the person wants to go.
var errLeft = errors.New("the person has left")

// chatLoop is the prompt with what it reads from.
type chatLoop struct {
	*conversation
	lines lineSource // for answers to gates
	out   io.Writer  // for questions
	next  func(context.Context) (string, error)
}

const chatPrompt = "› "

// open prepares the terminal: with an editor where that can be had, else with
// lines as the terminal gives them.
func (l *chatLoop) open() (restore func()) {
	cooked := tipstaff.NewLineReader(l.env.Stdin)
	l.lines, l.out = cooked, l.err
	l.next = func(ctx context.Context) (string, error) {
		io.WriteString(l.err, chatPrompt)
		text, err := cooked.Line(ctx)
		return strings.TrimRight(text, "\r\n"), err
	}
	if l.env.Raw == nil || l.env.getenv("TERM") == "dumb" {
		return func() {}
	}
	cook, err := l.env.Raw()
	if err != nil {
		return func() {}
	}
	history, err := openHistory(l.env.historyFile())
	if err != nil {
		fmt.Fprintln(l.err, "what was typed before is not at hand: "+clean(err.Error()))
	}
	t := l.newConsole(chatPrompt, history, commandNames())
	t.interrupt = func() {
		if !l.interrupted() && l.env.Interrupt != nil {
			l.env.Interrupt()
		}
	}
	l.lines, l.out, l.next, l.ahead, l.tells = t, t, t.next, t.ahead, t.say
	go t.listen(l.env.Stdin)
	return func() {
		t.close()
		cook()
	}
}

func (l *chatLoop) run(ctx context.Context) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	l.tells(line{say(dim, "/help tells what can be typed here")}.text(l.env.colored(true)))
	for {
		text, err := l.next(ctx)
		var lost *notKept
		switch {
		case errors.As(err, &lost):
			l.tells(clean(lost.Error()))
		case err != nil:
			return err
		}
		if err := l.handle(ctx, strings.TrimSpace(text)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// settle finds out, before anything is typed, whether a turn could be taken, and
// finishes the one that the session still has under way.
func (l *chatLoop) settle(ctx context.Context) error {
	probe := l.turn("?")
	_, err := startOrPin(ctx, l.app, l.prompts, func() (tipstaff.Validated, error) {
		return l.svc.Validate(ctx, tipstaff.ValidateRequest{Start: &probe})
	})
	busy := busyWith(err)
	if busy == nil {
		return err
	}
	wanted, over := l.begin(ctx)
	defer over()
	_, err = l.goOn(ctx, wanted, busy)
	return err
}

// handle does what was typed. What goes wrong with a turn is told, and the prompt
// comes back.
func (l *chatLoop) handle(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	var err error
	if strings.HasPrefix(text, "/") {
		err = l.command(ctx, text)
	} else {
		_, err = l.say(ctx, text)
	}
	if err == nil || errors.Is(err, errLeft) || ctx.Err() != nil {
		return err
	}
	l.report(err)
	return nil
}

// chatCommand is something that is typed in place of a message.
type chatCommand struct {
	name, argument, does string
	run                  func(*chatLoop, context.Context, string) error
}

func chatCommands() []chatCommand {
	return []chatCommand{
		{"/help", "", "tells what can be typed here", (*chatLoop).help},
		{"/new", "", "begins a new session", (*chatLoop).renew},
		{"/session", "[ID]", "names the session, or goes on with another", (*chatLoop).switchSession},
		{"/tools", "", "lists the tools that tipstaff.yaml declares", (*chatLoop).listTools},
		{"/run", "", "names the run of the last turn", (*chatLoop).showRun},
		{"/quit", "", "leaves", func(*chatLoop, context.Context, string) error { return errLeft }},
	}
}

func commandNames() (names []string) {
	for _, c := range chatCommands() {
		names = append(names, c.name)
	}
	return names
}

func (l *chatLoop) command(ctx context.Context, text string) error {
	name, argument, _ := strings.Cut(text, " ")
	i := slices.IndexFunc(chatCommands(), func(c chatCommand) bool { return c.name == name })
	if i < 0 {
		return &usageError{message: fmt.Sprintf("there is no %s here", name), hint: "/help lists what there is; a blank before it makes it a message"}
	}
	c := chatCommands()[i]
	argument = strings.TrimSpace(argument)
	if argument != "" && c.argument == "" {
		return &usageError{message: fmt.Sprintf("%s takes nothing after it", name)}
	}
	return c.run(l, ctx, argument)
}

func (l *chatLoop) help(context.Context, string) error {
	for _, c := range chatCommands() {
		fmt.Fprintf(l.err, "%-14s  %s\n", strings.TrimSpace(c.name+" "+c.argument), c.does)
	}
	fmt.Fprint(l.err, `
Everything else is a message. A line that ends in \ goes on in the next; so does
Alt-Enter, and what is pasted keeps its lines. Up and Ctrl-R find earlier texts.
Ctrl-C cancels a turn; twice, or Ctrl-D, leaves.
`)
	return nil
}

func (l *chatLoop) renew(context.Context, string) error {
	l.session = ""
	l.tells("the next message begins a new session")
	return nil
}

func (l *chatLoop) switchSession(ctx context.Context, id string) error {
	switch {
	case id == "" && l.session == "":
		l.tells("there is no session yet: the next message begins one")
		return nil
	case id == "":
		l.tells(l.session + "\nto go on with it later:\n  " + l.invocation("chat", "--session", l.session))
		return nil
	}
	former := l.session
	l.session = id
	if err := l.settle(ctx); err != nil {
		l.session = former
		return err
	}
	return nil
}

func (l *chatLoop) listTools(ctx context.Context, _ string) error {
	tools, err := l.app.tools()
	if err != nil {
		return err
	}
	list, err := tools.List(ctx)
	if err != nil {
		return err
	}
	printTools(l.err, list, l.env.colored(l.env.StderrTTY))
	return nil
}

func (l *chatLoop) showRun(context.Context, string) error {
	if l.last.IsZero() {
		l.tells("no turn was taken yet")
		return nil
	}
	id := l.last.String()
	l.tells(id + "\n  " + l.invocation("show", id) + "\n  " + l.invocation("verify", id))
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// errLeft ends the loop because the person wants to go.
var errLeft = errors.New("the person has left")

const chatPrompt = "› "

// prompt is the loop at a terminal: a text, a turn, and again.
func (o *chatOptions) prompt(ctx context.Context) error {
	if o.json {
		return &usageError{message: "--json needs a message", hint: "events of several turns would run into each other: give MESSAGE, or standard input"}
	}
	c, err := o.newConversation(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	c.leave = func() { leave(errLeft) }
	defer c.openPrompt()()
	err = c.loop(ctx)
	c.sayHow()
	if errors.Is(err, errLeft) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// openPrompt prepares the terminal: with an editor where that can be had, else with
// lines as the terminal gives them.
func (c *conversation) openPrompt() (restore func()) {
	var cook func()
	err := errors.ErrUnsupported
	if c.env.Raw != nil && c.env.getenv("TERM") != "dumb" {
		cook, err = c.env.Raw()
	}
	if err != nil {
		lines := tipstaff.NewLineReader(c.env.Stdin)
		c.asks(lines, c.err)
		c.next = func(ctx context.Context) (string, error) {
			io.WriteString(c.err, chatPrompt)
			text, err := lines.Line(ctx)
			return strings.TrimRight(text, "\r\n"), err
		}
		return func() {}
	}
	history, err := openHistory(c.env.History)
	if err != nil {
		fmt.Fprintln(c.err, "what was typed before is not at hand: "+clean(err.Error()))
	}
	var names []string
	for _, command := range chatCommands() {
		names = append(names, command.name)
	}
	t := c.newConsole(chatPrompt, history, names)
	t.interrupt = func() {
		if !c.interrupted() && c.env.Interrupt != nil {
			c.env.Interrupt()
		}
	}
	c.asks(t, t)
	c.next, c.ahead, c.tells = t.next, t.ahead, t.say
	go t.listen(c.env.Stdin)
	return func() {
		t.close()
		cook()
	}
}

func (c *conversation) loop(ctx context.Context) error {
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.tells(line{say(dim, "/help tells what can be typed here")}.text(c.env.colored(true)))
	for {
		text, err := c.next(ctx)
		if err == nil {
			err = c.handle(ctx, strings.TrimSpace(text))
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// settle finds out, before anything is typed, whether a turn could be taken, and
// finishes the one that the session still has under way.
func (c *conversation) settle(ctx context.Context) error {
	v, err := startOrPin(ctx, c.app, c.prompts, func() (tipstaff.Validated, error) {
		return c.svc.Validate(ctx, tipstaff.ValidateRequest{Start: c.probe()})
	})
	busy := busyWith(err)
	if err != nil && busy == nil {
		return err
	}
	if busy != nil {
		if run, err := c.svc.Get(ctx, busy.Run); err == nil {
			v.Turn = run.Turn
		}
	}
	c.introduce(v.Turn, v.Warnings)
	if c.session != "" {
		if err := c.recall(ctx); err != nil {
			return err
		}
	}
	if busy == nil {
		return nil
	}
	wanted, over := c.begin(ctx)
	defer over()
	_, err = c.goOn(ctx, wanted, busy)
	return err
}

// handle does what was typed. What goes wrong with a turn is told, and the prompt
// comes back.
func (c *conversation) handle(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	var err error
	if strings.HasPrefix(text, "/") {
		err = c.command(ctx, text)
	} else {
		_, err = c.say(ctx, text)
	}
	if err == nil || errors.Is(err, errLeft) || ctx.Err() != nil {
		return err
	}
	if !reported(err) {
		c.report(err)
	}
	return nil
}

// chatCommand is something that is typed in place of a message.
type chatCommand struct {
	name, argument, does string
	run                  func(*conversation, context.Context, string) error
}

func chatCommands() []chatCommand {
	return []chatCommand{
		{"/help", "", "tells what can be typed here", (*conversation).help},
		{"/new", "", "begins a new session", (*conversation).renew},
		{"/session", "[ID]", "names the session, or goes on with another", (*conversation).switchSession},
		{"/tools", "", "lists the tools that the agent has", (*conversation).listTools},
		{"/run", "", "names the run of the last turn", (*conversation).showRun},
		{"/quit", "", "leaves", func(*conversation, context.Context, string) error { return errLeft }},
	}
}

func (c *conversation) command(ctx context.Context, text string) error {
	name, argument, _ := strings.Cut(text, " ")
	argument = strings.TrimSpace(argument)
	for _, command := range chatCommands() {
		switch {
		case command.name != name:
		case argument != "" && command.argument == "":
			return &usageError{message: fmt.Sprintf("%s takes nothing after it", name)}
		default:
			return command.run(c, ctx, argument)
		}
	}
	return &usageError{message: fmt.Sprintf("there is no %s here", name), hint: "/help lists what there is; a blank before it makes it a message"}
}

func (c *conversation) help(context.Context, string) error {
	for _, command := range chatCommands() {
		fmt.Fprintf(c.err, "%-14s  %s\n", strings.TrimSpace(command.name+" "+command.argument), command.does)
	}
	fmt.Fprint(c.err, `
Everything else is a message. A line that ends in \ goes on in the next; so does
Alt-Enter, and what is pasted keeps its lines. Up and Ctrl-R find earlier texts.
Ctrl-C cancels a turn; twice, or Ctrl-D, leaves.
`)
	return nil
}

func (c *conversation) renew(context.Context, string) error {
	c.session, c.former = "", ""
	c.tells("the next message begins a new session")
	return nil
}

func (c *conversation) switchSession(ctx context.Context, id string) error {
	former := c.session
	switch {
	case id != "":
		agent := c.former
		err := c.switchTo(ctx, id)
		if err == nil {
			err = c.settle(ctx)
		}
		if err != nil {
			c.session, c.former = former, agent
		}
		return err
	case former == "":
		c.tells("there is no session yet: the next message begins one")
	default:
		c.tells(former + "\nto go on with it later:\n  " + c.invocation("chat", "--session", former))
	}
	return nil
}

func (c *conversation) listTools(ctx context.Context, _ string) error {
	v, err := c.svc.Validate(ctx, tipstaff.ValidateRequest{Start: c.probe()})
	if err == nil && len(v.Tools) == 0 {
		c.tells("the agent has no tools")
		return nil
	}
	if err == nil {
		printTools(c.err, v.Tools, c.env.colored(c.env.StderrTTY))
	}
	return err
}

func (c *conversation) showRun(context.Context, string) error {
	if c.last.IsZero() {
		c.tells("no turn was taken yet")
		return nil
	}
	id := c.last.String()
	c.tells(id + "\n  " + c.invocation("show", id) + "\n  " + c.invocation("verify", id))
	return nil
}

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type chatOptions struct {
	*app
	session  string
	fresh    bool
	agent    string
	model    string
	policy   string
	approve  string
	maxSteps int
}

// approvePark leaves approvals to others.
const approvePark = "park"

func newChat(a *app) *cobra.Command {
	o := &chatOptions{app: a}
	cmd := &cobra.Command{
		Use:   "chat [MESSAGE]",
		Short: "Talk with an agent",
		Long: `Send a message to an agent of tipstaff.yaml, and show what it does and answers.
Each message is one turn, and each turn is a run: it is journaled, bounded, and can
be resumed, verified and replayed like any other.

With MESSAGE, or with standard input that is no terminal, one turn is taken. The
answer is on standard output, everything else on standard error. At a terminal
without MESSAGE there is a prompt; /help tells more.

Ctrl-C cancels the turn. Once more within two seconds, or Ctrl-D at the prompt,
leaves.`,
		Example: `  tipstaff chat "How full is the disk?"
  tipstaff chat --session 01JCQ8R4T5V6W7X8Y9Z0A1B2C3 "And now?"
  git diff | tipstaff chat --agent reviewer
  tipstaff chat`,
		Args:              oneMessage("MESSAGE"),
		ValidArgsFunction: completed(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args)
		},
	}
	cmd.Flags().StringVar(&o.session, "session", "", "go on with the session of this `id`")
	cmd.Flags().BoolVar(&o.fresh, "new", false, "begin a new session, which is what happens without --session")
	cmd.Flags().StringVar(&o.agent, "agent", "", "an agent of tipstaff.yaml, by its `name` (default \"default\")")
	cmd.Flags().StringVar(&o.model, "model", "", "a model of tipstaff.yaml, by its `name`, instead of the agent's")
	cmd.Flags().StringVar(&o.policy, "policy", "", "a `file` whose policy takes the place of that of tipstaff.yaml")
	cmd.Flags().StringVar(&o.approve, "approve", "", "who answers approvals: ask, auto or park (default ask at a terminal, else park)")
	cmd.Flags().IntVar(&o.maxSteps, "max-steps", 0, "how many times the model is asked at most; 0: as the agent says")
	a.skillsFlag(cmd)
	_ = cmd.MarkFlagFilename("policy") // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{ApproveAsk, ApproveAuto, approvePark}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// oneMessage is for words that a shell would split, and that may be left out.
func oneMessage(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return &usageError{
				message: fmt.Sprintf("%s takes one %s, and %q is another", cmd.CommandPath(), name, args[1]),
				hint:    "put the message in quotes",
			}
		}
		return nil
	}
}

// attended reports whether a person can see a question and type the answer.
func (o *chatOptions) attended() bool { return o.env.StdinTTY && o.env.StderrTTY }

func (o *chatOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if len(args) == 0 && o.attended() {
		return o.prompt(ctx)
	}
	message, err := o.message(args)
	if err != nil {
		return err
	}
	c, err := o.newConversation(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	c.asks(ctx, tipstaff.NewLineReader(o.env.Stdin), o.err)
	return c.once(ctx, message)
}

// check refuses flags that make no sense, and settles who answers approvals.
func (o *chatOptions) check() error {
	switch {
	case o.fresh && o.session != "":
		return &usageError{message: "--new begins a session and --session goes on with one: only one of them can be"}
	case o.maxSteps < 0 || o.maxSteps > 1000:
		return &usageError{message: fmt.Sprintf("--max-steps %d is not from 1 to 1000", o.maxSteps)}
	case o.approve == "" && o.attended():
		o.approve = ApproveAsk
	case o.approve == "":
		o.approve = approvePark
	case o.approve == ApproveAsk && !o.attended():
		return &usageError{message: "--approve ask needs a terminal", hint: "use --approve park, or auto, or a --policy that allows what is needed"}
	case o.approve != ApproveAsk && o.approve != ApproveAuto && o.approve != approvePark:
		return &usageError{message: fmt.Sprintf("--approve %s is none of ask, auto and park", o.approve)}
	}
	return nil
}

// maxMessage is above what a message may have: what is too long is refused where
// it can be explained.
const maxMessage = 2 << 20

// message is the argument, else what standard input holds.
func (o *chatOptions) message(args []string) (string, error) {
	if len(args) > 0 {
		if strings.TrimSpace(args[0]) == "" {
			return "", &usageError{message: "the message is empty", hint: `say something: tipstaff chat "How full is the disk?"`}
		}
		return args[0], nil
	}
	b, err := io.ReadAll(io.LimitReader(o.env.Stdin, maxMessage))
	if err != nil {
		return "", &usageError{message: err.Error()}
	}
	if strings.TrimSpace(string(b)) == "" {
		return "", &usageError{message: "there is no message", hint: `give one: tipstaff chat "How full is the disk?"`}
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// turn is the program of a turn that says something.
func (c *conversation) turn(message string) tipstaff.StartRequest {
	doc := map[string]any{"kind": "turn", "message": strings.ToValidUTF8(message, "\ufffd")}
	for name, value := range map[string]string{"session": c.session, "agent": c.agent, "model": c.model} {
		if value != "" {
			doc[name] = value
		}
	}
	if c.maxSteps > 0 {
		doc["max_steps"] = c.maxSteps
	}
	return tipstaff.StartRequest{Program: jsonOf(doc), Name: "the message", Title: titleOf(message), Presence: tipstaff.Presence{Attended: c.ask != nil}}
}

// maxTitle is how many cells of what somebody says a run is called by.
const maxTitle = 60

// titleOf is what a run is called in lists: how the text begins.
func titleOf(text string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if rest != "" {
		first += " …"
	}
	return fit(clean(strings.TrimSpace(first)), maxTitle)
}

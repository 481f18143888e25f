package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type chatOptions struct {
	*app
	session  string
	resume   bool // the newest session
	lists    bool
	fresh    bool
	agent    string
	model    string
	policy   string
	approve  string
	maxSteps int
}

// Who answers approvals: the person, what tools declare, or others, later.
const (
	approveAsk  = "ask"
	approveAuto = "auto"
	approvePark = "park"
)

func newChat(a *app) *cobra.Command {
	o := &chatOptions{app: a}
	cmd := &cobra.Command{
		Use:   "chat [MESSAGE]",
		Short: "Talk with an agent",
		Long: `Send a message to an agent of tipstaff.yaml, and show what it does and answers.
Each message is one turn, and each turn is a run: it is journaled, bounded, and can
be resumed, verified and replayed like any other.

With MESSAGE, or with standard input that is no terminal, one turn is taken. The
answer is on standard output, everything else on standard error. What is piped in
beside MESSAGE follows it. At a terminal without MESSAGE there is a prompt; /help
tells more.

Without tipstaff.yaml, but with a key of a vendor in the environment (for example
ANTHROPIC_API_KEY), that vendor's default model answers, and may read files below the
current folder.

Ctrl-C cancels the turn. Once more within two seconds, or Ctrl-D at the prompt,
leaves.`,
		Example: `  tipstaff chat "How full is the disk?"
  tipstaff chat --continue "And now?"
  git diff | tipstaff chat "Review this."
  tipstaff chat --list
  tipstaff chat --session 01JCQ8`,
		Args: oneMessage("MESSAGE"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&o.resume, "continue", false, "go on with the newest session")
	cmd.Flags().StringVar(&o.session, "session", "", "go on with the session of this `id`: its own, that of one of its turns, the beginning of one, or @ for the newest")
	cmd.Flags().BoolVar(&o.fresh, "new", false, "begin a new session, which is what happens without --continue and --session")
	cmd.Flags().BoolVar(&o.lists, "list", false, "list the sessions, newest first")
	cmd.Flags().StringVar(&o.agent, "agent", "", "an agent of tipstaff.yaml, by its `name` (default \"default\")")
	cmd.Flags().StringVar(&o.model, "model", "", "a model of tipstaff.yaml, by its `name`, instead of the agent's")
	cmd.Flags().StringVar(&o.policy, "policy", "", "a `file` whose policy takes the place of that of tipstaff.yaml")
	cmd.Flags().StringVar(&o.approve, "approve", "", "who answers approvals: ask, auto or park (default ask at a terminal, else park)")
	cmd.Flags().IntVar(&o.maxSteps, "max-steps", 0, "how many times the model is asked at most; 0: as the agent says")
	a.skillsFlag(cmd)
	_ = cmd.MarkFlagFilename("policy") // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions([]string{approveAsk, approveAuto, approvePark}, cobra.ShellCompDirectiveNoFileComp))
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

func (o *chatOptions) run(ctx context.Context, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	switch {
	case o.lists:
		return (&sessionsOptions{app: o.app, kind: kindChat}).list(ctx)
	case len(args) == 0 && o.attended():
		if err := o.mustTrust(); err != nil { // nothing is to be typed for nothing
			return err
		}
		return o.prompt(ctx)
	}
	message, err := o.message(ctx, args)
	if err != nil {
		return err
	}
	c, err := o.newConversation(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	c.asks(tipstaff.NewLineReader(o.env.Stdin), o.err)
	d, err := c.say(ctx, message)
	if err != nil {
		return err
	}
	return status(exitOfDriven(ctx, d))
}

// check refuses flags that make no sense, and settles who answers approvals.
func (o *chatOptions) check(args []string) error {
	wants := 0
	for _, want := range []bool{o.resume, o.session != "", o.fresh, o.lists} {
		if want {
			wants++
		}
	}
	switch {
	case wants > 1:
		return &usageError{message: "--continue, --session, --new and --list exclude each other: give only one of them"}
	case o.lists && len(args) > 0:
		return &usageError{message: "--list lists sessions, and takes no MESSAGE"}
	case o.maxSteps < 0 || o.maxSteps > 1000:
		return &usageError{message: fmt.Sprintf("--max-steps %d is not from 1 to 1000", o.maxSteps)}
	case o.approve == "" && o.attended():
		o.approve = approveAsk
	case o.approve == "":
		o.approve = approvePark
	case o.approve == approveAsk && !o.attended():
		return &usageError{message: "--approve ask needs a terminal", hint: "use --approve park, or auto, or a --policy that allows what is needed"}
	case o.approve != approveAsk && o.approve != approveAuto && o.approve != approvePark:
		return &usageError{message: fmt.Sprintf("--approve %s is none of ask, auto and park", o.approve)}
	}
	return nil
}

// turn is the program of a turn that says something.
func (c *conversation) turn(message string) tipstaff.StartRequest {
	doc := map[string]any{"kind": "turn", "message": strings.ToValidUTF8(message, "\ufffd")}
	for name, value := range map[string]string{"session": c.session, "agent": cmp.Or(c.agent, c.former), "model": c.model} {
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

// conversation is a session that this process talks in.
type conversation struct {
	*chatOptions
	svc     tipstaff.Service
	former  string                                // the agent of the session, where it is another than the default one
	ask     tipstaff.Ask                          // nil: nobody answers, gates stay open
	prompts *prompter                             // asks about gates that are no approvals; nil: nobody does
	next    func(context.Context) (string, error) // what is typed at the prompt
	ahead   func() (entered int, typing string)
	tells   func(text string) // between turns
	leave   func()            // of a prompt; nil: there is none to leave
	release func()            // interrupts are given back
	last    tipstaff.ID       // the run of the last turn

	mu      sync.Mutex
	cancel  context.CancelFunc // of the turn that is under way; nil: there is none
	pressed time.Time          // Ctrl-C, the last time
}

// newConversation opens the workspace, and from then on hears interrupts.
func (o *chatOptions) newConversation(ctx context.Context) (*conversation, error) {
	svc, err := o.open(ctx, OpenOptions{Starts: true, Policy: o.policy})
	if err != nil {
		return nil, err
	}
	c := &conversation{chatOptions: o, svc: svc, release: func() {}}
	c.tells = func(text string) { fmt.Fprintln(o.err, text) }
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if o.env.OnInterrupt != nil {
		c.release = o.env.OnInterrupt(c.interrupted)
	}
	return c, nil
}

// asks has a person, or what tools declare, answer gates. lines is where answers
// come from, out where questions go.
func (c *conversation) asks(lines lineSource, out io.Writer) {
	if c.approve == approvePark {
		return
	}
	if c.attended() {
		c.prompts = c.prompterOn(lines, out)
	}
	c.ask = func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		switch {
		case g.Kind == tipstaff.Approval && c.approve == approveAuto:
			return c.env.Approve(ctx, g)
		case c.prompts == nil:
			return tipstaff.Choice{}, false
		}
		return c.prompts.ask(ctx, g)
	}
}

// leaveTime is how soon a second Ctrl-C means to leave.
const leaveTime = 2 * time.Second

// interrupted deals with Ctrl-C: it cancels the turn, and a second one soon after
// leaves. It reports false where the process is to be stopped as by any signal:
// to break off a turn, or because there is nothing else to stop.
func (c *conversation) interrupted() bool {
	c.mu.Lock()
	now := time.Now()
	again := now.Sub(c.pressed) < leaveTime
	c.pressed = now
	cancel := c.cancel
	c.mu.Unlock()
	switch {
	case c.leave == nil && (again || cancel == nil):
		return false
	case again:
		c.leave()
		return cancel == nil
	case cancel == nil:
		c.tells("Ctrl-C again, or Ctrl-D, to leave")
	default:
		cancel()
	}
	return true
}

// begin says that a turn is about to start. ctx is done when it is to be cancelled.
func (c *conversation) begin(ctx context.Context) (context.Context, func()) {
	wanted, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel = cancel
	return wanted, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cancel = nil
		cancel()
	}
}

// busyWith is the error that names a turn of the session which has not ended; nil:
// err is another.
func busyWith(err error) *tipstaff.Error {
	var e *tipstaff.Error
	if errors.As(err, &e) && e.Code == tipstaff.SessionBusy && !e.Run.IsZero() {
		return e
	}
	return nil
}

// say sends a message and shows what comes of it. A turn of the session that has
// not ended is finished first; if it cannot be, the message is not sent. Without a
// message that is all.
func (c *conversation) say(ctx context.Context, message string) (tipstaff.Driven, error) {
	wanted, over := c.begin(ctx)
	defer over()
	start := func() (tipstaff.Started, error) {
		if message == "" { // only whether there is a turn to finish
			_, err := c.svc.Validate(ctx, tipstaff.ValidateRequest{Start: c.probe()})
			return tipstaff.Started{}, cmp.Or[error](err, errNoMessage)
		}
		return c.svc.Start(ctx, c.turn(message))
	}
	started, err := startOrPin(ctx, c.app, c.prompts, start)
	if busy := busyWith(err); busy != nil {
		d, err := c.goOn(ctx, wanted, busy)
		switch {
		case err != nil:
			return d, err
		case !d.State.Terminal():
			c.tells("the message was not sent: the turn before it has not ended")
			return d, nil
		case wanted.Err() != nil, message == "":
			return d, nil
		}
		if started, err = start(); err != nil {
			return d, err
		}
	} else if err != nil {
		return tipstaff.Driven{}, err
	}
	if t := started.Turn; c.leave == nil {
		c.introduce(t, started.Warnings)
	} else if t != nil && c.session == "" {
		c.tells(line{say(dim, "session "+t.Session)}.text(c.env.colored(c.env.StderrTTY)))
	}
	return c.follow(ctx, wanted, &started, 0)
}

// probe is a turn that is looked at and not taken.
func (c *conversation) probe() *tipstaff.StartRequest {
	probe := c.turn("?")
	return &probe
}

// goOn finishes a turn that was parked or broken off.
func (c *conversation) goOn(ctx, wanted context.Context, busy *tipstaff.Error) (tipstaff.Driven, error) {
	run, err := c.svc.Get(ctx, busy.Run)
	if err != nil {
		return tipstaff.Driven{}, err
	}
	if run.Condition == tipstaff.Running {
		return tipstaff.Driven{}, busy
	}
	if c.leave == nil {
		c.introduce(run.Turn, nil)
	}
	c.tells("the last turn of this session has not ended; it goes on: " + run.ID.String())
	started, err := c.svc.Resume(ctx, tipstaff.ResumeRequest{Run: run.ID, Presence: tipstaff.Presence{Attended: c.ask != nil}})
	if err != nil {
		return tipstaff.Driven{}, err
	}
	return c.follow(ctx, wanted, &started, run.HeadSeq)
}

// follow shows a turn until it rests. Once wanted is done it is cancelled.
func (c *conversation) follow(ctx, wanted context.Context, s *tipstaff.Started, shown int64) (tipstaff.Driven, error) {
	known := c.session != ""
	c.last = s.Run
	if !known && s.Turn != nil {
		c.session = s.Turn.Session
	}
	f := c.newFollower(c.svc, s, s.Program.Name, shown)
	f.lines = false
	if !c.json {
		f.speech = c.newSpeech(f.screen)
		f.speech.ahead = c.ahead
		f.last = 0 // how calls that go on have begun stands in the history
	}
	stop := context.AfterFunc(wanted, func() { c.cancelRun(ctx, f, s.Run) })
	defer stop()
	return c.app.follow(ctx, f, s, c.prompts, c.ask, func(run tipstaff.Run, d tipstaff.Driven) {
		stop()
		c.conclude(ctx, run, d, f, known)
	})
}

// cancelRun has the turn cancelled by whoever drives it, which is this process.
func (c *conversation) cancelRun(ctx context.Context, f *follower, run tipstaff.ID) {
	f.mention("cancelling; Ctrl-C again to leave")
	_, err := c.svc.Cancel(context.WithoutCancel(ctx), tipstaff.CancelRequest{Run: run, Reason: "cancelled at the terminal"})
	if err != nil {
		f.mention("the turn could not be cancelled: " + clean(err.Error()))
	}
}

// concluded is the last line of a turn with --json.
type concluded struct {
	conclusion
	Session string               `json:"session"`
	Answer  *string              `json:"answer"`   // nil: there is none
	Usage   *tipstaff.ModelUsage `json:"usage"`    // of the turn; nil: it has not ended
	CostUSD *tipstaff.USD        `json:"cost_usd"` // nil: not known
}

// conclude says where the turn, and the session, stands.
func (c *conversation) conclude(ctx context.Context, r tipstaff.Run, d tipstaff.Driven, f *follower, known bool) {
	s := f.speech
	if f.answer == nil && r.State == tipstaff.Completed { // it was given before, and nobody has heard it
		var out struct {
			Text  string
			Usage tipstaff.ModelUsage
		}
		if json.Unmarshal(r.Outputs, &out) == nil {
			f.answer, f.usage = &out.Text, &out.Usage
		}
		if s != nil {
			s.answer = out.Text
		}
	}
	if s == nil {
		last := concluded{conclusionOf(r, d), c.session, f.answer, f.usage, nil}
		if f.usage != nil {
			last.CostUSD = f.usage.CostUSD
		}
		c.writeJSON(last)
	} else {
		s.finish()
	}
	switch {
	case d.Err != nil: // it is reported
	case r.State == tipstaff.Failed && s != nil:
		fmt.Fprintf(c.err, "failed: %s\n", clean(failureText(r, d)))
	case r.State == tipstaff.Cancelled && s != nil:
		fmt.Fprintln(c.err, "cancelled")
	default:
		c.sayNext(ctx, c.svc, r, d)
	}
	if s != nil && !known && c.leave == nil {
		c.sayHow()
	}
}

// sayHow tells how the session is gone on with, once there is one.
func (c *conversation) sayHow() {
	if c.session != "" {
		fmt.Fprintf(c.err, "to go on with this session:\n  %s\n", c.invocation("chat", "--session", c.session))
	}
}

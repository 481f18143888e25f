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

// conversation is a session that this process talks in.
type conversation struct {
	*chatOptions
	svc     tipstaff.Service
	ask     tipstaff.Ask // nil: nobody answers, gates stay open
	prompts *prompter    // asks about gates that are no approvals; nil: nobody does
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
	svc, err := o.openFor(ctx, OpenOptions{Starts: true, Policy: o.policy})
	if err != nil {
		return nil, err
	}
	c := &conversation{chatOptions: o, svc: svc, release: func() {}}
	c.tells = func(text string) { fmt.Fprintln(o.err, text) }
	if o.env.OnInterrupt != nil {
		c.release = o.env.OnInterrupt(c.interrupted)
	}
	return c, nil
}

func (c *conversation) close() {
	c.release()
	c.prompts.close()
}

// jsonOf is for what always has a form in JSON.
func jsonOf(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// asks has a person, or what tools declare, answer gates. lines is where answers
// come from, out where questions go.
func (c *conversation) asks(ctx context.Context, lines lineSource, out io.Writer) {
	if c.approve == approvePark {
		return
	}
	if c.attended() {
		c.prompts = &prompter{out: out, in: lines}
		c.prompts.stop, c.prompts.end = context.WithCancel(ctx)
	}
	approvals := c.env.Approve(c.approve, out)
	c.ask = func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		switch {
		case g.Kind == tipstaff.Approval && (c.prompts == nil || c.approve == ApproveAuto):
			return approvals(ctx, g)
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

// once takes one turn and ends with its exit code.
func (c *conversation) once(ctx context.Context, message string) error {
	d, err := c.say(ctx, message)
	if err != nil {
		return err
	}
	return status(exitOfDriven(ctx, d))
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
// not ended is finished first; if it cannot be, the message is not sent.
func (c *conversation) say(ctx context.Context, message string) (tipstaff.Driven, error) {
	wanted, over := c.begin(ctx)
	defer over()
	start := func() (tipstaff.Started, error) { return c.svc.Start(ctx, c.turn(message)) }
	started, err := startOrPin(ctx, c.app, c.prompts, start)
	if busy := busyWith(err); busy != nil {
		d, err := c.goOn(ctx, wanted, busy)
		switch {
		case err != nil:
			return d, err
		case !d.State.Terminal():
			c.tells("the message was not sent: the turn before it has not ended")
			return d, nil
		case wanted.Err() != nil:
			return d, nil
		}
		if started, err = start(); err != nil {
			return d, err
		}
	} else if err != nil {
		return tipstaff.Driven{}, err
	}
	return c.follow(ctx, wanted, &started, 0)
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
	c.session = c.sessionOf(ctx, s)
	f := c.newFollower(c.svc, s, s.Program.Name, shown)
	f.lines = false
	if !c.json {
		f.speech = c.newSpeech(f.screen)
		f.speech.ahead = c.ahead
		f.last = 0 // how calls that go on have begun stands in the history
	}
	c.prompts.beside(f)
	stop := context.AfterFunc(wanted, func() { c.cancelRun(ctx, f, s.Run) })
	leave := attend(ctx, c.svc, s.Run, c.ask)
	d, err := f.drive(ctx)
	leave()
	stop()
	c.prompts.beside(nil)
	if err != nil {
		return d, c.left(s.Run, err)
	}
	run, err := c.svc.Get(context.WithoutCancel(ctx), s.Run)
	if err != nil {
		run = tipstaff.Run{ID: s.Run, State: d.State, HeadSeq: f.last}
	}
	c.concludeTurn(ctx, run, d, f.speech, known)
	if d.Err != nil {
		return d, errors.Join(d.Err, err)
	}
	return d, err
}

// cancelRun has the turn cancelled by whoever drives it, which is this process.
func (c *conversation) cancelRun(ctx context.Context, f *follower, run tipstaff.ID) {
	f.mention("cancelling; Ctrl-C again to leave")
	_, err := c.svc.Cancel(context.WithoutCancel(ctx), tipstaff.CancelRequest{Run: run, Reason: "cancelled at the terminal"})
	if err != nil && tipstaff.CodeOf(err) != tipstaff.RunEnded {
		f.mention("the turn could not be cancelled: " + clean(err.Error()))
	}
}

// sessionOf is the session that a turn stands in, as its program names it.
func (c *conversation) sessionOf(ctx context.Context, s *tipstaff.Started) string {
	if c.session != "" {
		return c.session
	}
	raw, err := c.svc.Artifact(context.WithoutCancel(ctx), s.Run, s.Program.Digest)
	var doc struct {
		Session string `json:"session"`
	}
	if err != nil || json.Unmarshal(raw, &doc) != nil {
		return ""
	}
	return doc.Session
}

// turnConclusion is the last line of a turn with --json.
type turnConclusion struct {
	conclusion
	Session string `json:"session"`
}

// concludeTurn says where the turn, and the session, stands.
func (c *conversation) concludeTurn(ctx context.Context, r tipstaff.Run, d tipstaff.Driven, s *speech, known bool) {
	if s == nil {
		c.writeJSON(turnConclusion{conclusion{r.ID, r.State, d.Outcome, d.Reason, r.HeadSeq, r.Head}, c.session})
	} else {
		s.finish()
	}
	switch {
	case d.Err != nil: // it is reported
	case d.Outcome == "parked", d.Outcome == "cut":
		c.saySteps(c.err, r, openBelow(ctx, c.svc, r), d.WakeAt)
	case r.State == tipstaff.Failed && s != nil:
		fmt.Fprintf(c.err, "failed: %s\n", clean(failureText(r, d)))
	case r.State == tipstaff.Cancelled && s != nil:
		fmt.Fprintln(c.err, "cancelled")
	case !r.State.Terminal():
		fmt.Fprintf(c.err, "interrupted%s; to go on:\n  %s\n", inBrackets(d.Reason), c.resumeLine(r.ID))
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

// finish writes what is left to say of a turn.
func (s *speech) finish() {
	s.endLine()
	if s.screen != nil {
		s.screen.suspend()
	}
	if s.answer != "" {
		io.WriteString(s.a.out, strings.TrimSuffix(dataText(s.answer), "\n")+"\n")
	}
	if s.usage != "" {
		fmt.Fprintln(s.a.err, line{say(dim, s.usage)}.text(s.colored))
	}
}

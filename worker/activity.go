package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Activities are the calls of a drive.
func Activities(h *Host) map[string]flow.Activity {
	invoke := flow.Activity{
		Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) { return newTurn(h, a).invoke(ctx) },
		// What an earlier drive has left without an end goes on by itself if that was
		// configured, and only in a worktree, where a person decides about all that was
		// done; else somebody is asked.
		Recall: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			x := newTurn(h, a)
			if x.local.OnInterrupt == ResumeByItself && h.Worktree {
				x.again = true
				return x.invoke(ctx)
			}
			return flow.Done{}, x.doubt(ctx)
		},
		Wants: wants,
		Stops: func(flow.Attempt) bool { return true },
	}
	return map[string]flow.Activity{
		TaskActivity: {Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			var t tipstaff.Task
			if err := json.Unmarshal(a.Input, &t); err != nil {
				return flow.Done{}, err
			}
			t.User = h.User
			t, err := h.Store.OpenTask(ctx, a.Run, a.Path, t)
			return flow.Done{Value: flow.JSON(t.ID)}, err
		}},
		SpawnActivity:  invoke,
		ResumeActivity: invoke,
	}
}

// turn is an invocation as its run sees it, from what the record asks for to its result.
type turn struct {
	host    *Host
	attempt flow.Attempt
	local   *Local
	run     string
	id      string
	resumes bool // it was asked to go on
	again   bool // it takes the place of one that was broken off
	dir     string
	session tipstaff.WorkerSession
	unknown bool // there is no such session yet
	leased  bool // the session is this invocation's
	channel *taskChannel
	short   map[string]bool // of cost and tokens: what the run has left is the smaller limit
	ctx     context.Context
}

func newTurn(h *Host, a flow.Attempt) *turn {
	return &turn{host: h, attempt: a, local: a.Local.(*Local), run: a.Run, id: h.NewID(), resumes: a.Name == ResumeActivity, again: a.N > 1}
}

// invoke makes the invocation. What it refuses has started nothing.
func (x *turn) invoke(ctx context.Context) (flow.Done, error) {
	x.ctx = ctx
	w, o, resume, err := x.prepare(ctx)
	if err != nil {
		return flow.Done{}, refused(err)
	}
	after, err := x.host.Watch(ctx, x.attempt.Path)
	if err != nil {
		return flow.Done{}, refused(err)
	}
	begin := w.Spawn
	if resume {
		begin = w.Resume
	}
	res, err := begin(ctx, o)
	if err != nil {
		return flow.Done{}, refused(errors.Join(err, x.release(nil)))
	}
	res.Dir = x.dir
	if res.Outcome == Limit && x.short[res.Which] {
		res.Bound, res.Held = res.Which, x.attempt.Held(res.Which) > 0
	}
	use := x.use(res)
	if res.Outcome != Cancelled {
		res.Bound = cmp.Or(res.Bound, x.overdrawn(use))
	}
	var keep []string
	res.Notices, keep = after(x.attempt.Note)
	x.note(tipstaff.KindWorkerEnded, ended(x.id, res))
	switch res.Outcome {
	case Reported, Paused, Cancelled: // of all others the flow tells the task
		x.channel.move(tipstaff.TaskMoved{By: bySystem, Outcome: string(res.Outcome)})
	}
	if err := errors.Join(x.release(&res), x.attempt.Sync()); err != nil {
		return flow.Done{}, err
	}
	if cause := context.Cause(ctx); res.Outcome == Cancelled && cause != nil {
		var stop *flow.Stop
		var late *flow.Error
		switch {
		case errors.As(cause, &stop): // it is not known what it would have done
			return flow.Done{}, errors.Join(cause, x.doubt(ctx))
		case errors.As(cause, &late):
			late := *late
			late.Answered = true
			return flow.Done{}, &late
		}
	}
	return flow.Done{Value: flow.JSON(res), Use: use, Keep: keep}, nil
}

// prepare makes everything ready, in the order of what could refuse it.
func (x *turn) prepare(ctx context.Context) (w Worker, o Options, resume bool, err error) {
	l, h := x.local, x.host
	task, err := h.Store.RunTask(ctx, x.run, l.TaskID)
	if err != nil {
		return w, o, false, err
	}
	x.channel = &taskChannel{x: x, task: task, iteration: l.Iteration}
	if task.Status != tipstaff.TaskInProgress { // an earlier attempt has left it so
		x.channel.move(tipstaff.TaskMoved{To: tipstaff.TaskInProgress, By: bySystem, Why: "the worker goes on"})
	}
	if w, err = h.Make(l.Settled); err != nil {
		return w, o, false, err
	}
	if x.resumes && !w.SupportsResumption() {
		return w, o, false, tipstaff.Errorf(tipstaff.ResumeUnsupported, "worker %s cannot go on with a session", l.Worker)
	}
	if _, err = w.Available(ctx); err != nil {
		return w, o, false, err
	}
	if x.dir, err = h.Dir(ctx, l.Posture); err != nil {
		return w, o, false, err
	}
	environ, err := h.Environ(l.Settled)
	if err != nil {
		return w, o, false, err
	}
	if err = x.find(ctx); err != nil {
		return w, o, false, err
	}
	o = Options{Run: x.attempt.Run, Path: x.attempt.Path, Invocation: x.id, Prompt: l.Prompt, Dir: x.dir, Env: environ, Model: l.Model,
		Posture: l.Posture, Limits: l.Limits, Folder: x.session.Folder, Logs: h.Folder, Policy: h.Policy(l, x.dir), Price: h.Price, Starter: h.Starter,
		Redact: h.Redact, Sink: x, Channel: x.channel, Spent: x.spent, Begin: func(o *Options) error { return x.begin(ctx, o) }}
	if o.Session, resume, err = x.conversation(ctx); err != nil {
		return w, o, false, err
	}
	switch {
	case x.resumes && !resume:
		o.Prompt = l.Again
	case x.again && resume:
		o.Prompt = textInterrupted + l.Prompt
	}
	return w, o, resume, nil
}

// begin takes what the invocation needs: the session, what it may use, and its folder.
func (x *turn) begin(ctx context.Context, o *Options) (err error) {
	if err := x.usable(&x.session); err != nil {
		return err
	}
	o.Limits = x.limits()
	x.channel.limits = o.Limits
	if err := x.lease(ctx); err != nil {
		return err
	}
	return errors.Join(x.attempt.Sync(), os.MkdirAll(o.Logs, 0o700), os.MkdirAll(o.Folder, 0o700))
}

// callBounds are those of calls, which count inside a CLI where somebody has set them.
var callBounds = []string{tipstaff.BoundModelCalls, tipstaff.BoundToolCalls}

// wants is what an invocation reserves: of money its limit, or what the run has left if
// that is less. Without a limit of its own it would hold all that is left, and nobody could
// work beside it. With nothing left it is refused.
func wants(a flow.Attempt, left func(string) (int64, bool)) flow.Use {
	l, use := a.Local.(*Local), flow.Use{}
	for name, limit := range l.Limits.spendable() {
		switch left, bounded := left(name); {
		case !bounded:
		case left == 0:
			use[name] = max(1, limit)
		case limit > 0:
			use[name] = min(limit, left)
		}
	}
	for _, name := range callBounds {
		if left, bounded := left(name); bounded && left == 0 && slices.Contains(l.Counted, name) {
			use[name] = 1
		}
	}
	return use
}

// spendable are the limits of what an invocation may spend, by the names of bounds; 0: none.
func (l Limits) spendable() map[string]int64 {
	return map[string]int64{tipstaff.BoundCostUSD: int64(l.CostUSD), tipstaff.BoundTokens: l.Tokens}
}

// limits are those of the invocation, as far as its run has that much left.
func (x *turn) limits() Limits {
	limits := x.local.Limits.spendable()
	x.short = map[string]bool{}
	for name, own := range limits {
		most, bounded := x.attempt.Reserved[name]
		if own == 0 {
			most, bounded = x.attempt.Left(name)
		}
		if bounded && (own == 0 || most < own) {
			limits[name], x.short[name] = most, true
		}
	}
	l := x.local.Limits
	l.CostUSD, l.Tokens = tipstaff.USD(limits[tipstaff.BoundCostUSD]), limits[tipstaff.BoundTokens]
	return l
}

// spent passes on what the stream shows.
func (x *turn) spent(tokens int64, cost tipstaff.USD, costKnown bool) {
	use := flow.Use{tipstaff.BoundTokens: tokens}
	if costKnown {
		use[tipstaff.BoundCostUSD] = int64(cost)
	}
	x.attempt.Spent(use)
}

// use is what is charged. What the CLI does not tell is charged as it was reserved, unless
// it has done nothing.
func (x *turn) use(res Result) flow.Use {
	use := flow.Use{}
	switch res.Outcome {
	case StartFailed, SessionConflict, SessionLost:
		if res.Steps == 0 {
			use[tipstaff.BoundCostUSD], use[tipstaff.BoundTokens] = 0, 0
		}
	}
	if res.CostKnown {
		use[tipstaff.BoundCostUSD] = int64(res.CostUSD)
	}
	if res.UsageKnown {
		use[tipstaff.BoundTokens] = res.Usage.InputTokens + res.Usage.OutputTokens
	}
	for name, calls := range map[string]int{tipstaff.BoundModelCalls: res.Steps, tipstaff.BoundToolCalls: res.ToolCalls} {
		if slices.Contains(x.local.Counted, name) {
			use[name] = int64(calls)
		}
	}
	return use
}

// overdrawn is a bound of calls that was exceeded; "": none. The CLI makes its calls
// without asking, so that they cannot be reserved.
func (x *turn) overdrawn(use flow.Use) string {
	for _, name := range callBounds {
		if left, bounded := x.attempt.Left(name); bounded && use[name] > left {
			return name
		}
	}
	return ""
}

// doubt tells the task that nobody knows how an invocation ended.
func (x *turn) doubt(ctx context.Context) error {
	task, err := x.host.Store.RunTask(context.WithoutCancel(ctx), x.run, x.local.TaskID)
	if err == nil && task.Status == tipstaff.TaskInProgress {
		told := &taskChannel{x: x, task: task, iteration: x.local.Iteration}
		told.move(tipstaff.TaskMoved{To: tipstaff.TaskPaused, By: bySystem, Why: "an invocation was broken off", Pause: &tipstaff.TaskPause{Reason: flow.CodeInDoubt}})
	}
	message := "the process that made the invocation has ended"
	if wrote := x.lastStderr(ctx); wrote != "" {
		message += "; the worker wrote last on standard error:\n" + wrote
	}
	return &flow.Error{Code: flow.CodeInDoubt, Message: message}
}

// lastStderr is what the last invocation of the session wrote last on standard error, as
// its log has it; "": nothing that can be read.
func (x *turn) lastStderr(ctx context.Context) string {
	s, err := x.host.Store.FindSession(context.WithoutCancel(ctx), x.run, sessionPath(x.local))
	if err != nil || len(s.Invocations) == 0 {
		return ""
	}
	f, err := os.Open(filepath.Join(x.host.Folder, s.Invocations[len(s.Invocations)-1].ID+".stderr"))
	if err != nil {
		return ""
	}
	defer f.Close()
	_, _ = f.Seek(-tailKept, io.SeekEnd) // a shorter one is read from its beginning
	var end tail
	text, _ := io.ReadAll(io.LimitReader(f, tailKept))
	end.add(text)
	return strings.TrimSpace(end.String())
}

func (x *turn) note(kind tipstaff.Kind, body any) {
	x.attempt.Note(flow.Event{Kind: string(kind), Body: body})
}

// Started implements [Sink].
func (x *turn) Started(b tipstaff.WorkerStarted) error {
	l := x.local
	b.Invocation, b.Session, b.Worker, b.Type, b.Model, b.Posture, b.Settings = x.id, x.session.ID, l.Worker, l.Type, l.Model, string(l.Posture), l.Settings
	b.Dir, b.Task, b.Iteration = x.dir, l.TaskID, l.Iteration
	x.note(tipstaff.KindWorkerStarted, b)
	return errors.Join(x.attempt.Sync(), x.update(func(s *tipstaff.WorkerSession) {
		s.Family, s.CLIVersion = b.Family, b.CLIVersion
		if n := len(s.Invocations) - 1; n >= 0 {
			s.Invocations[n].Identity = b.Identity
		}
	}))
}

// Session implements [Sink].
func (x *turn) Session(id string) error {
	if err := x.told(id); err != nil {
		return err
	}
	x.channel.session(id)
	return nil
}

// Event implements [Sink].
func (x *turn) Event(body Body) {
	e := flow.Event{Kind: string(body.Kind()), Body: body}
	if body.Kind().Transient() {
		x.attempt.Tell(e)
		return
	}
	x.attempt.Note(e)
}

func ended(id string, r Result) tipstaff.WorkerEnded {
	b := tipstaff.WorkerEnded{Invocation: id, SessionID: r.SessionID, Outcome: string(r.Outcome), Which: r.Which, Exit: r.Exit, Usage: r.Usage, UsageKnown: r.UsageKnown,
		Steps: r.Steps, ToolCalls: r.ToolCalls, Denials: len(r.Denials), Pending: len(r.Pending), Leftover: r.Leftover, DurationMS: r.DurationMS, Containment: r.Containment}
	if r.CostKnown {
		b.Usage.CostUSD = &r.CostUSD
	}
	if b.Leftover == nil {
		b.Leftover = []tipstaff.LeftProcess{}
	}
	if r.Report.Status != "" {
		b.Report = flow.JSON(r.Report)
	}
	return b
}

// refused is the error of an invocation that has started nothing.
func refused(err error) error {
	var own *flow.Error
	if errors.As(err, &own) {
		e := *own
		e.NotSent = true
		return &e
	}
	var e *tipstaff.Error
	if errors.As(err, &e) {
		return &flow.Error{Code: string(e.Code), Message: tipstaff.Joined("; ", e.Message, e.Hint), NotSent: true}
	}
	return &flow.Error{Code: flow.CodeInternal, Message: err.Error(), NotSent: true}
}

// inside is the path of a file that a worker names, if it lies in its directory.
func inside(dir, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("there is no file %s", name)
	}
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%s lies outside of %s", name, dir)
	}
	return real, nil
}

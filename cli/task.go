package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newTask(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Work for workers: make, start, answer and review it",
		Long: `A task is a piece of work for a worker, an AI CLI. A run carries it out; the task
outlives its invocations and reviews.

ID is a task's number, as task list prints it.`,
	}
	cmd.AddCommand(newTaskNew(a), newTaskList(a), newTaskShow(a), newTaskSpawn(a), newTaskResume(a), newTaskSet(a), newTaskFeedback(a))
	return cmd
}

// tasks opens the workspace's Tasks.
func (a *app) tasks(o OpenOptions) func(context.Context) (tipstaff.Tasks, error) {
	return func(ctx context.Context) (tipstaff.Tasks, error) {
		if _, err := a.open(ctx, o); err != nil {
			return nil, err
		}
		return a.session.Tasks(), nil
	}
}

func newTaskNew(a *app) *cobra.Command {
	var (
		task        tipstaff.Task
		description string
		inputs      []string
	)
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make a task, and print its id",
		Example: `  tipstaff task new --name "a parser" --description parser.md --input spec.md
  echo "Find out why it is slow." | tipstaff task new --name slow --role researcher --description -`,
		RunE: with(a.tasks(toWrite), func(ctx context.Context, tasks tipstaff.Tasks, _ []string) error {
			if description != "" {
				text, err := a.read(description)
				if err != nil {
					return err
				}
				task.Description = string(text)
			}
			for _, path := range inputs {
				task.Inputs = append(task.Inputs, tipstaff.TaskInput{Path: path})
			}
			made, err := tasks.New(ctx, task)
			if err != nil {
				return err
			}
			return a.print(made, func() { fmt.Fprintln(a.out, made.ID) })
		}),
	}
	cmd.Flags().StringVar(&task.Name, "name", "", "a `name` of one line")
	cmd.Flags().StringVar(&task.Role, "role", tipstaff.TaskRole, "the `role` of whoever does it")
	cmd.Flags().StringVar(&description, "description", "", "what is to be done: a `file`, - for standard input")
	cmd.Flags().StringVar(&task.Worker, "worker", "", "the `worker` that is to do it (default: whoever the role is bound to)")
	cmd.Flags().StringVar(&task.Review, "review", tipstaff.ReviewPerson, "`who` reviews it: none, person or a role")
	cmd.Flags().StringArrayVar(&inputs, "input", nil, "the `path` of a file to read; may be repeated")
	cmd.Flags().StringVar(&task.ID, "id", "", "the `id`, 3 to 9 digits (default: the next multiple of ten)")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("name") {
			return misuse(cmd, "%s needs --name", cmd.CommandPath())
		}
		return needs()(cmd, args)
	}
	return cmd
}

func newTaskList(a *app) *cobra.Command {
	var q tipstaff.TaskQuery
	var status, run string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, in the order of their ids",
		Long: `List tasks, in the order of their ids. With --run also those that stand for a step
or a stage of the run.`,
		Example: "  tipstaff task list --status needs_review\n  tipstaff task list --run @ --json",
		RunE: with(a.tasks(toRead), func(ctx context.Context, tasks tipstaff.Tasks, _ []string) error {
			q.Status = tipstaff.TaskStatus(status)
			if run != "" {
				id, err := resolve(ctx, a.session.Service(), run)
				if err != nil {
					return err
				}
				q.Run, q.Implicit = id.String(), true
			}
			list, err := tasks.List(ctx, q)
			if err != nil {
				return err
			}
			return printEach(a, list, "no tasks; `tipstaff task new` makes one", func(t tipstaff.Task) {
				a.row("%-4s  %-12s  %s", t.ID, t.Status, clean(t.Name))
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only tasks with this `status`: pending, in_progress, paused, needs_review, completed or abandoned")
	cmd.Flags().StringVar(&run, "run", "", "only tasks of this `run`")
	return cmd
}

func newTaskShow(a *app) *cobra.Command {
	var asYAML, log bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a task, its document or its log",
		Example: "  tipstaff task show 010\n  tipstaff task show 010 --yaml > task.yaml\n  tipstaff task show 010 --log",
		RunE: with(a.tasks(toRead), func(ctx context.Context, tasks tipstaff.Tasks, args []string) error {
			if log {
				lines, err := tasks.Log(ctx, args[0])
				if err != nil {
					return err
				}
				return printEach(a, lines, "nothing was written on it", func(l tipstaff.TaskLogLine) { fmt.Fprintln(a.out, l.Line()) })
			}
			t, err := tasks.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if asYAML {
				text := string(t.YAML())
				if a.env.StdoutTTY {
					text = cleanText(text)
				}
				_, err := io.WriteString(a.out, text)
				return err
			}
			return a.print(t, func() { a.printTask(t) })
		}),
	}
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "print its document, for task set --file")
	cmd.Flags().BoolVar(&log, "log", false, "print what was written on it")
	cmd.Args = atMostOne(needs("ID"), "yaml", "log")
	return cmd
}

// printTask prints a task for people.
func (a *app) printTask(t tipstaff.Task) {
	moment := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.RFC3339)
	}
	fields := []field{{"task", t.ID}, {"name", t.Name}, {"status", string(t.Status)}}
	if p := t.Pause; p != nil {
		fields = append(fields, field{"waits for", tipstaff.Joined(": ", p.Reason, p.Question)}, field{"options", strings.Join(p.Options, ", ")})
	}
	fields = append(fields, field{"iteration", fmt.Sprintf("%d of %d", t.Iteration, t.MaxIterations)}, field{"role", t.Role}, field{"worker", t.Worker},
		field{"review", t.Review}, field{"run", t.RunID}, field{"session", t.SessionID}, field{"of task", t.Parent}, field{"last outcome", t.LastOutcome})
	for _, in := range t.Inputs {
		fields = append(fields, field{"input", in.Path + in.Text})
	}
	for _, out := range t.Outputs {
		fields = append(fields, field{"output", tipstaff.Joined("  ", out.Kind, tipstaff.Joined("  ", out.Path, out.Note))})
	}
	for _, said := range t.Feedback {
		fields = append(fields, field{"feedback", fmt.Sprintf("%d  %s  %s  %s", said.Iteration, said.Verdict, said.By, said.Text)})
	}
	a.printFields(append(fields, field{"created", moment(t.CreatedAt)}, field{"started", moment(t.StartedAt)}, field{"ended", moment(t.CompletedAt)}, field{"revision", fmt.Sprint(t.Revision)})...)
	if t.Description != "" {
		fmt.Fprintln(a.out)
		for line := range strings.Lines(t.Description) {
			fmt.Fprintln(a.out, tipstaff.PrintableProse(strings.TrimRight(line, "\r\n")))
		}
	}
}

// taskOptions are those of the commands that drive a task.
type taskOptions struct {
	*app
	detachOptions
	worker     string
	fresh      bool
	unattended bool
}

func newTaskSpawn(a *app) *cobra.Command {
	o := &taskOptions{app: a}
	cmd := &cobra.Command{
		Use:   "spawn ID",
		Short: "Have a worker do a task",
		Long: `Start a run that does a pending task, and show it while it runs. After a failure it is
task resume. A task that waits for an answer or a review is refused.`,
		Example: "  tipstaff task spawn 010\n  tipstaff task spawn 010 --worker careful --unattended",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.spawn(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&o.worker, "worker", "", "the `worker` that is to do it (default: the task's own, else whoever its role is bound to)")
	o.flags(cmd)
	return cmd
}

func (o *taskOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.fresh, "fresh", false, "after a failure: begin another session of the worker")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	o.detachOptions.flags(cmd)
}

func (o *taskOptions) spawn(ctx context.Context, id string) error {
	limit, err := o.limit(o.app)
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, OpenOptions{Starts: true, MaxRuns: limit})
	if err != nil {
		return err
	}
	t, err := o.session.Tasks().Get(ctx, id)
	if err != nil {
		return err
	}
	if t.RunID != "" && !t.Status.Ended() {
		_, waits, err := o.waitsAt(ctx, svc, t)
		if err == nil && waits != "" && waits != tipstaff.WaitsFailure {
			err = o.refuseWaiting(ctx, svc, t)
		}
		if err != nil {
			return err
		}
		return o.goOn(ctx, svc, t, "")
	}
	p := o.newPrompter(o.unattended || o.detach)
	req := tipstaff.StartRequest{Name: "task " + t.ID, Title: t.Name, Task: &tipstaff.TaskStart{ID: t.ID, Worker: o.worker}}
	req.Attended, req.Detach = p != nil, o.detach
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Start(ctx, req) })
	if err != nil {
		return err
	}
	if o.detach {
		return o.sayLaunched(ctx, svc, started)
	}
	return o.drive(ctx, svc, &started, p, p.asker(), 0)
}

func newTaskResume(a *app) *cobra.Command {
	o := &taskOptions{app: a}
	cmd := &cobra.Command{
		Use:   "resume ID [TEXT]",
		Short: "Answer a worker's question, or try again after a failure, and go on",
		Long: `Go on with a task. TEXT, or standard input with -, answers the question that the task
waits for; after a failure it is what the worker is told when it tries again.`,
		Example: "  tipstaff task resume 010 \"the second one\"\n  tipstaff task resume 010 --fresh",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return misuse(cmd, "%s needs ID, and at most a TEXT", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.resume(cmd.Context(), args[0], append(args, "")[1])
		},
	}
	o.flags(cmd)
	return cmd
}

func (o *taskOptions) resume(ctx context.Context, id, text string) error {
	if text == "-" {
		said, err := o.read("-")
		if err != nil {
			return err
		}
		text = string(said)
	}
	limit, err := o.limit(o.app)
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, OpenOptions{MaxRuns: limit})
	if err != nil {
		return err
	}
	t, err := o.session.Tasks().Get(ctx, id)
	if err != nil {
		return err
	}
	if t.RunID == "" || t.Status.Ended() {
		return tipstaff.Errorf(tipstaff.TaskTransition, "task %s is %s: there is nothing to go on with", t.ID, t.Status)
	}
	return o.goOn(ctx, svc, t, text)
}

// goOn decides the gate that a task waits at, if that asks for words or another try, and
// drives its run on.
func (o *taskOptions) goOn(ctx context.Context, svc tipstaff.Service, t tipstaff.Task, text string) error {
	g, waits, err := o.waitsAt(ctx, svc, t)
	if err != nil {
		return err
	}
	req := tipstaff.DecideRequest{Run: mustRun(t), Gate: g.ID.String()}
	p := o.newPrompter(o.unattended || o.detach)
	if p != nil && text == "" && !o.fresh && waits != tipstaff.WaitsFailure {
		waits = "" // whoever is there is asked
	}
	switch waits {
	case "":
		if t, err = o.session.Tasks().Get(ctx, t.ID); err != nil { // somebody may have answered meanwhile
			return err
		}
		if t.Status == tipstaff.TaskInProgress && (text != "" || o.fresh) {
			return busyTask(t, "its worker's session is busy")
		}
		if text != "" || o.fresh {
			return tipstaff.Errorf(tipstaff.WrongState, "task %s asks for nothing: it cannot be told anything now", t.ID)
		}
	case tipstaff.WaitsQuestion:
		if text == "" {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "task %s asks: %s", t.ID, tipstaff.Printable(g.Question)).
				WithCommand("answer it: tipstaff task resume %s TEXT", t.ID)
		}
		req.Action, req.Answer = "answer", jsonOf(text)
	case tipstaff.WaitsFailure:
		req.Action, req.Answer = "retry", retryAnswer(text, o.fresh)
	default:
		return o.refuseWaiting(ctx, svc, t)
	}
	if req.Action != "" {
		if err := o.mustTrust(); err != nil {
			return err
		}
		if _, err := svc.Decide(ctx, req); err != nil {
			return err
		}
	}
	before, err := svc.Get(ctx, req.Run)
	if err != nil {
		return err
	}
	started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: req.Run, Detach: o.detach, Presence: tipstaff.Presence{Attended: p != nil}})
	if tipstaff.CodeOf(err) == tipstaff.Busy {
		return busyTask(t, err.Error())
	}
	if err != nil {
		return err
	}
	if o.detach {
		return o.sayLaunched(ctx, svc, started)
	}
	return o.drive(ctx, svc, &started, p, p.asker(), before.HeadSeq)
}

func busyTask(t tipstaff.Task, why string) error {
	return tipstaff.Errorf(tipstaff.SessionBusy, "task %s is being worked on: %s", t.ID, why).
		WithCommand("`tipstaff watch %s` shows it at work; it can be told something when it asks or has ended", t.RunID)
}

// retryAnswer is what another try is told; nil: nothing.
func retryAnswer(text string, fresh bool) json.RawMessage {
	answer := map[string]any{}
	if text != "" {
		answer["text"] = text
	}
	if fresh {
		answer["fresh"] = true
	}
	if len(answer) == 0 {
		return nil
	}
	return jsonOf(answer)
}

// mustRun is the run of a task that has one.
func mustRun(t tipstaff.Task) tipstaff.ID {
	id, _ := tipstaff.ParseID(t.RunID) // the store has checked it
	return id
}

// waitsAt is the gate that a task waits at, and what for; "": at none.
func (a *app) waitsAt(ctx context.Context, svc tipstaff.Service, t tipstaff.Task) (tipstaff.Gate, string, error) {
	run, err := svc.Get(ctx, mustRun(t))
	g, waits, _ := t.WaitsAt(run.OpenGates)
	return g, waits, err
}

// refuseWaiting says what a task waits for, and how that is answered.
func (a *app) refuseWaiting(ctx context.Context, svc tipstaff.Service, t tipstaff.Task) error {
	run, err := svc.Get(ctx, mustRun(t))
	if err != nil {
		return err
	}
	g, waits, _ := t.WaitsAt(run.OpenGates)
	if !a.json {
		a.saySteps(ctx, svc, topRun(ctx, svc, run), time.Time{})
	}
	return tipstaff.Errorf(tipstaff.TaskBusy, "task %s waits for a decision (%s): %s", t.ID, waits, tipstaff.Printable(g.Question))
}

func newTaskSet(a *app) *cobra.Command {
	var c tipstaff.TaskChange
	var file string
	cmd := &cobra.Command{
		Use:   "set ID [STATUS]",
		Short: "Change a task: its status, or its document",
		Long: `Give a task another status, as far as a person can: abandoned cancels its run. Or take
over an edited document, as task show --yaml prints it: name and metadata can be
changed at any time; description, role, worker, review, max_iterations and inputs
while the task is pending. A document that is older than the task is refused.

A task that waits for a review is decided by it.`,
		Example: "  tipstaff task set 010 abandoned --why \"not needed\"\n  tipstaff task set 010 --file task.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || (len(args) == 2) == cmd.Flags().Changed("file") {
				return misuse(cmd, "%s needs ID, and STATUS or --file", cmd.CommandPath())
			}
			return atMostOne(cobra.ArbitraryArgs, "why", "file")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c.ID, c.To = args[0], tipstaff.TaskStatus(append(args, "")[1])
			if file != "" {
				var src tipstaff.Source
				if src, err = a.source(file); err != nil {
					return err
				}
				c.Document, c.File = src.Text, src.Name
			}
			return a.changeTask(cmd.Context(), func(ctx context.Context, tasks tipstaff.Tasks) (tipstaff.Task, error) { return tasks.Set(ctx, c) })
		},
	}
	cmd.Flags().StringVar(&c.Why, "why", "", "a `text` for the record")
	cmd.Flags().StringVar(&file, "file", "", "an edited document of the task: a `file`, - for standard input")
	return cmd
}

func newTaskFeedback(a *app) *cobra.Command {
	var v tipstaff.TaskReview
	var file string
	cmd := &cobra.Command{
		Use:   "feedback ID VERDICT",
		Short: "Review a task: approved, or rejected with what is wrong",
		Long: `Decide the review that a task waits for. VERDICT is approved or rejected; a rejection
says what is wrong, and the worker is told. A decision starts nothing: task resume does.`,
		Example: "  tipstaff task feedback 010 approved\n  tipstaff task feedback 010 rejected -m \"the tests are missing\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			v.ID, v.Verdict = args[0], args[1]
			if file != "" {
				text, err := a.read(file)
				if err != nil {
					return err
				}
				v.Text = string(text)
			}
			return a.changeTask(cmd.Context(), func(ctx context.Context, tasks tipstaff.Tasks) (tipstaff.Task, error) { return tasks.Feedback(ctx, v) })
		},
	}
	cmd.Flags().StringVarP(&v.Text, "message", "m", "", "what is wrong: a `text`")
	cmd.Flags().StringVar(&file, "file", "", "the same as a `file`, - for standard input")
	cmd.Args = atMostOne(needs("ID", "VERDICT"), "message", "file")
	return cmd
}

// atMostOne refuses flags that say the same thing twice.
func atMostOne(check cobra.PositionalArgs, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if both := given(cmd, slices.Clone(flags)...); len(both) > 1 {
			return misuse(cmd, "--%s and --%s do not go together", both[0], both[1])
		}
		return check(cmd, args)
	}
}

// changeTask changes a task and tells what it is now.
func (a *app) changeTask(ctx context.Context, change func(context.Context, tipstaff.Tasks) (tipstaff.Task, error)) error {
	tasks, err := a.tasks(toWrite)(ctx)
	if err != nil {
		return err
	}
	t, err := change(ctx, tasks)
	if err != nil {
		return err
	}
	err = a.print(t, func() { a.row("%-4s  %-12s  %s", t.ID, t.Status, clean(t.Name)) })
	if err == nil && !a.json && t.RunID != "" && !t.Status.Ended() {
		fmt.Fprintf(a.err, "to go on:\n  %s\n", a.invocation("task", "resume", t.ID))
	}
	return err
}

func (a *app) completeTask(ctx context.Context, _ []string, _ string) (ids []string) {
	tasks, err := a.tasks(toRead)(ctx)
	if err != nil {
		return nil
	}
	list, _ := tasks.List(ctx, tipstaff.TaskQuery{})
	for _, t := range list {
		ids = append(ids, cobra.CompletionWithDesc(t.ID, clean(string(t.Status)+" "+t.Name)))
	}
	return ids
}

func completeVerdict(*app, context.Context, []string, string) []string {
	return []string{tipstaff.VerdictApproved, tipstaff.VerdictRejected}
}

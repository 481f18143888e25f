package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type forkOptions struct {
	*app
	at string

	// Of pipelines:
	rollback          bool
	thread, label     string
	outputs, metadata []string
	raise             []string

	resume, unattended bool
}

func newFork(a *app) *cobra.Command {
	o := &forkOptions{app: a}
	cmd := &cobra.Command{
		Use:   "fork RUN",
		Short: "Make a new run from the beginning of another, or roll a pipeline back",
		Long: `Make a new run that inherits the records of another up to --at. By default these
are the ones before the effect that made it fail, else all. Nothing is driven:
tipstaff resume does that, or --resume.

A pipeline is forked at a boundary between its turns: a checkpoint, the newest of a
stage, or the last one before a record. Its data is as it was there; its counters
stay as high as they are. With --rollback the new run takes the place of this one,
which ends. With --label nothing is forked: a checkpoint gets a name.`,
		Example: `  tipstaff fork @
  tipstaff fork 01JCQ8 --at 12
  tipstaff fork @ --at stage:critic --rollback --set-output critic='{"verdict":"ok"}' --resume
  tipstaff fork @ --label before-the-review`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("at") && o.at == "":
				return &usageError{message: "--at needs a record, a checkpoint or stage:NAME"}
			case cmd.Flags().Changed("label") && o.label == "":
				return &usageError{message: "--label needs a name"}
			case o.unattended && !o.resume:
				return &usageError{message: "--unattended is for --resume"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&o.at, "at", "", "the last record to inherit, by its seq; of a pipeline also a checkpoint or stage:NAME: a `place`")
	cmd.Flags().BoolVar(&o.rollback, "rollback", false, "take the place of the run, which ends")
	cmd.Flags().StringVar(&o.thread, "thread", "", "the `key` of the line of runs that the new run begins")
	cmd.Flags().StringArrayVar(&o.outputs, "set-output", nil, "an output that the new run has instead, as `key=JSON`; may be repeated")
	cmd.Flags().StringArrayVar(&o.metadata, "set-metadata", nil, "metadata that the new run has instead, as `key=JSON`; may be repeated")
	cmd.Flags().StringArrayVar(&o.raise, "raise", nil, "a bound that the new run has instead, as `name=n`; may be repeated")
	cmd.Flags().StringVar(&o.label, "label", "", "make no run: give the newest checkpoint, or that of --at, this `name`")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "drive the new run at once")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "with --resume: ask nobody, park at gates")
	o.hostFlag(cmd)
	return cmd
}

func (o *forkOptions) run(ctx context.Context, ref string) error {
	svc, id, err := o.openRun(ctx, ref, toWrite)
	if err != nil {
		return err
	}
	req, err := o.request(id)
	if err == nil && o.resume {
		err = o.mustTrust()
	}
	if err != nil {
		return err
	}
	if o.label != "" {
		c, err := svc.Label(ctx, tipstaff.LabelRequest{Run: id, Checkpoint: req.Checkpoint, Label: o.label})
		if err != nil {
			return err
		}
		return o.print(c, func() { o.printFields(field{"checkpoint", c.ID}, field{"stage", c.Stage}, field{"label", o.label}) })
	}
	var run tipstaff.Run
	if o.rollback {
		run, err = svc.Rollback(ctx, tipstaff.RollbackRequest{Run: id, Place: req.Place, Changes: req.Changes})
	} else {
		var fork tipstaff.Forked
		fork, err = svc.Fork(ctx, req)
		run = fork.Run
	}
	if err != nil {
		return err
	}
	if o.resume {
		fmt.Fprintf(o.err, "run %s, %s\n", run.ID, clean(lineageText(run.Lineage)))
		p := o.newPrompter(o.unattended)
		started, err := svc.Resume(ctx, tipstaff.ResumeRequest{Run: run.ID, Presence: tipstaff.Presence{Attended: p != nil}})
		if err != nil {
			return err
		}
		return o.drive(ctx, svc, &started, p, p.asker(), run.HeadSeq)
	}
	return o.print(filled(run), func() {
		o.printFields(field{"run", run.ID.String()}, field{"from", lineageText(run.Lineage)})
		fmt.Fprintf(o.err, "to drive it:\n  %s\n", o.resumeLine(run.ID))
	})
}

// request is what the command line asks for.
func (o *forkOptions) request(run tipstaff.ID) (req tipstaff.ForkRequest, err error) {
	req = tipstaff.ForkRequest{Run: run, Thread: o.thread}
	if o.rollback && o.thread != "" {
		return req, &usageError{message: "a rollback keeps its thread: only a fork has another"}
	}
	if err := o.place(&req); err != nil {
		return req, err
	}
	changes := o.rollback || o.thread != "" || len(o.outputs)+len(o.metadata)+len(o.raise) > 0
	if o.label != "" && (o.resume || req.At != 0 || req.Stage != "" || changes) {
		return req, &usageError{message: "--label names a checkpoint, and makes no run", hint: "tipstaff fork RUN --label NAME [--at CHECKPOINT]"}
	}
	if err := assignments("set-output", "JSON", o.outputs, &req.Outputs, assignedJSON); err != nil {
		return req, err
	}
	if err := assignments("set-metadata", "JSON", o.metadata, &req.Metadata, assignedJSON); err != nil {
		return req, err
	}
	return req, assignments("raise", "n", o.raise, &req.Raise, func(_, name, value string) (n int64, err error) {
		if n, err = tipstaff.ParseRaise(name, value); err != nil {
			return 0, &usageError{message: fmt.Sprintf("--raise %s=%s is not a bound and an amount", name, value), hint: "write --raise max_iterations=5"}
		}
		return n, nil
	})
}

func assignedJSON(flag, name, value string) (json.RawMessage, error) {
	if !json.Valid([]byte(value)) {
		return nil, &usageError{message: fmt.Sprintf("--%s %s: the value is not JSON", flag, name), hint: `text stands in quotes: name='"like this"'`}
	}
	return json.RawMessage(value), nil
}

// place reads --at: a record's number, a checkpoint or stage:NAME.
func (o *forkOptions) place(req *tipstaff.ForkRequest) error {
	place, ok := tipstaff.ParsePlace(o.at)
	if !ok {
		return &usageError{message: fmt.Sprintf("--at %s is not a record, checkpoint or stage", tipstaff.ShellWord(o.at)),
			hint: "it is a number that tipstaff events RUN prints, an id that tipstaff show RUN --checkpoints prints, or stage:NAME"}
	}
	req.Place = place
	return nil
}

// assignments reads flags of the form name=value into a map, which is made if need be.
func assignments[T any](flag, form string, texts []string, into *map[string]T, parse func(flag, name, value string) (T, error)) error {
	given := map[string]bool{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "":
			return &usageError{message: fmt.Sprintf("--%s %q has no name and value", flag, text), hint: fmt.Sprintf("write --%s name=%s", flag, form)}
		case given[name]:
			return &usageError{message: fmt.Sprintf("--%s %s is given twice", flag, name)}
		}
		v, err := parse(flag, name, value)
		if err != nil {
			return err
		}
		if *into == nil {
			*into = map[string]T{}
		}
		(*into)[name], given[name] = v, true
	}
	return nil
}

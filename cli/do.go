package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type doOptions struct {
	runOptions
	draft   tipstaff.DraftRequest
	planOut string
}

func newDo(a *app) *cobra.Command {
	o := &doOptions{runOptions: runOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "do PROSE",
		Short: "Have a plan drafted, accept it, and run it",
		Long: `Say what is wanted. A model drafts a plan for it, with the tools that the skill
allows and no others. You are shown the plan, and nothing of it runs before you have
accepted it. What must be known first you are asked.

PROSE is what you want, in your own words; - reads it from standard input.

At a terminal you are asked. Otherwise, or with --unattended, the run parks, the
commands that answer it are printed, and the exit code is 4. A plan that you reject
ends the run with exit code 8.`,
		Example: `  tipstaff do "Write release notes from the last ten commits"
  tipstaff do "Tidy up the notes" --skill skill://notes@1.0.0 --plan-out plan.json --draft-only
  tipstaff do - --yes < wish.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneMessage("PROSE")(cmd, args)
			}
			return needs("PROSE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.draft.Skill, "skill", "", "the skill to draft for, as a `URI` (default default_skill of tipstaff.yaml)")
	cmd.Flags().StringVar(&o.draft.Agent, "agent", "", "who drafts: an agent of tipstaff.yaml, by its `name` (default \"default\")")
	cmd.Flags().StringVar(&o.planOut, "plan-out", "", "write the drafted plan to this `file`")
	cmd.Flags().BoolVar(&o.draft.Only, "draft-only", false, "stop when the plan is drafted; it waits to be accepted")
	cmd.Flags().Lookup("yes").Usage = "accept the plan, and approve its own gates, in advance; the record says so"
	cmd.Flags().Lookup("dry-run").Usage = "check skill, agent and flags; ask no model"
	_ = cmd.MarkFlagFilename("plan-out") // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("skill", a.completeSkill)
	return cmd
}

func (o *doOptions) run(ctx context.Context, prose string) error {
	o.file = prose
	if err := o.request(); err != nil {
		return err
	}
	var waits []string
	if o.planOut != "" {
		waits = []string{"plan-out"}
	}
	limit, err := o.limit(o.app, waits...)
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, OpenOptions{ReadOnly: o.dryRun, Starts: !o.dryRun, MaxRuns: limit})
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.check(ctx, svc)
	}
	p := o.newPrompter(o.unattended || o.detach || fromStdin(o.file, o.inputsFile) > 0)
	o.draft.Attended, o.draft.Detach = p != nil, o.detach
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Draft(ctx, o.draft) })
	if err != nil {
		return err
	}
	if o.detach {
		return o.sayLaunched(ctx, svc, started)
	}
	out := &draftFile{name: o.planOut, svc: svc, run: started.Run}
	started.Outline = nil // nothing is in it before there is a plan
	err = o.drive(ctx, svc, &started, p, o.asker(p, out), 0)
	if lost := out.keep(context.WithoutCancel(ctx)); lost != nil {
		o.report(lost)
		if err == nil {
			err = status(exitFailed)
		}
	}
	return err
}

// asker puts gates to the person, except the acceptance of what is only to be drafted.
// The plan is written to its file before anybody is asked to accept it.
func (o *doOptions) asker(p *prompter, out *draftFile) tipstaff.Ask {
	if p == nil {
		return nil
	}
	return func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
		if s := tipstaff.DraftOf(g); s != nil && o.planOut != "" {
			if err := out.write(ctx, s.ProgramDigest); err != nil {
				o.report(err)
			}
		}
		if o.draft.Only && g.Kind == tipstaff.Confirmation {
			return tipstaff.Choice{}, false
		}
		return p.ask(ctx, g)
	}
}

func (o *doOptions) request() (err error) {
	if o.draft.Only && o.yes {
		return &usageError{message: "--yes accepts the plan and --draft-only does not: give only one of them"}
	}
	prose := o.file
	if prose == "-" {
		if o.inputsFile == "-" {
			return &usageError{message: "the request and --inputs cannot both come from standard input"}
		}
		b, err := o.read("-")
		if err != nil {
			return err
		}
		prose = string(b)
	}
	if strings.TrimSpace(prose) == "" {
		return &usageError{message: "nothing is said about what is to be done", hint: `say it: tipstaff do "Write release notes"`}
	}
	o.draft.Prose, o.draft.Title = strings.TrimSpace(strings.ToValidUTF8(prose, "\ufffd")), titleOf(prose)
	o.draft.Yes, o.draft.AllowSubDispatch = o.yes, o.allowSubDispatch
	o.draft.Inputs, err = o.readInputs()
	return err
}

// check says whether a plan could be drafted.
func (o *doOptions) check(ctx context.Context, svc tipstaff.Service) error {
	req := tipstaff.ValidateRequest{Draft: &o.draft}
	if o.json {
		return o.outline(ctx, svc, req)
	}
	if _, err := svc.Validate(ctx, req); err != nil {
		return err
	}
	fmt.Fprintln(o.out, "a plan could be drafted; no model was asked")
	return nil
}

// draftFile is where --plan-out wants the drafted plan.
type draftFile struct {
	name    string // "": nowhere
	svc     tipstaff.Service
	run     tipstaff.ID
	written string // the digest of the plan that the file holds
}

// keep sees to it that the file holds the plan that was drafted, also where nobody
// was asked.
func (f *draftFile) keep(ctx context.Context) error {
	if f.name == "" {
		return nil
	}
	digest := ""
	for ev, err := range f.svc.Events(ctx, tipstaff.EventsRequest{Run: f.run}) {
		if err != nil {
			return err
		}
		if ev.Kind == tipstaff.KindPlanDrafted {
			digest = tipstaff.BodyOf[tipstaff.PlanDrafted](&ev).ProgramDigest
		}
	}
	if digest == "" {
		return nil
	}
	return f.write(ctx, digest)
}

func (f *draftFile) write(ctx context.Context, digest string) error {
	if f.written == digest {
		return nil
	}
	raw, err := f.svc.Artifact(ctx, f.run, digest)
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "  "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	if err := os.WriteFile(f.name, indented.Bytes(), 0o644); err != nil {
		return tipstaff.Errorf(tipstaff.Internal, "the plan is not written: %v", err).WithHint("it is kept with the run all the same")
	}
	f.written = digest
	return nil
}

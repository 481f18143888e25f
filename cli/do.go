package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type doOptions struct {
	runOptions
	prose     string
	skill     string
	agent     string
	planOut   string
	draftOnly bool
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
		Args:              oneProse,
		ValidArgsFunction: completed(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file, o.prose = args[0], args[0]
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.skill, "skill", "", "the skill to draft for, as a `URI` (default default_skill of tipstaff.yaml)")
	cmd.Flags().StringVar(&o.agent, "agent", "", "who drafts: an agent of tipstaff.yaml, by its `name` (default \"default\")")
	cmd.Flags().StringVar(&o.planOut, "plan-out", "", "write the drafted plan to this `file`")
	cmd.Flags().BoolVar(&o.draftOnly, "draft-only", false, "stop when the plan is drafted; it waits to be accepted")
	cmd.Flags().Lookup("yes").Usage = "accept the plan, and approve its own gates, in advance; the record says so"
	cmd.Flags().Lookup("dry-run").Usage = "check skill, agent and flags; ask no model"
	_ = cmd.MarkFlagFilename("plan-out") // fails only for a flag that is not there
	_ = cmd.RegisterFlagCompletionFunc("skill", completed(a, completeSkill))
	return cmd
}

func oneProse(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return oneMessage("PROSE")(cmd, args)
	}
	return needs("PROSE")(cmd, args)
}

func (o *doOptions) run(ctx context.Context) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	svc, err := o.openFor(ctx, OpenOptions{ReadOnly: o.dryRun, Starts: !o.dryRun})
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.check(ctx, svc, req)
	}
	p := o.newPrompter(ctx, o.unattended || o.readsStdin())
	req.Attended = p != nil
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Draft(ctx, req) })
	if err != nil {
		return err
	}
	var out *draftFile
	if o.planOut != "" {
		out = &draftFile{name: o.planOut, svc: svc, run: started.Run}
	}
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
		if s := tipstaff.DraftOf(g); s != nil && out != nil {
			if err := out.write(ctx, s.ProgramDigest); err != nil {
				o.report(err)
			}
		}
		if o.draftOnly && g.Kind == tipstaff.Confirmation {
			return tipstaff.Choice{}, false
		}
		return p.ask(ctx, g)
	}
}

func (o *doOptions) request() (tipstaff.DraftRequest, error) {
	req := tipstaff.DraftRequest{Skill: o.skill, Agent: o.agent, Only: o.draftOnly, AllowSubDispatch: o.allowSubDispatch}
	req.Yes = o.yes
	if o.draftOnly && o.yes {
		return req, &usageError{message: "--yes accepts the plan and --draft-only does not: only one of them can be"}
	}
	if o.prose == "-" {
		if o.inputsFile == "-" {
			return req, &usageError{message: "the request and --inputs cannot both come from standard input"}
		}
		b, err := o.read("-")
		if err != nil {
			return req, err
		}
		o.prose = string(b)
	}
	if strings.TrimSpace(o.prose) == "" {
		return req, &usageError{message: "nothing is said about what is to be done", hint: `say it: tipstaff do "Write release notes"`}
	}
	req.Prose, req.Title = strings.TrimSpace(strings.ToValidUTF8(o.prose, "\ufffd")), titleOf(o.prose)
	var err error
	req.Inputs, err = o.readInputs()
	return req, err
}

// check says whether a plan could be drafted.
func (o *doOptions) check(ctx context.Context, svc tipstaff.Service, draft tipstaff.DraftRequest) error {
	req := tipstaff.ValidateRequest{Draft: &draft}
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
	name    string
	svc     tipstaff.Service
	run     tipstaff.ID
	mu      sync.Mutex
	written string // the digest of the plan that the file holds
}

// keep sees to it that the file holds the plan that was drafted, also where nobody
// was asked.
func (f *draftFile) keep(ctx context.Context) error {
	if f == nil {
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
	f.mu.Lock()
	defer f.mu.Unlock()
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

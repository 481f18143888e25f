package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/delivery"
	docs "github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// A program whose agents change files does so in a worktree of its own, or in the user's
// checkout. One in a worktree is wrapped by package delivery: the worktree is made before
// it, and what has changed there is handed over after it.

// prepareFiles settles where the agents of a program work.
func (r *Runner) prepareFiles(ctx context.Context, p *prepared, noFiles bool) error {
	mode, deliver := p.text.files().Mode, p.text.deliver()
	if mode == "" && (deliver != nil || p.writes) {
		mode = docs.FilesWorktree
	}
	switch {
	case mode == "" || mode == docs.FilesNone:
		return nil
	case mode == docs.FilesCheckout && noFiles:
		return tipstaff.Errorf(tipstaff.Refused, "a program that was sent cannot work in the checkout").WithHint("say files: worktree")
	case mode == docs.FilesCheckout:
		p.files = &tipstaff.RunFiles{Mode: mode}
		return nil
	case r.Git == nil:
		return tipstaff.Errorf(tipstaff.Refused, "there is no git here, and the program needs a worktree")
	}
	repo, err := delivery.Open(ctx, r.Git, r.Workspace)
	if err != nil {
		return err
	}
	if err := p.mayGive(ctx, noFiles); err != nil {
		return err
	}
	base := "HEAD"
	if deliver != nil {
		base = deliver.Base
	}
	commit, err := repo.Resolve(ctx, base)
	if tipstaff.CodeOf(err) == tipstaff.InvalidArgument {
		return tipstaff.Errorf(tipstaff.InvalidProgram, "deliver.base: %v", err)
	}
	if err != nil {
		return err
	}
	place := repo.Place
	p.files = &tipstaff.RunFiles{Mode: mode, Place: &place, Base: commit}
	if changed, err := repo.Dirty(ctx); err == nil && len(changed) > 0 {
		p.warnings = append(p.warnings, tipstaff.Problem{Code: "checkout_dirty", Message: fmt.Sprintf(
			"the checkout has changes that are not committed (%s): the worktree begins without them", some(changed))})
	}
	return p.checkChecks()
}

// checkURI is the tool that a check is, as far as its gate is concerned.
const checkURI = "mcp://" + builtin.Name + "/exec@" + builtin.Version

// mayGive refuses to give a worktree ignored files of the checkout, which often are secrets,
// because somebody says so who may not decide. The manifest may.
func (p *prepared) mayGive(ctx context.Context, noFiles bool) error {
	given := p.text.files().Prepare
	if len(given.Copy)+len(given.Link) == 0 {
		return nil
	}
	asks, err := p.handed.asks(ctx)
	if err != nil || !noFiles && askEffects(asks) == nil {
		return err
	}
	own := preparation(p.manifest, docs.Files{})
	for _, list := range []struct {
		name        string
		asked, open []string
	}{{"copy", given.Copy, own.Copy}, {"link", given.Link, own.Link}} {
		for _, pattern := range list.asked {
			if !slices.Contains(list.open, pattern) {
				return tipstaff.Errorf(tipstaff.Refused, "a program that was sent cannot have ignored files of the checkout: files.%s names %s", list.name, tipstaff.Quote(pattern, 100)).
					WithHint("name it in worktree.%s of tipstaff.yaml", list.name)
			}
		}
	}
	return nil
}

// preparation is what a worktree is given: what the manifest says, and what the program adds.
func preparation(m *workspace.Manifest, f docs.Files) (p docs.Preparation) {
	if m != nil && m.Worktree != nil {
		p = *m.Worktree
	}
	return p.With(f.Prepare)
}

// commands are those that the run starts by itself, each with where it stands: checks, and
// those that make the worktree ready.
func (p *prepared) commands() (all []placedCheck) {
	given := preparation(p.manifest, p.text.files())
	for _, phase := range []struct {
		name     string
		commands []docs.Command
	}{{"setup", given.Setup}, {"teardown", given.Teardown}} {
		for i, c := range phase.commands {
			all = append(all, placedCheck{fmt.Sprintf("%s[%d]", phase.name, i), phase.name, docs.DeliverCheck{Name: strings.Join(c.Run, " "), Run: c.Run}})
		}
	}
	if d := p.text.deliver(); d != nil {
		for i, c := range d.Checks {
			all = append(all, placedCheck{fmt.Sprintf("deliver.checks[%d]", i), "check", c})
		}
	}
	return all
}

type placedCheck struct {
	at, what string
	docs.DeliverCheck
}

// checkChecks refuses a check, or a set-up, that could never run, before there is a run.
func (p *prepared) checkChecks() error {
	gate := checkGate(tool.NewGate(nil, p.manifest, p.tools))
	var problems []tipstaff.Problem
	for _, c := range p.commands() {
		v := gate.Ask(checkRequest(c.DeliverCheck, ""))
		err := v.Err
		if server, _ := p.manifest.Server(builtin.Name); err == nil && !slices.Contains(server.Programs, c.Run[0]) {
			err = &flow.Error{Code: "undeclared_program", Message: fmt.Sprintf("%q is not among the programs that the manifest lists for %s", c.Run[0], builtin.Name)}
		}
		if err != nil {
			problems = append(problems, tipstaff.Problem{Code: err.Code, Path: c.at, Message: fmt.Sprintf("%s %s may not be run: %s", c.what, c.Name, err.Message)})
		}
	}
	if len(problems) > 0 {
		return &tipstaff.Error{Code: tipstaff.Refused, Message: "the program has commands that may not be run", Problems: problems}
	}
	return nil
}

// checkGate is a gate at which checks are asked about: the document declares the commands
// that it brings, and brings no right to run them.
func checkGate(g *tool.Gate) *tool.Gate {
	own := *g
	own.AllowList = []string{checkURI}
	return &own
}

func checkRequest(c docs.DeliverCheck, path string) tool.Request {
	return tool.Request{URI: checkURI, Args: flow.JSON(map[string]any{"argv": c.Run}), Literal: true, Run: policy.Run{Path: path}}
}

// rootOf is the path under which the records of a program stand.
func rootOf(p program) string {
	if p.shared().wrapped(p) {
		return "" // and the program's own below it
	}
	return p.root()
}

// flowOf is what a run executes: the program, and around it what becomes of its files.
func flowOf(p program) flow.Func {
	c := p.shared()
	if !c.wrapped(p) {
		return p.flow
	}
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		var value json.RawMessage
		c.files.reset()
		_, outcome, err := delivery.Run(fc, c.delivery(), func(fc flow.Context, w delivery.Worktree) (made delivery.Produced, err error) {
			c.files.enter(w)
			if root := p.root(); root != "" {
				fc = fc.At(root)
			}
			if value, err = p.flow(fc, in); err == nil {
				made, err = c.produced(p, value)
			}
			return made, err
		})
		var halted *delivery.Halted
		if errors.As(err, &halted) {
			return nil, &declined{halted.Decision, halted}
		}
		var unready *flow.Error
		if errors.As(err, &unready) && unready.Code == delivery.CodeSetup {
			return nil, &plan.Failure{Reason: plan.Reason(unready), Code: unready.Code, Message: unready.Message}
		}
		if err != nil || c.text.deliver() == nil {
			return value, err
		}
		return withDelivery(value, outcome)
	}
}

// wrapped reports whether a program works in a worktree.
func (c *common) wrapped(p program) bool {
	switch p.(type) {
	case *planProgram, *pipelineProgram:
		return c.draft.Files != nil && c.draft.Files.Mode == docs.FilesWorktree
	}
	return false
}

// delivery is what the wrapper of the program is told.
func (c *common) delivery() delivery.Spec {
	s := delivery.Spec{Run: c.run, Title: cmp.Or(c.draft.Title, c.text.described().Name), Program: c.draft.ProgramDigest, Place: *c.draft.Files.Place,
		Base: c.draft.Files.Base, Deliver: c.text.deliver(), May: c.mayCheck, Line: c.line, Asked: c.asked, Earlier: c.draft.Rules < rulesDelivered}
	if !s.Earlier {
		s.Prepare = preparation(c.gate.Manifest, c.text.files())
	}
	if f := c.draft.Followup; f != nil {
		s.Parent = &delivery.Parent{Run: f.ParentRunID, Gate: f.Fixpoint()}
	}
	s.Release = func(p delivery.Produced) (bool, error) {
		release, err := pipeline.CompileRelease(s.Deliver.Release)
		if err != nil {
			return false, err
		}
		return release.Allows(p.Outputs, p.Waivers)
	}
	return s
}

// mayCheck asks the gate, and a person where the policy wants one, whether a check may be
// run.
func (c *common) mayCheck(fc flow.Context, check docs.DeliverCheck) error {
	v := checkGate(c.gate).Ask(checkRequest(check, fc.Path()))
	switch {
	case v.Err != nil:
		return v.Err
	case v.Do != policy.Ask:
		return nil
	}
	w := &walk{common: c, left: newRemainder(nil)}
	_, err := w.approval(fc, &plan.Node{ID: check.Name, Tool: checkURI}, v)
	return err
}

// produced is what the program has brought, for whoever decides about it.
func (c *common) produced(p program, value json.RawMessage) (made delivery.Produced, err error) {
	var res struct {
		Outputs json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(value, &res); err != nil {
		return made, err
	}
	made.Outputs, made.Notices = res.Outputs, c.files.noticed()
	// A follow-up is one iteration of the run that was first, whose line counts them on.
	iterations, most := int64(len(c.line)-1), c.draft.Bounds[tipstaff.BoundIterations]
	if p, ok := p.(*pipelineProgram); ok {
		made.Waivers, made.Findings = p.state.Waivers, pipeline.OpenFindings(&p.state)
		iterations, most = p.state.Iteration, p.state.MaxIterations
	}
	if most > 0 && iterations >= most {
		made.Exhausted = tipstaff.BoundIterations
	}
	return made, nil
}

// withDelivery puts the outcome among the outputs.
func withDelivery(value json.RawMessage, outcome tipstaff.DeliveryOutcome) (json.RawMessage, error) {
	var res, outputs map[string]json.RawMessage
	if err := json.Unmarshal(value, &res); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(res["outputs"], &outputs); err != nil || outputs == nil {
		outputs = map[string]json.RawMessage{}
	}
	outputs[pipeline.DeliveryKey] = flow.JSON(outcome)
	res["outputs"] = flow.JSON(outputs)
	return flow.JSON(res), nil
}

// workFiles is what is known of a run's files while it is driven.
type workFiles struct {
	mu       sync.Mutex
	worktree delivery.Worktree
	notices  map[string][]tipstaff.Notice // by the path of whoever they are about
}

func (f *workFiles) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notices = map[string][]tipstaff.Notice{}
}

func (f *workFiles) enter(w delivery.Worktree) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.worktree = w
}

func (f *workFiles) at() delivery.Worktree {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.worktree
}

func (f *workFiles) notice(path string, more []tipstaff.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(more) > 0 {
		f.notices[path] = append(f.notices[path], more...)
	}
}

// noticed are all of them, in the order of paths: branches end in any order.
func (f *workFiles) noticed() (all []tipstaff.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(f.notices)) {
		all = append(all, f.notices[path]...)
	}
	return all
}

// InWorktree reports whether the agents of the run work in a worktree of its own.
func (e *Environment) InWorktree() bool {
	f := e.program.shared().draft.Files
	return f != nil && f.Mode == docs.FilesWorktree
}

// Directory is where the agents of the run work. writes: one that may change files, for
// which the run needs a place.
func (e *Environment) Directory(writes bool) (string, error) {
	c := e.program.shared()
	f := c.draft.Files
	switch {
	case f != nil && f.Mode == docs.FilesWorktree:
		w := c.files.at()
		if !w.Present() {
			return "", tipstaff.Errorf(tipstaff.WorkerDirectory, "the worktree %s is gone", w.Path)
		}
		return filepath.Join(w.Path, filepath.FromSlash(f.Place.Prefix)), nil
	case f != nil || !writes:
		return e.r.Workspace, nil
	}
	return "", tipstaff.Errorf(tipstaff.WorkerDirectory, "the program has no place where files may be changed").WithHint("say files: worktree in the program")
}

// Environ is what programs of the run are told beside its markers: the ports of its worktree.
func (e *Environment) Environ() []string {
	return append(slices.Clone(e.Markers), e.program.shared().files.at().Environ()...)
}

// Watch looks at the user's repository before an agent works beside it. What it returns
// tells afterwards what has changed there, and what the agent has left in its worktree.
func (e *Environment) Watch(ctx context.Context, path string) (func(note func(flow.Event)) ([]tipstaff.Notice, []string), error) {
	c := e.program.shared()
	none := func(func(flow.Event)) ([]tipstaff.Notice, []string) { return nil, nil }
	if !e.InWorktree() {
		return none, nil
	}
	repo, err := delivery.At(ctx, e.r.Git, *c.draft.Files.Place)
	if err != nil {
		return none, err
	}
	w := c.files.at()
	repo = repo.With(w)
	if err := repo.Restore(ctx, w); err != nil {
		return none, err
	}
	before, err := repo.Fingerprint(ctx)
	if err != nil {
		return none, err
	}
	return func(note func(flow.Event)) ([]tipstaff.Notice, []string) {
		// An agent may leave a repository at which nobody can look. That is told: of the
		// agent it is known how it ended.
		ctx := context.WithoutCancel(ctx)
		w := c.files.at()
		var notices []tipstaff.Notice
		if err := repo.Restore(ctx, w); err != nil { // first: it makes way for whoever looks
			notices = append(notices, delivery.Unlooked(err))
		}
		after, err := repo.Fingerprint(ctx)
		if err != nil {
			return append(notices, delivery.Unlooked(err)), nil
		}
		notices = append(notices, delivery.Compare(before, after)...)
		limit := cmp.Or(e.r.Git.Limit, delivery.DefaultLimit)
		comparing, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("what is linked could not be compared within %s", limit))
		defer cancel()
		linked, err := e.r.Git.LinkedChanged(comparing, w)
		if notices = append(notices, linked...); err != nil {
			notices = append(notices, delivery.Unlooked(err))
		}
		recorded, keep, err := delivery.Recorded(ctx, repo, w, stageOf(path), e.r.Store.PutBlob, e.Redact)
		if errors.Is(err, delivery.ErrWorktreeMissing) {
			return append(notices, tipstaff.Notice{Code: tipstaff.BlockWorktree, Message: "the worktree is gone"}), nil
		}
		if err != nil {
			return append(notices, delivery.Unlooked(err)), nil
		}
		notices = append(notices, repo.Meddling()...)
		recorded.Notices = notices
		note(flow.Event{Kind: string(tipstaff.KindDiffRecorded), Body: recorded})
		return notices, keep
	}, nil
}

// deliveryActs are the activities of the wrapper.
func (e *Environment) deliveryActs() map[string]flow.Activity {
	c := e.program.shared()
	if c.draft.Files == nil || e.r.Git == nil {
		return nil
	}
	return delivery.Activities(delivery.Env{Git: e.r.Git, Worktrees: e.r.Worktrees, Put: e.r.Store.PutBlob, Lock: files.Lock, Check: e.check,
		Redact: e.Redact, Protection: applying(e.protection)})
}

// applying is what a protection means for changes that a person has looked at. What
// servers.builtin.writable opens by name is named, too.
func applying(p *workspace.Protection) delivery.Protection {
	return func(there []string) func(path string) (delivery.Protected, bool) {
		reviewed := sync.OnceValue(func() *workspace.Protection { return p.Reviewed().Making(there) })
		return func(path string) (delivery.Protected, bool) {
			f, opened, found := reviewed().Change(path)
			of := delivery.Protected{Reason: f.Why, Kind: tipstaff.ObeyedDecides, Apply: tipstaff.ApplyAsks}
			if f.Rule == workspace.RuleSetting {
				of.Kind = tipstaff.ObeyedElsewhere
			}
			switch {
			case f.Rule == workspace.RuleOwn:
				of.Apply = tipstaff.ApplyNever
			case opened:
				of.Apply = ""
			}
			return of, found
		}
	}
}

// check runs the command of a check, or of a set-up.
func (e *Environment) check(ctx context.Context, _ flow.Attempt, c delivery.Command) (exit int, output []byte, err error) {
	return e.r.program(ctx, c, e.Markers)
}

// program runs a program in the environment that those of builtin have. A path names one of
// the files among which it works, not that of the checkout.
func (r *Runner) program(ctx context.Context, c delivery.Command, markers []string) (exit int, output []byte, err error) {
	path, err := builtin.LookProgram(c.Dir, c.Argv[0])
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, &flow.Error{Code: flow.CodeTimeout, Message: "it took longer than " + c.Timeout.String()})
	defer cancel()
	done, err := supervisor.OutputEnd(ctx, supervisor.Command{Path: path, Args: c.Argv, Dir: c.Dir, Env: slices.Concat(builtin.Environment(os.Environ()), markers, c.Env)}, maxCheckOutput)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return done.Exit.Status(), append(done.Stdout, done.Stderr...), err
}

// maxCheckOutput is how much is kept of each output of a check: the end of it.
const maxCheckOutput = 1 << 20

// stageOf is the stage, with its visit, that a path lies in; of a plan the path itself.
func stageOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	if strings.Contains(first, "#") {
		return first
	}
	return strings.TrimSuffix(path, "/"+path[strings.LastIndexByte(path, '/')+1:])
}

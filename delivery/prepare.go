package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Before anybody works in a worktree it is made ready: files are put there, ports given, and
// the commands of its set-up run. After a crash they run again, as checks do.

// CodeSetup is the failure of a set-up.
const CodeSetup = "setup_failed"

// Command is a program that is run for a run, if the policy allows it.
type Command struct {
	Argv    []string
	Dir     string
	Timeout time.Duration
	Env     []string // beside what every program gets
}

// stepName names the i-th command of a phase.
func stepName(phase string, i int) string { return fmt.Sprintf("%s#%d", phase, i+1) }

type (
	stepInput struct {
		Place    Place            `json:"place"`
		Worktree Worktree         `json:"worktree"`
		Command  document.Command `json:"command"`
		Name     string           `json:"name"`
	}
	stepDone struct {
		Receipt tipstaff.Receipt  `json:"receipt"`
		Tail    string            `json:"tail,omitempty"` // of what it printed, if it failed
		Notices []tipstaff.Notice `json:"notices,omitempty"`
	}
)

// This part is deterministic: it asks a flow.Context for everything.

// prepare runs the set-up of a worktree that was just made.
func (d *run) prepare(made worktreeMade) error {
	p := d.Prepare
	if p.IsZero() && len(made.Placed)+len(made.LeftOut) == 0 {
		return nil
	}
	// All is asked before anything runs. When the worktree goes nobody may be there.
	for i, c := range p.Setup {
		if err := d.mayStep(stepName(tipstaff.PhaseSetup, i), c); err != nil {
			return err
		}
	}
	for i, c := range p.Teardown {
		if err := d.mayStep(stepName(tipstaff.PhaseTeardown, i), c); err != nil {
			return err
		}
	}
	body := tipstaff.WorktreePrepared{Copied: made.Copied, Bytes: made.Bytes, Ports: made.Ports, LeftOut: made.LeftOut, Submodules: p.Submodules, LFS: p.LFS}
	for _, l := range made.Linked {
		body.Linked = append(body.Linked, tipstaff.LinkedFile{Path: named(l.Path), Source: l.Source, Digest: l.Digest})
	}
	for _, c := range p.Teardown {
		body.Teardown = append(body.Teardown, tipstaff.TeardownCommand{Argv: c.Run, Timeout: c.Limit().String()})
	}
	d.at.Emit(flow.Event{Kind: string(tipstaff.KindWorktreePrepared), Body: body})
	for i, c := range p.Setup {
		if err := d.setUp(stepName(tipstaff.PhaseSetup, i), c); err != nil {
			return err
		}
	}
	return nil
}

func (d *run) mayStep(name string, c document.Command) error {
	if d.May == nil {
		return nil
	}
	err := d.May(d.at.At(name), document.DeliverCheck{Name: name, Run: c.Run, Timeout: c.Limit(), Required: true})
	var refused *flow.Error
	if errors.As(err, &refused) {
		return setupFailed("%s (%s) may not be run: %s: %s", name, strings.Join(c.Run, " "), refused.Code, refused.Message)
	}
	return err
}

func (d *run) setUp(name string, c document.Command) error {
	done, err := do[stepDone](d.at, flow.Call{Key: name, Name: ActSetup, Class: flow.Idempotent,
		Input: flow.JSON(stepInput{Place: d.Place, Worktree: d.worktree, Command: c, Name: name})})
	if err != nil {
		return err
	}
	d.notices = append(d.notices, done.Notices...)
	d.steps(tipstaff.PhaseSetup, done.Receipt)
	if !done.Receipt.Passed(done.Receipt.Tree) {
		return setupFailure(done.Receipt, done.Tail)
	}
	return nil
}

// steps records commands that have run.
func (d *run) steps(phase string, ran ...tipstaff.Receipt) {
	for _, r := range ran {
		d.at.Emit(flow.Event{Kind: string(tipstaff.KindSetupFinished), Body: tipstaff.SetupFinished{Phase: phase, Receipt: r}})
	}
}

// setupFailure says how a command of the set-up has failed, with the end of what it printed.
func setupFailure(r tipstaff.Receipt, tail string) *flow.Error {
	how := fmt.Sprintf("ended with status %d", r.ExitCode)
	if r.Code != "" {
		how = "failed: " + r.Code + ": " + r.Message
	}
	if tail != "" {
		tail = "\n" + tail
	}
	return setupFailed("%s (%s) %s%s", r.Name, strings.Join(r.Argv, " "), how, tail)
}

func setupFailed(format string, args ...any) *flow.Error {
	return &flow.Error{Code: CodeSetup, Message: fmt.Sprintf(format, args...), Answered: true}
}

// From here on it is what the activities do.

// give puts into a directory what the preparation names, and gives it ports.
func (e Env) give(ctx context.Context, r *Repo, dir, tree string, p document.Preparation) (g given, err error) {
	if g, err = r.give(ctx, dir, tree, p); err != nil {
		return g, err
	}
	g.Ports, err = e.givePorts(ctx, dir, p.Ports)
	return g, err
}

// notReady is the failure of a directory that could not be given what it needs.
func notReady(ctx context.Context, err error) error {
	var known *flow.Error
	if ctx.Err() != nil || errors.As(err, &known) || errors.Is(err, flow.ErrParked) || noRoom(err) {
		return err
	}
	return setupFailed("the files cannot be made ready: %v", err)
}

// setup runs one command of the set-up.
func (e Env) setup(ctx context.Context, a flow.Attempt, in stepInput) (done stepDone, keep []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return done, nil, err
	}
	if !in.Worktree.Present() {
		return done, nil, ErrWorktreeMissing
	}
	before, err := r.Fingerprint(ctx)
	if err != nil {
		return done, nil, err
	}
	receipt, output, keep, err := e.run(ctx, a, Command{Argv: in.Command.Run, Dir: placeWithin(in.Place, in.Worktree.Path), Timeout: in.Command.Limit(), Env: in.Worktree.Environ()})
	if err != nil {
		return done, nil, err
	}
	receipt.Name, receipt.Required, receipt.Tree = in.Name, true, in.Worktree.Base
	if done.Receipt = receipt; !receipt.Passed(receipt.Tree) {
		done.Tail = lastLines(output)
	}
	after, err := r.Fingerprint(ctx)
	if err != nil {
		return done, nil, err
	}
	done.Notices = Compare(before, after)
	return done, keep, nil
}

// run runs a program. What becomes of it is a receipt, also if it could not be started; err is
// of the run that is interrupted, or of the store.
func (e Env) run(ctx context.Context, a flow.Attempt, c Command) (r tipstaff.Receipt, output []byte, keep []string, err error) {
	started := time.Now()
	exit, output, err := e.Check(ctx, a, c)
	r = tipstaff.Receipt{Argv: c.Argv, ExitCode: exit, Ms: time.Since(started).Milliseconds()}
	if err != nil {
		var known *flow.Error
		switch {
		case errors.Is(err, flow.ErrParked), ctx.Err() != nil:
			return r, nil, nil, err
		case errors.As(err, &known):
			r.Code, r.Message = known.Code, known.Message
		default:
			r.Code, r.Message = "not_run", err.Error()
		}
	}
	if e.Redact != nil { // a program may print what it was given
		output, r.Message = e.Redact(output), string(e.Redact([]byte(r.Message)))
	}
	if len(output) > 0 {
		if r.Output, err = e.Put(ctx, output[max(0, len(output)-maxOutput):]); err != nil {
			return r, nil, nil, err
		}
		keep = append(keep, r.Output)
	}
	return r, output, keep, nil
}

// tearDown runs what is to run before a directory goes. What fails keeps nothing.
func (e Env) tearDown(ctx context.Context, a flow.Attempt, dir string, ports []int, commands []document.Command) (ran []tipstaff.Receipt, keep []string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, ignoreMissing(err)
	}
	for i, c := range commands {
		r, _, kept, err := e.run(ctx, a, Command{Argv: c.Run, Dir: filepath.Clean(dir), Timeout: c.Limit(), Env: portsEnv(ports)})
		if err != nil {
			return ran, keep, err
		}
		r.Name = stepName(tipstaff.PhaseTeardown, i)
		ran, keep = append(ran, r), append(keep, kept...)
	}
	return ran, keep, nil
}

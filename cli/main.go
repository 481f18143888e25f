package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
)

// Main runs one command and returns its exit code.
//
// ctx ends, with cause [*SignalError], when the process is asked to stop. That
// interrupts: a command that drives a run waits until the drive, which cmd stops
// by a context of its own, has come to rest, and says how to resume it.
func Main(ctx context.Context, args []string, env *Env) int {
	a := &app{
		env: env,
		out: &output{w: env.Stdout},
		err: &output{w: env.Stderr},
	}
	ctx = tipstaff.WithCaller(ctx, tipstaff.Caller{
		Surface:   "cli",
		User:      "local",
		Principal: "local:cli",
		Client:    "tipstaff/" + env.Version.Version,
	})
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.began {
		err = a.misused(args, err)
	}
	return a.finish(ctx, err)
}

// app is what the commands of one invocation share.
type app struct {
	env      *Env
	out, err *output
	session  Session
	began    bool // flags and arguments were accepted

	// Flags of every command.
	json       bool
	workspace  string
	server     string   // address of a daemon whose runs are meant; "": those of the workspace
	serverFlag string   // as the command line names it
	skills     string   // of those that have to do with skills
	hosts      []string // of those that drive pipelines: commands that serve remote stages
}

// misused is an error from before a command began: the invocation's. Flags
// behind the one that was wrong are not parsed, but --json is obeyed all the same.
func (a *app) misused(args []string, err error) error {
	a.json = a.json || slices.Contains(args, "--json")
	var u *usageError
	if errors.As(err, &u) {
		return u
	}
	return &usageError{message: err.Error(), hint: "tipstaff --help shows what there is"}
}

// finish closes what was opened, reports what went wrong and gives the exit code.
func (a *app) finish(ctx context.Context, err error) int {
	err = a.close(err)
	if failed := a.out.failure(); err == nil && failed != nil && !hungUp(failed) {
		err = failed
	}
	err = a.sayable(ctx, err)
	if err == nil {
		return exitDone
	}
	var (
		st  exitStatus
		sig *SignalError
	)
	if !errors.As(err, &st) && !errors.As(err, &sig) { // the one has spoken, the other knows
		a.report(err)
	}
	return exitCode(err)
}

// close keeps the command's own error in front of one from closing.
func (a *app) close(err error) error {
	if a.session == nil {
		return err
	}
	closing := a.session.Close()
	if err == nil {
		return closing
	}
	if closing != nil {
		a.report(closing)
	}
	return err
}

// sayable turns the two ends that are no failures of a command into what they
// are: a reader that left, and a signal.
func (a *app) sayable(ctx context.Context, err error) error {
	var sig *SignalError
	switch {
	case err == nil:
		return nil
	case hungUp(err) && hungUp(a.out.failure()):
		return nil
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &sig):
		return sig
	}
	return err
}

// open is the workspace's Service.
func (a *app) open(ctx context.Context, readOnly bool) (tipstaff.Service, error) {
	return a.openFor(ctx, OpenOptions{ReadOnly: readOnly})
}

// openToStart is the Service for a command that goes on to start a run.
func (a *app) openToStart(ctx context.Context) (tipstaff.Service, error) {
	return a.openFor(ctx, OpenOptions{Starts: true})
}

func (a *app) openFor(ctx context.Context, o OpenOptions) (tipstaff.Service, error) {
	if a.session == nil {
		s, err := a.connect(ctx, o)
		if err != nil {
			return nil, err
		}
		a.session = s
	}
	return a.session.Service(), nil
}

// connect opens the workspace, or turns to a server.
func (a *app) connect(ctx context.Context, o OpenOptions) (Session, error) {
	o.Workspace, o.Skills = a.workspaceDir(), a.skills
	if a.server == "" {
		return a.env.Open(ctx, o)
	}
	for flag, given := range map[string]bool{"policy": o.Policy != "", "skills": o.Skills != "", "host": len(a.hosts) > 0} {
		if given {
			return nil, &usageError{message: fmt.Sprintf("--%s is of this machine, and the run is at the server %s", flag, a.server)}
		}
	}
	return a.env.Connect(ctx, a.server, o.Workspace)
}

func (a *app) workspaceDir() string {
	if a.workspace != "" {
		return a.workspace
	}
	if dir := a.env.getenv("TIPSTAFF_WORKSPACE"); dir != "" {
		return dir
	}
	return "."
}

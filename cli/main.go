package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tipstaff/tipstaff"
)

// Main runs one command and returns its exit code.
//
// ctx ends, with cause [*SignalError], when the process is asked to stop. That
// interrupts: a command that drives a run waits until the drive, which cmd stops
// by a context of its own, has come to rest, and says how to resume it.
func Main(ctx context.Context, args []string, env *Env) int {
	ctx = tipstaff.WithCaller(ctx, tipstaff.Caller{
		Surface:   "cli",
		User:      "local",
		Principal: "local:cli",
		Client:    "tipstaff/" + env.Version.Version,
	})
	if env.Within != nil {
		ctx = tipstaff.Within(ctx, env.Within)
	}
	for {
		a := &app{
			env: env,
			out: &output{w: env.Stdout},
			err: &output{w: env.Stderr},
		}
		root := newRoot(a)
		root.SetArgs(append([]string{}, args...)) // cobra takes nil for the arguments of the process
		err := root.ExecuteContext(ctx)
		if err != nil && !a.began {
			err = a.misused(args, err)
		}
		if !a.trustsNow(ctx, err) || !a.close() {
			return a.finish(ctx, err)
		}
	}
}

// close closes what was opened, so that the command can begin anew.
func (a *app) close() bool {
	if a.session == nil {
		return true
	}
	err := a.session.Close()
	if a.session = nil; err != nil {
		a.report(err)
	}
	return err == nil
}

// app is what the commands of one invocation share.
type app struct {
	env      *Env
	out, err *output
	session  Session
	began    bool // flags and arguments were accepted
	alone    bool // nobody is to be asked

	// Flags of every command.
	json       bool
	trustAll   bool // every workspace
	strict     bool // of those that drive runs: one that ends partial has failed
	workspace  string
	server     string   // address of a daemon whose runs are meant; "": those of the workspace
	serverFlag string   // as the command line names it
	store      string   // likewise: where the runs are kept, if not in the workspace
	blobs      string   // and where their large payloads are, if not in that store
	engine     string   // likewise: what schedules their drives, if not servers themselves
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
// A reader of standard output that left is no failure.
func (a *app) finish(ctx context.Context, err error) int {
	if a.session != nil {
		if kept := a.session.Exit(exitCode(err), asProblem(err)); kept != nil {
			a.report(kept)
		}
		if closing := a.session.Close(); err == nil {
			err = closing
		} else if closing != nil {
			a.report(closing)
		}
	}
	if err == nil {
		err = a.out.failure()
	}
	var (
		st  exitStatus
		sig *SignalError
	)
	switch {
	case err == nil, hungUp(err) && hungUp(a.out.failure()):
		return exitDone
	case errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &sig):
		return exitCode(sig)
	case !errors.As(err, &st) && !errors.As(err, &sig): // an exitStatus was already reported, and a signal needs no report
		a.report(err)
	}
	return exitCode(err)
}

// asProblem is what went wrong with a command; nil: nothing did, or it was said elsewhere.
func asProblem(err error) error {
	if errors.As(err, new(exitStatus)) {
		return nil
	}
	return err
}

// Purposes of opening a workspace.
var (
	toRead  = OpenOptions{ReadOnly: true}
	toWrite = OpenOptions{}
	toStart = OpenOptions{Starts: true} // a run
)

// open opens the workspace, or turns to the server whose runs are meant.
func (a *app) open(ctx context.Context, o OpenOptions) (svc tipstaff.Service, err error) {
	o.Workspace, o.Store, o.Blobs, o.Engine, o.Skills = a.workspaceDir(), a.storeAddress(), a.blobsAddress(), a.engineAddress(), a.skills
	o.Warnings = a.err
	switch {
	case a.session != nil:
	case a.server == "":
		a.session, err = a.env.Open(ctx, o)
	case o.Policy != "":
		err = a.notAtServer("policy")
	case o.Skills != "":
		err = a.notAtServer("skills")
	case len(a.hosts) > 0:
		err = a.notAtServer("host")
	default:
		a.session, err = a.env.Connect(ctx, a.server, o.Workspace)
	}
	if err != nil {
		a.session = nil
		return nil, err
	}
	return a.session.Service(), nil
}

func (a *app) notAtServer(flag string) error {
	return &usageError{message: fmt.Sprintf("--%s cannot be used with --server: the run is at %s", flag, a.server)}
}

// openRun opens the workspace for a command about the run that ref names.
func (a *app) openRun(ctx context.Context, ref string, o OpenOptions) (tipstaff.Service, tipstaff.ID, error) {
	svc, err := a.open(ctx, o)
	if err != nil {
		return nil, tipstaff.ID{}, err
	}
	id, err := resolve(ctx, svc, ref)
	return svc, id, err
}

func (a *app) workspaceDir() string {
	return cmp.Or(a.workspace, a.env.getenv("TIPSTAFF_WORKSPACE"), ".")
}

// storeAddress is where the runs are kept, if not in the workspace.
func (a *app) storeAddress() string { return cmp.Or(a.store, a.env.getenv("TIPSTAFF_STORE")) }

// blobsAddress is where large payloads are kept, if not in the store.
func (a *app) blobsAddress() string { return cmp.Or(a.blobs, a.env.getenv("TIPSTAFF_BLOBS")) }

// engineAddress is what schedules drives, if not servers themselves.
func (a *app) engineAddress() string { return cmp.Or(a.engine, a.env.getenv("TIPSTAFF_ENGINE")) }

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "tipstaff",
		Short: "Run plans of AI agents: durable, bounded, answerable",
		Long: `Tipstaff runs plans. Every effect is journaled before the next one starts, a
person can be asked at any point, and a run that was broken off goes on where it
stood.

RUN is a run's id, a unique prefix of one, or @ for the newest run.

Exit codes: 0 done, 1 failed, 2 invalid invocation or document, 3 refused,
4 waiting, 5 bound exceeded, 6 integrity broken, 7 not conformant, 8 cancelled,
9 material, 10 the tool reported an error, 130 and 143 interrupted.`,
		Example: `  tipstaff run plan.yaml --input file=notes.md
  tipstaff ls
  tipstaff decide
  tipstaff verify @`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
		SilenceErrors:     true,
		SilenceUsage:      true,
	}
	root.Version = versionLine(a.env.Version)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.env.Stdin)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
	root.PersistentFlags().BoolVar(&a.trustAll, "trust", false, "start what the workspace names though nobody has trusted it: for CI and containers (default $TIPSTAFF_TRUST)")
	root.PersistentFlags().StringVar(&a.workspace, "workspace", "", "folder with tipstaff.yaml and .tipstaff/ (default $TIPSTAFF_WORKSPACE, else the current one)")
	root.PersistentFlags().StringVar(&a.serverFlag, "server", "", "the runs of a tipstaff serve at this `address`, like 127.0.0.1:50051 (default $TIPSTAFF_SERVER, else those of the workspace)")
	root.PersistentFlags().StringVar(&a.store, "store", "", "the `address` of a Postgres database with the runs, like postgres://user@host/name (default $TIPSTAFF_STORE, else the workspace has them)")
	root.PersistentFlags().StringVar(&a.blobs, "blobs", "", "the `address` of a bucket or shared folder for the large payloads of such a store, like s3://bucket/prefix?endpoint=https://host or file:///shared/folder (default $TIPSTAFF_BLOBS, else the database has them)")
	root.PersistentFlags().StringVar(&a.engine, "engine", "", "the `address` of a Temporal server that schedules the runs of that database, like temporal://host:7233/namespace (default $TIPSTAFF_ENGINE, else servers do)")
	_ = root.MarkPersistentFlagDirname("workspace") // fails only for a flag that is not there
	root.AddCommand(
		newRun(a), newDo(a), newChat(a), newLs(a), newShow(a), newEvents(a), newWatch(a), newDecide(a), newResume(a), newTask(a),
		newCancel(a), newFork(a), newVerify(a), newReplay(a), newExport(a), newMemory(a), newSkills(a), newTools(a), newWorkers(a), newSessions(a), newClassify(a), newServe(a), newMCP(a), newE2E(a), newInit(a), newTrust(a), newDoctor(a), newBackup(a), newStore(a), newMan(a), newVersion(a), newExec(a),
	)
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	a.prepare(root)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return a.bare(cmd) }
	return root
}

// prepare gives commands what follows from their use lines: each word after the name
// is an argument that is needed, and completed by its name; those in brackets may be
// left out together.
func (a *app) prepare(cmd *cobra.Command) {
	if cmd.HasSubCommands() {
		cmd.Args = noSuchCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, c := range cmd.Commands() {
			a.prepare(c)
		}
		return
	}
	_, words, _ := strings.Cut(cmd.Use, " ")
	names := strings.Fields(strings.Trim(words, "[]"))
	if cmd.Args == nil {
		cmd.Args = needs(names...)
		if strings.HasPrefix(words, "[") {
			cmd.Args = noneOr(cmd.Args)
		}
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(before) >= len(names) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			name := names[len(before)]
			if complete := completions[name]; complete != nil && a.chooseServer(cmd) == nil {
				ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
				defer cancel()
				if values := complete(a, ctx, before, typed); len(values) > 0 {
					return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
				}
			}
			if directive, ok := fileCompletions[name]; ok {
				return nil, directive
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// completionTime is how long somebody who presses Tab waits for a server.
const completionTime = time.Second

// remoteCommands are the commands that can be about the runs of a server.
var remoteCommands = []string{"run", "do", "chat", "ls", "show", "events", "watch", "decide", "resume", "cancel", "fork", "verify", "replay", "export", "sessions"}

// begin is called when flags and arguments were accepted.
func (a *app) begin(cmd *cobra.Command) error {
	a.began = true
	if a.trustAll && a.env.Trust != nil {
		if err := a.env.Trust.Everywhere(); err != nil {
			return err
		}
	}
	return a.chooseServer(cmd)
}

// chooseServer settles whose runs a command is about: those of a server, or of the
// workspace.
func (a *app) chooseServer(cmd *cobra.Command) error {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch {
	case slices.Contains(remoteCommands, cmd.Name()), !cmd.HasParent() && a.fullScreen(): // of which the inbox is one
		a.server = cmp.Or(a.serverFlag, a.env.getenv("TIPSTAFF_SERVER"))
	case a.serverFlag != "":
		return &usageError{message: fmt.Sprintf("%s works on a local workspace; --server does not apply", cmd.CommandPath())}
	}
	return nil
}

// noSuchCommand refuses whatever is left of a command line that named no
// command, and says which one was perhaps meant.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := &usageError{message: fmt.Sprintf("unknown command %q for %s", args[0], cmd.CommandPath()), hint: cmd.CommandPath() + " --help lists the commands"}
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		e.hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

func flagError(cmd *cobra.Command, err error) error {
	e := &usageError{message: err.Error(), hint: cmd.CommandPath() + " --help lists the flags"}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		e.message = fmt.Sprintf("%s has no flag --%s", cmd.CommandPath(), unknown.GetSpecifiedName())
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if near := tipstaff.Nearest(unknown.GetSpecifiedName(), known); near != "" {
			e.hint = "did you mean --" + near + "?"
		}
	}
	return e
}

// needs checks that exactly the named arguments are there.
func needs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misuse(cmd, "%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return misuse(cmd, "%s takes no argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// with opens what a command works on, and calls do with it.
func with[T any](open func(context.Context) (T, error), do func(ctx context.Context, opened T, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		opened, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return do(cmd.Context(), opened, args)
	}
}

func noneOr(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return check(cmd, args)
	}
}

func misuse(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), hint: "usage: " + cmd.UseLine()}
}

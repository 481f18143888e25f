package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tipstaff/tipstaff"
)

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
		Args:              noSuchCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
	}
	root.SetIn(a.env.Stdin)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
	root.PersistentFlags().StringVar(&a.workspace, "workspace", "", "folder with tipstaff.yaml and .tipstaff/ (default $TIPSTAFF_WORKSPACE, else the current one)")
	root.PersistentFlags().StringVar(&a.serverFlag, "server", "", "the runs of a tipstaff serve at this `address`, like 127.0.0.1:50051 (default $TIPSTAFF_SERVER, else those of the workspace)")
	_ = root.MarkPersistentFlagDirname("workspace") // fails only for a flag that is not there
	root.AddCommand(
		newRun(a), newDo(a), newChat(a), newLs(a), newShow(a), newEvents(a), newWatch(a), newDecide(a), newResume(a),
		newCancel(a), newFork(a), newVerify(a), newReplay(a), newExport(a), newMemory(a), newSkills(a), newTools(a), newClassify(a), newServe(a), newDoctor(a), newBackup(a), newVersion(a),
	)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = noSuchCommand
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// remotely are the commands that can be about the runs of a server.
var remotely = []string{"run", "do", "chat", "ls", "show", "events", "watch", "decide", "resume", "cancel", "fork", "verify", "replay", "export"}

// begin is called when flags and arguments were accepted. It settles whose runs are
// meant.
func (a *app) begin(cmd *cobra.Command) error {
	a.began = true
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch {
	case slices.Contains(remotely, cmd.Name()):
		a.server = a.serverFlag
		if a.server == "" {
			a.server = a.env.getenv("TIPSTAFF_SERVER")
		}
	case a.serverFlag != "":
		return &usageError{message: fmt.Sprintf("%s is about a workspace of this machine, and --server names another", cmd.CommandPath())}
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
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			e.hint = "did you mean --" + near + "?"
		}
	}
	return e
}

func nearestFlag(cmd *cobra.Command, name string) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return tipstaff.Nearest(name, known)
}

// needs checks that exactly the named arguments are there.
func needs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return &usageError{
				message: fmt.Sprintf("%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and ")),
				hint:    "usage: " + cmd.UseLine(),
			}
		case len(args) > len(names):
			return &usageError{
				message: fmt.Sprintf("%s takes no argument %q", cmd.CommandPath(), args[len(names)]),
				hint:    "usage: " + cmd.UseLine(),
			}
		}
		return nil
	}
}

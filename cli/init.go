package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

type initOptions struct {
	*app
	agent, mcp, python bool
	worker             string
}

func newInit(a *app) *cobra.Command {
	o := &initOptions{app: a}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Begin a workspace: files that run at once",
		Long: `Write what a workspace begins with into DIR, which is made if need be: tipstaff.yaml,
which says what may be used there, a plan with a gate, and in a git repository a pipeline
whose worker changes a file. It works at once, without a key and without a network, and
the commands that are printed try it. With the key of a vendor of models in the
environment there is an agent, too.

Files that are there already stay as they are; if tipstaff.yaml is one of them nothing is
written. In a git repository .tipstaff/ is added to .gitignore. What init has written is
trusted (tipstaff trust).`,
		Example: `  tipstaff init
  tipstaff init ~/notes --agent
  tipstaff init --worker claude
  tipstaff init --python
  tipstaff init --mcp -- uvx mcp-server-time`,
		Args: func(cmd *cobra.Command, args []string) error {
			dir, command := args, []string(nil)
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				dir, command = args[:dash], args[dash:]
			}
			switch {
			case len(dir) > 1:
				return misuse(cmd, "%s takes no argument %q", cmd.CommandPath(), dir[1])
			case o.mcp && len(command) == 0:
				return misuse(cmd, "--mcp needs the command that starts the server, behind --: %s --mcp -- uvx mcp-server-time", cmd.CommandPath())
			case !o.mcp && len(command) > 0:
				return misuse(cmd, "a command behind -- goes with --mcp")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var command []string
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
			}
			if len(args) > 0 {
				a.workspace = args[0]
			}
			return o.run(cmd.Context(), command)
		},
	}
	cmd.Flags().BoolVar(&o.agent, "agent", false, "with an agent for tipstaff chat, also if no key of a vendor of models is set")
	cmd.Flags().StringVar(&o.worker, "worker", "", "the coding CLI that makes changes: claude, codex, gemini, opencode, cursor, or scripted")
	cmd.Flags().BoolVar(&o.python, "python", false, "with a pipeline whose stages are functions of a Python program")
	cmd.Flags().BoolVar(&o.mcp, "mcp", false, "with the MCP server that the command behind -- starts")
	return cmd
}

// pythonSource is where pip finds the Python package before it is released.
const pythonSource = "git+https://github.com/tipstaff/tipstaff#subdirectory=python"

// begun is what init has done.
type begun struct {
	Files     []string `json:"files"`               // those written
	Kept      []string `json:"kept,omitempty"`      // those that were there
	GitIgnore string   `json:"gitignore,omitempty"` // the file to which .tipstaff/ was added
	Missing   string   `json:"missing,omitempty"`   // the variable that must be set before an agent is of use
	Next      []string `json:"next"`                // commands to try it with
}

func (o *initOptions) run(ctx context.Context, server []string) error {
	dir := o.workspaceDir()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &usageError{message: err.Error()}
	}
	manifest := filepath.Join(dir, "tipstaff.yaml")
	if _, err := os.Lstat(manifest); err == nil {
		return &usageError{message: manifest + " is there already: nothing was written", hint: "remove it first, or begin in another folder: tipstaff init DIR"}
	}
	start, err := o.env.Starter(ctx, StarterOptions{Workspace: dir, Agent: o.agent, Worker: o.worker, Python: o.python, Server: server})
	if err != nil {
		return err
	}
	var done begun
	for _, f := range start.Files {
		name := filepath.Join(dir, f.Name)
		switch err := writeNew(name, f.Text); {
		case errors.Is(err, fs.ErrExist):
			done.Kept = append(done.Kept, name)
		case err != nil:
			return err
		default:
			done.Files = append(done.Files, name)
		}
	}
	if done.GitIgnore, err = ignoreStore(dir); err != nil {
		return err
	}
	if err := o.accept(); err != nil { // it can be trusted later
		o.report(err)
	}
	if start.Missing && start.Model != "" {
		done.Missing = start.Key
	}
	done.Next = o.commands(start)
	return o.print(done, func() { o.tell(start, done) })
}

func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// commands are three with which one tries what was written, as far as it can be tried.
func (o *initOptions) commands(start Starter) []string {
	var all []string
	if start.Server != "" {
		all = append(all, o.invocation("tools", "pin"))
	}
	if o.agent {
		all = append(all, o.invocation("chat"))
	}
	if o.python {
		all = append(all, o.invocation("run", o.beside("headline.yaml"), "--host", "python3 "+o.beside("agents.py"), "--text", "It was a dark and stormy night"))
	}
	if start.Worker != "" && !start.Unborn && o.worker != "" {
		all = append(all, o.deliver())
	}
	all = append(all, o.invocation("run", o.beside("hello.yaml")))
	if start.Worker != "" && !start.Unborn && o.worker == "" {
		all = append(all, o.deliver())
	}
	if start.Model != "" && !o.agent {
		all = append(all, o.invocation("chat"))
	}
	return append(all, o.invocation("verify", "@"), o.invocation("serve"))[:3]
}

func (o *initOptions) deliver() string {
	return o.invocation("run", o.beside("deliver.yaml"), "--text", "Write HELLO.md, a greeting.")
}

// beside is a file of the workspace as one types it.
func (o *initOptions) beside(name string) string { return filepath.Join(o.workspaceDir(), name) }

// tell says what was written, what of this machine it uses, and what to try.
func (o *initOptions) tell(start Starter, done begun) {
	say := func(format string, args ...any) { fmt.Fprintln(o.out, clean(fmt.Sprintf(format, args...))) }
	say("wrote %s", strings.Join(done.Files, ", "))
	if len(done.Kept) > 0 {
		say("left as it was: %s", strings.Join(done.Kept, ", "))
	}
	if done.GitIgnore != "" {
		say("added .tipstaff/ to %s", done.GitIgnore)
	}
	switch {
	case done.Missing != "":
		say("the agent talks to %s: set %s first, or name another model in tipstaff.yaml", start.Model, start.Key)
	case start.Model != "":
		say("found %s: `tipstaff chat` talks to %s, reads files here, and asks before it writes one", start.Key, start.Model)
	default:
		say("no key of a vendor of models is set: with %s, say, `tipstaff chat` has an agent; tipstaff.yaml shows how", start.Key)
	}
	switch {
	case start.Worker != "" && start.Unborn:
		say("the repository has no commit: deliver.yaml can be run when it has one")
	case start.Worker != "" && o.worker == "" && len(start.Workers) > 0:
		say("found %s: `type: %s` in tipstaff.yaml has it make the changes of deliver.yaml, in place of a script", strings.Join(start.Workers, ", "), start.Workers[0])
	case o.worker != "" && o.worker != "scripted" && !slices.Contains(start.Workers, o.worker):
		say("%s is not on PATH: install it first; `tipstaff workers check` says more", o.worker)
	case start.Worker == "":
		say("this is no git repository: coding CLIs deliver their changes from one")
	}
	if o.python {
		say("agents.py needs the package tipstaff: pip install tipstaff, before its first release pip install %q", pythonSource)
	}
	fmt.Fprintln(o.out, "next:")
	for _, line := range done.Next {
		fmt.Fprintln(o.out, "  "+line)
	}
}

// ignoreStore has git leave out the store of a workspace in a repository, and names the
// file that says so if that was changed.
func ignoreStore(dir string) (changed string, err error) {
	if !inRepository(dir) {
		return "", nil
	}
	file := filepath.Join(dir, ".gitignore")
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for l := range strings.Lines(string(text)) {
		if slices.Contains([]string{".tipstaff", ".tipstaff/", "/.tipstaff", "/.tipstaff/"}, strings.TrimSpace(l)) {
			return "", nil
		}
	}
	entry := ".tipstaff/\n"
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		entry = "\n" + entry
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(entry)
	return file, errors.Join(err, f.Close())
}

// inRepository reports whether a folder is below one that git looks after.
func inRepository(dir string) bool {
	dir, err := filepath.Abs(dir)
	for err == nil {
		git := filepath.Join(dir, ".git")
		_, head := os.Stat(filepath.Join(git, "HEAD"))
		if info, found := os.Stat(git); head == nil || found == nil && info.Mode().IsRegular() { // of a worktree it is a file; git itself wants no empty folder
			return true
		}
		if filepath.Dir(dir) == dir {
			return false
		}
		dir = filepath.Dir(dir)
	}
	return false
}

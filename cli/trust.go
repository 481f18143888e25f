package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// Trust keeps which workspaces the user of this process trusts.
type Trust interface {
	// Of says whether a workspace is trusted, and what it would have started or sent.
	Of(workspace string) (tipstaff.FolderTrust, error)
	// Record trusts a workspace as it was shown.
	Record(shown tipstaff.FolderTrust) error
	// Locked goes on trusting a workspace that was trusted before tools were locked in it.
	Locked(workspace string) error
	Revoke(workspace string) (had bool, err error)
	List() ([]tipstaff.FolderTrust, error)
	// Everywhere has this process, and those that it has drive runs, trust every workspace.
	Everywhere() error
}

type trustOptions struct {
	*app
	yes, list, revoke bool
}

func newTrust(a *app) *cobra.Command {
	o := &trustOptions{app: a}
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Say that what a workspace would start may be started",
		Long: `Show what the workspace would have started or sent: the commands of servers and workers
with their environment, and the addresses that get credentials. Then ask, and record
the answer for this user, outside of the workspace. Until a workspace is trusted nothing
of that is started or sent. If the list changes you are asked again, and see what is new.

What programs do is not on the list: tipstaff.lock holds their digests.

Exit code 3: the workspace is not trusted.`,
		Example: `  tipstaff trust
  tipstaff trust --yes
  tipstaff trust --list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.list && (o.yes || o.revoke), o.yes && o.revoke:
				return misuse(cmd, "give one of --yes, --list and --revoke")
			case o.list:
				return o.listTrusted()
			case o.revoke:
				return o.revokeTrust()
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "trust it without being asked")
	cmd.Flags().BoolVar(&o.list, "list", false, "list the workspaces that you trust")
	cmd.Flags().BoolVar(&o.revoke, "revoke", false, "trust it no more")
	return cmd
}

func (o *trustOptions) run(ctx context.Context) error {
	t, err := o.env.Trust.Of(o.workspaceDir())
	if err != nil {
		return err
	}
	if len(t.Starts) > 0 && !o.json {
		printTrust(o.out, t, o.env.colored(o.env.StdoutTTY))
	}
	recorded := len(t.Starts) == 0 || !t.Since.IsZero() // where every workspace is trusted this one need not be
	if !recorded && (o.yes || !o.json && o.attended() && o.asksTrust(ctx)) {
		if err := o.env.Trust.Record(t); err != nil {
			return err
		}
		t.Trusted, t.Why = true, ""
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err = o.print(t, func() {
		switch {
		case len(t.Starts) == 0:
			fmt.Fprintf(o.out, "%s would start and send nothing, and needs no trust\n", clean(t.Workspace))
		case t.Trusted:
			fmt.Fprintf(o.out, "%s is trusted\n", clean(t.Workspace))
		case o.attended():
			fmt.Fprintln(o.err, "nothing is recorded")
		default:
			fmt.Fprintln(o.err, "nothing is recorded: nobody can be asked here. --yes trusts what is shown")
		}
	})
	if err == nil && !t.Trusted {
		err = status(exitRefused)
	}
	return err
}

// printTrust shows what a workspace would start or send or, if another list was trusted, how
// they differ. All of it was written by somebody whom nobody trusts yet.
func printTrust(w io.Writer, t tipstaff.FolderTrust, colored bool) {
	put := func(c color, mark, text string) { fmt.Fprintln(w, line{say(c, mark+text)}.text(colored)) }
	if t.Was == nil {
		put(bold, "", t.Workspace+" would start or send:")
		for _, s := range t.Starts {
			put(plain, "  ", s)
		}
		return
	}
	put(bold, "", "what "+t.Workspace+" would start or send has changed since you trusted it:")
	for _, s := range t.Was {
		if !slices.Contains(t.Starts, s) {
			put(red, "  - ", s)
		}
	}
	for _, s := range t.Starts {
		switch {
		case slices.Contains(t.Was, s):
			put(plain, "    ", s)
		default:
			put(green, "  + ", s)
		}
	}
}

// asksTrust asks whether what was shown is trusted. Only a clear answer is one.
func (a *app) asksTrust(ctx context.Context) bool {
	p := a.prompterOn(tipstaff.NewLineReader(a.env.Stdin), a.err)
	limited, cancel := context.WithTimeoutCause(ctx, promptPatience, errPatience)
	defer cancel()
	answers := []string{"yes", "no"}
	answer, err := insist(limited, p, "trust this folder? yes, no? ", func(s string) (string, error) { return match(s, answers) })
	return err == nil && answer == "yes"
}

// trustsNow reports whether a command that was refused because its workspace is not trusted may
// be tried again: somebody was there, was shown why, and trusts it. The refusal has changed
// nothing, so the command begins anew.
func (a *app) trustsNow(ctx context.Context, refused error) bool {
	if tipstaff.CodeOf(refused) != tipstaff.WorkspaceUntrusted || a.env.Trust == nil || a.server != "" || !a.asksFirst() {
		return false
	}
	t, err := a.env.Trust.Of(a.workspaceDir())
	if err != nil || t.Trusted {
		return false
	}
	printTrust(a.err, t, a.env.colored(a.env.StderrTTY))
	if !a.asksTrust(ctx) || ctx.Err() != nil {
		return false
	}
	if err := a.env.Trust.Record(t); err != nil {
		a.report(err)
		return false
	}
	return true
}

// asksFirst reports whether a person can be asked before anything is started.
func (a *app) asksFirst() bool { return !a.json && !a.alone && a.attended() }

// mustTrust refuses to go on in a workspace that is not trusted: for commands that would change
// or ask something before they start what is refused.
func (a *app) mustTrust() error {
	if a.env.Trust == nil || a.server != "" {
		return nil
	}
	t, err := a.env.Trust.Of(a.workspaceDir())
	if err != nil || t.Trusted {
		return err
	}
	return t.Refusal()
}

func (o *trustOptions) listTrusted() error {
	list, err := o.env.Trust.List()
	if err != nil {
		return err
	}
	return printTable(o.app, list, "WORKSPACE\tSINCE\tSTARTS OR SENDS", func(t tipstaff.FolderTrust) string {
		return fmt.Sprintf("%s\t%s\t%s", clean(t.Workspace), t.Since.Format(time.DateOnly), plural(len(t.Starts), "thing"))
	})
}

func (o *trustOptions) revokeTrust() error {
	had, err := o.env.Trust.Revoke(o.workspaceDir())
	if err != nil {
		return err
	}
	return o.print(map[string]any{"workspace": o.workspaceDir(), "revoked": had}, func() {
		text := "%s was not trusted\n"
		if had {
			text = "%s is not trusted any more\n"
		}
		fmt.Fprintf(o.out, text, clean(o.workspaceDir()))
	})
}

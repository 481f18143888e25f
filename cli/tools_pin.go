package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newToolsPin(a *app) *cobra.Command {
	var check, yes bool
	cmd := &cobra.Command{
		Use:   "pin [NAME…]",
		Short: "Compare servers and code that is started with tipstaff.lock, and lock them",
		Long: `Start or connect to the servers, if the workspace is trusted, compare what they list, and the code in the workspace
that servers, workers and programs of exec run, with tipstaff.lock, show every
difference, and ask. If you allow it the lock is written; from then on calls are
refused when a definition is another than the one you have seen, and nothing is
started whose code is.

A NAME is that of a server, worker/WORKER, or program/ and an entry of programs.

Exit code 3: something differs and was not locked, or a tool cannot be locked.`,
		Example: `  tipstaff tools pin
  tipstaff tools pin issues --check
  tipstaff tools pin worker/careful`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeServers,
		RunE: func(cmd *cobra.Command, names []string) error {
			if check && yes {
				return &usageError{message: "--check writes nothing and --yes writes: give one of them"}
			}
			return a.pin(cmd.Context(), names, check, yes)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "write nothing: only say whether something differs")
	cmd.Flags().BoolVar(&yes, "yes", false, "trust the workspace, and accept what the servers list, without being asked")
	return cmd
}

func (a *app) pin(ctx context.Context, names []string, check, yes bool) error {
	tools, err := a.tools(ctx)
	if err != nil {
		return err
	}
	p := a.newPrompter(check || yes || a.json)
	if yes {
		if err := a.accept(); err != nil {
			return err
		}
	}
	r, err := tools.Compare(ctx, names)
	if err != nil {
		return err
	}
	if !a.json {
		printPins(a.out, r, a.env.colored(a.env.StdoutTTY))
	}
	if len(r.Changes) > 0 && (yes || p != nil && p.allows(ctx)) {
		if err := a.lock(ctx, tools, r); err != nil {
			return err
		}
		r.Written = true
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.json {
		if err := a.writeJSON(r); err != nil {
			return err
		}
	}
	switch {
	case r.Written:
		fmt.Fprintln(a.err, "tipstaff.lock is written")
	case len(r.Changes) == 0 && (r.Failed() || a.json):
	case len(r.Changes) == 0:
		fmt.Fprintln(a.out, "tipstaff.lock holds what the servers list, and what is started")
	case check || p != nil:
		fmt.Fprintln(a.err, "nothing is written")
	default:
		fmt.Fprintln(a.err, "nothing is written: nobody can be asked here. --yes accepts what is shown")
	}
	if r.Failed() || len(r.Changes) > 0 && !r.Written {
		return status(exitRefused)
	}
	return nil
}

// accept trusts the workspace: whoever accepts what its servers list has them started.
func (a *app) accept() error {
	if a.env.Trust == nil {
		return nil
	}
	t, err := a.env.Trust.Of(a.workspaceDir())
	if err != nil || t.Trusted {
		return err
	}
	return a.env.Trust.Record(t)
}

// lock writes the lock that was accepted. The workspace stays trusted with it.
func (a *app) lock(ctx context.Context, tools tipstaff.Tools, r tipstaff.PinReport) error {
	if err := tools.Pin(ctx, r); err != nil || a.env.Trust == nil {
		return err
	}
	return a.env.Trust.Locked(a.workspaceDir())
}

// printPins shows what would be locked: server by server, tool by tool, member by
// member. All of it comes from servers that nobody has trusted yet.
func printPins(w io.Writer, r tipstaff.PinReport, colored bool) {
	server, tool := "", ""
	put := func(l line) { fmt.Fprintln(w, l.text(colored)) }
	for _, c := range r.Changes {
		if c.Server != server {
			server, tool = c.Server, ""
			put(line{say(bold, c.Server)})
		}
		if c.Tool != "" && c.Tool != tool {
			tool = c.Tool
			put(line{say(kindColors[c.Kind], "  "+kindMarks[c.Kind]+" "+c.Tool)})
		}
		for _, l := range changeLines(c) {
			put(l)
		}
	}
	printFindings(w, r.Findings, colored)
}

var (
	kindMarks  = map[string]string{tipstaff.PinAdded: "+", tipstaff.PinRemoved: "-", tipstaff.PinChanged: "~"}
	kindColors = map[string]color{tipstaff.PinAdded: green, tipstaff.PinRemoved: red, tipstaff.PinChanged: yellow}
)

// changeLines is one change: of a tool that came, its definition; of one that
// changed, the member as it was and as it is.
func changeLines(c tipstaff.PinChange) []line {
	indent := "      "
	switch {
	case c.Kind == tipstaff.PinAdded:
		return valueLines(indent, plain, c.Now)
	case c.Kind == tipstaff.PinRemoved:
		return nil
	case c.Tool == "":
		return []line{{say(yellow, "  "+c.Member+"  "), say(plain, scalarText(c.Was)+" → "+scalarText(c.Now))}}
	}
	lines := []line{{say(yellow, indent+c.Member)}}
	lines = append(lines, valueLines(indent+"  - ", red, c.Was)...)
	return append(lines, valueLines(indent+"  + ", green, c.Now)...)
}

// valueShown is how much of one value is shown, in bytes.
const valueShown = 16 << 10

func valueLines(indent string, c color, raw json.RawMessage) (lines []line) {
	if len(raw) == 0 {
		return nil
	}
	all := strings.Split(jsonLines(raw), "\n")
	size := 0
	for i, l := range all {
		if size += len(l); size > valueShown {
			return append(lines, line{say(dim, indent+fit(l, 200)), say(dim, fmt.Sprintf(" … and %s more; --json has all", plural(len(all)-i-1, "line")))})
		}
		lines = append(lines, line{say(plain, indent), say(c, l)})
	}
	return lines
}

// scalarText is a JSON string without its quotes, if it is one.
func scalarText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	if s == "" {
		return "none"
	}
	return s
}

var levelColors = map[string]color{tipstaff.FindingError: red, tipstaff.FindingWarning: yellow, tipstaff.FindingNote: dim}

func printFindings(w io.Writer, findings []tipstaff.ToolFinding, colored bool) {
	for _, f := range findings {
		lines := []line{{say(levelColors[f.Level], f.Level+": "), say(plain, tipstaff.Joined(": ", f.Code, f.Message))}}
		for _, c := range f.Changes {
			lines = append(lines, changeLines(c)...)
		}
		for _, l := range lines {
			fmt.Fprintln(w, l.text(colored))
		}
	}
}

// allows asks whether what was shown is accepted. Only a clear answer is.
func (p *prompter) allows(ctx context.Context) bool {
	limited, cancel := context.WithTimeoutCause(ctx, promptPatience, errPatience)
	defer cancel()
	actions := []string{"allow", "deny"}
	action, err := insist(limited, p, "lock this in tipstaff.lock? allow, deny? ", func(s string) (string, error) { return match(s, actions) })
	return err == nil && action == "allow"
}

// startOrPin starts a run. If it is refused for want of locked tools and somebody
// attends, they are shown what the servers list and asked: if they allow it, it is
// locked and the run starts. Unattended runs never lock anything, and those at a server
// have the lock that lies there.
func startOrPin[T any](ctx context.Context, a *app, p *prompter, start func() (T, error)) (T, error) {
	started, err := start()
	servers := tipstaff.Pinnable(err)
	if p == nil || len(servers) == 0 || a.server != "" {
		return started, err
	}
	tools, terr := a.tools(ctx)
	if terr != nil {
		return started, err
	}
	colored := a.env.colored(a.env.StderrTTY)
	report, terr := tools.Compare(ctx, servers)
	switch {
	case ctx.Err() != nil:
		return started, ctx.Err()
	case terr != nil:
		return started, terr
	case len(report.Changes) == 0:
		printFindings(a.err, report.Findings, colored)
		return started, err
	}
	a.report(err)
	printPins(a.err, report, colored)
	if !p.allows(ctx) {
		if ctx.Err() != nil {
			return started, ctx.Err()
		}
		fmt.Fprintln(a.err, "nothing is written, and nothing was started")
		return started, status(exitCode(err))
	}
	if err := a.lock(ctx, tools, report); err != nil {
		return started, err
	}
	return start()
}

// completeServers offers the declared servers that are not named yet.
func (a *app) completeServers(cmd *cobra.Command, before []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	list, _ := a.declaredTools(cmd.Context())
	for _, t := range list {
		if name := clean(t.Server); !slices.Contains(before, t.Server) && !slices.Contains(names, name) && t.Lock != tipstaff.ToolBuiltin {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

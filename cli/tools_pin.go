package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type toolsPinOptions struct {
	*app
	servers []string
	check   bool
	yes     bool
}

func newToolsPin(a *app) *cobra.Command {
	o := &toolsPinOptions{app: a}
	cmd := &cobra.Command{
		Use:   "pin [SERVER…]",
		Short: "Compare servers with tipstaff.lock, and lock what they list",
		Long: `Start or connect to the servers, compare what they list with tipstaff.lock, show
every difference, and ask. If you allow it the lock is written; from then on calls
are refused when a definition is another than the one you have seen.

Exit code 3: something differs and was not locked, or a tool cannot be locked.`,
		Example: `  tipstaff tools pin
  tipstaff tools pin issues --check`,
		ValidArgsFunction: completeServers(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.servers = args
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.check, "check", false, "write nothing: only say whether something differs")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "accept what the servers list without being asked")
	return cmd
}

func (o *toolsPinOptions) run(ctx context.Context) error {
	if o.check && o.yes {
		return &usageError{message: "--check writes nothing and --yes writes: give one of them"}
	}
	tools, err := o.tools()
	if err != nil {
		return err
	}
	p := o.newPrompter(ctx, o.check || o.yes || o.json)
	defer p.close()
	report, err := tools.Compare(ctx, o.servers)
	if err != nil {
		return err
	}
	if !o.json {
		printPins(o.out, report, o.env.colored(o.env.StdoutTTY))
	}
	if len(report.Changes) > 0 && (o.yes || p != nil && p.allows(ctx)) {
		if err := tools.Pin(ctx, report); err != nil {
			return err
		}
		report.Written = true
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if o.json {
		if err := o.writeJSON(report); err != nil {
			return err
		}
	}
	return o.end(report, p != nil)
}

// end says what became of it.
func (o *toolsPinOptions) end(r tipstaff.PinReport, asked bool) error {
	switch {
	case r.Written:
		fmt.Fprintln(o.err, "tipstaff.lock is written")
	case len(r.Changes) == 0 && !r.Failed():
		if !o.json {
			fmt.Fprintln(o.out, "tipstaff.lock holds what the servers list")
		}
	case len(r.Changes) > 0 && !o.check && !asked:
		fmt.Fprintln(o.err, "nothing is written: nobody can be asked here. --yes accepts what is shown")
	case len(r.Changes) > 0:
		fmt.Fprintln(o.err, "nothing is written")
	}
	if r.Failed() || len(r.Changes) > 0 && !r.Written {
		return status(exitRefused)
	}
	return nil
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

func valueLines(indent string, c color, raw json.RawMessage) []line {
	if len(raw) == 0 {
		return nil
	}
	all := jsonLines(raw)
	var lines []line
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

// allows asks whether what was shown is accepted. Only a clear answer is.
func (p *prompter) allows(ctx context.Context) bool {
	p.turn.Lock()
	defer p.turn.Unlock()
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
	tools, terr := a.tools()
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
	if err := tools.Pin(ctx, report); err != nil {
		return started, err
	}
	return start()
}

// completeServers offers the declared servers that are not named yet.
func completeServers(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
		seen := map[string]bool{}
		for _, name := range before {
			seen[name] = true
		}
		var names []string
		for _, t := range a.declaredTools(cmd.Context()) {
			if !seen[t.Server] && t.Lock != tipstaff.ToolBuiltin {
				seen[t.Server] = true
				names = append(names, clean(t.Server))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

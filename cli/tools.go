package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

func newTools(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Look after the tools that plans may call",
		Long: `Look after the tools of this workspace: tipstaff.yaml declares them, tipstaff.lock
holds the definition of each as someone has accepted it. What is not declared, not
locked, or no longer as it was locked is not called.`,
		Example: `  tipstaff tools list
  tipstaff tools pin
  tipstaff tools call mcp://builtin/read_file@1.0.0 --args '{"path":"notes.md"}'`,
	}
	cmd.AddCommand(newToolsList(a), newToolsDescribe(a), newToolsCall(a), newToolsExplain(a), newToolsPin(a), newToolsVerify(a))
	return cmd
}

// tools looks after the workspace's tools. It opens no store.
func (a *app) tools(context.Context) (tipstaff.Tools, error) { return a.env.Tools(a.workspaceDir()) }

func (a *app) declaredTools(ctx context.Context) ([]tipstaff.ToolInfo, error) {
	tools, err := a.tools(ctx)
	if err != nil {
		return nil, err
	}
	return tools.List(ctx)
}

func newToolsList(a *app) *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use:   "list [SERVER…]",
		Short: "List the declared tools, or all that servers have",
		Long: `List the tools that tipstaff.yaml declares: the URI by which a plan calls each,
its effect class and who states it, and whether its definition is locked. Nothing is
started or connected to.

With --live the servers, or those that are named, are asked for all their tools, and
the lines are printed that would declare the others. tipstaff.yaml needs a server's
command or url for that, and no tools.`,
		Example: "  tipstaff tools list\n  tipstaff tools list --live issues",
		RunE: with(a.tools, func(ctx context.Context, tools tipstaff.Tools, servers []string) error {
			if live {
				return a.listLive(ctx, tools, servers)
			}
			if len(servers) > 0 {
				return &usageError{message: "a server is asked with --live"}
			}
			list, err := tools.List(ctx)
			if err == nil {
				err = a.listTools(list)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&live, "live", false, "ask the servers, also for tools that are not declared")
	return cmd
}

func (a *app) listTools(list []tipstaff.ToolInfo) error {
	if a.json {
		return printEach(a, list, "", nil)
	}
	printTools(a.out, list, a.env.colored(a.env.StdoutTTY))
	return nil
}

// listLive lists all tools of servers. One that could not be asked makes it fail.
func (a *app) listLive(ctx context.Context, tools tipstaff.Tools, servers []string) error {
	list, findings, err := tools.Live(ctx, servers)
	if err != nil {
		return err
	}
	if err := a.listTools(list); err != nil {
		return err
	}
	if !a.json {
		fmt.Fprint(a.out, declarations(list))
	}
	printFindings(a.err, findings, a.env.colored(a.env.StderrTTY))
	if len(findings) > 0 {
		return status(exitRefused)
	}
	return nil
}

// declarations are the lines of tipstaff.yaml that would declare what is not declared,
// each with the class that its hints state, or the strictest.
func declarations(list []tipstaff.ToolInfo) string {
	var b strings.Builder
	server := ""
	for _, t := range list {
		if t.Lock != tipstaff.ToolUndeclared || t.Class == "" || !tipstaff.IsToolName(t.Tool) {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\nto declare those that are not, in tipstaff.yaml:\n\nservers:\n")
		}
		if t.Server != server {
			server = t.Server
			fmt.Fprintf(&b, "  %s:\n    tools:\n", clean(server))
		}
		fmt.Fprintf(&b, "      %s: {effect: %s}\n", yamlKey(t.Tool), clean(t.Class))
	}
	return b.String()
}

// yamlKey is the name of a tool as a key: one that could be read as something else than
// text is quoted.
func yamlKey(name string) string {
	if c := name[0] | 0x20; c < 'a' || c > 'z' || slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name)) {
		return strconv.Quote(name)
	}
	return name
}

func printTools(w io.Writer, list []tipstaff.ToolInfo, colored bool) {
	names, classes := 0, 0
	for _, t := range list {
		names, classes = max(names, cells(shownName(t))), max(classes, cells(shownClass(t)))
	}
	for _, t := range list {
		l := line{say(plain, pad(shownName(t), names)+"  "+pad(shownClass(t), classes)+"  "), say(lockColors[t.Lock], t.Lock)}
		if t.Lock != tipstaff.ToolUnlocked {
			l = l.and(yellow, t.Trouble)
		}
		if len(t.Writable) > 0 {
			l = l.and(dim, "writes "+strings.Join(t.Writable, ", ")+", but for what is protected")
		}
		fmt.Fprintln(w, l.text(colored))
	}
}

var lockColors = map[string]color{
	tipstaff.ToolLocked: green, tipstaff.ToolBuiltin: green, tipstaff.ToolUnlocked: yellow, tipstaff.ToolUnusable: red,
}

// shownName is the URI to write in a plan or, where there is none yet, the name.
func shownName(t tipstaff.ToolInfo) string {
	if t.URI != "" {
		return clean(t.URI)
	}
	return clean(t.Name())
}

func shownClass(t tipstaff.ToolInfo) string {
	switch {
	case t.Class == "":
		return "?"
	case t.ClassFrom == "":
		return clean(t.Class)
	}
	return clean(t.Class + " (" + t.ClassFrom + ")")
}

func newToolsDescribe(a *app) *cobra.Command {
	live := false
	cmd := &cobra.Command{
		Use:   "describe URI",
		Short: "Show a tool's definition",
		Long: `Show what is known of a tool, with its definition as it was locked. URI is that of
tools list, or SERVER/TOOL. With --live the server is started or connected to and
asked for its definition of now; nothing is locked by that.`,
		Example: `  tipstaff tools describe builtin/read_file
  tipstaff tools describe issues/create_issue --live`,
		RunE: with(a.tools, func(ctx context.Context, tools tipstaff.Tools, args []string) error {
			t, err := tools.Describe(ctx, args[0], live)
			if err != nil {
				return err
			}
			return a.print(t, func() { a.printTool(t) })
		}),
	}
	cmd.Flags().BoolVar(&live, "live", false, "ask the server")
	return cmd
}

func (a *app) printTool(t tipstaff.ToolInfo) {
	allowed := ""
	if !t.Allowed {
		allowed = " (not in allowed_effects)"
	}
	a.printFields(
		field{"tool", t.Name()},
		field{"uri", t.URI},
		field{"version", t.Version},
		field{"digest", t.Digest},
		field{"lock", t.Lock},
		field{"class", shownClass(t) + allowed},
		field{"timeout", t.Timeout},
		field{"max_result", fmt.Sprint(t.MaxResult)},
		field{"title", t.Title},
		field{"writable", strings.Join(t.Writable, ", ")},
		field{"trouble", t.Trouble},
	)
	if len(t.Definition) > 0 {
		fmt.Fprintln(a.out, jsonLines(t.Definition))
	}
}

// jsonLines is foreign JSON, indented, fit for a terminal.
func jsonLines(raw json.RawMessage) string {
	var indented bytes.Buffer
	if json.Indent(&indented, raw, "", "  ") != nil {
		return cleanLines(string(raw))
	}
	return cleanLines(indented.String())
}

// completeTools offers declared tools, as name says.
func completeTools(name func(tipstaff.ToolInfo) string) completion {
	return func(a *app, ctx context.Context, _ []string, typed string) (names []string) {
		list, _ := a.declaredTools(ctx)
		for _, t := range list {
			if n := clean(name(t)); strings.HasPrefix(n, typed) {
				names = append(names, cobra.CompletionWithDesc(n, clean(tipstaff.Joined(" ", t.Class, t.Lock))))
			}
		}
		return names
	}
}

func newToolsExplain(a *app) *cobra.Command {
	text := ""
	cmd := &cobra.Command{
		Use:   "explain SERVER/TOOL",
		Short: "Say what would be decided about a call, and why",
		Long: `Put a call to the gate that every call of a run passes, and show each check, the
rules that match, the one that decides, and what would happen. Nothing is called,
started or connected to.`,
		Example: `  tipstaff tools explain builtin/exec --args '{"argv":["git","push"]}'`,
		RunE: with(a.tools, func(ctx context.Context, tools tipstaff.Tools, args []string) error {
			given, err := a.argument("--args", text)
			if err != nil {
				return err
			}
			e, err := tools.Explain(ctx, args[0], given)
			if err != nil {
				return err
			}
			return a.print(e, func() { a.printExplanation(e) })
		}),
	}
	argsFlag(cmd, &text)
	return cmd
}

func argsFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "args", "", "the arguments: a `JSON` object, @FILE, or - for standard input (default {})")
}

// argument reads the JSON that a flag gives or names; nil: the flag was not given.
func (a *app) argument(flag, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := a.flagValue(text)
	if err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, &usageError{message: flag + " is not JSON", hint: `write '{"name": value, …}', '"text"', @FILE, or - for standard input`}
	}
	return raw, nil
}

// checkWords is what each check asks.
var checkWords = map[string]string{
	"declared":  "the plan declares it",
	"known":     "manifest and server have it",
	"locked":    "pin, lock and package hold",
	"arguments": "the arguments fit",
	"effect":    "its class is allowed",
	"guards":    "guards let it pass",
	"policy":    "the policy",
}

func (a *app) printExplanation(e tipstaff.Explanation) {
	a.printFields(field{"tool", e.Server + "/" + e.Tool}, field{"uri", e.URI}, field{"class", e.Class},
		field{"args", string(e.Args)}, field{"args_digest", e.ArgsDigest})
	colored := a.env.colored(a.env.StdoutTTY)
	for i, c := range e.Checks {
		result := say(green, "ok")
		switch {
		case !c.OK:
			result = say(red, tipstaff.Joined(": ", c.Code, c.Message))
		case c.Check == "declared":
			result = say(dim, "taken for granted")
		case c.Check == "guards" && len(e.Guards) == 0:
			result = say(dim, "none")
		case c.Check == "policy":
			result = say(verdictColors[e.Do], tipstaff.Joined(", ", e.Do, "rule "+e.Rule))
		}
		l := line{say(plain, fmt.Sprintf("%d  %s  ", i+1, pad(checkWords[c.Check], 28))), result}
		fmt.Fprintln(a.out, l.text(colored))
	}
	for _, g := range e.Guards {
		fmt.Fprintf(a.out, "  finds %s  %s  %s\n", clean(g.Guard), clean(g.Class), clean(string(g.Facts)))
	}
	a.printFields(field{"rule", tipstaff.Joined(": ", e.Rule, e.Why)}, field{"policy_digest", e.PolicyDigest}, field{"whatever the arguments", e.Static})
	for _, r := range e.Rules {
		fmt.Fprintf(a.out, "  matches %s  %s  %s\n", clean(r.ID), clean(r.Do), clean(r.Why))
	}
	for _, c := range e.Outcomes {
		fmt.Fprintf(a.out, "%s: %s\n", pad(wayWords[c.When], 28), outcomeWords(c))
	}
}

var verdictColors = map[string]color{"allow": green, "ask": yellow, "deny": red}

var wayWords = map[string]string{
	"literal":    "in a plan, written out",
	"referenced": "in a plan, with references",
	"agent":      "made by an agent",
}

func outcomeWords(c tipstaff.CallOutcome) string {
	switch {
	case c.Do == "allow" && c.By != "":
		return "sent: accepting the plan covers it"
	case c.Do == "allow":
		return "sent"
	case c.Do == "ask":
		return "a person is asked first"
	}
	return "refused; nothing is sent"
}

func newToolsVerify(a *app) *cobra.Command {
	offline := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the declared tools can be called",
		Long: `Check the manifest, the variables it refers to, packages and tipstaff.lock; then
start or connect to every server and compare what it lists with the lock. Tools that
are not declared are noted; declared ones that are missing, unlocked or changed are
errors.

Exit code 3: there are errors. 2: the manifest is not valid.`,
		Example: `  tipstaff tools verify
  tipstaff tools verify --offline`,
		RunE: with(a.tools, func(ctx context.Context, tools tipstaff.Tools, _ []string) error {
			r, err := tools.Verify(ctx, offline)
			if err != nil {
				return err
			}
			err = a.print(r, func() {
				for _, s := range r.Servers {
					fmt.Fprintf(a.out, "%s  %s  %d of %s usable\n", clean(s.Server), cmp.Or(clean(s.Version), "-"), s.Usable, plural(s.Tools, "tool"))
				}
				printFindings(a.out, r.Findings, a.env.colored(a.env.StdoutTTY))
				if r.OK {
					fmt.Fprintln(a.out, "ok")
				}
			})
			if err == nil && !r.OK {
				err = status(exitRefused)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "start and connect to nothing")
	return cmd
}

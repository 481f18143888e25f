package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newToolsList(a), newToolsDescribe(a), newToolsCall(a), newToolsExplain(a), newToolsPin(a), newToolsVerify(a))
	return cmd
}

// tools looks after the workspace's tools. It opens no store.
func (a *app) tools() (tipstaff.Tools, error) { return a.env.Tools(a.workspaceDir()) }

type toolsListOptions struct{ *app }

func newToolsList(a *app) *cobra.Command {
	o := &toolsListOptions{app: a}
	return &cobra.Command{
		Use:   "list",
		Short: "List the declared tools",
		Long: `List the tools that tipstaff.yaml declares: the URI by which a plan calls each,
its effect class and who states it, and whether its definition is locked. Nothing is
started or connected to.`,
		Example:           "  tipstaff tools list",
		Args:              needs(),
		ValidArgsFunction: completed(a),
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
}

func (o *toolsListOptions) run(ctx context.Context) error {
	tools, err := o.tools()
	if err != nil {
		return err
	}
	list, err := tools.List(ctx)
	if err != nil {
		return err
	}
	if o.json {
		for _, t := range list {
			if err := o.writeJSON(t); err != nil {
				return err
			}
		}
		return nil
	}
	printTools(o.out, list, o.env.colored(o.env.StdoutTTY))
	return nil
}

func printTools(w io.Writer, list []tipstaff.ToolInfo, colored bool) {
	names, classes := 0, 0
	for _, t := range list {
		names, classes = max(names, cells(shownName(t))), max(classes, cells(shownClass(t)))
	}
	for _, t := range list {
		l := line{
			say(plain, pad(shownName(t), names)+"  "),
			say(plain, pad(shownClass(t), classes)+"  "),
			say(lockColors[t.Lock], t.Lock),
		}
		if t.Trouble != "" && t.Lock != tipstaff.ToolUnlocked {
			l = append(l, say(yellow, "  "+t.Trouble))
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

type toolsDescribeOptions struct {
	*app
	name string
	live bool
}

func newToolsDescribe(a *app) *cobra.Command {
	o := &toolsDescribeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "describe URI",
		Short: "Show a tool's definition",
		Long: `Show what is known of a tool, with its definition as it was locked. URI is that of
tools list, or SERVER/TOOL. With --live the server is started or connected to and
asked for its definition of now; nothing is locked by that.`,
		Example: `  tipstaff tools describe builtin/read_file
  tipstaff tools describe issues/create_issue --live`,
		Args:              needs("URI"),
		ValidArgsFunction: completed(a, completeTool),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.live, "live", false, "ask the server")
	return cmd
}

func (o *toolsDescribeOptions) run(ctx context.Context) error {
	tools, err := o.tools()
	if err != nil {
		return err
	}
	t, err := tools.Describe(ctx, o.name, o.live)
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(t)
	}
	allowed := ""
	if !t.Allowed {
		allowed = " (not in allowed_effects)"
	}
	o.printFields([]field{
		{"tool", t.Name()},
		{"uri", t.URI},
		{"version", t.Version},
		{"digest", t.Digest},
		{"lock", t.Lock},
		{"class", shownClass(t) + allowed},
		{"timeout", t.Timeout},
		{"max_result", fmt.Sprint(t.MaxResult)},
		{"title", t.Title},
		{"trouble", t.Trouble},
	})
	for _, l := range jsonLines(t.Definition) {
		fmt.Fprintln(o.out, l)
	}
	return nil
}

// jsonLines is foreign JSON, indented, fit for a terminal.
func jsonLines(raw json.RawMessage) []string {
	if len(raw) == 0 {
		return nil
	}
	var indented bytes.Buffer
	if json.Indent(&indented, raw, "", "  ") != nil {
		return cleanLines(string(raw))
	}
	return cleanLines(indented.String())
}

// completeTool offers the URIs of declared tools.
func completeTool(a *app, cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.declared(cmd, typed, func(t tipstaff.ToolInfo) string { return shownName(t) })
}

// completeToolName offers them as SERVER/TOOL.
func completeToolName(a *app, cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return a.declared(cmd, typed, func(t tipstaff.ToolInfo) string { return clean(t.Name()) })
}

func (a *app) declared(cmd *cobra.Command, typed string, name func(tipstaff.ToolInfo) string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, t := range a.declaredTools(cmd.Context()) {
		if n := name(t); strings.HasPrefix(n, typed) {
			names = append(names, cobra.CompletionWithDesc(n, clean(tipstaff.Joined(" ", t.Class, t.Lock))))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) declaredTools(ctx context.Context) []tipstaff.ToolInfo {
	tools, err := a.tools()
	if err != nil {
		return nil
	}
	list, err := tools.List(ctx)
	if err != nil {
		return nil
	}
	return list
}

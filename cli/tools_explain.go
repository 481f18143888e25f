package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type toolsExplainOptions struct {
	*app
	name string
	args string
}

func newToolsExplain(a *app) *cobra.Command {
	o := &toolsExplainOptions{app: a}
	cmd := &cobra.Command{
		Use:   "explain SERVER/TOOL",
		Short: "Say what would be decided about a call, and why",
		Long: `Put a call to the gate that every call of a run passes, and show each check, the
rules that match, the one that decides, and what would happen. Nothing is called,
started or connected to.`,
		Example:           `  tipstaff tools explain builtin/exec --args '{"argv":["git","push"]}'`,
		Args:              needs("SERVER/TOOL"),
		ValidArgsFunction: completed(a, completeToolName),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	argsFlag(cmd, &o.args)
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
	raw := []byte(text)
	name, isFile := strings.CutPrefix(text, "@")
	if text == "-" || isFile {
		var err error
		if raw, err = a.read(name); err != nil {
			return nil, err
		}
	}
	if !json.Valid(raw) {
		return nil, &usageError{message: flag + " is not JSON", hint: `write '{"name": value, …}', '"text"', @FILE, or - for standard input`}
	}
	return raw, nil
}

func (o *toolsExplainOptions) run(ctx context.Context) error {
	args, err := o.argument("--args", o.args)
	if err != nil {
		return err
	}
	tools, err := o.tools()
	if err != nil {
		return err
	}
	e, err := tools.Explain(ctx, o.name, args)
	if err != nil {
		return err
	}
	if o.json {
		return o.writeJSON(e)
	}
	o.print(e)
	return nil
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

func (o *toolsExplainOptions) print(e tipstaff.Explanation) {
	o.printFields([]field{
		{"tool", e.Server + "/" + e.Tool}, {"uri", e.URI}, {"class", e.Class},
		{"args", string(e.Args)}, {"args_digest", e.ArgsDigest},
	})
	colored := o.env.colored(o.env.StdoutTTY)
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
		fmt.Fprintln(o.out, l.text(colored))
	}
	for _, g := range e.Guards {
		fmt.Fprintf(o.out, "  finds %s  %s  %s\n", clean(g.Guard), clean(g.Class), clean(string(g.Facts)))
	}
	o.printFields([]field{{"rule", tipstaff.Joined(": ", e.Rule, e.Why)}, {"policy_digest", e.PolicyDigest}, {"whatever the arguments", e.Static}})
	for _, r := range e.Rules {
		fmt.Fprintf(o.out, "  matches %s  %s  %s\n", clean(r.ID), clean(r.Do), clean(r.Why))
	}
	for _, c := range e.Outcomes {
		fmt.Fprintf(o.out, "%s: %s\n", pad(wayWords[c.When], 28), outcomeWords(c))
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

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type toolsCallOptions struct {
	*app
	uri        string
	args       string
	unattended bool
}

func newToolsCall(a *app) *cobra.Command {
	o := &toolsCallOptions{app: a}
	cmd := &cobra.Command{
		Use:   "call URI",
		Short: "Call a tool",
		Long: `Call a tool and print its output. The call is a run of a plan with this one node:
it passes the same gate, is journaled, and can be shown, resumed and verified.

Exit code 10: the tool ran and reported an error. 3: the call was refused before a
run existed. 4: it waits for an approval.`,
		Example: `  tipstaff tools call mcp://builtin/read_file@1.0.0 --args '{"path":"notes.md"}'
  tipstaff tools call mcp://builtin/json_query@1.0.0 --args @query.json`,
		Args:              needs("URI"),
		ValidArgsFunction: completed(a, completeTool),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.uri = args[0]
			return o.run(cmd.Context())
		},
	}
	argsFlag(cmd, &o.args)
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	return cmd
}

func (o *toolsCallOptions) run(ctx context.Context) error {
	args, err := o.argument("--args", o.args)
	if err != nil {
		return err
	}
	req := tipstaff.StartRequest{Name: "the call"}
	if req.Program, err = tipstaff.CallProgram(o.uri, args); err != nil {
		return err
	}
	svc, err := o.openToStart(ctx)
	if err != nil {
		return err
	}
	p := o.newPrompter(ctx, o.unattended || o.args == "-")
	defer p.close()
	req.Attended = p != nil
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Start(ctx, req) })
	if err != nil {
		return unplaced(err)
	}
	leave := attend(ctx, svc, started.Run, p.asker())
	driven, err := svc.Wait(context.WithoutCancel(ctx), started.Run)
	leave()
	if err != nil {
		return err
	}
	return o.conclude(ctx, svc, started.Run, driven)
}

// unplaced is an error without places in a document that nobody has written.
func unplaced(err error) error {
	var refused *tipstaff.Error
	if !errors.As(err, &refused) {
		return err
	}
	e := *refused
	e.Problems = slices.Clone(e.Problems)
	for i := range e.Problems {
		e.Problems[i].File, e.Problems[i].Line, e.Problems[i].Column = "", 0, 0
	}
	return &e
}

// called is how a call ended, as --json prints it.
type called struct {
	Run     tipstaff.ID     `json:"run_id"`
	State   tipstaff.State  `json:"state"`
	Outcome string          `json:"outcome"`
	Output  json.RawMessage `json:"output,omitempty"` // also of a tool that reported an error
	Error   *callError      `json:"error,omitempty"`
}

type callError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

func (o *toolsCallOptions) conclude(ctx context.Context, svc tipstaff.Service, id tipstaff.ID, d tipstaff.Driven) error {
	calm := context.WithoutCancel(ctx)
	run, err := svc.Get(calm, id)
	if err != nil {
		return err
	}
	end := called{Run: id, State: run.State, Outcome: d.Outcome}
	code := exitOfDriven(ctx, d)
	switch run.State {
	case tipstaff.Completed:
		end.Output = outputOf(run.Outputs)
	case tipstaff.Failed:
		end.Error = o.failure(calm, svc, run)
		if output, reported := inBand(end.Error); reported {
			end.Output, code = output, exitToolError
		}
	}
	if o.json {
		if err := o.writeJSON(end); err != nil {
			return err
		}
	} else {
		o.printOutput(end.Output)
	}
	o.say(run, d, end)
	if d.Err != nil {
		return d.Err
	}
	return status(code)
}

// say tells on standard error what did not go well, and which run to look at.
func (o *toolsCallOptions) say(run tipstaff.Run, d tipstaff.Driven, end called) {
	switch {
	case end.State == tipstaff.Completed:
	case end.Error != nil:
		if !o.json {
			fmt.Fprintf(o.err, "error: %s\nrun %s\n", clean(tipstaff.Joined(": ", end.Error.Code, end.Error.Message)), run.ID)
		}
	case d.Outcome == "parked":
		o.saySteps(o.err, run, nil, d.WakeAt)
	case end.State == tipstaff.Cancelled:
		fmt.Fprintf(o.err, "cancelled\nrun %s\n", run.ID)
	default:
		fmt.Fprintf(o.err, "interrupted%s; to go on:\n  %s\n", inBrackets(d.Reason), o.resumeLine(run.ID))
	}
}

// outputOf is the tool's output among those of the plan.
func outputOf(outputs json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(outputs, &all) != nil {
		return nil
	}
	return all[tipstaff.CallOutput]
}

// failure is why the call failed, with what the tool said, which only the record
// of the call holds.
func (o *toolsCallOptions) failure(ctx context.Context, svc tipstaff.Service, run tipstaff.Run) *callError {
	e := &callError{}
	if run.Error != nil {
		e.Code, e.Message = run.Error.Code, run.Error.Message
		if e.Code == "" {
			e.Code = run.Error.Reason
		}
	}
	for ev, err := range svc.Events(ctx, tipstaff.EventsRequest{Run: run.ID}) {
		if err != nil {
			return e
		}
		var b struct {
			Error *callError `json:"error"`
		}
		if ev.Kind == tipstaff.KindEffectFinished && json.Unmarshal(ev.Body, &b) == nil && b.Error != nil {
			return b.Error
		}
	}
	return e
}

// inBand is what a tool said with its error: it ran, and that is its answer.
func inBand(e *callError) (output json.RawMessage, reported bool) {
	var d struct {
		Output json.RawMessage `json:"output"`
	}
	if e.Code != "tool_error" || json.Unmarshal(e.Detail, &d) != nil {
		return nil, false
	}
	return d.Output, d.Output != nil
}

// printOutput prints text as it is, and anything else as JSON.
func (o *toolsCallOptions) printOutput(output json.RawMessage) {
	if output == nil {
		return
	}
	var text string
	if json.Unmarshal(output, &text) != nil {
		for _, l := range jsonLines(output) {
			fmt.Fprintln(o.out, l)
		}
		return
	}
	if text == "" {
		return
	}
	text = strings.TrimSuffix(text, "\n")
	if o.env.StdoutTTY {
		text = strings.Join(cleanLines(text), "\n")
	}
	fmt.Fprintln(o.out, text)
}

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

func newToolsCall(a *app) *cobra.Command {
	var (
		text       string
		unattended bool
	)
	cmd := &cobra.Command{
		Use:   "call URI",
		Short: "Call a tool",
		Long: `Call a tool and print its output. The call is a run of a plan with this one node:
it passes the same gate, is journaled, and can be shown, resumed and verified. URI is
that of tools list, or SERVER/TOOL for the definition that was accepted.

Exit code 10: the tool ran and reported an error. 3: the call was refused before a
run existed. 4: it waits for an approval.`,
		Example: `  tipstaff tools call mcp://builtin/read_file@1.0.0 --args '{"path":"notes.md"}'
  tipstaff tools call builtin/json_query --args @query.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := a.argument("--args", text)
			if err != nil {
				return err
			}
			uri, err := a.toolURI(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			program, err := tipstaff.CallProgram(uri, given)
			if err != nil {
				return err
			}
			return a.call(cmd.Context(), program, a.newPrompter(unattended || text == "-"))
		},
	}
	argsFlag(cmd, &text)
	cmd.Flags().BoolVar(&unattended, "unattended", false, "ask nobody: park at gates")
	return cmd
}

// toolURI is the URI of a tool that is named by its server and its own name.
func (a *app) toolURI(ctx context.Context, name string) (string, error) {
	if a.server != "" || strings.Contains(name, "://") {
		return name, nil
	}
	tools, err := a.tools(ctx)
	if err != nil {
		return "", err
	}
	t, err := tools.Describe(ctx, name, false)
	return t.URI, err
}

func (a *app) call(ctx context.Context, program []byte, p *prompter) error {
	svc, err := a.open(ctx, toStart)
	if err != nil {
		return err
	}
	req := tipstaff.StartRequest{Name: "the call", Program: program, Presence: tipstaff.Presence{Attended: p != nil}}
	started, err := startOrPin(ctx, a, p, func() (tipstaff.Started, error) { return svc.Start(ctx, req) })
	if err != nil {
		return unplaced(err)
	}
	leave := attend(ctx, svc, started.Run, p.asker())
	driven, err := svc.Wait(context.WithoutCancel(ctx), started.Run)
	leave()
	if err != nil {
		return err
	}
	return a.concludeCall(ctx, svc, started.Run, driven)
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

func (a *app) concludeCall(ctx context.Context, svc tipstaff.Service, id tipstaff.ID, d tipstaff.Driven) error {
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
		end.Error = callFailure(calm, svc, run)
		if output, reported := inBand(end.Error); reported {
			end.Output, code = output, exitToolError
		}
	}
	if err := a.print(end, func() { a.printOutput(end.Output) }); err != nil {
		return err
	}
	switch { // what did not go well, and which run to look at
	case end.State == tipstaff.Completed, end.Error != nil && a.json:
	case end.Error != nil:
		fmt.Fprintf(a.err, "error: %s\nrun %s\n", clean(tipstaff.Joined(": ", end.Error.Code, end.Error.Message)), run.ID)
	case end.State == tipstaff.Cancelled:
		fmt.Fprintf(a.err, "cancelled\nrun %s\n", run.ID)
	default:
		a.sayNext(ctx, svc, run, d)
	}
	if d.Err != nil {
		return d.Err
	}
	return status(code)
}

// outputOf is the tool's output among those of the plan.
func outputOf(outputs json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(outputs, &all) != nil {
		return nil
	}
	return all[tipstaff.CallOutput]
}

// callFailure is why the call failed, with what the tool said, which only the record
// of the call holds.
func callFailure(ctx context.Context, svc tipstaff.Service, run tipstaff.Run) *callError {
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
		if ev.Kind != tipstaff.KindEffectFinished {
			continue
		}
		if failed := tipstaff.BodyOf[tipstaff.Effect](&ev).Error; failed != nil {
			return &callError{failed.Code, failed.Message, failed.Detail}
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
func (a *app) printOutput(output json.RawMessage) {
	var text string
	switch {
	case output == nil:
		return
	case json.Unmarshal(output, &text) != nil:
		text = jsonLines(output)
	case text == "":
		return
	case a.env.StdoutTTY:
		text = cleanLines(text)
	}
	fmt.Fprintln(a.out, strings.TrimSuffix(text, "\n"))
}

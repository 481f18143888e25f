package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type runOptions struct {
	*app
	file       string
	inputs     []string
	inputsFile string
	yes        bool
	unattended bool
	dryRun     bool

	allowSubDispatch bool

	pipelineOptions
}

func newRun(a *app) *cobra.Command {
	o := &runOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a plan or a pipeline",
		Long: `Run a plan or a pipeline, and show it while it runs.

FILE is a plan or a pipeline in YAML or JSON; - reads it from standard input. By
handing it over you accept it.

The text after = of an --input is JSON if it parses as JSON, otherwise a string:
n=3 is a number, n='"3"' and name=notes.md are strings. A pipeline gets them as its
metadata, and what it works on from --text. --max-… only lower its bounds.

At a terminal you are asked when the plan needs a decision. Otherwise, or with
--unattended, the run parks, the commands that answer it are printed, and the
exit code is 4.`,
		Example: `  tipstaff run plan.yaml --input file=notes.md --input depth=2
  tipstaff run plan.yaml --inputs inputs.json --unattended
  tipstaff run plan.yaml --dry-run
  tipstaff run loop.yaml --text @task.md --goal tests --max-iterations 2
  tipstaff run loop.yaml --dry-run --graph mermaid
  tipstaff run - --json < plan.yaml`,
		Args:              needs("FILE"),
		ValidArgsFunction: completed(a, completeFile),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			o.look(cmd)
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	o.pipelineOptions.flags(cmd)
	o.hostFlag(cmd)
	return cmd
}

// flags are those of every command that runs a plan.
func (o *runOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&o.inputs, "input", nil, "an input of the plan, as `name=value`; may be repeated")
	cmd.Flags().StringVar(&o.inputsFile, "inputs", "", "a JSON `file` with inputs, - for standard input; --input goes before it")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "approve the plan's own gates in advance; the record says so")
	cmd.Flags().BoolVar(&o.unattended, "unattended", false, "ask nobody: park at gates")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check the plan and print its outline; run nothing")
	cmd.Flags().BoolVar(&o.allowSubDispatch, "allow-sub-dispatch", false, "let the plan start child runs where tipstaff.yaml does not")
	o.skillsFlag(cmd)
}

func (o *runOptions) run(ctx context.Context) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	if o.dryRun {
		svc, err := o.open(ctx, true)
		if err != nil {
			return err
		}
		return o.outline(ctx, svc, tipstaff.ValidateRequest{Start: &req, Graph: o.graph})
	}
	svc, err := o.openToStart(ctx)
	if err != nil {
		return err
	}
	if err := o.checkHosts(ctx, svc, req); err != nil {
		return err
	}
	p := o.newPrompter(ctx, o.unattended || o.readsStdin())
	req.Attended = p != nil
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Start(ctx, req) })
	if err != nil {
		return err
	}
	o.warn(started.Warnings)
	return o.drive(ctx, svc, &started, p, p.asker(), 0)
}

// warn tells what is odd about a program that can be run all the same.
func (o *runOptions) warn(list []tipstaff.Problem) {
	for _, w := range list {
		fmt.Fprintf(o.err, "warning: %s\n", problemLine(w))
	}
}

func (o *runOptions) readsStdin() bool { return o.file == "-" || o.inputsFile == "-" || o.text == "-" }

// request reads what the command line names.
func (o *runOptions) request() (tipstaff.StartRequest, error) {
	req := tipstaff.StartRequest{Name: o.file, AllowSubDispatch: o.allowSubDispatch}
	req.Yes = o.yes
	if o.fromStdin() > 1 {
		return req, &usageError{message: "only one of the program, --inputs and --text can come from standard input"}
	}
	if o.file == "-" {
		req.Name = "stdin"
	}
	if (o.graph != "" || o.schema) && !o.dryRun {
		return req, &usageError{message: "--graph and --schema draw what is not run", hint: "add --dry-run; tipstaff show RUN --graph draws a run"}
	}
	var err error
	if req.Program, err = o.read(o.file); err != nil {
		return req, err
	}
	if req.Inputs, err = o.readInputs(); err != nil {
		return req, err
	}
	if o.env.isPipeline(req.Program) {
		return req, o.pipelineRequest(&req)
	}
	if len(o.given) > 0 {
		return req, &usageError{message: fmt.Sprintf("--%s is for pipelines, and %s is none", o.given[0], o.file)}
	}
	return req, nil
}

// fromStdin counts what is to be read from standard input.
func (o *runOptions) fromStdin() (n int) {
	for _, name := range []string{o.file, o.inputsFile, o.text} {
		if name == "-" {
			n++
		}
	}
	return n
}

// maxDocument is far above what a plan may have: it only keeps a mistaken
// /dev/zero out of memory.
const maxDocument = 64 << 20

func (a *app) read(name string) ([]byte, error) {
	r := a.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &usageError{message: err.Error()}
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return nil, &usageError{message: err.Error()}
	case len(b) > maxDocument:
		return nil, &usageError{message: fmt.Sprintf("%s is larger than %d MiB", name, maxDocument>>20)}
	}
	return b, nil
}

func (o *runOptions) readInputs() (map[string]json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	if o.inputsFile != "" {
		b, err := o.read(o.inputsFile)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &inputs); err != nil || inputs == nil {
			return nil, &usageError{message: fmt.Sprintf("--inputs %s is not a JSON object", o.inputsFile), hint: `write {"name": value, …}`}
		}
	}
	given := map[string]bool{}
	for _, arg := range o.inputs {
		name, text, ok := strings.Cut(arg, "=")
		switch {
		case !ok || name == "":
			return nil, &usageError{message: fmt.Sprintf("--input %q has no name and value", arg), hint: "write --input name=value"}
		case !utf8.ValidString(arg):
			return nil, &usageError{message: fmt.Sprintf("--input %q is not UTF-8", arg), hint: "give a file to the plan instead of bytes"}
		case given[name]:
			return nil, &usageError{message: fmt.Sprintf("--input %s is given twice", name)}
		}
		given[name] = true
		inputs[name] = inputValue(text)
	}
	return inputs, nil
}

// inputValue is JSON if it parses as JSON, otherwise a string.
func inputValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(bytes.TrimSpace([]byte(text)))
	}
	return quoted(text)
}

func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil { // a string always has a form in JSON
		panic(err)
	}
	return b
}

func (o *runOptions) outline(ctx context.Context, svc tipstaff.Service, req tipstaff.ValidateRequest) error {
	s, err := svc.Validate(ctx, req)
	if err != nil {
		return err
	}
	o.warn(s.Warnings)
	if err := o.mayHost(s.Outline); err != nil {
		return err
	}
	if o.schema {
		s.Graph = o.env.PipelineSchema
	}
	if s.Graph != nil {
		_, err := o.out.Write(s.Graph)
		return err
	}
	if o.json {
		return o.writeJSON(s)
	}
	fmt.Fprintf(o.out, "%s  %s\n", clean(tipstaff.Joined(" ", s.Program.Kind, s.Program.Name)), clean(s.Program.Digest))
	if s.Outline != nil {
		for _, l := range tipstaff.ShownOutline(s.Outline) {
			fmt.Fprintln(o.out, l)
		}
	}
	return nil
}

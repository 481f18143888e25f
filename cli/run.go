package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

type runOptions struct {
	*app
	detachOptions
	file, inputsFile string
	inputs           []string

	yes, unattended, dryRun, allowSubDispatch bool

	// Of pipelines:
	text, thread, graph string
	goals               []string
	schema              bool
	bounds              [len(boundNames)]string
	given               []string // those of their flags that the command line names
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
exit code is 4.

With --detach the run is left to a process of its own, which goes on when this
terminal is closed; its output is in runner.log in the folder of the run.`,
		Example: `  tipstaff run plan.yaml --input file=notes.md --input depth=2
  tipstaff run plan.yaml --detach
  tipstaff run plan.yaml --inputs inputs.json --unattended
  tipstaff run plan.yaml --dry-run
  tipstaff run loop.yaml --text @task.md --goal tests --max-iterations 2
  tipstaff run loop.yaml --dry-run --graph mermaid
  tipstaff run - --json < plan.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			flags := []string{"text", "goal", "thread", "host", "graph"}
			for _, n := range boundNames {
				flags = append(flags, n.flag)
			}
			o.given = given(cmd, flags...)
			return o.run(cmd.Context())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.text, "text", "", "the `text` a pipeline works on; @FILE reads a file, - standard input")
	cmd.Flags().StringArrayVar(&o.goals, "goal", nil, "a `goal` of a pipeline run; may be repeated")
	cmd.Flags().StringVar(&o.thread, "thread", "", "the `key` of the line of runs that a pipeline run belongs to")
	cmd.Flags().StringVar(&o.graph, "graph", "", "with --dry-run: draw the pipeline, as mermaid or dot")
	cmd.Flags().BoolVar(&o.schema, "schema", false, "with --dry-run: print the JSON Schema of pipelines")
	for i, n := range boundNames {
		cmd.Flags().StringVar(&o.bounds[i], n.flag, "", n.help)
	}
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
	o.strictFlag(cmd)
	o.skillsFlag(cmd)
	o.detachOptions.flags(cmd)
}

func (o *runOptions) run(ctx context.Context) error {
	req, err := o.request()
	if err != nil {
		return err
	}
	limit, err := o.limit(o.app)
	if err != nil {
		return err
	}
	svc, err := o.open(ctx, OpenOptions{ReadOnly: o.dryRun, Starts: !o.dryRun, MaxRuns: limit})
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.outline(ctx, svc, tipstaff.ValidateRequest{Start: &req, Graph: o.graph})
	}
	if len(o.hosts) > 0 {
		// What cannot be validated is not started either, and that says what can be done.
		if checked, err := svc.Validate(ctx, tipstaff.ValidateRequest{Start: &req}); err == nil {
			if err := o.mayHost(checked.Outline); err != nil {
				return err
			}
		}
	}
	p := o.newPrompter(o.unattended || o.detach || fromStdin(o.file, o.inputsFile, o.text) > 0)
	req.Attended, req.Detach = p != nil, o.detach
	started, err := startOrPin(ctx, o.app, p, func() (tipstaff.Started, error) { return svc.Start(ctx, req) })
	if err != nil {
		return err
	}
	o.warn(started.Warnings)
	if o.detach {
		return o.sayLaunched(ctx, svc, started)
	}
	return o.drive(ctx, svc, &started, p, p.asker(), 0)
}

// warn tells what is odd about a program that can be run all the same.
func (o *runOptions) warn(list []tipstaff.Problem) {
	for _, w := range list {
		fmt.Fprintf(o.err, "warning: %s\n", clean(w.String()))
	}
}

// request reads what the command line names.
func (o *runOptions) request() (tipstaff.StartRequest, error) {
	req := tipstaff.StartRequest{AllowSubDispatch: o.allowSubDispatch}
	req.Yes = o.yes
	if fromStdin(o.file, o.inputsFile, o.text) > 1 {
		return req, &usageError{message: "only one of the program, --inputs and --text can come from standard input"}
	}
	if (o.graph != "" || o.schema) && !o.dryRun {
		return req, &usageError{message: "--graph and --schema draw what is not run", hint: "add --dry-run; tipstaff show RUN --graph draws a run"}
	}
	program, err := o.source(o.file)
	if err != nil {
		return req, err
	}
	req.Name, req.Program = program.Name, program.Text
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

// fromStdin counts those that are to be read from standard input.
func fromStdin(names ...string) (n int) {
	for _, name := range names {
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
			return nil, unreadable(name, err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	switch {
	case err != nil:
		return nil, unreadable(name, err)
	case len(b) > maxDocument:
		return nil, &usageError{message: fmt.Sprintf("%s is larger than %d MiB", name, maxDocument>>20)}
	}
	return b, nil
}

// unreadable says why a file cannot be read and, of one that is not there, which was perhaps
// meant.
func unreadable(name string, err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &usageError{message: "there is no file " + clean(name) + tipstaff.DidYouMean(filepath.Base(name), namesIn(filepath.Dir(name)))}
	case errors.As(err, &path):
		err = path.Err
	}
	return &usageError{message: fmt.Sprintf("%s cannot be read: %v", clean(name), err)}
}

// namesIn are names of a folder, of a large one some.
func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(1000) // without them there is nothing to propose
	return names
}

// flagValue is what a flag gives: the text itself, what is in FILE of @FILE, or for -
// what comes from standard input.
func (a *app) flagValue(text string) ([]byte, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if isFile || text == "-" {
		return a.read(name)
	}
	return []byte(text), nil
}

// source reads a document.
func (a *app) source(name string) (tipstaff.Source, error) {
	text, err := a.read(name)
	if name == "-" {
		name = "stdin"
	}
	return tipstaff.Source{Name: name, Text: text}, err
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
	err := assignments("input", "value", o.inputs, &inputs, func(_, name, text string) (json.RawMessage, error) {
		if !utf8.ValidString(name + text) {
			return nil, &usageError{message: fmt.Sprintf("--input %q is not UTF-8", name+"="+text), hint: "give a file to the plan instead of bytes"}
		}
		return tipstaff.TypedValue(text), nil
	})
	return inputs, err
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
	return o.print(s, func() {
		fmt.Fprintf(o.out, "%s  %s\n", clean(tipstaff.Joined(" ", s.Program.Kind, s.Program.Name)), clean(s.Program.Digest))
		if s.Outline != nil {
			for _, l := range tipstaff.ShownOutline(s.Outline) {
				fmt.Fprintln(o.out, l)
			}
		}
	})
}

// boundNames are the flags that lower the bounds of a pipeline.
var boundNames = [...]struct{ flag, bound, help string }{
	{"max-iterations", tipstaff.BoundIterations, "at most `n` iterations, if the pipeline allows more"},
	{"max-llm-calls", tipstaff.BoundModelCalls, "at most `n` model calls"},
	{"max-agent-hops", tipstaff.BoundAgentHops, "at most `n` starts of stages"},
	{"max-stages", tipstaff.BoundStages, "at most `n` rounds"},
	{"max-tool-calls", tipstaff.BoundToolCalls, "at most `n` tool calls"},
	{"max-tokens", tipstaff.BoundTokens, "at most `n` tokens, in and out"},
	{"max-cost-usd", tipstaff.BoundCostUSD, "at most this `amount`, like 0.50"},
	{"max-wall-seconds", tipstaff.BoundWallTime, "at most `n` seconds of running"},
}

// readBounds is what the flags say, in the units of the ledger; nil: nothing.
func (o *runOptions) readBounds() (bounds tipstaff.Bounds, err error) {
	for i, n := range boundNames {
		text := o.bounds[i]
		if text == "" {
			continue
		}
		var value any = json.Number(text)
		switch n.bound {
		case tipstaff.BoundCostUSD:
			value = text
		case tipstaff.BoundWallTime:
			value = text + "s"
		}
		_, none := strconv.ParseFloat(text, 64) // 1m would become a millisecond
		limit, err := tipstaff.ParseRunBound(n.bound, value)
		if none != nil || err != nil || limit < 1 {
			return nil, &usageError{message: fmt.Sprintf("--%s %q is not an amount above 0", n.flag, text)}
		}
		if bounds == nil {
			bounds = tipstaff.Bounds{}
		}
		bounds[n.bound] = limit
	}
	return bounds, nil
}

// pipelineRequest turns what the command line says into the inputs of a pipeline:
// its --input are metadata.
func (o *runOptions) pipelineRequest(req *tipstaff.StartRequest) (err error) {
	in := map[string]json.RawMessage{}
	for _, name := range []string{"raw_input", "metadata", "goals", "thread_id"} { // as --inputs may have them
		if v, ok := req.Inputs[name]; ok && o.inputsFile != "" {
			in[name] = v
			delete(req.Inputs, name)
		}
	}
	if len(req.Inputs) > 0 {
		all := map[string]json.RawMessage{}
		if in["metadata"] != nil {
			if err := json.Unmarshal(in["metadata"], &all); err != nil || all == nil {
				return &usageError{message: "metadata in --inputs is not an object"}
			}
		}
		maps.Copy(all, req.Inputs)
		in["metadata"] = jsonOf(all)
	}
	if slices.Contains(o.given, "text") {
		text, err := o.flagValue(o.text)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) {
			return &usageError{message: fmt.Sprintf("--text %s is not UTF-8 text", o.text)}
		}
		in["raw_input"] = jsonOf(string(text))
	}
	if len(o.goals) > 0 {
		in["goals"] = jsonOf(o.goals)
	}
	if o.thread != "" {
		in["thread_id"] = jsonOf(o.thread)
	}
	req.Inputs = in
	req.Bounds, err = o.readBounds()
	return err
}

// Attached is where hosts of agents reach a run that this process drives.
type Attached struct {
	Environ []string // variables by which a host finds it
	Close   func()   // lets hosts go, and ends those that were started
}

func (a *app) hostFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.hosts, "host", nil, "start this `command` to serve the remote stages of a pipeline; may be repeated")
}

// hasRemote reports whether a program has stages that are done by hosts.
func hasRemote(o *tipstaff.Outline) bool {
	if o == nil || o.Kind != tipstaff.ProgramPipeline {
		return false
	}
	return slices.ContainsFunc(o.Children, func(stage *tipstaff.Outline) bool { return stage.Hosted })
}

// mayHost refuses --host where there is nothing to serve.
func (a *app) mayHost(o *tipstaff.Outline) error {
	if len(a.hosts) > 0 && !hasRemote(o) {
		return &usageError{message: "--host serves remote stages, and there are none"}
	}
	return nil
}

// attach lets hosts attach to a run with remote stages while it is driven. Whoever
// starts none here is told how one finds it.
func (a *app) attach(s *tipstaff.Started, f *follower) (release func()) {
	if err := a.mayHost(s.Outline); err != nil {
		f.tell(err.Error())
	}
	if !hasRemote(s.Outline) || a.server != "" { // where hosts attach themselves
		return func() {}
	}
	attached, err := a.session.Attach(s.Run, a.hosts, f.tell)
	if err != nil {
		f.tell("remote stages cannot be served: " + clean(err.Error()))
		return func() {}
	}
	if len(a.hosts) == 0 {
		f.tell(fmt.Sprintf("remote stages wait for hosts with %s", clean(strings.Join(attached.Environ, " "))))
	}
	return attached.Close
}

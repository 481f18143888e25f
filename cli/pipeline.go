package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tipstaff/tipstaff"
)

// pipelineOptions are the flags that only pipelines have.
type pipelineOptions struct {
	text   string
	goals  []string
	thread string
	graph  string
	schema bool
	bounds boundFlags

	given []string // those that the command line names
}

func (o *pipelineOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.text, "text", "", "the `text` a pipeline works on; @FILE reads a file, - standard input")
	cmd.Flags().StringArrayVar(&o.goals, "goal", nil, "a `goal` of a pipeline run; may be repeated")
	cmd.Flags().StringVar(&o.thread, "thread", "", "the `key` of the line of runs that a pipeline run belongs to")
	cmd.Flags().StringVar(&o.graph, "graph", "", "with --dry-run: draw the pipeline, as mermaid or dot")
	cmd.Flags().BoolVar(&o.schema, "schema", false, "with --dry-run: print the JSON Schema of pipelines")
	o.bounds.flags(cmd)
}

// look finds out which of the flags were given.
func (o *pipelineOptions) look(cmd *cobra.Command) {
	for _, name := range append([]string{"text", "goal", "thread", "host", "graph"}, o.bounds.names()...) {
		if cmd.Flags().Changed(name) {
			o.given = append(o.given, name)
		}
	}
}

// boundFlags lower the bounds of a pipeline, by the names of its document.
type boundFlags struct{ texts [len(boundNames)]string }

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

func (b *boundFlags) flags(cmd *cobra.Command) {
	for i, n := range boundNames {
		cmd.Flags().StringVar(&b.texts[i], n.flag, "", n.help)
	}
}

func (b *boundFlags) names() (list []string) {
	for _, n := range boundNames {
		list = append(list, n.flag)
	}
	return list
}

// read is what the flags say, in the units of the ledger; nil: nothing.
func (b *boundFlags) read() (tipstaff.Bounds, error) {
	var bounds tipstaff.Bounds
	for i, n := range boundNames {
		text := b.texts[i]
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
		if in["metadata"], err = mergedMetadata(in["metadata"], req.Inputs); err != nil {
			return err
		}
	}
	if slices.Contains(o.given, "text") {
		text, err := o.readText()
		if err != nil {
			return err
		}
		in["raw_input"] = quoted(text)
	}
	if len(o.goals) > 0 {
		in["goals"] = jsonOf(o.goals)
	}
	if o.thread != "" {
		in["thread_id"] = quoted(o.thread)
	}
	req.Inputs = in
	req.Bounds, err = o.bounds.read()
	return err
}

func mergedMetadata(given json.RawMessage, more map[string]json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if given != nil {
		if err := json.Unmarshal(given, &all); err != nil || all == nil {
			return nil, &usageError{message: "metadata in --inputs is not an object"}
		}
	}
	for name, v := range more {
		all[name] = v
	}
	return jsonOf(all), nil
}

// readText is what --text says, or what the file or pipe that it names holds.
func (o *runOptions) readText() (string, error) {
	from := ""
	switch name, ok := strings.CutPrefix(o.text, "@"); {
	case ok:
		from = name
	case o.text == "-":
		from = "-"
	default:
		return o.text, nil
	}
	b, err := o.read(from)
	if err == nil && !utf8.Valid(b) {
		err = &usageError{message: fmt.Sprintf("--text %s is not UTF-8 text", o.text)}
	}
	return string(b), err
}

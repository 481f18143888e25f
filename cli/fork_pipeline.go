package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// request is what the command line asks for.
func (o *forkOptions) request(run tipstaff.ID) (req tipstaff.ForkRequest, err error) {
	req = tipstaff.ForkRequest{Run: run, Thread: o.thread}
	if o.rollback && o.thread != "" {
		return req, &usageError{message: "a rollback keeps its thread: only a fork has another"}
	}
	if err := o.place(&req); err != nil {
		return req, err
	}
	changes := o.rollback || o.thread != "" || len(o.outputs)+len(o.metadata)+len(o.raise) > 0
	if o.label != "" && (o.resume || req.At != 0 || req.Stage != "" || changes) {
		return req, &usageError{message: "--label names a checkpoint, and makes no run", hint: "tipstaff fork RUN --label NAME [--at CHECKPOINT]"}
	}
	if req.Outputs, err = assignments("set-output", o.outputs); err != nil {
		return req, err
	}
	if req.Metadata, err = assignments("set-metadata", o.metadata); err != nil {
		return req, err
	}
	req.Raise, err = raises(o.raise)
	return req, err
}

// place reads --at: a record's number, a checkpoint or stage:NAME.
func (o *forkOptions) place(req *tipstaff.ForkRequest) error {
	if o.at == "" {
		return nil
	}
	if stage, ok := strings.CutPrefix(o.at, "stage:"); ok && stage != "" {
		req.Stage = stage
		return nil
	}
	if strings.HasPrefix(o.at, "cp_") {
		req.Checkpoint = o.at
		return nil
	}
	seq, err := strconv.ParseInt(o.at, 10, 64)
	if err != nil || seq < 1 {
		return &usageError{message: fmt.Sprintf("--at %s is no record, checkpoint or stage", shellWord(o.at)),
			hint: "it is a number that tipstaff events RUN prints, an id that tipstaff show RUN --checkpoints prints, or stage:NAME"}
	}
	req.At = seq
	return nil
}

// assignments are flags of the form name=JSON.
func assignments(flag string, texts []string) (map[string]json.RawMessage, error) {
	var values map[string]json.RawMessage
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || name == "":
			return nil, &usageError{message: fmt.Sprintf("--%s %s has no name and value", flag, shellWord(text)), hint: fmt.Sprintf("write --%s name=JSON", flag)}
		case !json.Valid([]byte(value)):
			return nil, &usageError{message: fmt.Sprintf("--%s %s: the value is not JSON", flag, name), hint: `text stands in quotes: name='"like this"'`}
		case values[name] != nil:
			return nil, &usageError{message: fmt.Sprintf("--%s %s is given twice", flag, name)}
		}
		if values == nil {
			values = map[string]json.RawMessage{}
		}
		values[name] = json.RawMessage(value)
	}
	return values, nil
}

// raises are bounds by the names of documents.
func raises(texts []string) (map[string]int64, error) {
	var raise map[string]int64
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if name == "max_cost_usd" {
			n, err = tipstaff.ParseBound(tipstaff.BoundCostUSD, value)
		}
		if !ok || err != nil {
			return nil, &usageError{message: fmt.Sprintf("--raise %s is no bound and amount", shellWord(text)), hint: "write --raise max_iterations=5"}
		}
		if _, twice := raise[name]; twice {
			return nil, &usageError{message: fmt.Sprintf("--raise %s is given twice", name)}
		}
		if raise == nil {
			raise = map[string]int64{}
		}
		raise[name] = n
	}
	return raise, nil
}

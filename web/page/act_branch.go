package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// Fields of a fork: what stands after these is the name of an output, or of a bound.
const (
	outputField = "output."
	raiseField  = "raise."

	placesMost = 100 // checkpoints that are offered, the newest
	outputMost = 400 // characters that are shown of what an output is now
)

func isPipeline(run tipstaff.Run) bool { return run.Program.Kind == tipstaff.ProgramPipeline }

// forkAction makes a new run of the beginning of one. Nobody drives it yet.
var forkAction = action{
	Name: "fork", Title: "Fork", Button: "Fork the run",
	says:   saying("A new run inherits what is recorded up to there and waits to be resumed; this one stays as it is."),
	is:     func(run tipstaff.Run) bool { return run.HeadSeq > 0 },
	fields: branchFields,
	command: func(run tipstaff.Run, in url.Values) []string {
		return branchWords(withFlag([]string{"fork", run.ID.String()}, "--at", placeOf(in)), in)
	},
	do: func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error) { return v.branch(run, in, false) },
}

// rollbackAction makes a run that takes the place of one.
var rollbackAction = action{
	Name: "rollback", Title: "Roll back", Button: "Roll the run back",
	says: func(run tipstaff.Run) string {
		if run.State.Terminal() {
			return "A new run goes on from that checkpoint in the place of this one, with its data as it was there; what has been used stays counted."
		}
		return fmt.Sprintf("This run ends, with %s, and a new one goes on from that checkpoint in its place, with its data as it was there; what has been used stays counted.",
			tipstaff.Plural(len(run.OpenGates), "open gate"))
	},
	is:     isPipeline,
	fields: branchFields,
	command: func(run tipstaff.Run, in url.Values) []string {
		return branchWords(append(withFlag([]string{"fork", run.ID.String()}, "--at", placeOf(in)), "--rollback"), in)
	},
	do: func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error) { return v.branch(run, in, true) },
}

// labelAction gives a checkpoint a name.
var labelAction = action{
	Name: "label", Title: "Label", Button: "Label the checkpoint",
	says: saying("A checkpoint of this run gets a name, by which people find it; nothing else changes."),
	is:   isPipeline,
	fields: func(v *view, run tipstaff.Run, _ url.Values) ([]field, error) {
		at, err := v.placeField(run, "Checkpoint", "its id; empty: the newest")
		return []field{at, {Name: "label", Label: "Name", Kind: "line"}}, err
	},
	command: func(run tipstaff.Run, in url.Values) []string {
		words := withFlag([]string{"fork", run.ID.String()}, "--at", placeOf(in))
		if label := in.Get("label"); label != "" {
			return append(words, "--label", label)
		}
		return append(words, "--label", "NAME")
	},
	do: func(v *view, run tipstaff.Run, in url.Values) (tipstaff.ID, error) {
		place, err := readPlace(in)
		switch {
		case err != nil:
			return run.ID, err
		case place.At != 0 || place.Stage != "":
			return run.ID, wrongField("at", "a label is given to a checkpoint, by its id")
		case strings.TrimSpace(in.Get("label")) == "":
			return run.ID, wrongField("label", "a name is needed")
		}
		_, err = v.s.control.Runs.Label(v.ctx(), tipstaff.LabelRequest{Run: run.ID, Checkpoint: place.Checkpoint, Label: in.Get("label")})
		return run.ID, err
	},
}

// branch makes a run of the beginning of another.
func (v *view) branch(run tipstaff.Run, in url.Values, rollback bool) (tipstaff.ID, error) {
	place, err := readPlace(in)
	if err != nil {
		return run.ID, err
	}
	edits, err := readChanges(in)
	if err != nil {
		return run.ID, err
	}
	got, err := v.s.control.Branch(v.ctx(), tipstaff.Branching{Run: run.ID, Place: place, Rollback: rollback, Edits: edits})
	return got.ID, err
}

func placeOf(in url.Values) string { return strings.TrimSpace(in.Get("at")) }

func readPlace(in url.Values) (tipstaff.Place, error) {
	place, ok := tipstaff.ParsePlace(placeOf(in))
	if !ok {
		return place, wrongField("at", "%s is not a record, checkpoint or stage: it is the number of a record, the id of a checkpoint, or stage:NAME", tipstaff.Quote(placeOf(in), 100))
	}
	return place, nil
}

// readChanges are the outputs and bounds that a new run is to have instead.
func readChanges(in url.Values) (c tipstaff.Changes, err error) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		text := strings.TrimSpace(in.Get(name))
		if key, is := strings.CutPrefix(name, outputField); is && text != "" {
			if c.Outputs == nil {
				c.Outputs = map[string]json.RawMessage{}
			}
			var object map[string]json.RawMessage
			if json.Unmarshal([]byte(text), &object) != nil || object == nil {
				return c, wrongField(name, `the output of %s is not a JSON object, like {"verdict": "ok"}`, tipstaff.Quote(key, 100))
			}
			c.Outputs[key] = json.RawMessage(text)
		}
		if bound, is := strings.CutPrefix(name, raiseField); is && text != "" {
			if c.Raise == nil {
				c.Raise = map[string]int64{}
			}
			if c.Raise[bound], err = tipstaff.ParseRaise(bound, text); err != nil {
				return c, wrongField(name, "%s is not an amount: %s", tipstaff.Quote(text, 40), raiseHint(bound))
			}
		}
	}
	return c, nil
}

// branchWords are the words of a command with all that is changed.
func branchWords(words []string, in url.Values) []string {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		text := strings.TrimSpace(in.Get(name))
		if key, is := strings.CutPrefix(name, outputField); is && text != "" {
			var line bytes.Buffer
			if json.Compact(&line, []byte(text)) == nil {
				text = line.String()
			}
			words = append(words, "--set-output", key+"="+text)
		}
		if bound, is := strings.CutPrefix(name, raiseField); is && text != "" {
			words = append(words, "--raise", bound+"="+text)
		}
	}
	return words
}

// branchFields are where a run is forked and what the new one has instead.
func branchFields(v *view, run tipstaff.Run, in url.Values) ([]field, error) {
	hint := "the number of a record; empty: from the end"
	switch {
	case isPipeline(run):
		hint = "a checkpoint, stage:NAME, or a record: then the last checkpoint before it; empty: the newest checkpoint"
	case run.State == tipstaff.Failed:
		hint = "the number of a record; empty: from before what made it fail"
	}
	at, err := v.placeField(run, "From", hint)
	all := []field{at}
	if err == nil && isPipeline(run) {
		all, err = v.outputFields(run, in, all)
	}
	for _, name := range slices.Sorted(maps.Keys(run.Bounds)) {
		if b := run.Bounds[name]; b.Limited {
			bound := tipstaff.BoundField(name)
			all = append(all, field{Name: raiseField + bound, Label: "Set " + bound, Kind: "number", Group: "Bounds", Hint: raiseHint(bound) + "; now " + tipstaff.AmountText(name, b.Limit) + "; empty: as it is"})
		}
	}
	return all, err
}

func raiseHint(bound string) string {
	switch bound {
	case tipstaff.BoundField(tipstaff.BoundCostUSD):
		return "in USD, like 2.50"
	case tipstaff.BoundField(tipstaff.BoundWallTime):
		return "in seconds"
	}
	return "a whole number"
}

// placeField asks for a place of a run, and offers its checkpoints.
func (v *view) placeField(run tipstaff.Run, label, hint string) (field, error) {
	f := field{Name: "at", Label: label, Kind: "line", Hint: hint}
	if !isPipeline(run) {
		return f, nil
	}
	all, err := v.s.control.Runs.Checkpoints(v.ctx(), run.ID)
	for _, c := range slices.Backward(all) {
		if len(f.List) == placesMost {
			break
		}
		f.List = append(f.List, choice{c.ID, tipstaff.Joined(", ", append([]string{c.Stage, fmt.Sprintf("turn %d", c.Turn), fmt.Sprintf("record %d", c.Seq)}, c.Labels...)...)})
	}
	return f, err
}

// outputFields ask for outputs that the new run has instead of those that there are.
func (v *view) outputFields(run tipstaff.Run, in url.Values, all []field) ([]field, error) {
	checkpoint := placeOf(in)
	if !strings.HasPrefix(checkpoint, "cp_") {
		checkpoint = ""
	}
	raw, err := v.s.control.Runs.Envelope(v.ctx(), run.ID, checkpoint)
	if tipstaff.CodeOf(err) == tipstaff.CheckpointNotFound { // what is typed may be wrong; the form says so when it is sent
		raw, err = v.s.control.Runs.Envelope(v.ctx(), run.ID, "")
	}
	if err != nil {
		return all, err
	}
	var envelope struct {
		Outputs map[string]json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		return all, err
	}
	for _, key := range slices.Sorted(maps.Keys(envelope.Outputs)) {
		all = append(all, field{Name: outputField + key, Label: "Output of " + key, Kind: "json", Group: "Outputs", Hint: "a JSON object; empty: as it is there", Now: cut(string(envelope.Outputs[key]), outputMost)})
	}
	return all, nil
}

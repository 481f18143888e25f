package tipstaff

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// TypedValue is what somebody has typed: JSON if it parses as JSON, otherwise a string.
func TypedValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(bytes.TrimSpace([]byte(text)))
	}
	return flow.JSON(text)
}

// AsksForText reports whether a gate asks for an answer in somebody's own words: then what
// is typed need not be JSON.
func AsksForText(g Gate) bool {
	return slices.Contains(g.Actions, actionAnswer) && len(QuestionsOf(g)) == 0
}

// AnswerForm is what an answer looks like, for a command line.
func AnswerForm(g Gate, action string) string {
	switch {
	case action == actionExtend:
		bound, wanted := wantedOf(g)
		if wanted > 0 {
			return FormatBound(bound, wanted)
		}
		form := AmountForm(bound)
		return form[strings.LastIndexByte(form, ' ')+1:]
	case action == "modify":
		return `{"KEY":"VALUE"}`
	case AsksForText(g):
		return "TEXT"
	}
	questions := QuestionsOf(g)
	if len(questions) == 0 {
		return "JSON"
	}
	var parts []string
	for _, q := range questions {
		example := `"TEXT"`
		switch {
		case q.HasDefault():
			example = string(q.Default)
		case len(q.Options) > 0:
			example = string(flow.JSON(q.Options[0]))
		case q.Type == "number":
			example = "0"
		case q.Type == "boolean":
			example = "true"
		}
		parts = append(parts, string(flow.JSON(q.ID))+":"+example)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// ParsePlace reads where a run is forked, as people type it: a record's number, a checkpoint,
// stage:NAME, or nothing, which is its end.
func ParsePlace(text string) (place Place, ok bool) {
	stage, named := strings.CutPrefix(text, "stage:")
	seq, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
	case named:
		place.Stage = stage
		return place, stage != ""
	case strings.HasPrefix(text, "cp_"):
		place.Checkpoint = text
	default:
		place.At = seq
		return place, err == nil && seq >= 1
	}
	return place, true
}

// DecideCommand are the words of the command that takes an action at a gate, after the name
// of the program.
func DecideCommand(run ID, g Gate, action string) []string {
	words := []string{"decide", run.String(), g.Typable(), action}
	if NeedsAnswer(g, action) {
		words = append(words, "--answer", AnswerForm(g, action))
	}
	if NeedsFeedback(action) {
		words = append(words, "--feedback", "TEXT")
	}
	return words
}

// Typable is what a command names the gate by: its key, unless nobody can type that.
func (g Gate) Typable() string {
	if Printable(g.Key) != g.Key {
		return g.ID.String()
	}
	return g.Key
}

// CommandLine is a command of this program that can be pasted into a shell.
func CommandLine(words ...string) string {
	line := "tipstaff"
	for _, w := range words {
		line += " " + ShellWord(w)
	}
	return line
}

// ShellWord quotes w where a shell would read it as something else.
func ShellWord(w string) string {
	safe := w != ""
	for _, r := range w {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/@#:=+-", r) {
			safe = false
		}
	}
	if safe && w[0] != '#' {
		return w
	}
	return "'" + strings.ReplaceAll(Printable(w), "'", `'\''`) + "'"
}

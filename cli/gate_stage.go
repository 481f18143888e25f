package cli

import (
	"encoding/json"
	"errors"

	"github.com/tipstaff/tipstaff"
)

// stageSubject is what a gate of a pipeline's stage is about.
type stageSubject struct {
	Stage string `json:"stage"`
	Bound string `json:"bound"`
}

// stageOf tells of gates that a stage has opened; the zero value: it did not.
func stageOf(g tipstaff.Gate) (s stageSubject) {
	if json.Unmarshal(g.Subject, &s) != nil {
		return stageSubject{}
	}
	return s
}

// asksForText reports whether a stage asks for an answer in its own words: then what
// is typed need not be JSON.
func asksForText(g tipstaff.Gate) bool {
	return (g.Kind == tipstaff.Question || g.Kind == tipstaff.Clarification) && stageOf(g).Stage != ""
}

// parseWords takes JSON for what it is, and everything else for a text.
func parseWords(s string) (json.RawMessage, error) {
	if s == "" {
		return nil, errors.New("an answer is needed")
	}
	return inputValue(s), nil
}

// parseData reads the data that a modified approval carries: an object, as stages see
// it.
func parseData(s string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &object) != nil || object == nil {
		return nil, errors.New(`this is no JSON object, like {"limit": 3}`)
	}
	return json.RawMessage(s), nil
}

// stageAnswer is what an answer at the gate of a stage looks like, for a command
// line; "": the gate is none.
func stageAnswer(g tipstaff.Gate, action string) string {
	s := stageOf(g)
	switch {
	case s.Stage == "":
		return ""
	case action == "modify":
		return `{"KEY":"VALUE"}`
	case asksForText(g):
		return `"TEXT"`
	case s.Bound == tipstaff.BoundCostUSD || s.Bound == tipstaff.BoundWallTime || s.Bound == "":
		return "JSON"
	}
	return "{" + string(quoted(s.Bound)) + ":1}"
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// question is one of those that a clarification asks.
type question struct{ tipstaff.ClarifyQuestion }

func questionsOf(g tipstaff.Gate) (all []question) {
	for _, q := range tipstaff.QuestionsOf(g) {
		all = append(all, question{q})
	}
	return all
}

// parse reads an answer as people type it.
func (q question) parse(s string) (json.RawMessage, error) {
	if s == "" {
		switch {
		case q.HasDefault():
			return q.Default, nil
		case !q.Required:
			return nil, nil
		}
		return nil, errors.New("an answer is needed")
	}
	switch {
	case q.Type == "number":
		return parseNumber(s)
	case q.Type == "boolean":
		return parseYes(s)
	case len(q.Options) > 0:
		return q.parseChoice(s)
	}
	return quoted(s), nil
}

func parseNumber(s string) (json.RawMessage, error) {
	if _, err := strconv.ParseFloat(s, 64); err != nil || !json.Valid([]byte(s)) {
		return nil, fmt.Errorf("%q is not a number like 3, -1 or 0.5", s)
	}
	return json.RawMessage(s), nil
}

func parseYes(s string) (json.RawMessage, error) {
	switch strings.ToLower(s) {
	case "y", "yes", "true":
		return json.RawMessage("true"), nil
	case "n", "no", "false":
		return json.RawMessage("false"), nil
	}
	return nil, fmt.Errorf("%q is neither yes nor no", s)
}

// parseChoice takes an option by name, by a unique beginning, or by its place.
func (q question) parseChoice(s string) (json.RawMessage, error) {
	option, err := match(s, q.Options)
	if err == nil {
		return quoted(option), nil
	}
	if n, place := strconv.Atoi(s); place == nil && n >= 1 && n <= len(q.Options) {
		return quoted(q.Options[n-1]), nil
	}
	return nil, fmt.Errorf("%s: there are %s", strings.Replace(err.Error(), "actions", "answers", 1), strings.Join(q.Options, ", "))
}

// clarify asks the questions one after another, and gives the answers as one
// object.
func (p *prompter) clarify(ctx context.Context, questions []question) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, q := range questions {
		answer, err := insist(ctx, p, fmt.Sprintf("%d/%d  %s: ", i+1, len(questions), q.Text()), q.parse)
		if err != nil {
			return nil, err
		}
		if answer == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(quoted(q.ID))
		b.WriteByte(':')
		b.Write(answer)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// answerForm is what an answer looks like, for a command line.
func answerForm(g tipstaff.Gate, action string) string {
	if form := stageAnswer(g, action); form != "" {
		return form
	}
	questions := questionsOf(g)
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
			example = string(quoted(q.Options[0]))
		case q.Type == "number":
			example = "0"
		case q.Type == "boolean":
			example = "true"
		}
		parts = append(parts, string(quoted(q.ID))+":"+example)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

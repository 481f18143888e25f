package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// conclude ends the turn with the model's answer, or sends one back that does not
// fit the output schema.
func (t *turn) conclude(said spoken) error {
	if t.OutputSchema == nil || isBlank(said.Text) { // nothing is no answer that could be repaired
		t.finish(said, nil)
		return nil
	}
	output, wrong := t.output(said.Text)
	if wrong == nil {
		t.finish(said, output)
		return nil
	}
	if t.repairs >= *t.OutputRetries {
		return &flow.Error{Code: CodeOutputInvalid, Message: "the answer does not fit the output schema: " + wrong.Error()}
	}
	t.repairs++
	t.conv.append(Message{Role: User, Text: fmt.Sprintf(
		"Your answer does not fit the schema that it must have: %v\nAnswer again with one JSON value that fits, and nothing else.", wrong)})
	return nil
}

// output reads an answer that must be one JSON value.
func (t *turn) output(text string) (json.RawMessage, error) {
	value := json.RawMessage(unfenced(text))
	if !json.Valid(value) {
		return nil, errors.New("it is not one JSON value")
	}
	schema, err := tool.CompileSchema(t.OutputSchema)
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(value); err != nil {
		return nil, err
	}
	return flow.JSON(value), nil
}

// unfenced is what stands in the one code fence that a text consists of, or else the
// text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	_, inner, ok = strings.Cut(inner, "\n") // behind the name of a language
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return text
	}
	return strings.TrimSpace(inner)
}

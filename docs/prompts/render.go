package prompts

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
)

// Render fills in a prompt. The data is the type of that name in data.go, or a map
// with the same names.
func (s Set) Render(n Name, data any) (string, error) { return RenderText(n, s.Text(n), data) }

// RenderText fills in a text that stands in the place of the prompt of that name,
// such as one that was frozen into a run.
func RenderText(n Name, text string, data any) (string, error) {
	t, err := template.New(string(n)).Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return "", fmt.Errorf("the prompt cannot be read: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("the prompt cannot be filled in: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}

var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		text, err := json.Marshal(v) // escapes <, > and &
		return string(text), err
	},
	"join": strings.Join,
}

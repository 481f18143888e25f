package page

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
)

// inputField is the beginning of the names of fields that are inputs of a program.
const inputField = "input."

// pipelineFields are what every pipeline takes.
var pipelineFields = []field{
	{Name: inputField + "raw_input", Label: "Text", Kind: "text", Hint: "what the pipeline works on"},
	{Name: inputField + "goals", Label: "Goals", Kind: "text", Hint: "one on each line; may be left out"},
	{Name: inputField + "metadata", Label: "Metadata", Kind: "json", Hint: `a JSON object, like {"limit": 3}; may be left out`},
}

// ask makes the fields of the inputs that a program takes, filled with those that a run had.
func (p *newPage) ask(had map[string]json.RawMessage) {
	p.Fields = nil
	if p.Checked.Program.Kind == tipstaff.ProgramPipeline {
		p.Fields = slices.Clone(pipelineFields)
	}
	for _, in := range p.Checked.Inputs {
		p.Fields = append(p.Fields, schemaField(in))
	}
	for _, f := range p.Fields {
		name := strings.TrimPrefix(f.Name, inputField)
		value, given := had[name]
		switch text := ""; {
		case !given:
		case name == "goals" && p.Checked.Program.Kind == tipstaff.ProgramPipeline:
			var goals []string
			_ = json.Unmarshal(value, &goals) // they were checked when the run was made
			p.Typed.Set(f.Name, strings.Join(goals, "\n"))
		case f.Kind != "json" && json.Unmarshal(value, &text) == nil:
			p.Typed.Set(f.Name, text)
			if text == "" {
				p.Typed.Set(f.Name+".empty", "1")
			}
		default:
			p.Typed.Set(f.Name, string(value))
		}
	}
}

// inputSchema is what a form needs to know of the schema of an input.
type inputSchema struct {
	Type        any               `json:"type"`
	Enum        []json.RawMessage `json:"enum"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
}

// schemaField is the field of an input: by its type or, where that is no plain one, JSON.
func schemaField(in tipstaff.SkillField) field {
	var s inputSchema
	_ = json.Unmarshal(in.Schema, &s) // what cannot be read is asked for as JSON
	f := field{Name: inputField + in.Name, Label: in.Name, Kind: "json", Hint: s.Description}
	if s.Title != "" {
		f.Label = s.Title
	}
	switch s.Type {
	case "string":
		f.Kind, f.Empty = "text", true
	case "number", "integer":
		f.Kind = "number"
	case "boolean":
		f.Kind = "boolean"
	}
	var options []string
	for _, raw := range s.Enum {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			options = append(options, text)
		}
	}
	if len(options) > 0 && len(options) == len(s.Enum) {
		f.Kind, f.Options, f.Empty = "choice", options, false
	}
	switch {
	case len(s.Default) > 0:
		f.Hint = tipstaff.Joined("; ", f.Hint, "left out: "+cut(string(s.Default), 100))
	case !in.Required:
		f.Hint = tipstaff.Joined("; ", f.Hint, "may be left out")
	}
	return f
}

// inputs are what was typed. What is required and missing, the runner says.
func (p *newPage) inputs() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, f := range p.Fields {
		name := strings.TrimPrefix(f.Name, inputField)
		text := p.Typed.Get(f.Name)
		if f.Name == pipelineFields[1].Name && p.Checked.Program.Kind == tipstaff.ProgramPipeline {
			if goals := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }); len(goals) > 0 {
				all[name], _ = json.Marshal(goals) // texts can be written
			}
			continue
		}
		if f.Kind == "json" {
			if text = strings.TrimSpace(text); text != "" && !json.Valid([]byte(text)) {
				return nil, wrongField(f.Name, `%s is not JSON; text stands in quotes: "like this"`, f.Label)
			}
			if text != "" {
				all[name] = json.RawMessage(text)
			}
			continue
		}
		one, err := clarifiedOne(tipstaff.ClarifyQuestion{Type: f.Kind, Options: f.Options}, text, p.Typed.Get(f.Name+".empty") != "")
		if err != nil {
			return nil, wrongField(f.Name, "%s: %v", f.Label, err)
		}
		if one != nil {
			all[name] = one
		}
	}
	return all, nil
}

// fieldOf is the field that one of the problems is about; "": none.
func (p *newPage) fieldOf(problems []tipstaff.Problem) string {
	for _, one := range problems {
		for _, f := range p.Fields {
			if one.Path == "inputs."+strings.TrimPrefix(f.Name, inputField) {
				return f.Name
			}
		}
	}
	return ""
}

// command are the words of the command that starts the same.
func (p *newPage) command() []string {
	words := []string{"run", p.File()}
	inputs, err := p.inputs()
	if err != nil {
		return words
	}
	if p.Checked.Program.Kind == tipstaff.ProgramPipeline {
		var text string
		var goals []string
		var metadata map[string]json.RawMessage
		_ = json.Unmarshal(inputs["raw_input"], &text) // what is missing is empty
		_ = json.Unmarshal(inputs["goals"], &goals)
		_ = json.Unmarshal(inputs["metadata"], &metadata)
		words, inputs = withFlag(words, "--text", text), metadata
		for _, goal := range goals {
			words = append(words, "--goal", goal)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		words = append(words, "--input", name+"="+typedText(inputs[name]))
	}
	return words
}

// typedText is a value as people type it in a command: text that would be taken for JSON, or
// that has several lines, stands as JSON.
func typedText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && !json.Valid([]byte(text)) && !strings.ContainsAny(text, "\n\t") {
		return text
	}
	return string(value)
}

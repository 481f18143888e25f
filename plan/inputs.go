package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Codes of what can be wrong with the values of a caller.
const (
	codeInputMissing = "input_missing"
	codeInputUnknown = "input_unknown"
	codeInputInvalid = "input_invalid"
)

func (v *validator) inputs() {
	for _, in := range v.d.Inputs {
		path := "inputs." + in.Name
		schema, err := document.CompileSchema(in.Schema)
		if err != nil {
			v.add(codeSchemaInvalid, in.at, path, "the input %s is described by no JSON Schema: %v", in.Name, err)
			continue
		}
		if in.Default == nil {
			continue
		}
		if err := document.Conforms(schema, in.Default); err != nil {
			v.add(codeSchemaInvalid, in.at, path, "the default of %s does not fit its own schema: %v", in.Name, err)
		}
	}
}

// CheckInputs checks the values that a caller gives: each against its schema,
// none unknown, none that is required missing. It returns all inputs as one
// object in RFC 8785 form, defaults filled in.
func (d *Document) CheckInputs(given map[string]json.RawMessage) (json.RawMessage, []tipstaff.Problem) {
	var ps document.Problems
	all := map[string]json.RawMessage{}
	for _, in := range d.Inputs {
		raw, ok := given[in.Name]
		switch {
		case ok:
			if code, err := in.check(raw); err != nil {
				ps.Add(code, document.Position{}, "inputs."+in.Name, "%v", err)
				continue
			}
			all[in.Name] = raw
		case in.Default != nil:
			all[in.Name] = in.Default
		case in.Required:
			ps.Add(codeInputMissing, document.Position{}, "inputs."+in.Name, "the plan needs the input %s", in.Name)
		}
	}
	for _, name := range unknownNames(given, d.Inputs) {
		ps.Add(codeInputUnknown, document.Position{}, "inputs."+document.Brief(name), "the plan has no input %q", document.Brief(name))
	}
	if len(ps) > 0 {
		return nil, ps.Public("")
	}
	joined, err := json.Marshal(all)
	if err == nil {
		joined, err = document.Canonical(joined)
	}
	if err != nil {
		ps.Add(codeInputInvalid, document.Position{}, "inputs", "%v", err)
		return nil, ps.Public("")
	}
	return joined, nil
}

// check is why a value cannot be this input, and the code of that.
func (in Input) check(raw json.RawMessage) (code string, err error) {
	if !json.Valid(raw) {
		return codeInputInvalid, fmt.Errorf("%s is not JSON", in.Name)
	}
	if _, err := document.Canonical(raw); errors.Is(err, document.ErrUnsafe) {
		return document.CodeNumberUnsafe, fmt.Errorf("%s: %w; write it as a string", in.Name, err)
	} else if err != nil {
		return codeInputInvalid, fmt.Errorf("%s: %w", in.Name, err)
	}
	schema, err := document.CompileSchema(in.Schema)
	if err != nil {
		return codeSchemaInvalid, err
	}
	if err := document.Conforms(schema, raw); err != nil {
		return codeInputInvalid, fmt.Errorf("%s does not fit its schema: %w", in.Name, err)
	}
	return "", nil
}

// unknownNames are the given names that are no inputs, sorted.
func unknownNames(given map[string]json.RawMessage, inputs []Input) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(name string) bool {
		return slices.ContainsFunc(inputs, func(in Input) bool { return in.Name == name })
	})
}

package flow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff/canon"
)

// JSON encodes v compactly, map keys sorted, without HTML escapes: the form in
// which inputs and event bodies are digested. It panics if v cannot be encoded,
// which is a fault of the program.
func JSON(v any) json.RawMessage {
	b, err := canon.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("flow: cannot be encoded: %v", err))
	}
	return b
}

// Do performs a call and decodes its value.
func Do[T any](fc Context, c Call) (T, error) {
	var v T
	r, err := fc.Do(c)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return v, &Error{Code: CodeInternal, Message: fmt.Sprintf("the result of %s is not what was expected: %v", c.Name, err)}
	}
	return v, nil
}

// Each runs a branch for every item; name gives a branch's name, "" its index.
func Each[T any](fc Context, g Group, items []T, name func(int, T) string, run func(Context, T) error) error {
	branches := make([]Branch, len(items))
	for i, item := range items {
		branches[i].Run = func(fc Context) error { return run(fc, item) }
		if name != nil {
			branches[i].Name = name(i, item)
		}
	}
	return fc.Go(g, branches...)
}

func (u Use) names() []string { return u.appendNames(make([]string, 0, len(u))) }

// appendNames appends the names, sorted among themselves.
func (u Use) appendNames(names []string) []string {
	before := len(names)
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names[before:])
	return names
}

package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// Pointer is a JSON pointer to what a guard looks at, by its parts.
type Pointer []string

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// ParsePointer reads one as documents have it.
func ParsePointer(s string) (Pointer, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("%q is not a JSON pointer to an argument: write it as in /sql or /command", s)
	}
	if strings.Contains(unescapeAll.Replace(s), "~") {
		return nil, fmt.Errorf("%q: in a JSON pointer ~ stands before 0 or 1 alone", s)
	}
	parts := strings.Split(s[1:], "/")
	for i, part := range parts {
		parts[i] = unescapePointer.Replace(part)
	}
	return parts, nil
}

// unescapeAll leaves a ~ only where it escapes nothing.
var unescapeAll = strings.NewReplacer("~0", "", "~1", "")

// Value is what p points to. It is an error if there is nothing, or if another reader of the
// same bytes could find another value.
func (p Pointer) Value(args json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(args) {
		return nil, fmt.Errorf("the arguments are not JSON")
	}
	for i, part := range p {
		next, err := member(args, part)
		if err != nil {
			return nil, fmt.Errorf("%v %w", p[:i+1], err)
		}
		args = next
	}
	return args, nil
}

// Text is Value, of which it is an error if it is no string.
func (p Pointer) Text(args json.RawMessage) (string, error) {
	value, err := p.Value(args)
	if err != nil {
		return "", err
	}
	var s *string
	if err := json.Unmarshal(value, &s); err != nil || s == nil {
		return "", fmt.Errorf("%v is not a string", p)
	}
	return *s, nil
}

func (p Pointer) String() string { return "/" + strings.Join(p, "/") }

// member is the part of an object or array that has a name. A name that stands
// twice is an error: readers differ in which of the two they take.
func member(v json.RawMessage, name string) (json.RawMessage, error) {
	switch bytes.TrimLeft(v, " \t\r\n")[0] {
	case '{':
		return field(v, name)
	case '[':
		var elements []json.RawMessage
		i, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(i) != name || json.Unmarshal(v, &elements) != nil || i < 0 || i >= len(elements) {
			return nil, fmt.Errorf("is missing")
		}
		return elements[i], nil
	}
	return nil, fmt.Errorf("is missing")
}

func field(object json.RawMessage, name string) (found json.RawMessage, err error) {
	for m, fault := range canon.Members(object) {
		switch {
		case fault != nil:
			return nil, fault
		case m.Name != name:
		case found != nil:
			return nil, fmt.Errorf("stands twice")
		default:
			found = object[m.Start:m.End]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("is missing")
	}
	return found, nil
}

package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// pointer is a JSON pointer, by its parts.
type pointer []string

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

func parsePointer(s string) (pointer, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("%q is not a JSON pointer to an argument: write it as in /sql", s)
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

// text is the string that p points to. It is an error if there is none, or if
// another reader of the same bytes could find another one.
func (p pointer) text(args json.RawMessage) (string, error) {
	if !json.Valid(args) {
		return "", fmt.Errorf("the arguments are not JSON")
	}
	at := ""
	for _, part := range p {
		at += "/" + part
		next, err := member(args, part)
		if err != nil {
			return "", fmt.Errorf("%s %w", at, err)
		}
		args = next
	}
	var s *string
	if err := json.Unmarshal(args, &s); err != nil || s == nil {
		return "", fmt.Errorf("%s is not a string", at)
	}
	return *s, nil
}

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
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if key != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("stands twice")
		}
		found = value
	}
	if found == nil {
		return nil, fmt.Errorf("is missing")
	}
	return found, nil
}

package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// headerMember marks a parameter whose value travels in a header of the request
// as well, where whatever stands between client and server can see it.
const headerMember = "x-mcp-header"

// headerProperty is as much of a parameter's schema as matters for that.
type headerProperty struct {
	Type       json.RawMessage            `json:"type"`
	Header     json.RawMessage            `json:"x-mcp-header"`
	Properties map[string]json.RawMessage `json:"properties"`
}

// checkHeaders refuses an input schema whose parameters cannot travel in the
// headers that it names. The protocol forbids to offer such a tool: a value that
// is no header's could break out of it.
func checkHeaders(schema json.RawMessage) error {
	if !strings.Contains(string(schema), headerMember) {
		return nil
	}
	return readHeaderProperty(schema).checkHeaders("#", map[string]bool{})
}

// readHeaderProperty is empty for a schema that is no object: true and false have
// nothing to say here.
func readHeaderProperty(schema json.RawMessage) (p headerProperty) {
	if json.Unmarshal(schema, &p) != nil {
		return headerProperty{}
	}
	return p
}

// checkHeaders of the properties below; taken are the names used so far, which
// differ in more than case.
func (p headerProperty) checkHeaders(at string, taken map[string]bool) error {
	for _, name := range sortedKeys(p.Properties) {
		property, at := readHeaderProperty(p.Properties[name]), at+"/properties/"+name
		if property.Header != nil {
			header, err := property.header()
			if err == nil && taken[strings.ToLower(header)] {
				err = fmt.Errorf("two parameters ask for the header %q", header)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", at, headerMember, err)
			}
			taken[strings.ToLower(header)] = true
		}
		if err := property.checkHeaders(at, taken); err != nil {
			return err
		}
	}
	return nil
}

// header is the name that the parameter asks for.
func (p headerProperty) header() (name string, err error) {
	if err := json.Unmarshal(p.Header, &name); err != nil || name == "" {
		return "", errors.New("it is not the name of a header")
	}
	if i := strings.IndexFunc(name, notInHeaderName); i >= 0 {
		return "", fmt.Errorf("%q cannot stand in the name of a header", name[i:])
	}
	var kind string
	if err := json.Unmarshal(p.Type, &kind); err != nil || (kind != "string" && kind != "integer" && kind != "boolean") {
		return "", errors.New("only a string, an integer or a boolean can travel in a header")
	}
	return name, nil
}

// notInHeaderName reports what HTTP allows in no header's name.
func notInHeaderName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

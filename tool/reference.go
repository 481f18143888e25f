package tool

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// inPlace are the keywords whose schemas apply to the very value that the schema
// around them applies to.
var inPlace = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}

// checkReferences refuses schemas that cannot be resolved within themselves, and
// those in which validating a value would lead back to validating that same
// value by the same schema, forever.
func checkReferences(doc any) error {
	c := &referenceCheck{doc: doc, state: map[string]int{}}
	return c.walk(doc, "#", 0)
}

type referenceCheck struct {
	doc   any
	state map[string]int // of places: 1 being followed, 2 known to end
}

const maxSchemaDepth = 200

// Keywords that hold schemas by name, and those that hold data, not schemas.
var (
	byName = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	asData = []string{"enum", "const", "default", "examples"}
)

// walk visits every schema of the document. Unknown keywords are taken for
// schemas too, which is more than needed and does no harm.
func (c *referenceCheck) walk(node any, at string, depth int) error {
	if depth > maxSchemaDepth {
		return fmt.Errorf("the schema is nested deeper than %d levels", maxSchemaDepth)
	}
	switch n := node.(type) {
	case map[string]any:
		return c.walkSchema(n, at, depth)
	case []any:
		for i, value := range n {
			if err := c.walk(value, at+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *referenceCheck) walkSchema(n map[string]any, at string, depth int) error {
	for _, key := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := n[key].(string); ok {
			return fmt.Errorf("%s: %s is not supported: use $ref with a local pointer", at, key)
		}
	}
	if err := c.ends(at, 0); err != nil {
		return err
	}
	for key, value := range n {
		here := at + "/" + refToken(key)
		if slices.Contains(asData, key) {
			continue
		}
		named, ok := value.(map[string]any)
		if !ok || !slices.Contains(byName, key) {
			if err := c.walk(value, here, depth+1); err != nil {
				return err
			}
			continue
		}
		for name, schema := range named {
			if err := c.walk(schema, here+"/"+refToken(name), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends reports an error unless following the in-place keywords from at comes to
// an end.
func (c *referenceCheck) ends(at string, depth int) error {
	switch {
	case c.state[at] == 2:
		return nil
	case c.state[at] == 1 || depth > maxSchemaDepth:
		return fmt.Errorf("%s: the schema refers back to itself without consuming any of the value", at)
	}
	node, ok := resolvePointer(c.doc, at)
	schema, isObject := node.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: nothing stands there", at)
	}
	if !isObject {
		return nil
	}
	c.state[at] = 1
	for _, next := range c.next(schema, at) {
		if !strings.HasPrefix(next, "#/") && next != "#" {
			return fmt.Errorf("%s: the reference %q is not a local pointer: only #/… is followed", at, next)
		}
		if err := c.ends(next, depth+1); err != nil {
			return err
		}
	}
	c.state[at] = 2
	return nil
}

func (c *referenceCheck) next(schema map[string]any, at string) []string {
	var list []string
	if ref, ok := schema["$ref"].(string); ok {
		list = append(list, ref)
	}
	for _, key := range inPlace {
		here := at + "/" + key
		switch v := schema[key].(type) {
		case []any:
			for i := range v {
				list = append(list, here+"/"+strconv.Itoa(i))
			}
		case map[string]any:
			if key != "dependentSchemas" {
				list = append(list, here)
				continue
			}
			for name := range v {
				list = append(list, here+"/"+refToken(name))
			}
		}
	}
	slices.Sort(list)
	return list
}

// resolvePointer finds what a local reference like #/$defs/x names.
func resolvePointer(doc any, ref string) (any, bool) {
	rest := strings.TrimPrefix(ref, "#")
	if rest == "" {
		return doc, true
	}
	if !strings.HasPrefix(rest, "/") {
		return nil, false
	}
	for _, part := range strings.Split(rest[1:], "/") {
		if text, err := url.PathUnescape(part); err == nil {
			part = text
		}
		part = pointerUnescaper.Replace(part)
		switch node := doc.(type) {
		case map[string]any:
			next, ok := node[part]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			doc = node[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

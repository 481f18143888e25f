package pb

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// MaxDepth is how many lists and objects of one JSON value may stand in each other.
const MaxDepth = 64

// CheckJSON reports whether raw is one JSON value that every reader takes for the
// same: UTF-8, no name twice in an object, whole characters in every string, at most
// [MaxDepth] deep, nothing after it. A fault is a [*FieldError].
func CheckJSON(raw []byte) error { return checkJSON(raw, nil) }

func checkJSON(raw []byte, at trail) error {
	r := reader{rest: raw, trail: at}
	if err := r.skip(0); err != nil {
		return err
	}
	return r.end()
}

// reader reads JSON from front to back. What encoding/json would mend in silence (a
// name twice, half a character, bytes that are none) it refuses.
type reader struct {
	rest []byte
	trail
}

// peek is the byte that the next value begins with; 0 is that there is none.
func (r *reader) peek() byte {
	for len(r.rest) > 0 {
		switch c := r.rest[0]; c {
		case ' ', '\t', '\r', '\n':
			r.rest = r.rest[1:]
		default:
			return c
		}
	}
	return 0
}

// take reads a mark, if it is the next thing there.
func (r *reader) take(mark byte) bool {
	if r.peek() != mark {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// word reads null, true or false, if it is the next thing there.
func (r *reader) word(w string) bool {
	r.peek()
	rest, ok := bytes.CutPrefix(r.rest, []byte(w))
	if ok {
		r.rest = rest
	}
	return ok
}

// lost says why nothing can be read on.
func (r *reader) lost() error {
	if r.peek() == 0 && len(r.rest) == 0 {
		return r.fault("the JSON ends too early")
	}
	c, _ := utf8.DecodeRune(r.rest)
	return r.fault(fmt.Sprintf("no valid JSON: %q is out of place", c))
}

// end is after the value: nothing may follow.
func (r *reader) end() error {
	if r.peek(); len(r.rest) > 0 {
		return r.fault("there is text after the JSON value")
	}
	return nil
}

// skip reads a value to its end. depth is how many lists and objects it stands in.
func (r *reader) skip(depth int) error {
	c := r.peek()
	if c == '{' || c == '[' {
		if depth++; depth > MaxDepth {
			return r.fault(fmt.Sprintf("it is more than %d lists and objects deep", MaxDepth))
		}
	}
	switch {
	case c == '{':
		return r.members(func(string) error { return r.skip(depth) })
	case c == '[':
		return r.elements(func() error { return r.skip(depth) })
	case c == '"':
		_, err := r.quoted()
		return err
	case r.word("null"), r.word("true"), r.word("false"):
		return nil
	}
	_, err := r.number()
	return err
}

// members reads an object: each is given a name and reads the value.
func (r *reader) members(each func(name string) error) error {
	if !r.take('{') {
		return r.lost()
	}
	if r.take('}') {
		return nil
	}
	var names nameSet
	for {
		name, err := r.text()
		if err != nil {
			return err
		}
		r.member(name)
		if !names.add(name) {
			return r.fault("the name stands twice in one object")
		}
		if !r.take(':') {
			return r.lost()
		}
		if err := each(name); err != nil {
			return err
		}
		r.back()
		if r.take('}') {
			return nil
		}
		if !r.take(',') {
			return r.lost()
		}
	}
}

// elements reads a list: each reads an element.
func (r *reader) elements(each func() error) error {
	if !r.take('[') {
		return r.lost()
	}
	if r.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		r.element(i)
		if err := each(); err != nil {
			return err
		}
		r.back()
		if r.take(']') {
			return nil
		}
		if !r.take(',') {
			return r.lost()
		}
	}
}

// nameSet is the names of one object. Most objects have few, and then a list is
// faster than a map.
type nameSet struct {
	few  []string
	many map[string]bool
}

const fewNames = 16

// add reports whether the name is new.
func (s *nameSet) add(name string) bool {
	if s.many != nil {
		known := s.many[name]
		s.many[name] = true
		return !known
	}
	if slices.Contains(s.few, name) {
		return false
	}
	if s.few = append(s.few, name); len(s.few) > fewNames {
		s.many = map[string]bool{}
		for _, name := range s.few {
			s.many[name] = true
		}
	}
	return true
}

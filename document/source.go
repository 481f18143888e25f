package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Read turns source text into a value. It reports the first fault alone: what
// follows a syntax error means little. maxSize is how many bytes are read at most.
//
// A number may still be one that has no exact RFC 8785 form: see [CheckNumbers].
func Read(src []byte, maxSize int) (*Value, *Problem) {
	v, ps := ReadAll(src, maxSize)
	if len(ps) > 0 {
		return nil, &ps[0]
	}
	return v, nil
}

// ReadAll is Read for those who report as much as they can. Beside keys that stand
// twice, which are its only problems then, there is a value; it has the first of
// each.
func ReadAll(src []byte, maxSize int) (*Value, Problems) {
	if len(src) > maxSize {
		return nil, Problems{*limitAt(start, "the document has %d bytes; at most %d are read", len(src), maxSize)}
	}
	if p := CheckText(src); p != nil {
		return nil, Problems{*p}
	}
	// Every JSON document is YAML, but a JSON reader is exact about escapes and
	// quick with large documents.
	if json.Valid(src) {
		return readJSON(src)
	}
	return readYAML(string(src))
}

// faults is what stands in the way of a value: one fault that ends the reading,
// or any number of keys that stand twice.
type faults struct {
	fatal *Problem
	twice Problems
	path  []string // of what is being read
}

func (f *faults) fail(p *Problem) {
	if f.fatal == nil {
		f.fatal = p
	}
}

// outcome is v, as far as there is one, with what is to be said of it.
func (f *faults) outcome(v *Value) (*Value, Problems) {
	if f.fatal != nil {
		return nil, Problems{*f.fatal}
	}
	return v, f.twice
}

// object is one that is being read: each of its members has its own key.
type object struct {
	*Value
	seen map[string]Position
}

func newObject(at Position) object {
	return object{&Value{Kind: Object, At: at}, map[string]Position{}}
}

// add reads the value of a key and keeps it, unless the key is taken. What stands
// twice is still read: there may be worse in it.
func (o object) add(f *faults, key string, at Position, read func() *Value) {
	f.path = append(f.path, key)
	first, taken := o.seen[key]
	if taken {
		f.twice = append(f.twice, Problem{Code: CodeSyntax, At: at, Path: strings.Join(f.path, "."), Cause: ErrDuplicate,
			Message: fmt.Sprintf("the key %q stands twice, first in line %d", Brief(key), first.Line)})
	} else {
		o.seen[key] = at
	}
	if v := read(); !taken {
		o.Members = append(o.Members, Member{key, at, v})
	}
	f.path = f.path[:len(f.path)-1]
}

// item reads the next value of a list.
func (f *faults) item(list *Value, read func() *Value) {
	f.path = append(f.path, strconv.Itoa(len(list.Items)))
	list.Items = append(list.Items, read())
	f.path = f.path[:len(f.path)-1]
}

// CheckText is what keeps bytes from being text: nil if they are UTF-8 without a
// byte order mark and without NUL.
func CheckText(src []byte) *Problem {
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return syntaxAt(start, "the text begins with a byte order mark; save it as UTF-8 without one")
	}
	for i, r := range string(src) {
		if r == utf8.RuneError && !bytes.HasPrefix(src[i:], []byte("\uFFFD")) {
			return syntaxAt(positionOf(src, i), "not UTF-8 text")
		}
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return syntaxAt(positionOf(src, i), "a NUL byte has no place in a document")
	}
	return nil
}

// start is where every text begins.
var start = Position{1, 1}

func syntaxAt(at Position, format string, args ...any) *Problem {
	return &Problem{Code: CodeSyntax, At: at, Message: fmt.Sprintf(format, args...)}
}

// positionOf is the line and column of an offset.
func positionOf(src []byte, offset int) Position {
	before := src[:offset]
	lineStart := bytes.LastIndexByte(before, '\n') + 1
	return Position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[lineStart:]) + 1}
}

func limitAt(at Position, format string, args ...any) *Problem {
	return &Problem{Code: CodeLimit, At: at, Message: fmt.Sprintf(format, args...)}
}

func tooDeep(at Position) *Problem {
	return limitAt(at, "values are nested deeper than %d levels here", MaxNesting)
}

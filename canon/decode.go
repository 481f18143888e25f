package canon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Fault is why a text is not the JSON that was asked for, and where in it the
// offender stands.
type Fault struct {
	Path   Path
	Reason string
}

func (f *Fault) Error() string {
	if len(f.Path) == 0 {
		return f.Reason
	}
	return f.Path.String() + ": " + f.Reason
}

// Path leads to a value: names of members and indices of elements.
type Path []any

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// String is a path as people write it: outputs.critic.findings[2].
func (p Path) String() string {
	var b strings.Builder
	for i, step := range p {
		name, ok := step.(string)
		switch {
		case !ok:
			fmt.Fprintf(&b, "[%d]", step)
		case !plainName.MatchString(name):
			fmt.Fprintf(&b, "[%.60q]", name)
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// Decode reads one JSON value of at most depth lists and objects in each other as
// nil, bool, string, [json.Number], []any and map[string]any. It takes only what
// every reader takes for the same: what encoding/json would mend in silence, a name
// that stands twice, half a surrogate pair or bytes that are no UTF-8, is a [*Fault].
func Decode(b []byte, depth int) (any, error) {
	d := open(b, strict)
	defer d.close()
	v, fault := d.value(b, depth)
	if fault == nil {
		if _, err := d.ReadToken(); err != io.EOF {
			fault = &Fault{Reason: "there is text after the JSON value"}
		}
	}
	if fault != nil {
		slices.Reverse(fault.Path)
		return nil, fault
	}
	return v, nil
}

// value reads a value. The path of its fault leads from the offender to the value.
func (d *decoder) value(b []byte, depth int) (any, *Fault) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, faultOf(b, err)
	}
	switch kind := t.Kind(); kind {
	case '{', '[':
		switch {
		case d.StackDepth() > depth:
			return nil, &Fault{Reason: fmt.Sprintf("it is more than %d lists and objects deep", depth)}
		case kind == '{':
			return d.object(b, depth)
		}
		return d.list(b, depth)
	case '"':
		return t.String(), nil
	case '0':
		return json.Number(t.String()), nil
	case 'n':
		return nil, nil
	default:
		return t.Bool(), nil
	}
}

func (d *decoder) object(b []byte, depth int) (any, *Fault) {
	object := map[string]any{}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, faultOf(b, err)
		}
		name := t.String()
		v, fault := d.value(b, depth)
		if fault != nil {
			fault.Path = append(fault.Path, name)
			return nil, fault
		}
		object[name] = v
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, faultOf(b, err)
	}
	return object, nil
}

func (d *decoder) list(b []byte, depth int) (any, *Fault) {
	list := []any{}
	for d.PeekKind() != ']' {
		v, fault := d.value(b, depth)
		if fault != nil {
			fault.Path = append(fault.Path, len(list))
			return nil, fault
		}
		list = append(list, v)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, faultOf(b, err)
	}
	return list, nil
}

// faultOf puts what jsontext says about b into our words.
func faultOf(b []byte, err error) *Fault {
	syntax := new(jsontext.SyntacticError)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return &Fault{Path{syntax.JSONPointer.LastToken()}, "the name stands twice in one object"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), !errors.As(err, &syntax), syntax.ByteOffset >= int64(len(b)):
		return &Fault{Reason: "the JSON ends too early"}
	}
	rest := b[syntax.ByteOffset:]
	c, size := utf8.DecodeRune(rest)
	switch {
	case c == utf8.RuneError && size <= 1:
		return &Fault{Reason: "the text is not valid UTF-8"}
	case len(rest) >= len(`\uXXXX`) && rest[0] == '\\' && rest[1] == 'u':
		if unit, err := strconv.ParseUint(string(rest[2:6]), 16, 16); err == nil && utf16.IsSurrogate(rune(unit)) {
			return &Fault{Reason: fmt.Sprintf("the text has half a surrogate pair, %s", rest[:6])}
		}
	}
	return &Fault{Reason: fmt.Sprintf("no valid JSON: %q is out of place", c)}
}

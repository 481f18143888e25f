//go:build unix

package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// object keeps the members of a JSON object in the order in which they were written.
type object []member

type member struct {
	name  string
	value any // object, []any, string, json.Number, bool, nil or placeholder
}

// placeholder stands for a value that is another one every time.
type placeholder string

// get returns the value of a member; nil: there is none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// text returns a member that is a string, "" if there is none.
func (o object) text(name string) string {
	s, _ := o.get(name).(string)
	return s
}

// list returns the items of a member that is a list.
func (o object) list(name string) []any {
	l, _ := o.get(name).([]any)
	return l
}

// readJSON reads one value, with members in their order and numbers as they are written.
func readJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readValue(d)
	if err != nil {
		return nil, fmt.Errorf("%w in %.200s", err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value in %.200s", text)
	}
	return v, nil
}

func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name.(string), v})
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		l := []any{}
		for d.More() {
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
		_, err = d.Token()
		return l, err
	}
	return token, nil
}

// shortLine is how long a line may be that has a whole object or list.
const shortLine = 100

// printJSON writes a value with a member or an item a line. Objects and lists without others
// in them stand in one line if it is short. Of a text of several lines each line stands by
// itself.
func printJSON(w *strings.Builder, v any, indent string) {
	if line, fits := oneLine(v); fits {
		w.WriteString(line)
		return
	}
	switch v := v.(type) {
	case object:
		printList(w, '{', '}', len(v), indent, func(i int, indent string) {
			w.WriteString(quoted(v[i].name) + ": ")
			printJSON(w, v[i].value, indent)
		})
	case []any:
		printList(w, '[', ']', len(v), indent, func(i int, indent string) { printJSON(w, v[i], indent) })
	case string:
		lines := strings.SplitAfter(v, "\n")
		if len(lines) <= 2 || len(v) <= 80 {
			w.WriteString(quoted(v))
			return
		}
		for _, line := range lines {
			w.WriteString("\n" + indent + " " + quoted(line))
		}
	case placeholder:
		w.WriteString(string(v))
	case nil:
		w.WriteString("null")
	default:
		fmt.Fprint(w, v)
	}
}

// oneLine is an object or a list as one line.
func oneLine(v any) (line string, fits bool) {
	var parts []string
	simple := func(name string, v any) bool {
		switch v.(type) {
		case object, []any:
			return false
		}
		var b strings.Builder
		printJSON(&b, v, "")
		parts = append(parts, name+b.String())
		return true
	}
	switch v := v.(type) {
	case object:
		for _, m := range v {
			if !simple(quoted(m.name)+": ", m.value) {
				return "", false
			}
		}
		line = "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			if !simple("", item) {
				return "", false
			}
		}
		line = "[" + strings.Join(parts, ", ") + "]"
	default:
		return "", false
	}
	return line, len(line) <= shortLine && !strings.Contains(line, "\n")
}

func printList(w *strings.Builder, open, shut byte, n int, indent string, item func(i int, indent string)) {
	w.WriteByte(open)
	for i := range n {
		w.WriteString("\n" + indent + " ")
		item(i, indent+" ")
		if i < n-1 {
			w.WriteByte(',')
		}
	}
	if n > 0 {
		w.WriteString("\n" + indent)
	}
	w.WriteByte(shut)
}

// quoted writes a text as JSON, without escapes that only pages need.
func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // every string can be written
	return strings.TrimSuffix(b.String(), "\n")
}

// answer is what was answered to a request, by which later ones name it.
type answer struct {
	to    string
	value any
}

// compared writes an answer as what differs from one that was shown before: members that
// are equal there and here are not repeated. nil: all of it is written.
func compared(v any, above *answer) string {
	var b strings.Builder
	now, isObject := v.(object)
	if above == nil {
		printJSON(&b, v, "")
		return b.String() + "\n"
	}
	before, wasObject := above.value.(object)
	switch {
	case reflect.DeepEqual(v, above.value):
		return "as " + above.to + "\n"
	case !isObject || !wasObject:
		fmt.Fprintf(&b, "not as %s\n", above.to)
		printJSON(&b, v, "")
		return b.String() + "\n"
	}
	others, missing := object{}, []string{}
	for _, m := range now {
		if !reflect.DeepEqual(m.value, before.get(m.name)) {
			others = append(others, m)
		}
	}
	for _, m := range before {
		if !has(now, m.name) {
			missing = append(missing, m.name)
		}
	}
	fmt.Fprintf(&b, "as %s", above.to)
	if len(missing) > 0 {
		fmt.Fprintf(&b, " without %s", strings.Join(missing, ", "))
	}
	if len(others) > 0 {
		b.WriteString(" with\n")
		printJSON(&b, others, "")
	}
	return b.String() + "\n"
}

func has(o object, name string) bool {
	for _, m := range o {
		if m.name == name {
			return true
		}
	}
	return false
}

package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/canon"
)

// Object builds a JSON object member by member. What every step writes is not
// encoded by reflection. Names of members need no escapes.
type Object []byte

// Appender is a value that writes itself as [JSON] would, at the end of b.
type Appender interface{ AppendJSON(b []byte) []byte }

// NewObject begins an object that will have about size bytes.
func NewObject(size int) Object { return AppendObject(make([]byte, 0, size)) }

// AppendObject begins an object at the end of b.
func AppendObject(b []byte) Object { return append(b, '{') }

// Close ends the object.
func (o Object) Close() json.RawMessage { return json.RawMessage(append(o, '}')) }

// Key begins a member; its value must follow.
func (o Object) Key(name string) Object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	o = append(o, '"')
	o = append(o, name...)
	return append(o, '"', ':')
}

// Str adds a text.
func (o Object) Str(name, v string) Object { return canon.AppendText(o.Key(name), v) }

// Int adds a whole number.
func (o Object) Int(name string, v int64) Object { return strconv.AppendInt(o.Key(name), v, 10) }

// Bool adds a truth value.
func (o Object) Bool(name string, v bool) Object { return strconv.AppendBool(o.Key(name), v) }

// OptStr adds a text that is not empty.
func (o Object) OptStr(name, v string) Object {
	if v == "" {
		return o
	}
	return o.Str(name, v)
}

// OptInt adds a number that is not zero.
func (o Object) OptInt(name string, v int64) Object {
	if v == 0 {
		return o
	}
	return o.Int(name, v)
}

// OptBool adds what is true.
func (o Object) OptBool(name string, v bool) Object {
	if !v {
		return o
	}
	return o.Bool(name, v)
}

// OptJSON adds what is JSON already, if there is any.
func (o Object) OptJSON(name string, v json.RawMessage) Object {
	if len(v) == 0 {
		return o
	}
	return o.JSON(name, v)
}

// Raw adds what is JSON already, and compact.
func (o Object) Raw(name string, v []byte) Object { return append(o.Key(name), v...) }

// JSON adds what is JSON already, however it is laid out; null, if it is nil. It
// panics where it is no JSON, as [JSON] does.
func (o Object) JSON(name string, v json.RawMessage) Object {
	if v == nil {
		return append(o.Key(name), "null"...)
	}
	b := bytes.NewBuffer(o.Key(name))
	if err := json.Compact(b, v); err != nil {
		panic(fmt.Sprintf("flow: not JSON: %v", err))
	}
	return b.Bytes()
}

// Value adds what writes itself.
func (o Object) Value(name string, v Appender) Object { return v.AppendJSON(o.Key(name)) }

// Time adds a moment, in UTC.
func (o Object) Time(name string, t time.Time) Object {
	return append(t.UTC().AppendFormat(append(o.Key(name), '"'), timeForm), '"')
}

// Use adds amounts by name.
func (o Object) Use(name string, u Use) Object {
	o = append(o.Key(name), '{')
	var room [8]string
	for i, name := range u.appendNames(room[:0]) {
		if i > 0 {
			o = append(o, ',')
		}
		o = strconv.AppendInt(append(canon.AppendText(o, name), ':'), u[name], 10)
	}
	return append(o, '}')
}

// Strs adds a list of texts.
func (o Object) Strs(name string, list []string) Object {
	return AppendList(o.Key(name), list, canon.AppendText)
}

// AppendList writes a list; each writes one of its values.
func AppendList[T any](b []byte, list []T, each func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, v)
	}
	return append(b, ']')
}

// timeForm is RFC 3339 with nanoseconds, always nine digits.
const timeForm = "2006-01-02T15:04:05.000000000Z07:00"

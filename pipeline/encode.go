package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// AppendValue appends the canonical encoding of a value: JSON with keys sorted by
// their bytes and no spaces. Literals of json.Number stay as they are and floats
// with a whole value keep a ".0", so that a value and what Decode makes of its
// encoding are the same. RFC 8785 would make one of 1 and 1.0, and round what lies
// beyond 2^53.
//
// v is normalised: what [Normalize] would refuse panics here, being a fault of ours.
func AppendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return appendText(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case json.Number:
		return append(b, v...)
	case []any:
		return appendEach(b, v, AppendValue)
	case map[string]any:
		b = append(b, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, key), ':')
			b = AppendValue(b, v[key])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("pipeline: a %T is no value", v))
}

// EncodeValue is AppendValue to nothing.
func EncodeValue(v any) json.RawMessage { return AppendValue(nil, v) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// appendFloat writes the shortest text that reads as f again, with a point or an
// exponent in it.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	begin := len(b)
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if format == 'f' && !strings.Contains(string(b[begin:]), ".") {
		b = append(b, ".0"...)
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendText escapes what JSON requires and nothing else.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	begin := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[begin:i]...)
		begin = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	b = append(b, s[begin:]...)
	return append(b, '"')
}

// appendEach writes a list; each writes one of its values.
func appendEach[T any](b []byte, list []T, each func(b []byte, v T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, v)
	}
	return append(b, ']')
}

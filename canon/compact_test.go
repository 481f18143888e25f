package canon_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// FuzzCompact: recorded values keep the bytes that encoding/json gave them before.
func FuzzCompact(f *testing.F) {
	for _, text := range []string{`{}`, ` [ 1 , 2.50e+01, -0, 1e400 ] `, `{"a" : 1, "a" : 2}`, `"\ud800"`, `"\ud83d\ude00 \/ \u2028 \u003c<"`, "\"\u2028\u00e9\"", "\"a\tb\"",
		`{"b":{"c":[null,true,false,"x"]}}`, ``, `nul`, `[1,]`, `1 2`, `{"a":1}x`, "\v1", "[[[[[[[[[[[[]]]]]]]]]]]]", `"\x"`, `01`, `"` + "\x7f" + `"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !utf8.Valid(text) { // which no value is
			return
		}
		var want bytes.Buffer
		wrong := json.Compact(&want, text)
		got, err := canon.Compact(text)
		if (wrong == nil) != (err == nil) || err == nil && !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q is %q, %v; want %q, %v", text, got, err, want.Bytes(), wrong)
		}
	})
}

package flow

import (
	"encoding/json"
	"strings"
	"testing"
)

var samples = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `01`, `1.`, `1.5`, `-`, `1e5`, `1E+5`, `1e`, `.5`, `"a"`, `"a`, `"\\u12"`, `"\\u12aF"`,
	`"\\x"`, `"\\\""`, "\"\n\"", "\"\x7f\xff\"", `[]`, `[1,2]`, `[1,]`, `[,]`, `[1 2]`, `{}`, `{"a":1}`, `{"a":1,}`, `{a:1}`, `{"a"}`, `{"a":}`, `{"a":[{"b":null}]} `,
	"{\"a\" :\t1\r\n}", `1 2`, `{}{}`, `[[[]]`, `{"a":1]`,
}

func TestValidJSONAgreesWithTheStandardLibrary(t *testing.T) {
	for _, s := range samples {
		if got, want := validJSON([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	if validJSON([]byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))) {
		t.Error("a value of any depth is taken")
	}
}

func FuzzValidJSON(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if strings.Count(string(b), "[")+strings.Count(string(b), "{") > maxNesting {
			return // deeper than records take
		}
		if got, want := validJSON(b), json.Valid(b); got != want {
			t.Errorf("%q: %v, want %v", b, got, want)
		}
	})
}

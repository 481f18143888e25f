package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"the example of RFC 8785",
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"names by UTF-16", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4}`, "{\"1\":4,\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		{"minus zero", `-0`, `0`},
		{"an empty string stays", `{"content":""}`, `{"content":""}`},
		{"null stays", `{"a":null}`, `{"a":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Canonical([]byte(tc.in))
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":                  ``,
		"a duplicate name":         `{"a":1,"a":2}`,
		"a duplicate escaped name": `{"a":1,"\u0061":2}`,
		"bad UTF-8":                "\"\xff\"",
		"trailing data":            `{} {}`,
		"a lone surrogate":         `"\ud800"`,
		"a number out of range":    `1e400`,
		"a comma too many":         `[1,]`,
		"a leading zero":           `01`,
		"a comment":                `{}//`,
	} {
		if got, err := Canonical([]byte(in)); err == nil {
			t.Errorf("%s was accepted: %s", name, got)
		}
	}
}

func TestSafeNumbers(t *testing.T) {
	for _, tc := range []struct{ in, pointer, canonical string }{
		{`9007199254740993`, "", "9007199254740992"},
		{`{"a":[1,{"b/c~d":-9007199254740993}],"e":9007199254740993}`, "/a/1/b~1c~0d", "-9007199254740992"},
		{`[0.1,1.00000000000000000001]`, "/1", "1"},
		{`1e400`, "", ""},
		{`1e-400`, "", "0"},
		{`1e99999999999999999999`, "", ""},
		{`0.1000000000000000055511151231257827`, "", "0.1"},
		{`123456789012345678901`, "", "123456789012345680000"},
	} {
		err := SafeNumbers([]byte(tc.in))
		var unsafe *UnsafeNumber
		if !errors.As(err, &unsafe) || !errors.Is(err, ErrNumberUnsafe) {
			t.Errorf("%s gives %v, want number_unsafe", tc.in, err)
			continue
		}
		if unsafe.Pointer != tc.pointer || unsafe.Canonical != tc.canonical {
			t.Errorf("%s: %+v, want pointer %q and %q", tc.in, unsafe, tc.pointer, tc.canonical)
		}
	}
	for _, in := range []string{`0`, `-0`, `0.0`, `0e5`, `0e99999999999999999999`, `1.50`, `15e-1`, `0.015e2`, `1E+2`, `9007199254740992`, `1e21`, `0.1`, `-1e-7`,
		`100000000000000000000000`, `1.7976931348623157e308`, `5e-324`, `"9007199254740993"`, `{"9007199254740993":[]}`} {
		if err := SafeNumbers([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	if err := SafeNumbers([]byte(`{`)); err == nil || errors.Is(err, ErrNumberUnsafe) {
		t.Errorf("what is no JSON gives %v", err)
	}
}

// Against exact rational arithmetic.
func TestSafeNumbersIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?`).Draw(t, "number")
		canonical, err := Canonical([]byte(literal))
		if err != nil {
			t.Fatal(err)
		}
		written, _ := new(big.Rat).SetString(literal)
		becomes, _ := new(big.Rat).SetString(string(canonical))
		if want, got := written.Cmp(becomes) == 0, SafeNumbers([]byte(literal)) == nil; got != want {
			t.Fatalf("%s becomes %s: safe is %v, want %v", literal, canonical, got, want)
		}
	})
}

// FuzzCanonical: canonical form is a fixed point and means the same.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.50,"\u00e9",null]}`, `"\ud83d\ude00"`, `-0`, `[[],{}]`, `{"a":{"a":{}}}`, `1e21`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Canonical(in)
		if err != nil {
			return
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not a fixed point: %s, %s, %v", once, twice, err)
		}
		var a, b any
		if err := json.Unmarshal(in, &a); err != nil {
			t.Fatalf("encoding/json refuses what was accepted: %v", err)
		}
		if err := json.Unmarshal(once, &b); err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%q became %q: %v", in, once, err)
		}
	})
}

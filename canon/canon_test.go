package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestForm(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"the example of RFC 8785",
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{"names by UTF-16", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4}`, "{\"1\":4,\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		{"minus zero", `-0`, `0`},
		{"the numbers of RFC 8785, appendix B",
			`[5e-324,-5e-324,1.7976931348623157e308,9007199254740992,295147905179352830000,9.999999999999997e22,1e23,1.0000000000000001e23,
			  999999999999999700000,999999999999999900000,1e21,9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333]`,
			`[5e-324,-5e-324,1.7976931348623157e+308,9007199254740992,295147905179352830000,9.999999999999997e+22,1e+23,1.0000000000000001e+23,` +
				`999999999999999700000,999999999999999900000,1e+21,9.999999999999997e-7,0.000001,333333333.3333332,333333333.33333325,-0.0000033333333333333333]`},
		{"other spellings of numbers", `[1.0,1E-7,100e-2,0.10,-0.0,1e-400,12345678901234567890,1E+2]`, `[1,1e-7,1,0.1,0,0,12345678901234567000,100]`},
		{"controls and what needs no escape", `"\u0001\u001f\u007f\u2028\u003c\u003e\u0026"`, "\"\\u0001\\u001f\u007f\u2028<>&\""},
		{"an empty string stays", `{"content":""}`, `{"content":""}`},
		{"null stays", `{"a":null}`, `{"a":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Form([]byte(tc.in))
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestFormRefuses(t *testing.T) {
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
		if got, err := Form([]byte(in)); err == nil {
			t.Errorf("%s was accepted: %s", name, got)
		}
	}
}

func TestExact(t *testing.T) {
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
		_, err := Exact([]byte(tc.in))
		var unsafe *UnsafeNumber
		if !errors.As(err, &unsafe) {
			t.Errorf("%s gives %v, want number_unsafe", tc.in, err)
			continue
		}
		if unsafe.Pointer != tc.pointer || unsafe.Canonical != tc.canonical {
			t.Errorf("%s: %+v, want pointer %q and %q", tc.in, unsafe, tc.pointer, tc.canonical)
		}
	}
	for _, in := range []string{`0`, `-0`, `0.0`, `0e5`, `0e99999999999999999999`, `1.50`, `15e-1`, `0.015e2`, `1E+2`, `9007199254740992`, `1e21`, `0.1`, `-1e-7`,
		`100000000000000000000000`, `1.7976931348623157e308`, `5e-324`, `"9007199254740993"`, `{"9007199254740993":[]}`} {
		if _, err := Exact([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	var unsafe *UnsafeNumber
	if _, err := Exact([]byte(`{`)); err == nil || errors.As(err, &unsafe) {
		t.Errorf("what is no JSON gives %v", err)
	}
}

func TestUnsafeNumbersSayWhatBecomesOfThem(t *testing.T) {
	for in, want := range map[string]string{
		`9007199254740993`: `9007199254740993 at "" would become 9007199254740992; write it as a string`,
		`[1e400]`:          `1e400 at "/0" is out of range; write it as a string`,
	} {
		if _, err := Exact([]byte(in)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestPointersOfLaterNumbers(t *testing.T) {
	for in, want := range map[string]string{`{"a":1,"b":9007199254740993}`: "/b", `[[1],9007199254740993]`: "/1", `{"a":{"b":[1,2]},"c":[0,9007199254740993]}`: "/c/1"} {
		var unsafe *UnsafeNumber
		if _, err := Exact([]byte(in)); !errors.As(err, &unsafe) || unsafe.Pointer != want {
			t.Errorf("%s: %v, want it at %s", in, err, want)
		}
	}
}

// Against exact rational arithmetic.
func TestExactIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?`).Draw(t, "number")
		canonical, err := Form([]byte(literal))
		if err != nil {
			t.Fatal(err)
		}
		written, _ := new(big.Rat).SetString(literal)
		becomes, _ := new(big.Rat).SetString(string(canonical))
		_, err = Exact([]byte(literal))
		if want, got := written.Cmp(becomes) == 0, err == nil; got != want || SafeNumber(literal) != want {
			t.Fatalf("%s becomes %s: safe is %v, want %v", literal, canonical, got, want)
		}
	})
}

// FuzzForm: canonical form is a fixed point and means the same.
func FuzzForm(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1.50,"\u00e9",null]}`, `"\ud83d\ude00"`, `-0`, `[[],{}]`, `{"a":{"a":{}}}`, `1e21`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := Form(in)
		if err != nil {
			return
		}
		twice, err := Form(once)
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

func TestNumbersKeepTheirValue(t *testing.T) {
	for literal, want := range map[string]bool{
		"0": true, "-0": true, "0.0e9": true, "1": true, "1.0": true, "100e-2": true, "0.1": true, "1e21": true, "1e308": true,
		"5e-324": true, "9007199254740992": true, "9007199254740993": false, "9007199254740994": true,
		"0.10000000000000001": false, "1e309": false, "-1e309": false, "1e-400": false, "0e99999999999999999999": true,
		"1e99999999999999999999": false, "1e-99999999999999999999": false, "123456789.123456789": false, "123456789.1234567": true, "4.35": true,
		"100000000000000000000000": true, "123456789012345678901234": false,
	} {
		if got := SafeNumber(literal); got != want {
			t.Errorf("SafeNumber(%s) = %v", literal, got)
		}
	}
}

// Texts in records are written as encoding/json would, and canonical ones without its
// escapes for JavaScript.
func TestStrings(t *testing.T) {
	for s, want := range map[string][2]string{
		"plain <&>":          {`"plain <&>"`, `"plain <&>"`},
		"\x00\b\f\n\r\t\x1f": {`"\u0000\b\f\n\r\t\u001f"`, `"\u0000\b\f\n\r\t\u001f"`},
		"\"\\/\x7fé😀":        {"\"\\\"\\\\/\x7fé😀\"", "\"\\\"\\\\/\x7fé😀\""},
		"\u2028\u2029":       {`"\u2028\u2029"`, "\"\u2028\u2029\""},
		"a\xffb":             {`"a\ufffdb"`, "\"a\ufffdb\""},
	} {
		if got := AppendText([]byte("x"), s); string(got) != "x"+want[0] {
			t.Errorf("text of %q: %s, want %s", s, got, want[0])
		}
		if got := AppendString([]byte("x"), s); string(got) != "x"+want[1] {
			t.Errorf("string of %q: %s, want %s", s, got, want[1])
		}
	}
}

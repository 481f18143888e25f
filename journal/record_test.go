package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAppendTo(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 60, time.FixedZone("", 3600))
	for _, tc := range []struct {
		name string
		rec  Record
		want string
	}{
		{"the least", Record{At: at, Kind: "run.started", Run: "R", Seq: 1},
			`{"at":"2026-01-02T02:04:05.000000060Z","body":{},"kind":"run.started","path":"","run":"R","seq":1,"v":1}`},
		{"the most", Record{At: at, Body: []byte(`{"b": 1,"a":[]}`), Epoch: 4, Kind: "plan.step", N: 2, Note: true, Path: "root/a#1", Run: "R", Seq: 12},
			`{"at":"2026-01-02T02:04:05.000000060Z","body":{"b": 1,"a":[]},"epoch":4,"kind":"plan.step","n":2,"note":true,"path":"root/a#1","run":"R","seq":12,"v":1}`},
		{"text that needs escapes", Record{At: at, Kind: "k", Path: "a\"\\\n\x01\u007fé", Run: "R", Seq: 1},
			`{"at":"2026-01-02T02:04:05.000000060Z","body":{},"kind":"k","path":"a\"\\\n\u0001` + "\u007f" + `é","run":"R","seq":1,"v":1}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(tc.rec.AppendTo(nil)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestPlainRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Float64())).Draw(t, "body"))
		if err != nil {
			t.Skip("not a number of JSON")
		}
		want := Record{
			At:    time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC(),
			Body:  body,
			Epoch: rapid.Int64Range(0, maxInt).Draw(t, "epoch"),
			Kind:  rapid.StringMatching(`[a-z]+\.[a-z]+x`).Draw(t, "kind"),
			N:     rapid.IntRange(0, 1000).Draw(t, "n"),
			Note:  rapid.Bool().Draw(t, "note"),
			Path:  rapid.String().Draw(t, "path"),
			Run:   rapid.String().Draw(t, "run"),
			Seq:   rapid.Int64Range(1, maxInt).Draw(t, "seq"),
		}
		b := want.AppendTo(nil)
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	const at = `"at":"2026-01-02T03:04:05.000000006Z"`
	rest := func(s string) string { return `{` + at + `,"body":{}` + s }
	const tail = `,"kind":"k","path":"","run":"R","seq":1,"v":1}`
	for _, tc := range []struct {
		name, in string
		want     FaultCode
	}{
		{"nothing", ``, ErrMalformed},
		{"an array", `[]`, ErrMalformed},
		{"an empty object", `{}`, ErrFieldMissing},
		{"an open object", `{`, ErrMalformed},
		{"cut off", rest(`,"kind":"k"`), ErrMalformed},
		{"a comma too many", rest(`,"kind":"k","path":"","run":"R","seq":1,"v":1,}`), ErrMalformed},
		{"white space before", " " + rest(tail), ErrMalformed},
		{"white space after", rest(tail) + " ", ErrMalformed},
		{"white space before the body", `{` + at + `,"body": {}` + tail, ErrMalformed},
		{"a line feed in the body", "{" + at + `,"body":{` + "\n" + `}` + tail, ErrMalformed},
		{"bad UTF-8", "{" + at + `,"body":{"a":"` + "\xff" + `"}` + tail, ErrMalformed},
		{"a body that is no JSON", `{` + at + `,"body":{a:1}` + tail, ErrMalformed},
		{"a body that is NaN", `{` + at + `,"body":NaN` + tail, ErrMalformed},
		{"a member twice", rest(`,"kind":"k","kind":"k","path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"an escaped name", rest(`,"k\u0069nd":"k","path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"a needless escape", rest(`,"kind":"\u006b","path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"a lone surrogate", rest(`,"kind":"k","path":"\ud800","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"a kind that is no string", rest(`,"kind":1,"path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"epoch zero", rest(`,"epoch":0` + tail), ErrMalformed},
		{"n zero", rest(`,"kind":"k","n":0,"path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"note false", rest(`,"kind":"k","note":false,"path":"","run":"R","seq":1,"v":1}`), ErrMalformed},
		{"seq zero", rest(`,"kind":"k","path":"","run":"R","seq":0,"v":1}`), ErrMalformed},
		{"seq negative", rest(`,"kind":"k","path":"","run":"R","seq":-1,"v":1}`), ErrMalformed},
		{"seq with a point", rest(`,"kind":"k","path":"","run":"R","seq":1.0,"v":1}`), ErrMalformed},
		{"seq with an exponent", rest(`,"kind":"k","path":"","run":"R","seq":1e0,"v":1}`), ErrMalformed},
		{"seq beyond exact numbers", rest(`,"kind":"k","path":"","run":"R","seq":9007199254740992,"v":1}`), ErrMalformed},
		{"seq as text", rest(`,"kind":"k","path":"","run":"R","seq":"1","v":1}`), ErrMalformed},
		{"v as text", rest(`,"kind":"k","path":"","run":"R","seq":1,"v":"1"}`), ErrMalformed},
		{"v two", rest(`,"kind":"k","path":"","run":"R","seq":1,"v":2}`), ErrVersion},
		{"v zero", rest(`,"kind":"k","path":"","run":"R","seq":1,"v":0}`), ErrVersion},
		{"v in another spelling", rest(`,"kind":"k","path":"","run":"R","seq":1,"v":1.0}`), ErrVersion},
		{"version before what is missing", rest(`,"kind":"k","run":"R","seq":1,"v":2}`), ErrVersion},
		{"no v", rest(`,"kind":"k","path":"","run":"R","seq":1}`), ErrFieldMissing},
		{"no kind", rest(`,"path":"","run":"R","seq":1,"v":1}`), ErrFieldMissing},
		{"no body", `{` + at + tail, ErrFieldMissing},
		{"eight decimals", `{"at":"2026-01-02T03:04:05.00000006Z","body":{}` + tail, ErrMalformed},
		{"an offset", `{"at":"2026-01-02T03:04:05.0000006+00","body":{}` + tail, ErrMalformed},
		{"a thirtieth of February", `{"at":"2026-02-30T03:04:05.000000006Z","body":{}` + tail, ErrMalformed},
		{"a leap second", `{"at":"2026-02-20T23:59:60.000000006Z","body":{}` + tail, ErrMalformed},
		{"hour 24", `{"at":"2026-02-20T24:00:00.000000000Z","body":{}` + tail, ErrMalformed},
		{"a time that is a number", `{"at":1,"body":{}` + tail, ErrMalformed},
		{"an envelope without its members", rest(`,"kind":"intent.fail","path":"","run":"R","seq":1,"v":1}`), ErrFieldMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Parse([]byte(tc.in)); !errors.Is(err, tc.want) {
				t.Errorf("%s\ngives %v, want %s", tc.in, err, tc.want)
			}
		})
	}
}

func TestParseAcceptsALeapDay(t *testing.T) {
	r, err := Parse([]byte(`{"at":"2028-02-29T23:59:59.999999999Z","body":{ "a" : 1 },"kind":"k","path":"","run":"R","seq":1,"v":1}`))
	if err != nil || !r.At.Equal(time.Date(2028, 2, 29, 23, 59, 59, 999999999, time.UTC)) || string(r.Body) != `{ "a" : 1 }` {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzParse: what is accepted has one spelling: written again, it is the same.
func FuzzParse(f *testing.F) {
	b, _ := wholeRun(f)
	for _, r := range b.records {
		if len(r) < 4096 {
			f.Add(r)
		}
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"at":"2026-01-02T03:04:05.000000006Z","body":[1,{"a":"\u00e9"}],"epoch":1,"kind":"k","n":1,"note":true,"path":"a\"b","run":"R","seq":1,"v":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := Parse(in)
		if err != nil {
			var code FaultCode
			if !errors.As(err, &code) {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if !json.Valid(in) {
			t.Fatalf("accepted what is no JSON: %q", in)
		}
		out := r.AppendTo(nil)
		if IsEnvelope(r.Kind) {
			out = respell(r)
		}
		if !bytes.Equal(in, out) {
			t.Fatalf("two spellings:\n%s\n%s", in, out)
		}
	})
}

// respell writes an envelope from its parts, with whatever sig it had.
func respell(r Record) []byte {
	out := r.appendUnsigned(nil)
	if r.Sig == "" {
		return out
	}
	out = appendText(out[:len(out)-len(recordEnd)], `,"sig":`, r.Sig)
	return append(out, recordEnd...)
}
